import { End, OUTCOMES } from '../engine/exports'
import type { Receiver } from '../engine/link'
import { memory } from '../engine/memory'
import type { Connection } from './connection'
import { again, type PostgresError } from './error'
import { ended, refused, serverError } from './failure'

/** A statement of the client's own: its tag is all that is looked at. */
export class Control implements Receiver {
  readonly #text: string
  readonly #connection: Connection
  readonly #resolve: (tag: string) => void
  readonly #reject: (error: PostgresError) => void
  #tag = ''

  constructor(
    text: string,
    resolve: (tag: string) => void,
    reject: (error: PostgresError) => void,
    connection: Connection,
  ) {
    this.#text = text
    this.#resolve = resolve
    this.#reject = reject
    this.#connection = connection
  }

  /** Whether it was taken. */
  _sendOn(connection: Connection, flags: number): boolean {
    const place = connection.submit(this, flags, this.#text, [])
    if (place < 0) this.#reject(refused(place))
    return place >= 0
  }

  fail(error: PostgresError): void {
    this.#reject(error)
  }

  received(start: number, end: number): void {
    for (let at = start; at < end; at += 1 + memory.int32(at + 1)) {
      const type = memory.bytes[at]
      if (type === COMMAND_COMPLETE) this.#tag = memory.text(at + 5, at + memory.int32(at + 1))
      else if (type === READY_FOR_QUERY) this.#connection.status(memory.bytes[at + 5] as number)
    }
  }

  restarted(): void {}

  ended(how: number, outcome: number, start: number, end: number): void {
    const connection = this.#connection
    // A sync point comes without its ReadyForQuery.
    connection.ended(this.#tag === '' ? End.PROVISIONAL : how)
    const known = OUTCOMES[outcome] ?? 'Unknown'
    if (how <= End.PROVISIONAL) this.#resolve(this.#tag)
    else if (how === End.SERVER) this.#reject(serverError(start, end, known))
    else if (how === End.CLOSED) this.#reject(again(connection.why, known))
    else this.#reject(ended(how, known))
  }
}

const COMMAND_COMPLETE = 0x43
const READY_FOR_QUERY = 0x5a
