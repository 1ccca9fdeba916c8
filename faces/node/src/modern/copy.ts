import { Readable, Writable } from 'node:stream'

import { Flag, Trait } from '../engine/exports'
import type { Receiver } from '../engine/link'
import { memory } from '../engine/memory'
import { misuse } from './error'
import { endError, refused } from './failure'
import { guarded } from './guarded'
import type { LendingScope, Checkout } from './lending'
import { CopyingIn } from './copy-in'
import { Draft, templateOf } from './template'
import { shownBy } from './traits'

/** What a COPY … FROM STDIN takes. `finish` comes when the server has confirmed it. */
export interface CopyIn extends Writable {
  /** Rows that the server has copied, once it is finished. */
  readonly count: number | undefined
}

/** What a COPY … TO STDOUT gives. */
export interface CopyOut extends Readable {
  /** Rows that the server has copied, once it has ended. */
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

/** COPY takes no parameters, so only names and fragments can stand in it. */
function textOf(strings: unknown, values: readonly unknown[], way: 'stdin' | 'stdout'): string {
  const draft = new Draft()
  draft.add(templateOf(strings).strings, values)
  if (draft.parameters.length > 0) {
    throw misuse(
      'copy_parameters',
      'COPY takes no values: only sql.id and fragments can stand in it',
    )
  }
  const { text } = draft
  const expected = way === 'stdin' ? Trait.COPY | Trait.COPY_IN : Trait.COPY
  const isCopy = (shownBy(text) & (Trait.COPY | Trait.COPY_IN)) === expected
  if (!isCopy)
    throw misuse('copy', `a COPY ${way === 'stdin' ? 'FROM STDIN' : 'TO STDOUT'} was expected`)
  return text
}

/** The rows in a command tag. */
export function countIn(tag: string): number | undefined {
  const [, count] = /^COPY ([0-9]+)$/.exec(tag) ?? []
  return count === undefined ? undefined : Number(count)
}

/** What a part of a reply says beside data: its tag. */
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

/** Reads the data of a COPY as it comes. What is not taken stops the reading of its connection. */
class CopyingOut extends Readable implements Receiver {
  count: number | undefined
  readonly #scope: LendingScope
  readonly #text: string
  #checkout: Checkout | undefined
  #isBegun = false
  #isOver = false
  /** Bytes that the reader's buffer has no room for. */
  #untaken = 0

  constructor(scope: LendingScope, text: string) {
    super()
    this.#scope = scope
    this.#text = text
  }

  override _read(): void {
    this.#take()
    if (this.#isBegun) return
    this.#isBegun = true
    this.#begin().catch((error: Error) => {
      this.#over()
      this.destroy(error)
    })
  }

  #take(): void {
    const bytes = this.#untaken
    this.#untaken = 0
    if (bytes > 0 && !this.#isOver) this.#checkout?.connection.taken(bytes)
  }

  async #begin(): Promise<void> {
    const checkout = await this.#scope._lend()
    this.#checkout = checkout
    if (this.destroyed) return this.#over()
    const place = checkout.connection.submit(this, Flag.SIMPLE | Flag.STREAM, this.#text, [])
    if (place < 0) throw refused(place)
  }

  received(start: number, end: number): void {
    let goesOn = true
    const tag = read(start, end, (from, to) => {
      if (this.destroyed) return
      const chunk = Buffer.from(memory.bytes.subarray(from, to))
      // Listeners are called by it.
      guarded(() => (goesOn = this.push(chunk)))
    })
    if (tag !== undefined) this.count = countIn(tag)
    this.#untaken += end - start
    if (goesOn) this.#take()
  }

  restarted(): void {}

  ended(how: number, outcome: number, start: number, end: number): void {
    const checkout = this.#checkout as Checkout
    checkout.connection.ended()
    const error = endError(checkout.connection.why, how, outcome, start, end)
    this.#over()
    if (this.destroyed) return
    if (error === undefined) this.push(null)
    else this.destroy(error.about(this.#text))
  }

  override _destroy(error: Error | null, callback: (error: Error | null) => void): void {
    const checkout = this.#checkout
    if (checkout !== undefined && !this.#isOver) checkout.connection.leave(this, checkout.rest)
    callback(error)
  }

  #over(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#checkout?.release()
  }
}

const COPY_DATA = 0x64
const COMMAND_COMPLETE = 0x43
