import { timeUntil } from './clock'
import { RECORD } from './choices'
import { Close, Kind, PoolCause, type Exports } from './exports'
import { rethrow, safely } from './guard'
import { memory, NO_MEMORY, type Handle } from './memory'

/** A caller that waits for a connection. */
export interface Borrower {
  /**
   * It gets the connection of this number: for itself until it is released, or to share, depending
   * on which it asked for.
   */
  served(connection: number): void
  /** It gets no connection. `cause` is one of `PoolCause`. */
  failed(cause: number): void
}

/** Opens and closes connections for a pool. */
export interface Opener {
  /** Open a connection under this number, then call `opened` or `openFailed`. */
  open(connection: number): void
  /** Reset an idle connection, unless its reset was sent with a request meanwhile. */
  reset(connection: number): void
  /** Close a connection, or stop opening it: the pool has forgotten it. */
  close(connection: number): void
  /** Look for another server, beside the pool's connections, then call `scouted`. */
  scout?(): void
  /** The pool has ended: no connection is left. */
  closed(): void
}

/** How deep calls of `settle` may nest. Deeper ones are served in the next tick. */
const DEPTH_MAX = 100

/**
 * The policy of a pool, in the module: it chooses connections, decides when one more is opened, and
 * keeps the line of callers and the deadlines. It knows connections by number, and reads their load
 * from their links.
 *
 * A caller is told that it is served or refused in the next tick, or by `settle`; never within the
 * call that asked.
 */
export class PoolAdapter<B extends Borrower = Borrower> implements Handle {
  engine: Exports = memory.engine
  #pool = 0
  readonly #settings: Buffer
  /** The last number of a connection, and the last number that was lost with the module. */
  #last = 0
  #base = 0
  #isClosing = false
  readonly #opener: Opener
  readonly #borrowers = new Map<number, B>()
  readonly #walkLater = (): void => this.#walk()
  #token = 0
  #scheduled = false
  /** Completions that were taken and not told: a kind, a token and a number for each. */
  readonly #records: number[] = []
  #at = 0
  /** How many calls of `#walk` are nested: code that is told may call again. */
  #depth = 0
  #over = false
  /** A request was placed since the last `onetrip_pool_acted`. */
  #placed = false
  #timer: NodeJS.Timeout | undefined
  #armed = Infinity

  /** Takes the settings of `onetrip_pool_new`. Throws if one is wrong. */
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
    // If nothing is scheduled here, the first connection is opened in the turn of the caller that
    // asks for it, and so in its async context.
    if (this.#take()) this.#schedule()
  }

  /**
   * The module failed, and the connections with it. Callers that wait are told, and the pool begins
   * anew. Connections from before are ignored when they come back.
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

  /**
   * Asks for a connection of the caller's own. `timeout` in milliseconds, or infinity. Returns the
   * token for `giveUp`.
   */
  checkout(borrower: B, timeout: number): number {
    const token = this.#next(borrower)
    if (this.#over) return this.#tooLate(token)
    this.engine.onetrip_pool_checkout(this.#pool, performance.now(), token, timeout)
    this.#schedule()
    return token
  }

  /** The pause in milliseconds before a request is sent again; negative if it is not. */
  repeatPause(number: number): number {
    return this.engine.onetrip_pool_repeat_pause(number, Math.random())
  }

  /**
   * Until when a shared request may wait in line whose connection ended before any byte of it was
   * sent; negative if it has failed. `times`: how often it was so before. `until`: what was returned
   * then. `left`: the milliseconds that are left of its own time, or infinity.
   */
  again(times: number, until: number, left: number): number {
    if (this.#over) return -1
    return this.engine.onetrip_pool_again(this.#pool, performance.now(), times, until, left)
  }

  /** The connection on which a shared request of this key is sent at once; 0 if it has to wait. */
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

  /** Puts a shared request in line for which `place` found no connection. */
  waitShared(borrower: B, key: number, timeout: number): number {
    const token = this.#next(borrower)
    if (this.#over) return this.#tooLate(token)
    this.engine.onetrip_pool_wait_shared(this.#pool, performance.now(), token, key, timeout)
    this.#schedule()
    return token
  }

  /** Counts a request that may be sent a second time. */
  mayHedge(): void {
    if (!this.#over) this.engine.onetrip_pool_may_hedge(this.#pool)
  }

  /**
   * Whether a request that is unanswered on this connection is sent a second time. A positive
   * result is the connection to send it on. A negative one says after how many milliseconds to ask
   * again.
   */
  hedge(connection: number, key: number): number {
    if (this.#over || this.#isStale(connection)) return -Infinity
    const number = connection - this.#base
    const on = this.engine.onetrip_pool_hedge(this.#pool, performance.now(), number, key)
    this.#schedule()
    return on > 0 ? on + this.#base : on
  }

  /** A caller no longer waits. False if it has been served: then it must release the connection. */
  giveUp(token: number): boolean {
    if (this.#over) return this.#borrowers.delete(token)
    const gone = this.engine.onetrip_pool_give_up(this.#pool, performance.now(), token) !== 0
    if (gone) this.#borrowers.delete(token)
    this.#schedule()
    return gone
  }

  /** Takes the caller that waits longest out of the line. It is told nothing. */
  takeFirst(): B | undefined {
    for (const [token, borrower] of this.#borrowers) if (this.giveUp(token)) return borrower
    return undefined
  }

  /** The caller that waits longest. */
  get first(): B | undefined {
    for (const borrower of this.#borrowers.values()) return borrower
    return undefined
  }

  /** A connection comes back. `condition` is one of `Condition`. */
  release(connection: number, condition: number): void {
    this.#tellPolicy(connection, (now, number) =>
      this.engine.onetrip_pool_release(this.#pool, now, number, condition),
    )
  }

  /**
   * A connection is open and logged in. `address` is that of its link, which must not be freed
   * before the pool has let go of the connection.
   */
  opened(connection: number, address: number): void {
    if (this.#over) return
    if (this.#isStale(connection)) return process.nextTick(() => this.#opener.close(connection))
    const number = connection - this.#base
    this.engine.onetrip_pool_opened(this.#pool, performance.now(), number, address)
    this.#schedule()
  }

  /**
   * A connection could not be opened. `permanent`: retrying won't help, as after a wrong password.
   */
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

  /** Takes a connection out of use once all its requests are answered. */
  retire(connection: number): void {
    this.#tellPolicy(connection, (now, number) =>
      this.engine.onetrip_pool_retire(this.#pool, now, number),
    )
  }

  /** The look for another server is over, whatever it met. */
  scouted(): void {
    if (this.#over) return
    this.engine.onetrip_pool_scouted(this.#pool, performance.now())
    this.#schedule()
  }

  /**
   * Replies arrived on a connection: a caller in line may be placed there now, or the pool closes
   * it, which has waited for the last one.
   */
  answered(connection: number): void {
    if (this.#over || this.#isStale(connection)) return
    const number = connection - this.#base
    const now = performance.now()
    if (this.engine.onetrip_pool_answered(this.#pool, now, number)) this.#schedule()
  }

  /** Tells the policy of a connection, unless that was lost with the module. */
  #tellPolicy(connection: number, tell: (now: number, number: number) => void): void {
    if (this.#over || this.#isStale(connection)) return
    tell(performance.now(), connection - this.#base)
    this.#schedule()
  }

  /**
   * Ends the pool: callers that wait are still served, and connections are closed once nobody needs
   * them.
   */
  close(): void {
    if (this.#over) return
    this.#isClosing = true
    this.engine.onetrip_pool_close(this.#pool, performance.now())
    this.#schedule()
  }

  /** Ends the pool, and refuses callers that wait. The opener ends connections that are in use. */
  cut(): void {
    if (this.#over) return
    this.#isClosing = true
    this.engine.onetrip_pool_cut(this.#pool, performance.now())
    this.#schedule()
  }

  /** The address of the pool in the module. */
  get address(): number {
    return this.#pool
  }

  /** Connections, those that are being opened included. */
  get connections(): number {
    return this.#over ? 0 : this.engine.onetrip_pool_connections(this.#pool)
  }

  /** Connections that are unused. */
  get idle(): number {
    return this.#over ? 0 : this.engine.onetrip_pool_idle(this.#pool)
  }

  /** Callers that wait. */
  get waiting(): number {
    return this.#borrowers.size
  }

  /** Whether the connection was lost with the module. */
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

  /** Opens the connections that the last calls asked for, now. Callers are told later. */
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

  /** Tells callers and the opener now, and not in the next tick. */
  settle(): void {
    // A caller may give its connection back at once, which serves the next caller, and so on.
    if (this.#depth < DEPTH_MAX) this.#walk()
  }

  /**
   * Tells all records in order. Code that is told may call this again, which tells the rest first.
   */
  #walk(): void {
    this.#depth++
    while (!this.#over && (this.#at < this.#records.length || this.#take() || this.#acted())) {
      const kind = this.#records[this.#at++] as number
      const token = this.#records[this.#at++] as number
      const a = this.#records[this.#at++] as number
      try {
        this.#completion(kind, token, a)
      } catch (error) {
        // An error of the host's code must not keep the others from being told.
        process.nextTick(rethrow, error)
      }
    }
    this.#depth--
    if (this.#depth === 0 && !this.#over) this.#arm()
  }

  /**
   * Tells the policy that the placed requests have been submitted, so that it places others.
   * Returns whether there is more to tell.
   */
  #acted(): boolean {
    if (!this.#placed || this.#depth > 1) return false
    this.#placed = false
    this.engine.onetrip_pool_acted(this.#pool, performance.now())
    return this.#take()
  }

  /** Appends new completions to the records. Returns false if there are none. */
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

  /** The error of wrong settings. */
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
    else if (kind === Kind.POOL_SCOUT) this.#opener.scout?.()
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
    // Callers that wait keep the process alive. The time limits of idle connections don't.
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

  /** Frees the policy, once the pool is closed. Later calls do nothing. */
  free(): void {
    if (this.#over) return
    this.#over = true
    clearTimeout(this.#timer)
    // `#walk` may be running just now.
    memory.handles.delete(this)
    process.nextTick(() => this.engine.onetrip_pool_free(this.#pool))
  }

  #tooLate(token: number): number {
    process.nextTick(() => this.#tell(Kind.POOL_FAILED, token, PoolCause.CLOSED))
    return token
  }
}
