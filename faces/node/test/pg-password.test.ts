import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'

import { Client, type ClientConfig } from '../src/pg'
import { hashOf } from '../src/pg/binding'
import { ConnectionParameters, type ConnectionConfig } from '../src/pg/parameters'
import { findPassword } from '../src/pg/password'
import { bothAlone, settled } from './pg-both'
import { ask, CLEARTEXT, login, MD5, scram, WELCOME } from './pg-login-servers'
import { failure } from './pg-served'
import { cert } from './pg-tls-files'

const directory = mkdtempSync(join(tmpdir(), 'onetrip-pgpass-'))
const file = join(directory, 'pgpass')
const environment = { ...process.env }

before(() => {
  writeFileSync(file, 'other:*:*:*:no\nhost:5433:database:user:se\\:cret\n*:*:*:someone:theirs\n')
  chmodSync(file, 0o600)
  process.env['PGPASSFILE'] = file
  delete process.env['PGPASSWORD']
})
after(() => {
  rmSync(directory, { recursive: true })
  delete process.env['PGPASSFILE']
  Object.assign(process.env, environment)
})

async function find(config: ConnectionConfig | string): Promise<unknown> {
  const connectionParameters = new ConnectionParameters(config)
  const owner = { password: connectionParameters.password, connectionParameters }
  const found = await findPassword(owner)
  // The password is stored in the client, as in pg.
  assert.equal(owner.password ?? null, found ?? null)
  return found
}

test('a password that is given is used', async () => {
  assert.equal(await find('postgres://user:given@host:5433/database'), 'given')
})

test('a password function is called with the parameters', async () => {
  const password = (parameters: ConnectionParameters): string => `of ${parameters.user}`
  assert.equal(await find({ user: 'a', password }), 'of a')
  assert.equal(await find({ password: async () => 'later' }), 'later')
  assert.equal(await find({ password: () => undefined }), null)
  await assert.rejects(find({ password: () => 5 }), /Password must be a string/)
  await assert.rejects(find({ password: () => Promise.reject(new Error('mine')) }), /mine/)
})

test('without a password, that of the password file is used', async () => {
  assert.equal(await find('postgres://user@host:5433/database'), 'se:cret')
  assert.equal(await find('postgres://someone@anywhere/any'), 'theirs')
  assert.equal(await find('postgres://nobody@host:5433/database'), undefined)
})

test('a missing password file is ignored', async () => {
  process.env['PGPASSFILE'] = join(directory, 'missing')
  assert.equal(await find('postgres://someone@anywhere/any'), undefined)
  process.env['PGPASSFILE'] = file
})

// --- the bytes for the server ---

/** Characters that SASLprep changes. */
const ODD = 'Ⅸ\u00a0\u00adﬁ'

const SENT: readonly [string, unknown, readonly Buffer[]][] = [
  ['plain', 'plain', [CLEARTEXT, MD5]],
  ['one that SCRAM takes otherwise', ODD, [CLEARTEXT, MD5]],
  ['the same of a function', () => ODD, [CLEARTEXT, MD5]],
  ['an empty one', '', [CLEARTEXT]],
  ['an empty one of a function', () => '', [CLEARTEXT, MD5]],
  // pg uses the text "null" or "undefined" as the password for MD5.
  ['none', undefined, [CLEARTEXT]],
  ['none of a function', () => undefined, [CLEARTEXT]],
]

for (const [name, password, requests] of SENT) {
  bothAlone(`a password is sent as it is in clear text and for MD5: ${name}`, async (side) => {
    const seen: unknown[] = []
    for (const request of requests) {
      const port = await login(async (next, write) => {
        await next()
        write(request)
        seen.push((await next()).toString('hex'))
        write(failure('28P01', 'no', 'FATAL'))
      })
      const client = new side.Client({ host: '127.0.0.1', port, user: 'me', database: 'd', password })
      seen.push(await settled(client.connect()))
    }
    return seen
  })
}

bothAlone('nobody is asked for a password that the server does not ask for', async (side) => {
  let asked = 0
  const config = { host: '127.0.0.1', user: 'me', database: 'd', password: () => `${asked++}` }
  const port = await login(async (next, write) => {
    await next()
    write(WELCOME)
    await next()
  })
  const client = new side.Client({ ...config, port })
  await client.connect()
  await client.end()
  const before = asked
  const late = await login(async (next, write) => {
    await next()
    write(Buffer.concat([ask(3), failure('53300', 'no room', 'FATAL')]))
  })
  const error = await settled(new side.Client({ ...config, port: late, password: 'p' }).connect())
  return [before, (error as Error).message]
})

/** A server that does SCRAM. Notes what the client chose, and whether its proof is right. */
function scramming(seen: unknown[], password: string, mechanisms: string[], iterations?: number): Promise<number> {
  return login(async (next, write) => void (await scram(next, write, seen, password, mechanisms, iterations)))
}

const SCRAMS: readonly [string, string[], ClientConfig][] = [
  ['without TLS', ['SCRAM-SHA-256'], {}],
  ['without TLS, asked to bind', ['SCRAM-SHA-256'], { enableChannelBinding: true }],
  ['over TLS', ['SCRAM-SHA-256-PLUS', 'SCRAM-SHA-256'], { ssl: { ca: cert } }],
  ['over TLS, bound to it', ['SCRAM-SHA-256-PLUS', 'SCRAM-SHA-256'], { ssl: { ca: cert }, enableChannelBinding: true }],
  ['over TLS that a server can not bind to', ['SCRAM-SHA-256'], { ssl: { ca: cert }, enableChannelBinding: true }],
  ['of a server that knows nothing of it', ['OAUTHBEARER'], {}],
]

for (const [name, mechanisms, config] of SCRAMS) {
  bothAlone(`SCRAM ${name}`, async (side) => {
    const seen: unknown[] = []
    const port = await scramming(seen, ODD.normalize('NFKC').replace('\u00ad', ''), mechanisms)
    const client = new side.Client({ host: 'localhost', port, user: 'me', database: 'd', password: ODD, ...config })
    const error = await settled(client.connect())
    await client.end()
    // Without TLS pg claims that it could bind, which a server without TLS ignores.
    const ways = name === 'without TLS, asked to bind' ? [] : seen
    return [ways, error instanceof Error ? error.message : 'connected']
  })
}

bothAlone('SCRAM with a wrong password, with none, and with too many iterations', async (side) => {
  const seen: unknown[] = []
  const connect = async (password: unknown, config: ClientConfig = {}, iterations = 4096): Promise<unknown> => {
    const port = await scramming([], 'right', ['SCRAM-SHA-256'], iterations)
    const client = new side.Client({ host: '127.0.0.1', port, user: 'me', database: 'd', password, ...config })
    const error = await settled(client.connect())
    await client.end()
    return error instanceof Error ? error.message : 'connected'
  }
  for (const password of ['right', 'wrong', undefined, () => '']) seen.push(await connect(password))
  seen.push(await connect('right', {}, 100_001))
  seen.push(await connect('right', { scramMaxIterations: 0 }, 100_001))
  seen.push(await connect('right', { scramMaxIterations: 4095 }))
  return seen
})

/** Encodes a value as DER. */
function der(type: number, ...parts: Buffer[]): Buffer {
  const body = Buffer.concat(parts)
  const long = body.length > 0x7f
  return Buffer.concat([Buffer.from(long ? [type, 0x82, body.length >> 8, body.length & 0xff] : [type, body.length]), body])
}

test('the channel binding of SCRAM has the same hash as in pg', () => {
  const theirs = require('../../node_modules/pg/lib/crypto/cert-signatures.js') as {
    signatureAlgorithmHashFromCertificate: (certificate: Buffer) => string
  }
  const usual = (name: string): string => {
    const known = name.toLowerCase().replace(/^sha-?/, 'sha')
    return known === 'md5' || known === 'sha1' ? 'sha256' : known
  }
  const rsa = [4, 5, 11, 12, 13, 14, 15, 16].map((last) => `2a864886f70d0101${last.toString(16).padStart(2, '0')}`)
  const ecdsa = ['2a8648ce3d0401', '2a8648ce3d040301', '2a8648ce3d040302', '2a8648ce3d040303', '2a8648ce3d040304']
  const info = der(0x30, Buffer.alloc(300))
  for (const oid of [...rsa, ...ecdsa, '2b6570']) {
    const certificate = der(0x30, info, der(0x30, der(6, Buffer.from(oid, 'hex')), der(5)))
    assert.equal(hashOf(certificate), usual(theirs.signatureAlgorithmHashFromCertificate(certificate)), oid)
  }
  for (const hash of ['2a864886f70d0205', '2b0e03021a', '608648016503040201', '608648016503040202', '608648016503040203']) {
    const parameters = der(0x30, der(0xa0, der(0x30, der(6, Buffer.from(hash, 'hex')))))
    const pss = der(0x30, der(6, Buffer.from('2a864886f70d01010a', 'hex')), parameters)
    const certificate = der(0x30, info, pss)
    assert.equal(hashOf(certificate), usual(theirs.signatureAlgorithmHashFromCertificate(certificate)), hash)
  }
  assert.equal(hashOf(new X509Certificate(cert).raw), 'sha256')
  const whole = der(0x30, info, der(0x30, der(6, Buffer.from('2a8648ce3d040302', 'hex'))))
  for (let length = 0; length < whole.length; length++) {
    assert.throws(() => hashOf(whole.subarray(0, length)), /malformed/)
  }
  assert.throws(() => hashOf(der(0x30, info, der(0x30, der(6, Buffer.from('2b6571', 'hex'))))), /unknown way/)
})

test('any limit of iterations is taken', { timeout: 600_000 }, async () => {
  for (const scramMaxIterations of [0.5, -1, 1.5, 1e300, '', 'x', NaN, Infinity]) {
    const port = await scramming([], 'right', ['SCRAM-SHA-256'])
    const client = new Client({ host: '127.0.0.1', port, user: 'me', password: 'right', scramMaxIterations })
    const error = await settled(client.connect())
    await client.end()
    const isRefused = error instanceof Error && /exceeds scramMaxIterations of 1$/.test(error.message)
    assert.equal(isRefused, Number(scramMaxIterations) < 2 && scramMaxIterations !== '', String(scramMaxIterations))
  }
})
