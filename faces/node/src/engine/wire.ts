import type { Duplex } from 'node:stream'

import { clock, timeUntil } from './clock'
import { RECORD } from './choices'
import { Close, End, Refused, type Exports } from './exports'
import { lifeless, rethrow, safely } from './guard'
import { memory, type Handle } from './memory'

/** The end of a request, as receivers are told it. */
interface Ending {
  ended(how: number, outcome: number, start: number, end: number): void
}

/** The number of `Unknown`: the outcome of requests that were lost with the module. */
const UNKNOWN = 4

/**
 * One connection of the engine on a socket of Node: bytes in, bytes out, receivers by token, and
 * the timer of the next deadline. Subclasses know the protocol.
 *
 * The requests of one turn of the event loop, and those that are submitted because a chunk of
 * replies settled promises, leave in one write. Once 8 KiB have gathered, they are written at once.
 * While the server is busy and answers fast, the engine lets a few requests wait for the next
 * chunk of replies.
 */
export abstract class Wire<Receiver extends Ending> implements Handle {
  /** The functions of the module that holds the connection. */
  engine: Exports = memory.engine
  /** The address of the connection in the module. */
  readonly address: number
  /** The receivers by token. Token 0 is not used. */
  protected readonly receivers: (Receiver | undefined)[] = [undefined]
  protected isScheduled = false
  protected isFree = false
  /** The time that the engine was told last. */
  protected now = clock()
  readonly #socket: Duplex
  readonly #tokens: number[] = []
  readonly #flush = (): void => this.#write()
  #isBlocked = false
  /** `walk` is running. */
  #isWalking = false
  /** At most this many bytes were submitted since the last write: known texts are not sent. */
  #grown = 0
  /** The index of the first word of the completions that were taken. */
  #first = 0
  #timer: NodeJS.Timeout | undefined
  #armed = Infinity

  /** Takes an open socket. `make` gets the settings, copied into the module. */
  protected constructor(
    socket: Duplex,
    settings: Iterable<readonly [string, string]>,
    make: (now: number, start: number, len: number) => number,
  ) {
    let text = ''
    for (const [name, value] of settings) text += `${name}\0${value}\0`
    this.#socket = socket
    const bytes = Buffer.from(text)
    this.address = placed(() =>
      bytes.length === 0
        ? make(this.now, 0, 0)
        : memory.lend(bytes, (start) => make(this.now, start, bytes.length)),
    )
    if (this.address === 0) this.#homeless()
    memory.handles.add(this)
    socket.on('drain', () => {
      this.#isBlocked = false
      this.#write()
    })
    this.schedule()
  }

  /** The module has no memory for the connection, or has failed. */
  #homeless(): void {
    const why = memory.isLost ? Close.LOST : Close.NO_MEMORY
    this.engine = lifeless(this.engine)
    process.nextTick(() => this.#end(why))
  }

  /** The connection ended for a reason of this side. */
  protected abstract closed(why: number): void

  evicted(): void {
    this.#end(Close.LOST)
  }

  #end(why: number): void {
    if (this.isFree) return
    this.free()
    safely(() => this.closed(why))
    for (const receiver of this.receivers.splice(1)) {
      if (receiver) safely(() => receiver.ended(End.CLOSED, UNKNOWN, 0, 0))
    }
  }

  /** Handles the completion at this index of the memory's words. */
  protected abstract completion(at: number): void

  /** The turn of the event loop ends: submits what must leave in this turn's write. */
  protected leaving(): void {}

  /** A token for a receiver. */
  protected tokenOf(receiver: Receiver): number {
    const token = this.#tokens.pop() ?? this.receivers.length
    this.receivers[token] = receiver
    return token
  }

  protected release(token: number): void {
    this.receivers[token] = undefined
    this.#tokens.push(token)
  }

  /** Reads the clock. */
  protected time(): number {
    this.now = clock()
    return this.now
  }

  /**
   * The address of room for a request of this many bytes, valid until it is asked for again; 0 if
   * there is no memory.
   */
  protected roomFor(len: number): number {
    try {
      const room = this.engine.onetrip_request(this.address, len) >>> 0
      memory.refresh()
      return room
    } catch (error) {
      memory.failed(error)
      return 0
    }
  }

  /** Why there is no room for a request. */
  protected get noRoom(): number {
    // Code that was told of the failure may use a fresh module before this connection is told.
    return this.isFree || this.engine !== memory.engine ? Refused.CLOSED : Refused.NO_MEMORY
  }

  /** Hands received bytes to the engine, and tells the completions. */
  protected take(chunk: Uint8Array): void {
    const { engine } = this
    const now = this.time()
    try {
      const room = engine.onetrip_input(this.address, chunk.length) >>> 0
      if (room !== 0) {
        memory.refresh()
        memory.bytes.set(chunk, room)
        engine.onetrip_received(this.address, now, chunk.length)
      }
    } catch (error) {
      memory.failed(error)
    }
    this.walk()
  }

  /**
   * Schedules a write after bytes were received, since queued requests may be sent now. Code that
   * awaited the replies runs later in this turn, and schedules its own write.
   */
  protected settle(): void {
    if (this.isScheduled || this.isFree) return
    try {
      if (this.hasUnsent) this.schedule()
      else this.#arm()
    } catch (error) {
      memory.failed(error)
    }
  }

  /** The socket was closed. */
  peerClosed(): void {
    if (this.isFree) return
    this.engine.onetrip_peer_closed(this.address)
    this.walk()
  }

  /** Takes no more requests, and ends when all are answered, with the protocol's goodbye if any. */
  terminate(): void {
    if (this.isFree) return
    this.leaving()
    this.engine.onetrip_terminate(this.address, this.time())
    this.schedule()
  }

  /** Withdraws a request that still waits at this place in the queue. Returns whether it did. */
  takeBack(place: number): boolean {
    if (this.isFree) return false
    const done = this.engine.onetrip_cancel(this.address, this.time(), place) !== 0
    this.schedule()
    return done
  }

  /** Requests that were sent and not answered. */
  get inFlight(): number {
    // A cancel may ask for it after its connection was freed.
    return this.isFree ? 0 : this.engine.onetrip_in_flight(this.address)
  }

  /** Requests that wait for the window. */
  get queued(): number {
    return this.isFree ? 0 : this.engine.onetrip_queued(this.address)
  }

  /** Whether bytes are to be written now. */
  protected get hasUnsent(): boolean {
    return this.engine.onetrip_transmit_len(this.address) > 0
  }

  /** Schedules a write for the end of the current turn. */
  schedule(): void {
    if (this.isScheduled) return
    this.isScheduled = true
    process.nextTick(this.#flush)
  }

  /** Frees the connection. Later calls do nothing or fail. A receiver must not call it. */
  free(): void {
    if (this.isFree) return
    this.isFree = true
    clearTimeout(this.#timer)
    memory.handles.delete(this)
    this.engine.onetrip_connection_free(this.address)
  }

  #write(): void {
    if (this.isFree) return
    this.leaving()
    this.isScheduled = false
    try {
      this.#transmit()
      this.walk()
      this.#arm()
    } catch (error) {
      memory.failed(error)
    }
  }

  /**
   * Counts submitted bytes. A turn that submits much is written early, so that the server begins.
   */
  protected grew(bytes: number): void {
    this.#grown += bytes
    if (this.#grown < EARLY) return
    try {
      this.#grown = this.engine.onetrip_transmit_len(this.address)
      if (this.#grown >= EARLY) this.#transmit()
    } catch (error) {
      memory.failed(error)
    }
  }

  #transmit(): void {
    this.#grown = 0
    const { engine } = this
    const len = this.#isBlocked ? 0 : engine.onetrip_transmit_len(this.address)
    if (len === 0 || !this.#socket.writable) return
    const start = engine.onetrip_transmit(this.address) >>> 0
    memory.refresh()
    const bytes = Buffer.allocUnsafe(len)
    memory.buffer.copy(bytes, 0, start, start + len)
    // The engine is told first, since a stream of the user may answer within `write`.
    engine.onetrip_written(this.address, this.now, len)
    this.#isBlocked = !this.#socket.write(bytes)
  }

  /**
   * Sets a timer for the next deadline, unless an earlier one is set. A timer that fires too early
   * costs a turn; setting it anew each time costs more.
   */
  #arm(): void {
    const deadline = this.engine.onetrip_deadline(this.address)
    if (deadline >= this.#armed || this.isFree) return
    this.#armed = deadline
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#tick(), timeUntil(deadline))
    this.#timer.unref()
  }

  #tick(): void {
    this.#armed = Infinity
    this.engine.onetrip_time(this.address, this.time())
    this.walk()
    this.schedule()
  }

  /** Takes the completions, and returns their number. */
  #take(): number {
    const { engine } = this
    try {
      const count = engine.onetrip_take(this.address)
      if (count > 0) this.#first = engine.onetrip_completions(this.address) >>> 2
      return count
    } catch (error) {
      memory.failed(error)
      return 0
    }
  }

  /**
   * Tells all completions in order. A nested call does nothing: it would overwrite those that are
   * not told yet, and the loop of the outer call takes the new ones too.
   */
  protected walk(): void {
    if (this.#isWalking) return
    this.#isWalking = true
    for (;;) {
      const count = this.isFree ? 0 : this.#take()
      if (count === 0) break
      memory.refresh()
      const first = this.#first
      for (let i = 0; i < count; i++) {
        try {
          this.completion(first + i * RECORD)
        } catch (error) {
          // An error of the host's code must not keep the others from being told.
          process.nextTick(rethrow, error)
        }
      }
    }
    this.#isWalking = false
  }
}

/** The address of a new connection; 0 if there is no memory for its settings. */
function placed(make: () => number): number {
  try {
    return make()
  } catch (error) {
    if (error instanceof RangeError) return 0
    throw error
  }
}

/** PostgreSQL reads this many bytes at a time (`PQ_RECV_BUFFER_SIZE` in its pqcomm.c). */
const EARLY = 8192
