import { Act, Flag, OUTCOMES, StatementPlace } from '../engine/exports'
import { modesOf, type TransactionOptions } from './begin'
import type { Connection } from './connection'
import { Control } from './control'
import { again, misuse, PostgresError } from './error'
import type { Keeper, Scope } from './scope'
import type { Statement } from './statement'
import { refusal } from './traits'

/**
 * A transaction on a connection of its own. What is sent of it, and what its answers mean, is the
 * engine's. Statements that are made in one turn share a sync point.
 */
export class Transaction implements Keeper {
  readonly connection: Connection
  readonly outermost = new Level(this)
  /** The transaction and the savepoints that are open. */
  readonly #levels: Level[] = [this.outermost]
  /** The last statement of the segment, unless another one is made in this turn. */
  #held: Statement | undefined
  #isIncomplete = false

  constructor(connection: Connection, options: TransactionOptions) {
    this.connection = connection
    connection.begin(modesOf(options), () => this.#send(0))
  }

  _send(level: Level, statement: Statement): void {
    const error = this.#check(level) ?? refusal(statement.traits, StatementPlace.TRANSACTION)
    if (error !== undefined) return statement.fail(error, 'NotSent')
    // What is behind it depends on it: it is not taken back.
    statement.keeper = this
    this.#send(Flag.MEMBER)
    this.#held = statement
    this.connection.hold()
  }

  #send(flags: number): void {
    const held = this.#held
    this.#held = undefined
    // Members in front of one that is refused need an end.
    if (held?._sendOn(this.connection, flags) === false) this.connection.act(Act.FLUSH)
  }

  /** It is not to be sent any more: then nothing of the transaction is to stand. */
  _takeBack(statement: Statement): void {
    if (this.#held !== statement) return
    this.#held = undefined
    this.#isIncomplete = true
  }

  #check(level: Level): PostgresError | undefined {
    if (level.isOver) {
      return misuse(
        'transaction_over',
        'the transaction or savepoint is over: its function has ended',
      )
    }
    return this.#levels.at(-1) === level
      ? undefined
      : misuse('savepoint_open', 'a savepoint is open: use what its function was given')
  }

  _ended(): boolean {
    return false
  }

  /** Sees that it has begun on the server, for what the server would not skip. */
  async ready(level: Level): Promise<void> {
    const error = this.#check(level)
    if (error !== undefined) throw error
    const { connection } = this
    if (connection.act(Act.IS_KNOWN) > 0) return
    // An empty text runs nothing, and is skipped as any statement would be.
    await new Promise<void>((resolve, reject) => {
      new Control('', resolve, reject, connection)._sendOn(connection, Flag.UNPREPARED)
    })
  }

  /** Whether it is run again, as things stand. */
  get runsAgain(): boolean {
    return this.connection.act(Act.RUNS_AGAIN) > 0
  }

  /** Resolves when it has ended on the server. */
  #end(act: Act.RELEASE | Act.COMMIT | Act.ROLLBACK): Promise<void> {
    return new Promise((resolve, reject) => {
      new Control('', resolve, reject, this.connection)._actOn(this.connection, act)
    })
  }

  // --- savepoints ---

  async savepoint<T>(from: Level, run: (level: Level) => Promise<T>): Promise<T> {
    const error = this.#check(from)
    if (error !== undefined) throw error
    const level = new Level(this)
    this.#levels.push(level)
    this.connection.act(Act.SAVEPOINT)
    let value: T
    try {
      value = await run(level)
    } catch (error) {
      if (!level.isOver) this.#undo(level)
      throw error
    }
    const over = level.isOver ? this.#check(level) : undefined
    if (over !== undefined) throw over
    // Those whose functions have not ended are undone.
    const inner = this.#levels[this.#levels.indexOf(level) + 1]
    if (inner !== undefined) this.#undo(inner)
    this.#leave(level)
    await this.#end(Act.RELEASE)
    return value
  }

  /** With all that is open in it. */
  #undo(level: Level): void {
    while (!level.isOver) {
      this.#leave(this.#levels.at(-1) as Level)
      this.connection.act(Act.UNDO)
    }
  }

  #leave(level: Level): void {
    level.isOver = true
    this.#levels.pop()
  }

  // --- ends ---

  /** Nothing more is to be sent of it. */
  #close(): void {
    for (const level of this.#levels) level.isOver = true
  }

  /** Commits, in one write with what was submitted in this turn: `statements`, of which the first that failed is the error. */
  async commit(statements: readonly Statement[]): Promise<void> {
    const ends = Promise.allSettled(statements.map((it) => it.settled()))
    this.#close()
    if (this.#isIncomplete) {
      const message = 'rolled back, since a statement was given up before it was sent'
      throw new PostgresError('rolled_back', 'Rejected', message)
    }
    const committed = await this.#end(Act.COMMIT).catch((error: PostgresError) => error)
    const failed = (await ends).find((it) => it.status === 'rejected')
    const error = failed?.status === 'rejected' ? (failed.reason as unknown) : undefined
    if (error instanceof PostgresError) {
      const outcome = this.connection.act(Act.WITH_COMMIT, OUTCOMES.indexOf(error.outcome))
      error.outcome = OUTCOMES[outcome] ?? 'Unknown'
    }
    if (error !== undefined) throw error
    if (committed !== undefined) throw committed
  }

  /**
   * Undoes all of it, unless it is over. It does not fail: where it can't be said, the connection
   * is gone.
   */
  async rollback(): Promise<void> {
    this.#close()
    const { connection } = this
    if (connection.isOver) return
    await this.#end(Act.ROLLBACK).catch((error: PostgresError) =>
      connection.destroy(again(error, 'Unknown')),
    )
  }

  /** The connection goes to somebody else. */
  forget(): void {
    this.connection.act(Act.FORGET)
  }
}

/** Where the statements of a transaction go, or those behind one of its savepoints. */
export class Level implements Scope {
  isOver = false

  constructor(readonly transaction: Transaction) {}

  _submit(statement: Statement): void {
    this.transaction._send(this, statement)
  }

  _takeBack(statement: Statement): void {
    this.transaction._takeBack(statement)
  }
}
