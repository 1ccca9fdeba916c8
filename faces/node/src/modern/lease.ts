import type { Connection } from './connection'

/** Who takes it back. */
export interface Lessor {
  _release(connection: Connection): void
}

/** A connection that one caller has to himself. */
export class Lease {
  readonly connection: Connection
  readonly #to: Lessor
  #isOver = false

  constructor(to: Lessor, connection: Connection) {
    this.#to = to
    this.connection = connection
    connection.lend()
  }

  /** Gives it back when it has answered what was sent on it. */
  releaseWhenIdle(): void {
    void this.connection.whenIdle().then(() => this.release())
  }

  /** Gives it back. What was sent on it has been answered. */
  release(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#to._release(this.connection)
  }
}
