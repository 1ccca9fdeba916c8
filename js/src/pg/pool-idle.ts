import type { Clients } from './pool-clients'
import type { Member } from './pool-member'

/** Closes clients that nobody has used for long, but for the number that is to be kept. One timer does for all of them. */
export class IdleLimit {
  readonly #clients: Clients
  #timer: NodeJS.Timeout | undefined

  constructor(clients: Clients) {
    this.#clients = clients
  }

  /** A client has become idle. */
  watch(): void {
    if (this.#timer === undefined) this.#arm(this.#timeout)
  }

  stop(): void {
    clearTimeout(this.#timer)
  }

  get #timeout(): number {
    return Number(this.#clients.pool.options.idleTimeoutMillis) || Infinity
  }

  #arm(wait: number): void {
    if (wait === Infinity) return
    // Open sockets keep the process from ending, and where they don't this must not either.
    this.#timer = setTimeout(() => this.#look(), Math.min(wait, LONGEST)).unref()
  }

  #look(): void {
    this.#timer = undefined
    const clients = this.#clients
    const timeout = this.#timeout
    // Timers come up to a millisecond early.
    const due = performance.now() - timeout + 1
    for (const member of clients.idle.sort(bySince)) {
      if (!clients.isAboveMin) return
      if (member.since > due) return this.#arm(member.since - due)
      clients.pool.log('remove idle client')
      clients.dismiss(member)
    }
  }
}

function bySince(a: Member, b: Member): number {
  return a.since - b.since
}

/** Node takes no longer timers. */
export const LONGEST = 0x7fffffff
