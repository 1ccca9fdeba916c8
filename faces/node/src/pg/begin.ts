import { End } from '../engine/exports'
import type { Receiver } from '../engine/link'
import type { DatabaseError } from './error'
import { databaseError } from './report'

/**
 * The error of a statement that did not run because the server refused the BEGIN of its
 * transaction.
 */
export function beginError(start: number, end: number): DatabaseError {
  const error = databaseError(start, end)
  error.message = `BEGIN failed: ${error.message}`
  return error
}

/** The receiver of a sync point that tells whether a transaction has begun. */
export class Opening implements Receiver {
  readonly #done: (error: Error | undefined) => void
  readonly #lost: () => Error

  constructor(done: (error: Error | undefined) => void, lost: () => Error) {
    this.#done = done
    this.#lost = lost
  }

  received(): void {}

  restarted(): void {}

  ended(how: number, _outcome: number, start: number, end: number): void {
    if (how <= End.PROVISIONAL) this.#done(undefined)
    else this.#done(how === End.BEGIN ? beginError(start, end) : this.#lost())
  }
}
