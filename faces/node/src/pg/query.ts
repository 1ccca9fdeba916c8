import { EventEmitter } from 'node:events'

import { normalizeQueryConfig } from './prepare'
import type { Callback, Request, Results } from './request'
import { Result } from './result'
import type { TypeSource } from './types'

/** A query and its options. */
export interface QueryConfig {
  /** One statement, or, without values, several with semicolons between them. */
  text?: string | undefined
  /** The values of `$1`, `$2`, … */
  values?: unknown
  /** Prepares the statement under this name at its first use on a connection. */
  name?: string | undefined
  /** `array`: rows are arrays. */
  rowMode?: string | undefined
  /** The parsers of this query. Default: those of the client. */
  types?: TypeSource | undefined
  /** `extended`: uses the extended protocol even without values. */
  queryMode?: string | undefined
  /** Asks for results in binary form. */
  binary?: boolean | undefined
  /** Milliseconds until it fails with `Query read timeout`, the wait in the queue included. */
  query_timeout?: number | undefined
  /** Ends the query when the signal is aborted. */
  signal?: AbortSignal | undefined
  /**
   * In a pool with `pipeline`, keeps other queries off its client while it runs. For queries that
   * are known to be slow; the pool also learns by itself which are.
   */
  alone?: boolean | undefined
  /** Rows that pg fetches at a time. Here all are fetched; the results are the same. */
  rows?: number | undefined
  /** Ignored; the results are the same. */
  portal?: string | undefined
  callback?: Callback | undefined
}

/**
 * A query as an object. Emits `row` (with the row and the result), `end` (with the result) and
 * `error`.
 *
 * The result keeps the rows, unless there is a listener of `row` and no callback.
 */
export class Query extends EventEmitter implements QueryConfig {
  text: string | undefined
  values: unknown
  rows: number | undefined
  types: TypeSource | undefined
  name: string | undefined
  queryMode: string | undefined
  binary: boolean | undefined
  portal: string
  callback: Callback | undefined
  signal: AbortSignal | undefined
  query_timeout: number | undefined
  _rowMode: string | undefined
  _result: Result
  _results: Results
  /** Private, so that it is not printed or copied: it leads back to this query. */
  #request: Request | undefined

  constructor(config: string | QueryConfig, values?: unknown, callback?: Callback) {
    super()
    const given: QueryConfig = normalizeQueryConfig(config, values, callback as never) as QueryConfig
    this.text = given.text
    this.values = given.values
    this.rows = given.rows
    this.types = given.types
    this.name = given.name
    this.queryMode = given.queryMode
    this.binary = given.binary
    this.portal = given.portal || ''
    this.callback = given.callback
    this.signal = given.signal
    this.query_timeout = given.query_timeout
    this._rowMode = given.rowMode
    this._result = new Result(this._rowMode, this.types)
    this._results = this._result
  }

  get _request(): Request | undefined {
    return this.#request
  }

  set _request(request: Request | undefined) {
    this.#request = request
  }

  get rowMode(): string | undefined {
    return this._rowMode
  }

  /** Whether it uses the extended protocol. */
  requiresPreparation(): boolean {
    return isExtended(this)
  }

  /** `client.query` does not call this. Other code must not either. */
  submit(): Error {
    return new Error('A Query can only be run by client.query(query)')
  }

  handleError(error: Error): void {
    if (this.callback) this.callback(error)
    else this.emit('error', error)
  }

  _keepsRows(): boolean {
    return this.callback !== undefined || this.listenerCount('row') === 0
  }
}

/** Whether a query uses the extended protocol: one statement, with parameters. */
export function isExtended({ queryMode, name, rows, text, values }: QueryConfig): boolean {
  if (queryMode === 'extended' || name || rows) return true
  return Boolean(text) && Boolean(values) && (values as unknown[]).length > 0
}
