import { EventEmitter } from 'node:events'

import { Client, rethrow, type Submittable } from './client'
import { keyOf } from '../engine/text-key'
import { tellUnsent } from './error'
import { Clients } from './pool-clients'
import {
  AFTER_END,
  poolOptions,
  type PoolClient,
  type PoolConfig,
  type PoolOptions,
} from './pool-config'
import { QueuedQuery, textOf, runOnLent, type QueryCallback, type Task } from './pool-queued-query'
import { Checkout, noRelease, type ConnectCallback } from './pool-checkout'
import { isShareable } from './pool-text'
import type { QueryConfig } from './query'
import { guarded, type Callback, type Results } from './request'

export type { PoolClient, PoolConfig } from './pool-config'

/**
 * A pool of clients, which are lent to callers. The engine's pool policy chooses the client,
 * decides when one more is connected, and keeps the line of callers.
 *
 * With `pipeline: true` the queries of `pool.query` share connections, without waiting for one
 * another's answers; each has its own answer and its own error. A text that is not one complete
 * statement (BEGIN, SET, LISTEN, COPY, several statements) still gets a client of its own. So do
 * the queries of a burst while not all clients are connected. A client that comes back in a
 * transaction is rolled back then; without pipelining the next user finds the transaction, as with
 * pg.
 *
 * Emits `connect` for each new client, `acquire` and `release` when a client is lent and given
 * back, `remove` when one is closed, and `error` when an idle client fails. Without a listener of
 * `error` that is a warning of the process.
 */
export class Pool extends EventEmitter {
  readonly options: PoolOptions
  readonly Client: typeof Client
  readonly Promise: PromiseConstructor
  log: (...messages: unknown[]) => void
  /** `end` was called. */
  ending = false
  /** All clients are closed. */
  ended = false
  readonly #clients: Clients

  constructor(given?: PoolConfig | null, Class?: typeof Client) {
    super()
    this.options = poolOptions(given)
    this.log = this.options.log || noLog
    this.Client = this.options.Client || Class || Client
    this.Promise = this.options.Promise || Promise
    this.#clients = new Clients(this)
  }

  /** Clients, those that are being connected included. */
  get totalCount(): number {
    return this.#clients.total
  }

  /** Clients that are unused. */
  get idleCount(): number {
    return this.#clients.idle.length
  }

  /** Callers in line, without those for whom a client is being connected. */
  get waitingCount(): number {
    return this.#clients.waiting
  }

  /** Lent clients that are past their lifetime, and will be closed when they come back. */
  get expiredCount(): number {
    let count = 0
    for (const { isLent, isLeaving } of this.#clients.members.values()) if (isLent && isLeaving) count++
    return count
  }

  /** Lends a client; it is given back with its `release`. */
  connect(): Promise<PoolClient>
  connect(callback: ConnectCallback): void
  connect(callback?: ConnectCallback): Promise<PoolClient> | undefined {
    if (callback) {
      if (this.ending) callback(tellUnsent(new Error(AFTER_END)), undefined, noRelease)
      else void new Checkout(this.#clients, callback)
      return undefined
    }
    if (this.ending) return this.Promise.reject(tellUnsent(new Error(AFTER_END)))
    return new this.Promise<PoolClient>((resolve, reject) => {
      new Checkout(this.#clients, (error, client) => (client ? resolve(client) : reject(error)))
    }).catch(rethrow)
  }

  /**
   * Runs one query: on a client that it has to itself, or, with pipelining, on a shared one. It
   * fails as a query of a client does.
   */
  query(query: Submittable): Promise<Results>
  query(config: string | QueryConfig, values?: unknown): Promise<Results>
  query(config: string | QueryConfig | Submittable, values: unknown, callback: QueryCallback): void
  query(config: string | QueryConfig | Submittable, callback: QueryCallback): void
  query(task: Task, given?: unknown, last?: QueryCallback): Promise<Results> | undefined {
    if (typeof task === 'function') return refuseFunction(task)
    const isCallback = typeof given === 'function'
    const values = isCallback ? undefined : given
    const callback = isCallback ? (given as QueryCallback) : last
    const shares = this.#clients.shares && !this.ending && isShared(task)
    if (shares) {
      const client = this.#clients.place(keyOf(textOf(task)))
      if (client !== undefined) return shared(client, task, values, callback)
    }
    if (callback) return this.#run(task, values, callback, shares)
    return new this.Promise<Results>((resolve, reject) => {
      const settle: QueryCallback = (error, results) => {
        if (error) reject(error)
        else resolve(results as Results)
      }
      this.#run(task, values, settle, shares)
    }).catch(rethrow)
  }

  #run(task: Task, values: unknown, callback: QueryCallback, shares: boolean): undefined {
    if (this.ending) callback(tellUnsent(new Error(AFTER_END)))
    else if (this.connect !== connect && !shares) runOnLent(this, task, values, callback)
    else new QueuedQuery(this.#clients, task, values, callback, shares).start()
  }

  /**
   * Serves callers that wait, and takes no new ones. Closes idle clients now, and the others when
   * they come back. Resolves when all are closed.
   */
  end(): Promise<void>
  end(callback: (error?: Error) => void): void
  end(callback?: (error?: Error) => void): Promise<void> | undefined {
    this.log('ending')
    if (this.ending) {
      const error = new Error('Called end on pool more than once')
      if (!callback) return this.Promise.reject(error)
      callback(error)
      return undefined
    }
    this.ending = true
    if (callback) {
      this.#end(() => guarded(callback))
      return undefined
    }
    return new this.Promise((resolve) => this.#end(resolve))
  }

  #end(over: () => void): void {
    this.#clients.end(() => {
      this.ended = true
      over()
    })
  }

  // --- internals of pg's pool that other packages read ---

  /** The clients, those that were asked for in this turn included. */
  get _clients(): PoolClient[] {
    this.#clients.adapter.openNow()
    const members = [...this.#clients.members.values()]
    return members.flatMap(({ client }): PoolClient[] => (client === undefined ? [] : [client]))
  }

  get _idle(): { client: PoolClient }[] {
    return this.#clients.idle.map(({ client }) => ({ client }))
  }

  /** An array as long as the line. Its elements are undefined. */
  get _pendingQueue(): readonly undefined[] {
    return new Array<undefined>(this.waitingCount)
  }

  _isFull(): boolean {
    return this.totalCount >= this.#clients.max
  }

  _isAboveMin(): boolean {
    return this.#clients.isAboveMin
  }

  /** Serves callers that wait, as far as possible, which also happens without this call. */
  _pulseQueue(): void {
    if (this.ended) return
    this.#clients.windUp()
    this.#clients.adapter.settle()
  }

  /** Closes a client, also if it is lent. */
  _remove(client: PoolClient, callback?: () => void): void {
    this.#clients.expel(client, callback)
  }
}

/** Compared with `pool.connect`, to see whether that was replaced. */
const { connect } = Pool.prototype

/** Whether a task may be shared: one complete statement, which does not run itself. */
function isShared(task: Task): boolean {
  if (typeof task === 'string') return isShareable(task)
  if (typeof task !== 'object' || task === null) return false
  const { text, callback, submit, alone } = task as QueryConfig & Partial<Submittable>
  const isPlain = !callback && submit === undefined && !alone
  return typeof text === 'string' && isPlain && isShareable(text)
}

function shared(
  client: PoolClient,
  task: Task,
  values: unknown,
  callback: QueryCallback | undefined,
): Promise<Results> | undefined {
  if (callback === undefined) return client.query(task as string, values)
  const done: Callback = (error, results) => {
    if (error) callback(error)
    else callback(undefined, results)
  }
  client.query(task as string, values, done)
  return undefined
}

function refuseFunction(task: (error: Error) => void): undefined {
  setImmediate(task, new Error('Passing a function as the first parameter to pool.query is not supported'))
}

function noLog(): void {}
