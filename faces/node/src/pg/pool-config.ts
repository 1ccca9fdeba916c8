import type { EventEmitter } from 'node:events'

import type { Client } from './client'
import { hide } from './hidden'
import type { ClientConfig } from './life'

/** What a pool is told beside what its clients are told. */
export interface PoolConfig extends ClientConfig {
  /** Clients at most. Default 10. */
  max?: number | undefined
  /** The same, as it was called once. */
  poolSize?: number | undefined
  /** Clients that are kept though nobody needs them; none is connected for that. Default 0. */
  min?: number | undefined
  /** After how long an idle client is closed; 0 or null: never. Default 10 s. */
  idleTimeoutMillis?: number | null | undefined
  /** How long connecting a client may take, and how long a caller waits in line for one; 0: without an end. Default 0. */
  connectionTimeoutMillis?: number | undefined
  /** How often a client is lent before it is closed. Default: any number. */
  maxUses?: number | undefined
  /** After how long a client is closed; 0: never. Default 0. */
  maxLifetimeSeconds?: number | undefined
  /** Whether the process may end while clients are idle. Default false. */
  allowExitOnIdle?: boolean | undefined
  /** Called with each new client before anybody gets it; what it rejects with is the error of the caller. */
  onConnect?: ((client: PoolClient) => unknown) | undefined
  /** Called with each new client when it is lent first; its error is that of the caller, and the client is closed. */
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
  /** How often it was lent. */
  _poolUseCount?: number
}

/** A configuration with what is not said. They may be changed later, but for `max`. */
export interface PoolOptions extends PoolConfig {
  max: number
  min: number
  maxUses: number
  maxLifetimeSeconds: number
  allowExitOnIdle: boolean
  idleTimeoutMillis: number | null
}

/** A pool, as its clients know it. */
export interface PoolHost extends EventEmitter {
  readonly options: PoolOptions
  readonly Client: typeof Client
  readonly Promise: PromiseConstructor
  /** No client is added any more. */
  readonly ending: boolean
  log(...what: unknown[]): void
}

/** Secrets are not seen where the options are printed. */
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

/** Clients at most, as the engine counts them. Settings come from the environment too, as texts. */
export function clientsMax({ max }: PoolOptions): number {
  const clients = Math.min(Math.ceil(Number(max)), CLIENTS_MAX)
  if (clients > 0) return clients
  throw new RangeError('max is to be a number above 0')
}

/** Why an ended pool takes nobody. */
export const AFTER_END = 'Cannot use a pool after calling end on the pool'

const MAX = 10
const IDLE_TIMEOUT_MS = 10_000

/** More than any server takes. */
const CLIENTS_MAX = 1_000_000
