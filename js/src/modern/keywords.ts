/** How the text of a setting is read. */
export type Form = 'text' | 'count' | 'zero' | 'seconds' | 'switch' | readonly string[]

/**
 * A setting that a connection string can have, and the variable of the environment that it is
 * otherwise taken from.
 */
export interface Keyword {
  readonly form: Form
  readonly variable?: string
}

/**
 * By the names that libpq has for them, and for those that it has not, the names of onetrip in all
 * languages.
 */
export const KEYWORDS = {
  host: { form: 'text', variable: 'PGHOST' },
  port: { form: 'text', variable: 'PGPORT' },
  dbname: { form: 'text', variable: 'PGDATABASE' },
  user: { form: 'text', variable: 'PGUSER' },
  password: { form: 'text', variable: 'PGPASSWORD' },
  application_name: { form: 'text', variable: 'PGAPPNAME' },
  fallback_application_name: { form: 'text' },
  options: { form: 'text', variable: 'PGOPTIONS' },
  client_encoding: {
    form: ['UTF8', 'utf8', 'UTF-8', 'utf-8', 'auto'],
    variable: 'PGCLIENTENCODING',
  },
  connect_timeout: { form: 'seconds', variable: 'PGCONNECT_TIMEOUT' },
  keepalives: { form: 'switch' },
  keepalives_idle: { form: 'zero' },
  sslmode: {
    form: ['disable', 'prefer', 'require', 'verify-ca', 'verify-full'],
    variable: 'PGSSLMODE',
  },
  sslnegotiation: { form: ['postgres', 'direct'], variable: 'PGSSLNEGOTIATION' },
  sslrootcert: { form: 'text', variable: 'PGSSLROOTCERT' },
  sslcert: { form: 'text', variable: 'PGSSLCERT' },
  sslkey: { form: 'text', variable: 'PGSSLKEY' },
  channel_binding: { form: ['prefer', 'disable'], variable: 'PGCHANNELBINDING' },
  gssencmode: { form: ['prefer', 'disable'], variable: 'PGGSSENCMODE' },
  target_session_attrs: { form: ['any'], variable: 'PGTARGETSESSIONATTRS' },
  load_balance_hosts: { form: ['disable'], variable: 'PGLOADBALANCEHOSTS' },
  allow_plain_password: { form: 'switch' },
  scram_iterations_max: { form: 'count' },
  in_flight_max: { form: 'count' },
  in_flight_bytes_max: { form: 'count' },
  queue_max: { form: 'count' },
  queue_bytes_max: { form: 'count' },
  waiting_max: { form: 'count' },
  stall_timeout_ms: { form: 'count' },
  request_timeout_ms: { form: 'zero' },
  cancel_on_timeout: { form: 'switch' },
  result_bytes_max: { form: 'zero' },
  prepare_threshold: { form: 'zero' },
  prepared_max: { form: 'zero' },
  connections_max: { form: 'count' },
  connections_min: { form: 'zero' },
  wait_timeout_ms: { form: 'count' },
  idle_timeout_ms: { form: 'count' },
  lifetime_ms: { form: 'count' },
  idle_order: { form: ['newest', 'oldest'] },
} as const satisfies { readonly [name: string]: Keyword }

export type Name = keyof typeof KEYWORDS

/** Settings as texts, as a connection string has them. */
export type Texts = Map<Name, string>

/**
 * Reads `postgres://user:password@host:port,…/dbname?name=value&…`. Nothing of it is in an error: a
 * password may be.
 */
export function readUrl(url: string): Texts {
  const texts: Texts = new Map()
  const parts = URL_PARTS.exec(url)
  if (parts === null) {
    throw new TypeError('postgres: a connection string begins with postgres:// or postgresql://')
  }
  const [, user, password, hosts, dbname, query] = parts
  if (user) texts.set('user', decode(user))
  if (password) texts.set('password', decode(password))
  if (hosts) readHosts(hosts, texts)
  if (dbname) texts.set('dbname', decode(dbname))
  for (const pair of query?.split('&') ?? []) {
    if (pair === '') continue
    const at = pair.indexOf('=')
    const name = decode(at < 0 ? pair : pair.slice(0, at))
    if (at < 0) throw new TypeError(`postgres: the parameter ${name} has no value`)
    texts.set(known(name), decode(pair.slice(at + 1)))
  }
  return texts
}

const URL_PARTS =
  /^postgres(?:ql)?:\/\/(?:([^:@/?#]*)(?::([^@/?#]*))?@)?([^@/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/

function readHosts(text: string, texts: Texts): void {
  const hosts: string[] = []
  const ports: string[] = []
  for (const one of text.split(',')) {
    const [, inBrackets, plain, port] = /^(?:\[([^\]]*)\]|([^:]*))(?::([0-9]*))?$/.exec(one) ?? []
    if (inBrackets === undefined && plain === undefined) {
      throw new TypeError('postgres: a host of the connection string can’t be read')
    }
    hosts.push(decode(inBrackets ?? plain ?? ''))
    ports.push(port ?? '')
  }
  texts.set('host', hosts.join(','))
  if (ports.some((port) => port !== '')) texts.set('port', ports.join(','))
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw new TypeError('postgres: the connection string has a % that begins no character')
  }
}

export function known(name: string): Name {
  if (Object.hasOwn(KEYWORDS, name)) return name as Name
  throw new TypeError(`postgres: there is no setting ${name}`)
}

/** Checks the text of a setting, and returns it. */
export function checked(name: Name, text: string): string {
  const { form }: Keyword = KEYWORDS[name]
  if (text.includes('\0')) throw new TypeError(`postgres: ${name} has a zero byte in it`)
  if (form === 'text') return text
  if (typeof form === 'object') {
    if (form.includes(text)) return text
    throw new TypeError(`postgres: ${name} is one of ${form.join(', ')}`)
  }
  if (form === 'switch') {
    if (/^(?:0|1|true|false|on|off)$/.test(text)) return /^(?:1|true|on)$/.test(text) ? '1' : '0'
    throw new TypeError(`postgres: ${name} is 0 or 1`)
  }
  const least = form === 'count' ? 1 : 0
  if (/^[0-9]{1,10}$/.test(text) && Number(text) >= least && Number(text) <= NUMBER_MAX) return text
  throw new TypeError(`postgres: ${name} is a number from ${least} to ${NUMBER_MAX}`)
}

/** The largest number that the engine takes, and Node's timers. */
const NUMBER_MAX = 0x7fff_ffff
