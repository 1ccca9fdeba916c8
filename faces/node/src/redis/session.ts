import { onLoan, type Loan } from '../engine/abandoned'
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
import { Script, scriptArguments, scriptOf } from './script'
import { addCommands, type Sender } from './sender'
import { type Known, type Spec, specOf } from './spec'

/** Errors of EXEC after which no key is watched any more. */
const UNWATCHED = new Set(['watched_key_changed', 'EXECABORT'])

const IN_MULTI =
  "MULTI can't be sent here: the session has sent one already: send EXEC or DISCARD first"

export interface Session<B extends boolean = false> extends Promised<B> {}

/**
 * A connection of one caller's own, until it is closed: for WATCH, and for commands that change the
 * state of a connection. Its commands pipeline like those of a client.
 */
export class Session<B extends boolean = false> implements Sender, Runner {
  readonly #held: Held
  readonly #how: How
  #isInMulti = false

  /** Not for callers: `client.session` makes one. */
  constructor(lease: Lease, how: How) {
    this.#held = new Held(lease)
    this.#how = how
    onLoan(this, this.#held)
  }

  /**
   * Sends any command by its name, also one that a client refuses because it changes its
   * connection.
   */
  command<R = Reply>(name: string, ...args: Argument[]): Promise<R> {
    return this._send(specOf(name), args, undefined) as Promise<R>
  }

  /**
   * Watches keys. The next atomic list runs only if none of them was changed meanwhile. Otherwise
   * its `run` rejects with `watched_key_changed`, and none of it ran.
   */
  watch(...keys: Key[]): Promise<'OK'> {
    return this._send(specOf('WATCH'), keys, undefined) as Promise<'OK'>
  }

  /** Ends all watches of this session. */
  unwatch(): Promise<'OK'> {
    return this._send(specOf('UNWATCH'), [], undefined) as Promise<'OK'>
  }

  /**
   * Waits until this many replicas have the writes of this session, or until the time is over; 0
   * for no limit. Resolves to the number of replicas that have them.
   */
  wait(replicas: number, milliseconds: number): Promise<number> {
    return this._send(specOf('WAIT'), [replicas, milliseconds], undefined) as Promise<number>
  }

  /** Makes a list of commands that `run` sends together. */
  pipeline(): List<[], B> {
    return new List<[], B>(this, this.#how, false)
  }

  /** Makes a list of commands that `run` sends as one transaction. */
  atomic(): List<[], B> {
    return new List<[], B>(this, this.#how, true)
  }

  /** Makes a Lua script that is called on this session. */
  script<R = Reply>(text: string): Script<R> {
    return new Script<R>(text, (script, args) => this.#call(script, args))
  }

  /** Calls a script. */
  call<R = Reply>(
    script: Script<R>,
    keys: readonly Key[] = [],
    args: readonly Argument[] = [],
  ): Promise<R> {
    return this.#call(scriptOf(script), scriptArguments(keys, args))
  }

  #call<R>(script: Script<R>, args: Argument[]): Promise<R> {
    const submit = (call: Call): void => this.#submit(call)
    return promised(specOf('EVAL'), args, this.#how, undefined, submit, script) as Promise<R>
  }

  /**
   * Ends the session. Its connection is used again if nothing on it is unanswered, watched or
   * changed; otherwise it is closed.
   */
  async close(): Promise<void> {
    this.#held.release()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** Not for callers. */
  _send(spec: Spec, args: readonly Argument[], shape: Shape | undefined): Promise<unknown> {
    try {
      const known = this.#admit({ spec, args })
      const sent = promised(spec, args, this.#how, shape, (call) => {
        call.leaves = known.leaves
        call.blocks = known.place === Place.OWN
        this.#submit(call)
      })
      return spec.name === 'UNWATCH' ? this.#unwatching(sent) : sent
    } catch (error) {
      return Promise.reject(error as RedisError)
    }
  }

  /** Not for callers. */
  _run(items: readonly Item[], how: How): Promise<unknown[]> {
    return runEach(items, how, (call, item) => {
      try {
        if (item.script === undefined) {
          const known = this.#admit(item)
          call.leaves = known.leaves
          call.blocks = known.place === Place.OWN
        }
        this.#submit(call)
      } catch (error) {
        call.reject(error as RedisError)
      }
    })
  }

  /** Not for callers. */
  _runAtomic(items: readonly Item[], how: How): Promise<unknown[]> {
    const run = runAtomic(items, how, (call: Atomic) => {
      try {
        if (this.#isInMulti) throw misuse('wrong_place', IN_MULTI, 'MULTI')
        for (const item of items) this.#admit(item, true)
        this.#submit(call)
      } catch (error) {
        call.reject(error as RedisError)
      }
    })
    return this.#unwatching(run)
  }

  /**
   * Notes what a command does to the connection, before it is sent. Throws if it can't be sent
   * here.
   */
  #admit({ spec, args }: Pick<Item, 'spec' | 'args'>, inList = false): Known {
    const known = spec.with(args)
    const { place } = known
    if (place === Place.REFUSED || (inList && place === Place.SESSION))
      throw misplaced(spec.name, known)
    // An unknown command may change the connection.
    if (place === Place.SESSION || !known.isKnown) this.#note(spec.name)
    return known
  }

  #note(name: string): void {
    const held = this.#held
    if (name === 'WATCH') held.watched++
    else if (name === 'EXEC' || name === 'DISCARD') this.#isInMulti = false
    else if (name !== 'UNWATCH' && name !== 'WAIT' && name !== 'WAITAOF') held.isChanged = true
    if (name !== 'MULTI') return
    this.#isInMulti = true
    held.lease.connection.sendScriptsAsTexts()
  }

  /** `sent` ends the watches so far, once it is answered. */
  async #unwatching<T>(sent: Promise<T>): Promise<T> {
    const held = this.#held
    const { watched } = held
    let isOver = true
    try {
      return await sent
    } catch (error) {
      isOver = UNWATCHED.has((error as RedisError).code)
      throw error
    } finally {
      if (isOver) held.unwatched = Math.max(held.unwatched, watched)
    }
  }

  #submit(call: Call): void {
    const { isOver, lease } = this.#held
    if (isOver) return call.fail(misuse('closed', 'the session is closed'), 'NotSent')
    const { connection } = lease
    call.keeps = this
    if (connection.send(call)) return
    call.fail(
      connection.reason ?? misuse('queue_full', 'the connection takes no more: wait for replies'),
      'NotSent',
    )
  }
}

addCommands(Session)

/** The connection of a session, and what its commands have done to it. */
class Held implements Loan {
  readonly lease: Lease
  isOver = false
  /** The number of WATCHes, and how many of them EXEC or UNWATCH has ended. */
  watched = 0
  unwatched = 0
  isChanged = false

  constructor(lease: Lease) {
    this.lease = lease
  }

  release(): void {
    if (this.isOver) return
    this.isOver = true
    // A watch that is left would fail the next user's EXEC.
    this.lease.release(this.isChanged || this.watched > this.unwatched)
  }

  abandoned(): string | undefined {
    if (this.isOver) return undefined
    this.release()
    return 'A session of Redis was closed: its user did not, and nobody can reach it any more.'
  }
}
