import { Condition, PoolCause } from '../engine/exports'
import { Lender, type Borrower, type Opener } from '../engine/lender'
import { pipeliningOf } from './pipeline'
import type { Pool } from './pool'
import { clientsMax, type PoolClient } from './pool-config'
import { IdleLimit } from './pool-idle'
import type { Member } from './pool-member'
import { Openings } from './pool-openings'
import { guarded } from './request'

/** Who waits for a client. */
export interface PoolBorrower extends Borrower {
  /** It waits for a place next to others'. */
  readonly isShared: boolean
  /** It gets none, for this reason. */
  refused(error: Error): void
}

/**
 * The clients of a pool: to whom they go, and how they end. Which of them, and who is next, is up to the engine's policy; for
 * how long they live are the rules of pg's pool.
 */
export class Clients implements Opener {
  readonly pool: Pool
  readonly lender: Lender<PoolBorrower>
  /** Queries share connections: they are pipelined. */
  readonly shares: boolean
  readonly max: number
  readonly members = new Map<number, Member>()
  readonly #openings = new Openings(this)
  readonly #idleLimit = new IdleLimit(this)
  /** Those that were removed and have not ended. */
  #closing = 0
  #isClosed = false
  #over: (() => void) | undefined

  constructor(pool: Pool) {
    this.pool = pool
    this.shares = pipeliningOf(pool.options).on
    this.max = clientsMax(pool.options)
    const settings: [string, number][] = [
      ['connections_max', this.max],
      ['opening_max', this.max],
      ['waiting_max', WAITING_MAX],
      // A caller is told of each failure: there are no more attempts than callers.
      ['backoff_min_ms', 1],
      ['backoff_max_ms', 1],
      ['idle_timeout_ms', 0],
      ['lifetime_ms', 0],
    ]
    this.lender = new Lender(settings, this)
  }

  // --- counts ---

  /** Those that are being connected included. */
  get total(): number {
    return this.lender.connections
  }

  get idle(): Member[] {
    return [...this.members.values()].filter((member) => this.isIdle(member))
  }

  isIdle({ isOpen, isLent, client }: Member): boolean {
    return isOpen && !isLent && (!this.shares || client._session.isIdle)
  }

  /** Callers in line, without those for whom a client is being connected. */
  get waiting(): number {
    let opening = this.total
    for (const member of this.members.values()) if (member.isOpen) opening--
    return Math.max(0, this.lender.waiting - Math.max(0, opening))
  }

  get isAboveMin(): boolean {
    return this.total > this.pool.options.min
  }

  has(member: Member): boolean {
    return this.members.get(member.number) === member
  }

  // --- callers ---

  /** Asks for a client of one's own. Returns what `lender.giveUp` takes. */
  checkout(borrower: PoolBorrower): number {
    return this.lender.checkout(borrower, this.#patience())
  }

  /** Waits for a place next to others. */
  waitShared(borrower: PoolBorrower): number {
    return this.lender.waitShared(borrower, this.#patience())
  }

  /** As in pg's pool: who finds room for one more client waits for what comes of connecting it, and in no line. */
  #patience(): number {
    const timeout = Number(this.pool.options.connectionTimeoutMillis) || 0
    if (timeout <= 0) return Infinity
    if (this.members.size >= this.max) return timeout
    for (const member of this.members.values()) if (this.isIdle(member)) return timeout
    return this.total < this.max ? Infinity : timeout
  }

  /** The client on which a query goes next to others at once; undefined if it has to wait. */
  place(): PoolClient | undefined {
    for (;;) {
      const number = this.lender.place()
      if (number === 0) return undefined
      const client = this.enter(number)
      if (client !== undefined) return client
    }
  }

  /** A query goes on this client next to others; undefined if it is lost. */
  enter(number: number): PoolClient | undefined {
    const member = this.#usable(number)
    if (member === undefined) return undefined
    if (member.isUnref) hold(member)
    if (this.#countUse(member)) this.dismiss(member)
    this.windUp()
    return member.client
  }

  /** Somebody has this client to himself; undefined if it is lost. */
  lend(number: number): Member | undefined {
    const member = this.#usable(number)
    if (member === undefined) return undefined
    member.isLent = true
    if (member.isUnref) hold(member)
    this.tell('acquire', member.client)
    this.windUp()
    return member
  }

  #usable(number: number): Member | undefined {
    const member = this.members.get(number)
    if (member === undefined || member.isUsable) return member
    this.lost(member)
    return undefined
  }

  /** Has somebody look at it who verifies new clients. */
  verify(member: Member, done: (error?: Error) => void): void {
    const { verify } = this.pool.options
    member.isVerified = true
    if (verify) verify(member.client, done)
    else done()
  }

  /** A client comes back from whom it was lent to. `isBroken`: nobody is to have it again. */
  giveBack(member: Member, error: Error | boolean | null | undefined, isBroken: boolean): void {
    const { pool } = this
    const { client } = member
    const isUsedUp = this.#countUse(member)
    member.isLent = false
    this.tell('release', error, client)
    if (isUsedUp) pool.log('remove expended client')
    else if (member.isLeaving) pool.log('remove expired client')
    // Lost while it was lent.
    if (!this.has(member)) return this.#end(member)
    const isLast = pool.ending && this.lender.waiting === 0
    if (isBroken || isUsedUp || isLast || member.isLeaving || !member.isUsable) {
      this.lender.release(member.number, Condition.BROKEN)
      return this.#remove(member)
    }
    if (this.shares) return this.#cleanse(member)
    if (client.getTransactionStatus() !== 'I') flushBegin(client)
    this.#free(member)
  }

  /** No transaction of who had it is to take in the queries of others. */
  #cleanse(member: Member): void {
    const { client } = member
    if (!this.has(member)) return
    // What its state will be is known when it has answered.
    if (!client._session.isIdle) return void client.once('drain', () => this.#cleanse(member))
    if (client.getTransactionStatus() !== 'I') client.query('ROLLBACK', ignore)
    this.#free(member)
  }

  #free(member: Member): void {
    this.#rest(member)
    this.lender.release(member.number, Condition.CLEAN)
    // As in pg's pool: who is next has it before the release returns.
    this.lender.settle()
  }

  /** True if it was used as often as it may be. */
  #countUse({ client }: Member): boolean {
    const uses = (client._poolUseCount || 0) + 1
    client._poolUseCount = uses
    return uses >= this.pool.options.maxUses
  }

  /** Tells who waits in vain. */
  refuse(borrower: PoolBorrower, cause: number): void {
    borrower.refused(new Error(REFUSALS[cause] ?? WAITED_TOO_LONG))
    this.windUp()
  }

  // --- what becomes of clients ---

  open(number: number): void {
    this.#openings.open(number)
  }

  /** It may be lent from now on. */
  opened(member: Member, address: number): void {
    member.isOpen = true
    this.#rest(member)
    this.lender.opened(member.number, address)
  }

  /** It has answered all that it was asked. */
  readonly drained = (member: Member): void => {
    if (!member.isOpen || member.isLent) return
    if (this.shares) this.#rest(member)
    const matters = this.lender.waiting > 0 || member.isLeaving || this.pool.ending
    if (matters) this.lender.answered(member.number)
  }

  #rest(member: Member): void {
    member.since = performance.now()
    this.#idleLimit.watch()
    if (!this.pool.options.allowExitOnIdle || member.isUnref) return
    member.isUnref = true
    member.client.unref()
  }

  /** Its connection failed, and it is lent to nobody who would hear of it. */
  readonly failed = (member: Member, error: Error): void => {
    const { pool } = this
    if (!member.isOpen || member.isLent) return pool.log('client error', error)
    // Queries that others have there tell them.
    const wasIdle = this.isIdle(member)
    this.lost(member)
    if (!wasIdle) return
    const { client } = member
    Object.assign(error, { client })
    if (pool.listenerCount('error') > 0) this.tell('error', error, client)
    else process.emitWarning(`An idle client of a pool lost its connection: ${error.message}`)
  }

  lost(member: Member): void {
    this.lender.lost(member.number)
    if (member.isLent) this.forget(member)
    else this.#remove(member)
  }

  /** It is closed as soon as nobody uses it. */
  dismiss(member: Member): void {
    if (member.isLeaving) return
    member.isLeaving = true
    this.lender.retire(member.number)
  }

  /** The engine has forgotten it. */
  close(number: number): void {
    const member = this.members.get(number)
    if (member !== undefined) this.#remove(member)
  }

  reset(): void {}

  forget(member: Member): void {
    this.members.delete(member.number)
    member.isOpen = false
    clearTimeout(member.lifetime)
  }

  /** It goes at once, whoever has it. */
  expel(client: PoolClient, callback?: () => void): void {
    for (const member of this.members.values()) {
      if (member.client !== client) continue
      this.lender.lost(member.number)
      return this.#remove(member, callback)
    }
    if (callback) process.nextTick(callback)
  }

  #remove(member: Member, callback?: () => void): void {
    this.forget(member)
    this.#end(member, callback)
  }

  #end({ client }: Member, callback?: () => void): void {
    this.#closing++
    client.end(() => {
      this.#closing--
      this.tell('remove', client)
      if (callback) guarded(callback)
      this.#finish()
    })
  }

  // --- the end ---

  /** Serves who waits, and then closes all; `over` is called when that is done. */
  end(over: () => void): void {
    this.#over = over
    this.windUp()
  }

  /** A caller was told: after the last one all is closed. */
  windUp(): void {
    if (!this.pool.ending || this.lender.waiting > 0) return
    this.lender.close()
    this.lender.settle()
  }

  closed(): void {
    this.#isClosed = true
    this.#finish()
  }

  #finish(): void {
    if (!this.#isClosed || this.#closing > 0) return
    this.#isClosed = false
    this.#idleLimit.stop()
    this.lender.free()
    this.#over?.()
  }

  /** What listeners throw is theirs. */
  tell(event: string, ...args: unknown[]): void {
    const { pool } = this
    if (pool.listenerCount(event) > 0) guarded(() => pool.emit(event, ...args))
  }
}

function hold(member: Member): void {
  member.isUnref = false
  member.client.ref()
}

/** A BEGIN that waits for a statement belongs to who sent it. */
function flushBegin(client: PoolClient & { _flushHeld?(): void }): void {
  client._flushHeld?.()
}

function ignore(): void {}

const WAITED_TOO_LONG = 'timeout exceeded when trying to connect'
export const AFTER_END = 'Cannot use a pool after calling end on the pool'

const REFUSALS: { readonly [cause: number]: string } = {
  [PoolCause.CLOSED]: AFTER_END,
  [PoolCause.LINE_FULL]: 'Too many callers wait for a client',
}

/** pg's pool has no limit; this is one that only a runaway program meets. */
const WAITING_MAX = 1_000_000
