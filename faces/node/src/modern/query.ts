import { misuse, PostgresError } from './error'
import type { LendingScope } from './lending'
import type { Rows } from './rows'
import type { Scope } from './scope'
import { Statement } from './statement'
import { RowStream } from './stream'
import type { Fragment } from './template'
import { Watch } from './watch'

/**
 * A statement that a template made. It is sent when it is first awaited (or `then`, `one`, `first`
 * or `send` is called), and once; until then it may be a part of another one.
 */
export interface Query<Row> extends PromiseLike<Rows<Row>>, AsyncIterable<Row>, Fragment {
  catch<E = never>(failed?: ((error: unknown) => E | PromiseLike<E>) | null): Promise<Rows<Row> | E>
  finally(over?: (() => void) | null): Promise<Rows<Row>>
  /** Sends it now, and returns it. */
  send(): this
  /** Its only row. None, or several, is an error (`Applied`: it has run). */
  one(): Promise<Row>
  /** Its first row, if it has any. */
  first(): Promise<Row | undefined>
  /** Its rows as arrays. */
  values(): Query<unknown[]>
  /** Gives it up after this time, which begins when it is sent and covers every wait. */
  timeout(ms: number): this
  /**
   * Gives it up when this signal says so: the server is asked to stop it, where that harms no
   * other.
   */
  signal(signal: AbortSignal): this
  /**
   * Says that running it twice does no harm: it is sent again, up to three times, when its
   * connection is lost. Not for sessions, transactions and pipelines.
   */
  repeatable(): this
  /**
   * Says so too, and that it is sent a second time on another connection where its answer is late: when the statement
   * at the head of its connection has been running for longer than `slowHeadMs`, and another that is open has nothing slow on
   * it. The first answer wins. At most one in 20 of these statements is sent twice, and none that is no read, or whose
   * text is slow itself or was never seen.
   */
  hedged(): this
  /**
   * Nothing shares its connection while it runs, as long as there is another or may be one. For one that is known to take
   * long: the client learns by itself which texts do, and treats a text that it has never seen like this.
   */
  alone(): this
  /** Its rows as they come, on a connection of their own: what `for await` does. */
  stream(): AsyncIterableIterator<Row, undefined> & AsyncDisposable
}

/** What a scope gives to each of its statements. */
export interface Defaults {
  readonly timeoutMs: number
  readonly cancelsLate: boolean
}

export class TaggedStatement<Row> extends Statement implements Query<Row> {
  then<T = Rows<Row>, E = never>(
    done?: ((rows: Rows<Row>) => T | PromiseLike<T>) | null,
    failed?: ((error: unknown) => E | PromiseLike<E>) | null,
  ): Promise<T | E> {
    return (this.settled() as Promise<Rows<Row>>).then(done, failed)
  }

  catch<E = never>(
    failed?: ((error: unknown) => E | PromiseLike<E>) | null,
  ): Promise<Rows<Row> | E> {
    return this.then(undefined, failed)
  }

  finally(over?: (() => void) | null): Promise<Rows<Row>> {
    return (this.settled() as Promise<Rows<Row>>).finally(over)
  }

  send(): this {
    void this.settled()
    return this
  }

  one(): Promise<Row> {
    return this.then((rows) => {
      if (rows.length === 1) return rows[0] as Row
      const code = rows.length === 0 ? 'no_rows' : 'too_many_rows'
      const message = `one row was asked for, and ${rows.length === 0 ? 'none' : rows.length} came`
      throw new PostgresError(code, 'Applied', message).about(this.text)
    })
  }

  first(): Promise<Row | undefined> {
    return this.then((rows) => rows[0])
  }

  values(): Query<unknown[]> {
    this.#isNew()
    this.asArrays = true
    return this as unknown as Query<unknown[]>
  }

  timeout(ms: number): this {
    this.#isNew()
    if (!(ms > 0 && ms <= LONGEST))
      throw misuse('timeout_ms', 'a timeout is a number of milliseconds above 0')
    this.#watched().timeoutMs = ms
    return this
  }

  signal(signal: AbortSignal): this {
    this.#isNew()
    this.#watched().signal = signal
    return this
  }

  repeatable(): this {
    this.#isNew()
    if (this.scope._again === undefined) {
      throw misuse(
        'repeatable',
        'repeatable is not for a session, a transaction or a pipeline: their connection is part of what a statement means',
      )
    }
    this.isRepeatable = true
    return this
  }

  hedged(): this {
    this.repeatable()
    this.isHedged = true
    return this
  }

  alone(): this {
    this.#isNew()
    this.isAlone = true
    return this
  }

  stream(): RowStream<Row> {
    this.#isNew()
    const scope = this.scope as Scope & Partial<LendingScope>
    if (scope._lend === undefined)
      throw misuse('pipeline_open', 'a statement of a pipeline is no stream')
    if (this.watch?.signal !== undefined || (this.watch?.timeoutMs ?? 0) > 0 || this.isRepeatable) {
      throw misuse(
        'stream_option',
        'timeout, signal and repeatable are not for a stream: leave its loop instead',
      )
    }
    return new RowStream(scope as LendingScope, this)
  }

  [Symbol.asyncIterator](): RowStream<Row> {
    return this.stream()
  }

  #isNew(): void {
    if (this.isSent)
      throw misuse(
        'sent_already',
        'the statement was sent already: say how it runs before it is awaited',
      )
  }

  #watched(): Watch {
    this.watch ??= new Watch()
    return this.watch
  }
}

/** Node takes no longer timers. */
const LONGEST = 0x7fffffff
