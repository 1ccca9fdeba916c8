// Makes errors of the ends that the engine reports.

import { OUTCOMES, type Outcome } from '../engine/choices'
import { End, Refused } from '../engine/exports'
import { memory, NO_MEMORY } from '../engine/memory'
import {
  ABORTED,
  CANCELLED,
  CANCELLED_REJECTED,
  LATE,
  LATE_REJECTED,
  LATE_UNSENT,
  QUEUE_FULL,
  type Said,
  TOO_LONG,
  UNCONFIRMED,
  UNENCODABLE,
  WITHDRAWN,
} from '../engine/said'
import { databaseError } from '../pg/report'
import { again, FIELDS, misuse, PostgresError } from './error'
import { LOST } from './loss'

/** The error of an ErrorResponse in memory. */
export function serverError(start: number, end: number, outcome: Outcome): PostgresError {
  const said = databaseError(start, end)
  const code = said.code ?? 'server_error'
  const reason = said.message === '' ? 'the server gave no reason' : said.message
  const error = new PostgresError(code, outcome, `${reason} (${code})`, undefined, said.code)
  for (const name of FIELDS) if (said[name] !== undefined) error[name] = said[name]
  if (said.position !== undefined) error.position = Number(said.position)
  return error
}

/** Why the engine did not take a request. `why` is the error of its connection, if it has ended. */
export function refused(place: number, why = LOST): PostgresError {
  if (place === Refused.FULL) return unsent(QUEUE_FULL)
  if (place === Refused.CLOSED) {
    const reason = why === LOST ? '' : `: ${why.message}`
    return misuse('connection_lost', `the connection was gone before the statement was sent${reason}`)
  }
  if (place === Refused.NO_MEMORY) return misuse('no_memory', NO_MEMORY)
  return unsent(place === Refused.TOO_LONG ? TOO_LONG : UNENCODABLE)
}

function unsent({ code, text }: Said): PostgresError {
  return misuse(code, text)
}

/**
 * The error of a request that ended in the way `how`; undefined if it succeeded. `why` is the error
 * of its connection.
 */
export function endError(
  why: PostgresError,
  how: number,
  outcome: number,
  start: number,
  end: number,
): PostgresError | undefined {
  const known = OUTCOMES[outcome] ?? 'Unknown'
  if (how <= End.PROVISIONAL) return undefined
  if (how === End.SERVER) return serverError(start, end, known)
  if (how === End.BEGIN) return about('BEGIN', serverError(start, end, known))
  if (how === End.SAVEPOINT) return about('SAVEPOINT', serverError(start, end, known))
  if (how === End.ROLLED_BACK) return rolledBack(start, end, known)
  return how === End.CLOSED ? again(why, known) : ended(how, known)
}

function about(what: string, error: PostgresError): PostgresError {
  error.message = `${what}: ${error.message}`
  return error
}

/** The error in memory is a text that ends with a zero byte, and then the ErrorResponse, if any. */
function rolledBack(start: number, end: number, outcome: Outcome): PostgresError {
  const at = memory.bytes.indexOf(0, start) + 1
  const text = memory.text(start, at - 1)
  if (at === end) return new PostgresError('rolled_back', outcome, text)
  const cause = serverError(at, end, outcome)
  return new PostgresError('rolled_back', outcome, `${text}: ${cause.message}`, cause)
}

/** The error of a request that neither the server nor the end of its connection failed. */
export function ended(how: number, outcome: Outcome): PostgresError {
  const { code, text } = saidOf(how, outcome)
  return new PostgresError(code, outcome, text)
}

function saidOf(how: number, outcome: Outcome): Said {
  if (how === End.ABORTED) return ABORTED
  if (how === End.UNCONFIRMED) return UNCONFIRMED
  if (how === End.DEADLINE) return late(outcome)
  if (outcome === 'NotSent') return WITHDRAWN
  return outcome === 'Rejected' ? CANCELLED_REJECTED : CANCELLED
}

function late(outcome: Outcome): Said {
  if (outcome === 'NotSent') return LATE_UNSENT
  return outcome === 'Rejected' ? LATE_REJECTED : LATE
}
