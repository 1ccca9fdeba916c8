import { lookup } from 'node:dns'

import { parse } from 'pg-connection-string'

import { defaults, type Defaults } from './defaults'
import { hide } from './hidden'

/** The configuration of a client. It may have any keys; these are read here. */
export interface ConnectionConfig {
  user?: unknown
  database?: unknown
  password?: unknown
  port?: unknown
  host?: unknown
  connectionString?: string | undefined
  ssl?: unknown
  keepAlive?: unknown
  keepAliveInitialDelayMillis?: unknown
  connectionTimeoutMillis?: unknown
  [key: string]: unknown
}

/** A password, or a function that is called for one when a connection is made. */
export type Password =
  string | ((parameters: ConnectionParameters) => string | Promise<string>) | null | undefined

/**
 * Where to connect and as whom: from the configuration, else from the environment (`PGHOST` and so
 * on), else from `defaults`. A connection string wins over the other fields of the configuration.
 */
export class ConnectionParameters {
  user: string | undefined
  database: string | undefined
  port: number
  host: string
  /** Not enumerable, so that it is not printed. */
  declare password: Password
  binary: boolean
  options: string | undefined
  /** False, true, or options of TLS. */
  ssl: unknown
  sslnegotiation: string | undefined
  client_encoding: string
  replication: string | undefined
  isDomainSocket: boolean
  application_name: string | undefined
  fallback_application_name: string | undefined
  /** In milliseconds; false for no limit. */
  statement_timeout: number | false
  lock_timeout: number | false
  idle_in_transaction_session_timeout: number | false
  query_timeout: number | false
  /** In seconds. */
  connect_timeout: number | string
  declare keepalives?: number
  declare keepalives_idle?: number

  constructor(given?: string | ConnectionConfig | null) {
    let config: ConnectionConfig = typeof given === 'string' ? parse(given) : given || {}
    if (config.connectionString) {
      config = Object.assign({}, config, parse(config.connectionString))
    }
    this.user = valueOf('user', config)
    this.database = valueOf('database', config)
    if (this.database === undefined) this.database = this.user
    this.port = parseInt(valueOf('port', config), 10)
    this.host = valueOf('host', config)
    hide(this, 'password', valueOf('password', config))
    this.binary = valueOf('binary', config)
    this.options = valueOf('options', config)
    this.ssl = sslOf(config)
    this.sslnegotiation = valueOf('sslnegotiation', config, 'PGSSLNEGOTIATION')
    checkNegotiation(this)
    this.client_encoding = valueOf('client_encoding', config)
    this.replication = valueOf('replication', config)
    this.isDomainSocket = (this.host || '').indexOf('/') === 0
    this.application_name = valueOf('application_name', config, 'PGAPPNAME')
    this.fallback_application_name = valueOf('fallback_application_name', config, NOWHERE)
    this.statement_timeout = valueOf('statement_timeout', config, NOWHERE)
    this.lock_timeout = valueOf('lock_timeout', config, NOWHERE)
    const idle = 'idle_in_transaction_session_timeout'
    this.idle_in_transaction_session_timeout = valueOf(idle, config, NOWHERE)
    this.query_timeout = valueOf('query_timeout', config, NOWHERE)
    const timeout = config.connectionTimeoutMillis
    this.connect_timeout =
      timeout === undefined
        ? process.env['PGCONNECT_TIMEOUT'] || 0
        : Math.floor((timeout as number) / 1000)
    if (typeof config.keepAlive === 'boolean') this.keepalives = config.keepAlive ? 1 : 0
    const delay = config.keepAliveInitialDelayMillis
    if (typeof delay === 'number') this.keepalives_idle = Math.floor(delay / 1000)
  }

  /** Calls `done` with a connection string for libpq, with the address of the host resolved. */
  getLibpqConnectionString(done: (error: Error | null, text: string | null) => void): void {
    const ssl = typeof this.ssl === 'object' ? this.ssl : this.ssl ? { sslmode: this.ssl } : {}
    const parts = [
      ...listed(this, BEFORE_SSL),
      ...listed(ssl as object, SSL),
      ...listed(this, ['sslnegotiation']),
    ]
    if (this.database) parts.push(pair('dbname', this.database))
    if (this.replication) parts.push(pair('replication', this.replication))
    if (this.host) parts.push(pair('host', this.host))
    if (this.isDomainSocket) return done(null, parts.join(' '))
    if (this.client_encoding) parts.push(pair('client_encoding', this.client_encoding))
    lookup(this.host, (error, address) => {
      if (error) return done(error, null)
      done(null, [...parts, pair('hostaddr', address)].join(' '))
    })
  }
}

/** Stands for settings without an environment variable. */
const NOWHERE = ''

const BEFORE_SSL = [
  'user',
  'password',
  'port',
  'application_name',
  'fallback_application_name',
  'connect_timeout',
  'options',
]
const SSL = ['sslmode', 'sslca', 'sslkey', 'sslcert', 'sslrootcert']

/** The value from the configuration, the environment or the defaults. Its type is not checked. */
function valueOf<T>(key: string, config: ConnectionConfig, variable = `PG${key.toUpperCase()}`): T {
  const given = config[key]
  if (given) return given as T
  const fromEnvironment = variable === NOWHERE ? undefined : process.env[variable]
  return (fromEnvironment || defaults[key as keyof Defaults]) as T
}

function sslOf(config: ConnectionConfig): unknown {
  const given = typeof config.ssl === 'undefined' ? sslOfEnvironment() : config.ssl
  if (given === 'true') return true
  if (given === 'no-verify') return { rejectUnauthorized: false }
  const { key } = (given || {}) as { key?: unknown }
  // Not enumerable, so that the private key is not printed.
  if (key) Object.defineProperty(given, 'key', { enumerable: false })
  return given
}

function sslOfEnvironment(): unknown {
  switch (process.env['PGSSLMODE']) {
    case 'disable':
      return false
    case 'prefer':
    case 'require':
    case 'verify-ca':
    case 'verify-full':
      return true
    case 'no-verify':
      return { rejectUnauthorized: false }
    default:
      return defaults.ssl
  }
}

function checkNegotiation({ sslnegotiation, ssl }: ConnectionParameters): void {
  if (sslnegotiation === undefined || sslnegotiation === 'postgres') return
  if (sslnegotiation !== 'direct') {
    const message = `Invalid sslnegotiation value: "${sslnegotiation}".`
    throw new Error(`${message} Valid values are "postgres" and "direct".`)
  }
  if (!ssl) throw new Error('sslnegotiation=direct requires SSL to be enabled')
}

/** The pairs of the fields that have a value. */
function listed(from: object, names: readonly string[]): string[] {
  const values = from as { [name: string]: unknown }
  return names
    .filter((name) => values[name] !== undefined && values[name] !== null)
    .map((name) => pair(name, values[name]))
}

function pair(name: string, value: unknown): string {
  return `${name}='${String(value).replace(/[\\']/g, '\\$&')}'`
}
