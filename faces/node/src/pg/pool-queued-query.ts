import { heed, heedNoMore } from '../engine/signal'
import { keyOf } from '../engine/text-key'
import { AbortError } from './abort'
import type { Submittable } from './client'
import { tellOutcome, tellUnsent } from './error'
import type { Pool } from './pool'
import type { Clients } from './pool-clients'
import type { PoolClient } from './pool-config'
import type { Member } from './pool-member'
import type { PoolBorrower } from './pool-members'
import { isShareable } from './pool-text'
import { Query, type QueryConfig } from './query'
import { guarded, type Callback, type Results } from './request'

/** Called with an error, or with undefined and the results. */
export type QueryCallback = (error: Error | undefined, results?: Results) => void

/** The query of a `pool.query`. */
export type Task = string | QueryConfig | Submittable

/**
 * A query of a pool that waits for a client, has it to itself while it runs, and gives it back.
 * With `isShared` it waits for a place on a shared client instead.
 */
export class QueuedQuery implements PoolBorrower {
  readonly isShared: boolean
  readonly #key: number
  readonly #clients: Clients
  readonly #task: Task
  readonly #values: unknown
  #callback: QueryCallback | undefined
  #token = 0
  #signal: AbortSignal | undefined
  #member: Member | undefined
  /** The query is running, and reports its error by a callback of its own. */
  #tellsItself = false

  constructor(clients: Clients, task: Task, values: unknown, callback: QueryCallback, isShared = false) {
    this.#clients = clients
    this.#task = task
    this.#values = values
    this.#callback = callback
    this.isShared = isShared
    this.#key = isShared ? keyOf(textOf(task)) : 0
  }

  start(): void {
    const signal = (this.#task as Partial<QueryConfig> | null)?.signal
    if (signal) {
      if (signal.aborted) return process.nextTick(() => this.handleEvent())
      this.#signal = signal
      heed(signal, this)
    }
    this.#ask()
  }

  #ask(): void {
    const clients = this.#clients
    this.#token = this.isShared ? clients.waitShared(this, this.#key) : clients.checkout(this)
  }

  served(number: number): void {
    const clients = this.#clients
    if (this.isShared) {
      const client = clients.enter(number)
      return client === undefined ? this.#ask() : this.#run(client)
    }
    const member = clients.lend(number)
    if (member === undefined) return this.#ask()
    this.#member = member
    if (member.isVerified) return this.#run(member.client)
    clients.verify(member, (error) => {
      if (error) this.#over(tellUnsent(error), undefined, true)
      else this.#run(member.client)
    })
  }

  failed(cause: number): void {
    this.#clients.refuse(this, cause)
  }

  refused(error: Error): void {
    this.#settle(tellUnsent(error))
  }

  /** Its signal was aborted. */
  handleEvent(): void {
    const { signal } = this.#task as QueryConfig
    if (this.#token === 0 || this.#clients.adapter.giveUp(this.#token)) {
      this.refused(new AbortError(signal?.reason))
    }
  }

  #run(client: PoolClient): void {
    if (this.#signal) heedNoMore(this.#signal, this)
    this.#tellsItself = hasCallback(this.#task)
    this.#clients.pool.log('dispatching query')
    start(client, this.#task, this.#values, this.#done)
  }

  readonly #done: Callback = (error, results) => {
    this.#clients.pool.log('query dispatched')
    const { client } = this.#member ?? {}
    this.#over(error, results, Boolean(error && client && isTainted(client, this.#task)))
  }

  #over(error: Error | null, results: Results | undefined, isBroken: boolean): void {
    const member = this.#member
    this.#member = undefined
    if (member !== undefined) this.#clients.giveBack(member, error, isBroken)
    this.#settle(this.#tellsItself ? null : error, results)
  }

  #settle(error: Error | null, results?: Results): void {
    const callback = this.#callback
    this.#callback = undefined
    if (this.#signal) heedNoMore(this.#signal, this)
    if (callback === undefined) return
    if (error) guarded(callback, error)
    else guarded(callback, undefined, results)
  }
}

/** Runs a query on a client of a `connect` that has been replaced, as instrumentation does. */
export function runOnLent(pool: Pool, task: Task, values: unknown, callback: QueryCallback): void {
  pool.connect((error, client, release) => {
    if (!client) return callback(error)
    // The query reports the error.
    client.on('error', ignore)
    const tellsItself = hasCallback(task)
    start(client, task, values, (failure, results) => {
      client.off('error', ignore)
      release(failure && isTainted(client, task) ? failure : undefined)
      if (failure && !tellsItself) callback(failure)
      else callback(undefined, results)
    })
  })
}

function start(client: PoolClient, task: Task, values: unknown, done: Callback): void {
  try {
    if (isForeign(task)) startForeign(client, task, done)
    else client.query(task as string, values, done)
  } catch (error) {
    done(error as Error)
  }
}

/** Whether the task reports its errors by a callback of its own. */
function hasCallback(task: Task): boolean {
  return isForeign(task) && task.callback !== undefined
}

/** Whether the task does not call the callback of `client.query`: it has its own, or calls none. */
function isForeign(task: Task): task is Submittable {
  const { submit, callback } = (task ?? {}) as Partial<Submittable>
  return typeof submit === 'function' && (callback !== undefined || !(task instanceof Query))
}

/** Runs a task that is over when it calls back, or when its client has answered everything. */
function startForeign(client: PoolClient, task: Submittable, done: Callback): void {
  let isOver = false
  const over: Callback = (error, results) => {
    if (isOver) return
    isOver = true
    client.off('drain', drained)
    client.off('end', ended)
    done(error, results)
  }
  const drained = (): void => over(null)
  const ended = (): void => {
    const error = new Error('Connection terminated unexpectedly')
    tellOutcome(error, 'Unknown')
    over(error)
  }
  const own = task.callback
  if (own) {
    task.callback = (error, results) => {
      over(error, results)
      if (error) own(error)
      else own(error, results)
    }
  }
  client.on('drain', drained)
  client.on('end', ended)
  client.query(task, undefined, over)
}

/** The text of a task; empty if it has none. */
export function textOf(task: Task): string {
  return typeof task === 'string' ? task : ((task as QueryConfig | null)?.text ?? '')
}

/**
 * Whether a client may be in another state, or still at work, after a query that failed. pg's pool
 * assumes so, and closes the client after each error.
 */
function isTainted(client: PoolClient, task: Task): boolean {
  const text = textOf(task)
  const isClean = client._session.isIdle && client.getTransactionStatus() === 'I'
  return !isClean || !isShareable(text)
}

function ignore(): void {}
