import { readFileSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'

import { misuse } from './error'

/** How to reach a server, and what to bound. Times are in milliseconds. */
export interface RedisOptions {
  /**
   * `redis://user:password@host:port/database`, `rediss://…` for TLS, or `unix:/path/of/socket`.
   * Options beside it win.
   */
  url?: string | undefined
  /** Default 127.0.0.1. */
  host?: string | undefined
  /** Default 6379. */
  port?: number | undefined
  /** The path of a Unix socket, in place of host and port. */
  path?: string | undefined
  user?: string | undefined
  password?: string | undefined
  /** Default 0. */
  database?: number | undefined
  /** What `CLIENT LIST` shows of the connections. */
  clientName?: string | undefined
  /** 3 (the default) speaks RESP2 where the server has nothing better; 2 speaks nothing better. */
  protocol?: 2 | 3 | undefined
  /**
   * True, or the options of `tls.connect`. The server's certificate and name are verified unless
   * those say otherwise.
   */
  tls?: boolean | ConnectionOptions | undefined
  /** The servers are nodes of a cluster. */
  cluster?: boolean | undefined
  /** In a cluster: replicas answer what only reads, and may be behind. Default false. */
  replicaReads?: boolean | undefined
  /**
   * Commands that only read may be sent again by themselves where a connection was lost. Default
   * false.
   */
  repeatReads?: boolean | undefined
  /** How long a server may take to become a usable connection. Default 10 s. */
  connectTimeout?: number | undefined
  /** How long calls wait for a connection. Default 5 s. */
  waitTimeout?: number | undefined
  /** How long a command may take, its wait included. Default 0: for ever. */
  requestTimeout?: number | undefined
  /** When a connection of its own that nobody uses is closed. Default 60 s. */
  idleTimeout?: number | undefined
  /** How long the server may take no bytes. Default 30 s. */
  stallTimeout?: number | undefined
  /** Connections that are lent at a time, to sessions and to what blocks. Default 64. */
  connectionsMax?: number | undefined
  /** Bytes of commands sent and unanswered. Default 16 MiB. */
  inFlightBytesMax?: number | undefined
  /** Bytes of commands that wait for that window. Default 16 MiB. */
  queueBytesMax?: number | undefined
  /**
   * Bytes of commands that wait for the queue, or for a connection. More are refused. Default 1
   * GiB.
   */
  waitingBytesMax?: number | undefined
  /**
   * Bytes of one reply, which is kept until it is whole. A longer one ends the connection. Default
   * 513 MiB.
   */
  replyBytesMax?: number | undefined
  /** How often a command that may be repeated is sent. Default 3. */
  attemptsMax?: number | undefined
  /** How often a command of a cluster is sent elsewhere. Default 5. */
  redirectsMax?: number | undefined
}

/** A server. */
export type Server = { readonly host: string; readonly port: number } | { readonly path: string }

/** All of it, with defaults. */
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
  readonly repeatReads: boolean
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

const MIB = 1024 * 1024

/** Reads a URL, options, or a URL within options. Throws where something is wrong with them. */
export function configOf(given: string | RedisOptions = {}): Config {
  const direct = typeof given === 'string' ? { url: given } : given
  const options: RedisOptions =
    direct.url === undefined ? direct : merge(fromUrl(direct.url), direct)
  const servers = (options as { servers?: Server[] }).servers
  const tls = options.tls
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
    repeatReads: options.repeatReads ?? false,
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
  const other = first !== undefined && 'host' in first ? first : { host: '127.0.0.1', port: PORT }
  return [{ host: options.host ?? other.host, port: portOf(options.port ?? other.port) }]
}

function merge(under: RedisOptions, over: RedisOptions): RedisOptions {
  const given = Object.entries(over).filter(([, value]) => value !== undefined)
  return { ...under, ...(Object.fromEntries(given) as RedisOptions) }
}

function whole(name: string, value: number | undefined, otherwise: number): number {
  if (value === undefined) return otherwise
  if (Number.isInteger(value) && value >= 0) return value
  throw invalid(`${name} is to be a whole number, not ${String(value)}`)
}

function portOf(port: number): number {
  if (Number.isInteger(port) && port > 0 && port < 65536) return port
  throw invalid('a port is a number from 1 to 65535')
}

const invalid = (message: string): Error => misuse('config', message)

const PORT = 6379

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
  const kind = SCHEMES[scheme.toLowerCase()]
  if (kind === undefined)
    throw invalid('the scheme of the URL is none of redis://, rediss:// and unix:')
  if (kind !== 'unix' && slashes === undefined) throw invalid(`behind ${scheme}: stands //`)
  const options: RedisOptions & { servers?: Server[] } = {}
  const at = rest.lastIndexOf('@')
  readLogin(options, at < 0 ? '' : rest.slice(0, at))
  const place = rest.slice(at + 1)
  if (kind === 'unix') {
    if (!place.startsWith('/'))
      throw invalid('behind unix: stands the path of a socket, from the root')
    options.path = decode(place)
  } else {
    const [hosts = '', database] = place.split('/')
    options.servers = hosts.split(',').map(readServer)
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

function readServer(text: string): Server {
  const [, bracketed, plain = '', port] = /^(?:\[([^\]]*)\]|([^:]*))(?::(.*))?$/.exec(text) ?? [
    undefined,
    undefined,
    undefined,
    'x',
  ]
  const host = bracketed ?? decode(plain)
  return { host: host === '' ? '127.0.0.1' : host, port: portOf(port ? Number(port) : PORT) }
}

/** Keys of a URL that are numbers, by the name of their option. */
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
  else if (key === 'protocol' && (value === '2' || value === '3'))
    options.protocol = value === '2' ? 2 : 3
  else if (key === 'sslmode') readSslMode(options, value)
  else if (key === 'sslrootcert') readCertificate(options, 'ca', value)
  else if (key === 'sslcert') readCertificate(options, 'cert', value)
  else if (key === 'sslkey') readCertificate(options, 'key', value)
  else throw invalid(`${key} is no setting of a URL, or has another kind of value`)
}

function readSslMode(options: RedisOptions, value: string): void {
  const others = typeof options.tls === 'object' ? options.tls : {}
  if (value === 'disable') options.tls = false
  else if (value === 'require') options.tls = { ...others, rejectUnauthorized: false }
  else if (value === 'verify-ca') options.tls = { ...others, checkServerIdentity: () => undefined }
  else if (value === 'verify-full') options.tls = others
  else throw invalid('sslmode is to be disable, require, verify-ca or verify-full')
}

function readCertificate(options: RedisOptions, which: 'ca' | 'cert' | 'key', file: string): void {
  if (which === 'ca' && file === 'system') return
  const others = typeof options.tls === 'object' ? options.tls : {}
  options.tls = { ...others, [which]: readFileSync(file) }
}

function numberOf(key: string, value: string): number {
  if (/^\d+$/.test(value)) return Number(value)
  throw invalid(`${key} is to be a number`)
}

function flagOf(key: string, value: string): boolean {
  if (value === '1' || value === 'true') return true
  if (value === '0' || value === 'false') return false
  throw invalid(`${key} is to be 0 or 1`)
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw invalid('a percent sign in the URL begins no character')
  }
}
