import type { EventEmitter } from 'node:events'

import type { Client } from './client'
import { hide } from './hidden'
import type { ClientConfig } from './life'

/** The configuration of a pool and of its clients. */
export interface PoolConfig extends ClientConfig {
  /** The most clients. Default 10. */
  max?: number | undefined
  /** An old name for `max`. */
  poolSize?: number | undefined
  /** Idle clients that are not closed for being idle. None is connected for it. Default 0. */
  min?: number | undefined
  /** Milliseconds after which an idle client is closed; 0 or null for never. Default 10,000. */
  idleTimeoutMillis?: number | null | undefined
  /**
   * Milliseconds for connecting a client, and for a caller to wait in line. Default 0: no limit.
   */
  connectionTimeoutMillis?: number | undefined
  /** How often a client is used before it is closed. Default: any number. */
  maxUses?: number | undefined
  /** Seconds after which a client is closed. Default 0: never. */
  maxLifetimeSeconds?: number | undefined
  /** Lets the process end while clients are idle. Default false. */
  allowExitOnIdle?: boolean | undefined
  /** Called with each new client before it is lent. If it rejects, so does the caller's request. */
  onConnect?: ((client: PoolClient) => unknown) | undefined
  /** Called when a new client is first lent. If `done` gets an error, the caller fails with it. */
  verify?: ((client: PoolClient, done: (error?: Error) => void) => void) | undefined
  /** Is called with messages about the pool's work. */
  log?: ((...messages: unknown[]) => void) | undefined
  /** The class of the clients. */
  Client?: typeof Client | undefined
}

/** A client of a pool. */
export type PoolClient = Client & {
  /** Gives the client back, once. With an error or `true` it is closed. */
  release(error?: Error | boolean): void
  /** How often it was used. */
  _poolUseCount?: number
}

/** The configuration with the defaults filled in. All but `max` may be changed later. */
export interface PoolOptions extends PoolConfig {
  max: number
  min: number
  maxUses: number
  maxLifetimeSeconds: number
  allowExitOnIdle: boolean
  idleTimeoutMillis: number | null
}

/** The pool, as its clients see it. */
export interface PoolHost extends EventEmitter {
  readonly options: PoolOptions
  readonly Client: typeof Client
  readonly Promise: PromiseConstructor
  /** `end` was called: no client is added any more. */
  readonly ending: boolean
  log(...what: unknown[]): void
}

/** Fills in the defaults. Secrets are not enumerable, so that they are not printed. */
export function poolOptions(given: PoolConfig | null | undefined): PoolOptions {
  const options: PoolConfig = { ...given }
  if (given && 'password' in given) hide(options, 'password', given.password)
  const { ssl } = options
  if (typeof ssl === 'object' && ssl !== null && 'key' in ssl && ssl.key) hide(ssl, 'key', ssl.key)
  return Object.assign(options, {
    max: options.max || options.poolSize || MAX,
    min: options.min || 0,
    maxUses: options.maxUses || Infinity,
    allowExitOnIdle: options.allowExitOnIdle || false,
    maxLifetimeSeconds: options.maxLifetimeSeconds || 0,
    idleTimeoutMillis:
      options.idleTimeoutMillis === undefined ? IDLE_TIMEOUT_MS : options.idleTimeoutMillis,
  })
}

/** The most clients, as a number for the engine. `max` may be a string of the environment. */
export function clientsMax({ max }: PoolOptions): number {
  const clients = Math.min(Math.ceil(Number(max)), CLIENTS_MAX)
  if (clients > 0) return clients
  throw new RangeError('max takes a number above 0')
}

/** The error of callers of a pool that has ended. */
export const AFTER_END = 'Cannot use a pool after calling end on the pool'

const MAX = 10
const IDLE_TIMEOUT_MS = 10_000

/** More than any server takes. */
const CLIENTS_MAX = 1_000_000
