import type { Member } from './pool-member'
import type { Members } from './pool-members'

/** Closes clients that have been idle for too long, except `min` of them. One timer serves all. */
export class IdleLimit {
  readonly #members: Members
  #timer: NodeJS.Timeout | undefined

  constructor(members: Members) {
    this.#members = members
  }

  /** A client has become idle. */
  watch(): void {
    if (this.#timer === undefined) this.#arm(this.#timeout)
  }

  stop(): void {
    clearTimeout(this.#timer)
  }

  get #timeout(): number {
    return Number(this.#members.pool.options.idleTimeoutMillis) || Infinity
  }

  #arm(wait: number): void {
    if (wait === Infinity) return
    // The sockets keep the process alive, unless `allowExitOnIdle` lets it end. The timer must not.
    this.#timer = setTimeout(() => this.#look(), Math.min(wait, LONGEST)).unref()
  }

  #look(): void {
    this.#timer = undefined
    const members = this.#members
    const timeout = this.#timeout
    // Timers may fire up to a millisecond early.
    const due = performance.now() - timeout + 1
    for (const member of members.idle.sort(bySince)) {
      if (!members.isAboveMin) return
      if (member.since > due) return this.#arm(member.since - due)
      members.pool.log('remove idle client')
      members.dismiss(member)
    }
  }
}

function bySince(a: Member, b: Member): number {
  return a.since - b.since
}

/** The longest timer that Node takes. */
export const LONGEST = 0x7fffffff
