import { timeUntil } from '../engine/clock'
import { RECORD } from '../engine/choices'
import { type Exports, Kind, Role } from '../engine/exports'
import { safely } from '../engine/guard'
import { ENGINE_LOST, type Handle, memory, NO_MEMORY } from '../engine/memory'
import type { Config, Server } from './config'
import { misuse, RedisError } from './error'
import { open } from './open'

/** A connection to the server with a role, or an attempt at one. */
export interface Seated {
  /** Connect to this server, and give an earlier attempt up. */
  dial(server: Server): void
  /** Close at once: another server has the role by now. */
  leave(): void
  /** The server was not found in time. */
  notFound(error: RedisError): void
}

/** Where connections find their server: who knows it, and which role it has. */
export interface Seating {
  readonly sentinels: Sentinels
  readonly role: Role
}

/** A connection to a Sentinel. */
interface Line {
  /** Ends it, without a word. */
  end(): void
}

/**
 * The Sentinels of a client. Which server is the master, and what follows when it is another one,
 * is decided in the module; here are the connections: to the Sentinels, and to the servers that
 * these name.
 */
export class Sentinels implements Handle {
  engine!: Exports
  readonly #config: Config
  #address = 0
  readonly #seats = new Map<number, Seated>()
  #seat = 0
  readonly #lines = new Map<number, Line>()
  #isSettling = false
  #isClosed = false
  #timer: NodeJS.Timeout | undefined
  #armed = Infinity

  constructor(config: Config) {
    this.#config = config
  }

  // --- connections to servers ---

  /** A connection to the server with this role is wanted. Returns its number. */
  connect(role: Role, seated: Seated): number {
    this.#begin()
    do this.#seat = (this.#seat + 1) >>> 0
    while (this.#seat === 0 || this.#seats.has(this.#seat))
    this.#seats.set(this.#seat, seated)
    this.engine.onetrip_sentinel_connect(this.#address, now(), this.#seat, role)
    // Its owner gets the number before it is told where to connect.
    process.nextTick(() => this.#settle())
    return this.#seat
  }

  /** The connection is open, and its server has its role. */
  opened(seat: number): void {
    if (this.#address === 0) return
    this.engine.onetrip_sentinel_opened(this.#address, now(), seat)
    this.#settle()
  }

  /** The connection could not be opened, or was lost. */
  lost(seat: number, why: string): void {
    if (this.#seats.delete(seat)) this.#tell(seat, false, why)
  }

  /** The server of the connection says that it has lost its role. */
  useless(seat: number, why: string): void {
    if (this.#seats.has(seat)) this.#tell(seat, true, why)
  }

  #tell(seat: number, isOpen: boolean, why: string): void {
    if (this.#address === 0) return
    const text = Buffer.from(why)
    const { engine } = this
    memory.lend(text, (at) =>
      engine.onetrip_sentinel_lost(this.#address, now(), seat, isOpen ? 1 : 0, at, text.length),
    )
    this.#settle()
  }

  /** The connection ended as it should, or is wanted no more. */
  left(seat: number): void {
    if (!this.#seats.delete(seat) || this.#address === 0) return
    this.engine.onetrip_sentinel_left(this.#address, seat)
  }

  /** Whether a replica answers a command now that goes by itself. */
  isForReplica(onlyReads: boolean): boolean {
    this.#begin()
    return this.engine.onetrip_sentinel_is_for_replica(this.#address, onlyReads ? 1 : 0) !== 0
  }

  /** Asks nobody any more. Connections to servers remain. */
  close(): void {
    this.#isClosed = true
    if (this.#address === 0) return
    this.engine.onetrip_sentinel_close(this.#address)
    this.engine.onetrip_sentinel_free(this.#address)
    this.#forget()
  }

  // --- in the module ---

  #begin(): void {
    if (this.#address !== 0 || this.#isClosed) return
    this.engine = memory.engine
    const { engine } = this
    const bytes = Buffer.from([...settingsOf(this.#config)].join(''))
    const seed = Math.random()
    const made = memory.lend(bytes, (at) => engine.onetrip_sentinel_new(at, bytes.length, seed))
    if (made === 0) throw misuse('no_memory', NO_MEMORY)
    this.#address = made >>> 0
    memory.handles.add(this)
    engine.onetrip_sentinel_time(this.#address, now())
    process.nextTick(() => this.#settle())
  }

  #forget(): void {
    memory.handles.delete(this)
    clearTimeout(this.#timer)
    this.#address = 0
    this.#armed = Infinity
    for (const line of this.#lines.values()) line.end()
    this.#lines.clear()
  }

  evicted(): void {
    const seats = [...this.#seats.values()]
    this.#seats.clear()
    this.#forget()
    const error = new RedisError(ENGINE_LOST, 'connection_lost', 'NotSent')
    for (const seated of seats) safely(() => seated.notFound(error))
  }

  #settle(): void {
    if (this.#isSettling) return
    this.#isSettling = true
    while (this.#address !== 0 && this.#walk()) {
      // Carrying out an order may give rise to others.
    }
    this.#isSettling = false
    this.#arm()
  }

  #walk(): boolean {
    const { engine } = this
    const count = engine.onetrip_sentinel_take(this.#address)
    if (count === 0) return false
    const first = engine.onetrip_sentinel_completions(this.#address) >>> 2
    for (let i = 0; i < count && this.#address !== 0; i++)
      safely(() => this.#act(first + i * RECORD))
    return true
  }

  #act(at: number): void {
    memory.refresh()
    const { words } = memory
    const [kind, token, a, b, len, start] = words.subarray(at, at + RECORD) as unknown as number[]
    const text = (from: number, to: number): string => memory.text(from, to)
    const [first, end] = [start as number, (start as number) + (len as number)]
    if (kind === Kind.SENTINEL_OPEN) {
      const host = text(first, first + (b as number))
      const bytes = Buffer.from(memory.bytes.subarray(first + (b as number), end))
      this.#open(token as number, { host, port: a as number }, bytes)
    } else if (kind === Kind.SENTINEL_CLOSE) {
      this.#lines.get(token as number)?.end()
      this.#lines.delete(token as number)
    } else if (kind === Kind.SENTINEL_DIAL) {
      const server = { host: text(first, end), port: b as number }
      this.#seats.get(token as number)?.dial(server)
    } else {
      const seated = this.#seats.get(token as number)
      this.#seats.delete(token as number)
      if (kind === Kind.SENTINEL_LEAVE) seated?.leave()
      else seated?.notFound(new RedisError(text(first, end), 'sentinel', 'NotSent'))
    }
  }

  // --- connections to Sentinels ---

  #open(number: number, server: Server, bytes: Buffer): void {
    const ended = (why: string): void => {
      if (this.#lines.get(number) !== line) return
      this.#lines.delete(number)
      const text = Buffer.from(why)
      const { engine } = this
      memory.lend(text, (at) =>
        engine.onetrip_sentinel_closed(this.#address, now(), number, at, text.length),
      )
      this.#settle()
    }
    const received = (chunk: Buffer): void => {
      if (this.#lines.get(number) !== line) return
      const { engine } = this
      memory.lend(chunk, (at) =>
        engine.onetrip_sentinel_input(this.#address, now(), number, at, chunk.length),
      )
      this.#settle()
    }
    const giveUp = open(
      this.#config,
      server,
      received,
      (socket) => {
        let why = 'the server closed it'
        socket.on('data', received)
        socket.on('error', (error) => (why = error.message))
        socket.on('close', () => ended(`its connection was lost (${why})`))
        line.end = () => socket.destroy()
        socket.write(bytes)
      },
      (error) => ended(error.message),
    )
    const line: Line = { end: giveUp }
    this.#lines.set(number, line)
  }

  // --- time ---

  #arm(): void {
    if (this.#address === 0) return
    const deadline = this.engine.onetrip_sentinel_deadline(this.#address)
    if (deadline >= this.#armed) return
    this.#armed = deadline
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#tick(), timeUntil(deadline))
  }

  #tick(): void {
    this.#armed = Infinity
    if (this.#address === 0) return
    this.engine.onetrip_sentinel_time(this.#address, now())
    this.#settle()
  }
}

function* settingsOf(config: Config): Generator<string> {
  const { sentinel } = config
  if (sentinel === undefined) return
  yield `master\0${sentinel.master}\0`
  for (const server of config.servers) {
    if ('host' in server) yield `sentinel\0${server.host}:${server.port}\0`
  }
  if (sentinel.user !== undefined) yield `user\0${sentinel.user}\0`
  if (sentinel.password !== undefined) yield `password\0${sentinel.password}\0`
  yield `reads\0${sentinel.reads}\0`
  yield `wait_timeout_ms\0${config.waitTimeout}\0`
}

const now = (): number => performance.now()
