import { End, Refused, type Outcome } from '../engine/exports'
import { memory } from '../engine/memory'
import { databaseError, type DatabaseError } from '../pg/error'

/** What the server said about an error, by the names that its documentation has for it. */
export interface ServerFields {
  severity?: string | undefined
  detail?: string | undefined
  hint?: string | undefined
  position?: number | undefined
  where?: string | undefined
  schema?: string | undefined
  table?: string | undefined
  column?: string | undefined
  dataType?: string | undefined
  constraint?: string | undefined
}

/** What failed, in one line, and what is known of its effect. */
export class PostgresError extends Error {
  override readonly name = 'PostgresError'
  /**
   * SQLSTATE where the server reported the error, otherwise a word such as `timeout` or
   * `connection_lost`.
   */
  readonly code: string
  /**
   * `NotSent`: no byte of it was sent. `Rejected`: the server answered that it has no effect.
   * `Applied`: it took effect, and only reading the answer failed. `Unknown`: it was sent, and may
   * have run.
   */
  outcome: Outcome
  /** SQLSTATE of the error of the server that this is or comes from. */
  readonly sqlstate: string | undefined
  declare severity?: string
  declare detail?: string
  declare hint?: string
  /** Where in the text of the statement, in characters from 1. */
  declare position?: number
  declare where?: string
  declare schema?: string
  declare table?: string
  declare column?: string
  declare dataType?: string
  declare constraint?: string
  /** Which statement of a pipeline failed, from 0. */
  declare statement?: number
  /**
   * The text of the statement, without its values. Not enumerable: it may hold what logs should
   * not.
   */
  declare readonly query?: string

  constructor(code: string, outcome: Outcome, message: string, cause?: unknown, sqlstate?: string) {
    super(oneLine(message), cause === undefined ? undefined : { cause })
    this.code = code
    this.outcome = outcome
    this.sqlstate = sqlstate ?? (cause instanceof PostgresError ? cause.sqlstate : undefined)
  }

  /** Says of which statement it is, unless that is known. */
  about(query: string): this {
    if (this.query === undefined) {
      Object.defineProperty(this, 'query', { value: query, configurable: true, enumerable: false })
    }
    return this
  }
}

/** The error of an ErrorResponse in memory. */
export function serverError(start: number, end: number, outcome: Outcome): PostgresError {
  const said = databaseError(start, end)
  const code = said.code ?? 'server_error'
  const error = new PostgresError(code, outcome, `${said.message} (${code})`, undefined, said.code)
  for (const name of FIELDS) if (said[name] !== undefined) error[name] = said[name]
  if (said.position !== undefined) error.position = Number(said.position)
  return error
}

/** The same of one that is not in the module's memory. */
export function serverErrorOf(message: Buffer, outcome: Outcome): PostgresError {
  return memory.lend(message, (start) => serverError(start, start + message.length, outcome))
}

/** The same failure, told to another one who waits: each has an outcome of its own. */
export function again(error: PostgresError, outcome: Outcome): PostgresError {
  const { code, message, sqlstate, cause } = error
  const copy = new PostgresError(code, outcome, message, cause, sqlstate)
  for (const name of FIELDS) if (error[name] !== undefined) copy[name] = error[name]
  return copy
}

/** What the caller did wrong. Nothing was sent. */
export function misuse(code: string, message: string): PostgresError {
  return new PostgresError(code, 'NotSent', message)
}

/** Why the engine did not take a request. */
export function refused(place: number): PostgresError {
  if (place === Refused.FULL)
    return misuse('queue_full', 'too many statements wait on this connection')
  if (place === Refused.CLOSED)
    return misuse('connection_lost', 'the connection was gone before the statement was sent')
  return misuse('unencodable', 'the statement has a zero byte in its text, or is too large')
}

/** Why a request ended, where it was not by an error of the server or with its connection. */
export function ended(how: number, outcome: Outcome): PostgresError {
  if (how === End.ABORTED) {
    const message = 'skipped, since an earlier statement of the same pipeline or transaction failed'
    return new PostgresError('aborted', outcome, message)
  }
  return new PostgresError('cancelled', outcome, 'the statement was taken back')
}

/** Failures after which the same transaction may succeed. */
export function isConflict(error: unknown): boolean {
  const { sqlstate } = (error ?? {}) as { sqlstate?: string }
  return sqlstate === '40001' || sqlstate === '40P01'
}

function oneLine(message: string): string {
  return message.includes('\n') ? message.replace(/\s*[\r\n]\s*/g, ' ') : message
}

const FIELDS = [
  'severity',
  'detail',
  'hint',
  'where',
  'schema',
  'table',
  'column',
  'dataType',
  'constraint',
] as const satisfies readonly (keyof DatabaseError & keyof PostgresError)[]
