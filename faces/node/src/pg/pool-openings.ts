import { onLoan, type Loan } from '../engine/abandoned'
import type { Clients } from './pool-clients'
import type { PoolClient } from './pool-config'
import { LONGEST } from './pool-idle'
import { Member } from './pool-member'

/** Connects the clients of a pool, calls the hooks of its configuration, and reports failures. */
export class Openings {
  readonly #clients: Clients
  /** The last attempt failed. */
  isFailing = false

  constructor(clients: Clients) {
    this.#clients = clients
  }

  open(number: number): void {
    const clients = this.#clients
    const { pool, members } = clients
    try {
      const client = new pool.Client(pool.options) as PoolClient
      const how = { isVerified: !pool.options.verify, isProbe: this.isFailing }
      const member = new Member(number, client, how, clients.failed)
      members.set(number, member)
      const loan: Loan = { abandoned: () => clients.abandoned(member) }
      member.loan = loan
      onLoan(client, loan)
      client.once('end', () => this.#ended(member))
      client.on('drain', () => clients.drained(member))
      // A client of another class has no session, and is refused once it has connected.
      const { _session: session }: Partial<PoolClient> = client
      if (clients.shares && session) {
        session.onLate = () => clients.late(member)
        session.isMeasured = true
      }
      this.#connect(member)
    } catch (error) {
      const member = members.get(number)
      if (member) this.#failed(member, error as Error)
      else this.#refuse(number, 1, error as Error)
    }
  }

  #connect(member: Member): void {
    const { pool } = this.#clients
    const { client } = member
    const timeout = Number(pool.options.connectionTimeoutMillis) || 0
    let timer: NodeJS.Timeout | undefined
    let isLate = false
    if (timeout > 0) {
      timer = setTimeout(() => {
        pool.log('ending client due to timeout')
        isLate = true
        // As in pg: a client of another class may have none.
        if (client.connection) client.connection.stream.destroy()
        else client.end(ignore)
      }, timeout)
    }
    pool.log('connecting new client')
    client.connect((error) => {
      clearTimeout(timer)
      client.on('error', member.onError)
      if (!error) return this.#connected(member)
      pool.log('client failed to connect', error)
      const cause = error
      this.#failed(member, isLate ? new Error(TOO_LONG, { cause }) : error)
    })
  }

  #connected(member: Member): void {
    const { pool } = this.#clients
    const { onConnect } = pool.options
    pool.log('new client connected')
    if (!onConnect) return this.#welcome(member)
    new pool.Promise((resolve) => resolve(onConnect(member.client))).then(
      () => this.#welcome(member),
      (error: Error) => this.#failed(member, error),
    )
  }

  #welcome(member: Member): void {
    const clients = this.#clients
    if (!clients.has(member)) return
    clients.tell('connect', member.client)
    if (!clients.shares || member.isVerified) return this.#opened(member)
    // A shared client is never lent, so it is verified now.
    clients.verify(member, (error) => {
      if (error) this.#failed(member, error)
      else this.#opened(member)
    })
  }

  #opened(member: Member): void {
    const clients = this.#clients
    const { _address: address } = member.client
    if (!clients.has(member)) return
    if (address === undefined) return this.#failed(member, new Error(NOT_OURS))
    this.isFailing = false
    this.#limitLife(member)
    clients.opened(member, address)
  }

  #limitLife(member: Member): void {
    const { pool } = this.#clients
    const seconds = Number(pool.options.maxLifetimeSeconds) || 0
    if (seconds <= 0) return
    const grownOld = (): void => {
      pool.log('ending client due to expired lifetime')
      this.#clients.dismiss(member)
    }
    member.lifetime = setTimeout(grownOld, Math.min(seconds * 1000, LONGEST)).unref()
  }

  /** The connection of a client has ended. */
  #ended(member: Member): void {
    if (!this.#clients.has(member)) return
    if (member.isOpen) this.#clients.lost(member)
    else this.#failed(member, new Error('Connection terminated unexpectedly'))
  }

  #failed(member: Member, error: Error): void {
    const clients = this.#clients
    if (!clients.has(member)) return
    const untried = clients.max - clients.members.size + 1
    clients.forget(member)
    // pg does not end it, so one of another class need not have it.
    const { end }: Partial<typeof member.client> = member.client
    end?.call(member.client, ignore)
    this.#refuse(member.number, member.isProbe ? untried : 1, error)
  }

  /**
   * Fails as many callers as there were attempts, since pg makes each attempt for one caller. After
   * a failure the engine makes one attempt at a time, which stands for as many as pg would make.
   */
  #refuse(number: number, attempts: number, error: Error): void {
    const clients = this.#clients
    const { adapter, members } = clients
    this.isFailing = true
    adapter.openFailed(number, false)
    const nobodyServes = members.size === 0
    for (let left = attempts; left > 0; left--) {
      const isShared = adapter.first?.isShared
      adapter.takeFirst()?.refused(error)
      // Shared queries all wait for the same connection.
      while (isShared && nobodyServes && adapter.first?.isShared) adapter.takeFirst()?.refused(error)
    }
    clients.windUp()
  }
}

function ignore(): void {}

const TOO_LONG = 'Connection terminated due to connection timeout'
const NOT_OURS = 'The Client of a pool must be the Client of this package, or a subclass of it'
