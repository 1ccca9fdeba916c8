import assert from 'node:assert/strict'
import { createHash, createPrivateKey, X509Certificate } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { createServer, type TLSSocket } from 'node:tls'

import { postgres, type PostgresError } from '../src/modern'
import type { Config } from '../src/modern/config'
import { ask, CLEARTEXT, login, MD5, scram, WELCOME, type Lead, type Place } from './pg-login-servers'
import { failure, message, ready } from './pg-served'
import { cert, edwards, key, stranger } from './pg-tls-files'

const folder = mkdtempSync(join(tmpdir(), 'onetrip-tls-'))
const [root, other] = [join(folder, 'root.crt'), join(folder, 'other.crt')]
const variables = Object.keys(process.env).filter((name) => name.startsWith('PG'))
const environment = Object.fromEntries(variables.map((name) => [name, process.env[name]]))

before(() => {
  writeFileSync(root, cert)
  writeFileSync(other, stranger)
  for (const name of variables) delete process.env[name]
  process.env['PGPASSFILE'] = join(folder, 'none')
})
after(() => {
  rmSync(folder, { recursive: true })
  delete process.env['PGPASSFILE']
  Object.assign(process.env, environment)
})

/** The reply to a statement without rows. */
const DONE = Buffer.concat([
  message('1'),
  message('2'),
  message('n'),
  message('C', Buffer.from('SELECT 0\0')),
  ready(),
])

/** Long enough for one login on a busy machine. What is refused is tried until then. */
const BRIEFLY = { waitTimeoutMs: 2000 }

/** The end of a statement: `done`, or the error. */
async function outcome(port: number, config: Config): Promise<PostgresError | 'done'> {
  const settings = { host: 'localhost', port, user: 'me', dbname: 'd', waitTimeoutMs: 60_000, ...config }
  await using sql = postgres(settings)
  try {
    await sql`select`
    return 'done'
  } catch (error) {
    return error as PostgresError
  }
}

// --- TLS ---

/** A server that lets every client in, and notes which connections were encrypted. */
function open(seen: boolean[], place: Place): Promise<number> {
  return login(async (next, write, secure) => {
    await next()
    seen.push(secure)
    write(WELCOME)
    await next()
    write(DONE)
  }, place)
}

const SECURE = 'encrypted'
const PLAIN = 'not encrypted'
const NO_TLS = /has no TLS/
const UNKNOWN = /self-signed certificate|unable to verify/
const WRONG_NAME = /does not match certificate's altnames/

/** An address of this machine that is not in the certificate. */
const ELSEWHERE = '127.0.0.2'

const WAYS: readonly [string, () => Config, Place, string | RegExp][] = [
  ['disable', () => ({ sslmode: 'disable' }), {}, PLAIN],
  ['prefer, which is the default', () => ({}), {}, SECURE],
  ['prefer, without TLS there', () => ({}), { hasTls: false }, PLAIN],
  ['prefer, with a root that it does not look at', () => ({ sslrootcert: other }), {}, SECURE],
  ['allow, without TLS', () => ({ sslmode: 'allow' }), {}, PLAIN],
  ['require', () => ({ sslmode: 'require' }), {}, SECURE],
  ['require, without TLS there', () => ({ sslmode: 'require' }), { hasTls: false }, NO_TLS],
  ['require with a root', () => ({ sslmode: 'require', sslrootcert: root }), { host: ELSEWHERE }, SECURE],
  ['require with the wrong root', () => ({ sslmode: 'require', sslrootcert: other }), {}, UNKNOWN],
  ['verify-ca', () => ({ sslmode: 'verify-ca', sslrootcert: root }), {}, SECURE],
  ['verify-ca, another host', () => ({ sslmode: 'verify-ca', sslrootcert: root }), { host: ELSEWHERE }, SECURE],
  ['verify-ca with the wrong root', () => ({ sslmode: 'verify-ca', sslrootcert: other }), {}, UNKNOWN],
  ['verify-ca, without TLS there', () => ({ sslmode: 'verify-ca', sslrootcert: root }), { hasTls: false }, NO_TLS],
  ['verify-full', () => ({ sslmode: 'verify-full', sslrootcert: root }), {}, SECURE],
  ['verify-full, another host', () => ({ sslmode: 'verify-full', sslrootcert: root }), { host: ELSEWHERE }, WRONG_NAME],
  ['verify-full with the authorities of the system', () => ({ sslmode: 'verify-full' }), {}, UNKNOWN],
  ['the authorities of the system, without a mode', () => ({ sslrootcert: 'system' }), {}, UNKNOWN],
  ['verify-full, without TLS there', () => ({ sslmode: 'verify-full' }), { hasTls: false }, NO_TLS],
  ['options of tls.connect', () => ({ tls: { ca: cert } }), {}, SECURE],
  ['options of tls.connect, another host', () => ({ tls: { ca: cert } }), { host: ELSEWHERE }, WRONG_NAME],
  ['options of tls.connect, without TLS there', () => ({ tls: { ca: cert } }), { hasTls: false }, NO_TLS],
  ['TLS from the first byte', () => ({ sslmode: 'require', sslnegotiation: 'direct' }), {}, SECURE],
]

for (const [name, config, place, expected] of WAYS) {
  test(`sslmode: ${name}`, { timeout: 600_000 }, async () => {
    const seen: boolean[] = []
    const brief = typeof expected === 'string' ? {} : BRIEFLY
    const port = await open(seen, place)
    const end = await outcome(port, { host: place.host ?? 'localhost', ...brief, ...config() })
    if (typeof expected === 'string') {
      assert.deepEqual([end, seen], ['done', [expected === SECURE]])
    } else {
      assert.ok(end !== 'done')
      assert.match(end.message, expected)
      assert.deepEqual([end.outcome, seen], ['NotSent', []], 'the server received something')
    }
  })
}

test('wrong settings of TLS, and files that are missing, are reported at once', () => {
  assert.throws(() => postgres({ sslmode: 'maybe' }), /sslmode takes one of disable, allow, prefer/)
  assert.throws(() => postgres({ channelBinding: 'require' }), /channel_binding takes one of/)
  assert.throws(() => postgres({ sslmode: 'require', sslrootcert: join(folder, 'x') }), /ENOENT/)
  assert.throws(() => postgres({ sslmode: 'require', sslrootcert: 'system' }), /set sslmode=verify-full/)
})

test('settings of TLS that contradict each other or are half given are refused by their names', () => {
  const key = join(folder, 'any.key')
  const refused: [Config, RegExp][] = [
    [{ sslmode: 'require', sslcert: root }, /sslcert is nothing without its key/],
    [{ sslmode: 'require', sslkey: key }, /sslkey is nothing without its certificate/],
    [{ sslmode: 'disable', sslnegotiation: 'direct' }, /sslnegotiation=direct can't go on without TLS/],
    [{ sslnegotiation: 'direct' }, /sslnegotiation=direct can't go on without TLS/],
    [{ sslmode: 'disable', tls: { ca: cert } }, /sslmode=disable contradicts the options of TLS/],
    [{ url: 'postgres://h/d?sslmode=disable', tls: {} }, /sslmode=disable contradicts/],
    [{ sslmode: 'verify-full', sslrootcert: other, tls: { ca: cert } }, /both name authorities/],
    [{ sslmode: 'verify-full', tls: { rejectUnauthorized: false } }, /turn that off/],
    [{ sslmode: 'verify-full', tls: { checkServerIdentity: () => undefined } }, /turn that off/],
    [{ sslrootcert: root, tls: { rejectUnauthorized: false } }, /turn that off/],
    [{ sslMinProtocolVersion: 'TLSv1.3', tls: { minVersion: 'TLSv1.2' } }, /an oldest version/],
    [{ sslcertmode: 'disable', tls: { cert, key: 'k' } }, /sslcertmode=disable contradicts/],
  ]
  for (const [config, message] of refused) assert.throws(() => postgres(config), message)
  postgres({ sslmode: 'require', sslcertmode: 'disable', sslcert: root })
  postgres({ tls: { rejectUnauthorized: false } })
  postgres({ sslmode: 'require', tls: { rejectUnauthorized: false } })
  postgres({ sslmode: 'verify-ca', sslrootcert: root, tls: { servername: 'localhost' } })
})

/** The client's certificate and the name that a server is shown. */
async function shown(config: Config): Promise<readonly [string | undefined, unknown]> {
  const options = { cert, key, ca: cert, requestCert: true, rejectUnauthorized: false, ALPNProtocols: ['postgresql'] }
  let came: (seen: readonly [string | undefined, unknown]) => void
  const seen = new Promise<readonly [string | undefined, unknown]>((resolve) => (came = resolve))
  const server = createServer(options, (socket: TLSSocket) => {
    came([socket.getPeerCertificate()?.subject?.CN as string | undefined, socket.servername])
    socket.destroy()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const direct = { sslmode: 'verify-full', sslrootcert: root, sslnegotiation: 'direct', hostaddr: '127.0.0.1' }
  await outcome(port, { ...direct, ...BRIEFLY, ...config })
  server.close()
  return seen
}

test('the key is opened, and certificate and name are shown or kept back', { timeout: 600_000 }, async () => {
  const passphrase = 'open sesame'
  const [sslcert, sslkey] = [root, join(folder, 'locked.key')]
  const encrypted = { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase } as const
  writeFileSync(sslkey, createPrivateKey(key).export(encrypted))
  const own = { sslcert, sslkey, sslpassword: passphrase }
  assert.deepEqual(await shown(own), ['localhost', 'localhost'])
  assert.deepEqual(await shown({ ...own, sslcertmode: 'disable' }), [undefined, 'localhost'])
  // The name is checked all the same.
  assert.deepEqual(await shown({ sslsni: 0 }), [undefined, false])
  const locked = { sslmode: 'require', sslcert, sslkey }
  assert.throws(() => postgres(locked), /locked\.key \(sslkey\) is encrypted: set sslpassword$/)
  assert.throws(
    () => postgres({ ...locked, sslpassword: 'no such word' }),
    (error: Error) => /sslpassword does not open it$/.test(error.message) && !/no such word/.test(error.message),
  )
})

// --- passwords ---

const BINDS = ['SCRAM-SHA-256-PLUS', 'SCRAM-SHA-256']

/** The value of `c=` in SCRAM, bound to a certificate or not. */
function bound(header: string, certificate?: string): string {
  const raw = certificate === undefined ? [] : [new X509Certificate(certificate).raw]
  const hashes = raw.map((bytes) => createHash('sha256').update(bytes).digest())
  return Buffer.concat([Buffer.from(header), ...hashes]).toString('base64')
}

const TO_SERVER = 'p=tls-server-end-point,,'

const SCRAMS: readonly [string, Config, Place, readonly string[], readonly string[]][] = [
  ['is bound to the connection', {}, {}, BINDS, ['SCRAM-SHA-256-PLUS', TO_SERVER, bound(TO_SERVER, cert)]],
  ['is not bound where that is turned off', { channelBinding: 'disable' }, {}, BINDS, ['SCRAM-SHA-256', 'n,,', bound('n,,')]],
  ['says that it could be bound', {}, {}, ['SCRAM-SHA-256'], ['SCRAM-SHA-256', 'y,,', bound('y,,')]],
  ['is not bound to Ed25519', {}, { files: edwards }, BINDS, ['SCRAM-SHA-256', 'n,,', bound('n,,')]],
  ['without TLS', { sslmode: 'disable' }, {}, ['SCRAM-SHA-256'], ['SCRAM-SHA-256', 'n,,', bound('n,,')]],
]

for (const [name, config, place, mechanisms, expected] of SCRAMS) {
  test(`SCRAM ${name}`, async () => {
    const seen: unknown[] = []
    const port = await login(async (next, write) => {
      if (!(await scram(next, write, seen, 'right', mechanisms))) return
      await next()
      write(DONE)
    }, place)
    assert.equal(await outcome(port, { password: 'right', ...config }), 'done')
    assert.deepEqual(seen, expected)
  })
}

/** A login that asks for the password by this request, and accepts this answer. */
function asking(request: Buffer, right: string): Lead {
  return async (next, write) => {
    await next()
    write(request)
    if ((await next()).toString() !== `${right}\0`) return write(failure('28P01', 'wrong', 'FATAL'))
    write(WELCOME)
    await next()
    write(DONE)
  }
}

const md5 = (text: string): string => createHash('md5').update(text).digest('hex')

const METHODS: readonly [string, Lead][] = [
  ['SCRAM', async (next, write) => {
    if (!(await scram(next, write, [], 'right', ['SCRAM-SHA-256']))) return
    await next()
    write(DONE)
  }],
  ['MD5', asking(MD5, `md5${md5(`${md5('rightme')}salt`)}`)],
  ['clear text', asking(CLEARTEXT, 'right')],
]

for (const [name, lead] of METHODS) {
  test(`${name}: the right password, a wrong one, and none`, async () => {
    // A wrong password is a final answer, so nothing is retried.
    assert.equal(await outcome(await login(lead), { password: 'right' }), 'done')
    const later = async (): Promise<string> => 'right'
    assert.equal(await outcome(await login(lead), { password: later }), 'done')
    const wrong = await outcome(await login(lead), { password: 'wrong' })
    assert.ok(wrong !== 'done')
    assert.deepEqual([wrong.code, wrong.outcome], ['28P01', 'NotSent'])
    const none = await outcome(await login(lead), {})
    assert.ok(none !== 'done')
    assert.deepEqual([none.code, none.outcome], ['login', 'NotSent'])
    assert.match(none.message, /asks for a password and none was given/)
  })
}

/** AuthenticationOk. */
const TAKEN = message('R', Buffer.alloc(4))

for (const [mode, expected] of [['prefer', true], ['allow', false]] as const) {
  test(`who is refused behind his login is not sent the other way: ${mode}`, async () => {
    const seen: boolean[] = []
    const port = await login(async (next, write, secure) => {
      await next()
      seen.push(secure)
      write(Buffer.concat([TAKEN, failure('28000', 'role "me" is not permitted to log in', 'FATAL')]))
    })
    const end = await outcome(port, { sslmode: mode })
    assert.ok(end !== 'done' && end.code === '28000' && end.outcome === 'NotSent', String(end))
    assert.deepEqual([...new Set(seen)], [expected])
  })
}

/** An address of this machine that does not look local. */
const REMOTE = '0.0.0.0'

const REFUSED = /over a connection that others may read/

const PLAINS: readonly [string, () => Config, RegExp | 'done'][] = [
  ['without TLS', () => ({ host: REMOTE, sslmode: 'disable' }), REFUSED],
  ['over TLS that verifies nobody', () => ({ host: REMOTE, sslmode: 'require' }), REFUSED],
  ['over TLS that verifies the server', () => ({ host: REMOTE, sslmode: 'verify-ca', sslrootcert: root }), 'done'],
  ['where that was allowed', () => ({ host: REMOTE, sslmode: 'disable', allowPlainPassword: 1 }), 'done'],
]

for (const [name, config, expected] of PLAINS) {
  test(`a password in clear text is not sent to another machine: ${name}`, async () => {
    for (const [, lead] of METHODS.slice(1)) {
      const answers: string[] = []
      const listening: Lead = async (next, write, secure) => {
        const noted = async (): Promise<Buffer> => {
          const said = await next()
          answers.push(said.toString())
          return said
        }
        await lead(noted, write, secure)
      }
      const port = await login(listening, { host: REMOTE })
      const end = await outcome(port, { password: 'right', ...config() })
      if (expected === 'done') assert.equal(end, 'done')
      else {
        assert.match(String(end), expected)
        assert.equal(answers.length, 1, 'more than the start of the login was sent')
      }
    }
  })
}

test('a server that cannot prove that it knows the password is refused', async () => {
  const port = await login(async (next, write) => {
    await next()
    write(ask(10, 'SCRAM-SHA-256\0\0'))
    await next()
    write(WELCOME)
  })
  const end = await outcome(port, { password: 'right' })
  assert.match(String(end), /it may be an impostor/)
})
