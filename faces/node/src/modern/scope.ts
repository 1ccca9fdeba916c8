import type { PostgresError } from './error'
import type { Statement } from './statement'

/** Where a statement is sent. */
export interface Scope {
  _submit(statement: Statement): void
  /** It is not to be sent any more: it waits, for a connection or for its time to come. */
  _takeBack(statement: Statement): void
  /** Its time was over while it waited: what is known of what it waited for. */
  _late?(error: PostgresError): PostgresError
  /** It was sent, and may be sent a second time if its answer is late. */
  _hedge?(statement: Statement): void
  /** Sends it again, in a while, if that may be. */
  _again?(statement: Statement, error: PostgresError): boolean
}

/** Another try of the same statement, whose answer may come first. */
export interface Second {
  isOver: boolean
}

/** Who wants to hear of an end before its caller does. Whether it tells the caller, too. */
export interface Keeper {
  _ended(statement: Statement, error: PostgresError | undefined): boolean
}
