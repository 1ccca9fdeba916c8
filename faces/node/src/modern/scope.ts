import type { PostgresError } from './error'
import type { Statement } from './statement'

/** The place where a statement is sent: a pool, a session, a transaction or a pipeline. */
export interface Scope {
  _submit(statement: Statement): void
  /** Removes a statement that waits, for a connection or for its next attempt. */
  _takeBack(statement: Statement): void
  /** The error of a statement whose deadline passed while it waited for a connection. */
  _late?(error: PostgresError): PostgresError
  /** The statement was sent, and may be sent a second time if its answer is late. */
  _hedge?(statement: Statement): void
  /** Whether a statement is submitted anew that was not sent before its connection ended. */
  _goesOn?(statement: Statement): boolean
  /** The queue of its connection is full: it gets in line. Returns whether it does. */
  _waits?(statement: Statement): boolean
  /** Sends a statement again after a pause, if that is allowed. Returns whether it will be. */
  _again?(statement: Statement, error: PostgresError): boolean
}

/** The second attempt of a hedged statement. */
export interface Second {
  isOver: boolean
}

/**
 * Is told of the end of a statement before its caller is. `_ended` returns true if the keeper tells
 * the caller itself, later.
 */
export interface Keeper {
  _ended(statement: Statement, error: PostgresError | undefined): boolean
  /** The error is one of a statement of it. */
  _marks?(error: PostgresError): void
}
