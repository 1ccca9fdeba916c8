import type { ConnectionOptions } from 'node:tls'

import type { ClientConfig } from './face-config'

/** What a connection's parameters are made of. */
export interface ConnectionParametersConfig extends ClientConfig {
  isDomainSocket?: unknown
  connect_timeout?: unknown
  keepalives?: unknown
  keepalives_idle?: unknown
}

/** Where to connect and as whom: of a configuration, the environment and the defaults. */
export declare class ConnectionParameters {
  constructor(config?: string | ConnectionParametersConfig)
  user?: string | undefined
  database?: string | undefined
  password?: string | (() => string | Promise<string>) | undefined
  port?: number | undefined
  host?: string | undefined
  options?: string | undefined
  ssl?: boolean | ConnectionOptions | undefined
  application_name?: string | undefined
  /** Milliseconds; false: no limit. */
  statement_timeout?: false | number | undefined
  idle_in_transaction_session_timeout?: number | undefined
  query_timeout?: number | undefined
  binary?: unknown
  client_encoding?: unknown
  replication?: unknown
  isDomainSocket?: unknown
  fallback_application_name?: unknown
  lock_timeout?: unknown
  connect_timeout?: unknown
  keepalives?: unknown
  keepalives_idle?: unknown

  /** The parameters as libpq takes them, with the address of the host looked up. */
  getLibpqConnectionString<R>(done: (error: Error | null, text: string | null) => R): R
}
