import type { Outcome } from '../engine/choices'
import type { DatabaseError } from '../pg/error'

/** The fields of an error of the server, by the names in PostgreSQL's documentation. */
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

/**
 * Why a statement failed: `message` is one line, and `outcome` says what is known of its effect.
 */
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
  /** The SQLSTATE of the server's error, if the server reported this error or its cause. */
  readonly sqlstate: string | undefined
  declare severity?: string
  declare detail?: string
  declare hint?: string
  /** The place of the error in the text of the statement, in characters, counted from 1. */
  declare position?: number
  declare where?: string
  declare schema?: string
  declare table?: string
  declare column?: string
  declare dataType?: string
  declare constraint?: string
  /**
   * Which statement of a pipeline failed: its index in the list, zero-based. The message counts
   * statements from 1.
   */
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

  /** Sets `query`, unless it is set. */
  about(query: string): this {
    if (this.query === undefined) {
      Object.defineProperty(this, 'query', { value: query, configurable: true, enumerable: false })
    }
    return this
  }
}

/** A copy of an error with another outcome, for another caller that fails for the same reason. */
export function again(error: PostgresError, outcome: Outcome): PostgresError {
  const { code, message, sqlstate, cause } = error
  const copy = new PostgresError(code, outcome, message, cause, sqlstate)
  for (const name of FIELDS) if (error[name] !== undefined) copy[name] = error[name]
  return copy
}

/** An error of the caller, of which nothing was sent. */
export function misuse(code: string, message: string): PostgresError {
  return new PostgresError(code, 'NotSent', message)
}

function oneLine(message: string): string {
  return message.includes('\n') ? message.replace(/\s*[\r\n]\s*/g, ' ') : message
}

/** The fields of a server's error that are copied unchanged. */
export const FIELDS = [
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
