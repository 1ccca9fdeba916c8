import type { Duplex } from 'node:stream'

import { Event, Kind, Refused } from './exports'
import { memory } from './memory'
import { Wire } from './wire'

/**
 * The receiver of the replies to one request. Addresses are valid only during the call: bytes that
 * are kept must be copied.
 */
export interface RedisReceiver {
  /** Whole replies arrived. */
  received(start: number, end: number): void
  /**
   * The request ended; called once. `how` is one of `End`. For `End.SERVER` the error lies from
   * `start` to `end`.
   */
  ended(how: number, outcome: number, start: number, end: number): void
}

/** Is told of events of a connection that belong to no request. */
export interface RedisOwner {
  /**
   * The login is over. `protocol`: 2 or 3. `fields`: the server's answer to HELLO, names and values
   * by turns. `tracks`: the server says which keys that were read on it are changed.
   */
  ready(protocol: number, fields: string[], tracks: boolean): void
  /** The turn of the event loop ends: submit now what must leave in this turn's write. */
  flush(): void
  push(start: number, end: number): void
  /** A request has to wait for the window. */
  full(): void
  drained(): void
  /** The server says that it has lost its role. Its answer lies from `start` to `end`. */
  astray(start: number, end: number): void
  /** The connection ended. `why` is one of `Close`. The ends of its requests follow. */
  closed(why: number, isFinal: boolean, start: number, end: number): void
}

/** One connection to Redis. */
export class RedisLink extends Wire<RedisReceiver> {
  readonly #owner: RedisOwner

  /**
   * Takes an open socket and the settings of `onetrip_redis_new`. The login is sent at once.
   */
  constructor(socket: Duplex, settings: Iterable<readonly [string, string]>, owner: RedisOwner) {
    super(socket, settings, (now, start, len) => memory.engine.onetrip_redis_new(now, start, len))
    this.#owner = owner
  }

  /**
   * The address of room for a request of this many bytes; 0 if there is no memory. It is valid
   * until it is submitted or asked for again.
   */
  room(len: number): number {
    // A longer length would be cut to 32 bits.
    return len > LENGTH_MAX ? 0 : this.roomFor(len)
  }

  protected override closed(why: number): void {
    this.#owner.closed(why, false, 0, 0)
  }

  /**
   * Submits the request that was written to the room. If it calls a script by its hash, the text of
   * the script, `textLen` bytes, is in front of it. `replies`: the number of replies; 0 for a
   * single command, whose error ends the request. Returns its place in the queue, 0 if it was sent,
   * or one of `Refused`.
   */
  submit(
    receiver: RedisReceiver,
    flags: number,
    replies: number,
    textLen: number,
    len: number,
    timeout: number,
  ): number {
    const token = this.tokenOf(receiver)
    let place: number = Refused.CLOSED
    try {
      place = this.engine.onetrip_redis_submit(
        this.address,
        this.time(),
        token,
        flags,
        replies,
        textLen,
        len,
        timeout,
      )
    } catch (error) {
      memory.failed(error)
    }
    if (place < 0) this.release(token)
    this.schedule()
    return place
  }

  /** From now on scripts are sent as texts. */
  sendScriptsAsTexts(): void {
    if (!this.isFree) this.engine.onetrip_redis_scripts_as_texts(this.address)
  }

  /** Takes bytes that were read from the socket. */
  receive(chunk: Uint8Array): void {
    this.take(chunk)
    this.settle()
  }

  protected override leaving(): void {
    this.#owner.flush()
  }

  /** Requests that are in flight or queued. */
  get unanswered(): number {
    return this.inFlight + this.queued
  }

  protected override completion(at: number): void {
    // The receiver of the previous record may have made the memory grow.
    memory.refresh()
    const { words } = memory
    const kind = words[at] as number
    const token = words[at + 1] as number
    const start = words[at + 5] as number
    const end = start + (words[at + 4] as number)
    if (kind === Kind.DATA) {
      this.receivers[token]?.received(start, end)
    } else if (kind === Kind.END) {
      const b = words[at + 3] as number
      const receiver = this.receivers[token]
      this.release(token)
      receiver?.ended(b & 0xff, b >>> 8, start, end)
    } else {
      this.#tellOwner(kind, words[at + 2] as number, words[at + 3] as number, start, end)
    }
  }

  #tellOwner(kind: number, a: number, b: number, start: number, end: number): void {
    const owner = this.#owner
    if (kind === Kind.EVENT) {
      if (a === Event.PUSH) owner.push(start, end)
    } else if (kind === Kind.READY) {
      const fields = end > start ? memory.text(start, end - 1).split('\0') : []
      owner.ready(a, fields, b !== 0)
    } else if (kind === Kind.FULL) owner.full()
    else if (kind === Kind.DRAINED) owner.drained()
    else if (kind === Kind.ASTRAY) owner.astray(start, end)
    else if (kind === Kind.CLOSED) owner.closed(a, b !== 0, start, end)
  }
}

/** Lengths of the module have 32 bits. */
const LENGTH_MAX = 0xffff_ffff
