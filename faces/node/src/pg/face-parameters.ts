import type { ConnectionOptions } from 'node:tls'

import type { ClientConfig } from './face-config'

/** The configuration that connection parameters are read from. */
export interface ConnectionParametersConfig extends ClientConfig {
  isDomainSocket?: unknown
  connect_timeout?: unknown
  keepalives?: unknown
  keepalives_idle?: unknown
}

/** Where to connect and as whom, from a configuration, the environment and the defaults. */
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
  /** In milliseconds; false for no limit. */
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

  /** Calls `done` with a connection string for libpq, with the address of the host resolved. */
  getLibpqConnectionString<R>(done: (error: Error | null, text: string | null) => R): R
}
