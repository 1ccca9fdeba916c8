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
export function closedBy(error: PostgresError, isReady: boolean): PostgresError {
  if (!isReady) return error
  const message = `the connection was lost: ${error.message}`
  return new PostgresError('connection_lost', 'Unknown', message, error)
}

/** Why no connection came about, unless that is known already. */
export function unreached(what: string, cause: (Error & { code?: string }) | undefined): PostgresError {
  if (cause instanceof PostgresError) return cause
  const why = cause?.message || cause?.code || 'the server closed the connection'
  return new PostgresError('connect_failed', 'NotSent', `${what}: ${why}`, cause)
}

/**
 * Whether time alone does not mend it, so that nobody is to wait for another attempt. That is all
 * that a server says but what holds for now.
 */
export function isPermanent({ code, message }: PostgresError): boolean {
  if (/^(?:login|password|config)$/.test(code)) return true
  return SQLSTATE.test(code) && (!FOR_NOW.test(code) || OF_POOLER.test(message))
}

const SQLSTATE = /^[0-9A-Z]{5}$/

/**
 * A pooler has no connection (08), a conflict (40), too little of something (53), a lock (55P03),
 * the server starts or stops (57), its system fails (58, but 58P01: a file that a setting names is
 * not there), or it itself (XX).
 */
const FOR_NOW = /^(?:08|40|53|55P03|57|58(?!P01)|XX)/

/** PgBouncer has one code for whatever it refuses. */
const OF_POOLER = /^unsupported startup parameter/

/** Before anybody knows more. */
export const LOST = new PostgresError('connection_lost', 'Unknown', 'the connection was lost')
