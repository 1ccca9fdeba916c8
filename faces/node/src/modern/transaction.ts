import { Flag, StatementPlace } from '../engine/exports'
import { beginText, type TransactionOptions } from './begin'
import type { Connection } from './connection'
import { Control } from './control'
import { again, isConflict, misuse, PostgresError } from './error'
import type { Keeper, Scope } from './scope'
import type { Statement } from './statement'
import { refusal } from './traits'

/**
 * A transaction on a connection of its own. Statements that are made in one turn share a sync
 * point; BEGIN is in front of the first of them, and where it fails they are skipped. What is made
 * before it was answered waits for that, so nothing can run outside of the transaction.
 */
export class Transaction implements Keeper {
  /** A statement had a failure after which the transaction may succeed if it is run again. */
  hasConflict = false
  readonly connection: Connection
  readonly #begin: string
  #state: 'new' | 'beginning' | 'open' | 'over' = 'new'
  #beginError: PostgresError | undefined
  #failure: PostgresError | undefined
  /** What leaves next, as one segment. */
  #queue: (Statement | Control)[] = []
  #isScheduled = false
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
    this.#startLevels()
    statement.keeper = this
    this.#enqueue(statement)
  }

  /** It is not to be sent any more: then nothing of the transaction is to stand. */
  _takeBack(statement: Statement): void {
    const at = this.#queue.indexOf(statement)
    if (at < 0) return
    this.#queue.splice(at, 1)
    this.#failure ??= misuse('left_out', 'a statement was given up before it was sent')
  }

  #refusal(level: Level, statement: Statement): PostgresError | undefined {
    if (this.#state === 'over' || level.isOver) {
      return misuse(
        'transaction_over',
        'the transaction or savepoint is over: its function has ended',
      )
    }
    if (this.levels.at(-1) !== level) {
      return misuse('savepoint_open', 'a savepoint is open: use what its function was given')
    }
    if (this.#beginError !== undefined) return again(this.#beginError, 'NotSent')
    return refusal(statement.traits, StatementPlace.TRANSACTION)
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

  // --- segments ---

  #enqueue(item: Statement | Control): void {
    this.#queue.push(item)
    if (this.#isScheduled) return
    this.#isScheduled = true
    process.nextTick(() => this.#flush())
  }

  /**
   * Sends what waits, unless it waits for the answer to BEGIN. What is sent next is of another
   * segment.
   */
  #flush(): void {
    this.#isScheduled = false
    if (this.#state === 'beginning' || this.#state === 'over' || this.#queue.length === 0) return
    if (this.#state === 'new') this.#queue.unshift(this.#beginning())
    const items = this.#queue
    this.#queue = []
    const last = items.length - 1
    let isOpen = false
    items.forEach((item, i) => {
      const sent = item._sendOn(this.connection, i < last ? Flag.MEMBER : 0)
      isOpen = sent ? i < last : isOpen
    })
    // The last one was refused, and what is in front of it needs an end.
    if (isOpen) this.connection.sync(new Control('', noop, noop, this.connection))
  }

  #beginning(): Control {
    this.#state = 'beginning'
    return new Control(
      this.#begin,
      () => this.#begun(undefined),
      (error) => this.#begun(error),
      this.connection,
    )
  }

  #begun(error: PostgresError | undefined): void {
    if (error !== undefined) {
      const failure = again(error, error.outcome)
      failure.message = `BEGIN: ${error.message}`
      this.#beginError = failure
      for (const item of this.#queue.splice(0)) item.fail(again(failure, 'NotSent'), 'NotSent')
    }
    if (this.#state === 'beginning') this.#state = 'open'
    for (const tell of this.#waiting.splice(0)) tell()
    // Behind the first statements, whose ends come next.
    if (this.#queue.length > 0 && !this.#isScheduled) process.nextTick(() => this.#flush())
  }

  /** Sees that it has begun on the server, for what can't be of a segment with BEGIN. */
  async ready(level: Level): Promise<void> {
    if (this.#state === 'over' || level.isOver || this.levels.at(-1) !== level) {
      throw misuse(
        'transaction_over',
        'the transaction or savepoint is over, or another one is open in it',
      )
    }
    this.#startLevels()
    if (this.#state === 'new' && this.#queue.length === 0) this.#queue.push(this.#beginning())
    if (this.#state === 'beginning' && this.#queue.length === 1) this.#sendBegin()
    this.#flush()
    await this.#answered()
    if (this.#beginError !== undefined) throw again(this.#beginError, 'NotSent')
  }

  #sendBegin(): void {
    const begin = this.#queue.pop()
    begin?._sendOn(this.connection, 0)
  }

  /** What is sent next is of no segment with what was. */
  alone(): void {
    this.#flush()
  }

  #answered(): Promise<void> | undefined {
    if (this.#state !== 'beginning') return undefined
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  /** A statement of ours: resolves to its tag. */
  #control(text: string): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#enqueue(new Control(text, resolve, reject, this.connection))
    })
  }

  // --- savepoints ---

  #startLevels(): void {
    for (const level of this.levels) {
      if (level.isStarted) continue
      level.isStarted = true
      this.#quietly(`savepoint ${level.name}`)
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
      if (level.isStarted) this.#quietly(`release ${level.name}`)
      return value
    } catch (error) {
      this.#leave(level)
      // What failed skips all up to its sync point.
      this.#flush()
      if (level.isStarted) {
        this.#quietly(`rollback to ${level.name}`)
        this.#quietly(`release ${level.name}`)
        this.#failure = failure
      }
      throw error
    }
  }

  #leave(level: Level): void {
    level.isOver = true
    while (this.levels.includes(level)) this.levels.pop()
  }

  /** Nobody waits for it; where it fails so does what comes next. */
  #quietly(text: string): void {
    this.#control(text).catch((error) => this._failed(error as PostgresError))
  }

  // --- ends ---

  /** `statements` leave in one segment with COMMIT. */
  async commit(statements: readonly Statement[]): Promise<void> {
    for (const statement of statements) statement.settled().catch(noop)
    this.outermost.isOver = true
    if (this.#state === 'new' && this.#queue.length === 0) return void (this.#state = 'over')
    if (this.#beginError !== undefined) throw again(this.#beginError, 'Rejected')
    if (this.#failure?.code === 'left_out') throw rolledBack(this.#failure)
    const answer = this.#control('commit')
    this.#flush()
    try {
      const tag = await answer
      this.#state = 'over'
      if (tag === 'ROLLBACK') throw rolledBack(this.#failure)
    } catch (error) {
      throw this.#notCommitted(error as PostgresError)
    }
  }

  /** What a failed COMMIT comes from. */
  #notCommitted(error: PostgresError): PostgresError {
    if (!this.connection.isInTransaction) this.#state = 'over'
    const begin = this.#beginError
    // Where its answer was lost, COMMIT may have run all the same.
    if (begin?.outcome === 'Rejected') return again(begin, 'Rejected')
    if (error.code === 'aborted' && this.#failure !== undefined) return this.#failure
    this._failed(error)
    return error
  }

  /**
   * Undoes all of it, unless it is over. It does not fail: where it can't be said, the connection
   * is gone.
   */
  async rollback(): Promise<void> {
    for (const level of this.levels) level.isOver = true
    const over = misuse('transaction_over', 'the transaction was rolled back before this was sent')
    for (const item of this.#queue.splice(0)) item.fail(again(over, 'NotSent'), 'NotSent')
    if (this.#state === 'new') this.#state = 'over'
    if (this.#state === 'over') return
    await this.#answered()
    const { connection } = this
    if (!connection.isOver && this.#beginError === undefined) {
      const answer = this.#control('rollback')
      this.#flush()
      await answer.catch((error) => connection.destroy(again(error as PostgresError, 'Unknown')))
    }
    this.#state = 'over'
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
  return new PostgresError(
    'rolled_back',
    'Rejected',
    `rolled back, since it had failed: ${why}`,
    cause,
  )
}

function noop(): void {}
