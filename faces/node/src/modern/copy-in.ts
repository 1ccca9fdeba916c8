import { Writable } from 'node:stream'

import { onLoan, type Loan } from '../engine/abandoned'
import { CopyPart, type Outcome } from '../engine/choices'
import { Refused } from '../engine/exports'
import type { Receiver } from '../engine/link'
import type { Connection } from './connection'
import { again, misuse, type PostgresError } from './error'
import { endError, refused } from './failure'
import { guarded } from './guarded'
import type { LendingScope, Checkout } from './lending'
import { countIn, read } from './copy'
import type { Occupant } from './occupants'

type Callback = (error?: Error | null) => void

/**
 * Sends the data of a COPY … FROM STDIN. The statement is sent with the first of it. The stream
 * finishes when the server has answered. If it is destroyed before its end was sent, the COPY has no
 * effect. The error that it is destroyed with is given an `outcome`.
 */
export class CopyingIn extends Writable {
  readonly #scope: LendingScope
  readonly #feed: Feed
  #outcome: Outcome | undefined

  constructor(scope: LendingScope, text: string) {
    super({ highWaterMark: WAITING_BYTES_MAX })
    this.#scope = scope
    this.#feed = new Feed(this, scope, text)
    onLoan(this, this.#feed)
  }

  get count(): number | undefined {
    return this.#feed.count
  }

  get outcome(): Outcome | undefined {
    return this.#outcome
  }

  override _write(chunk: Buffer | string, encoding: BufferEncoding, callback: Callback): void {
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk
    this.#feed.with(this.#scope, callback, () => this.#feed.hand(bytes, 0, callback))
  }

  override _final(callback: Callback): void {
    this.#feed.with(this.#scope, callback, () => this.#feed.finish(callback))
  }

  override _destroy(error: Error | null, callback: (error: Error | null) => void): void {
    const { outcome } = this.#feed
    this.#feed.destroy()
    // Node destroys a stream that has finished, too.
    if (!this.writableFinished) this.#outcome = outcome
    // It is the caller's own, or that of `pipeline`, which rejects with it.
    if (error !== null && Object.isExtensible(error) && !('outcome' in error))
      Object.assign(error, { outcome })
    callback(error)
  }
}

/** The side of a COPY that the connection has. It reaches its stream only while that waits. */
class Feed implements Receiver, Occupant, Loan {
  readonly kind = 'copyIn'
  count: number | undefined
  readonly #stream: WeakRef<CopyingIn>
  readonly #occupants: LendingScope['_occupants']
  readonly #text: string
  #checkout: Checkout | undefined
  #isSent = false
  /** The end of the data was handed over: the server stores it, whoever is still there. */
  #isDone = false
  #isDestroyed = false
  #isOver = false
  #error: PostgresError | undefined
  /** Why the client failed the COPY. */
  #failure: PostgresError | undefined
  /** The step to repeat when the engine takes data again, and the callback that waits. */
  #next: (() => void) | undefined
  #waiter: Callback | undefined

  constructor(stream: CopyingIn, { _occupants }: LendingScope, text: string) {
    this.#stream = new WeakRef(stream)
    this.#occupants = _occupants
    this.#text = text
  }

  /** What became of it, as far as that is known. */
  get outcome(): Outcome {
    if (this.#isOver) return this.#error?.outcome ?? 'Applied'
    if (!this.#isSent) return 'NotSent'
    return this.#isDone ? 'Unknown' : 'Rejected'
  }

  /**
   * Calls `goOn` once there is a connection. (`_construct` would be the place for this, but in Node
   * 20 to 26 a `pipeline` to a stream that is destroyed meanwhile ends without an error.)
   */
  with(scope: LendingScope, failed: Callback, goOn: () => void): void {
    if (this.#checkout !== undefined) return goOn()
    scope._lend(this).then((checkout) => {
      if (this.#isDestroyed) return checkout.release()
      this.#checkout = checkout
      goOn()
    }, failed)
  }

  /** Sends data in parts of any length: the server ignores where a CopyData message ends. */
  hand(bytes: Buffer, from: number, callback: Callback): void {
    for (let at = from; at < bytes.length; at += PART_MAX) {
      const part = bytes.subarray(at, at + PART_MAX)
      if (!this.#give(CopyPart.DATA, part)) {
        return this.#wait(callback, () => this.hand(bytes, at, callback))
      }
    }
    callback()
  }

  finish(callback: Callback): void {
    this.#isDone = this.#give(CopyPart.DONE, NOTHING)
    if (this.#isDone) this.#wait(callback, undefined)
    else this.#wait(callback, () => this.finish(callback))
  }

  #wait(waiter: Callback, next: (() => void) | undefined): void {
    if (this.#isOver) return waiter(this.#error ?? endedEarly())
    this.#waiter = waiter
    this.#next = next
  }

  /** Hands a part to the engine. Returns whether the engine took it. */
  #give(part: CopyPart, data: Buffer): boolean {
    const connection = this.#checkout?.connection
    if (this.#isOver || connection === undefined) return false
    if (this.#isSent) return this.#isFed(connection.feed(this, part, data), connection)
    const place = connection.submitCopy(this, this.#text, data)
    if (place < 0) this.#over(refused(place, connection.why))
    else this.#isSent = true
    return place >= 0 && (part === CopyPart.DATA || this.#give(part, data))
  }

  /**
   * If the engine refuses a part, the COPY is failed: it must not be stored with a part missing.
   */
  #isFed(fed: number, connection: Connection): boolean {
    if (fed >= 0 || fed === Refused.CLOSED) return fed > 0
    this.#failure = again(refused(fed), 'Rejected')
    connection.feed(this, CopyPart.FAILED, NOTHING)
    return false
  }

  destroy(): void {
    this.#isDestroyed = true
    if (this.#isSent) this.#give(CopyPart.FAILED, Buffer.from('the client gave it up'))
    else this.#over(undefined)
  }

  // --- its caller ---

  get isOpen(): boolean {
    return !this.#isDestroyed && this.#stream.deref()?.writableEnded !== true
  }

  expel(why: PostgresError): void {
    const stream = this.#stream.deref()
    if (stream === undefined) this.destroy()
    else stream.destroy(why.about(this.#text))
  }

  abandoned(): string | undefined {
    const isHeld = this.#checkout !== undefined && !this.#isOver && !this.#isDestroyed
    this.destroy()
    return isHeld
      ? 'A COPY FROM STDIN was undone: its stream was neither ended nor destroyed, and nobody can reach it any more.'
      : undefined
  }

  // --- events of the engine ---

  feedable(): void {
    const next = this.#next
    this.#next = this.#waiter = undefined
    // `next` may call code of the user, which may throw.
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
    if (error !== undefined) checkout.marks?.(error)
    this.#over(error)
  }

  #over(error: PostgresError | undefined): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#error = error
    this.#occupants?.leave(this)
    this.#checkout?.release()
    const waiter = this.#waiter
    this.#next = this.#waiter = undefined
    if (waiter !== undefined) guarded(() => waiter(error))
    if (error === undefined || this.#isDestroyed) return
    this.#stream.deref()?.destroy(error)
  }
}

function endedEarly(): PostgresError {
  return misuse('copy_ended', 'the COPY ended before all of its data was sent')
}

const NOTHING = Buffer.alloc(0)

/** Bytes that wait in this stream, in addition to those in the engine and in the socket. */
const WAITING_BYTES_MAX = 64 << 10
const PART_MAX = 256 << 10
