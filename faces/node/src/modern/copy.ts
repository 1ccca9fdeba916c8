import { Readable, Writable } from 'node:stream'

import { onLoan, type Loan } from '../engine/abandoned'
import type { Outcome } from '../engine/choices'
import { Flag, Trait } from '../engine/exports'
import type { Receiver } from '../engine/link'
import { memory } from '../engine/memory'
import { misuse, type PostgresError } from './error'
import { endError, refused } from './failure'
import { guarded } from './guarded'
import type { LendingScope, Checkout } from './lending'
import { CopyingIn } from './copy-in'
import type { Occupant } from './occupants'
import { Draft, templateOf } from './template'
import { shownBy } from './traits'

/**
 * The stream of a COPY … FROM STDIN. The statement is sent with the first data that is written.
 * `finish` is emitted when the server has confirmed the COPY. Destroying the stream before its end
 * was sent cancels the COPY, and none of its rows are stored. Behind `end()` all of them may be. The
 * error that the stream is destroyed with, as that of a `pipeline` whose signal aborts, is given an
 * `outcome`, unless it has one.
 */
export interface CopyIn extends Writable {
  /** Rows that the server has copied; undefined until `finish`. */
  readonly count: number | undefined
  /**
   * What is known of its effect, once it was destroyed or has failed; undefined before, and where it
   * succeeded.
   */
  readonly outcome: Outcome | undefined
}

/**
 * The stream of a COPY … TO STDOUT. The statement is sent when the stream is first read. Destroying
 * the stream early ends the COPY too.
 */
export interface CopyOut extends Readable {
  /** Rows that the server has copied; undefined until `end`. */
  readonly count: number | undefined
}

export function copyFrom(
  scope: LendingScope,
  strings: unknown,
  values: readonly unknown[],
): CopyIn {
  return new CopyingIn(scope, textOf(strings, values, 'stdin'))
}

export function copyTo(scope: LendingScope, strings: unknown, values: readonly unknown[]): CopyOut {
  return new CopyingOut(scope, textOf(strings, values, 'stdout'))
}

/** COPY takes no parameters, so its template can only hold names and fragments. */
function textOf(strings: unknown, values: readonly unknown[], way: 'stdin' | 'stdout'): string {
  const draft = new Draft()
  draft.add(templateOf(strings).strings, values)
  if (draft.parameters.length > 0) {
    throw misuse(
      'copy_parameters',
      'COPY takes no values: use sql.id, or fragments without values',
    )
  }
  const { text } = draft
  const expected = way === 'stdin' ? Trait.COPY | Trait.COPY_IN : Trait.COPY
  const isCopy = (shownBy(text) & (Trait.COPY | Trait.COPY_IN)) === expected
  if (!isCopy)
    throw misuse('copy', COPY_EXPECTED[way])
  return text
}

const COPY_EXPECTED = {
  stdin: 'copyFrom takes a COPY … FROM STDIN statement',
  stdout: 'copyTo takes a COPY … TO STDOUT statement',
}

/** The number of rows in the command tag of a COPY. */
export function countIn(tag: string): number | undefined {
  const [, count] = /^COPY ([0-9]+)$/.exec(tag) ?? []
  return count === undefined ? undefined : Number(count)
}

/** Calls `data` for each CopyData message of a block, and returns the command tag if it came. */
export function read(
  start: number,
  end: number,
  data?: (at: number, end: number) => void,
): string | undefined {
  let tag: string | undefined
  for (let at = start; at < end; at += 1 + memory.int32(at + 1)) {
    const type = memory.bytes[at]
    const stop = at + 1 + memory.int32(at + 1)
    if (type === COPY_DATA) data?.(at + 5, stop)
    else if (type === COMMAND_COMPLETE) tag = memory.text(at + 5, stop - 1)
  }
  return tag
}

/** The data of a COPY as it arrives. While the reader takes none, its connection is not read. */
class CopyingOut extends Readable {
  readonly #scope: LendingScope
  readonly #drain: Drain

  constructor(scope: LendingScope, text: string) {
    super()
    this.#scope = scope
    this.#drain = new Drain(this, scope, text)
    onLoan(this, this.#drain)
  }

  get count(): number | undefined {
    return this.#drain.count
  }

  override _read(): void {
    this.#drain.want(this.#scope, this)
  }

  override _destroy(error: Error | null, callback: (error: Error | null) => void): void {
    this.#drain.destroy()
    callback(error)
  }
}

/** The side of a COPY that the connection has. It reaches its stream only while that wants data. */
class Drain implements Receiver, Occupant, Loan {
  readonly kind = 'copyOut'
  count: number | undefined
  readonly #weak: WeakRef<CopyingOut>
  /** The stream, while it wants data: nobody else may hold one that flows. */
  #stream: CopyingOut | undefined
  readonly #occupants: LendingScope['_occupants']
  readonly #text: string
  #checkout: Checkout | undefined
  #isBegun = false
  #isDestroyed = false
  #isOver = false
  /** Bytes that the engine has handed over and the reader has not taken. */
  #untaken = 0

  constructor(stream: CopyingOut, { _occupants }: LendingScope, text: string) {
    this.#weak = new WeakRef(stream)
    this.#occupants = _occupants
    this.#text = text
  }

  want(scope: LendingScope, stream: CopyingOut): void {
    this.#stream = stream
    this.#take()
    if (this.#isBegun) return
    this.#isBegun = true
    this.#begin(scope).catch((error: Error) => {
      this.#over()
      stream.destroy(error)
    })
  }

  #take(): void {
    const bytes = this.#untaken
    this.#untaken = 0
    if (bytes > 0 && !this.#isOver) this.#checkout?.connection.taken(bytes)
  }

  async #begin(scope: LendingScope): Promise<void> {
    const checkout = await scope._lend(this)
    this.#checkout = checkout
    if (this.#isDestroyed) return this.#over()
    const { connection } = checkout
    const place = connection.submit(this, Flag.SIMPLE | Flag.STREAM, this.#text, [])
    if (place < 0) throw refused(place, connection.why)
  }

  destroy(): void {
    this.#isDestroyed = true
    this.#stream = undefined
    this.#occupants?.leave(this)
    const checkout = this.#checkout
    if (checkout !== undefined && !this.#isOver) checkout.connection.leave(this, checkout.rest)
  }

  // --- its caller ---

  get #reader(): CopyingOut | undefined {
    return this.#stream ?? this.#weak.deref()
  }

  get isOpen(): boolean {
    return !this.#isDestroyed && this.#reader?.readableEnded !== true
  }

  expel(why: PostgresError): void {
    const stream = this.#reader
    if (stream === undefined) this.destroy()
    else stream.destroy(why.about(this.#text))
  }

  abandoned(): string | undefined {
    const isHeld = this.#checkout !== undefined && !this.#isOver && !this.#isDestroyed
    this.destroy()
    return isHeld
      ? 'A COPY TO STDOUT was ended: its stream was neither read to its end nor destroyed, and nobody can reach it any more.'
      : undefined
  }

  // --- events of the engine ---

  received(start: number, end: number): void {
    let goesOn = true
    const stream = this.#reader
    const tag = read(start, end, (from, to) => {
      if (this.#isDestroyed || stream === undefined) return
      const chunk = Buffer.from(memory.bytes.subarray(from, to))
      // `push` calls the listeners of the user, which may throw.
      guarded(() => (goesOn = stream.push(chunk)))
    })
    if (tag !== undefined) this.count = countIn(tag)
    this.#untaken += end - start
    if (goesOn) this.#take()
    else this.#stream = undefined
  }

  restarted(): void {}

  ended(how: number, outcome: number, start: number, end: number): void {
    const checkout = this.#checkout as Checkout
    checkout.connection.ended()
    const error = endError(checkout.connection.why, how, outcome, start, end)?.about(this.#text)
    if (error !== undefined) checkout.marks?.(error)
    const stream = this.#reader
    this.#over()
    if (this.#isDestroyed) return
    if (error === undefined) stream?.push(null)
    else stream?.destroy(error)
  }

  #over(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#stream = undefined
    this.#checkout?.release()
  }
}

const COPY_DATA = 0x64
const COMMAND_COMPLETE = 0x43
