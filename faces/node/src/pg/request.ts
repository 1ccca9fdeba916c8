import { OUTCOMES, type Outcome } from '../engine/choices'
import { End } from '../engine/exports'
import { rethrow } from '../engine/guard'
import type { Receiver } from '../engine/link'
import { memory } from '../engine/memory'
import { UNCONFIRMED } from '../engine/said'
import type { Abort } from './abort'
import type { ColumnsCache, Columns, RowReader } from './columns'
import { beginError } from './begin'
import { tellOutcome } from './error'
import type { Named, Names } from './names'
import type { Query } from './query'
import { Misfit } from './readers'
import { databaseError } from './report'
import { Result } from './result'
import type { TypeSource } from './types'

/** The result of a query, or the results of a text with several statements. */
export type Results = Result | Result[]

/** Called once: with an error, or with null and the results. */
export type Callback = (error: Error | null, results?: Results) => void

/** An error of a query, with its outcome, and the code that the server or Node gave it. */
export type QueryError = Error & { outcome?: Outcome; code?: string }

/** The session of a request, as the request sees it. */
export interface Home {
  readonly columns: ColumnsCache
  readonly names: Names
  /** The status of a ReadyForQuery arrived. */
  status(code: number): void
  /** A new error for a request that ends with the connection, since each has its own outcome. */
  lost(): Error
  /** A reply breaks the protocol: the connection ends. */
  violated(): void
  /** A request ended: called before its caller is told, and after. */
  ending(how: number): void
  ended(how: number): void
}

/** A submitted query: it reads its reply, and settles its promise or calls back, once. */
export class Request implements Receiver {
  /** Its place in the engine's queue; 0 once it was sent. */
  place = 0
  /** How its caller is told: by a promise, a callback, or a query that emits. */
  resolve: ((results: Results) => void) | undefined = undefined
  reject: ((error: unknown) => void) | undefined = undefined
  callback: Callback | undefined = undefined
  query: Query | undefined = undefined
  abort: Abort | undefined = undefined
  /** The name of its prepared statement, if the user gave one. */
  named: Named | undefined = undefined
  /** Whether the results are in binary form. */
  readonly binary: boolean
  private readonly home: Home
  private readonly source: TypeSource
  private readonly asArray: boolean
  private result: Result
  private results: Results
  private read: RowReader | undefined = undefined
  private keepsRows = true
  private isBroken = false
  private fault: unknown = undefined

  constructor(home: Home, source: TypeSource, asArray: boolean, binary: boolean) {
    this.home = home
    this.source = source
    this.asArray = asArray
    this.binary = binary
    this.result = this.results = new Result(asArray ? 'array' : undefined, source)
  }

  /** Has this query emit the rows and the end. */
  emitTo(query: Query): void {
    this.query = query
    query._request = this
    query._result = this.result
  }

  received(start: number, end: number, statement: number): void {
    let at = start
    if (statement !== 0 && this.read === undefined && memory.bytes[at] !== ROW_DESCRIPTION) {
      const columns = this.home.columns.of(statement)
      if (columns !== undefined) this.describeAs(columns)
    }
    while (at < end) {
      const tag = memory.bytes[at] as number
      const next = at + 1 + memory.int32(at + 1)
      if (tag === DATA_ROW) this.row(at)
      else if (tag === COMMAND_COMPLETE) this.complete(memory.text(at + 5, next - 1))
      else if (tag === READY_FOR_QUERY) this.home.status(memory.bytes[at + 5] as number)
      else if (tag === ROW_DESCRIPTION) this.describeAt(at, statement)
      else if (tag === PARSE_COMPLETE && this.named !== undefined) this.home.names.parsed(this.named)
      at = next
    }
  }

  restarted(): void {
    this.read = undefined
    this.isBroken = false
    this.result = this.results = new Result(this.asArray ? 'array' : undefined, this.source)
    if (this.query !== undefined) this.query._result = this.result
  }

  ended(how: number, outcome: number, start: number, end: number): void {
    const { home } = this
    home.ending(how)
    this.release()
    if (how <= End.PROVISIONAL) this.succeed()
    else this.fail(this.errorOf(how, start, end), OUTCOMES[outcome])
    home.ended(how)
  }

  notCancelled(): void {
    this.abort?.notPossible()
  }

  /** The error of a request that was withdrawn. */
  cancelled(): Error {
    return this.abort?.error() ?? new Error('Query was cancelled')
  }

  /** Tells its caller that it failed. Nothing is told after that. */
  fail(given: unknown, outcome: Outcome | undefined): void {
    const error = this.abort?.explain(given) ?? given
    this.abort?.forget()
    // It will have no reply that releases the name.
    if (outcome === 'NotSent') this.release()
    if (outcome !== undefined && error instanceof Error) tellOutcome(error, outcome)
    const { reject, callback, query } = this
    this.resolve = this.reject = this.callback = this.query = undefined
    if (reject !== undefined) reject(error)
    else if (callback !== undefined) guarded(callback, error as Error)
    else if (query !== undefined) guarded(emitError, query, error as Error)
  }

  private release(): void {
    if (this.named === undefined) return
    this.home.names.over(this.named)
    this.named = undefined
  }

  private succeed(): void {
    if (this.isBroken) return this.fail(this.fault, 'Applied')
    this.abort?.forget()
    const { resolve, callback, query, results } = this
    this.resolve = this.reject = this.callback = this.query = undefined
    if (resolve !== undefined) return resolve(results)
    if (callback !== undefined) guarded(callback, null, results)
    else if (query !== undefined) guarded(succeedQuery, query, results)
  }

  private errorOf(how: number, start: number, end: number): unknown {
    // If reading a row failed before the server did, that is the error.
    if (this.isBroken) return this.fault
    if (how === End.SERVER) return databaseError(start, end)
    if (how === End.BEGIN) return beginError(start, end)
    if (how === End.DEADLINE) return new Error('Query read timeout')
    if (how === End.UNCONFIRMED) return unconfirmed()
    if (how === End.CANCELLED) return this.cancelled()
    return this.home.lost()
  }

  private describeAt(at: number, statement: number): void {
    try {
      const columns = this.home.columns.read(at, statement)
      this.describe(columns, statement !== 0)
    } catch (error) {
      this.break(error)
    }
  }

  /** The lookup of parsers may be code of the user, and throw. */
  private describeAs(columns: Columns): void {
    try {
      this.describe(columns)
    } catch (error) {
      this.break(error)
    }
  }

  /** `ofStatement`: the columns were described before the format of the values was chosen. */
  private describe(columns: Columns, ofStatement = true): void {
    this.next()
    const { query } = this
    const form = this.binary && ofStatement ? columns.asBinary : columns
    this.read = form.describe(this.result, this.source)
    if (query !== undefined) this.keepsRows = query._keepsRows()
  }

  private row(at: number): void {
    const { read, query, result } = this
    if (this.isBroken) return
    if (read === undefined) return this.break(new Error('the server described no columns'))
    try {
      const row = read(at)
      if (this.keepsRows) result.rows.push(row)
      if (query !== undefined) guarded(emitRow, query, row, result)
    } catch (error) {
      if (error instanceof Misfit) this.home.violated()
      this.break(error)
    }
  }

  private complete(tag: string): void {
    this.next()
    this.result.addCommandComplete(tag)
  }

  /** Begins the result of the next statement, if one is complete. */
  private next(): void {
    if (this.result.command === null) return
    const result = new Result(this.asArray ? 'array' : undefined, this.source)
    if (Array.isArray(this.results)) this.results.push(result)
    else this.results = [this.result, result]
    this.result = result
    this.read = undefined
  }

  private break(error: unknown): void {
    this.isBroken = true
    this.fault = error
  }
}

/** Calls code of the user. What it throws is thrown in the next tick, so replies are read on. */
export function guarded<A extends unknown[]>(call: (...args: A) => unknown, ...args: A): void {
  try {
    call(...args)
  } catch (error) {
    process.nextTick(rethrow, error)
  }
}

/** The error for a commit that may not have reached a synchronous standby. */
function unconfirmed(): Error {
  return Object.assign(new Error(UNCONFIRMED.text), { code: UNCONFIRMED.code })
}

function emitError(query: Query, error: Error): void {
  if (query.callback) query.callback(error)
  else query.emit('error', error)
}

function emitRow(query: Query, row: unknown, result: Result): void {
  query.emit('row', row, result)
}

function succeedQuery(query: Query, results: Results): void {
  query._results = results
  if (query.callback) guarded(query.callback, null, results)
  query.emit('end', results)
}

const PARSE_COMPLETE = 0x31
const DATA_ROW = 0x44
const COMMAND_COMPLETE = 0x43
const READY_FOR_QUERY = 0x5a
const ROW_DESCRIPTION = 0x54
