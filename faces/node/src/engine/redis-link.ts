import type { Duplex } from 'node:stream'

import { Event, Kind, Refused } from './exports'
import { memory } from './memory'
import { Wire } from './wire'

/**
 * Who waits for the replies of one request. Addresses are valid for the time of the call: what is
 * to live longer is copied.
 */
export interface RedisReceiver {
  /** Whole replies came. */
  received(start: number, end: number): void
  /**
   * It is over, once. `how` is one of `End`; for `End.SERVER` the error lies from `start` to `end`.
   */
  ended(how: number, outcome: number, start: number, end: number): void
}

/** Who wants to know what belongs to no request. */
export interface RedisOwner {
  /**
   * The login is over. `protocol`: 2 or 3. `fields`: what the server says of itself, names and
   * values in turn.
   */
  ready(protocol: number, fields: string[]): void
  /** The turn is over: what is to leave with it is submitted now. */
  flush(): void
  push(start: number, end: number): void
  /** Something waits for the window. */
  full(): void
  drained(): void
  /** The connection ended. `why` is one of `Close`. The ends of its requests follow. */
  closed(why: number, isFinal: boolean, start: number, end: number): void
}

/** One connection to Redis. */
export class RedisLink extends Wire<RedisReceiver> {
  readonly #owner: RedisOwner

  /**
   * On a socket that is open, with the settings of `onetrip_redis_new`. The login leaves at once.
   */
  constructor(socket: Duplex, settings: Iterable<readonly [string, string]>, owner: RedisOwner) {
    super(socket, settings, (now, start, len) => memory.engine.onetrip_redis_new(now, start, len))
    this.#owner = owner
  }

  /**
   * Room for so many bytes of requests. It stays where it is until it is submitted or asked for
   * again. 0 if there is no memory for it.
   */
  room(len: number): number {
    // As a number of the module it would be another.
    return len > LENGTH_MAX ? 0 : this.roomFor(len)
  }

  protected override closed(why: number): void {
    this.#owner.closed(why, false, 0, 0)
  }

  /**
   * Submits what was written to the room, behind the text of the script that it calls by its hash,
   * which has `textLen` bytes. `replies`: how many come; 0 for one command whose error ends it. Returns its place in the queue, 0 if it was
   * sent, or why it was refused.
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

  /** From now on scripts go as texts. */
  sendScriptsAsTexts(): void {
    if (!this.isFree) this.engine.onetrip_redis_scripts_as_texts(this.address)
  }

  /** Bytes came from the peer. */
  receive(chunk: Uint8Array): void {
    this.take(chunk)
    this.settle()
  }

  protected override leaving(): void {
    this.#owner.flush()
  }

  /** Requests that were sent and not answered, or wait for the window. */
  get unanswered(): number {
    return this.inFlight + this.queued
  }

  protected override completion(at: number): void {
    // What was called for the record before may have let memory grow.
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
      owner.ready(a, end > start ? memory.text(start, end - 1).split('\0') : [])
    } else if (kind === Kind.FULL) owner.full()
    else if (kind === Kind.DRAINED) owner.drained()
    else if (kind === Kind.CLOSED) owner.closed(a, b !== 0, start, end)
  }
}

/** Lengths of the module have 32 bits. */
const LENGTH_MAX = 0xffff_ffff
