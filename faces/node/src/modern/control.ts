import type { Act } from '../engine/choices'
import type { Receiver } from '../engine/link'
import type { Connection } from './connection'
import { again, type PostgresError } from './error'
import { endError, refused } from './failure'

/** A statement that the client sends for itself: only whether it succeeds matters. */
export class Control implements Receiver {
  readonly #text: string
  readonly #connection: Connection
  readonly #resolve: () => void
  readonly #reject: (error: PostgresError) => void

  constructor(
    text: string,
    resolve: () => void,
    reject: (error: PostgresError) => void,
    connection: Connection,
  ) {
    this.#text = text
    this.#resolve = resolve
    this.#reject = reject
    this.#connection = connection
  }

  /** Submits it. Returns whether it was taken; if not, its promise is rejected. */
  _sendOn(connection: Connection, flags: number): boolean {
    const place = connection.submit(this, flags, this.#text, [])
    if (place < 0) this.#reject(refused(place, connection.why))
    return place >= 0
  }

  /** Acts on a transaction, and settles the promise when the act has ended. */
  _actOn(connection: Connection, act: Act): void {
    const said = connection.act(act, this)
    if (said < 0) this.#reject(connection.isOver ? again(connection.why, 'NotSent') : refused(said))
  }

  received(): void {}

  restarted(): void {}

  ended(how: number, outcome: number, start: number, end: number): void {
    const connection = this.#connection
    connection.ended()
    const error = endError(connection.why, how, outcome, start, end)
    if (error === undefined) this.#resolve()
    else this.#reject(error)
  }
}
