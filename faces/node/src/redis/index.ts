import { Client } from './client'
import { Cluster } from './cluster'
import { type Config, configOf, type RedisOptions } from './config'
import { type Core, Node } from './core'
import { Followed } from './followed'

export type { CacheMetrics } from './cache'
export type { CallOptions, Metrics } from './client'
export { Client } from './client'
export type {
  Commands,
  Entry,
  Fields,
  Key,
  ScanOptions,
  Scanned,
  Scored,
  SetOptions,
  Streams,
  XAddOptions,
  XReadOptions,
  ZAddOptions,
  ZRangeOptions,
} from './commands'
export type { RedisOptions } from './config'
export type { Argument } from './encode'
export { RedisError } from './error'
export type { List, Results } from './list'
export type { Reply } from './reply'
export type { Script } from './script'
export { Session } from './session'
export type { CommandWords, StreamOptions } from './stream'
export type { Message } from './subscription'
export { Subscription } from './subscription'

/**
 * Makes a client of Redis or Valkey, from a URL (`redis://`, `rediss://` for TLS, `unix:`) or from
 * options. It connects when the first command is sent. Until it is closed, it keeps the process
 * alive. Throws a `RedisError` with the code `config` if a setting is wrong.
 */
export function redis(options?: string | RedisOptions): Client {
  const config = configOf(options)
  const core = coreOf(config)
  const { requestTimeout: timeout } = config
  const how = { bytes: false, repeatable: false, alone: false, timeout, signal: undefined }
  return new Client<false>(core, how)
}

function coreOf(config: Config): Core {
  if (config.sentinel !== undefined) return new Followed(config)
  return config.cluster ? new Cluster(config) : new Node(config, config.servers)
}
