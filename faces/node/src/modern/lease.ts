import type { Connection } from './connection'

/** The pool that takes a connection back. */
export interface Lessor {
  _release(connection: Connection): void
}

/** A connection that one caller has to itself until it is released. */
export class Lease {
  readonly connection: Connection
  readonly #to: Lessor
  #isOver = false

  constructor(to: Lessor, connection: Connection) {
    this.#to = to
    this.connection = connection
    connection.lend()
  }

  /** Gives the connection back once all requests on it have ended. */
  releaseWhenIdle(): void {
    void this.connection.whenIdle().then(() => this.release())
  }

  /** Gives the connection back. All requests on it must have ended. */
  release(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#to._release(this.connection)
  }
}
