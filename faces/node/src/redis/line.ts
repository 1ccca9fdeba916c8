import type { Outcome } from '../engine/choices'
import { memory } from '../engine/memory'
import type { Call } from './call'
import type { Config, Server } from './config'
import { Connection, type Purpose, type Seat } from './connection'
import { misuse, RedisError } from './error'

/** Is told of events that belong to no call. */
export interface Listener {
  /** A connection is ready, the first or a new one. */
  connected(connection: Connection): void
  push(connection: Connection, start: number, end: number): void
  /** The connection was lost. Another one is opened when it is needed. */
  disconnected(error: RedisError): void
  /** Whether a connection is needed although no call waits. */
  needed(): boolean
}

/** A call that waits for a connection, or for room on it. */
interface Waiting {
  readonly call: Call
  readonly size: number
  /** When it fails, if there is still no connection. */
  until: number
}

const BACKOFF_MIN = 50
const BACKOFF_MAX = 5_000

/**
 * The shared connection: it is opened when it is needed, and again after it was lost. Calls wait
 * for it in order.
 */
export class Line implements Seat {
  readonly #config: Config
  readonly #servers: readonly Server[]
  readonly #purpose: Purpose
  readonly #listener: Listener
  #current: Connection | undefined
  #opening: Connection | undefined
  #waiting: Waiting[] = []
  #waitingBytes = 0
  /** Failed attempts in a row. */
  #attempts = 0
  #nextServer = 0
  #backoff: NodeJS.Timeout | undefined
  #timer: NodeJS.Timeout | undefined
  #armed = Infinity
  #lastError: RedisError | undefined
  #isClosed = false
  #closing: (() => void)[] = []

  constructor(config: Config, servers: readonly Server[], purpose: Purpose, listener: Listener) {
    this.#config = config
    this.#servers = servers
    this.#purpose = purpose
    this.#listener = listener
  }

  /** The connection, if there is one. */
  get current(): Connection | undefined {
    return this.#current
  }

  /** Calls that wait. */
  get waiting(): number {
    return this.#waiting.length
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** Sends a call, at once or when there is a connection with room. */
  send(call: Call): void {
    this.#purpose.cache?.submits(call)
    const connection = this.#current
    if (connection !== undefined && this.#waiting.length === 0 && connection.send(call)) return
    this.#wait(call)
  }

  /** Opens a connection, unless there is one or one is being opened. */
  want(): void {
    if (this.#isClosed || this.#current !== undefined || this.#opening !== undefined) return
    if (this.#backoff === undefined) this.#open()
  }

  /** Takes no new calls. Resolves when all calls are answered and the connection is closed. */
  close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#backoff)
    this.#backoff = undefined
    const ended = new Promise<void>((resolve) => this.#closing.push(resolve))
    if (this.#current === undefined && this.#opening === undefined) this.#failAll(closedError())
    if (this.#waiting.length === 0) this.#end()
    return ended
  }

  /** Ends now, whatever is unanswered. */
  destroy(error: RedisError): void {
    this.#isClosed = true
    clearTimeout(this.#backoff)
    this.#backoff = undefined
    this.#failAll(error)
    this.#opening?.abort(error)
    this.#current?.abort(error)
    this.#end()
  }

  #end(): void {
    if (!this.#isClosed) return
    clearTimeout(this.#timer)
    this.#opening?.end()
    this.#current?.end()
    if (this.#current === undefined && this.#opening === undefined) {
      for (const resolve of this.#closing.splice(0)) resolve()
    }
  }

  // --- waiting ---

  #wait(call: Call): void {
    if (this.#isClosed && this.#current === undefined) return call.reject(closedError())
    const entry = this.#entry(call)
    if (entry === undefined) return
    // One call may wait whatever its size.
    if (this.#waitingBytes > 0 && this.#waitingBytes + entry.size > this.#config.waitingBytesMax) {
      return call.reject(queueFull(call.spec.name))
    }
    this.#waiting.push(entry)
    this.#keep(entry)
    this.want()
  }

  #entry(call: Call): Waiting | undefined {
    try {
      return { call, size: call.size(), until: this.#until(call) }
    } catch (error) {
      call.reject(error as RedisError)
      return undefined
    }
  }

  #keep(entry: Waiting): void {
    this.#waitingBytes += entry.size
    entry.call.takeBack = () => this.#takeOut(entry)
    this.#arm(entry.until)
  }

  /**
   * The wait timeout is for a missing connection; a call that waits for room has only its deadline.
   */
  #until(call: Call): number {
    if (this.#current !== undefined) return call.deadline
    return Math.min(call.deadline, performance.now() + this.#waitTimeout)
  }

  get #waitTimeout(): number {
    const { waitTimeout } = this.#config
    if (this.#purpose.isNode !== true) return waitTimeout
    return memory.engine.onetrip_redis_line_wait(waitTimeout)
  }

  #takeOut(entry: Waiting): boolean {
    const at = this.#waiting.indexOf(entry)
    if (at < 0) return false
    this.#waiting.splice(at, 1)
    this.#waitingBytes -= entry.size
    return true
  }

  #arm(until: number): void {
    if (until >= this.#armed) return
    this.#armed = until
    clearTimeout(this.#timer)
    const wait = Math.min(Math.max(1, Math.ceil(until - performance.now())), 0x7fffffff)
    this.#timer = setTimeout(() => this.#expire(), wait)
  }

  #expire(): void {
    this.#armed = Infinity
    const now = performance.now()
    const late = this.#waiting.filter((entry) => entry.until <= now)
    if (late.length > 0) {
      this.#waiting = this.#waiting.filter((entry) => entry.until > now)
      for (const { call, size } of late) {
        this.#waitingBytes -= size
        if (call.deadline <= now) call.expire('NotSent')
        else call.fail(this.#noConnection(), 'NotSent')
      }
    }
    let next = Infinity
    for (const { until } of this.#waiting) next = Math.min(next, until)
    if (next < Infinity) this.#arm(next)
  }

  #noConnection(): RedisError {
    const why = this.#lastError
    if (why === undefined) {
      const message = `no connection came within ${this.#waitTimeout} ms (waitTimeout): is the server reachable?`
      return new RedisError(message, 'wait_timeout', 'NotSent')
    }
    return new RedisError(
      `no connection could be opened in time: ${why.message}`,
      why.code,
      'NotSent',
      undefined,
      why,
    )
  }

  #failAll(error: RedisError): void {
    this.#waitingBytes = 0
    // Without calls that wait, the timer would only keep the process alive.
    clearTimeout(this.#timer)
    this.#armed = Infinity
    for (const { call } of this.#waiting.splice(0)) call.fail(error, 'NotSent')
  }

  /** Sends the calls that wait, as far as there is room. */
  #serve(): void {
    const connection = this.#current
    if (connection === undefined) return
    const waiting = this.#waiting
    // Calls that the connection returns meanwhile go in front of the rest.
    this.#waiting = []
    let at = 0
    for (; at < waiting.length; at++) {
      const { call, size } = waiting[at] as Waiting
      const { takeBack } = call
      call.takeBack = undefined
      if (!call.settled && !connection.send(call)) {
        call.takeBack = takeBack
        break
      }
      this.#waitingBytes -= size
    }
    this.#waiting = this.#waiting.concat(at === 0 ? waiting : waiting.slice(at))
    for (const entry of this.#waiting) entry.until = entry.call.deadline
    if (this.#waiting.length === 0) this.#end()
  }

  // --- connections ---

  #open(): void {
    const server = this.#servers[this.#nextServer % this.#servers.length] as Server
    this.#opening = new Connection(this.#config, server, this.#purpose, this)
  }

  ready(connection: Connection): void {
    this.#opening = undefined
    this.#attempts = 0
    this.#current = connection
    this.#listener.connected(connection)
    this.#serve()
  }

  drained(connection: Connection): void {
    if (connection === this.#current) this.#serve()
  }

  push(connection: Connection, start: number, end: number): void {
    this.#listener.push(connection, start, end)
  }

  answered(): void {}

  again(call: Call, outcome: Outcome): boolean {
    // With Sentinels, what was not sent goes on at the next master.
    const goesOn = this.#purpose.seating !== undefined && outcome === 'NotSent' && !call.isForMaster
    const mayRepeat = goesOn || call.mayRepeat(this.#config.repeatReads)
    if (outcome === 'Applied' || !mayRepeat || this.#isClosed || call.settled) return false
    if (++call.repeats >= this.#config.attemptsMax) return false
    call.wasUnknown ||= outcome === 'Unknown'
    this.#wait(call)
    return true
  }

  returned(calls: readonly Call[]): void {
    const entries = calls.flatMap((call) => (call.settled ? [] : (this.#entry(call) ?? [])))
    this.#waiting.unshift(...entries)
    entries.forEach((entry) => this.#keep(entry))
    this.want()
  }

  ended(connection: Connection, error: RedisError, permanent: boolean): void {
    const wasThere = connection === this.#current
    if (!wasThere && connection !== this.#opening) return
    this.#current = wasThere ? undefined : this.#current
    this.#opening = undefined
    this.#lastError = error
    if (this.#isClosed) {
      this.#failAll(error)
      return this.#end()
    }
    if (wasThere) this.#listener.disconnected(error)
    // Another node of the cluster may have taken over.
    const isAway = this.#purpose.isNode === true && !wasThere
    if (permanent || isAway) this.#failAll(error)
    this.#restart(wasThere)
  }

  #restart(wasThere: boolean): void {
    const now = performance.now()
    for (const entry of this.#waiting) {
      if (wasThere) entry.until = Math.min(entry.call.deadline, now + this.#waitTimeout)
      this.#arm(entry.until)
    }
    if (this.#waiting.length === 0 && !this.#listener.needed()) return
    // The next server is tried at once. After a round of all servers there is a pause.
    this.#nextServer++
    this.#attempts++
    const rounds = Math.floor((this.#attempts - 1) / this.#servers.length)
    const max = Math.min(BACKOFF_MIN * 2 ** rounds, BACKOFF_MAX)
    const pause =
      this.#attempts % this.#servers.length === 0 || wasThere ? max * (0.5 + Math.random() / 2) : 0
    this.#backoff = setTimeout(() => {
      this.#backoff = undefined
      if (this.#waiting.length > 0 || this.#listener.needed()) this.want()
    }, pause)
  }
}

/** The error of a call on a client that is closed. */
export function closedError(): RedisError {
  return misuse('closed', 'the client is closed')
}

function queueFull(name: string): RedisError {
  const message =
    'too many bytes wait for the connection: wait for replies before sending more, or raise waitingBytesMax'
  return misuse('queue_full', message, name)
}
