import { Flag } from '../engine/exports'
import type { Parameter } from '../engine/link'
import { Abort } from './abort'
import { escapeIdentifier, escapeLiteral } from './escape'
import { lend } from './lend'
import { Life } from './life'
import { prepareValue } from './prepare'
import { Query, type QueryConfig } from './query'
import { Request, type Callback, type Results } from './request'
import { later } from './refusal'
import type { Submittable } from './submittable'
import type { Parser, TypeSource } from './types'

/**
 * One connection to a server.
 *
 * Emits `connect`, `end`, `error` (the connection failed; the errors of queries are not emitted),
 * `notice`, `notification`, and `drain` when no query waits for an answer. With `pipeline: true` it
 * also emits `pipelineFull` when a query has to wait for the window and, once for each of these,
 * `pipelineDrain` when no query waits and less than three quarters of the window is in use.
 */
export class Client extends Life {
  static Query = Query

  /**
   * Runs a query: a text with values, a configuration, or a `Query`. Returns a promise of the
   * result, or nothing if there is a callback; for a `Query` it returns that query.
   *
   * A text without values may have several statements; the result is then an array of results. An
   * error of the server is a `DatabaseError`. Each error has an `outcome`, which says what is known
   * of the effect.
   */
  query<T extends Submittable>(query: T, values?: unknown, callback?: Callback): T
  query(config: string | QueryConfig, values?: unknown): Promise<Results>
  query(config: string | QueryConfig, values: unknown, callback: Callback): void
  query(config: string | QueryConfig, callback: Callback): void
  query(
    config: string | QueryConfig | Submittable,
    values?: unknown,
    callback?: Callback,
  ): Promise<Results> | Submittable | undefined {
    if (config === null || config === undefined) {
      throw new TypeError('Client was passed a null or undefined query')
    }
    if (typeof config === 'string') {
      const done = callback ?? (typeof values === 'function' ? (values as Callback) : undefined)
      const request = this.#request(this._types, false, this.binary, done)
      const parameters = typeof values === 'function' ? undefined : values
      const result = done === undefined ? this.#promise(request) : undefined
      this.#start(request, config, '', parameters, false, this.connectionParameters.query_timeout)
      return result
    }
    if (config instanceof Query) return this.#runQuery(config, values, callback)
    if (isSubmittable(config)) return this.#lend(config, values, callback)
    return this.#run(config, values, callback)
  }

  #run(config: QueryConfig, given: unknown, callback?: Callback): Promise<Results> | undefined {
    const isCallback = typeof given === 'function'
    const done = callback || (isCallback ? (given as Callback) : config.callback) || undefined
    const values = isCallback ? config.values : given || config.values
    const asArray = config.rowMode === 'array'
    const binary = this.binary || Boolean(config.binary)
    const request = this.#request(config.types || this._types, asArray, binary, done)
    const result = done === undefined ? this.#promise(request) : undefined
    this.#startConfig(request, config, values)
    return result
  }

  #runQuery(query: Query, values: unknown, callback?: Callback): Query {
    query.callback ||= typeof values === 'function' ? (values as Callback) : callback
    const binary = this.binary || Boolean(query.binary)
    const asArray = query.rowMode === 'array'
    const request = this.#request(query.types || this._types, asArray, binary, undefined)
    request.emitTo(query)
    this.#startConfig(request, query, query.values)
    return query
  }

  #startConfig(request: Request, config: QueryConfig, values: unknown): void {
    const { name, signal, rows, queryMode } = config
    const timeout = config.query_timeout || this.connectionParameters.query_timeout
    if (signal) {
      request.abort = new Abort(signal, request, this.#abandon)
      if (signal.aborted) return this.#refuse(request, request.cancelled())
    }
    if (typeof config.text !== 'string' && typeof name !== 'string') {
      const message = 'A query must have either text or a name. Supplying neither is unsupported.'
      return this.#refuse(request, new Error(message))
    }
    const extended = Boolean(queryMode === 'extended' || name || rows)
    const text = config.text || (name && this._session.names.textOf(name)) || ''
    if (name) {
      request.named = { name, text }
      this._session.names.asked(request.named)
    }
    this.#start(request, text, name || '', values, extended, timeout)
  }

  /** `extended`: uses the extended protocol even without values. */
  #start(
    request: Request,
    text: string,
    name: string,
    values: unknown,
    extended: boolean,
    timeout: number | false,
  ): void {
    if (!this._takesQueries) return this.#refuse(request, undefined)
    if (values && !Array.isArray(values)) {
      return this.#refuse(request, new Error('Query values must be an array'))
    }
    let flags: number = Flag.SIMPLE
    let parameters: readonly Parameter[] = NONE
    const given = (values || NONE) as readonly unknown[]
    // A COPY takes no values, and the engine takes it only as a simple query.
    const isSimple = given.length === 0 && (!extended || COPY.test(text))
    if (!isSimple && (extended || text !== '')) {
      flags = request.binary ? Flag.BINARY : 0
      try {
        parameters = prepared(given)
      } catch (error) {
        return this.#refuse(request, error)
      }
    }
    this._session.submit(request, flags, text, name, parameters, Number(timeout) || 0)
  }

  /** Fails a request that was not sent. If the client takes no queries, that is the error. */
  #refuse(request: Request, error: unknown): void {
    if (this._takesQueries) this._session.refuse(request, error)
    else later(request, this._notQueryable())
  }

  #request(
    types: TypeSource,
    asArray: boolean,
    binary: boolean,
    callback: Callback | undefined,
  ): Request {
    if (callback !== undefined && typeof callback !== 'function') {
      throw new TypeError('callback is not a function')
    }
    const request = new Request(this._session, types, asArray, binary)
    request.callback = callback
    return request
  }

  #promise(request: Request): Promise<Results> {
    // One executor for all promises, since making a closure for each query costs time.
    const promise = new this._Promise<Results>(executor)
    request.resolve = resolveOfLast
    request.reject = rejectOfLast
    return promise.catch(rethrow)
  }

  readonly #abandon = (request: Request): void => this._session.abandon(request)

  /** Runs a query that reads and writes the protocol itself. */
  #lend<T extends Submittable>(query: T, values: unknown, callback?: Callback): T {
    const done = typeof values === 'function' ? (values as Callback) : callback
    if (done && !query.callback) query.callback = done
    lend(this, query)
    return query
  }

  /**
   * Ends a query of a client early. If it was not sent, it fails at once. Otherwise the server is
   * asked to cancel it, if that can hit no other query.
   */
  cancel(client: Client, query: Query | Submittable): void {
    if (!(query instanceof Query)) client._session.lending.withdraw(query)
    else if (query._request !== undefined) client._session.abandon(query._request)
  }

  /**
   * Called when a pool takes the client back. Sends a BEGIN that is held back, so that the next
   * user finds the same state as with pg.
   */
  _flushHeld(): void {
    this._session.leaveTransaction()
  }

  /** Queries that were sent and not answered. */
  get pendingQueryCount(): number {
    return this._session.inFlight
  }

  /** Whether a query would be sent at once. */
  get readyForQuery(): boolean {
    return this._session.isReady && this._session.isIdle
  }

  /** An array as long as the queue. Its elements are undefined: the queries are in the engine. */
  get _queryQueue(): readonly undefined[] {
    return new Array<undefined>(this._session.queued)
  }

  get queryQueue(): readonly undefined[] {
    return this._queryQueue
  }

  /**
   * Null if no query runs. Otherwise an object, which is the query only if that is a `Submittable`.
   */
  get activeQuery(): object | null {
    return this._session.lending.active ?? (this._session.inFlight > 0 ? this._session : null)
  }

  /** The last status: `I` (idle), `T` (in a transaction) or `E` (in a failed one); null before. */
  getTransactionStatus(): string | null {
    return this._txStatus
  }

  setTypeParser(oid: number, parse: Parser): void
  setTypeParser(oid: number, format: 'text' | 'binary', parse: Parser): void
  setTypeParser(oid: number, format: 'text' | 'binary' | Parser, parse?: Parser): void {
    this._types.setTypeParser(oid, format as 'text', parse as Parser)
  }

  getTypeParser(oid: number, format?: 'text' | 'binary'): Parser {
    return this._types.getTypeParser(oid, format)
  }

  escapeIdentifier(name: string): string {
    return escapeIdentifier(name)
  }

  escapeLiteral(text: string): string {
    return escapeLiteral(text)
  }

  /** Keeps the process alive while the client is connected, which is the default. */
  ref(): void {
    this.connection.ref()
  }

  unref(): void {
    this.connection.unref()
  }
}

export type { Submittable } from './submittable'

function isSubmittable(config: QueryConfig | Submittable): config is Submittable {
  return typeof (config as Partial<Submittable>).submit === 'function'
}

function prepared(values: readonly unknown[]): Parameter[] {
  const { length } = values
  if (length > PARAMETERS_MAX) throw new Error('A query has more than 65,535 values')
  const parameters = new Array<Parameter>(length)
  for (let i = 0; i < length; i++) parameters[i] = prepareValue(values[i])
  return parameters
}

/** COPY, behind blanks and comments. */
const COPY = /^(?:\s+|--.*|\/\*[^]*?\*\/)*copy\b/i

const NONE: readonly Parameter[] = []

/** The protocol sends the number of parameters in two bytes. */
const PARAMETERS_MAX = 65_535

let resolveOfLast: (results: Results) => void
let rejectOfLast: (error: unknown) => void

function executor(resolve: (results: Results) => void, reject: (error: unknown) => void): void {
  resolveOfLast = resolve
  rejectOfLast = reject
}

/** Makes the stack of an error lead to the caller that awaits the query, and not to the socket. */
export function rethrow(error: unknown): never {
  if (error instanceof Error) Error.captureStackTrace(error)
  throw error
}
