import { Condition, PoolCause } from '../engine/exports'
import { PoolAdapter, type Opener } from '../engine/pool-adapter'
import { ENGINE_LOST } from '../engine/memory'
import { pipeliningOf } from './pipeline'
import { AFTER_END, clientsMax, type PoolClient, type PoolHost } from './pool-config'
import type { Member } from './pool-member'
import { Members, type PoolBorrower } from './pool-members'
import { Openings } from './pool-openings'

/**
 * The clients of a pool: to whom they go, and in what state they come back. Which of them, and who is next, is up to the
 * engine's policy; for how long they live are the rules of pg's pool.
 */
export class Clients extends Members implements Opener {
  readonly pool: PoolHost
  readonly adapter: PoolAdapter<PoolBorrower>
  readonly shares: boolean
  readonly max: number
  readonly #openings = new Openings(this)

  constructor(pool: PoolHost) {
    super()
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
    this.adapter = new PoolAdapter(settings, this)
  }

  /** Asks for a client of one's own. Returns what `adapter.giveUp` takes. */
  checkout(borrower: PoolBorrower): number {
    return this.adapter.checkout(borrower, this.#patience())
  }

  /** Waits for a place next to others. */
  waitShared(borrower: PoolBorrower, key: number): number {
    return this.adapter.waitShared(borrower, key, this.#patience())
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
  place(key: number): PoolClient | undefined {
    for (;;) {
      const number = this.adapter.place(key)
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
    if (member.onData !== undefined) unlisten(member)
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
    // Removed while it was lent.
    if (!this.has(member)) return this.leave(member)
    const isLast = pool.ending && this.adapter.waiting === 0
    if (isBroken || isUsedUp || isLast || member.isLeaving || !member.isUsable) {
      this.adapter.release(member.number, Condition.BROKEN)
      // Who gives it up leaves a cursor open that would keep it from ending.
      if (isBroken && client._session.lending.isClosed) client.connection.stream.destroy()
      return this.remove(member)
    }
    // What its state will be is known when it has answered.
    if (this.shares) return this.#whenQuiet(member, () => this.#cleanse(member))
    if (client.getTransactionStatus() !== 'I') {
      flushBegin(client)
      // Nobody else waits for the answer to that.
      this.#listen(member)
    }
    this.#free(member)
  }

  /** No transaction of who had it is to take in the queries of others. */
  #cleanse(member: Member): void {
    const { client } = member
    if (client.getTransactionStatus() !== 'I') client.query('ROLLBACK', ignore)
    this.#free(member)
  }

  #free(member: Member): void {
    this.#rest(member)
    this.adapter.release(member.number, Condition.CLEAN)
    // The engine lends it when it has answered, and is to be told.
    this.drained(member)
    // As in pg's pool: who is next has it before the release returns.
    this.adapter.settle()
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

  open(number: number): void {
    this.#openings.open(number)
  }

  /** It may be lent from now on. */
  opened(member: Member, address: number): void {
    member.isOpen = true
    this.openCount++
    this.#rest(member)
    this.adapter.opened(member.number, address)
  }

  /** Nobody waits for an answer of it; that to a query that timed out may still come. */
  readonly drained = (member: Member): void => {
    if (!member.isOpen || member.isLent) return
    if (!member.client._session.isIdle) {
      this.#limit(member)
      return this.#listen(member)
    }
    if (this.shares) this.#rest(member)
    const matters = this.adapter.waiting > 0 || member.isLeaving || this.pool.ending
    if (matters) this.adapter.answered(member.number)
  }

  /**
   * A query's time is over, and its client goes, as in pg's pool: whoever came next would wait behind that query. Those who
   * are there already stay.
   */
  late(member: Member): void {
    if (member.isOpen && !member.isLent) this.dismiss(member)
  }

  /** The answers for which nobody waits may come, of a query that is being cancelled or of a server that is slow; or never. */
  #limit(member: Member): void {
    if (member.patience !== undefined || !member.client._session.isAbandoned) return
    member.patience = setTimeout(() => {
      member.patience = undefined
      if (this.has(member) && !member.isLent && member.client._session.isAbandoned) this.lost(member)
    }, PATIENCE_MS).unref()
  }

  /** Has the engine look at it again whenever something comes, until it is lent. */
  #listen(member: Member): void {
    if (member.onData !== undefined) return
    member.onData = () => {
      if (this.shares && member.client._session.isIdle) unlisten(member)
      this.drained(member)
    }
    member.client.connection.stream.on('data', member.onData)
  }

  /** When nothing is under way on it, not even the answer to a query that timed out. */
  #whenQuiet(member: Member, then: () => void): void {
    const { client } = member
    const { stream } = client.connection
    if (client._session.isIdle) return then()
    let isOver = false
    const look = (): void => {
      const isGone = !this.has(member)
      if (isOver || (!isGone && !client._session.isIdle)) return
      // An event calls those too who were taken from it while it called others: twice free, it would be lent to two.
      isOver = true
      stream.off('data', look)
      client.off('drain', look)
      if (!isGone) then()
    }
    stream.on('data', look)
    client.on('drain', look)
  }

  #rest(member: Member): void {
    member.since = performance.now()
    this.idleLimit.watch()
    if (!this.pool.options.allowExitOnIdle || member.isUnref) return
    member.isUnref = true
    member.client.unref()
  }

  reset(): void {}
}

function hold(member: Member): void {
  member.isUnref = false
  member.client.ref()
}

function unlisten(member: Member): void {
  const { onData, client } = member
  member.onData = undefined
  if (onData !== undefined) client.connection.stream.off('data', onData)
}

/** A BEGIN that waits for a statement belongs to who sent it. */
function flushBegin(client: PoolClient & { _flushHeld?(): void }): void {
  client._flushHeld?.()
}

function ignore(): void {}

const WAITED_TOO_LONG = 'timeout exceeded when trying to connect'

const REFUSALS: { readonly [cause: number]: string } = {
  [PoolCause.CLOSED]: AFTER_END,
  [PoolCause.LINE_FULL]: 'Too many callers wait for a client',
  [PoolCause.LOST]: ENGINE_LOST,
}

/** So long may a server take to answer what nobody waits for. */
const PATIENCE_MS = 500

/** pg's pool has no limit; this is one that only a runaway program meets. */
const WAITING_MAX = 1_000_000
