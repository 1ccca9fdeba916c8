import type { Duplex } from 'node:stream'

import { Event, Kind } from './exports'
import { memory } from './memory'

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

const clock = (): number => performance.now()

/** Words of a completion. */
const RECORD = 6

/**
 * One connection to Redis of the engine, on a socket of Node's: bytes in, bytes out, and who waits
 * for which replies.
 *
 * What is submitted in one turn of the event loop, and by all that a chunk of replies resolves,
 * leaves in one write.
 */
export class RedisLink {
  readonly #connection: number
  readonly #socket: Duplex
  readonly #owner: RedisOwner
  readonly #receivers: (RedisReceiver | undefined)[] = [undefined]
  readonly #free: number[] = []
  readonly #flush = (): void => this.#write()
  #scheduled = false
  #blocked = false
  #now = clock()
  #timer: NodeJS.Timeout | undefined
  #armed = Infinity
  #isFree = false

  /**
   * On a socket that is open, with the settings of `onetrip_redis_new`. The login leaves at once.
   */
  constructor(socket: Duplex, settings: Iterable<readonly [string, string]>, owner: RedisOwner) {
    let text = ''
    for (const [name, value] of settings) text += `${name}\0${value}\0`
    this.#socket = socket
    this.#owner = owner
    const bytes = Buffer.from(text)
    const { engine } = memory
    this.#connection =
      bytes.length === 0
        ? engine.onetrip_redis_new(this.#now, 0, 0)
        : memory.lend(bytes, (start) => engine.onetrip_redis_new(this.#now, start, bytes.length))
    socket.on('drain', () => {
      this.#blocked = false
      this.#write()
    })
    this.schedule()
  }

  /**
   * Room for so many bytes of requests. It stays where it is until it is submitted or asked for
   * again.
   */
  room(len: number): number {
    const room = memory.engine.onetrip_request(this.#connection, len) >>> 0
    memory.refresh()
    return room
  }

  /**
   * Submits what was written to the room, behind a script's text of `textLen` bytes. `replies`: how
   * many come; 0 for one command whose error ends it. Returns its place in the queue, 0 if it was
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
    const token = this.#free.pop() ?? this.#receivers.length
    this.#receivers[token] = receiver
    const place = memory.engine.onetrip_redis_submit(
      this.#connection,
      this.#time(),
      token,
      flags,
      replies,
      textLen,
      len,
      timeout,
    )
    if (place < 0) this.#release(token)
    this.schedule()
    return place
  }

  /** Bytes came from the peer. */
  receive(chunk: Uint8Array): void {
    const { engine } = memory
    const now = this.#time()
    const room = engine.onetrip_input(this.#connection, chunk.length) >>> 0
    memory.refresh()
    memory.bytes.set(chunk, room)
    engine.onetrip_received(this.#connection, now, chunk.length)
    this.#walk()
    // What was waiting for the window may leave now.
    if (engine.onetrip_transmit_len(this.#connection) > 0) this.schedule()
  }

  /** The peer has gone. */
  peerClosed(): void {
    if (this.#isFree) return
    memory.engine.onetrip_peer_closed(this.#connection)
    this.#walk()
  }

  /** Takes no more requests, and ends when all is answered. */
  terminate(): void {
    if (this.#isFree) return
    this.#owner.flush()
    memory.engine.onetrip_terminate(this.#connection, this.#time())
    this.schedule()
  }

  /** Takes a request back that still waits in its place. */
  takeBack(place: number): boolean {
    if (this.#isFree) return false
    const done = memory.engine.onetrip_cancel(this.#connection, this.#time(), place) !== 0
    this.schedule()
    return done
  }

  /** Where the connection lies in the module, for a pool. */
  get address(): number {
    return this.#connection
  }

  /** Requests that were sent and not answered, or wait for the window. */
  get unanswered(): number {
    if (this.#isFree) return 0
    const { engine } = memory
    return engine.onetrip_in_flight(this.#connection) + engine.onetrip_queued(this.#connection)
  }

  /** Has what is unsent written when the current turn and all that it resolved has run. */
  schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    process.nextTick(this.#flush)
  }

  /**
   * Gives the memory back. What is called after it does nothing or fails. Not to be called by a
   * receiver.
   */
  free(): void {
    if (this.#isFree) return
    this.#isFree = true
    clearTimeout(this.#timer)
    memory.engine.onetrip_connection_free(this.#connection)
  }

  #time(): number {
    this.#now = clock()
    return this.#now
  }

  #release(token: number): void {
    this.#receivers[token] = undefined
    this.#free.push(token)
  }

  #write(): void {
    if (this.#isFree) return
    this.#owner.flush()
    this.#scheduled = false
    const { engine } = memory
    const len = this.#blocked ? 0 : engine.onetrip_transmit_len(this.#connection)
    if (len > 0 && this.#socket.writable) {
      const start = engine.onetrip_transmit(this.#connection) >>> 0
      memory.refresh()
      const bytes = Buffer.allocUnsafe(len)
      memory.buffer.copy(bytes, 0, start, start + len)
      this.#blocked = !this.#socket.write(bytes)
      engine.onetrip_written(this.#connection, this.#now, len)
    }
    this.#walk()
    this.#arm()
  }

  /**
   * Sees that there is a timer for the next deadline. One that is set too early costs a turn;
   * setting it anew each time costs more.
   */
  #arm(): void {
    const deadline = memory.engine.onetrip_deadline(this.#connection)
    if (deadline >= this.#armed) return
    this.#armed = deadline
    clearTimeout(this.#timer)
    const wait = Math.min(Math.max(1, Math.ceil(deadline - clock())), LONGEST)
    this.#timer = setTimeout(() => this.#tick(), wait)
    this.#timer.unref()
  }

  #tick(): void {
    this.#armed = Infinity
    memory.engine.onetrip_time(this.#connection, this.#time())
    this.#walk()
    this.schedule()
  }

  #walk(): void {
    const { engine } = memory
    for (;;) {
      if (this.#isFree) return
      const count = engine.onetrip_take(this.#connection)
      if (count === 0) return
      memory.refresh()
      const first = engine.onetrip_completions(this.#connection) >>> 2
      for (let i = 0; i < count; i++) {
        try {
          this.#completion(first + i * RECORD)
        } catch (error) {
          // It is the host's, and the others are to hear what is theirs.
          process.nextTick(rethrow, error)
        }
      }
    }
  }

  #completion(at: number): void {
    // What was called for the record before may have let memory grow.
    memory.refresh()
    const { words } = memory
    const kind = words[at] as number
    const token = words[at + 1] as number
    const start = words[at + 5] as number
    const end = start + (words[at + 4] as number)
    if (kind === Kind.DATA) {
      this.#receivers[token]?.received(start, end)
    } else if (kind === Kind.END) {
      const b = words[at + 3] as number
      const receiver = this.#receivers[token]
      this.#release(token)
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

function rethrow(error: unknown): never {
  throw error
}

/** Node takes no longer timers. One that comes too early costs a turn. */
const LONGEST = 0x7fffffff
