import { readFileSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'

import { notSettings } from '../engine/given'
import { broken, saidOfTls } from '../engine/rules'
import { misuse } from './error'
import { RULES, TLS_OPTIONS } from './rule-table'

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

/** What a URL says beside the options. */
interface Given extends RedisOptions {
  servers?: Server[]
  /** The URL begins with rediss://, or the like. */
  isTls?: boolean
  sslmode?: string
  sslrootcert?: string
  sslcert?: string
  sslkey?: string
}

/** Reads a URL, options, or both. Throws if a setting is unknown, wrong, or contradicts another. */
export function configOf(given: string | RedisOptions = {}): Config {
  const why = notSettings(given)
  if (why !== undefined) throw invalid(why)
  const direct = typeof given === 'string' ? { url: given } : given
  for (const name of Object.keys(direct))
    if (!Object.hasOwn(OPTIONS, name)) throw invalid(`${name} is not a setting`)
  const { url } = direct
  const options = merge(typeof url === 'string' ? fromUrl(url) : {}, direct)
  for (const [name, value] of Object.entries(options))
    if (typeof value === 'string' && value.includes('\0'))
      throw invalid(`${name} has a zero byte in it`)
  const config = {
    servers: serversOf(options, options.servers),
    user: options.user,
    password: options.password,
    database: whole('database', options.database, 0),
    clientName: options.clientName,
    protocol: protocolOf(options.protocol),
    tls: undefined,
    cluster: isOn('cluster', options.cluster),
    replicaReads: isOn('replicaReads', options.replicaReads),
    sentinel: sentinelOf(options),
    repeatReads: isOn('repeatReads', options.repeatReads),
    cache: bytesOf('cache', options.cache ?? 0),
    connectTimeout: atLeastOne('connectTimeout', options.connectTimeout, 10_000),
    waitTimeout: atLeastOne('waitTimeout', options.waitTimeout, 5_000),
    requestTimeout: whole('requestTimeout', options.requestTimeout, 0),
    idleTimeout: atLeastOne('idleTimeout', options.idleTimeout, 60_000),
    stallTimeout: atLeastOne('stallTimeout', options.stallTimeout, 30_000),
    connectionsMax: atLeastOne('connectionsMax', options.connectionsMax, 64),
    inFlightBytesMax: atLeastOne('inFlightBytesMax', options.inFlightBytesMax, 16 * MIB),
    queueBytesMax: atLeastOne('queueBytesMax', options.queueBytesMax, 16 * MIB),
    waitingBytesMax: atLeastOne('waitingBytesMax', options.waitingBytesMax, 1024 * MIB),
    replyBytesMax: atLeastOne('replyBytesMax', options.replyBytesMax, 513 * MIB),
    attemptsMax: atLeastOne('attemptsMax', options.attemptsMax, 3),
    redirectsMax: atLeastOne('redirectsMax', options.redirectsMax, 5),
  }
  checkRules(options, config)
  return { ...config, tls: tlsOf(options) }
}

/** All options; one that is not here is refused. */
const OPTIONS: { readonly [N in keyof Required<RedisOptions>]: true } = {
  url: true,
  host: true,
  port: true,
  path: true,
  user: true,
  password: true,
  database: true,
  clientName: true,
  protocol: true,
  tls: true,
  cluster: true,
  replicaReads: true,
  sentinel: true,
  sentinelUser: true,
  sentinelPassword: true,
  reads: true,
  repeatReads: true,
  cache: true,
  connectTimeout: true,
  waitTimeout: true,
  requestTimeout: true,
  idleTimeout: true,
  stallTimeout: true,
  connectionsMax: true,
  inFlightBytesMax: true,
  queueBytesMax: true,
  waitingBytesMax: true,
  replyBytesMax: true,
  attemptsMax: true,
  redirectsMax: true,
}

/** Refuses settings that contradict each other, or that say nothing where they stand. */
function checkRules(options: Given, config: Config): void {
  const on = (is: boolean): string | undefined => (is ? '1' : undefined)
  const { sslrootcert, sslcert, sslkey, tls } = options
  const files = { sslrootcert, sslcert, sslkey }
  const ofTls = saidOfTls(tls === true ? {} : tls || undefined)
  const said = {
    ...files,
    ...ofTls,
    host: options.host,
    path: options.path,
    master: options.sentinel,
    protocol: `${config.protocol}`,
    db: on(config.database > 0),
    cluster: on(config.cluster),
    cache: on(config.cache > 0),
    replica_reads: on(config.replicaReads),
    sentinel_username: options.sentinelUser,
    sentinel_password: options.sentinelPassword,
    reads: options.reads,
    rediss: on(options.isTls === true && tls === undefined),
    sslmode: modeOf(options),
    sslcertmode: 'allow',
  }
  const why =
    broken(RULES, said) ??
    broken(TLS_OPTIONS, { ...files, ...ofTls, ...(options.sslmode ? { sslmode: options.sslmode } : {}) })
  if (why !== undefined) throw invalid(why)
}

/** The mode of TLS that is in force. Options of TLS verify the server. */
function modeOf({ tls, sslmode, isTls }: Given): string {
  if (tls === false) return 'disable'
  if (tls !== undefined && (sslmode === undefined || sslmode === 'require')) return 'verify-full'
  return sslmode ?? (isTls === true ? 'verify-full' : 'disable')
}

function tlsOf(options: Given): ConnectionOptions | undefined {
  const mode = modeOf(options)
  if (mode === 'disable') return undefined
  const { sslrootcert: root, sslcert, sslkey, tls } = options
  const made: ConnectionOptions = {}
  if (root !== undefined && root !== 'system') made.ca = fileOf('sslrootcert', root)
  if (sslcert !== undefined) made.cert = fileOf('sslcert', sslcert)
  if (sslkey !== undefined) made.key = fileOf('sslkey', sslkey)
  // Who names an authority wants it looked at, as in libpq.
  if (mode === 'require' && root === undefined) made.rejectUnauthorized = false
  else if (mode !== 'verify-full') made.checkServerIdentity = () => undefined
  return { ...made, ...(typeof tls === 'object' ? tls : {}) }
}

function fileOf(setting: string, file: string): Buffer {
  try {
    return readFileSync(file)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw invalid(`the file ${file} (${setting}) can't be read: ${code}`)
  }
}

function sentinelOf({ sentinel, sentinelUser, sentinelPassword, reads }: Given): SentinelConfig | undefined {
  if (reads !== undefined && !READS.has(reads))
    throw invalid('reads takes master, replica or prefer_replica')
  if (sentinel === undefined) return undefined
  if (sentinel === '') throw invalid('sentinel takes the name of the master')
  return { master: sentinel, user: sentinelUser, password: sentinelPassword, reads: reads ?? 'master' }
}

const READS = new Set<string>(['master', 'replica', 'prefer_replica'])

function protocolOf(protocol: unknown): 2 | 3 {
  if (protocol === undefined || protocol === 3) return 3
  if (protocol === 2) return 2
  throw invalid('protocol takes 2 or 3')
}

function isOn(name: string, value: unknown): boolean {
  return value === undefined ? false : flagOf(name, String(value))
}

function serversOf(options: Given, named: Server[] | undefined): Server[] {
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

function merge(under: Given, over: RedisOptions): Given {
  const given = Object.entries(over).filter(([, value]) => value !== undefined && value !== null)
  return { ...under, ...(Object.fromEntries(given) as RedisOptions) }
}

function whole(name: string, value: number | undefined, otherwise: number): number {
  if (value === undefined) return otherwise
  if (name.endsWith('Timeout') && value > LONGEST)
    throw invalid(`${name} takes at most ${LONGEST} ms`)
  if (Number.isInteger(value) && value >= 0) return value
  throw invalid(`${name} takes a whole number of at least 0, not ${String(value)}`)
}

/** The longest timer that Node takes, in milliseconds. */
const LONGEST = 0x7fffffff

function atLeastOne(name: string, value: number | undefined, otherwise: number): number {
  const number = whole(name, value, otherwise)
  if (number > 0) return number
  throw invalid(`${name} takes a number from 1`)
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

function fromUrl(url: string): Given {
  const [, scheme = '', slashes, rest = '', query = ''] =
    /^([a-z+]+):(\/\/)?([^?]*)(?:\?(.*))?$/is.exec(url) ?? []
  const [, plain = scheme, isSentinel] = /^(redis|rediss|valkey|valkeys)(\+sentinel)$/i.exec(scheme) ?? []
  const kind = SCHEMES[plain.toLowerCase()]
  if (kind === undefined)
    throw invalid(
      'a URL begins with redis://, rediss://, redis+sentinel://, rediss+sentinel:// or unix:',
    )
  if (kind !== 'unix' && slashes === undefined) throw invalid(`a URL begins with ${scheme}://`)
  const options: Given = {}
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
  if (kind === 'tls') options.isTls = true
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

function readPair(options: Given, pair: string): void {
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
  else if (key === 'sslmode') options.sslmode = modeNamed(value)
  else if (key === 'sslrootcert' || key === 'sslcert' || key === 'sslkey') options[key] = value
  else throw invalid(`${key} is not a setting of a URL, or its value is wrong`)
}

function modeNamed(value: string): string {
  if (/^(?:disable|require|verify-ca|verify-full)$/.test(value)) return value
  throw invalid('sslmode takes disable, require, verify-ca or verify-full')
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
