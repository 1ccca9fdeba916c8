import { later } from '../engine/replicas'

/**
 * A place in the write-ahead log of a cluster: a server that has replayed up to it shows all writes
 * that were acknowledged before it was taken. `sql.position()` makes one; `reads().after(…)` takes
 * it.
 *
 * Its text is some 40 letters, digits and `-`, which a cookie or a header can carry as they are. It
 * ends with a check of the rest, so that one that was cut short or mistyped is no position rather
 * than an older one. It is no secret, and proves nothing: who forges one sees less, or waits.
 */
export class Position {
  readonly #text: string

  private constructor(text: string) {
    this.#text = text
  }

  /** Reads the text of a position. A text that is none is a `TypeError`. */
  static parse(text: string): Position {
    if (typeof text !== 'string' || later(text, text) < 0) {
      throw new TypeError(
        'this is no position, or not all of one: four numbers in hexadecimal are expected, with - between, of which the last is a check of the others',
      )
    }
    return new Position(text)
  }

  /** The one of both that covers the other: that of the later timeline, else the larger one. */
  max(other: Position): Position {
    return later(this.#text, other.#text) > 0 ? other : this
  }

  toString(): string {
    return this.#text
  }

  toJSON(): string {
    return this.#text
  }
}
