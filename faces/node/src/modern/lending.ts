import { onLoan, type Loan } from '../engine/abandoned'
import { Rest } from '../engine/choices'
import { StatementPlace } from '../engine/exports'
import type { Connection } from './connection'
import type { Lease } from './lease'
import type { Pool } from './pool'
import { misuse, type PostgresError } from './error'
import type { Occupant, Occupants } from './occupants'
import type { Scope } from './scope'
import type { Statement } from './statement'
import { refusal } from './traits'
import type { Level } from './transaction'

/** A connection for as long as a stream or a COPY runs. */
export interface Checkout {
  readonly connection: Connection
  /** How the engine ends a stream that is left early. */
  readonly rest: Rest
  readonly place: StatementPlace
  release(): void
  /** Notes an error as one of the transaction that it is part of. */
  marks?(error: PostgresError): void
}

/** A scope whose streams and COPYs get a connection from it. */
export interface LendingScope extends Scope {
  /** The streams and COPYs on its connection; undefined if each has a connection of its own. */
  readonly _occupants: Occupants | undefined
  _lend(occupant: Occupant): Promise<Checkout>
}

/** Checks a connection out of the pool. */
export async function lendOf(pool: Pool): Promise<Checkout> {
  const lease = await pool.checkout()
  return {
    connection: lease.connection,
    rest: Rest.CLOSE,
    place: StatementPlace.SHARED,
    release: () => lease.release(),
  }
}

/** Returns the connection of a transaction, once the transaction has begun on the server. */
export async function lendOfLevel(level: Level, occupant: Occupant): Promise<Checkout> {
  const { transaction } = level
  await transaction.ready(level, occupant)
  return {
    connection: transaction.connection,
    rest: Rest.READ,
    place: StatementPlace.TRANSACTION,
    release: () => undefined,
    marks: (error) => transaction._marks(error),
  }
}

/** The scope of `sql.session()`: statements on a connection that one caller has to itself. */
export class Session implements LendingScope {
  readonly #held: Held
  /** A transaction of `session.begin` is open on it. */
  isInTransaction = false

  constructor(lease: Lease) {
    this.#held = new Held(lease)
    onLoan(this, this.#held)
  }

  get connection(): Connection {
    return this.#held.lease.connection
  }

  get _occupants(): Occupants {
    return this.connection.occupants
  }

  check(): PostgresError | undefined {
    if (this.#held.isOver) return misuse('session_over', 'the session was released')
    return this.isInTransaction
      ? misuse(
          'transaction_open',
          'a transaction is open on this session: use the argument of its function',
        )
      : this._occupants.refusal
  }

  _submit(statement: Statement): void {
    const error = this.check() ?? refusal(statement.traits, StatementPlace.SESSION)
    if (error !== undefined) return statement.fail(error, 'NotSent')
    statement._run(this.connection)
  }

  _takeBack(): void {}

  async _lend(occupant: Occupant): Promise<Checkout> {
    const error = this.check()
    if (error !== undefined) throw error
    this._occupants.enter(occupant)
    return {
      connection: this.connection,
      rest: Rest.CANCEL,
      place: StatementPlace.SESSION,
      release: () => undefined,
    }
  }

  release(): void {
    this.#held.release()
  }
}

/** The connection of a session. */
class Held implements Loan {
  readonly lease: Lease
  isOver = false

  constructor(lease: Lease) {
    this.lease = lease
  }

  /**
   * Gives the connection back once all requests on it have ended. Streams and COPYs that are open
   * are ended.
   */
  release(): void {
    if (this.isOver) return
    this.isOver = true
    const { occupants } = this.lease.connection
    occupants.expel()
    void occupants.whenNone().then(() => this.lease.releaseWhenIdle())
  }

  abandoned(): string | undefined {
    if (this.isOver) return undefined
    this.release()
    return 'A session was released: its user did not, and nobody can reach it any more.'
  }
}
