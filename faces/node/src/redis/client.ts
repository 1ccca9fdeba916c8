import { delay } from '../engine/clock'
import { Place } from '../engine/exports'
import type { Atomic, Item } from './atomic'
import type { Cache, CacheMetrics } from './cache'
import { type Call, type How, promised, type Shape } from './call'
import type { Key, Promised } from './commands'
import { type Core, misplaced, runAtomic, runEach } from './core'
import type { Argument } from './encode'
import { isSignal } from '../engine/signal'
import { misuse, RedisError } from './error'
import { List, type Runner } from './list'
import type { Reply } from './reply'
import { Script, scriptArguments, scriptOf } from './script'
import { addCommands, type Sender } from './sender'
import { Session } from './session'
import { type Known, type Spec, specOf } from './spec'
import { type CommandWords, streamed, type StreamOptions } from './stream'
import { Subscription } from './subscription'

/** A deadline and a signal for calls. */
export interface CallOptions {
  /**
   * The deadline in milliseconds, from when a call is made; it covers the wait for a connection. A
   * late call fails with the code `timeout`. 0 for none.
   */
  readonly timeout?: number
  /**
   * Ends calls early, with the code `ABORT_ERR`. A command that was not sent ends as `NotSent`. One
   * that was sent runs all the same, and ends at once as `Unknown`.
   */
  readonly signal?: AbortSignal
}

/** What a client has counted. */
export interface Metrics {
  /** The cache; undefined if the settings ask for none. */
  readonly cache: CacheMetrics | undefined
}

export interface Client<B extends boolean = false> extends Promised<B> {}

/**
 * A client of Redis or Valkey. The commands of all callers share one connection and pipeline by
 * themselves: those of one turn of the event loop leave in one write at its end, without waiting
 * for earlier replies. A promise resolves when the reply has arrived, and rejects with a
 * `RedisError`. An open client keeps the process alive.
 */
export class Client<B extends boolean = false> implements Sender, Runner {
  readonly #core: Core
  readonly #how: How
  readonly #sendCall: (call: Call) => void
  readonly #cache: Cache | undefined

  /** Not for callers: `redis` makes one. */
  constructor(core: Core, how: How) {
    this.#core = core
    this.#how = how
    this.#sendCall = how.alone ? (call) => core.sendOwn(call) : (call) => core.send(call)
    this.#cache = how.alone || how.uncached === true ? undefined : core.cache
  }

  /** The same client, with bytes in place of strings in replies, and `Map` in place of objects. */
  get buffers(): Client<true> {
    return new Client<true>(this.#core, { ...this.#how, bytes: true })
  }

  /**
   * The same client, for commands that may run twice: if the connection is lost, they are sent
   * again, up to `attemptsMax` times in all.
   */
  repeatable(): Client<B> {
    return new Client<B>(this.#core, { ...this.#how, repeatable: true })
  }

  /**
   * The same client, for commands that are slow or have large replies. Each is sent on a connection
   * of its own, so that no other command waits for its reply. These commands have no order among
   * the others, and are not sent again. Pipelines still go over the shared connection.
   */
  alone(): Client<B> {
    return new Client<B>(this.#core, { ...this.#how, alone: true })
  }

  /**
   * The same client, for commands whose replies are to come from the server, although the client
   * has a cache. Their replies are not kept either.
   */
  uncached(): Client<B> {
    return new Client<B>(this.#core, { ...this.#how, uncached: true })
  }

  /** What the client has counted. */
  metrics(): Metrics {
    return { cache: this.#core.cache?.metrics() }
  }

  /** The same client, with a deadline or a signal for each of its calls. */
  with(options: CallOptions): Client<B> {
    const { timeout = this.#how.timeout, signal = this.#how.signal } = options
    if (!(timeout >= 0)) throw misuse('wrong_argument', 'with: timeout is a time in milliseconds, or 0')
    if (!(signal === undefined || isSignal(signal)))
      throw misuse('wrong_argument', 'with: signal is an AbortSignal')
    return new Client<B>(this.#core, { ...this.#how, timeout, signal })
  }

  /** Sends any command by its name. A subcommand is a second word or the first argument. */
  command<R = Reply>(name: string, ...args: Argument[]): Promise<R> {
    return this._send(specOf(name), args, undefined) as Promise<R>
  }

  /** Opens the connection, which otherwise the first command does. Resolves when it is usable. */
  async connect(): Promise<this> {
    // In a cluster PING goes to all masters, of which one may be away.
    const { cluster } = this.#core.config
    await this._send(specOf(cluster ? 'ECHO' : 'PING'), cluster ? [''] : [], undefined)
    return this
  }

  /** Makes a list of commands that `run` sends together. Each has its own reply or error. */
  pipeline(): List<[], B> {
    return new List<[], B>(this, this.#how, false)
  }

  /** Makes a list of commands that `run` sends as one transaction: MULTI … EXEC, in one trip. */
  atomic(): List<[], B> {
    return new List<[], B>(this, this.#how, true)
  }

  /** Makes a Lua script: EVAL on its first use on a connection, EVALSHA after that. */
  script<R = Reply>(text: string): Script<R> {
    return new Script<R>(text, (script, args) => this.#call(script, args))
  }

  /** Calls a script, which another client may have made. */
  call<R = Reply>(
    script: Script<R>,
    keys: readonly Key[] = [],
    args: readonly Argument[] = [],
  ): Promise<R> {
    return this.#call(scriptOf(script), scriptArguments(keys, args))
  }

  #call<R>(script: Script<R>, args: Argument[]): Promise<R> {
    return promised(
      specOf('EVAL'),
      args,
      this.#how,
      undefined,
      this.#sendCall,
      script,
    ) as Promise<R>
  }

  /**
   * Resolves to a connection of the caller's own, for WATCH and for commands that change their
   * connection; in a cluster, to the node that has this key. Close it when it is no longer needed.
   * Rejects with `wait_timeout` if none is free within `waitTimeout`.
   */
  async session(key?: Key): Promise<Session<B>> {
    return new Session<B>(await this.#core.borrow(key), this.#how)
  }

  /** Subscribes to channels. Resolves when the server has confirmed. */
  async subscribe(...channels: Key[]): Promise<Subscription<B extends true ? Buffer : string>> {
    const made = this.#subscription()
    await made.subscribe(...channels)
    return made
  }

  /** Subscribes to the channels that match patterns, such as `news.*`. */
  async psubscribe(...patterns: Key[]): Promise<Subscription<B extends true ? Buffer : string>> {
    const made = this.#subscription()
    await made.psubscribe(...patterns)
    return made
  }

  /**
   * Subscribes to sharded channels (Redis 7), whose messages stay with the node of their hash slot.
   * A client of a cluster subscribes at that node. If the hash slot moves or the node is lost, it
   * subscribes again at the node that has the slot then, and `reconnects` counts that. In a cluster
   * it needs RESP3 (`sharded_needs_resp3`).
   */
  async ssubscribe(...channels: Key[]): Promise<Subscription<B extends true ? Buffer : string>> {
    const made = this.#subscription()
    await made.ssubscribe(...channels)
    return made
  }

  #subscription(): Subscription<B extends true ? Buffer : string> {
    return new Subscription<B extends true ? Buffer : string>(
      this.#core.subscriptions,
      this.#how.bytes,
    )
  }

  /**
   * Sends any number of commands on a connection of their own. It takes an iterable of names with
   * arguments, and yields the replies in order; an error is yielded in its command's place.
   * Commands are taken from the iterable only as replies are read, so memory stays that of one
   * window. If the loop is left early, the connection is closed.
   */
  stream(
    commands: Iterable<CommandWords> | AsyncIterable<CommandWords>,
    options: StreamOptions = {},
  ): AsyncGenerator<Reply | RedisError, void, undefined> {
    const core = this.#core
    const send = (call: Call): boolean => {
      core.send(call)
      return true
    }
    // In a cluster the commands go to several nodes.
    const roaming = { connection: { reason: undefined, send }, release: () => {} }
    const borrow = core.config.cluster
      ? () => Promise.resolve(roaming)
      : () => core.borrow(undefined)
    return streamed(borrow, commands, this.#how, options)
  }

  /**
   * Takes no new calls. Resolves when all calls are answered and all connections are closed. It
   * ends subscriptions, and waits for sessions and streams. After `timeoutMs` (default: no limit)
   * connections that are left are cut, and their calls end as `Unknown`. Without a limit, sessions
   * and streams that nobody uses and calls that block are cut once nothing has moved for 5 s.
   */
  async close({ timeoutMs = Infinity }: { readonly timeoutMs?: number } = {}): Promise<void> {
    const core = this.#core
    const late = (): void =>
      core.destroy(
        new RedisError('the client was closed before the answer came', 'closed', 'Unknown'),
      )
    const timer = timeoutMs < Infinity ? setTimeout(late, delay(timeoutMs)) : undefined
    await core.close()
    clearTimeout(timer)
  }

  /** Closes all connections now. Calls that are unanswered fail. */
  destroy(): void {
    this.#core.destroy(new RedisError('the client was destroyed', 'closed', 'Unknown'))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** Not for callers. */
  _send(spec: Spec, args: readonly Argument[], shape: Shape | undefined): Promise<unknown> {
    let known: Known
    try {
      known = spec.with(args)
    } catch (error) {
      return Promise.reject(error as RedisError)
    }
    if (known.isCacheable && this.#cache !== undefined)
      return this.#cache.ask(spec, args, this.#how, shape, this.#sendCall)
    if (known === spec && spec.place === Place.SHARED) {
      return promised(spec, args, this.#how, shape, this.#sendCall)
    }
    return promised(spec, args, this.#how, shape, (call) => this.#place(call, known))
  }

  #place(call: Call, known: Known): void {
    call.leaves = known.leaves
    call.blocks = known.place === Place.OWN
    if (known.place === Place.SHARED) this.#sendCall(call)
    else if (known.place === Place.OWN) this.#core.sendOwn(call)
    else call.reject(misplaced(call.spec.name, known))
  }

  /** Not for callers. */
  _run(items: readonly Item[], how: How): Promise<unknown[]> {
    return runEach(items, how, (call) => {
      let known: Known
      try {
        known = call.spec.with(call.args)
      } catch (error) {
        return call.reject(error as RedisError)
      }
      // EVAL may not be sent by hand, but a script object may: its keys are known.
      if (call.script !== undefined || known.place === Place.SHARED) this.#core.send(call)
      else this.#place(call, known)
    })
  }

  /** Not for callers. */
  _runAtomic(items: readonly Item[], how: How): Promise<unknown[]> {
    return runAtomic(items, how, (call: Atomic) => {
      try {
        const known = items.map(({ spec, args }) => ({ name: spec.name, known: spec.with(args) }))
        const wrong = known.find((it) => it.known.place >= Place.SESSION)
        if (wrong !== undefined) return call.reject(misplaced(wrong.name, wrong.known))
        // If an ACL forbids MULTI, each command runs by itself, and one that blocks would block.
        if (known.some((it) => it.known.place === Place.OWN)) return this.#core.sendOwn(call)
      } catch (error) {
        return call.reject(error as RedisError)
      }
      this.#core.send(call)
    })
  }
}

addCommands(Client)
