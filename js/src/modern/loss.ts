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

/** What time alone does not mend: who we are, and what there is. */
export function isPermanent({ code }: PostgresError): boolean {
  return /^(?:28|3D|login$|password$|config$)/.test(code)
}

/** Before anybody knows more. */
export const LOST = new PostgresError('connection_lost', 'Unknown', 'the connection was lost')
