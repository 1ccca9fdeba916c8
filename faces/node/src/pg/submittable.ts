import type { Outcome } from '../engine/choices'
import type { Connection } from './connect'
import { tellOutcome } from './error'
import { guarded, type Callback } from './request'
import type {
  CommandCompleteMessage,
  CopyDataMessage,
  DataRowMessage,
  RowDescriptionMessage,
} from './wire-read'

/**
 * A query that runs itself on a connection, such as a cursor or a COPY: it sends messages, and is
 * told the server's. It has the connection to itself from `submit` until the server is ready for
 * the next query. Methods for messages that it never gets may be missing.
 */
export interface Submittable {
  /** Its turn has come. An error that is returned or thrown ends it. */
  submit(connection: Connection): unknown
  callback?: Callback | undefined
  handleError?(error: Error, connection: Connection): unknown
  handleRowDescription?(message: RowDescriptionMessage): unknown
  handleDataRow?(message: DataRowMessage): unknown
  handlePortalSuspended?(connection: Connection): unknown
  handleEmptyQuery?(connection: Connection): unknown
  handleCommandComplete?(message: CommandCompleteMessage, connection: Connection): unknown
  handleCopyInResponse?(connection: Connection): unknown
  handleCopyData?(message: CopyDataMessage, connection: Connection): unknown
  handleReadyForQuery?(connection: Connection): unknown
}

/** Other fields that pg reads or sets in such a query. */
export interface SubmittableParts {
  /** The name of the statement that it prepares. */
  name?: string | undefined
  text?: string | undefined
  binary?: boolean | undefined
  query_timeout?: number | undefined
  _result?: { _types?: unknown } | undefined
}

/** The turn of a query that runs itself, from the call of `query` until its end. */
export class Turn {
  readonly query: Submittable & SubmittableParts
  readonly abort = undefined
  readonly #connection: Connection
  #timer: NodeJS.Timeout | undefined

  constructor(query: Submittable, connection: Connection) {
    this.query = query
    this.#connection = connection
  }

  /** Calls `expired` if it is not over after this many milliseconds; 0 for never. */
  limit(timeout: number, expired: () => void): void {
    if (timeout > 0) this.#timer = setTimeout(expired, timeout)
  }

  over(): void {
    clearTimeout(this.#timer)
  }

  /** Fails it in the next tick, when its caller has the return value. */
  fail(given: unknown, outcome: Outcome): void {
    this.over()
    process.nextTick(() => this.failNow(given, outcome))
  }

  failNow(error: unknown, outcome: Outcome): void {
    if (error instanceof Error) tellOutcome(error, outcome)
    const { query } = this
    unbolt(query)
    guarded(() => query.handleError?.(error as Error, this.#connection))
  }

  /** Calls its callback, once. */
  callBack(error: Error): void {
    const { query } = this
    const { callback } = query
    query.callback = (): void => {}
    if (callback) guarded(() => callback.call(query, error))
  }

  /**
   * Whether it was destroyed before its turn: it would take the connection, and never give it back.
   */
  get isGone(): boolean {
    return 'closed' in this.query && this.query.closed === true
  }
}

/**
 * pg-cursor ignores errors once it is `done`, which it is while its last rows wait for
 * ReadyForQuery. If the commit or the connection failed then, its reader would wait for ever.
 */
function unbolt(query: Submittable & { cursor?: unknown }): void {
  const { state, _cb, _queue } = (query.cursor ?? query) as CursorParts
  if (state !== 'done' || !(_cb || _queue?.length)) return
  ;((query.cursor ?? query) as CursorParts).state = 'busy'
}

/** Internals of pg-cursor. */
interface CursorParts {
  state?: string
  /** The callback of the read that waits. */
  _cb?: unknown
  /** The reads behind that one. */
  _queue?: readonly unknown[]
}

export function timeoutError(): Error {
  return new Error('Query read timeout')
}
