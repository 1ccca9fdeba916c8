import { tellUnsent } from './error'
import type { Clients } from './pool-clients'
import type { PoolClient } from './pool-config'
import type { Member } from './pool-member'
import type { PoolBorrower } from './pool-members'
import { guarded } from './request'

/** Gives a client back. With an error or `true` it is closed. */
export type Release = (error?: Error | boolean) => void

/** Called with an error, or with a client and the function that gives it back. */
export type ConnectCallback = (
  error: Error | undefined,
  client: PoolClient | undefined,
  release: Release,
) => void

/** A caller of `connect`, which gets a client for itself. */
export class Checkout implements PoolBorrower {
  readonly isShared = false
  readonly #clients: Clients
  readonly #callback: ConnectCallback

  constructor(clients: Clients, callback: ConnectCallback) {
    this.#clients = clients
    this.#callback = callback
    clients.checkout(this)
  }

  served(number: number): void {
    const clients = this.#clients
    const member = clients.lend(number)
    if (member === undefined) return void clients.checkout(this)
    const { client } = member
    const release = releaseOnce(clients, member, client)
    client.release = release
    // While a client is lent, its caller handles its errors.
    client.off('error', member.onError)
    const give = (): void => {
      member.loosen()
      guarded(this.#callback, undefined, client, release)
    }
    if (member.isVerified) return give()
    clients.verify(member, (error) => {
      if (!error) return give()
      release(error)
      this.refused(error)
    })
  }

  failed(cause: number): void {
    this.#clients.refuse(this, cause)
  }

  refused(error: Error): void {
    guarded(this.#callback, tellUnsent(error), undefined, noRelease)
  }
}

function releaseOnce(clients: Clients, member: Member, client: PoolClient): Release {
  let isReleased = false
  return (error) => {
    if (isReleased) {
      throw new Error('Release called on client which has already been released to the pool.')
    }
    isReleased = true
    member.tighten(client)
    client.on('error', member.onError)
    clients.giveBack(member, error, Boolean(error))
  }
}

export function noRelease(): void {}
