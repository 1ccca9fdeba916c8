import { onLoan, type Loan } from '../engine/abandoned'
import { Flag } from '../engine/exports'
import type { Receiver } from '../engine/link'
import { memory } from '../engine/memory'
import type { Columns, RowReader } from '../pg/columns'
import { Misfit } from '../pg/readers'
import type { Connection } from './connection'
import { misuse, PostgresError } from './error'
import { endError, refused } from './failure'
import type { LendingScope, Checkout } from './lending'
import { ASYNC_DISPOSE } from './dispose'
import type { Occupant } from './occupants'
import type { Statement } from './statement'
import { refusal } from './traits'

/** A call of `next` that waits. It keeps its stream, which its caller may not. */
interface Waiter<Row> {
  readonly stream: RowStream<Row>
  resolve(result: IteratorResult<Row, undefined>): void
  reject(error: unknown): void
}

/**
 * The rows of a statement as they arrive, on a connection of its own. Once about 1 MiB of them
 * waits for the reader, the connection is not read, so the server stops sending.
 */
export class RowStream<Row> implements AsyncIterableIterator<Row, undefined> {
  readonly #scope: LendingScope
  readonly #statement: Statement
  readonly #rows: Arriving<Row>

  constructor(scope: LendingScope, statement: Statement) {
    this.#scope = scope
    this.#statement = statement
    this.#rows = new Arriving<Row>(scope)
    onLoan(this, this.#rows)
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  next(): Promise<IteratorResult<Row, undefined>> {
    return this.#rows.next(this, this.#scope, this.#statement)
  }

  /**
   * Ends the stream early. On a connection of the pool a long rest ends the connection, in a
   * session the server is asked to cancel, and in a transaction the rest is read. Rows that come
   * are dropped.
   */
  return(): Promise<IteratorResult<Row, undefined>> {
    this.#rows.leave()
    return Promise.resolve(DONE)
  }

  [ASYNC_DISPOSE](): Promise<void> {
    return this.return().then(() => undefined)
  }
}

/** The side of a stream that the connection has, and the rows that wait. */
class Arriving<Row> implements Receiver, Occupant, Loan {
  readonly kind = 'stream'
  readonly #occupants: LendingScope['_occupants']
  #text = ''
  #asArrays = false
  #checkout: Checkout | undefined
  #read: RowReader | undefined
  /** Rows that wait for the reader, from `#next` on, and the bytes that they arrived in. */
  #rows: Row[] = []
  #next = 0
  #bytes = 0
  #waiters: Waiter<Row>[] = []
  #state: 'new' | 'running' | 'dropped' | 'over' = 'new'
  #error: unknown
  /** The reader has begun, and has neither reached the end nor left. */
  isOpen = false

  constructor({ _occupants }: LendingScope) {
    this.#occupants = _occupants
  }

  next(
    stream: RowStream<Row>,
    scope: LendingScope,
    statement: Statement,
  ): Promise<IteratorResult<Row, undefined>> {
    if (this.#state === 'new') this.#begin(scope, statement)
    if (this.#next < this.#rows.length)
      return Promise.resolve({ value: this.#shift(), done: false })
    if (this.#state !== 'running') return this.#last()
    return new Promise((resolve, reject) => this.#waiters.push({ stream, resolve, reject }))
  }

  leave(): void {
    const wasRunning = this.#state === 'running'
    this.#state = wasRunning ? 'dropped' : 'over'
    this.#rows = []
    this.#next = 0
    this.#close()
    const checkout = this.#checkout
    if (wasRunning && checkout !== undefined) checkout.connection.leave(this, checkout.rest)
    for (const waiter of this.#waiters.splice(0)) waiter.resolve(DONE)
  }

  expel(why: PostgresError): void {
    this.#error = why.about(this.#text)
    const waiters = this.#waiters.splice(0)
    this.leave()
    for (const waiter of waiters) this.#last().then(waiter.resolve, waiter.reject)
  }

  abandoned(): string | undefined {
    const isHeld = this.#state === 'running' && this.#checkout !== undefined
    this.leave()
    return isHeld
      ? 'A stream of rows was ended: it was neither read to its end nor left, and nobody can reach it any more.'
      : undefined
  }

  #close(): void {
    this.isOpen = false
    this.#occupants?.leave(this)
  }

  #begin(scope: LendingScope, statement: Statement): void {
    this.#state = 'running'
    this.isOpen = true
    this.#start(scope, statement).catch((error: unknown) => this.#end(error))
  }

  async #start(scope: LendingScope, statement: Statement): Promise<void> {
    statement.take()
    // Whoever awaits it as well is told so, also once the stream is over.
    statement.finishWith(misuse('sent_already', STREAMED))
    statement.prepare()
    this.#text = statement.text
    this.#asArrays = statement.asArrays
    const checkout = await scope._lend(this)
    this.#checkout = checkout
    if (this.#state !== 'running') return this.#over()
    const { connection } = checkout
    const error = refusal(statement.traits, checkout.place) ?? this.#submit(connection, statement)
    if (error !== undefined) throw error.about(statement.text)
  }

  #submit(connection: Connection, { text, parameters }: Statement): PostgresError | undefined {
    const place = connection.submit(this, STREAM, text, parameters)
    return place < 0 ? refused(place, connection.why) : undefined
  }

  // --- replies ---

  received(start: number, end: number, statement: number): void {
    this.#bytes += end - start
    for (let at = start; at < end; at += 1 + memory.int32(at + 1)) {
      const tag = memory.bytes[at] as number
      if (tag === DATA_ROW) this.#row(at)
      else if (tag === ROW_DESCRIPTION)
        this.#describeAt(at, statement)
    }
    if (this.#next === this.#rows.length) this.#taken()
  }

  #describeAt(at: number, statement: number): void {
    try {
      this.#describe(this.#checkout?.connection.columns.read(at, statement))
    } catch (error) {
      this.#error ??= unreadable(error)
    }
  }

  #describe(columns: Columns | undefined): void {
    const values = this.#checkout?.connection.values
    if (columns !== undefined && values !== undefined)
      this.#read = columns.reader(values, this.#asArrays)
  }

  #row(at: number): void {
    if (this.#state !== 'running' || this.#read === undefined || this.#error !== undefined) return
    let row: Row
    try {
      row = this.#read(at) as Row
    } catch (error) {
      if (error instanceof Misfit) this.#checkout?.connection.violated()
      this.#error = unreadable(error)
      return
    }
    // A decoder is code of the user, which may have left the stream.
    if ((this.#state as string) !== 'running') return
    const waiter = this.#waiters.shift()
    if (waiter !== undefined) waiter.resolve({ value: row, done: false })
    else this.#rows.push(row)
  }

  #shift(): Row {
    const row = this.#rows[this.#next] as Row
    this.#rows[this.#next++] = undefined as Row
    if (this.#next === this.#rows.length) {
      this.#rows = []
      this.#next = 0
      this.#taken()
    }
    return row
  }

  /** Tells the engine that the reader has taken everything that arrived. */
  #taken(): void {
    this.#checkout?.connection.taken(this.#bytes)
    this.#bytes = 0
  }

  restarted(): void {}

  ended(how: number, outcome: number, start: number, end: number): void {
    const connection = this.#checkout?.connection as Connection
    connection.ended()
    const error = endError(connection.why, how, outcome, start, end)
    this.#end(error?.about(this.#text) ?? this.#error)
  }

  #end(error: unknown): void {
    if (error instanceof PostgresError) this.#checkout?.marks?.(error)
    if (this.#state === 'running') this.#error = error
    this.#over()
    if (error !== undefined) this.#close()
    if (this.#next < this.#rows.length) return
    for (const waiter of this.#waiters.splice(0)) this.#last().then(waiter.resolve, waiter.reject)
  }

  #over(): void {
    this.#state = 'over'
    this.#checkout?.release()
    this.#checkout = undefined
  }

  /** The end behind the last row. An error is reported once. */
  #last(): Promise<IteratorResult<Row, undefined>> {
    const error = this.#error
    this.#close()
    this.#error = undefined
    return error === undefined ? Promise.resolve(DONE) : Promise.reject(error as Error)
  }
}

function unreadable(error: unknown): PostgresError {
  const why = error instanceof Error ? error.message : String(error)
  return new PostgresError('conversion', 'Applied', `a value could not be read: ${why}`, error)
}

const STREAMED = 'the statement was read as a stream: make a new one to await it'

const DONE: IteratorReturnResult<undefined> = { value: undefined, done: true }

const STREAM = Flag.UNPREPARED | Flag.STREAM

const DATA_ROW = 0x44
const ROW_DESCRIPTION = 0x54
