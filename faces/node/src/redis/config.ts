import { readFileSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'

import { misuse } from './error'

/** How to reach a server, and limits. Times are in milliseconds. */
export interface RedisOptions {
  /**
   * `redis://user:password@host:port/database`, `rediss://…` for TLS, or `unix:/path/of/socket`.
   * The other options win over it.
   */
  url?: string | undefined
  /** Default 127.0.0.1. */
  host?: string | undefined
  /** Default 6379. */
  port?: number | undefined
  /** The path of a Unix socket, in place of host and port. */
  path?: string | undefined
  /** The ACL user. Without a password an empty one is sent. Default: the server's user `default`. */
  user?: string | undefined
  /** Default none; an empty one is none. */
  password?: string | undefined
  /** Default 0. */
  database?: number | undefined
  /** The name that `CLIENT LIST` shows for the connections. */
  clientName?: string | undefined
  /** 3 (the default): RESP3, or RESP2 if the server has no RESP3. 2: always RESP2. */
  protocol?: 2 | 3 | undefined
  /**
   * True, or options of `tls.connect`. The server's certificate and name are verified unless the
   * options turn that off.
   */
  tls?: boolean | ConnectionOptions | undefined
  /** The servers are nodes of a cluster. */
  cluster?: boolean | undefined
  /**
   * In a cluster, sends commands that only read to replicas, whose data may be older. Default
   * false.
   */
  replicaReads?: boolean | undefined
  /**
   * The servers are Sentinels, of which a majority must be reachable, and this is the name of the
   * master in their configuration. User, password and database are for the master; TLS is for both.
   */
  sentinel?: string | undefined
  /** The ACL user at the Sentinels, by the same rule. Default: their user `default`. */
  sentinelUser?: string | undefined
  /** The password for the Sentinels. Default: none. */
  sentinelPassword?: string | undefined
  /** With Sentinels, who answers commands that only read and go by themselves. Default master. */
  reads?: 'master' | 'replica' | 'prefer_replica' | undefined
  /** Sends commands that only read again if their connection was lost. Default false. */
  repeatReads?: boolean | undefined
  /**
   * Bytes of replies that are kept until the server says that one of their keys was changed: a
   * number, or one of KiB, MiB or GiB as `64MiB`. Not for clusters. Default 0: none.
   */
  cache?: number | string | undefined
  /** The time limit for opening a connection, its login included. Default 10 s. */
  connectTimeout?: number | undefined
  /** How long a call waits for a connection. Default 5 s. */
  waitTimeout?: number | undefined
  /** The deadline of a command, its waits included. Default 0: none. */
  requestTimeout?: number | undefined
  /** Closes a connection of one caller's own that has been unused for this time. Default 60 s. */
  idleTimeout?: number | undefined
  /** Ends a connection whose server has taken no bytes for this time. Default 30 s. */
  stallTimeout?: number | undefined
  /** Connections lent at the same time, to sessions and blocking commands. Default 64. */
  connectionsMax?: number | undefined
  /** Bytes of commands that are sent and unanswered, per connection. Default 16 MiB. */
  inFlightBytesMax?: number | undefined
  /** Bytes of commands that wait for that window. Default 16 MiB. */
  queueBytesMax?: number | undefined
  /**
   * Bytes of commands that wait for the queue, or for a connection. Further commands are refused.
   * Default 1 GiB.
   */
  waitingBytesMax?: number | undefined
  /**
   * Bytes of one reply, which is kept in memory until it is complete. A longer reply ends the
   * connection. Default 513 MiB.
   */
  replyBytesMax?: number | undefined
  /** How often a repeatable command is sent at most. Default 3. */
  attemptsMax?: number | undefined
  /** How many redirects a command of a cluster follows. Default 5. */
  redirectsMax?: number | undefined
}

/** A server. */
export type Server = { readonly host: string; readonly port: number } | { readonly path: string }

/** The options with the defaults filled in. */
export interface Config {
  readonly servers: readonly Server[]
  readonly user: string | undefined
  readonly password: string | undefined
  readonly database: number
  readonly clientName: string | undefined
  readonly protocol: 2 | 3
  readonly tls: ConnectionOptions | undefined
  readonly cluster: boolean
  readonly replicaReads: boolean
  readonly sentinel: SentinelConfig | undefined
  readonly repeatReads: boolean
  readonly cache: number
  readonly connectTimeout: number
  readonly waitTimeout: number
  readonly requestTimeout: number
  readonly idleTimeout: number
  readonly stallTimeout: number
  readonly connectionsMax: number
  readonly inFlightBytesMax: number
  readonly queueBytesMax: number
  readonly waitingBytesMax: number
  readonly replyBytesMax: number
  readonly attemptsMax: number
  readonly redirectsMax: number
}

/** The servers are Sentinels. */
export interface SentinelConfig {
  readonly master: string
  readonly user: string | undefined
  readonly password: string | undefined
  readonly reads: string
}

const MIB = 1024 * 1024

/** Reads a URL, options, or both. Throws if a setting is wrong. */
export function configOf(given: string | RedisOptions = {}): Config {
  const direct = typeof given === 'string' ? { url: given } : given
  const options: RedisOptions =
    direct.url === undefined ? direct : merge(fromUrl(direct.url), direct)
  const servers = (options as { servers?: Server[] }).servers
  const tls = options.tls
  const cache = bytesOf('cache', options.cache ?? 0)
  if (cache > 0 && options.cluster === true)
    throw invalid('cache is not for clusters: leave it out, or connect to a single server')
  return {
    servers: serversOf(options, servers),
    user: options.user,
    password: options.password,
    database: whole('database', options.database, 0),
    clientName: options.clientName,
    protocol: options.protocol ?? 3,
    tls: tls === true ? {} : tls === false ? undefined : tls,
    cluster: options.cluster ?? false,
    replicaReads: options.replicaReads ?? false,
    sentinel: sentinelOf(options),
    repeatReads: options.repeatReads ?? false,
    cache,
    connectTimeout: whole('connectTimeout', options.connectTimeout, 10_000),
    waitTimeout: whole('waitTimeout', options.waitTimeout, 5_000),
    requestTimeout: whole('requestTimeout', options.requestTimeout, 0),
    idleTimeout: whole('idleTimeout', options.idleTimeout, 60_000),
    stallTimeout: whole('stallTimeout', options.stallTimeout, 30_000),
    connectionsMax: whole('connectionsMax', options.connectionsMax, 64),
    inFlightBytesMax: whole('inFlightBytesMax', options.inFlightBytesMax, 16 * MIB),
    queueBytesMax: whole('queueBytesMax', options.queueBytesMax, 16 * MIB),
    waitingBytesMax: whole('waitingBytesMax', options.waitingBytesMax, 1024 * MIB),
    replyBytesMax: whole('replyBytesMax', options.replyBytesMax, 513 * MIB),
    attemptsMax: whole('attemptsMax', options.attemptsMax, 3),
    redirectsMax: whole('redirectsMax', options.redirectsMax, 5),
  }
}

function sentinelOf(options: RedisOptions): SentinelConfig | undefined {
  const { sentinel, sentinelUser, sentinelPassword, reads } = options
  if (sentinel === undefined) {
    if (sentinelUser === undefined && sentinelPassword === undefined && reads === undefined) return
    throw invalid('settings of Sentinels go with redis+sentinel://, or the option sentinel')
  }
  if (options.cluster === true) throw invalid('the servers are Sentinels or a cluster, not both')
  if (options.path !== undefined)
    throw invalid('Sentinels are reached by TCP, by a name or an address')
  if (sentinel === '') throw invalid('sentinel takes the name of the master')
  if (reads !== undefined && !READS.has(reads))
    throw invalid('reads takes master, replica or prefer_replica')
  return { master: sentinel, user: sentinelUser, password: sentinelPassword, reads: reads ?? 'master' }
}

const READS = new Set<string>(['master', 'replica', 'prefer_replica'])

function serversOf(options: RedisOptions, named: Server[] | undefined): Server[] {
  if (options.path !== undefined) return [{ path: options.path }]
  const first = named?.[0]
  if (
    named !== undefined &&
    first !== undefined &&
    options.host === undefined &&
    options.port === undefined
  ) {
    return named
  }
  const port = options.sentinel === undefined ? PORT : SENTINEL_PORT
  const other = first !== undefined && 'host' in first ? first : { host: '127.0.0.1', port }
  return [{ host: options.host ?? other.host, port: portOf(options.port ?? other.port) }]
}

function merge(under: RedisOptions, over: RedisOptions): RedisOptions {
  const given = Object.entries(over).filter(([, value]) => value !== undefined)
  return { ...under, ...(Object.fromEntries(given) as RedisOptions) }
}

function whole(name: string, value: number | undefined, otherwise: number): number {
  if (value === undefined) return otherwise
  if (Number.isInteger(value) && value >= 0) return value
  throw invalid(`${name} takes a whole number of at least 0, not ${String(value)}`)
}

/** Reads a number of bytes, with a unit if it has one. */
function bytesOf(name: string, value: number | string): number {
  const [, digits, unit = ''] = /^(\d+)(KiB|MiB|GiB)?$/.exec(`${value}`) ?? []
  const bytes = Number(digits) * (UNITS[unit] as number)
  if (bytes <= CACHE_BYTES_MAX) return bytes
  throw invalid(`${name} takes a number of bytes, or of KiB, MiB or GiB, up to 2GiB: 64MiB`)
}

const UNITS: { readonly [unit: string]: number } = { '': 1, KiB: 1024, MiB: MIB, GiB: 1024 * MIB }

/** The module has 4 GiB for all connections and caches of the process. */
const CACHE_BYTES_MAX = 2048 * MIB

function portOf(port: number): number {
  if (Number.isInteger(port) && port > 0 && port < 65536) return port
  throw invalid('a port is a number from 1 to 65535')
}

const invalid = (message: string): Error => misuse('config', message)

const PORT = 6379
const SENTINEL_PORT = 26379

const SCHEMES: { [scheme: string]: 'tcp' | 'tls' | 'unix' } = {
  redis: 'tcp',
  valkey: 'tcp',
  rediss: 'tls',
  valkeys: 'tls',
  unix: 'unix',
  'redis+unix': 'unix',
  'valkey+unix': 'unix',
}

function fromUrl(url: string): RedisOptions {
  const [, scheme = '', slashes, rest = '', query = ''] =
    /^([a-z+]+):(\/\/)?([^?]*)(?:\?(.*))?$/is.exec(url) ?? []
  const [, plain = scheme, isSentinel] = /^(redis|rediss|valkey|valkeys)(\+sentinel)$/i.exec(scheme) ?? []
  const kind = SCHEMES[plain.toLowerCase()]
  if (kind === undefined)
    throw invalid(
      'a URL begins with redis://, rediss://, redis+sentinel://, rediss+sentinel:// or unix:',
    )
  if (kind !== 'unix' && slashes === undefined) throw invalid(`a URL begins with ${scheme}://`)
  const options: RedisOptions & { servers?: Server[] } = {}
  const at = rest.lastIndexOf('@')
  readLogin(options, at < 0 ? '' : rest.slice(0, at))
  const place = rest.slice(at + 1)
  if (kind === 'unix') {
    if (!place.startsWith('/'))
      throw invalid('unix: takes the absolute path of a socket')
    options.path = decode(place)
  } else {
    const [hosts = '', ...path] = place.split('/')
    if (isSentinel !== undefined) readMaster(options, hosts, path.shift())
    const [database] = path
    const port = isSentinel === undefined ? PORT : SENTINEL_PORT
    options.servers = hosts.split(',').map((host) => readServer(host, port))
    if (database !== undefined && database !== '')
      options.database = numberOf('database', decode(database))
  }
  if (kind === 'tls') options.tls = true
  for (const pair of query.split('&').filter(Boolean)) readPair(options, pair)
  return options
}

function readLogin(options: RedisOptions, login: string): void {
  const colon = login.indexOf(':')
  const user = colon < 0 ? login : login.slice(0, colon)
  if (user !== '') options.user = decode(user)
  if (colon >= 0 && colon + 1 < login.length) options.password = decode(login.slice(colon + 1))
}

function readMaster(options: RedisOptions, hosts: string, master: string | undefined): void {
  if (hosts === '' || !master)
    throw invalid('a URL of Sentinels names them and the master: redis+sentinel://host,host/mymaster')
  options.sentinel = decode(master)
}

function readServer(text: string, otherwise: number): Server {
  const [, bracketed, plain = '', port] = /^(?:\[([^\]]*)\]|([^:]*))(?::(.*))?$/.exec(text) ?? [
    undefined,
    undefined,
    undefined,
    'x',
  ]
  const host = bracketed ?? decode(plain)
  return { host: host === '' ? '127.0.0.1' : host, port: portOf(port ? Number(port) : otherwise) }
}

/** Settings of a URL that are numbers, and the options that they set. */
const NUMBERS: { [key: string]: keyof RedisOptions } = {
  db: 'database',
  connect_timeout_ms: 'connectTimeout',
  request_timeout_ms: 'requestTimeout',
  wait_timeout_ms: 'waitTimeout',
  idle_timeout_ms: 'idleTimeout',
  stall_timeout_ms: 'stallTimeout',
  in_flight_bytes_max: 'inFlightBytesMax',
  queue_bytes_max: 'queueBytesMax',
  waiting_bytes_max: 'waitingBytesMax',
  reply_bytes_max: 'replyBytesMax',
  connections_max: 'connectionsMax',
  attempts_max: 'attemptsMax',
  redirects_max: 'redirectsMax',
}

const FLAGS: { [key: string]: keyof RedisOptions } = {
  cluster: 'cluster',
  replica_reads: 'replicaReads',
  repeat_reads: 'repeatReads',
}

function readPair(options: RedisOptions, pair: string): void {
  const [key = '', ...rest] = pair.split('=')
  const value = decode(rest.join('='))
  const set = options as { [key: string]: unknown }
  const number = NUMBERS[key]
  const flag = FLAGS[key]
  if (number !== undefined) set[number] = numberOf(key, value)
  else if (flag !== undefined) set[flag] = flagOf(key, value)
  else if (key === 'client_name') options.clientName = value
  else if (key === 'cache') options.cache = value
  else if (key === 'sentinel_username') options.sentinelUser = value
  else if (key === 'sentinel_password') options.sentinelPassword = value
  else if (key === 'reads') set['reads'] = value
  else if (key === 'protocol' && (value === '2' || value === '3'))
    options.protocol = value === '2' ? 2 : 3
  else if (key === 'sslmode') readSslMode(options, value)
  else if (key === 'sslrootcert') readCertificate(options, 'ca', value)
  else if (key === 'sslcert') readCertificate(options, 'cert', value)
  else if (key === 'sslkey') readCertificate(options, 'key', value)
  else throw invalid(`${key} is not a setting of a URL, or its value is wrong`)
}

function readSslMode(options: RedisOptions, value: string): void {
  const others = typeof options.tls === 'object' ? options.tls : {}
  if (value === 'disable') options.tls = false
  else if (value === 'require') options.tls = { ...others, rejectUnauthorized: false }
  else if (value === 'verify-ca') options.tls = { ...others, checkServerIdentity: () => undefined }
  else if (value === 'verify-full') options.tls = others
  else throw invalid('sslmode takes disable, require, verify-ca or verify-full')
}

function readCertificate(options: RedisOptions, which: 'ca' | 'cert' | 'key', file: string): void {
  if (which === 'ca' && file === 'system') return
  const others = typeof options.tls === 'object' ? options.tls : {}
  options.tls = { ...others, [which]: readFileSync(file) }
}

function numberOf(key: string, value: string): number {
  if (/^\d+$/.test(value)) return Number(value)
  throw invalid(`${key} takes a whole number`)
}

function flagOf(key: string, value: string): boolean {
  if (value === '1' || value === 'true') return true
  if (value === '0' || value === 'false') return false
  throw invalid(`${key} takes 0 or 1`)
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw invalid('the URL has a % that encodes no character: write %25 for %')
  }
}
