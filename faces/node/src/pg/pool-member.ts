import type { Loan } from '../engine/abandoned'
import type { PoolClient } from './pool-config'

/** A client of a pool, and the pool's notes about it. */
export class Member {
  readonly number: number
  /** That of its client. One of a class that is none of ours has none, and is never open. */
  readonly session: PoolClient['_session']
  readonly #weak: WeakRef<PoolClient>
  /** The client; undefined while only its user holds it. */
  #client: PoolClient | undefined
  /** What becomes of it once nobody can reach its client any more. */
  loan: Loan | undefined
  /** It is connected, and the engine may lend it. */
  isOpen = false
  /** One caller has it to itself. */
  isLent = false
  /** It is closed as soon as it is free. */
  isLeaving = false
  /** It needs no `verify` before it is lent. */
  isVerified: boolean
  /** The process may end while it is open. */
  isUnref = false
  /** The listener of bytes, while answers are due that nobody waits for. */
  onData: (() => void) | undefined
  /** When it was used last. */
  since = 0
  /** It was connected after an attempt had failed. */
  readonly isProbe: boolean
  lifetime: NodeJS.Timeout | undefined
  /** The time limit for answers that nobody waits for. */
  patience: NodeJS.Timeout | undefined
  /** The listener of errors, while it is not lent. */
  readonly onError: (error: Error) => void

  constructor(
    number: number,
    client: PoolClient,
    how: { isVerified: boolean; isProbe: boolean },
    onError: (member: Member, error: Error) => void,
  ) {
    this.number = number
    this.#client = client
    this.#weak = new WeakRef(client)
    this.session = client._session
    this.isVerified = how.isVerified
    this.isProbe = how.isProbe
    this.onError = (error) => onError(this, error)
  }

  /** Its client, which is there as long as anybody asks for it. */
  get client(): PoolClient {
    return this.#client ?? (this.#weak.deref() as PoolClient)
  }

  /** From now on only its user holds the client. */
  loosen(): void {
    this.session.loosen()
    this.#client = undefined
  }

  /** Its user has given the client back. */
  tighten(client: PoolClient): void {
    this.#client = client
    this.session.tighten(client)
  }

  /** Whether its connection takes queries. */
  get isUsable(): boolean {
    return this.client._queryable && !this.client._ending
  }
}
