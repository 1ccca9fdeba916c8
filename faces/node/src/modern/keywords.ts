import { KEYWORDS, SAYS, SWITCH, UNSUPPORTED, type Keyword } from './keyword-table'

/** The name of a setting: libpq's name if libpq has the setting, otherwise ours. */
export type Name = keyof typeof KEYWORDS

/** Settings as texts, as a connection string has them. */
export type Texts = Map<Name, string>

/**
 * Reads `postgres://user:password@host:port,…/dbname?name=value&…`. Errors don't quote the URL,
 * since it may hold a password.
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
    // JDBC's way to require TLS, as in libpq.
    if (pair === 'ssl=true') texts.set('sslmode', 'require')
    else texts.set(known(name), decode(pair.slice(at + 1)))
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
    throw new TypeError(
      'postgres: the connection string has a % that encodes no character: write %25 for %',
    )
  }
}

export function known(name: string): Name {
  if (Object.hasOwn(KEYWORDS, name)) return name as Name
  const what = Object.hasOwn(UNSUPPORTED, name) ? UNSUPPORTED[name] : undefined
  if (what === undefined) throw new TypeError(`postgres: ${SAYS.unknown}${name}`)
  throw new TypeError(`postgres: ${name}${SAYS.needs}${what}${SAYS.lacking}`)
}

/** The default of a setting; the empty text if it has none. */
export function otherwise(name: Name): string {
  const { otherwise }: Keyword = KEYWORDS[name]
  return otherwise ?? ''
}

/** Checks the text of a setting, and returns it. */
export function checked(name: Name, text: string): string {
  const { form }: Keyword = KEYWORDS[name]
  const wrong = (what: string): TypeError => new TypeError(`postgres: ${name} ${what}`)
  if (text.includes('\0')) throw wrong('has a zero byte in it')
  if (form === 'text') return text
  if (typeof form === 'number') {
    const number = Number(text)
    if (number > NUMBER_MAX) throw wrong(SAYS.atMost + NUMBER_MAX)
    if (!/^-?[0-9]{1,10}$/.test(text)) throw wrong(SAYS.whole)
    if (number < form) throw wrong(SAYS.atLeast + form)
    return text
  }
  const words = form === 'switch' ? SWITCH : form
  const at = words.indexOf(text)
  if (at < 0) throw wrong(SAYS.oneOf + words.join(', '))
  return form === 'switch' ? String(at % 2) : text
}

/** The largest number that both the engine and Node's timers take. */
const NUMBER_MAX = 0x7fff_ffff
