import type { Outcome } from '../engine/exports'
import { Call, type How, type ScriptText, type Shape } from './call'
import { type Argument, COMMAND_BYTES_MAX, sizeOf, tooLarge, Words, write } from './encode'
import { RedisError } from './error'
import { next, type Reply } from './reply'
import { type Spec, specOf } from './spec'

/** One command of a list. */
export interface Item {
  readonly spec: Spec
  readonly args: readonly Argument[]
  readonly shape: Shape | undefined
  readonly script: ScriptText | undefined
}

const MULTI = new Words('MULTI')
const EXEC = new Words('EXEC')
const EVAL = new Words('EVAL')
const EVALSHA = new Words('EVALSHA')

/**
 * A list that the server runs one command behind the other, with nobody's between: MULTI, the
 * commands, EXEC, in one request.
 */
export class Atomic extends Call {
  readonly items: readonly Item[]
  readonly #bytes: boolean
  /** Replies that came. */
  #come = 0
  /** The first command that was refused. */
  #refused: RedisError | undefined
  /** Without MULTI each command ran by itself as it came. */
  #withoutMulti = false
  #mayHaveRun = false

  constructor(
    items: readonly Item[],
    how: How,
    resolve: (value: unknown) => void,
    reject: (error: RedisError) => void,
  ) {
    super(specOf('MULTI'), [], how, undefined, resolve, reject)
    this.items = items
    this.#bytes = how.bytes
  }

  override get replies(): number {
    return this.items.length + 2
  }

  override size(): number {
    let size = 128
    for (const { spec, args, script } of this.items) {
      size += sizeOf(spec.words, args, spec.name)
      if (script !== undefined) size += 3 * script.text.length + 128
    }
    if (size > COMMAND_BYTES_MAX) throw tooLarge(size, 'MULTI')
    return size
  }

  /**
   * Writes all of it. Scripts go as texts unless they are known: whether EXEC will run them nobody
   * knows.
   */
  write(start: number, knows: (sha: string) => boolean): number {
    let at = write(start, MULTI, [])
    for (const { spec, args, script } of this.items) {
      if (script === undefined) at = write(at, spec.words, args)
      else if (knows(script.sha)) at = write(at, EVALSHA, [script.sha, ...args])
      else at = write(at, EVAL, [script.text, ...args])
    }
    return write(at, EXEC, [])
  }

  override reset(): void {
    super.reset()
    this.#come = 0
    this.#refused = undefined
    this.#withoutMulti = this.#mayHaveRun = false
  }

  override take(): void {
    const number = this.#come++
    const item = this.items[number - 1]
    const leaves = item !== undefined && (item.spec.leaves || item.script !== undefined)
    const reply = next(this.#bytes, leaves, item?.spec.name ?? (number === 0 ? 'MULTI' : 'EXEC'))
    this.replied = true
    if (number > this.items.length) return this.#executed(reply)
    const isError = reply instanceof RedisError
    if (isError) {
      this.#refused ??= reply
      this.#withoutMulti ||= number === 0
    }
    this.#mayHaveRun ||= this.#withoutMulti && !(isError && reply.outcome === 'Rejected')
  }

  #executed(reply: Reply): void {
    const outcome: Outcome = this.#mayHaveRun ? 'Unknown' : 'Rejected'
    if (reply instanceof RedisError) {
      const error = this.#refused
      return this.reject(error === undefined ? reply : error.with(outcome, error.command))
    }
    if (reply === null) return this.reject(changed())
    const replies = reply as Reply[]
    this.resolve(this.items.map((item, i) => this.#shaped(item, replies[i] as Reply)))
  }

  #shaped({ spec, shape, script }: Item, reply: Reply): unknown {
    if (!(reply instanceof RedisError))
      return shape === undefined ? reply : shape(reply, this.#bytes)
    // What a script wrote before its error stands.
    return reply.with(spec.leaves || script !== undefined ? 'Unknown' : reply.outcome, spec.name)
  }
}

function changed(): RedisError {
  const message =
    'a key that the session watches was changed, so none of it ran: read again, and try again'
  return new RedisError(message, 'watched_key_changed', 'Rejected', 'EXEC')
}
