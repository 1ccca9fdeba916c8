import type { PoolClient } from './pool-config'

/** A client of a pool, and the pool's notes about it. */
export class Member {
  readonly number: number
  readonly client: PoolClient
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
    this.client = client
    this.isVerified = how.isVerified
    this.isProbe = how.isProbe
    this.onError = (error) => onError(this, error)
  }

  /** Whether its connection takes queries. */
  get isUsable(): boolean {
    return this.client._queryable && !this.client._ending
  }
}
