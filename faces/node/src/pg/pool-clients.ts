import { Condition, PoolCause } from '../engine/exports'
import { PoolAdapter, type Opener } from '../engine/pool-adapter'
import { ENGINE_LOST } from '../engine/memory'
import { pipeliningOf } from './pipeline'
import { AFTER_END, clientsMax, type PoolClient, type PoolHost } from './pool-config'
import type { Member } from './pool-member'
import { Members, type PoolBorrower } from './pool-members'
import { Openings } from './pool-openings'

/**
 * The clients of a pool: lending them, and the state in which they come back. The engine's policy
 * chooses the client and the next caller. The lifetimes follow the rules of pg's pool.
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
      // No pauses: each failed attempt fails a caller, so attempts don't outnumber callers.
      ['backoff_min_ms', 1],
      ['backoff_max_ms', 1],
      ['idle_timeout_ms', 0],
      ['lifetime_ms', 0],
    ]
    this.adapter = new PoolAdapter(settings, this)
  }

  /** Asks for a client for one caller alone. Returns the token for `adapter.giveUp`. */
  checkout(borrower: PoolBorrower): number {
    return this.adapter.checkout(borrower, this.#patience())
  }

  /** Puts a shared query in line. */
  waitShared(borrower: PoolBorrower, key: number): number {
    return this.adapter.waitShared(borrower, key, this.#patience())
  }

  /** The wait timeout. As in pg's pool, a caller for whom a new client is connected has none. */
  #patience(): number {
    const timeout = Number(this.pool.options.connectionTimeoutMillis) || 0
    if (timeout <= 0) return Infinity
    if (this.members.size >= this.max) return timeout
    for (const member of this.members.values()) if (this.isIdle(member)) return timeout
    return this.total < this.max ? Infinity : timeout
  }

  /** The client on which a shared query is sent at once; undefined if it has to wait. */
  place(key: number): PoolClient | undefined {
    for (;;) {
      const number = this.adapter.place(key)
      if (number === 0) return undefined
      const client = this.enter(number)
      if (client !== undefined) return client
    }
  }

  /** Takes this client for a shared query; undefined if the client is lost. */
  enter(number: number): PoolClient | undefined {
    const member = this.#usable(number)
    if (member === undefined) return undefined
    if (member.isUnref) hold(member)
    if (this.#countUse(member)) this.dismiss(member)
    this.windUp()
    return member.client
  }

  /** Lends this client to one caller alone; undefined if the client is lost. */
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

  /** Calls the `verify` of the configuration for a new client. */
  verify(member: Member, done: (error?: Error) => void): void {
    const { verify } = this.pool.options
    member.isVerified = true
    if (verify) verify(member.client, done)
    else done()
  }

  /** A caller gives a client back. `isBroken`: it must not be used again. */
  giveBack(member: Member, error: Error | boolean | null | undefined, isBroken: boolean): void {
    const { pool } = this
    const { client } = member
    const isUsedUp = this.#countUse(member)
    member.isLent = false
    this.tell('release', error, client)
    if (isUsedUp) pool.log('remove expended client')
    else if (member.isLeaving) pool.log('remove expired client')
    // The client was removed while it was lent.
    if (!this.has(member)) return this.leave(member)
    const isLast = pool.ending && this.adapter.waiting === 0
    if (isBroken || isUsedUp || isLast || member.isLeaving || !member.isUsable) {
      this.adapter.release(member.number, Condition.BROKEN)
      // An open cursor of its caller would keep the client from ending.
      if (isBroken && client._session.lending.isClosed) client.connection.stream.destroy()
      return this.remove(member)
    }
    // Its transaction status is known once everything is answered.
    if (this.shares) return this.#whenQuiet(member, () => this.#cleanse(member))
    if (client.getTransactionStatus() !== 'I') {
      flushBegin(client)
      // No query waits for that answer, so its arrival is watched here.
      this.#listen(member)
    }
    this.#free(member)
  }

  /** Rolls back a transaction that its caller left open: it would take in the queries of others. */
  #cleanse(member: Member): void {
    const { client } = member
    if (client.getTransactionStatus() !== 'I') client.query('ROLLBACK', ignore)
    this.#free(member)
  }

  #free(member: Member): void {
    this.#rest(member)
    this.adapter.release(member.number, Condition.CLEAN)
    // The engine lends the client once it has answered everything.
    this.drained(member)
    // As in pg's pool, the next caller has the client before `release` returns.
    this.adapter.settle()
  }

  /** Counts a use. Returns true if it was the last that `maxUses` allows. */
  #countUse({ client }: Member): boolean {
    const uses = (client._poolUseCount || 0) + 1
    client._poolUseCount = uses
    return uses >= this.pool.options.maxUses
  }

  /** Fails a caller that gets no client. */
  refuse(borrower: PoolBorrower, cause: number): void {
    borrower.refused(new Error(REFUSALS[cause] ?? WAITED_TOO_LONG))
    this.windUp()
  }

  open(number: number): void {
    this.#openings.open(number)
  }

  /** A client is connected, and may be lent from now on. */
  opened(member: Member, address: number): void {
    member.isOpen = true
    this.openCount++
    this.#rest(member)
    this.adapter.opened(member.number, address)
  }

  /** No query of a client waits any more. The answer to one that timed out may still come. */
  readonly drained = (member: Member): void => {
    if (!member.isOpen || member.isLent) return
    if (!member.client._session.isIdle) {
      this.#limit(member)
      return this.#listen(member)
    }
    if (this.shares) this.#rest(member)
    this.adapter.answered(member.number)
  }

  /**
   * A query has timed out. As in pg's pool its client is closed, since the next query would wait
   * behind it. Queries that are on the client already stay.
   */
  late(member: Member): void {
    if (member.isOpen && !member.isLent) this.dismiss(member)
  }

  /**
   * Gives the server a short time for answers that nobody waits for any more. They may never come.
   */
  #limit(member: Member): void {
    if (member.patience !== undefined || !member.client._session.isAbandoned) return
    member.patience = setTimeout(() => {
      member.patience = undefined
      if (this.has(member) && !member.isLent && member.client._session.isAbandoned) this.lost(member)
    }, PATIENCE_MS).unref()
  }

  /** Calls `drained` whenever bytes arrive, until the client is lent. */
  #listen(member: Member): void {
    if (member.onData !== undefined) return
    member.onData = () => {
      if (this.shares && member.client._session.isIdle) unlisten(member)
      this.drained(member)
    }
    member.client.connection.stream.on('data', member.onData)
  }

  /** Calls `then` once everything is answered, also a query that timed out. */
  #whenQuiet(member: Member, then: () => void): void {
    const { client } = member
    const { stream } = client.connection
    if (client._session.isIdle) return then()
    let isOver = false
    const look = (): void => {
      const isGone = !this.has(member)
      if (isOver || (!isGone && !client._session.isIdle)) return
      // An event also calls listeners that were removed while it was calling others. A second call
      // would free the client twice, and lend it to two callers.
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

/** Sends a BEGIN that is held back, since it belongs to the caller that gives the client back. */
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

/** How long a server may take for answers that nobody waits for any more. */
const PATIENCE_MS = 500

/** pg's pool has no limit. Only a runaway program reaches this one. */
const WAITING_MAX = 1_000_000
