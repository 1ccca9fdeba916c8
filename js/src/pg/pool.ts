import { EventEmitter } from 'node:events'

import { Condition, PoolCause } from '../engine/exports'
import { Lender, type Borrower, type Opener } from '../engine/lender'
import { Client, type Submittable } from './client'
import type { ClientConfig } from './life'
import type { QueryConfig } from './query'
import { guarded, type Callback, type Results } from './request'

/** What a pool is told beside what its clients are told. */
export interface PoolConfig extends ClientConfig {
  /** Clients at most. Default 10. */
  max?: number | undefined
  /** The same, as it was called once. */
  poolSize?: number | undefined
  /** Clients that are kept though nobody needs them. Default 0. */
  min?: number | undefined
  /** After how long an idle client is closed; 0: never. Default 10 s. */
  idleTimeoutMillis?: number | null | undefined
  /** How long a caller waits for a client; 0: without an end. Default 0. */
  connectionTimeoutMillis?: number | undefined
  /** How often a client is lent before it is closed. Default: any number. */
  maxUses?: number | undefined
  /** After how long a client is closed; 0: never. Default 0. */
  maxLifetimeSeconds?: number | undefined
  /** Whether the process may end while clients are idle. Default false. */
  allowExitOnIdle?: boolean | undefined
  /** Called with each new client before it is lent; what it rejects with is the error of the caller. */
  onConnect?: ((client: PoolClient) => unknown) | undefined
  /** Called with each new client; an error makes the pool close it. */
  verify?: ((client: PoolClient, done: (error?: Error) => void) => void) | undefined
  /** Is told what happens. */
  log?: ((...messages: unknown[]) => void) | undefined
  /** The class of the clients. */
  Client?: typeof Client | undefined
}

/** A client that was lent. */
export type PoolClient = Client & {
  /** Gives it back; with an error or `true` it is closed. Once. */
  release(error?: Error | boolean): void
}

type Release = (error?: Error | boolean) => void
type ConnectCallback = (error: Error | undefined, client: PoolClient | undefined, release: Release) => void

/** A client, and what the pool knows of it. */
interface Member {
  client: PoolClient
  uses: number
  isLent: boolean
  isOpen: boolean
  /** Told while nobody has it. */
  idleListener: (error: Error) => void
}

/**
 * Clients that are lent to callers and come back. Which of them, when one more is opened, who waits and what expires
 * is decided by the engine's policy of pools.
 *
 * Emits `connect` for each new client, `acquire` and `release` when one is lent and comes back, `remove` when one is
 * closed, and `error` when an idle one fails: with nobody listening, that is a warning.
 */
export class Pool extends EventEmitter implements Opener {
  readonly options: PoolConfig & { max: number; min: number; idleTimeoutMillis: number }
  readonly Client: typeof Client
  ending = false
  ended = false
  readonly #lender: Lender
  readonly #members = new Map<number, Member>()
  readonly #Promise: PromiseConstructor
  readonly #log: (...messages: unknown[]) => void
  #expired = 0
  /** Clients that were removed and have not ended. */
  #closing = 0
  #lastError: Error | undefined
  #endCallback: (() => void) | undefined

  constructor(given?: PoolConfig | null, Class?: typeof Client) {
    super()
    const options = { ...given }
    hidePassword(options, given)
    const max = options.max || options.poolSize || MAX
    const min = options.min || 0
    const idleTimeoutMillis = options.idleTimeoutMillis ?? IDLE_TIMEOUT
    this.options = Object.assign(options, { max, min, idleTimeoutMillis })
    this.Client = options.Client || Class || Client
    this.#Promise = options.Promise || Promise
    this.#log = options.log || ((): void => {})
    this.#lender = new Lender(
      [
        ['connections_max', max],
        ['connections_min', min],
        ['waiting_max', WAITING_MAX],
        ['opening_max', max],
        ['wait_timeout_ms', 0],
        ['idle_timeout_ms', Math.round(Number(idleTimeoutMillis) || 0)],
        ['lifetime_ms', Math.round((options.maxLifetimeSeconds || 0) * 1000)],
      ],
      this,
    )
  }

  /** Clients, those that are being connected included. */
  get totalCount(): number {
    return this.#lender.connections
  }

  /** Clients that nobody has. */
  get idleCount(): number {
    let count = 0
    for (const member of this.#members.values()) if (member.isOpen && !member.isLent) count++
    return count
  }

  /** Callers that wait for a client. */
  get waitingCount(): number {
    return this.#lender.waiting
  }

  /** Clients that were closed for their age. */
  get expiredCount(): number {
    return this.#expired
  }

  /** Lends a client, which is given back by its `release`. */
  connect(): Promise<PoolClient>
  connect(callback: ConnectCallback): void
  connect(callback?: ConnectCallback): Promise<PoolClient> | undefined {
    if (callback) {
      this.#borrow(callback)
      return undefined
    }
    return new this.#Promise((resolve, reject) => {
      this.#borrow((error, client) => (client ? resolve(client) : reject(error)))
    })
  }

  /** Runs one query on a client that is lent for that alone. */
  query<T extends Submittable>(query: T): T
  query(config: string | QueryConfig, values?: unknown): Promise<Results>
  query(config: string | QueryConfig, values: unknown, callback: Callback): void
  query(config: string | QueryConfig, callback: Callback): void
  query(
    config: string | QueryConfig,
    values?: unknown,
    callback?: Callback,
  ): Promise<Results> | undefined {
    const done = callback ?? (typeof values === 'function' ? (values as Callback) : undefined)
    const given = typeof values === 'function' ? undefined : values
    if (typeof config === 'function') {
      const error = new Error('Passing a function as the first parameter to pool.query is not supported')
      process.nextTick(config as Callback, error)
      return undefined
    }
    if (done) {
      this.#run(config, given, done)
      return undefined
    }
    return new this.#Promise((resolve, reject) => {
      this.#run(config, given, (error, results) => {
        if (error) reject(error)
        else resolve(results as Results)
      })
    })
  }

  /** Closes idle clients now and the others when they come back. Resolves when all are closed. */
  end(): Promise<void>
  end(callback: (error?: Error) => void): void
  end(callback?: (error?: Error) => void): Promise<void> | undefined {
    if (this.ending) {
      const error = new Error('Called end on pool more than once')
      if (!callback) return this.#Promise.reject(error)
      callback(error)
      return undefined
    }
    this.ending = true
    this.#lender.close()
    if (callback) {
      this.#endCallback = callback
      return undefined
    }
    return new this.#Promise((resolve) => (this.#endCallback = resolve))
  }

  // --- callers ---

  #borrow(callback: ConnectCallback): void {
    if (this.ending) {
      const error = new Error('Cannot use a pool after calling end on the pool')
      process.nextTick(callback, error, undefined, noRelease)
      return
    }
    const timeout = this.options.connectionTimeoutMillis || Infinity
    const borrower: Borrower = {
      served: (number) => this.#lend(number, callback),
      failed: (cause) => guarded(callback, this.#refusal(cause), undefined, noRelease),
    }
    this.#lender.checkout(borrower, timeout)
  }

  #lend(number: number, callback: ConnectCallback): void {
    const member = this.#members.get(number)
    // Lost in the moment in which it was lent.
    if (member === undefined || !member.isOpen) return this.#borrow(callback)
    const { client } = member
    member.isLent = true
    member.uses++
    client.off('error', member.idleListener)
    client.connection.ref()
    let released = false
    client.release = (error): void => {
      if (released) {
        throw new Error('Release called on client which has already been released to the pool.')
      }
      released = true
      this.#giveBack(number, member, error)
    }
    guarded(() => this.emit('acquire', client))
    guarded(callback, undefined, client, client.release)
  }

  #giveBack(number: number, member: Member, error: Error | boolean | undefined): void {
    const { client } = member
    member.isLent = false
    client.on('error', member.idleListener)
    guarded(() => this.emit('release', error, client))
    const usedUp = member.uses >= (this.options.maxUses || Infinity)
    // Lost while it was lent.
    if (this.#members.get(number) !== member) return
    const broken = Boolean(error) || this.ending || !client._queryable || client._ending
    if (broken || usedUp) {
      this.#log('remove client')
      this.#lender.release(number, Condition.BROKEN)
      this.#remove(number, member)
      return
    }
    if (this.options.allowExitOnIdle) client.connection.unref()
    this.#lender.release(number, Condition.CLEAN)
  }

  #run(config: string | QueryConfig, values: unknown, callback: Callback): void {
    this.#borrow((error, client) => {
      if (!client) return callback(error as Error, undefined as never)
      let isOver = false
      const onError = (failure: Error): void => {
        if (isOver) return
        isOver = true
        client.release(failure)
        callback(failure, undefined as never)
      }
      client.once('error', onError)
      try {
        client.query(config as string, values, (failure, results) => {
          client.off('error', onError)
          if (isOver) return
          isOver = true
          client.release(failure && isFatal(client) ? failure : undefined)
          callback(failure, results)
        })
      } catch (failure) {
        client.off('error', onError)
        client.release()
        callback(failure as Error, undefined as never)
      }
    })
  }

  #refusal(cause: number): Error {
    if (cause === PoolCause.CLOSED) return new Error('Cannot use a pool after calling end on the pool')
    if (cause === PoolCause.OPEN_FAILED && this.#lastError) return this.#lastError
    if (cause === PoolCause.LINE_FULL) return new Error('Too many callers wait for a client')
    return new Error('timeout exceeded when trying to connect')
  }

  // --- clients ---

  open(number: number): void {
    const client = new this.Client(this.options) as PoolClient
    const member: Member = {
      client,
      uses: 0,
      isLent: false,
      isOpen: false,
      idleListener: (error) => this.#lose(number, member, error),
    }
    this.#members.set(number, member)
    client.on('error', member.idleListener)
    // The engine forgets a connection that has ended, so its policy must not look at it any more.
    client.once('end', () => this.#gone(number, member))
    this.#log('connecting new client')
    client.connect((error) => {
      if (error) return this.#notOpened(number, member, error)
      this.#greet(member).then(
        () => this.#opened(number, member),
        (failure: Error) => this.#notOpened(number, member, failure),
      )
    })
  }

  async #greet({ client }: Member): Promise<void> {
    const { onConnect, verify } = this.options
    guarded(() => this.emit('connect', client))
    if (onConnect) await onConnect(client)
    if (verify) {
      await new Promise<void>((resolve, reject) => {
        verify(client, (error) => (error ? reject(error) : resolve()))
      })
    }
  }

  #opened(number: number, member: Member): void {
    const { _address: address } = member.client
    if (this.#members.get(number) !== member || address === undefined) {
      return this.#notOpened(number, member, new Error('Connection terminated unexpectedly'))
    }
    member.isOpen = true
    this.#lender.opened(number, address)
  }

  /** All who wait are told, as each would have been by a client of its own. */
  #notOpened(number: number, member: Member, error: Error): void {
    this.#log('client failed to connect', error)
    this.#lastError = error
    this.#lender.openFailed(number, true)
    this.#remove(number, member)
  }

  #lose(number: number, member: Member, error: Error): void {
    if (this.#members.get(number) !== member || !member.isOpen) return
    this.#log('idle client error', error)
    this.#lender.lost(number)
    this.#remove(number, member)
    if (this.listenerCount('error') > 0) guarded(() => this.emit('error', error, member.client))
    else process.emitWarning(`An idle client of a pool lost its connection: ${error.message}`)
  }

  #gone(number: number, member: Member): void {
    if (this.#members.get(number) !== member || !member.isOpen) return
    this.#lender.lost(number)
    this.#remove(number, member)
  }

  #remove(number: number, member: Member): void {
    if (this.#members.get(number) !== member) return
    this.#members.delete(number)
    member.isOpen = false
    const { client } = member
    this.#closing++
    client.end(() => {
      this.#closing--
      guarded(() => this.emit('remove', client))
      this.#finish()
    })
  }

  reset(): void {}

  close(number: number): void {
    const member = this.#members.get(number)
    if (member === undefined) return
    if (this.options.maxLifetimeSeconds && !this.ending) this.#expired++
    this.#remove(number, member)
  }

  closed(): void {
    this.ended = true
    this.#finish()
  }

  #finish(): void {
    if (!this.ended || this.#members.size + this.#closing > 0) return
    const callback = this.#endCallback
    this.#endCallback = undefined
    if (!callback) return
    this.#lender.free()
    guarded(callback)
  }
}

function isFatal(client: PoolClient): boolean {
  return !client._queryable
}

function noRelease(): void {}

/** It is not seen where a pool is printed. */
function hidePassword(options: PoolConfig, given: PoolConfig | null | undefined): void {
  const password = given?.password
  if (password === undefined) return
  Object.defineProperty(options, 'password', {
    configurable: true,
    enumerable: false,
    writable: true,
    value: password,
  })
}

const MAX = 10
const IDLE_TIMEOUT = 10_000
/** pg's pool has no limit; this is one that only a runaway program meets. */
const WAITING_MAX = 1_000_000
