import { Readable, Writable } from 'node:stream'

import { End, Flag, OUTCOMES, Trait } from '../engine/exports'
import type { Receiver } from '../engine/link'
import { memory } from '../engine/memory'
import { misuse, again, PostgresError } from './error'
import { ended, refused, serverError } from './failure'
import { guarded } from './guarded'
import type { LendingScope, Loan } from './lending'
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

/** Reads the data of a COPY as it comes. What is not taken stops the reading of its connection. */
class CopyingOut extends Readable implements Receiver {
  count: number | undefined
  readonly #scope: LendingScope
  readonly #text: string
  #loan: Loan | undefined
  #isBegun = false
  #isOver = false
  #dropped = 0

  constructor(scope: LendingScope, text: string) {
    super()
    this.#scope = scope
    this.#text = text
  }

  override _read(): void {
    if (this.#isBegun) return void this.#loan?.connection.resume()
    this.#isBegun = true
    this.#begin().catch((error: Error) => {
      this.#over()
      this.destroy(error)
    })
  }

  async #begin(): Promise<void> {
    const loan = await this.#scope._lend()
    this.#loan = loan
    if (this.destroyed) return this.#over()
    loan.alone()
    const place = loan.connection.submit(this, Flag.SIMPLE, this.#text, [])
    if (place < 0) throw refused(place)
  }

  received(start: number, end: number): void {
    let goesOn = true
    for (let at = start; at < end; at += 1 + memory.int32(at + 1)) {
      const tag = memory.bytes[at]
      const stop = at + 1 + memory.int32(at + 1)
      if (tag === COPY_DATA && !this.destroyed) {
        const chunk = Buffer.from(memory.bytes.subarray(at + 5, stop))
        // Listeners are called by it.
        guarded(() => (goesOn = this.push(chunk)))
      } else if (tag === COMMAND_COMPLETE) this.count = countIn(memory.text(at + 5, stop - 1))
      else if (tag === READY_FOR_QUERY)
        this.#loan?.connection.status(memory.bytes[at + 5] as number)
    }
    if (this.destroyed) this.#drop(end - start)
    else if (!goesOn && !this.#isOver) this.#loan?.connection.pause()
  }

  #drop(bytes: number): void {
    this.#dropped += bytes
    if (this.#dropped < DROPPED_BYTES_MAX || this.#loan === undefined || this.#loan.isInTransaction)
      return
    this.#loan.connection.destroy(
      misuse('connection_lost', 'a COPY was dropped with much of it still to come'),
    )
  }

  restarted(): void {}

  ended(how: number, outcome: number, start: number, end: number): void {
    const loan = this.#loan as Loan
    loan.connection.ended(how)
    const known = OUTCOMES[outcome] ?? 'Unknown'
    let error: PostgresError | undefined
    if (how === End.SERVER) error = serverError(start, end, known)
    else if (how === End.CLOSED) error = again(loan.connection.why, known)
    else if (how > End.PROVISIONAL) error = ended(how, known)
    if (error !== undefined) loan.failed(error)
    this.#over()
    if (this.destroyed) return
    if (error === undefined) this.push(null)
    else this.destroy(error.about(this.#text))
  }

  override _destroy(error: Error | null, callback: (error: Error | null) => void): void {
    const loan = this.#loan
    if (loan !== undefined && !this.#isOver) {
      if (!loan.isInTransaction) loan.connection.wantCancel(this)
      loan.connection.resume()
    }
    callback(error)
  }

  #over(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#loan?.connection.resume()
    this.#loan?.release()
  }
}

const COPY_DATA = 0x64
const COMMAND_COMPLETE = 0x43
const READY_FOR_QUERY = 0x5a
const DROPPED_BYTES_MAX = 1 << 20
