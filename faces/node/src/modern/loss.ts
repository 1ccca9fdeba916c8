import { memory } from '../engine/memory'
import { again, PostgresError } from './error'

export function lost(message: string, cause?: unknown): PostgresError {
  return new PostgresError(
    'connection_lost',
    'Unknown',
    `the connection was lost: ${message}`,
    cause,
  )
}

/** The error of a connection that the server ended with an error message. */
export function closedBy(error: PostgresError): PostgresError {
  const message = `the connection was lost: ${error.message}`
  return new PostgresError('connection_lost', 'Unknown', message, error)
}

/** The error of an attempt to connect: `cause` if it is one of ours. Nothing of a caller's was sent. */
export function unreached(what: string, cause: (Error & { code?: string }) | undefined): PostgresError {
  if (cause instanceof PostgresError)
    return cause.outcome === 'NotSent' ? cause : again(cause, 'NotSent')
  const why = cause?.message || cause?.code || 'the server closed the connection'
  return new PostgresError('connect_failed', 'NotSent', `${what}: ${why}`, cause)
}

/** Whether an error of the program would also fail every later login, so that no caller should wait. */
export function isPermanent({ code }: PostgresError): boolean {
  return /^(?:password|config)$/.test(code)
}

/** The same for an ErrorResponse in memory. */
export function isFinalRefusal(start: number, end: number): boolean {
  return memory.engine.onetrip_postgres_may_mend(start, end - start) === 0
}

/** The error of a lost connection while no better reason is known. */
export const LOST = new PostgresError('connection_lost', 'Unknown', 'the connection was lost')
