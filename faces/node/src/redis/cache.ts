import { type Exports, Found } from '../engine/exports'
import { safely } from '../engine/guard'
import { type Handle, memory, NO_MEMORY } from '../engine/memory'
import { Atomic } from './atomic'
import { Call, type How, promised, type Shape } from './call'
import { type Argument, sizeOf, Words, write } from './encode'
import { aborted, misuse, type RedisError } from './error'
import { answer } from './flight'
import { bare, begin, isError, next, position, skip } from './reply'
import type { Spec } from './spec'

/** What happened to the cache of a client, and what it has. */
export interface CacheMetrics {
  /** Commands that were answered from the cache. */
  readonly hits: number
  /** Commands that were sent because the cache did not have their replies. */
  readonly misses: number
  /** Commands that were answered together with one that was sent already. */
  readonly joined: number
  /** Keys that the server said were changed; all of them at once count as one. */
  readonly invalidations: number
  /** Replies that were dropped because the cache was full. */
  readonly evicted: number
  /** The bytes of the replies that it has, with all that belongs to them. */
  readonly bytes: number
  /** The replies that it has. */
  readonly entries: number
  /** Whether there is a connection whose replies are kept. */
  readonly isOn: boolean
}

/** A caller that waits for the reply to a command which another has sent. */
interface Joined {
  readonly call: Call
  /** Sends the command, if no reply to the other one comes. */
  readonly send: (call: Call) => void
  readonly timer: NodeJS.Timeout | undefined
}

const NO_COUNTS: CacheMetrics = {
  hits: 0,
  misses: 0,
  joined: 0,
  invalidations: 0,
  evicted: 0,
  bytes: 0,
  entries: 0,
  isOn: false,
}

/** After so many calls that were answered from the cache, the event loop has its turn. */
const HITS_MAX = 1_000

/** Bytes of the room for short commands. In front of it are the numbers that the module writes. */
const SHORT = 16 * 1024

const COUNTS = 8

const EVAL = new Words('EVAL')

/**
 * The replies that a client keeps. What is kept, and how long, is decided in the module; here are
 * the calls that wait for a reply, and the connection whose replies are kept.
 */
export class Cache implements Handle {
  engine!: Exports
  readonly #bytesMax: number
  /** The address of the cache in the module; 0 before the first use and after the end. */
  #address = 0
  /** The address of room for numbers and short commands. */
  #room = 0
  /** The connection whose replies are kept, and its number. No two have the same. */
  #current: object | undefined
  #number = 0
  readonly #joined = new Map<number, Joined>()
  #join = 0
  /** Hits since the event loop had its turn. */
  #hits = 0
  #isOver = false

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  // --- the connection ---

  /** This connection tracks keys. Its replies are kept from now on. */
  opened(connection: object): void {
    this.#begin()
    this.#current = connection
    this.engine.onetrip_cache_opened(this.#address, ++this.#number)
  }

  /** The pushes of this connection are not read any more. */
  closed(connection: object): void {
    if (this.#current !== connection) return
    this.#current = undefined
    if (this.#address !== 0) this.engine.onetrip_cache_closed(this.#address, this.#number)
  }

  /** A push was read. Returns whether it was one for the cache. */
  pushed(start: number, end: number): boolean {
    if (this.#address === 0) return false
    return this.engine.onetrip_cache_pushed(this.#address, start, end - start) !== 0
  }

  // --- reads ---

  /**
   * Answers a command from the cache, or with the reply to the same one of another caller. If the
   * cache has nothing, it is sent.
   */
  ask(
    spec: Spec,
    args: readonly Argument[],
    how: How,
    shape: Shape | undefined,
    send: (call: Call) => void,
  ): Promise<unknown> {
    if (this.#current === undefined || how.signal?.aborted === true)
      return promised(spec, args, how, shape, send)
    if (this.#hits >= HITS_MAX) {
      // A caller that awaits nothing else would keep the event loop from reading what was changed.
      this.#hits = 0
      const turn = new Promise((resolve) => setImmediate(resolve))
      return turn.then(() => this.ask(spec, args, how, shape, send))
    }
    try {
      const found = this.#lookUp(spec, args)
      if (found > Found.FETCH) return Promise.resolve(this.#hit(found, spec, how, shape))
      if (found === Found.JOINED)
        return promised(spec, args, how, shape, (call) => this.#wait(call, send))
      if (found === Found.FETCH) return this.#fetch(spec, args, how, shape, send)
    } catch (error) {
      memory.failed(error)
      return Promise.reject(error as RedisError)
    }
    return promised(spec, args, how, shape, send)
  }

  #lookUp(spec: Spec, args: readonly Argument[]): number {
    const size = sizeOf(spec.words, args, spec.name)
    if (size > SHORT) return Found.NOTHING
    const start = this.#room + COUNTS * 8
    memory.refresh()
    const len = write(start, spec.words, args) - start
    const { engine } = this
    return engine.onetrip_cache_look_up(this.#address, start, len, this.#join, this.#room) >>> 0
  }

  #hit(start: number, spec: Spec, how: How, shape: Shape | undefined): unknown {
    this.#hits++
    memory.refresh()
    begin(start)
    const reply = next(how.bytes, false, spec.name)
    return shape === undefined ? reply : shape(reply, how.bytes)
  }

  #wait(call: Call, send: (call: Call) => void): void {
    const number = this.#join
    call.isForMaster = true
    const late = (): void => {
      if (this.#joined.delete(number)) call.expire('NotSent')
    }
    const left = call.timeLeft
    const timer = left === 0 ? undefined : setTimeout(late, left)
    call.takeBack = () => {
      clearTimeout(timer)
      return this.#joined.delete(number)
    }
    this.#joined.set(number, { call, send, timer })
    do this.#join = (this.#join + 1) >>> 0
    while (this.#joined.has(this.#join))
  }

  #fetch(
    spec: Spec,
    args: readonly Argument[],
    how: How,
    shape: Shape | undefined,
    send: (call: Call) => void,
  ): Promise<unknown> {
    memory.refresh()
    const at = this.#room >>> 2
    const number = [memory.words[at] as number, memory.words[at + 1] as number] as const
    return new Promise((resolve, reject) => {
      send(new Fetch(this, number, spec, args, how, shape, resolve, reject))
    })
  }

  /** A fetch has ended, with the reply at `start` or, if `len` is 0, without one. */
  ended(number: FetchNumber, start: number, len: number): void {
    if (this.#address === 0) return
    const { engine } = this
    this.#put(number)
    const count = engine.onetrip_cache_ended(this.#address, this.#room, this.#number, start, len)
    if (count === 0) return
    const first = engine.onetrip_cache_joined(this.#address) >>> 2
    memory.refresh()
    for (const joined of memory.words.slice(first, first + count)) {
      const waiting = this.#joined.get(joined)
      this.#joined.delete(joined)
      if (waiting === undefined) continue
      if (len === 0) {
        safely(() => sendNow(waiting))
        continue
      }
      clearTimeout(waiting.timer)
      begin(start)
      answer(waiting.call)
    }
  }

  /** The caller of a fetch is gone. Returns whether nobody waits for it. */
  left(number: FetchNumber): boolean {
    if (this.#address === 0) return true
    this.#put(number)
    return this.engine.onetrip_cache_left(this.#address, this.#room) !== 0
  }

  #put([low, high]: FetchNumber): void {
    memory.refresh()
    const at = this.#room >>> 2
    memory.words[at] = low
    memory.words[at + 1] = high
  }

  // --- writes ---

  /** The client submits a call, on whichever connection. What it may change is not true any more. */
  submits(call: Call): void {
    if (this.#isOver || call.written !== undefined || !mayChange(call)) return
    let size: number
    try {
      size = call.size() + EVAL_BYTES
    } catch {
      return // It can't be sent.
    }
    this.#begin()
    const { engine } = this
    const isShort = size <= SHORT
    const start = isShort ? this.#room + COUNTS * 8 : engine.onetrip_alloc(size) >>> 0
    memory.refresh()
    // Without memory for the commands it is not known what they change.
    const len = start === 0 ? 0 : commandsOf(call, start) - start
    const writes = engine.onetrip_cache_submitted(this.#address, start, len) >>> 0
    if (!isShort && start !== 0) engine.onetrip_free(start, size)
    call.written = () => {
      call.written = undefined
      if (this.engine === engine && writes !== 0) engine.onetrip_cache_written(this.#address, writes)
    }
  }

  // --- the whole ---

  metrics(): CacheMetrics {
    if (this.#address === 0) return NO_COUNTS
    const { engine } = this
    engine.onetrip_cache_counts_now(this.#address, this.#room)
    memory.refresh()
    const counts = new Float64Array(memory.bytes.buffer, this.#room, COUNTS).slice()
    const [hits = 0, misses = 0, joined = 0, invalidations = 0, evicted = 0] = counts
    const [bytes = 0, entries = 0, isOn = 0] = counts.subarray(5)
    return { hits, misses, joined, invalidations, evicted, bytes, entries, isOn: isOn !== 0 }
  }

  #begin(): void {
    if (this.#address !== 0) return
    this.engine = memory.engine
    const room = this.engine.onetrip_alloc(COUNTS * 8 + SHORT) >>> 0
    const made = room === 0 ? 0 : this.engine.onetrip_cache_new(this.#bytesMax) >>> 0
    if (made === 0) throw misuse('no_memory', NO_MEMORY)
    this.#room = room
    this.#address = made
    memory.handles.add(this)
  }

  /** The client is closed, and nothing on its connections is unanswered. */
  free(): void {
    this.#isOver = true
    if (this.#address === 0) return
    this.engine.onetrip_cache_free(this.#address)
    this.engine.onetrip_free(this.#room, COUNTS * 8 + SHORT)
    this.evicted()
  }

  evicted(): void {
    memory.handles.delete(this)
    this.#address = 0
    this.#current = undefined
    const all = [...this.#joined.values()]
    this.#joined.clear()
    for (const joined of all) safely(() => sendNow(joined))
  }
}

/** The number of a fetch in the module, in two words. */
type FetchNumber = readonly [low: number, high: number]

/** A command whose reply is to be kept. The reply belongs to those, too, who join. */
class Fetch extends Call {
  readonly #cache: Cache
  readonly #number: FetchNumber
  #hasEnded = false

  constructor(
    cache: Cache,
    number: FetchNumber,
    spec: Spec,
    args: readonly Argument[],
    how: How,
    shape: Shape | undefined,
    resolve: (value: unknown) => void,
    reject: (error: RedisError) => void,
  ) {
    super(spec, args, how, shape, resolve, reject)
    this.isForMaster = true
    this.#cache = cache
    this.#number = number
  }

  /** If its caller is gone, others may wait for the reply. */
  override get settled(): boolean {
    return super.settled && this.#hasEnded
  }

  override take(): void {
    const start = bare(position())
    const end = skip(start)
    this.#end(start, isError(start) ? 0 : end - start)
    begin(start)
    super.take()
    begin(end)
  }

  #end(start: number, len: number): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#cache.ended(this.#number, start, len)
  }

  override reject(error: RedisError): void {
    super.reject(error)
    this.#end(0, 0)
  }

  override handleEvent(): void {
    this.#hasEnded ||= this.#cache.left(this.#number)
    if (this.#hasEnded) return super.handleEvent()
    // It is sent, and answered, for those who joined.
    super.reject(aborted(this.how.signal as AbortSignal, 'Unknown', this.spec.name))
  }
}

function sendNow({ call, send, timer }: Joined): void {
  clearTimeout(timer)
  call.takeBack = undefined
  if (!call.settled) send(call)
}

function mayChange(call: Call): boolean {
  return call instanceof Atomic || call.script !== undefined || call.spec.changes
}

/** Writes the commands that may change something. A script is written as EVAL. */
function commandsOf(call: Call, start: number): number {
  const items = call instanceof Atomic ? call.items : [call]
  let at = start
  for (const { spec, args, script } of items) {
    at = script === undefined ? write(at, spec.words, args) : write(at, EVAL, ['', ...args])
  }
  return at
}

/** What EVAL takes more than the name of a script call. */
const EVAL_BYTES = 64
