import { Writable } from 'node:stream'

import { CopyPart, Refused } from '../engine/exports'
import type { Receiver } from '../engine/link'
import type { Connection } from './connection'
import { again, misuse, type PostgresError } from './error'
import { endError, refused } from './failure'
import { guarded } from './guarded'
import type { LendingScope, Checkout } from './lending'
import { countIn, read } from './copy'

type Callback = (error?: Error | null) => void

/**
 * Sends the data of a COPY … FROM STDIN. The statement leaves with the first of it.
 *
 * It is done when the server has answered; what is destroyed before its end is undone.
 */
export class CopyingIn extends Writable implements Receiver {
  count: number | undefined
  readonly #scope: LendingScope
  readonly #text: string
  #checkout: Checkout | undefined
  #isSent = false
  #isOver = false
  #error: PostgresError | undefined
  /** Why it was given up. */
  #failure: PostgresError | undefined
  /** What the engine does not take yet, and who waits for that or for the server's last word. */
  #next: (() => void) | undefined
  #waiter: Callback | undefined

  constructor(scope: LendingScope, text: string) {
    super({ highWaterMark: WAITING_BYTES_MAX })
    this.#scope = scope
    this.#text = text
  }

  /**
   * Goes on with a connection. (`_construct` would be the place for it, but a pipeline to what is destroyed meanwhile ends
   * as if all were well, in Node 20 to 26.)
   */
  #with(failed: Callback, goOn: () => void): void {
    if (this.#checkout !== undefined) return goOn()
    this.#scope._lend().then((checkout) => {
      if (this.destroyed) return checkout.release()
      this.#checkout = checkout
      goOn()
    }, failed)
  }

  override _write(chunk: Buffer | string, encoding: BufferEncoding, callback: Callback): void {
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk
    this.#with(callback, () => this.#hand(bytes, 0, callback))
  }

  /** Of any length: the server does not look at where a message ends. */
  #hand(bytes: Buffer, from: number, callback: Callback): void {
    for (let at = from; at < bytes.length; at += PART_MAX) {
      const part = bytes.subarray(at, at + PART_MAX)
      if (!this.#give(CopyPart.DATA, part)) {
        return this.#wait(callback, () => this.#hand(bytes, at, callback))
      }
    }
    callback()
  }

  override _final(callback: Callback): void {
    this.#with(callback, () => this.#finish(callback))
  }

  #finish(callback: Callback): void {
    if (this.#give(CopyPart.DONE, NOTHING)) this.#wait(callback, undefined)
    else this.#wait(callback, () => this.#finish(callback))
  }

  #wait(waiter: Callback, next: (() => void) | undefined): void {
    if (this.#isOver) return waiter(this.#error ?? endedEarly())
    this.#waiter = waiter
    this.#next = next
  }

  /** Whether it was taken. */
  #give(part: CopyPart, data: Buffer): boolean {
    const connection = this.#checkout?.connection
    if (this.#isOver || connection === undefined) return false
    if (this.#isSent) return this.#isFed(connection.feed(this, part, data), connection)
    const place = connection.submitCopy(this, this.#text, data)
    if (place < 0) this.#over(refused(place))
    else this.#isSent = true
    return place >= 0 && (part === CopyPart.DATA || this.#give(part, data))
  }

  /** What is refused gives the COPY up: without it, nothing of it is to stand. */
  #isFed(fed: number, connection: Connection): boolean {
    if (fed >= 0 || fed === Refused.CLOSED) return fed > 0
    this.#failure = again(refused(fed), 'Rejected')
    connection.feed(this, CopyPart.FAILED, NOTHING)
    return false
  }

  override _destroy(error: Error | null, callback: (error: Error | null) => void): void {
    if (this.#isSent) this.#give(CopyPart.FAILED, Buffer.from('the client gave it up'))
    else this.#over(undefined)
    callback(error)
  }

  feedable(): void {
    const next = this.#next
    this.#next = this.#waiter = undefined
    // The code of the caller is called by it.
    if (next !== undefined) guarded(next)
  }

  received(start: number, end: number): void {
    const tag = read(start, end)
    if (tag !== undefined) this.count = countIn(tag)
  }

  restarted(): void {}

  ended(how: number, outcome: number, start: number, end: number): void {
    const checkout = this.#checkout as Checkout
    checkout.connection.ended()
    const ended = endError(checkout.connection.why, how, outcome, start, end)
    const error = (ended && (this.#failure ?? ended))?.about(this.#text)
    this.#over(error)
  }

  #over(error: PostgresError | undefined): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#error = error
    this.#checkout?.release()
    const waiter = this.#waiter
    if (waiter !== undefined) guarded(() => waiter(error))
    if (error !== undefined && !this.destroyed) this.destroy(error)
  }
}

function endedEarly(): PostgresError {
  return misuse('copy_ended', 'the COPY ended before its data did')
}

const NOTHING = Buffer.alloc(0)

/** Bytes that wait to be sent, beside what the engine and the socket keep. */
const WAITING_BYTES_MAX = 64 << 10
const PART_MAX = 256 << 10
