import { Close } from '../engine/exports'
import { memory, reason } from '../engine/memory'
import type { Server } from './config'
import { fromText, misuse, RedisError } from './error'
import { nameOf } from './open'

/**
 * The error of a connection that the engine ended; undefined if only the socket knows the reason.
 */
export function endOf(
  server: Server,
  why: number,
  isFinal: boolean,
  text: string,
): RedisError | undefined {
  const name = nameOf(server)
  if (why === Close.SERVER) {
    const { code, message } = fromText(text.replace(/^[-!]/, '').trimEnd(), 'NotSent')
    return new RedisError(`${name} refused the connection: ${message}`, code, 'NotSent')
  }
  if (why === Close.OTHER_ROLE) return new RedisError(`${name} ${text}`, 'other_role', 'NotSent')
  if (why === Close.LOGIN) {
    return new RedisError(`${name}: ${text}`, isFinal ? 'not_redis' : 'connect_failed', 'NotSent')
  }
  if (why === Close.VIOLATION) {
    return new RedisError(`${name} broke the protocol: ${text}`, 'protocol_violation', 'Unknown')
  }
  const code = CODES[why]
  return code === undefined ? undefined : new RedisError(`${name}: ${text}`, code, 'Unknown')
}

const CODES: { readonly [why: number]: string } = {
  [Close.STALLED]: 'stalled',
  [Close.NO_MEMORY]: 'no_memory',
  [Close.LOST]: 'connection_lost',
}

/** The error of a call on a connection that this program has closed. */
export function closed(): RedisError {
  return new RedisError('the connection was closed by this program', 'closed', 'NotSent')
}

/** The error of a connection whose server has another role by now. */
export function left(): RedisError {
  return new RedisError('Sentinels name another server by now', 'connection_lost', 'Unknown')
}

/** The error of a connection that was lost. */
export function lost(server: Server, cause?: Error): RedisError {
  const why = cause === undefined ? 'the server closed it' : cause.message
  const message = `the connection to ${nameOf(server)} was lost: ${why}`
  return new RedisError(message, 'connection_lost', 'Unknown', undefined, cause)
}

/** The error of a connection whose server does not answer the login. */
export function silent(server: Server): RedisError {
  return new RedisError(
    `${nameOf(server)} did not answer the login in time (connectTimeout)`,
    'connect_timeout',
    'NotSent',
  )
}

/** The error of a command for which the module has no memory, or when the module has failed. */
export function noMemory(command: string): RedisError {
  const { isLost } = memory
  const why = reason(isLost ? Close.LOST : Close.NO_MEMORY, 0, 0)
  return misuse(isLost ? 'connection_lost' : 'no_memory', `${command} was not sent: ${why}`, command)
}
