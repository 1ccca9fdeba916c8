import type { Duplex } from 'node:stream'

import { clock, timeUntil } from './clock'
import { Close, End, RECORD, Refused, type Exports } from './exports'
import { lifeless, rethrow, safely } from './guard'
import { memory, type Handle } from './memory'

/** Who waits for a reply is told how it ended. */
interface Ending {
  ended(how: number, outcome: number, start: number, end: number): void
}

/** What was on its way when the module failed: the number of `Unknown`. */
const UNKNOWN = 4

/**
 * One connection of the engine on a socket of Node's: bytes in, bytes out, who waits under which token, and when the
 * engine wants to be woken. What it speaks is its subclasses'.
 *
 * What is submitted in one turn of the event loop, and by all that a chunk of replies resolves, leaves in one write; if it is
 * much, in some. While the server has plenty to do and answers fast, the engine lets a few requests wait for the next chunk.
 */
export abstract class Wire<Receiver extends Ending> implements Handle {
  /** The functions of the module in which it lies. */
  engine: Exports = memory.engine
  /** Where the connection lies in the module, for a pool. */
  readonly address: number
  /** Who waits, by token. The first is nobody's. */
  protected readonly receivers: (Receiver | undefined)[] = [undefined]
  protected isScheduled = false
  protected isFree = false
  /** When the engine was told the time last. */
  protected now = clock()
  readonly #socket: Duplex
  readonly #tokens: number[] = []
  readonly #flush = (): void => this.#write()
  #isBlocked = false
  /** Somebody is being told. */
  #isWalking = false
  /** Bytes that were submitted since the last write, or more: texts of statements that the server knows are not sent. */
  #grown = 0
  /** The index of the first word of the records that were taken. */
  #first = 0
  #timer: NodeJS.Timeout | undefined
  #armed = Infinity

  /** On a socket that is open. `make` is given settings that lie in the module. The login leaves at once. */
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

  /** There is no place for it in the module. */
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

  /** What happened: the record whose first word is at this index of the memory's words. */
  protected abstract completion(at: number): void

  /** The turn is over: what is to leave with it is submitted now. */
  protected leaving(): void {}

  /** A token for one who waits. */
  protected tokenOf(receiver: Receiver): number {
    const token = this.#tokens.pop() ?? this.receivers.length
    this.receivers[token] = receiver
    return token
  }

  protected release(token: number): void {
    this.receivers[token] = undefined
    this.#tokens.push(token)
  }

  /** The time, for a call that may come long after the last. */
  protected time(): number {
    this.now = clock()
    return this.now
  }

  /** Room for so many bytes of requests, which stays where it is until it is asked for again; 0 if there is none. */
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
    // Others may have been told already, and ask for more, when a fresh module is there.
    return this.isFree || this.engine !== memory.engine ? Refused.CLOSED : Refused.NO_MEMORY
  }

  /** Hands bytes of the peer over, and tells what came of them. */
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
   * After bytes of the peer: what waited for the window may leave now. Those who were answered go on later in this turn, and
   * what they submit has itself written.
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

  /** The peer has gone. */
  peerClosed(): void {
    if (this.isFree) return
    this.engine.onetrip_peer_closed(this.address)
    this.walk()
  }

  /** Takes no more requests, says goodbye where the protocol has one, and ends when all is answered. */
  terminate(): void {
    if (this.isFree) return
    this.leaving()
    this.engine.onetrip_terminate(this.address, this.time())
    this.schedule()
  }

  /** Takes a request back that still waits in its place. */
  takeBack(place: number): boolean {
    if (this.isFree) return false
    const done = this.engine.onetrip_cancel(this.address, this.time(), place) !== 0
    this.schedule()
    return done
  }

  /** Requests that were sent and not answered. */
  get inFlight(): number {
    // A cancel may outlive its connection.
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

  /** Has what is unsent written when the current turn and all that it resolved has run. */
  schedule(): void {
    if (this.isScheduled) return
    this.isScheduled = true
    process.nextTick(this.#flush)
  }

  /** Gives the memory back. What is called after it does nothing or fails. Not to be called by a receiver. */
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

  /** At most so many bytes more are to be written. A turn that submits much has the server begin before it ends. */
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
    // Before: a stream of the caller's may have its answer in the same call.
    engine.onetrip_written(this.address, this.now, len)
    this.#isBlocked = !this.#socket.write(bytes)
  }

  /**
   * Sees that there is a timer for the next deadline. One that is set too early costs a turn; setting it anew each time
   * costs more.
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

  /** Takes the records of what happened, and says how many. */
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

  /** Tells all that happened. What a stream answers while somebody is told comes behind the rest, which it would let go of. */
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
          // It is the host's, and the others are to hear what is theirs.
          process.nextTick(rethrow, error)
        }
      }
    }
    this.#isWalking = false
  }
}

/** Where a connection lies; 0 if there is no memory for it. */
function placed(make: () => number): number {
  try {
    return make()
  } catch (error) {
    if (error instanceof RangeError) return 0
    throw error
  }
}

/** PostgreSQL reads so many bytes at a time (`PQ_RECV_BUFFER_SIZE` in its pqcomm.c). */
const EARLY = 8192
