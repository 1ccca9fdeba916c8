import { onLoan, type Loan } from '../engine/abandoned'
import { Act, Leaver, OUTCOMES } from '../engine/choices'
import { Flag, StatementPlace } from '../engine/exports'
import { outcomeLeft } from '../engine/outcome'
import { modesOf, type TransactionOptions } from './begin'
import type { Connection } from './connection'
import { Control } from './control'
import { again, misuse, PostgresError } from './error'
import type { Occupant } from './occupants'
import type { Keeper, Scope } from './scope'
import type { Statement } from './statement'
import { refusal } from './traits'

/**
 * A transaction on a connection of its own. The engine decides what is sent for it, and what the
 * answers mean. Statements that are submitted in one turn share a sync point.
 */
export class Transaction implements Keeper {
  readonly connection: Connection
  readonly outermost = new Level(this)
  /** The transaction and the savepoints that are open. */
  readonly #levels: Level[] = [this.outermost]
  readonly #segment: Segment
  /** COMMIT was asked for: what fails from now on speaks of the whole. */
  #isCommitting = false

  /** Begins on a connection, which is given back when the transaction can't be reached any more. */
  constructor(borrowed: Borrowed, options: TransactionOptions) {
    const { connection } = borrowed
    this.connection = connection
    const segment = new Segment(connection)
    this.#segment = segment
    connection.begin(modesOf(options), () => segment.send(0))
    onLoan(this, borrowed)
  }

  _send(level: Level, statement: Statement): void {
    const error = this.#check(level)
    if (error !== undefined) return statement.fail(error, 'NotSent')
    const refused = refusal(statement.traits, StatementPlace.TRANSACTION)
    if (refused !== undefined) {
      this.connection.act(Act.LEAVE_OUT)
      return statement.fail(refused, 'NotSent')
    }
    // Later statements depend on it, so it must not be taken back from the queue.
    statement.keeper = this
    this.#segment.add(statement)
  }

  /** A statement was given up before it was sent: the engine does not commit without it. It knows by
   * itself of those that it refuses. */
  _takeBack(statement: Statement): void {
    this.#segment.takeBack(statement)
    this.connection.act(Act.LEAVE_OUT)
  }

  get #hasLeft(): boolean {
    return this.connection.act(Act.HAS_LEFT) > 0
  }

  #check(level: Level): PostgresError | undefined {
    if (level.isOver) return over()
    return this.#levels.at(-1) === level
      ? this.connection.occupants.refusal
      : misuse('savepoint_open', 'a savepoint is open: use the argument of its function')
  }

  _ended(): boolean {
    return false
  }

  _marks(error: PostgresError): void {
    PART_OF.set(error, this)
  }

  /** An error leaves the transaction, or a savepoint of it, whose work it speaks of from now on. */
  #leaves(error: unknown, hasLeft: boolean): void {
    if (!(error instanceof PostgresError)) return
    const by = PART_OF.get(error) === this ? Leaver.OWN : Leaver.OTHER
    error.outcome = outcomeLeft(error.outcome, this.#isCommitting ? Leaver.COMMIT : by, hasLeft)
  }

  /**
   * Lets a stream or a COPY in, and waits until the transaction has begun on the server: it would
   * run even if BEGIN failed.
   */
  async ready(level: Level, occupant: Occupant): Promise<void> {
    const error = this.#check(level)
    if (error !== undefined) throw error
    const { connection } = this
    connection.occupants.enter(occupant)
    if (connection.act(Act.IS_KNOWN) > 0) return
    // An empty text runs nothing, and is skipped like any statement if BEGIN failed.
    await new Promise<void>((resolve, reject) => {
      new Control('', resolve, reject, connection)._sendOn(connection, Flag.UNPREPARED)
    })
    // It may have been rolled back meanwhile. What was sent now would run outside of it.
    if (level.isOver) throw over()
  }

  /**
   * A function has ended: leaves the streams that it left half read, and undoes a COPY that it left
   * open, which is an error. Resolves when the COPYs have ended whose data has.
   */
  #vacate(): Promise<void> | undefined {
    const { occupants } = this.connection
    const error = occupants.expel()
    if (error !== undefined) throw error
    return occupants.areNone ? undefined : occupants.whenNone()
  }

  /** Whether the statements of this scope run in it. */
  has(scope: Scope): boolean {
    return scope instanceof Level && scope.transaction === this
  }

  /** Whether the engine allows to run it again after its failure. */
  get runsAgain(): boolean {
    return this.connection.act(Act.RUNS_AGAIN) > 0
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
      // Whoever ended the savepoint early has seen to what was open in it.
      if (!level.isOver) await this.#vacate()
    } catch (error) {
      const hasLeft = level.isOver ? this.#hasLeft : this.#undo(level)
      this.#leaves(error, hasLeft)
      throw error
    }
    const over = level.isOver ? this.#check(level) : undefined
    if (over !== undefined) throw over
    // Inner savepoints whose functions have not ended are undone.
    const inner = this.#levels[this.#levels.indexOf(level) + 1]
    if (inner !== undefined) this.#undo(inner)
    this.#leave(level)
    const hasLeft = this.#hasLeft
    await ended(this.connection, Act.RELEASE).catch((error: PostgresError) => {
      error.outcome = outcomeLeft(error.outcome, Leaver.COMMIT, hasLeft)
      throw error
    })
    return value
  }

  /**
   * Undoes a savepoint, and those that are open in it. Returns whether something of it may have
   * reached the server.
   */
  #undo(level: Level): boolean {
    this.connection.occupants.expel()
    let hasLeft = false
    while (!level.isOver) {
      this.#leave(this.#levels.at(-1) as Level)
      hasLeft = this.#hasLeft
      this.connection.act(Act.UNDO)
    }
    return hasLeft
  }

  #leave(level: Level): void {
    level.isOver = true
    this.#levels.pop()
  }

  // --- ends ---

  /** From now on its statements are refused. */
  #close(): void {
    for (const level of this.#levels) level.isOver = true
  }

  /**
   * Commits, in one write with `statements` and whatever else was submitted in this turn. Throws
   * the error of the first statement that failed, or that of the COMMIT.
   */
  async commit(statements: readonly Statement[]): Promise<void> {
    await this.#vacate()
    // A savepoint whose function has not ended is undone, as inside of another one.
    const open = this.#levels[1]
    if (open !== undefined) this.#undo(open)
    const ends = Promise.allSettled(statements.map((it) => it.settled()))
    this.#close()
    // What was refused was not sent, so COMMIT would not fail for it.
    const refused = statements.find((it) => it.refusal !== undefined)
    if (refused !== undefined) throw refused.refusal
    this.#isCommitting = true
    const committed = await ended(this.connection, Act.COMMIT).then(
      () => undefined,
      (error: PostgresError) => error,
    )
    const error = causeOf(await ends, committed)
    if (error instanceof PostgresError) {
      const outcome = this.connection.act(Act.WITH_COMMIT, OUTCOMES.indexOf(error.outcome))
      // A connection that is gone has no COMMIT to tell of, and what is not committed is undone.
      if (outcome >= 0) error.outcome = OUTCOMES[outcome] ?? 'Unknown'
    }
    if (error !== undefined) throw error
    if (committed !== undefined) throw committed
  }

  /** Rolls back because of an error, unless the connection is over. It never rejects. */
  async rollback(error: unknown): Promise<void> {
    const open = this.connection.isOver ? this.#levels[1] : undefined
    if (open !== undefined) this.#undo(open)
    this.#close()
    await rollBack(this.connection)
    this.#leaves(error, this.#hasLeft)
  }
}

function over(): PostgresError {
  return misuse(
    'transaction_over',
    'the transaction or savepoint is over: await its statements inside its function',
  )
}

/** The transactions that errors are about: one of another leaves it as it is. */
const PART_OF = new WeakMap<PostgresError, Transaction>()

/**
 * The error of the first statement that failed. What can't be read is of no account where all is
 * undone, for another reason.
 */
function causeOf(
  ends: readonly PromiseSettledResult<unknown>[],
  committed: PostgresError | undefined,
): unknown {
  const errors = ends.flatMap((it) => (it.status === 'rejected' ? [it.reason as unknown] : []))
  const isReading = (it: unknown): boolean => it instanceof PostgresError && it.outcome === 'Applied'
  return committed === undefined ? errors[0] : errors.find((it) => !isReading(it))
}

/**
 * Rolls back what runs on a connection, unless that is over. If the ROLLBACK fails, the connection
 * is closed, which rolls back too. It never rejects.
 */
async function rollBack(connection: Connection): Promise<void> {
  connection.occupants.expel()
  if (connection.isOver) return
  try {
    await ended(connection, Act.ROLLBACK)
  } catch (error) {
    connection.destroy(again(error as PostgresError, 'Unknown'))
  }
}

/** Resolves when the server has confirmed the act. */
function ended(connection: Connection, act: Act): Promise<void> {
  return new Promise((resolve, reject) => {
    new Control('', resolve, reject, connection)._actOn(connection, act)
  })
}

/** The statements of one turn. The connection has it, and so doesn't reach the transaction. */
class Segment {
  readonly #connection: Connection
  /** The last statement so far. It ends the segment, unless another one follows in this turn. */
  #held: Statement | undefined

  constructor(connection: Connection) {
    this.#connection = connection
  }

  add(statement: Statement): void {
    this.send(Flag.MEMBER)
    this.#held = statement
    this.#connection.hold()
  }

  send(flags: number): void {
    const held = this.#held
    this.#held = undefined
    // The members in front of a refused statement need a sync point.
    if (held?._sendOn(this.#connection, flags) === false) this.#connection.act(Act.FLUSH)
  }

  takeBack(statement: Statement): void {
    if (this.#held === statement) this.#held = undefined
  }
}

/** The connection of a transaction, which is given back once. */
export class Borrowed implements Loan {
  readonly connection: Connection
  readonly #release: () => void
  #isOver = false

  constructor(connection: Connection, release: () => void) {
    this.connection = connection
    this.#release = release
  }

  /** Detaches the transaction from the connection, and gives that back. */
  giveBack(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.connection.act(Act.FORGET)
    this.#release()
  }

  abandoned(): string | undefined {
    if (this.#isOver) return undefined
    void rollBack(this.connection).then(() => this.giveBack())
    return 'A transaction was rolled back: its function has not ended, and nobody can reach it any more.'
  }
}

/** The scope of a transaction, or of one of its savepoints. */
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
