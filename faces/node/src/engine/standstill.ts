/**
 * Tells that nothing has moved for `STANDSTILL_MS`, each time, until it is stopped. An end that
 * waits for callers asks it: what a caller holds and does nothing with may never come back, since
 * the caller may be waiting for that end.
 */
export class Standstill {
  readonly #moves: () => number
  readonly #told: () => void
  #timer: NodeJS.Timeout

  /** `moves` counts what has moved so far. */
  constructor(moves: () => number, told: () => void) {
    this.#moves = moves
    this.#told = told
    this.#timer = this.#watch()
  }

  #watch(): NodeJS.Timeout {
    const before = this.#moves()
    return setTimeout(() => {
      if (this.#moves() === before) this.#told()
      this.#timer = this.#watch()
    }, STANDSTILL_MS)
  }

  stop(): void {
    clearTimeout(this.#timer)
  }
}

/** The warning of an end that has cut what callers held. */
export function warnOfHeld(what: string): void {
  process.emitWarning(
    `${what} was cut off at the end of its client: its user had not given it back, and nothing had moved for ${STANDSTILL_MS / 1000} s. End what you hold before you end the client.`,
    { code: 'ONETRIP_HELD' },
  )
}

export const STANDSTILL_MS = 5000
