import { Place } from '../engine/exports'
import { Atomic, type Item } from './atomic'
import { Cache } from './cache'
import { Call, type How } from './call'
import type { Config, Server } from './config'
import type { Connection, Purpose } from './connection'
import { misuse, RedisError } from './error'
import { closedError, Line, type Listener } from './line'
import { type Lease, Own } from './own'
import type { Known } from './spec'
import { Subscriptions } from './subscriptions'

/** What a client sends its calls to: one server, or a cluster. */
export interface Core {
  readonly config: Config
  readonly subscriptions: Subscriptions
  /** The replies that are kept, if any are. */
  readonly cache: Cache | undefined
  /** Sends a call over the shared connection. */
  send(call: Call): void
  /** Sends a call on a connection of its own, since it may block. */
  sendOwn(call: Call): void
  /** Lends a connection to one caller; in a cluster, to the node of this key. */
  borrow(key: string | Uint8Array | undefined): Promise<Lease>
  /** Opens a connection if there is none. */
  connect(): void
  close(): Promise<void>
  destroy(error: RedisError): void
}

/** Who is told of the shared connection of a server. */
export interface Watcher {
  /** It is there, and nothing was sent on it yet. */
  connected(): void
  disconnected(): void
  push(start: number, end: number): void
}

/** One server: its shared connection, its lent connections, and its subscriptions. */
export class Node implements Core, Listener {
  readonly config: Config
  readonly subscriptions: Subscriptions
  readonly cache: Cache | undefined
  readonly #line: Line
  /** The server of the shared connection, or of the last one. */
  #server: Server
  readonly #purpose: Purpose
  readonly #watcher: Watcher | undefined
  #own: Own | undefined

  /** `purpose` is that of all connections. */
  constructor(config: Config, servers: readonly Server[], purpose: Purpose = {}, watcher?: Watcher) {
    this.config = config
    this.#watcher = watcher
    this.#server = servers[0] as Server
    const cache = config.cache > 0 ? new Cache(config.cache) : undefined
    this.cache = cache
    this.#purpose = { ...purpose, cache }
    const tracks = cache !== undefined
    this.#line = new Line(config, servers, { ...this.#purpose, tracks }, this)
    this.subscriptions = new Subscriptions(config, servers, this.#line, purpose.seating)
  }

  /** The server of the shared connection, or of the last one. */
  get server(): Server {
    return this.#server
  }

  /** The protocol of the shared connection: 2 or 3; 0 if there is none. */
  get protocol(): number {
    return this.#line.current?.protocol ?? 0
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
    return (this.#own ??= new Own(this.config, () => this.#server, this.#purpose))
  }

  connect(): void {
    this.#line.want()
  }

  /** See `Own.cutStill`. */
  cutStill(): void {
    this.#own?.cutStill()
  }

  /** `why`: the error of callers that wait for a connection of their own. */
  async close(why?: RedisError): Promise<void> {
    this.subscriptions.close()
    await Promise.all([this.#line.close(), this.#own?.close(why)])
    this.cache?.free()
  }

  destroy(error: RedisError): void {
    this.subscriptions.close()
    this.#line.destroy(error)
    this.#own?.destroy(error)
    void this.#own?.close(closedError())
    this.cache?.free()
  }

  connected(connection: Connection): void {
    this.#server = connection.server
    this.#watcher?.connected()
    this.subscriptions.connected(connection)
  }

  push(_: Connection, start: number, end: number): void {
    if (this.#watcher === undefined) this.subscriptions.push(start)
    else this.#watcher.push(start, end)
  }

  disconnected(): void {
    this.#watcher?.disconnected()
    if (this.subscriptions.onShared) this.subscriptions.disconnected()
  }

  needed(): boolean {
    return this.subscriptions.onShared
  }
}

/** Sends a call on a lent connection, which is given back when the call has ended. */
function sendOn(lease: Lease, call: Call): void {
  call.takeBack = undefined
  if (call.settled) return lease.release(false)
  // A call that ended without a reply leaves a reply to come, so its connection is not used again.
  // The release waits for the next tick, when the connection has counted the reply.
  call.done = (replied) => process.nextTick(() => lease.release(!replied))
  if (!lease.connection.send(call)) {
    call.fail(
      lease.connection.reason ?? misuse('connection_lost', 'the connection has ended'),
      'NotSent',
    )
  }
}

/** The error of a command that can't be sent in this place. */
export function misplaced(name: string, { place, advice }: Known): RedisError {
  const why =
    place === Place.REFUSED ? "can't be sent as a command" : "can't go over the shared connection"
  return misuse('wrong_place', `${name} ${why}: ${advice}`, name)
}

/** Sends commands in order. Resolves to their replies, or errors, when all have ended. */
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
      call.isForMaster = true
      if (how.signal?.aborted === true)
        call.fail(misuse('ABORT_ERR', 'the operation was aborted'), 'NotSent')
      else send(call, item)
    })
  })
}

/** Sends commands as one atomic list. */
export function runAtomic(
  items: readonly Item[],
  how: How,
  send: (call: Atomic) => void,
): Promise<unknown[]> {
  return new Promise((resolve, reject) => {
    send(new Atomic(items, how, resolve as (value: unknown) => void, reject))
  })
}
