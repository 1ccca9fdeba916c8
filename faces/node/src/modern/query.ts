import { isSignal } from '../engine/signal'
import { misuse, PostgresError } from './error'
import type { LendingScope } from './lending'
import type { Rows } from './rows'
import type { Scope } from './scope'
import { Statement } from './statement'
import { RowStream } from './stream'
import type { Fragment } from './template'
import { Watch } from './watch'

/**
 * A statement that a template made. It is submitted once: when it is first awaited, or when `then`,
 * `one`, `first` or `send` is first called. Its bytes leave at the end of that turn of the event
 * loop, together with those of the other statements of the turn. Until it is submitted it can be a
 * fragment of another statement. The promise resolves when the server has confirmed the statement,
 * and rejects with a `PostgresError`.
 */
export interface Query<Row> extends PromiseLike<Rows<Row>>, AsyncIterable<Row>, Fragment {
  catch<E = never>(failed?: ((error: unknown) => E | PromiseLike<E>) | null): Promise<Rows<Row> | E>
  finally(over?: (() => void) | null): Promise<Rows<Row>>
  /** Submits the statement now, and returns it. */
  send(): this
  /**
   * Resolves to the only row. No row, or several, is an error: `no_rows` or `too_many_rows`, with
   * the outcome `Applied`, since the statement has run.
   */
  one(): Promise<Row>
  /** Resolves to the first row, or undefined if there is none. */
  first(): Promise<Row | undefined>
  /** The same statement, with rows as arrays of values. */
  values(): Query<unknown[]>
  /**
   * Sets a deadline in milliseconds, in place of `requestTimeoutMs`. It begins when the statement
   * is submitted and covers every wait. A late statement fails at once with the code `timeout`. The
   * server is asked to cancel it if that can hit no other statement (`cancelOnTimeout`).
   */
  timeout(ms: number): this
  /**
   * Ends the statement when this signal is aborted, with an error whose name is `AbortError`. If it
   * has not been sent, it ends as `NotSent`. Otherwise the server is asked to cancel it, and it
   * ends when the server has answered, within 5 s, or else as `Unknown`; if a cancel could hit
   * another statement, it ends at once as `Unknown`.
   */
  signal(signal: AbortSignal): this
  /**
   * Says that running the statement twice does no harm. It is then sent again, up to three times,
   * if its connection is lost, and neighbouring reads that say so share a sync point. Not for
   * sessions, transactions and pipelines.
   */
  repeatable(): this
  /**
   * Makes the statement repeatable, and sends it a second time on another connection if its answer
   * is late: if the statement at the head of its connection has been running for longer than
   * `slowHeadMs`, and another open connection has nothing slow on it. The first answer wins. At
   * most one in 20 of these statements is sent twice. Statements that are not reads, and texts that
   * are slow themselves or new to the client, never are.
   */
  hedged(): this
  /**
   * Keeps other statements off its connection while it runs, as long as there is another connection
   * or one may be opened. For statements that are known to be slow. The client learns by itself
   * which texts are slow, and treats a text that it has never seen in the same way.
   */
  alone(): this
  /**
   * The rows as they arrive, on a connection of their own. `for await` calls it. Nothing is sent
   * before the first `next`.
   */
  stream(): AsyncIterableIterator<Row, undefined> & AsyncDisposable
}

/** The options that each statement of a scope begins with. */
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
      const message = `one() takes exactly one row, and ${rows.length === 0 ? 'none' : rows.length} came`
      const error = new PostgresError(code, 'Applied', message).about(this.text)
      this.keeper?._marks?.(error)
      throw error
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
      throw misuse('timeout_ms', `timeout takes milliseconds, above 0 and at most ${LONGEST}`)
    this.#watched().timeoutMs = ms
    return this
  }

  signal(signal: AbortSignal): this {
    this.#isNew()
    if (!isSignal(signal))
      throw misuse('wrong_argument', 'signal takes an AbortSignal')
    this.#watched().signal = signal
    return this
  }

  repeatable(): this {
    this.#isNew()
    if (this.scope._again === undefined) {
      throw misuse(
        'repeatable',
        'repeatable is not for a session, a transaction or a pipeline, where what a statement does depends on its connection, nor for reads(), which moves a read by itself',
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
      throw misuse('pipeline_open', 'a statement of a pipeline, or of reads(), cannot be read as a stream')
    if (!this.isPlain) {
      throw misuse(
        'stream_option',
        'a stream takes no timeout, signal or repeatable: leave its loop to end it early',
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
        'the statement was sent already: set its options before it is awaited',
      )
  }

  #watched(): Watch {
    this.watch ??= new Watch()
    this.watch.isDefault = false
    return this.watch
  }
}

/** The longest timer that Node takes. */
const LONGEST = 0x7fffffff
