import { OUTCOMES, type Outcome } from '../engine/choices'
import { End, Flag, Refused, Trait } from '../engine/exports'
import type { Parameters, Receiver } from '../engine/link'
import { memory } from '../engine/memory'
import { outcomeOverAttempts } from '../engine/outcome'
import { ALONE, keyOf, UNTOLD } from '../engine/text-key'
import type { Columns, RowReader } from '../pg/columns'
import { Misfit } from '../pg/readers'
import type { Connection } from './connection'
import { misuse, PostgresError } from './error'
import { endError, refused } from './failure'
import { LOST } from './loss'
import { Rows } from './rows'
import type { Keeper, Scope, Second } from './scope'
import { Fragment, type Draft, type Template } from './template'
import type { Watch } from './watch'

/** A statement: it is submitted once, reads its reply, and settles its promise once. */
export class Statement extends Fragment implements Receiver {
  readonly scope: Scope
  readonly template: Template
  readonly given: readonly unknown[]
  /** Its options. */
  asArrays = false
  isRepeatable = false
  isHedged = false
  isAlone = false
  watch: Watch | undefined = undefined
  /** As it is sent. */
  text = ''
  parameters: Parameters = NO_PARAMETERS
  traits = 0
  /** The key of its text, for the pool. */
  key = UNTOLD
  isSent = false
  isOver = false
  /** An earlier attempt may have run. */
  mayHaveRun = false
  attempts = 0
  /** Until when it may wait in line, once it was not sent before its connection ended. */
  until = Infinity
  /** Its second attempt, if it was sent a second time. */
  second: Second | undefined = undefined
  /** Its place in the queue of its connection; 0 once it was sent. */
  place = 0
  connection: Connection | undefined = undefined
  keeper: Keeper | undefined = undefined
  rows: Rows<unknown> = NO_ROWS
  /** Why its caller gave it up. It is set while the server is asked to cancel it. */
  reason: PostgresError | undefined = undefined
  private bytes = 0
  private read: RowReader | undefined = undefined
  private failure: unknown = undefined
  private fault: PostgresError | undefined = undefined
  private promise: Promise<Rows<unknown>> | undefined = undefined
  private resolve: ((rows: Rows<unknown>) => void) | undefined = undefined
  private reject: ((error: unknown) => void) | undefined = undefined

  constructor(scope: Scope, template: Template, given: readonly unknown[]) {
    super()
    this.scope = scope
    this.template = template
    this.given = given
  }

  /** Writes it as a fragment of another statement. */
  _write(to: Draft): void {
    if (this.isSent)
      throw misuse('sent_already', 'a statement that was sent cannot be a fragment: make a new one')
    to.add(this.template.strings, this.given)
  }

  /** Makes the text and the parameters. Throws if a value can't be sent. */
  prepare(): void {
    const { text, parameters, traits } = this.template.write(this.given)
    this.text = text
    this.parameters = parameters
    this.traits = traits
    this.key = this.isAlone ? ALONE : keyOf(text)
  }

  /** Returns its promise. The first call submits the statement. */
  settled(): Promise<Rows<unknown>> {
    if (this.promise !== undefined) return this.promise
    this.promise = new Promise((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
    // Its pipeline ended before the statement was awaited.
    if (this.isOver) this.tell()
    if (!this.isSent) this.start()
    return this.promise
  }

  /** Why it has failed, if it was not sent. */
  get refusal(): PostgresError | undefined {
    const { failure } = this
    return failure instanceof PostgresError && failure.outcome === 'NotSent' ? failure : undefined
  }

  /** Whether it has no deadline or signal of its own, and may not be repeated. */
  get isPlain(): boolean {
    return !this.isRepeatable && (this.watch === undefined || this.watch.isDefault)
  }

  /** Marks it as sent by a pipeline or a stream, which then handles its end. */
  take(): void {
    if (this.isSent) throw misuse('sent_already', 'the statement was sent already: make a new one')
    this.isSent = true
  }

  private start(): void {
    this.isSent = true
    try {
      this.prepare()
    } catch (error) {
      return this.fail(error as PostgresError, 'NotSent')
    }
    this.watch?.start(this)
    if (!this.isOver) this.scope._submit(this)
  }

  /** Runs on a shared connection. */
  _run(connection: Connection): void {
    const place = this._submitOn(connection, this.isRepeatable ? Flag.REPEATABLE : 0)
    // Others were placed there at the same time, and have filled its queue.
    if (place === Refused.FULL && this.scope._waits?.(this) === true) {
      this.connection = undefined
      return
    }
    const isSent = this._isTaken(connection, place)
    const isRead = (this.traits & Trait.READ) !== 0
    if (isSent && this.isHedged && isRead) this.scope._hedge?.(this)
  }

  /** Submits it. Returns whether it was taken; if not, it fails. */
  _sendOn(connection: Connection, flags: number): boolean {
    return this._isTaken(connection, this._submitOn(connection, flags))
  }

  /** Submits it. Returns its place, or why it was refused. */
  _submitOn(connection: Connection, flags: number): number {
    this.connection = connection
    return connection.submit(this, flags, this.text, this.parameters, this.key)
  }

  /** Whether it was taken with this place; if not, it fails. */
  _isTaken(connection: Connection, place: number): boolean {
    this.place = place
    if (place < 0) this.fail(refused(place, connection.why), 'NotSent')
    return place >= 0
  }

  // --- events of the engine ---

  received(start: number, end: number, statement: number): void {
    if (this.isOver) return this.skim(start, end, statement)
    const { bytes } = memory
    let at = start
    this.bytes += end - start
    if (statement !== 0 && this.read === undefined && bytes[at] !== ROW_DESCRIPTION) {
      const columns = this.connection?.columns.of(statement)
      if (columns !== undefined) this.describe(columns)
    }
    while (at < end) {
      // A parser of the user may have called the module, whose memory may have grown.
      const tag = memory.bytes[at] as number
      const next = at + 1 + memory.int32(at + 1)
      if (tag === DATA_ROW) this.row(at)
      else if (tag === COMMAND_COMPLETE) this.complete(at + 5, next - 1)
      else if (tag === ROW_DESCRIPTION) this.describeAt(at, statement)
      else if (tag === EMPTY_QUERY) this.tagged('')
      at = next
    }
  }

  /** Reads only the description of its columns, which later statements use: its caller is gone. */
  private skim(start: number, end: number, statement: number): void {
    for (let at = start; at < end; at += 1 + memory.int32(at + 1)) {
      if (memory.bytes[at] === ROW_DESCRIPTION) this.describeAt(at, statement)
    }
  }

  restarted(): void {
    this.read = undefined
    this.fault = undefined
    this.bytes = 0
    this.rows = NO_ROWS
  }

  ended(how: number, outcome: number, start: number, end: number): void {
    const { connection } = this
    connection?.ended()
    if (this.isOver) return
    if (how <= End.PROVISIONAL) {
      if (this.fault === undefined) return this.succeed()
      return this.fail(this.fault, 'Applied')
    }
    const known = OUTCOMES[outcome] ?? 'Unknown'
    const error = endError(connection?.why ?? LOST, how, outcome, start, end)
    if (error !== undefined) this.fail(this.explain(error, how), known)
  }

  unsent(start: number, end: number): boolean {
    const parameters = memory.bytes.slice(start, end)
    if (this.isOver || this.scope._goesOn?.(this) !== true) return false
    this.connection?.ended()
    this.connection = undefined
    this.place = 0
    this.parameters = parameters
    this.scope._submit(this)
    return true
  }

  /** The server was not asked to cancel it, and goes on. Its caller does not wait for that. */
  notCancelled(): void {
    if (!this.isOver && this.reason !== undefined) this.fail(this.reason, 'Unknown')
  }

  /** Replaces the server's error by the reason, if the server cancelled it for that reason. */
  private explain(error: PostgresError, how: number): PostgresError {
    if (this.reason === undefined || how === End.CLOSED) return error
    return how === End.SERVER && error.code !== QUERY_CANCELED ? error : this.reason
  }

  // --- ends ---

  succeed(): void {
    // `NO_ROWS` is shared: a statement without rows gets an array of its own.
    if (this.rows === NO_ROWS) this.rows = new Rows()
    if (this.keeper !== undefined && this.keeper._ended(this, undefined)) return
    this.finish()
  }

  /** Resolves its promise to the rows. */
  finish(): void {
    if (this.isOver) return
    this.end()
    this.tell()
  }

  fail(error: PostgresError, outcome: Outcome): void {
    if (this.isOver) return
    if (this.isRepeatable && this.scope._again?.(this, error)) return
    if (error instanceof PostgresError) {
      error.outcome = outcomeOverAttempts(outcome, this.mayHaveRun)
      error.about(this.text)
      this.keeper?._marks?.(error)
    }
    if (this.keeper !== undefined && this.keeper._ended(this, error)) return
    this.finishWith(error)
  }

  /** Rejects its promise. */
  finishWith(error: unknown): void {
    if (this.isOver) return
    this.end()
    this.failure = error
    this.rows = NO_ROWS
    this.tell()
  }

  private end(): void {
    this.isOver = true
    this.watch?.stop()
    if (this.second !== undefined) this.second.isOver = true
  }

  private tell(): void {
    if (this.failure === undefined) this.resolve?.(this.rows)
    else this.reject?.(this.failure)
  }

  /**
   * Ends the statement early. `atOnce`: it fails at once; otherwise it fails when the server has
   * answered the cancel. `cancels`: the server is asked to cancel it.
   */
  abandon(reason: PostgresError, atOnce: boolean, cancels: boolean): void {
    if (this.isOver) return
    this.reason = reason
    this.isRepeatable = false
    const { connection } = this
    if (connection === undefined) {
      this.scope._takeBack(this)
      const why = reason.code === 'timeout' ? this.scope._late?.(reason) : undefined
      return this.fail(why ?? reason, 'NotSent')
    }
    // A statement with a keeper stays in the queue: others depend on it.
    if (this.keeper === undefined && this.place > 0 && connection.takeBack(this.place)) return
    if (cancels) connection.wantCancel(this)
    else connection.letRun(this)
    if (atOnce) this.fail(reason, 'Unknown')
  }

  // --- rows ---

  private describeAt(at: number, statement: number): void {
    try {
      const columns = this.connection?.columns.read(at, statement)
      if (columns !== undefined) this.describe(columns)
    } catch (error) {
      this.break(error)
    }
  }

  private describe(columns: Columns): void {
    const { connection } = this
    if (connection === undefined) return
    this.rows = new Rows()
    this.rows._describe(columns.fields)
    this.read = columns.reader(connection.values, this.asArrays)
  }

  private row(at: number): void {
    if (this.fault !== undefined) return
    if (this.read === undefined) return this.break(new Error('the server described no columns'))
    if (this.bytes > (this.connection as Connection).resultBytesMax) return this.overflow()
    try {
      this.rows.push(this.read(at))
    } catch (error) {
      if (error instanceof Misfit) this.connection?.violated()
      this.break(error)
    }
  }

  private overflow(): void {
    this.rows = NO_ROWS
    const message =
      'the result is larger than result_bytes_max: read it with for await, or raise the limit'
    this.fault = new PostgresError('result_too_large', 'Applied', message)
  }

  private complete(start: number, end: number): void {
    const { bytes } = memory
    // The tag of a SELECT only repeats the number of rows.
    if (bytes[start] === LETTER_S && bytes[start + 2] === LETTER_L && this.read !== undefined)
      return
    this.tagged(memory.text(start, end))
  }

  private tagged(tag: string): void {
    if (this.rows === NO_ROWS) this.rows = new Rows()
    this.rows._complete(tag)
  }

  private break(error: unknown): void {
    this.rows = NO_ROWS
    const why = error instanceof Error ? error.message : String(error)
    this.fault = new PostgresError(
      'conversion',
      'Applied',
      `a value could not be read: ${why}`,
      error,
    )
  }
}

const NO_PARAMETERS: Parameters = []
/** Stands for "no rows yet". Nothing is ever pushed into it. */
const NO_ROWS = new Rows<never>()

const DATA_ROW = 0x44
const COMMAND_COMPLETE = 0x43
const ROW_DESCRIPTION = 0x54
const EMPTY_QUERY = 0x49
const LETTER_S = 0x53
const LETTER_L = 0x4c

const QUERY_CANCELED = '57014'
