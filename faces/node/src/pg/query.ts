import { EventEmitter } from 'node:events'

import { normalizeQueryConfig } from './prepare'
import type { Callback, Request, Results } from './request'
import { Result } from './result'
import type { TypeSource } from './types'

/** A query, and how it runs. */
export interface QueryConfig {
  /** One statement; without values also several, with a semicolon between them. */
  text?: string | undefined
  /** Values for `$1`, `$2`, … */
  values?: unknown
  /** Prepared under this name at its first use on a connection, and used by it from then on. */
  name?: string | undefined
  /** `array`: rows are arrays in place of objects. */
  rowMode?: string | undefined
  /** Who knows the parsers of this query's values. */
  types?: TypeSource | undefined
  /** `extended`: the extended protocol also without values. */
  queryMode?: string | undefined
  /** Results in binary form. */
  binary?: boolean | undefined
  /** Milliseconds after which the query fails with `Query read timeout`, waiting in the queue included. */
  query_timeout?: number | undefined
  /** Ends the query early, without harm to others. */
  signal?: AbortSignal | undefined
  /**
   * In a pool with `pipeline`: nothing shares its client while it runs. For one that is known to take long; the pool
   * learns by itself which do.
   */
  alone?: boolean | undefined
  /** Rows that pg fetches at once. Here all are fetched; the results are the same. */
  rows?: number | undefined
  /** Has no effect on results. */
  portal?: string | undefined
  callback?: Callback | undefined
}

/**
 * A query as an object that emits `row` (with the row and the result), `end` (with what came) and `error`.
 *
 * Rows are kept in the result unless somebody listens to `row` and there is no callback.
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
  /** Out of sight of those who print or copy a query, for it leads back to it. */
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

  /** Whether it goes by the extended protocol. */
  requiresPreparation(): boolean {
    return isExtended(this)
  }

  /** It is run by `client.query`, which does not call this. */
  submit(): Error {
    return new Error('A Query is run by client.query(query)')
  }

  handleError(error: Error): void {
    if (this.callback) this.callback(error)
    else this.emit('error', error)
  }

  _keepsRows(): boolean {
    return this.callback !== undefined || this.listenerCount('row') === 0
  }
}

/** Whether a query goes by the extended protocol: one statement, with parameters. */
export function isExtended({ queryMode, name, rows, text, values }: QueryConfig): boolean {
  if (queryMode === 'extended' || name || rows) return true
  return Boolean(text) && Boolean(values) && (values as unknown[]).length > 0
}
