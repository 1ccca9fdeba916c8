import { Place } from '../engine/exports'
import { Atomic, type Item } from './atomic'
import { Call, type How } from './call'
import type { Config, Server } from './config'
import type { Connection } from './connection'
import { misuse, RedisError } from './error'
import { closedError, Line, type Listener } from './line'
import { type Lease, Own } from './own'
import type { Known } from './spec'
import { Subscriptions } from './subscriptions'

/** What a client sends through: one server, or a cluster. */
export interface Core {
  readonly config: Config
  readonly subscriptions: Subscriptions
  /** Sends a call that may share a connection. */
  send(call: Call): void
  /** Sends one that may block, on a connection of its own. */
  sendOwn(call: Call): void
  /** A connection of one's own; of a cluster, to the node of this key. */
  borrow(key: string | Uint8Array | undefined): Promise<Lease>
  /** Opens a connection if there is none. */
  connect(): void
  close(): Promise<void>
  destroy(error: RedisError): void
}

/** One server: its shared connection, those that it lends, and what is subscribed to. */
export class Node implements Core, Listener {
  readonly config: Config
  readonly subscriptions: Subscriptions
  readonly #line: Line
  /** Where the shared connection is, or was last. */
  #server: Server
  readonly #readonly: boolean
  #own: Own | undefined

  /** `readonly`: it may be a replica of a cluster, and is read from all the same. */
  constructor(config: Config, servers: readonly Server[], readonly = false) {
    this.config = config
    this.#server = servers[0] as Server
    this.#readonly = readonly
    this.#line = new Line(config, servers, { readonly }, this)
    this.subscriptions = new Subscriptions(config, servers, this.#line)
  }

  /** Where its connection is, or was last. */
  get server(): Server {
    return this.#server
  }

  send(call: Call): void {
    this.#line.send(call)
  }

  sendOwn(call: Call): void {
    if (this.#line.isClosed) return call.fail(closedError(), 'NotSent')
    const timeout = call.deadline === Infinity ? Infinity : call.deadline - performance.now()
    call.takeBack = this.#pool().borrow(
      timeout,
      (lease) => sendOn(lease, call),
      (error) =>
        call.deadline <= performance.now() ? call.expire('NotSent') : call.fail(error, 'NotSent'),
    )
  }

  borrow(): Promise<Lease> {
    if (this.#line.isClosed) return Promise.reject(closedError())
    return new Promise((resolve, reject) => this.#pool().borrow(Infinity, resolve, reject))
  }

  #pool(): Own {
    return (this.#own ??= new Own(this.config, () => this.#server, { readonly: this.#readonly }))
  }

  connect(): void {
    this.#line.want()
  }

  /** `why` is the error of those who wait for a connection of their own. */
  async close(why?: RedisError): Promise<void> {
    this.subscriptions.close()
    await Promise.all([this.#line.close(), this.#own?.close(why)])
  }

  destroy(error: RedisError): void {
    this.subscriptions.close()
    this.#line.destroy(error)
    this.#own?.destroy(error)
    void this.#own?.close()
  }

  connected(connection: Connection): void {
    this.#server = connection.server
    this.subscriptions.connected(connection)
  }

  push(_: Connection, start: number): void {
    this.subscriptions.push(start)
  }

  disconnected(): void {
    if (this.subscriptions.onShared) this.subscriptions.disconnected()
  }

  needed(): boolean {
    return this.subscriptions.onShared
  }
}

/** Sends a call on a connection that is there for it, and gives that back when it has ended. */
function sendOn(lease: Lease, call: Call): void {
  call.takeBack = undefined
  if (call.settled) return lease.release(false)
  // Of one whose caller has gone nobody knows when it is answered.
  // In the next tick: its connection counts it as answered only then.
  call.done = (replied) => process.nextTick(() => lease.release(!replied))
  if (!lease.connection.send(call)) {
    call.fail(
      lease.connection.reason ?? misuse('connection_ended', 'the connection has ended'),
      'NotSent',
    )
  }
}

/** What can't be sent here, by name. */
export function misplaced(name: string, { place, advice }: Known): RedisError {
  const why =
    place === Place.NOWHERE ? "can't be sent as a command" : "can't go over the shared connection"
  return misuse('wrong_place', `${name} ${why}: ${advice}`, name)
}

/** Sends commands one behind the other, and waits for all. */
export function runEach(
  items: readonly Item[],
  how: How,
  send: (call: Call, item: Item) => void,
): Promise<unknown[]> {
  return new Promise((resolve) => {
    const results = new Array<unknown>(items.length)
    let left = items.length
    items.forEach((item, i) => {
      const done = (result: unknown): void => {
        results[i] = result
        if (--left === 0) resolve(results)
      }
      const call = new Call(item.spec, item.args, how, item.shape, done, done, item.script)
      if (how.signal?.aborted === true)
        call.fail(misuse('ABORT_ERR', 'the operation was aborted'), 'NotSent')
      else send(call, item)
    })
  })
}

/** Sends commands as one. */
export function runAtomic(
  items: readonly Item[],
  how: How,
  send: (call: Atomic) => void,
): Promise<unknown[]> {
  return new Promise((resolve, reject) => {
    send(new Atomic(items, how, resolve as (value: unknown) => void, reject))
  })
}
