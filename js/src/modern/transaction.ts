import { End, Flag, OUTCOMES } from '../engine/exports'
import type { Receiver } from '../engine/link'
import { memory } from '../engine/memory'
import type { Connection } from './connection'
import { again, ended, isConflict, misuse, PostgresError, refused, serverError } from './error'
import type { Keeper, Scope, Statement } from './statement'
import { refusal, Trait } from './traits'

/** How a transaction begins. What is not said is left to the server's settings. */
export interface TransactionOptions {
  readonly isolation?: 'read uncommitted' | 'read committed' | 'repeatable read' | 'serializable' | undefined
  readonly readOnly?: boolean | undefined
  readonly deferrable?: boolean | undefined
}

export function beginText({ isolation, readOnly, deferrable }: TransactionOptions): string {
  const modes: string[] = []
  if (isolation !== undefined) {
    if (!LEVELS.has(isolation)) throw misuse('isolation', `isolation is one of ${[...LEVELS].join(', ')}`)
    modes.push(`isolation level ${isolation}`)
  }
  if (readOnly !== undefined) modes.push(readOnly ? 'read only' : 'read write')
  if (deferrable !== undefined) modes.push(deferrable ? 'deferrable' : 'not deferrable')
  return modes.length === 0 ? 'begin' : `begin ${modes.join(', ')}`
}

const LEVELS = new Set(['read uncommitted', 'read committed', 'repeatable read', 'serializable'])

/**
 * A transaction on a connection of its own. Statements that are made in one turn share a sync point; BEGIN is in front of
 * the first of them, and where it fails they are skipped. What comes before it was answered waits for that, so
 * nothing can run outside of the transaction.
 */
export class Transaction implements Keeper {
  /** A statement had a failure after which the transaction may succeed if it is run again. */
  hasConflict = false
  readonly connection: Connection
  readonly #begin: string
  #state: 'new' | 'beginning' | 'open' | 'over' = 'new'
  #isGrouped = false
  #beginError: PostgresError | undefined
  #failure: PostgresError | undefined
  readonly #held: [Level, Statement][] = []
  #waiting: (() => void)[] = []
  readonly levels: Level[] = [new Level(this, '')]

  constructor(connection: Connection, options: TransactionOptions) {
    this.connection = connection
    this.#begin = beginText(options)
  }

  get outermost(): Level {
    return this.levels[0] as Level
  }

  _send(level: Level, statement: Statement): void {
    const error = this.#refusal(level, statement)
    if (error !== undefined) return statement.fail(error, 'NotSent')
    if (this.#state === 'beginning' && !this.#isGrouped) return void this.#held.push([level, statement])
    if ((statement.traits & Trait.SESSION) !== 0) this.connection.isTouched = true
    this.#join()
    this.#startLevels()
    statement.keeper = this
    this.connection.run(statement, Flag.MEMBER)
  }

  /** It waits for the answer to BEGIN, and is not to be sent any more: then nothing of it is to stand. */
  _takeBack(statement: Statement): void {
    const at = this.#held.findIndex((it) => it[1] === statement)
    if (at < 0) return
    this.#held.splice(at, 1)
    this.#failure ??= misuse('left_out', 'a statement was given up before it was sent')
  }

  #refusal(level: Level, statement: Statement): PostgresError | undefined {
    if (this.#state === 'over' || level.isOver) {
      return misuse('transaction_over', 'the transaction or savepoint is over: its function has ended')
    }
    if (this.levels.at(-1) !== level) {
      return misuse('savepoint_open', 'a savepoint is open: use what its function was given')
    }
    if (this.#beginError !== undefined) return again(this.#beginError, 'NotSent')
    return refusal(statement.traits, 'transaction')
  }

  _ended(statement: Statement, error: PostgresError | undefined): boolean {
    if (error === undefined) return false
    const begin = this.#beginError
    if (begin !== undefined && error.code === 'aborted') {
      statement.finishWith(again(begin, 'Rejected').about(statement.text))
      return true
    }
    this._failed(error)
    return false
  }

  _failed(error: PostgresError): void {
    if (error.outcome !== 'Applied') this.#failure ??= error
    this.hasConflict ||= isConflict(error)
  }

  // --- groups ---

  /** What is sent now is of one segment with what else is sent in this turn. */
  #join(): void {
    if (!this.#isGrouped) {
      this.#isGrouped = true
      // Before the connection asks for the same, so that it writes all of it at once.
      process.nextTick(() => this.alone())
    }
    if (this.#state !== 'new') return
    this.#state = 'beginning'
    this.#control(this.#begin, Flag.MEMBER).then(
      () => this.#begun(undefined),
      (error: PostgresError) => this.#begun(error),
    )
  }

  /** Ends the segment that is open, if one is. */
  #sync(): Promise<string> | undefined {
    if (!this.#isGrouped) return undefined
    this.#isGrouped = false
    return new Promise((resolve, reject) => {
      const place = this.connection.sync(new Control(this.connection, resolve, reject))
      if (place < 0) reject(refused(place))
    })
  }

  /** What is sent next is of no segment. */
  alone(): void {
    this.#sync()?.catch(() => undefined)
  }

  #begun(error: PostgresError | undefined): void {
    if (error !== undefined) {
      this.#beginError = again(error, error.outcome)
      this.#beginError.message = `BEGIN: ${error.message}`
    } else if (this.#state === 'beginning') this.#state = 'open'
    for (const tell of this.#waiting.splice(0)) tell()
    for (const [level, statement] of this.#held.splice(0)) this._send(level, statement)
  }

  /** Sees that it has begun on the server, for what can't be of a segment with BEGIN. */
  async ready(level: Level): Promise<void> {
    if (this.#state === 'over' || this.levels.at(-1) !== level) {
      throw misuse('transaction_over', 'the transaction or savepoint is over, or another one is open in it')
    }
    if (this.#state === 'new') this.#join()
    await this.#answered()
    if (this.#beginError !== undefined) throw again(this.#beginError, 'NotSent')
    this.#startLevels()
    this.alone()
  }

  #answered(): Promise<void> | undefined {
    if (this.#state !== 'beginning' || this.#beginError !== undefined) return undefined
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  /** A statement of ours: resolves to its tag. */
  #control(text: string, flags: number): Promise<string> {
    return new Promise((resolve, reject) => {
      const control = new Control(this.connection, resolve, reject)
      const place = this.connection.submit(control, flags, text, [])
      if (place < 0) reject(refused(place))
    })
  }

  // --- savepoints ---

  #startLevels(): void {
    for (const level of this.levels) {
      if (level.isStarted) continue
      level.isStarted = true
      this.#join()
      this.#control(`savepoint ${level.name}`, Flag.MEMBER).catch((error) => this._failed(error as PostgresError))
    }
  }

  async savepoint<T>(from: Level, run: (level: Level) => Promise<T>): Promise<T> {
    if (this.#state === 'over' || this.levels.at(-1) !== from) {
      throw misuse('savepoint_open', 'the transaction is over, or another savepoint is open in it')
    }
    const level = new Level(this, `onetrip_${this.levels.length}`)
    const failure = this.#failure
    this.levels.push(level)
    try {
      const value = await run(level)
      if (this.#failure !== failure) throw rolledBack(this.#failure)
      this.#leave(level)
      if (level.isStarted && !this.connection.isOver) this.#quietly([`release ${level.name}`])
      return value
    } catch (error) {
      this.#leave(level)
      this.alone()
      if (level.isStarted && !this.connection.isOver) {
        this.#quietly([`rollback to ${level.name}`, `release ${level.name}`])
        this.#failure = failure
      }
      throw error
    }
  }

  #leave(level: Level): void {
    level.isOver = true
    while (this.levels.includes(level)) this.levels.pop()
  }

  /** Nobody waits for these; where they fail so does what comes next. */
  #quietly(texts: readonly string[]): void {
    this.#join()
    for (const text of texts) this.#control(text, Flag.MEMBER).catch((error) => this._failed(error as PostgresError))
  }

  // --- ends ---

  /** `statements` leave in one segment with COMMIT. */
  async commit(statements: readonly Statement[]): Promise<void> {
    for (const statement of statements) statement.settled().catch(() => undefined)
    this.outermost.isOver = true
    if (this.#state === 'new') return void (this.#state = 'over')
    const together = statements.length > 0 && this.#isGrouped
    if (!together) await this.#answered()
    if (this.#beginError !== undefined) throw again(this.#beginError, 'Rejected')
    if (this.#failure?.code === 'left_out') throw rolledBack(this.#failure)
    if (!together) this.alone()
    const answer = this.#control('commit', together ? Flag.MEMBER : 0)
    const settled = together ? this.#sync() : undefined
    settled?.catch(() => undefined)
    try {
      const tag = await answer
      await settled
      this.#state = 'over'
      if (tag === 'ROLLBACK') throw rolledBack(this.#failure)
    } catch (error) {
      throw await this.#notCommitted(error as PostgresError, settled)
    }
  }

  /** What a failed COMMIT comes from. */
  async #notCommitted(error: PostgresError, settled: Promise<string> | undefined): Promise<PostgresError> {
    await settled?.catch(() => undefined)
    if (!this.connection.isInTransaction) this.#state = 'over'
    if (this.#beginError !== undefined) return again(this.#beginError, 'Rejected')
    if (error.code === 'aborted' && this.#failure !== undefined) return this.#failure
    this._failed(error)
    return error
  }

  /** Undoes all of it, unless it is over. It does not fail: where it can't be said, the connection is gone. */
  async rollback(): Promise<void> {
    for (const level of this.levels) level.isOver = true
    const { connection } = this
    if (this.#state === 'new') this.#state = 'over'
    if (this.#state === 'over') return
    await this.#answered()
    this.#state = 'over'
    this.alone()
    if (connection.isOver || this.#beginError !== undefined) return
    try {
      await this.#control('rollback', 0)
    } catch (error) {
      connection.destroy(again(error as PostgresError, 'Unknown'))
    }
  }
}

/** Where the statements of a transaction go, or those behind one of its savepoints. */
export class Level implements Scope {
  isStarted: boolean
  isOver = false

  constructor(
    readonly transaction: Transaction,
    readonly name: string,
  ) {
    this.isStarted = name === ''
  }

  _submit(statement: Statement): void {
    this.transaction._send(this, statement)
  }

  _takeBack(statement: Statement): void {
    this.transaction._takeBack(statement)
  }
}

function rolledBack(cause: PostgresError | undefined): PostgresError {
  const why = cause === undefined ? 'a statement in it failed' : cause.message
  return new PostgresError('rolled_back', 'Rejected', `rolled back, since it had failed: ${why}`, cause)
}

/** A statement of the client's own: its tag is all that is looked at. */
export class Control implements Receiver {
  readonly #connection: Connection
  readonly #resolve: (tag: string) => void
  readonly #reject: (error: PostgresError) => void
  #tag = ''

  constructor(connection: Connection, resolve: (tag: string) => void, reject: (error: PostgresError) => void) {
    this.#connection = connection
    this.#resolve = resolve
    this.#reject = reject
  }

  received(start: number, end: number): void {
    for (let at = start; at < end; at += 1 + memory.int32(at + 1)) {
      const type = memory.bytes[at]
      if (type === COMMAND_COMPLETE) this.#tag = memory.text(at + 5, at + memory.int32(at + 1))
      else if (type === READY_FOR_QUERY) this.#connection.status(memory.bytes[at + 5] as number)
    }
  }

  restarted(): void {}

  ended(how: number, outcome: number, start: number, end: number): void {
    const connection = this.#connection
    // A sync point comes without its ReadyForQuery.
    connection.ended(this.#tag === '' ? End.PROVISIONAL : how)
    const known = OUTCOMES[outcome] ?? 'Unknown'
    if (how <= End.PROVISIONAL) this.#resolve(this.#tag)
    else if (how === End.SERVER) this.#reject(serverError(start, end, known))
    else if (how === End.CLOSED) this.#reject(again(connection.why, known))
    else this.#reject(ended(how, known))
  }
}

const COMMAND_COMPLETE = 0x43
const READY_FOR_QUERY = 0x5a
