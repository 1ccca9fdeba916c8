import type { Outcome } from '../engine/choices'
import { heed, heedNoMore } from '../engine/signal'
import { type Argument, sizeOf, write } from './encode'
import { aborted, RedisError } from './error'
import { next, type Reply } from './reply'
import type { Spec } from './spec'

/** Converts a reply for its caller. */
export type Shape = (reply: Reply, bytes: boolean) => unknown

/** The options of a call. */
export interface How {
  /** Replies have bytes in place of strings. */
  readonly bytes: boolean
  /** The caller says that running the command twice does no harm. */
  readonly repeatable: boolean
  /** The command is sent on a connection of its own. */
  readonly alone: boolean
  /** Its deadline in milliseconds, from when the call is made; 0 for none. */
  readonly timeout: number
  readonly signal: AbortSignal | undefined
  /** The reply comes from the server, and is not kept. */
  readonly uncached?: boolean
}

/** A script that a call names by its hash. */
export interface ScriptText {
  readonly text: string
  readonly sha: string
}

/** One command, and the promise of its reply. */
export class Call {
  readonly spec: Spec
  readonly args: readonly Argument[]
  readonly how: How
  deadline: number
  readonly script: ScriptText | undefined
  /** If the command fails, its earlier effects may stand. */
  leaves: boolean
  readonly #shape: Shape | undefined
  readonly #resolve: (value: unknown) => void
  readonly #reject: (error: RedisError) => void
  #settled = false
  /** The server has answered it. */
  replied = false
  /** Is called when the call has ended. `replied`: its connection can be used again. */
  done: ((replied: boolean) => void) | undefined
  /** Withdraws it, if no byte of it was sent. Returns whether it did. */
  takeBack: (() => boolean) | undefined
  /** Tells the cache that what it changes may have been changed by now. */
  written: (() => void) | undefined
  /** It goes to the master, and is not sent again by itself: it is part of a list, or kept. */
  isForMaster = false
  /** The server may not answer it before something else happens. */
  blocks = false
  /** Its session, which its caller may not keep until it has ended. */
  keeps: object | undefined
  /** How often it was sent again. */
  repeats = 0
  /**
   * An earlier attempt was sent and never answered. Whatever the next attempt says, the outcome of
   * the call stays unknown.
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

  /** Its promise is settled. */
  get settled(): boolean {
    return this.#settled
  }

  /** The number of replies that the server sends to it. */
  get replies(): number {
    return 1
  }

  /** The call whose command is written. */
  get body(): Call {
    return this
  }

  /** Pushes confirm it, in place of replies. */
  get isConfirmed(): boolean {
    return false
  }

  /** ASKING is sent in front of it. */
  get isAsking(): boolean {
    return false
  }

  /** It has a request of its own, so that its signal can withdraw it alone. */
  get isAlone(): boolean {
    return this.body.how.signal !== undefined
  }

  /**
   * Whether it may be sent again although an earlier attempt may have run. `reads`: commands that
   * only read may be.
   */
  mayRepeat(reads: boolean): boolean {
    return this.how.repeatable || (reads && this.spec.readonly)
  }

  /** Milliseconds until its deadline; 0 if it has none. */
  get timeLeft(): number {
    return this.deadline === Infinity ? 0 : Math.max(this.deadline - performance.now(), 0.001)
  }

  /** The most bytes that its encoding takes. Throws if it can't be sent. */
  size(): number {
    const script = this.script === undefined ? 0 : 3 * this.script.text.length + 64
    return script + sizeOf(this.spec.words, this.args, this.spec.name)
  }

  /** Writes its command at this address of the module, and returns where it ends. */
  write(at: number): number {
    return write(at, this.spec.words, this.args)
  }

  /** Reads the next reply. */
  take(): void {
    this.replied = true
    const reply = next(this.how.bytes, this.leaves, this.spec.name)
    if (reply instanceof RedisError) this.reject(reply)
    else this.answer(reply)
  }

  /** Its reply arrived and can't be read, for example because it is too long for a string. */
  spoil(cause: unknown): void {
    const message = `the reply to ${this.spec.name} can't be read: ${(cause as Error).message}`
    this.reject(new RedisError(message, 'unreadable', 'Applied', this.spec.name, cause))
  }

  resolve(value: unknown): void {
    if (this.#settled) return
    this.#settle()
    this.#resolve(value)
  }

  /** Resolves its promise to a reply, converted by its shape. */
  answer(reply: Reply): void {
    this.resolve(this.#shape === undefined ? reply : this.#shape(reply, this.how.bytes))
  }

  reject(error: RedisError): void {
    if (this.#settled) return
    // A node that becomes a replica answers blocked commands so, and closes the connection.
    if (error.code === 'UNBLOCKED') this.replied = false
    this.#settle()
    const known = this.wasUnknown && error.outcome !== 'Unknown'
    this.#reject(known ? error.with('Unknown', this.spec.name) : error)
  }

  /** Fails it without a reply. */
  fail(error: RedisError, outcome: Outcome): void {
    this.reject(error.with(outcome, this.spec.name))
  }

  /** Its deadline has passed. */
  expire(outcome: Outcome): void {
    const message = `${this.spec.name} was not answered within ${this.how.timeout} ms`
    this.reject(new RedisError(message, 'timeout', outcome, this.spec.name))
  }

  #settle(): void {
    this.#settled = true
    const { signal } = this.how
    if (signal !== undefined) heedNoMore(signal, this)
    this.written?.()
    this.done?.(this.replied)
  }

  /** Its signal was aborted. */
  handleEvent(): void {
    const outcome = this.takeBack?.() === true ? 'NotSent' : 'Unknown'
    this.reject(aborted(this.how.signal as AbortSignal, outcome, this.spec.name))
  }
}

/** A command, such as SUBSCRIBE, that the server confirms once for each argument. */
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

  override get isConfirmed(): boolean {
    return true
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

/** One function for all promises, since making a closure for each costs time. */
const executor = (resolve: (value: unknown) => void, reject: (error: RedisError) => void): void => {
  resolver = resolve
  rejecter = reject
}

/** Makes a call and sends it. Returns the promise of its reply. */
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
