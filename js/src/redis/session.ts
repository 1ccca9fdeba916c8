import { Place } from '../engine/exports'
import type { Atomic, Item } from './atomic'
import { type Call, type How, promised, type Shape } from './call'
import type { Key, Promised } from './commands'
import { misplaced, runAtomic, runEach } from './core'
import type { Argument } from './encode'
import { misuse, RedisError } from './error'
import { List, type Runner } from './list'
import type { Lease } from './own'
import type { Reply } from './reply'
import { Script, scriptArguments } from './script'
import { addCommands, type Sender } from './sender'
import { type Spec, specOf } from './spec'

export interface Session<B extends boolean = false> extends Promised<B> {}

/**
 * A connection of one's own, until it is closed: for WATCH, and for what changes the state of a
 * connection. Its commands are pipelined like those of a client.
 */
export class Session<B extends boolean = false> implements Sender, Runner {
  readonly #lease: Lease
  readonly #how: How
  #isOver = false
  #isWatching = false
  #isChanged = false

  /** Not for callers: `client.session` makes one. */
  constructor(lease: Lease, how: How) {
    this.#lease = lease
    this.#how = how
  }

  /**
   * Any command, by its name; also those that a client refuses since they change their connection.
   */
  command<R = Reply>(name: string, ...args: Argument[]): Promise<R> {
    return this._send(specOf(name), args, undefined) as Promise<R>
  }

  /** Watches keys: an atomic list that follows runs only if none of them was changed meanwhile. */
  watch(...keys: Key[]): Promise<'OK'> {
    return this._send(specOf('WATCH'), keys, undefined) as Promise<'OK'>
  }

  /** Watches nothing any more. */
  unwatch(): Promise<'OK'> {
    return this._send(specOf('UNWATCH'), [], undefined) as Promise<'OK'>
  }

  /**
   * Waits until so many replicas have what this session wrote, for so many milliseconds at most.
   * Returns how many have it.
   */
  wait(replicas: number, milliseconds: number): Promise<number> {
    return this._send(specOf('WAIT'), [replicas, milliseconds], undefined) as Promise<number>
  }

  /** A list of commands that are sent together. */
  pipeline(): List<[], B> {
    return new List<[], B>(this, this.#how, false)
  }

  /** A list of commands that run as a whole. */
  atomic(): List<[], B> {
    return new List<[], B>(this, this.#how, true)
  }

  /** A Lua script. */
  script<R = Reply>(text: string): Script<R> {
    return new Script<R>(text, (script, args) => this.#call(script, args))
  }

  /** Calls a script. */
  call<R = Reply>(
    script: Script<R>,
    keys: readonly Key[] = [],
    args: readonly Argument[] = [],
  ): Promise<R> {
    return this.#call(script, scriptArguments(keys, args))
  }

  #call<R>(script: Script<R>, args: Argument[]): Promise<R> {
    const submit = (call: Call): void => this.#submit(call)
    return promised(specOf('EVAL'), args, this.#how, undefined, submit, script) as Promise<R>
  }

  /** Gives the connection back, when all is answered. */
  async close(): Promise<void> {
    if (this.#isOver) return
    this.#isOver = true
    const spoiled = this.#isChanged || this.#isWatching
    this.#lease.release(spoiled)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** Not for callers. */
  _send(spec: Spec, args: readonly Argument[], shape: Shape | undefined): Promise<unknown> {
    let known
    try {
      known = spec.with(args)
    } catch (error) {
      return Promise.reject(error as RedisError)
    }
    if (known.place === Place.NOWHERE) return Promise.reject(misplaced(spec.name, known))
    if (known.place === Place.SESSION) this.#note(spec.name)
    const { leaves } = known
    return promised(spec, args, this.#how, shape, (call) => {
      call.leaves = leaves
      this.#submit(call)
    })
  }

  /** Not for callers. */
  _run(items: readonly Item[], how: How): Promise<unknown[]> {
    return runEach(items, how, (call) => this.#submit(call))
  }

  /** Not for callers. */
  _runAtomic(items: readonly Item[], how: How): Promise<unknown[]> {
    this.#isWatching = false
    return runAtomic(items, how, (call: Atomic) => this.#submit(call))
  }

  #note(name: string): void {
    if (name === 'WATCH') this.#isWatching = true
    else if (name === 'UNWATCH') this.#isWatching = false
    else if (name !== 'WAIT' && name !== 'WAITAOF') this.#isChanged = true
  }

  #submit(call: Call): void {
    if (this.#isOver) return call.fail(misuse('closed', 'the session is closed'), 'NotSent')
    const { connection } = this.#lease
    if (connection.send(call)) return
    call.fail(
      connection.reason ?? misuse('queue_full', 'the connection takes no more: wait for replies'),
      'NotSent',
    )
  }
}

addCommands(Session)
