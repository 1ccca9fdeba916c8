import { timeUntil } from './clock'
import { Close, Kind, PoolCause, RECORD, type Exports } from './exports'
import { rethrow, safely } from './guard'
import { memory, NO_MEMORY, type Handle } from './memory'

/** One who waits for a connection. */
export interface Borrower {
  /** The connection of this number is its own until it is released; or its request goes there next to others'. */
  served(connection: number): void
  /** It gets none. `cause` is one of `PoolCause`. */
  failed(cause: number): void
}

/** Who opens and closes connections for a pool. */
export interface Opener {
  /** A connection is wanted under this number: `opened` or `openFailed` tells what became of it. */
  open(connection: number): void
  /** An idle connection is to be reset, unless it left with a request meanwhile. */
  reset(connection: number): void
  /** A connection is to be closed, or no longer opened: the pool has forgotten it. */
  close(connection: number): void
  /** No connection is left, and none will come. */
  closed(): void
}

/** Deep enough for all but a flood, which is served in turn. */
const DEPTH_MAX = 100

/**
 * The policy of a pool in the module: which connection, when one more, who waits and who is next, what expires. It
 * knows connections by number, and looks at their work by itself.
 *
 * Whoever is served or refused is told in the next tick, or by `settle`; never in the call that asked.
 */
export class PoolAdapter<B extends Borrower = Borrower> implements Handle {
  engine: Exports = memory.engine
  #pool = 0
  readonly #settings: Buffer
  /** The last number of a connection, and the last of those that were lost with the module. */
  #last = 0
  #base = 0
  #isClosing = false
  readonly #opener: Opener
  readonly #borrowers = new Map<number, B>()
  readonly #walkLater = (): void => this.#walk()
  #token = 0
  #scheduled = false
  /** What is to be told: a kind, a token and a number for each. */
  readonly #records: number[] = []
  #at = 0
  /** Walks that are under way, each called by who was told in the one before. */
  #depth = 0
  #over = false
  /** Something was placed since all was acted on. */
  #placed = false
  #timer: NodeJS.Timeout | undefined
  #armed = Infinity

  /** With the settings of `onetrip_pool_new`. Wrong ones are an error. */
  constructor(settings: Iterable<readonly [string, string | number]>, opener: Opener) {
    let text = ''
    for (const [name, value] of settings) text += `${name}\0${value}\0`
    this.#opener = opener
    this.#settings = Buffer.from(text)
    this.#begin()
  }

  #begin(): void {
    const now = performance.now()
    const seed = Math.random()
    const { length } = this.#settings
    this.engine = memory.engine
    this.#pool =
      length === 0
        ? this.engine.onetrip_pool_new(now, 0, 0, seed)
        : memory.lend(this.#settings, (start) =>
            this.engine.onetrip_pool_new(now, start, length, seed),
          )
    if (this.#pool === 0 && !memory.isLost) throw new RangeError(NO_MEMORY)
    memory.handles.add(this)
    // Otherwise the first connection is opened in the turn of who asks for it, and so in its context.
    if (this.#take()) this.#schedule()
  }

  /**
   * The module failed, and its connections with it: who waits is told, and the pool goes on without them. What was opened or
   * lent before is ignored when it comes back.
   */
  evicted(): void {
    if (this.#over) return
    const borrowers = [...this.#borrowers.values()]
    this.#borrowers.clear()
    this.#records.length = this.#at = 0
    this.#base = this.#last
    this.#armed = Infinity
    safely(() => this.#begin())
    if (this.#isClosing) this.close()
    for (const borrower of borrowers) safely(() => borrower.failed(PoolCause.LOST))
  }

  /** Asks for a connection of one's own. `timeout` in milliseconds; infinity for no end. Returns what `giveUp` takes. */
  checkout(borrower: B, timeout: number): number {
    const token = this.#next(borrower)
    if (this.#over) return this.#tooLate(token)
    this.engine.onetrip_pool_checkout(this.#pool, performance.now(), token, timeout)
    this.#schedule()
    return token
  }

  /** How long a request pauses before it is sent again for this time; negative where it is not. */
  repeatPause(number: number): number {
    return this.engine.onetrip_pool_repeat_pause(number, Math.random())
  }

  /** The connection on which a shared request of this key goes at once; 0 if it has to wait. */
  place(key: number): number {
    if (this.#over) return 0
    let connection = 0
    try {
      connection = this.engine.onetrip_pool_place(this.#pool, performance.now(), key)
    } catch (error) {
      memory.failed(error)
    }
    this.#schedule()
    return connection === 0 ? 0 : connection + this.#base
  }

  /** Keeps the place in line of a shared request for which `place` found nothing. */
  waitShared(borrower: B, key: number, timeout: number): number {
    const token = this.#next(borrower)
    if (this.#over) return this.#tooLate(token)
    this.engine.onetrip_pool_wait_shared(this.#pool, performance.now(), token, key, timeout)
    this.#schedule()
    return token
  }

  /** A request was made that may be sent a second time. */
  mayHedge(): void {
    if (!this.#over) this.engine.onetrip_pool_may_hedge(this.#pool)
  }

  /**
   * Whether a request that is unanswered on this connection is sent a second time: on the connection of this number,
   * if it is positive; otherwise it is asked about again after as many milliseconds.
   */
  hedge(connection: number, key: number): number {
    if (this.#over || this.#isStale(connection)) return -Infinity
    const number = connection - this.#base
    const on = this.engine.onetrip_pool_hedge(this.#pool, performance.now(), number, key)
    this.#schedule()
    return on > 0 ? on + this.#base : on
  }

  /** A caller no longer waits. False if it has been served already: then it has to release what it got. */
  giveUp(token: number): boolean {
    if (this.#over) return this.#borrowers.delete(token)
    const gone = this.engine.onetrip_pool_give_up(this.#pool, performance.now(), token) !== 0
    if (gone) this.#borrowers.delete(token)
    this.#schedule()
    return gone
  }

  /** Takes who waits longest out of the line and returns it; nothing else tells it anything. */
  takeFirst(): B | undefined {
    for (const [token, borrower] of this.#borrowers) if (this.giveUp(token)) return borrower
    return undefined
  }

  /** Who waits longest. */
  get first(): B | undefined {
    for (const borrower of this.#borrowers.values()) return borrower
    return undefined
  }

  /** A connection comes back, in one of the `Condition`s. */
  release(connection: number, condition: number): void {
    this.#tellPolicy(connection, (now, number) =>
      this.engine.onetrip_pool_release(this.#pool, now, number, condition),
    )
  }

  /** A connection is open and logged in; `address` is that of its link, which is not freed before the pool has let go of it. */
  opened(connection: number, address: number): void {
    if (this.#over) return
    if (this.#isStale(connection)) return process.nextTick(() => this.#opener.close(connection))
    const number = connection - this.#base
    this.engine.onetrip_pool_opened(this.#pool, performance.now(), number, address)
    this.#schedule()
  }

  /** It could not be opened. `permanent`: time does not mend it, as a wrong password. */
  openFailed(connection: number, permanent: boolean): void {
    this.#tellPolicy(connection, (now, number) =>
      this.engine.onetrip_pool_open_failed(this.#pool, now, number, permanent ? 1 : 0),
    )
  }

  /** A connection is broken. */
  lost(connection: number): void {
    this.#tellPolicy(connection, (now, number) =>
      this.engine.onetrip_pool_lost(this.#pool, now, number),
    )
  }

  /** Takes a connection out of use, when it has answered what it has. */
  retire(connection: number): void {
    this.#tellPolicy(connection, (now, number) =>
      this.engine.onetrip_pool_retire(this.#pool, now, number),
    )
  }

  /** Replies have come on a connection: somebody who waits may have a place now. */
  answered(connection: number): void {
    this.#tellPolicy(connection, (now, number) =>
      this.engine.onetrip_pool_answered(this.#pool, now, number),
    )
  }

  /** What was lost with the module it does not know. */
  #tellPolicy(connection: number, tell: (now: number, number: number) => void): void {
    if (this.#over || this.#isStale(connection)) return
    tell(performance.now(), connection - this.#base)
    this.#schedule()
  }

  /** Ends the pool: who waits is refused, idle connections are closed, others when they come back. */
  close(): void {
    if (this.#over) return
    this.#isClosing = true
    this.engine.onetrip_pool_close(this.#pool, performance.now())
    this.#schedule()
  }

  /** Connections of any state. */
  get connections(): number {
    return this.#over ? 0 : this.engine.onetrip_pool_connections(this.#pool)
  }

  /** Connections that nobody uses. */
  get idle(): number {
    return this.#over ? 0 : this.engine.onetrip_pool_idle(this.#pool)
  }

  /** Callers that wait. */
  get waiting(): number {
    return this.#borrowers.size
  }

  /** Whether it was lost with the module. */
  #isStale(connection: number): boolean {
    return connection <= this.#base
  }

  #next(borrower: B): number {
    do this.#token = (this.#token + 1) >>> 0
    while (this.#token === 0 || this.#borrowers.has(this.#token))
    this.#borrowers.set(this.#token, borrower)
    return this.#token
  }

  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    process.nextTick(this.#walkLater)
  }

  /** Opens now what the last calls want opened, and tells nobody anything. */
  openNow(): void {
    if (this.#over || this.#depth > 0) return
    const records = this.#records
    this.#take()
    for (let at = this.#at; at < records.length; ) {
      if (records[at] !== Kind.POOL_OPEN) at += 3
      else {
        const [kind, token, a] = records.splice(at, 3) as [number, number, number]
        safely(() => this.#completion(kind, token, a))
      }
    }
    this.#schedule()
  }

  /** Tells now whom the last calls have served, and what is to be done. */
  settle(): void {
    // Whoever is told may give back at once what it got, and so serve the next, and so on.
    if (this.#depth < DEPTH_MAX) this.#walk()
  }

  /** Who is told may call again: the rest of the records is walked then, before those that come after. */
  #walk(): void {
    this.#depth++
    while (!this.#over && (this.#at < this.#records.length || this.#take() || this.#acted())) {
      const kind = this.#records[this.#at++] as number
      const token = this.#records[this.#at++] as number
      const a = this.#records[this.#at++] as number
      try {
        this.#completion(kind, token, a)
      } catch (error) {
        // It is the host's, and the others are to hear what is theirs.
        process.nextTick(rethrow, error)
      }
    }
    this.#depth--
    if (this.#depth === 0 && !this.#over) this.#arm()
  }

  /** What was placed on connections is submitted there: others may have them now. True if more is to be told. */
  #acted(): boolean {
    if (!this.#placed || this.#depth > 1) return false
    this.#placed = false
    this.engine.onetrip_pool_acted(this.#pool, performance.now())
    return this.#take()
  }

  /** What comes is behind what is left. False if there is nothing more. */
  #take(): boolean {
    const { engine } = this
    const records = this.#records
    this.#scheduled = false
    if (this.#at >= records.length) records.length = this.#at = 0
    const count = engine.onetrip_pool_take(this.#pool)
    if (count === 0) return false
    memory.refresh()
    const { words } = memory
    let at = engine.onetrip_pool_completions(this.#pool) >>> 2
    for (let i = 0; i < count; i++, at += RECORD) {
      const kind = words[at] as number
      const why = words[at + 2] as number
      if (kind === Kind.CLOSED && why === Close.LOGIN) throw this.#invalid(at)
      if (kind === Kind.POOL_PLACED) this.#placed = true
      records.push(kind, words[at + 1] as number, why)
    }
    return true
  }

  /** What is wrong with the settings: there is no pool with them. */
  #invalid(at: number): Error {
    this.free()
    const start = memory.words[at + 5] as number
    return new Error(memory.text(start, start + (memory.words[at + 4] as number)))
  }

  #completion(kind: number, token: number, a: number): void {
    if (kind === Kind.POOL_FAILED) return this.#tell(kind, token, a)
    const connection = a === 0 ? 0 : a + this.#base
    if (kind === Kind.POOL_OPEN) this.#opener.open((this.#last = connection))
    else if (kind === Kind.POOL_RESET) this.#opener.reset(connection)
    else if (kind === Kind.POOL_CLOSE) this.#opener.close(connection)
    else if (kind === Kind.CLOSED) this.#opener.closed()
    else this.#tell(kind, token, connection)
  }

  #tell(kind: number, token: number, a: number): void {
    const borrower = this.#borrowers.get(token)
    this.#borrowers.delete(token)
    if (kind === Kind.POOL_FAILED) borrower?.failed(a)
    else borrower?.served(a)
  }

  #arm(): void {
    const deadline = this.engine.onetrip_pool_deadline(this.#pool)
    if (deadline < this.#armed) {
      this.#armed = deadline
      clearTimeout(this.#timer)
      this.#timer = setTimeout(() => this.#tick(), timeUntil(deadline))
    }
    // The process lives on for those who wait, and not for what would only be closed some time.
    if (this.#borrowers.size > 0) this.#timer?.ref()
    else this.#timer?.unref()
  }

  #tick(): void {
    if (this.#over) return
    this.#armed = Infinity
    this.#timer = undefined
    this.engine.onetrip_pool_time(this.#pool, performance.now())
    this.#schedule()
  }

  /** Gives the memory back, once it is closed. What is called after it does nothing. */
  free(): void {
    if (this.#over) return
    this.#over = true
    clearTimeout(this.#timer)
    // Its records may be walked just now.
    memory.handles.delete(this)
    process.nextTick(() => this.engine.onetrip_pool_free(this.#pool))
  }

  #tooLate(token: number): number {
    process.nextTick(() => this.#tell(Kind.POOL_FAILED, token, PoolCause.CLOSED))
    return token
  }
}
