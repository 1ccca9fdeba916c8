import type { Outcome } from '../engine/exports'
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
 * A query that runs itself on a connection, such as a cursor or a COPY: it speaks the protocol, and is told what the
 * server says. It has the connection to itself from `submit` until the server is ready for the next query. What it does
 * not take need not be there.
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

/** What else pg looks at, and sets, in such a query. */
export interface SubmittableParts {
  /** A statement that it prepares under a name. */
  name?: string | undefined
  text?: string | undefined
  binary?: boolean | undefined
  query_timeout?: number | undefined
  _result?: { _types?: unknown } | undefined
}

/** A query that runs itself, from when it is asked for until it is over. */
export class Turn {
  readonly query: Submittable & SubmittableParts
  readonly abort = undefined
  readonly #connection: Connection
  #timer: NodeJS.Timeout | undefined

  constructor(query: Submittable, connection: Connection) {
    this.query = query
    this.#connection = connection
  }

  /** `expired` is called if it is not over in so many milliseconds; 0: never. */
  limit(timeout: number, expired: () => void): void {
    if (timeout > 0) this.#timer = setTimeout(expired, timeout)
  }

  over(): void {
    clearTimeout(this.#timer)
  }

  /** Tells it that it failed, when who asked has what the call returns. */
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

  /** Tells who waits for it by a callback, once. */
  callBack(error: Error): void {
    const { query } = this
    const { callback } = query
    query.callback = (): void => {}
    if (callback) guarded(() => callback.call(query, error))
  }

  /** A stream that was destroyed before its turn: it would take the connection and never give it back. */
  get isGone(): boolean {
    return 'closed' in this.query && this.query.closed === true
  }
}

/**
 * pg-cursor takes no error once its portal is closed, which it is while its last rows wait for the server to be ready: who
 * reads would wait for ever if the commit failed, or the connection.
 */
function unbolt(query: Submittable & { cursor?: unknown }): void {
  const { state, _cb, _queue } = (query.cursor ?? query) as CursorParts
  if (state !== 'done' || !(_cb || _queue?.length)) return
  ;((query.cursor ?? query) as CursorParts).state = 'busy'
}

/** What pg-cursor knows of itself. */
interface CursorParts {
  state?: string
  /** Who reads. */
  _cb?: unknown
  /** Who reads next. */
  _queue?: readonly unknown[]
}

export function timeoutError(): Error {
  return new Error('Query read timeout')
}
