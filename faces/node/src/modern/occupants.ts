import { misuse, type PostgresError } from './error'

/**
 * A stream or a COPY that has the connection of a transaction or session, from its first read or
 * write on.
 */
export interface Occupant {
  readonly kind: 'stream' | 'copyIn' | 'copyOut'
  /** Its caller has neither read or written it to the end nor left it. */
  readonly isOpen: boolean
  /** Leaves it, and tells its caller why. */
  expel(why: PostgresError): void
}

/**
 * The streams and COPYs on a connection that one caller has to itself. Nothing can be sent behind
 * one that is open: its caller may wait for that before it reads or writes on.
 */
export class Occupants {
  readonly #all = new Set<Occupant>()
  #whenNone: (() => void)[] = []

  enter(occupant: Occupant): void {
    this.#all.add(occupant)
  }

  leave(occupant: Occupant): void {
    if (!this.#all.delete(occupant) || this.#all.size > 0) return
    for (const tell of this.#whenNone.splice(0)) tell()
  }

  /** Why nothing can be sent now; undefined if it can. */
  get refusal(): PostgresError | undefined {
    for (const { isOpen, kind } of this.#all) {
      if (!isOpen) continue
      return kind === 'stream'
        ? misuse(
            'stream_open',
            'a stream of this transaction or session is half read: read it to its end or leave its loop first, or await its rows instead',
          )
        : misuse(
            'copy_open',
            'a COPY of this transaction or session is open: end its stream first, or send this on another connection',
          )
    }
    return undefined
  }

  /**
   * What they belong to ends: leaves those that are open. Returns the error of a COPY FROM STDIN
   * among them, whose data would be missing.
   */
  expel(): PostgresError | undefined {
    let error: PostgresError | undefined
    for (const occupant of [...this.#all]) {
      if (!occupant.isOpen) continue
      if (occupant.kind === 'copyIn') error = unfinished()
      occupant.expel(occupant.kind === 'copyIn' ? unfinished() : unread(occupant.kind))
    }
    return error
  }

  get areNone(): boolean {
    return this.#all.size === 0
  }

  /** Resolves when there are none. Those that are not open end by themselves. */
  whenNone(): Promise<void> {
    return this.areNone ? Promise.resolve() : new Promise((resolve) => this.#whenNone.push(resolve))
  }
}

function unfinished(): PostgresError {
  const message =
    'the COPY was undone, since its transaction, savepoint or session ended while it was open: end its stream, and await that, before'
  const error = misuse('copy_open', message)
  error.outcome = 'Rejected'
  return error
}

function unread(kind: 'stream' | 'copyOut'): PostgresError {
  const message =
    'the transaction, savepoint or session of this stream ended before it was read to its end: read it inside'
  const error = misuse(kind === 'stream' ? 'stream_open' : 'copy_open', message)
  error.outcome = 'Unknown'
  return error
}
