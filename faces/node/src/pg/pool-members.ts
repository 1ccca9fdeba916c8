import { settled } from '../engine/abandoned'
import { Condition } from '../engine/exports'
import type { Borrower, PoolAdapter } from '../engine/pool-adapter'
import type { PoolClient, PoolHost } from './pool-config'
import { IdleLimit } from './pool-idle'
import type { Member } from './pool-member'
import { guarded } from './request'

/** A caller that waits for a client. */
export interface PoolBorrower extends Borrower {
  /** It waits for a place on a shared client. */
  readonly isShared: boolean
  /** It gets no client, for this reason. */
  refused(error: Error): void
}

/** The clients of a pool: their numbers, and how they leave. */
export abstract class Members {
  abstract readonly pool: PoolHost
  abstract readonly adapter: PoolAdapter<PoolBorrower>
  /** Whether queries are pipelined on shared clients. */
  abstract readonly shares: boolean
  readonly members = new Map<number, Member>()
  /** Clients that are connected. */
  protected openCount = 0
  protected readonly idleLimit = new IdleLimit(this)
  /** Clients that were removed and have not ended. */
  #closing = 0
  #isClosed = false
  #over: (() => void) | undefined

  /** Clients, those that are being connected included. */
  get total(): number {
    return this.adapter.connections
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
    return Math.max(0, this.adapter.waiting - Math.max(0, opening))
  }

  get isAboveMin(): boolean {
    return this.total > this.pool.options.min
  }

  has(member: Member): boolean {
    return this.members.get(member.number) === member
  }

  /** The connection of a client failed. If it is not lent, the pool reports that. */
  readonly failed = (member: Member, error: Error): void => {
    const { pool } = this
    if (!member.isOpen || member.isLent) return pool.log('client error', error)
    // If queries are on it, their errors report the failure.
    const wasIdle = this.isIdle(member)
    this.lost(member)
    if (!wasIdle) return
    const { client } = member
    Object.assign(error, { client })
    if (pool.listenerCount('error') > 0) this.tell('error', error, client)
    else process.emitWarning(`An idle client of a pool lost its connection: ${error.message}`)
  }

  /**
   * The connection of a client is gone. As in pg's pool, a lent client keeps its place until it is
   * given back.
   */
  lost(member: Member): void {
    if (member.isLent) return member.session.watch()
    this.adapter.lost(member.number)
    this.remove(member)
  }

  /** Closes a client as soon as it is free. */
  dismiss(member: Member): void {
    if (member.isLeaving) return
    member.isLeaving = true
    this.adapter.retire(member.number)
  }

  /** The engine has forgotten a client, which is closed. */
  close(number: number): void {
    const member = this.members.get(number)
    if (member !== undefined) this.remove(member)
  }

  /** Forgets a client that the engine has let go of, or never had. */
  forget(member: Member): void {
    this.members.delete(member.number)
    // A client of another class has none.
    ;(member.session as Member['session'] | undefined)?.letGo()
    if (member.loan !== undefined) settled(member.loan)
    if (member.isOpen) this.openCount--
    member.isOpen = false
    clearTimeout(member.lifetime)
    clearTimeout(member.patience)
  }

  /** Closes a client that is lent and that nobody can reach any more. */
  abandoned(member: Member): string | undefined {
    if (!this.has(member) || !member.isLent) return undefined
    this.adapter.release(member.number, Condition.BROKEN)
    this.forget(member)
    member.session.cut()
    this.windUp()
    return 'A client of a pool was closed: its user had not released it, and nobody can reach it any more.'
  }

  /** Closes a client at once, also if it is lent. */
  expel(client: PoolClient, callback?: () => void): void {
    for (const member of this.members.values()) {
      if (member.client !== client) continue
      this.adapter.lost(member.number)
      return this.remove(member, callback)
    }
    if (callback) process.nextTick(callback)
  }

  /** Forgets a client, and closes it. */
  remove(member: Member, callback?: () => void): void {
    this.forget(member)
    this.leave(member, callback)
  }

  /** Closes a client, and calls `callback` when it has closed. */
  leave({ client }: Member, callback?: () => void): void {
    this.#closing++
    client.end(() => {
      this.#closing--
      this.tell('remove', client)
      if (callback) guarded(callback)
      this.#finish()
    })
  }

  // --- the end of the pool ---

  /** Serves the callers that wait, then closes all clients, then calls `over`. */
  end(over: () => void): void {
    this.#over = over
    this.windUp()
  }

  /** Closes an ending pool, once no caller waits any more. */
  windUp(): void {
    if (!this.pool.ending || this.adapter.waiting > 0) return
    this.adapter.close()
    this.adapter.settle()
  }

  closed(): void {
    this.#isClosed = true
    this.#finish()
  }

  #finish(): void {
    if (!this.#isClosed || this.#closing > 0) return
    this.#isClosed = false
    this.idleLimit.stop()
    this.adapter.free()
    this.#over?.()
  }

  /** Emits an event of the pool. Errors of listeners don't reach the pool. */
  tell(event: string, ...args: unknown[]): void {
    const { pool } = this
    if (pool.listenerCount(event) > 0) guarded(() => pool.emit(event, ...args))
  }
}
