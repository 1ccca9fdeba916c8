import type { Outcome } from '../engine/exports'
import { heed, heedNoMore } from '../engine/signal'
import { type Argument, sizeOf, write } from './encode'
import { aborted, RedisError } from './error'
import { next, type Reply } from './reply'
import type { Spec } from './spec'

/** What is made of a reply for its caller. */
export type Shape = (reply: Reply, bytes: boolean) => unknown

/** How a call is to be treated. */
export interface How {
  /** Strings are answered as bytes. */
  readonly bytes: boolean
  /** Running it twice does no harm. */
  readonly repeatable: boolean
  /** It goes to a connection of its own. */
  readonly alone: boolean
  /** In milliseconds, from when it is made; 0 for none. */
  readonly timeout: number
  readonly signal: AbortSignal | undefined
}

/** A script that a call names by its hash. */
export interface ScriptText {
  readonly text: string
  readonly sha: string
}

/** One command on its way, and who waits for its reply. */
export class Call {
  readonly spec: Spec
  readonly args: readonly Argument[]
  readonly how: How
  deadline: number
  readonly script: ScriptText | undefined
  /** What it did before an error stands. */
  leaves: boolean
  readonly #shape: Shape | undefined
  readonly #resolve: (value: unknown) => void
  readonly #reject: (error: RedisError) => void
  #settled = false
  /** The server has answered it. */
  replied = false
  /** Is told when it has ended where it is, and whether its connection is as good as before. */
  done: ((replied: boolean) => void) | undefined
  /** Takes it back from where it is, if no byte of it was sent. */
  takeBack: (() => boolean) | undefined
  /** How often it was sent again. */
  repeats = 0
  /**
   * It was sent before, and nobody knows what became of that: it stays so, whatever comes of
   * sending it again.
   */
  wasUnknown = false

  constructor(
    spec: Spec,
    args: readonly Argument[],
    how: How,
    shape: Shape | undefined,
    resolve: (value: unknown) => void,
    reject: (error: RedisError) => void,
    script?: ScriptText,
  ) {
    this.spec = spec
    this.args = args
    this.how = how
    this.script = script
    this.leaves = spec.leaves
    this.deadline = how.timeout === 0 ? Infinity : performance.now() + how.timeout
    this.#shape = shape
    this.#resolve = resolve
    this.#reject = reject
    if (how.signal !== undefined) heed(how.signal, this)
  }

  /** Its caller has its answer. */
  get settled(): boolean {
    return this.#settled
  }

  /** How many replies come to it. */
  get replies(): number {
    return 1
  }

  /** What is written for it. */
  get body(): Call {
    return this
  }

  /** ASKING goes in front of it. */
  get isAsking(): boolean {
    return false
  }

  /** Its caller may give it up, so it has a request of its own. */
  get isAlone(): boolean {
    return this.body.how.signal !== undefined
  }

  /** Whether it may be sent again where nobody knows what became of it; or if it only reads. */
  mayRepeat(reads: boolean): boolean {
    return this.how.repeatable || (reads && this.spec.readonly)
  }

  /** In milliseconds; 0 for no end. */
  get timeLeft(): number {
    return this.deadline === Infinity ? 0 : Math.max(this.deadline - performance.now(), 0.001)
  }

  /** The most bytes that it takes. Throws where it can't be sent. */
  size(): number {
    const script = this.script === undefined ? 0 : 3 * this.script.text.length + 64
    return script + sizeOf(this.spec.words, this.args, this.spec.name)
  }

  /** Writes it where there is room for it, and returns where it ends. */
  write(at: number): number {
    return write(at, this.spec.words, this.args)
  }

  /** Takes the reply that comes next. */
  take(): void {
    this.replied = true
    const reply = next(this.how.bytes, this.leaves, this.spec.name)
    if (reply instanceof RedisError) this.reject(reply)
    else this.answer(reply)
  }

  /** Its reply came, and can't be read: it is longer than a string may be, say. */
  spoil(cause: unknown): void {
    const message = `the reply to ${this.spec.name} can't be read: ${(cause as Error).message}`
    this.reject(new RedisError(message, 'unreadable', 'Applied', this.spec.name, cause))
  }

  resolve(value: unknown): void {
    if (this.#settled) return
    this.#settle()
    this.#resolve(value)
  }

  /** Resolves with what its caller makes of a reply. */
  answer(reply: Reply): void {
    this.resolve(this.#shape === undefined ? reply : this.#shape(reply, this.how.bytes))
  }

  reject(error: RedisError): void {
    if (this.#settled) return
    // A node that becomes a replica says so to what it blocks, and closes the connection.
    if (error.code === 'UNBLOCKED') this.replied = false
    this.#settle()
    const known = this.wasUnknown && error.outcome !== 'Unknown'
    this.#reject(known ? error.with('Unknown', this.spec.name) : error)
  }

  /** It ends without a reply. */
  fail(error: RedisError, outcome: Outcome): void {
    this.reject(error.with(outcome, this.spec.name))
  }

  /** Its time is over. */
  expire(outcome: Outcome): void {
    const message = `${this.spec.name} was not answered within ${this.how.timeout} ms`
    this.reject(new RedisError(message, 'deadline', outcome, this.spec.name))
  }

  #settle(): void {
    this.#settled = true
    const { signal } = this.how
    if (signal !== undefined) heedNoMore(signal, this)
    this.done?.(this.replied)
  }

  /** Its signal was aborted. */
  handleEvent(): void {
    const outcome = this.takeBack?.() === true ? 'NotSent' : 'Unknown'
    this.reject(aborted(this.how.signal as AbortSignal, outcome, this.spec.name))
  }
}

/** A command that is confirmed by pushes, one for each of its arguments. */
export class Confirmation extends Call {
  #left: number

  constructor(
    spec: Spec,
    args: readonly Argument[],
    how: How,
    resolve: (value: unknown) => void,
    reject: (error: RedisError) => void,
  ) {
    super(spec, args, how, undefined, resolve, reject)
    this.#left = args.length
  }

  override get replies(): number {
    return this.args.length
  }

  override take(): void {
    const reply = next(false, false, this.spec.name)
    this.replied = true
    if (reply instanceof RedisError) this.reject(reply)
    else if (--this.#left === 0) this.resolve(undefined)
  }
}

let resolver: (value: unknown) => void
let rejecter: (error: RedisError) => void

/** One function for all promises: what it is handed is used before the next is made. */
const executor = (resolve: (value: unknown) => void, reject: (error: RedisError) => void): void => {
  resolver = resolve
  rejecter = reject
}

/** A call, and the promise of its reply. */
export function promised(
  spec: Spec,
  args: readonly Argument[],
  how: How,
  shape: Shape | undefined,
  send: (call: Call) => void,
  script?: ScriptText,
): Promise<unknown> {
  const promise = new Promise<unknown>(executor)
  const call = new Call(spec, args, how, shape, resolver, rejecter, script)
  if (how.signal?.aborted === true) call.reject(aborted(how.signal, 'NotSent', spec.name))
  else send(call)
  return promise
}
