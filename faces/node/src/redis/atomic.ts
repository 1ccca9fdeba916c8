import type { Outcome } from '../engine/choices'
import { Call, type How, type ScriptText, type Shape } from './call'
import { type Argument, COMMAND_BYTES_MAX, sizeOf, tooLarge, Words, write } from './encode'
import { RedisError } from './error'
import { arrayOf, begin, next, position, type Reply, skip } from './reply'
import { type Spec, specOf } from './spec'

/** One command of a pipeline or an atomic list. */
export interface Item {
  readonly spec: Spec
  readonly args: readonly Argument[]
  readonly shape: Shape | undefined
  readonly script: ScriptText | undefined
}

const MULTI = new Words('MULTI')
const EXEC = new Words('EXEC')
const EVAL = new Words('EVAL')

/**
 * A list of commands that run without other commands between them: MULTI, the commands and EXEC, in
 * one request.
 */
export class Atomic extends Call {
  readonly items: readonly Item[]
  readonly #bytes: boolean
  /** Replies that have been read. */
  #come = 0
  /** The first command that was refused. */
  #refused: RedisError | undefined
  /** The server refused MULTI, so each command ran by itself. */
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
   * Writes the whole list. Scripts are sent as texts: if the server had forgotten a hash, EXEC
   * would run the other commands without the script.
   */
  override write(start: number): number {
    let at = write(start, MULTI, [])
    for (const { spec, args, script } of this.items) {
      if (script === undefined) at = write(at, spec.words, args)
      else at = write(at, EVAL, [script.text, ...args])
    }
    return write(at, EXEC, [])
  }

  /** Prepares it for being sent again. */
  reset(): void {
    this.#come = 0
    this.#refused = undefined
    this.#withoutMulti = this.#mayHaveRun = false
  }

  override take(): void {
    const number = this.#come++
    this.replied = true
    if (number > this.items.length) return this.#executed()
    const item = this.items[number - 1]
    const reply = next(this.#bytes, leaves(item), item?.spec.name ?? 'MULTI')
    const isError = reply instanceof RedisError
    if (isError) {
      this.#refused ??= reply
      this.#withoutMulti ||= number === 0
    }
    this.#mayHaveRun ||= this.#withoutMulti && !(isError && reply.outcome === 'Rejected')
  }

  /** Reads the reply to EXEC. */
  #executed(): void {
    const start = position()
    const count = arrayOf()
    if (count === undefined) return this.#didNotRun(next(this.#bytes, false, 'EXEC'))
    const error = this.#refused
    if (error === undefined && count === this.items.length)
      return this.resolve(this.items.map((item) => this.#result(item)))
    // MULTI was open already, so EXEC answers for other commands as well.
    begin(skip(start))
    this.reject((error ?? MISFIT).with('Unknown', error?.command ?? 'EXEC'))
  }

  #didNotRun(reply: Reply): void {
    if (reply === null) return this.reject(changed())
    if (!(reply instanceof RedisError)) return this.reject(MISFIT.with('Unknown', 'EXEC'))
    const error = this.#refused
    const outcome: Outcome = this.#mayHaveRun ? 'Unknown' : 'Rejected'
    this.reject(error === undefined ? reply : error.with(outcome, error.command))
  }

  #result(item: Item): unknown {
    const { spec, shape } = item
    const reply = next(this.#bytes, leaves(item), spec.name)
    if (reply instanceof RedisError || shape === undefined) return reply
    return shape(reply, this.#bytes)
  }
}

/** Whether the command may have had effects before it failed. */
function leaves(item: Item | undefined): boolean {
  return item !== undefined && (item.spec.leaves || item.script !== undefined)
}

const MISFIT = new RedisError(
  "the server's replies do not fit the commands that were sent",
  'malformed_reply',
  'Unknown',
)

function changed(): RedisError {
  const message =
    'a watched key was changed, so no command ran: read the key again, and retry'
  return new RedisError(message, 'watched_key_changed', 'Rejected', 'EXEC')
}
