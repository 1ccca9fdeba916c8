import { Place } from '../engine/exports'
import type { Atomic, Item } from './atomic'
import { type Call, type How, promised, type Shape } from './call'
import type { Key, Promised } from './commands'
import { type Core, misplaced, runAtomic, runEach } from './core'
import type { Argument } from './encode'
import { misuse, RedisError } from './error'
import { List, type Runner } from './list'
import type { Reply } from './reply'
import { Script, scriptArguments } from './script'
import { addCommands, type Sender } from './sender'
import { Session } from './session'
import { type Known, type Spec, specOf } from './spec'
import { type CommandWords, streamed, type StreamOptions } from './stream'
import { Subscription } from './subscription'

/** How the calls of a client are treated. */
export interface CallOptions {
  /** In milliseconds, from when a call is made: it covers the wait for a connection. 0 for none. */
  readonly timeout?: number
  /** Ends calls early. What was sent runs all the same. */
  readonly signal?: AbortSignal
}

export interface Client<B extends boolean = false> extends Promised<B> {}

/**
 * A client of Redis or Valkey. The commands of all callers share one connection and pipeline by
 * themselves: what one turn of the event loop makes leaves in one write, and nothing waits for
 * replies.
 */
export class Client<B extends boolean = false> implements Sender, Runner {
  readonly #core: Core
  readonly #how: How
  readonly #sendCall: (call: Call) => void

  /** Not for callers: `redis` makes one. */
  constructor(core: Core, how: How) {
    this.#core = core
    this.#how = how
    this.#sendCall = how.alone ? (call) => core.sendOwn(call) : (call) => core.send(call)
  }

  /** The same client, whose replies are bytes where they would be strings; maps are `Map`. */
  get buffers(): Client<true> {
    return new Client<true>(this.#core, { ...this.#how, bytes: true })
  }

  /**
   * The same client, for commands of which you say that they may run twice: they are sent again
   * where a connection was lost.
   */
  repeatable(): Client<B> {
    return new Client<B>(this.#core, { ...this.#how, repeatable: true })
  }

  /**
   * The same client, for commands that take long or whose replies are large: each goes to a connection of
   * its own, as one that blocks does, so no other waits until its reply has arrived. They have no order
   * among the others, and are not sent again. Pipelines go as before.
   */
  alone(): Client<B> {
    return new Client<B>(this.#core, { ...this.#how, alone: true })
  }

  /** The same client, whose calls end with a deadline or a signal. */
  with(options: CallOptions): Client<B> {
    const { timeout = this.#how.timeout, signal = this.#how.signal } = options
    return new Client<B>(this.#core, { ...this.#how, timeout, signal })
  }

  /** Any command, by its name; a subcommand behind a space or as the first argument. */
  command<R = Reply>(name: string, ...args: Argument[]): Promise<R> {
    return this._send(specOf(name), args, undefined) as Promise<R>
  }

  /** Resolves when there is a connection, which otherwise the first command opens. */
  async connect(): Promise<this> {
    await this._send(specOf('PING'), [], undefined)
    return this
  }

  /** A list of commands that are sent together: replies in order, an error for each command. */
  pipeline(): List<[], B> {
    return new List<[], B>(this, this.#how, false)
  }

  /** A list of commands that run as a whole: MULTI and EXEC in one flight. */
  atomic(): List<[], B> {
    return new List<[], B>(this, this.#how, true)
  }

  /** A Lua script: EVAL on its first use on a connection, EVALSHA after. */
  script<R = Reply>(text: string): Script<R> {
    return new Script<R>(text, (script, args) => this.#call(script, args))
  }

  /** Calls a script that another client has made. */
  call<R = Reply>(
    script: Script<R>,
    keys: readonly Key[] = [],
    args: readonly Argument[] = [],
  ): Promise<R> {
    return this.#call(script, scriptArguments(keys, args))
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
   * A connection of one's own, for WATCH and what changes its connection; in a cluster to the node
   * that has this key.
   */
  async session(key?: Key): Promise<Session<B>> {
    return new Session<B>(await this.#core.borrow(key), this.#how)
  }

  /** Subscribes to channels; resolves when the server has confirmed. */
  async subscribe(...channels: Key[]): Promise<Subscription<B extends true ? Buffer : string>> {
    const made = this.#subscription()
    await made.subscribe(...channels)
    return made
  }

  /** Subscribes to channels that match patterns, as in `news.*`. */
  async psubscribe(...patterns: Key[]): Promise<Subscription<B extends true ? Buffer : string>> {
    const made = this.#subscription()
    await made.psubscribe(...patterns)
    return made
  }

  /** Subscribes to sharded channels (Redis 7); not in a cluster, whose slots move. */
  async ssubscribe(...channels: Key[]): Promise<Subscription<B extends true ? Buffer : string>> {
    if (this.#core.config.cluster) {
      const message =
        "a client of a cluster does not follow sharded channels: connect one to the channel's node"
      throw misuse('sharded_in_cluster', message, 'SSUBSCRIBE')
    }
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
   * Sends any number of commands on a connection of their own: an iterator of names with arguments
   * becomes one of replies, in order, the error of a command in its place. The next are taken as
   * replies are taken.
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
    // In a cluster there is no connection for all.
    const roaming = { connection: { reason: undefined, send }, release: () => {} }
    const borrow = core.config.cluster
      ? () => Promise.resolve(roaming)
      : () => core.borrow(undefined)
    return streamed(borrow, commands, this.#how, options)
  }

  /** No new calls come; resolves when what was sent is answered and all connections are closed. */
  close(): Promise<void> {
    return this.#core.close()
  }

  /** Ends all connections now, whatever is unanswered. */
  destroy(): void {
    this.#core.destroy(new RedisError('the client was destroyed', 'connection_ended', 'Unknown'))
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
    if (known === spec && spec.place === Place.SHARED) {
      return promised(spec, args, this.#how, shape, this.#sendCall)
    }
    return promised(spec, args, this.#how, shape, (call) => this.#place(call, known))
  }

  #place(call: Call, known: Known): void {
    call.leaves = known.leaves
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
      // A script is taken for what it is: its keys are known, its text is sent as is fit.
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
        // Where MULTI is forbidden each command runs by itself, and what blocks would.
        if (known.some((it) => it.known.place === Place.OWN)) return this.#core.sendOwn(call)
      } catch (error) {
        return call.reject(error as RedisError)
      }
      this.#core.send(call)
    })
  }
}

addCommands(Client)
