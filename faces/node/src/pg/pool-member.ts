import type { PoolClient } from './pool-config'

/** A client of a pool, and what the pool knows of it. */
export class Member {
  readonly number: number
  readonly client: PoolClient
  /** The engine lends it: it is connected, and not gone. */
  isOpen = false
  /** Somebody has it to himself. */
  isLent = false
  /** It goes as soon as it is free. */
  isLeaving = false
  /** Nobody has to look at it before it is lent. */
  isVerified: boolean
  /** The process may end though it is open. */
  isUnref = false
  /** Listens while something is still to come for which nobody waits. */
  onData: (() => void) | undefined
  /** When it was used last. */
  since = 0
  /** It was connected after an attempt had failed. */
  readonly isProbe: boolean
  lifetime: NodeJS.Timeout | undefined
  /** Until when the server may take to answer what nobody waits for. */
  patience: NodeJS.Timeout | undefined
  /** Listens while nobody has it. */
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
