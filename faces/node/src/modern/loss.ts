import { memory } from '../engine/memory'
import { PostgresError } from './error'

export function lost(message: string, cause?: unknown): PostgresError {
  return new PostgresError(
    'connection_lost',
    'Unknown',
    `the connection was lost: ${message}`,
    cause,
  )
}

/** What the server said when it ended the connection. */
export function closedBy(error: PostgresError): PostgresError {
  const message = `the connection was lost: ${error.message}`
  return new PostgresError('connection_lost', 'Unknown', message, error)
}

/** Why no connection came about, unless that is known already. */
export function unreached(what: string, cause: (Error & { code?: string }) | undefined): PostgresError {
  if (cause instanceof PostgresError) return cause
  const why = cause?.message || cause?.code || 'the server closed the connection'
  return new PostgresError('connect_failed', 'NotSent', `${what}: ${why}`, cause)
}

/** Whether what this side says of a login is said of the next as well: nobody is to wait for that. */
export function isPermanent({ code }: PostgresError): boolean {
  return /^(?:login|password|config)$/.test(code)
}

/** The same of what the server said, in memory. */
export function isFinalRefusal(start: number, end: number): boolean {
  return memory.engine.onetrip_postgres_may_mend(start, end - start) === 0
}

/** Before anybody knows more. */
export const LOST = new PostgresError('connection_lost', 'Unknown', 'the connection was lost')
