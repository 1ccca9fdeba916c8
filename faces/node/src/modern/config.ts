import { readFileSync } from 'node:fs'
import { createPrivateKey } from 'node:crypto'
import { isIP, type Socket } from 'node:net'
import { userInfo } from 'node:os'
import type { ConnectionOptions, SecureVersion } from 'node:tls'

import { notSettings } from '../engine/given'
import type { ReplicaSettings } from '../engine/replicas'
import { broken, saidOfTls } from '../engine/rules'
import { bindingIfAny } from '../pg/binding'
import { saslprep } from '../pg/saslprep'
import { passwordOf, serviceOf, wrongLine } from './files'
import { KEYWORDS, LACKING, RULES, TLS_OPTIONS, type Keyword } from './keyword-table'
import { checked, known, otherwise, readUrl, type Name, type Texts } from './keywords'
import { Values, type Types } from './types'

/** camelCase of a name with underscores. */
type Camel<N extends string> = N extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<Camel<Tail>>}`
  : N

/** A password, or a function that is called for one whenever a connection is opened. */
export type Password = string | (() => string | Promise<string>)

/** A message that the server sends beside its replies: a warning, or a RAISE NOTICE. */
export interface Notice {
  readonly severity: string | undefined
  readonly code: string | undefined
  readonly message: string
  readonly detail: string | undefined
  readonly hint: string | undefined
}

/**
 * Where to connect, as whom, and within which limits. A setting has the name that it has in a
 * connection string, in camelCase (`connectionsMax` for `connections_max`), and the same unit. A
 * setting here wins over the URL, and the URL over the environment (`PGHOST` and so on). An unknown
 * name is a `TypeError` of `postgres`.
 */
export type Config = {
  readonly [N in Exclude<Name, 'password'> as Camel<N>]?: string | number | boolean | undefined
} & {
  /** A connection string. */
  readonly url?: string | undefined
  readonly password?: Password | undefined
  /** Functions that decode values, by the name or the number of their type. */
  readonly types?: Types | undefined
  /**
   * Options of `tls.connect`. They win over those that follow from `sslmode` and the other settings
   * of TLS. With them a server without TLS is refused, and `sslmode` is `verify-full` by default.
   */
  readonly tls?: ConnectionOptions | undefined
  /** Is called with each notice of the server. Without it, notices are ignored. */
  readonly onNotice?: ((notice: Notice) => void) | undefined
}

/** One server of the list. */
export interface Endpoint {
  readonly host: string
  readonly port: number
  /** The address of `hostaddr`, or the one that the name was resolved to. */
  readonly address?: string
}

/** The settings of one client, checked and with the environment and the defaults filled in. */
export class Settings {
  readonly endpoints: readonly Endpoint[]
  readonly user: string
  readonly dbname: string
  readonly values: Values
  readonly onNotice: ((notice: Notice) => void) | undefined
  readonly tls: ConnectionOptions | undefined
  readonly #config: Config
  readonly #isReplica: boolean
  readonly #texts: Texts
  readonly #password: Password | undefined

  /** `ofReplica`: the settings of one server, made of those of its client. */
  constructor(given: string | Config | undefined, ofReplica?: Texts) {
    const why = notSettings(given)
    if (why !== undefined) throw new TypeError(`postgres: ${why}`)
    const config: Config = typeof given === 'string' ? { url: given } : (given ?? {})
    this.#config = config
    this.#texts = ofReplica ?? textsOf(config)
    this.#isReplica = ofReplica !== undefined
    // What is no read goes to the primary, so that has to be found.
    if (this.#readsAt > 0 && this.text('target_session_attrs') === undefined)
      this.#texts.set('target_session_attrs', 'primary')
    this.#password = typeof config.password === 'function' ? config.password : this.text('password')
    this.values = new Values(config.types)
    if (config.onNotice !== undefined && typeof config.onNotice !== 'function')
      throw new TypeError('postgres: onNotice takes a function')
    this.onNotice = config.onNotice
    this.tls = config.tls
    this.endpoints = endpointsOf(this.text('host') ?? '', this.text('hostaddr') ?? '', this.said('port'))
    this.user = this.text('user') ?? userInfo().username
    this.dbname = this.text('dbname') ?? this.user
    this.#checkRules()
    if (this.#version('ssl_max_protocol_version') < this.#version('ssl_min_protocol_version'))
      throw new TypeError(NO_VERSION)
    this.tlsOf('localhost')
  }

  text(name: Name): string | undefined {
    return this.#texts.get(name)
  }

  /** The setting, or its default. */
  said(name: Name): string {
    return this.#texts.get(name) ?? otherwise(name)
  }

  number(name: Name): number {
    return Number(this.said(name))
  }

  isOn(name: Name): boolean {
    return this.said(name) === '1'
  }

  /** The password for a server, if there is one. */
  async password({ host, port }: Endpoint): Promise<string | undefined> {
    const given = this.#password
    if (typeof given === 'string') return given
    if (given === undefined)
      return passwordOf(this.text('passfile'), [host, String(port), this.dbname, this.user])
    const password: unknown = await given()
    if (typeof password !== 'string')
      throw new TypeError('the password function must return a string, or a promise of one')
    return checked('password', password)
  }

  /** The options of TLS for this host; undefined if TLS is not used. */
  tlsOf(host: string): ConnectionOptions | undefined {
    const mode = this.#sslmode
    if (mode === 'disable' || host.startsWith('/')) return undefined
    const root = this.text('sslrootcert')
    const [cert, key] = [this.text('sslcert'), this.text('sslkey')]
    const options: ConnectionOptions = {
      minVersion: this.#version('ssl_min_protocol_version'),
      maxVersion: this.#version('ssl_max_protocol_version'),
    }
    if (root !== undefined && root !== 'system') options.ca = fileOf('sslrootcert', root)
    if (this.said('sslcertmode') !== 'disable') {
      if (cert !== undefined) options.cert = fileOf('sslcert', cert)
      if (key !== undefined) Object.assign(options, keyOf(key, this.text('sslpassword')))
    }
    // As in libpq: `require` verifies the certificate only if `sslrootcert` names an authority.
    const verifies = mode.startsWith('verify') || (mode === 'require' && root !== undefined)
    if (!verifies) options.rejectUnauthorized = false
    const revoked = this.text('sslcrl')
    if (verifies && revoked !== undefined) options.crl = fileOf('sslcrl', revoked)
    if (verifies && mode !== 'verify-full') options.checkServerIdentity = () => undefined
    return { ...options, ...this.tls }
  }

  /**
   * The mode that is in force. `tls` makes TLS required. Anybody can get a certificate from a public
   * authority, so with `tls` or `sslrootcert=system` the default verifies the host name too, as in
   * libpq.
   */
  get #sslmode(): string {
    const isStrict = this.tls !== undefined || this.text('sslrootcert') === 'system'
    const mode = this.text('sslmode') ?? (isStrict ? 'verify-full' : otherwise('sslmode'))
    return this.tls !== undefined && /^(?:allow|prefer)$/.test(mode) ? 'require' : mode
  }

  /** Refuses settings that contradict each other, or that say nothing where they stand. */
  #checkRules(): void {
    const ofTls = saidOfTls(this.tls)
    const inForce = {
      ...Object.fromEntries(this.#texts),
      ...ofTls,
      sslmode: this.#sslmode,
      sslnegotiation: this.said('sslnegotiation'),
      sslcertmode: this.said('sslcertmode'),
    }
    const inProgram = { ...Object.fromEntries(inProgramOf(this.#config)), ...ofTls }
    const why = broken(RULES, inForce) ?? broken(TLS_OPTIONS, inProgram)
    if (why !== undefined) throw new TypeError(`postgres: ${why}`)
  }

  /** A version of TLS by its name, in any case. What is older than 1.2 counts as that. */
  #version(name: 'ssl_min_protocol_version' | 'ssl_max_protocol_version'): SecureVersion {
    const isOldest = name === 'ssl_min_protocol_version'
    const text = (this.text(name) ?? (isOldest ? 'TLSv1.2' : 'TLSv1.3')).toLowerCase()
    if (text === 'tlsv1.3') return 'TLSv1.3'
    if (text === 'tlsv1.2' || (isOldest && /^tlsv1(?:\.1)?$/.test(text))) return 'TLSv1.2'
    throw new TypeError(`postgres: ${name} takes one of TLSv1.2, TLSv1.3`)
  }

  /** The same for each server of the list alone, which has to be a standby, if reads go to any. */
  replicas(): Settings[] {
    if (this.#readsAt === 0) return []
    return this.endpoints.map(({ host, port, address }) => {
      const texts: Texts = new Map(this.#texts)
      texts.set('host', host).set('port', String(port)).set('hostaddr', address ?? '')
      texts.set('target_session_attrs', 'standby')
      return new Settings(this.#config, texts)
    })
  }

  get #readsAt(): number {
    return KEYWORDS.reads.form.indexOf(this.said('reads') as 'primary')
  }

  /** The settings of reads on so many replicas (`onetrip_replicas_new`). */
  ofReplicas(count: number): ReplicaSettings {
    return {
      count,
      reads: this.#readsAt,
      maxLagMs: this.number('max_lag_ms'),
      waitTimeoutMs: this.number('wait_timeout_ms'),
    }
  }

  /** The settings of the connect plan (`onetrip_connect_new`). */
  ofPlan(scouts = false): [string, string][] {
    return [
      ...this.#ofServers(),
      ['connect_timeout_ms', String(this.number('connect_timeout') * 1000)],
      ['sslmode', this.#sslmode],
      ['sslnegotiation', this.said('sslnegotiation')],
      ['load_balance_hosts', this.said('load_balance_hosts')],
      ['scouts', scouts ? '1' : '0'],
    ]
  }

  /** Which servers the client may meet. */
  #ofServers(): [string, string][] {
    const hosts = this.endpoints.map(({ host, address }) => {
      if (address !== undefined) return 'a'
      if (host.startsWith('/')) return 's'
      return isIP(host) === 0 ? 'n' : 'a'
    })
    return [
      ['hosts', hosts.join('')],
      ['target_session_attrs', this.said('target_session_attrs')],
    ]
  }

  /**
   * The settings of the engine for one connection to this address. `secure`: TLS verified the
   * server.
   */
  ofEngine(
    password: string | undefined,
    address: string,
    secure: boolean,
    stream: Socket,
  ): [string, string][] {
    const isLocal = address.startsWith('/') || LOOPBACK.test(address)
    const settings: [string, string][] = [
      ['user', this.user],
      ['database', this.dbname],
      ['secure_channel', secure || isLocal ? '1' : '0'],
      ['allow_cleartext', this.said('allow_plain_password')],
      ['statements_max', this.said('prepared_max')],
    ]
    if (this.#readsAt > 0) settings.push([this.#isReplica ? 'replica' : 'watch_positions', '1'])
    if (password !== undefined) settings.push(['password', saslprep(password)])
    const binding = this.text('channel_binding') === 'disable' ? undefined : bindingIfAny(stream)
    if (binding !== undefined) settings.push(['channel_binding', binding])
    for (const name of OF_ENGINE) {
      const text = this.text(name)
      if (text !== undefined) settings.push([name, text])
    }
    const application = this.text('application_name') ?? this.text('fallback_application_name')
    if (application !== undefined) settings.push(['parameter.application_name', application])
    const options = this.text('options')
    if (options !== undefined) settings.push(['parameter.options', options])
    return settings
  }

  /** The settings of the pool's policy (`onetrip_pool_new`). */
  ofPool(): [string, string][] {
    const settings = this.#ofServers()
    for (const name of OF_POOL) {
      const text = this.text(name)
      if (text !== undefined) settings.push([name, text])
    }
    if (/^(?:fifo|oldest)$/.test(this.said('idle_order'))) settings.push(['oldest_first', '1'])
    return settings
  }
}

const NO_VERSION =
  'postgres: ssl_min_protocol_version is newer than ssl_max_protocol_version: raise the latter'

const LOOPBACK = /^(?:(?:::ffff:)?127\.\d+\.\d+\.\d+|::1)$/

const OF_ENGINE = [
  'target_session_attrs',
  'scram_iterations_max',
  'in_flight_max',
  'in_flight_bytes_max',
  'queue_max',
  'queue_bytes_max',
  'stall_timeout_ms',
  'prepare_threshold',
] as const

const OF_POOL = [
  'connections_max',
  'connections_min',
  'waiting_max',
  'wait_timeout_ms',
  'idle_timeout_ms',
  'lifetime_ms',
  'slow_head_ms',
  'yield_after_ms',
] as const

/** What a call and its URL say. */
function inProgramOf(config: Config): Texts {
  const texts: Texts = config.url === undefined ? new Map() : readUrl(config.url)
  for (const [key, value] of Object.entries(config)) {
    if (value === undefined || value === null || OBJECTS.has(key) || typeof value === 'function')
      continue
    texts.set(known(key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)), String(value))
  }
  return texts
}

function textsOf(config: Config): Texts {
  const texts = inProgramOf(config)
  addService(texts)
  for (const [variable, harmless, what] of LACKING) {
    const text = process.env[variable]
    if (text && text !== harmless)
      throw new TypeError(
        `postgres: the environment variable ${variable} asks for ${what}, which isn't in this version: unset it`,
      )
  }
  for (const [name, { variable }] of Object.entries<Keyword>(KEYWORDS)) {
    const text = variable === undefined ? undefined : process.env[variable]
    if (text && !texts.has(name as Name)) texts.set(name as Name, text)
  }
  // libpq's old name for it, which libpq still reads.
  if (process.env['PGREQUIRESSL']?.startsWith('1') && !texts.has('sslmode')) texts.set('sslmode', 'require')
  for (const [name, text] of texts) {
    // An empty text counts as not set.
    if (text === '') texts.delete(name)
    else texts.set(name, checked(name, text))
  }
  return texts
}

/** Options that exist only in the object, not in a connection string. */
const OBJECTS = new Set(['url', 'types', 'tls', 'onNotice'])

/** The settings of the service, where nothing else is said. */
function addService(texts: Texts): void {
  const service = texts.get('service') || process.env['PGSERVICE']
  if (!service) return
  const named = texts.get('servicefile') || process.env['PGSERVICEFILE'] || undefined
  const { file, lines } = serviceOf(service, named)
  for (const [number, keyword, text] of lines) {
    try {
      const name = known(keyword)
      if (text !== '') checked(name, text)
      // The first line of a keyword counts, as in libpq.
      if (!texts.has(name)) texts.set(name, text)
    } catch (error) {
      throw wrongLine(file, number, (error as Error).message.replace('postgres: ', ''))
    }
  }
}

/** What is in the file that a setting names. */
function fileOf(setting: string, file: string): Buffer {
  try {
    return readFileSync(file)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new TypeError(`postgres: the file ${file} (${setting}) can't be read: ${code}`)
  }
}

/** The options for the client's key. OpenSSL's own error says nothing of a password. */
function keyOf(file: string, passphrase: string | undefined): ConnectionOptions {
  const key = fileOf('sslkey', file)
  if (!key.includes('ENCRYPTED')) return { key }
  try {
    createPrivateKey({ key, passphrase: passphrase ?? '' })
  } catch {
    const what = passphrase === undefined ? 'set sslpassword' : 'sslpassword does not open it'
    throw new TypeError(`postgres: the key in ${file} (sslkey) is encrypted: ${what}`)
  }
  return { key, passphrase: passphrase ?? '' }
}

function endpointsOf(hosts: string, hostaddrs: string, ports: string): Endpoint[] {
  const addresses = hostaddrs === '' ? [] : hostaddrs.split(',')
  if (addresses.some((address) => address !== '' && isIP(address) === 0))
    throw new TypeError('postgres: hostaddr takes IPv4 or IPv6 addresses, not names')
  const names = hosts === '' ? addresses.map(() => '') : hosts.split(',')
  if (addresses.length > 0 && names.length !== addresses.length) {
    const what = `${names.length} hosts and ${addresses.length} hostaddr values don't match`
    throw new TypeError(`postgres: ${what}`)
  }
  const [list, portList] = [names.length === 0 ? [''] : names, ports.split(',')]
  if (portList.length !== 1 && portList.length !== list.length) {
    throw new TypeError('postgres: there is one port for all hosts, or one for each')
  }
  return list.map((host, i) => {
    const text = (portList.length === 1 ? portList[0] : portList[i]) || '5432'
    const port = Number(text)
    if (!/^[0-9]{1,5}$/.test(text) || port < 1 || port > 65_535) {
      throw new TypeError('postgres: a port is a number from 1 to 65535')
    }
    const address = addresses[i] || undefined
    const it = { host: host || address || 'localhost', port }
    return address === undefined ? it : { ...it, address }
  })
}
