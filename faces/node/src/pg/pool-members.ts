import type { Borrower, PoolAdapter } from '../engine/pool-adapter'
import type { PoolClient, PoolHost } from './pool-config'
import { IdleLimit } from './pool-idle'
import type { Member } from './pool-member'
import { guarded } from './request'

/** Who waits for a client. */
export interface PoolBorrower extends Borrower {
  /** It waits for a place next to others'. */
  readonly isShared: boolean
  /** It gets none, for this reason. */
  refused(error: Error): void
}

/** The clients that a pool has: how many there are, and how they go. */
export abstract class Members {
  abstract readonly pool: PoolHost
  abstract readonly adapter: PoolAdapter<PoolBorrower>
  /** Queries share connections: they are pipelined. */
  abstract readonly shares: boolean
  readonly members = new Map<number, Member>()
  /** Those that are connected. */
  protected openCount = 0
  protected readonly idleLimit = new IdleLimit(this)
  /** Those that were removed and have not ended. */
  #closing = 0
  #isClosed = false
  #over: (() => void) | undefined

  /** Those that are being connected included. */
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

  /**
   * Its connection is gone. Who has it gives it back in time, and as in pg's pool it takes its place
   * as long.
   */
  lost(member: Member): void {
    if (member.isLent) return member.client._session.watch()
    this.adapter.lost(member.number)
    this.remove(member)
  }

  /** It is closed as soon as nobody uses it. */
  dismiss(member: Member): void {
    if (member.isLeaving) return
    member.isLeaving = true
    this.adapter.retire(member.number)
  }

  /** The engine has forgotten it. */
  close(number: number): void {
    const member = this.members.get(number)
    if (member !== undefined) this.remove(member)
  }

  /** The engine has let go of it, or never had it. */
  forget(member: Member): void {
    this.members.delete(member.number)
    member.client._session.letGo()
    if (member.isOpen) this.openCount--
    member.isOpen = false
    clearTimeout(member.lifetime)
    clearTimeout(member.patience)
  }

  /** It goes at once, whoever has it. */
  expel(client: PoolClient, callback?: () => void): void {
    for (const member of this.members.values()) {
      if (member.client !== client) continue
      this.adapter.lost(member.number)
      return this.remove(member, callback)
    }
    if (callback) process.nextTick(callback)
  }

  /** It is lent no more, and closed. */
  remove(member: Member, callback?: () => void): void {
    this.forget(member)
    this.leave(member, callback)
  }

  /** Closes it, and tells when that is done. */
  leave({ client }: Member, callback?: () => void): void {
    this.#closing++
    client.end(() => {
      this.#closing--
      this.tell('remove', client)
      if (callback) guarded(callback)
      this.#finish()
    })
  }

  // --- the end of all ---

  /** Serves who waits, and then closes all; `over` is called when that is done. */
  end(over: () => void): void {
    this.#over = over
    this.windUp()
  }

  /** A caller was told: after the last one all is closed. */
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

  /** What listeners throw is theirs. */
  tell(event: string, ...args: unknown[]): void {
    const { pool } = this
    if (pool.listenerCount(event) > 0) guarded(() => pool.emit(event, ...args))
  }
}
