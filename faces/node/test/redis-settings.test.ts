import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'

import { redis, type RedisOptions } from '../src/redis'
import { configOf } from '../src/redis/config'
import { startRedis } from './redis-server'

let folder = ''
const file = (name: string): string => join(folder, name)

before(() => {
  folder = mkdtempSync(join(tmpdir(), 'onetrip-settings-'))
  for (const name of ['one', 'other'])
    execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout',
      file(`${name}.key`), '-out', file(name), '-days', '2', '-subj', '/CN=localhost',
      '-addext', 'subjectAltName=DNS:localhost'], { stdio: 'ignore' })
})
after(() => rmSync(folder, { recursive: true, force: true }))

/** A port on which nobody listens. */
async function deadPort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => probe.once('listening', resolve))
  const { port } = probe.address() as AddressInfo
  await new Promise((resolve) => probe.close(resolve))
  return port
}

test('a setting that is unknown, contradicts another or is half given is refused by its name', () => {
  const one = encodeURIComponent(file('one'))
  const ca = readFileSync(file('one'))
  const refused: [unknown, RegExp][] = [
    [{ host: 'h', username: 'bob' }, /username is not a setting/],
    [{ url: 'redis://h', bogus: 1 }, /bogus is not a setting/],
    [5, /settings are a URL or an object, and not a number/],
    [null, /settings are a URL or an object, and not null/],
    [[], /settings are a URL or an object, and not an array/],
    [`redis://h?sslrootcert=${one}`, /rediss:\/\//],
    [`redis://h?sslmode=disable&sslcert=${one}&sslkey=${one}`, /rediss:\/\//],
    [`rediss://h?sslcert=${one}`, /sslcert is nothing without its key/],
    [`rediss://h?sslkey=${one}`, /sslkey is nothing without its certificate/],
    ['rediss://h?sslmode=require&sslrootcert=system', /sslrootcert=system trusts whoever/],
    ['rediss://h?sslrootcert=/no/such/file', /\(sslrootcert\) can't be read: ENOENT/],
    ['rediss://h?sslmode=disable', /rediss:\/\/ asks for TLS/],
    ['redis://h?connections_max=0', /connectionsMax takes a number from 1/],
    [{ attemptsMax: 0 }, /attemptsMax takes a number from 1/],
    ['redis://h?cache=1MiB&protocol=2', /cache needs RESP3/],
    ['redis://h?cache=1MiB&cluster=1', /cache is not for clusters/],
    ['redis://h/3?cluster=1', /a cluster has the database 0 alone/],
    ['redis://h?replica_reads=1', /replica_reads is for clusters/],
    ['unix:/s?sslmode=require', /a Unix socket has no TLS/],
    [{ path: '/s', host: 'h' }, /two servers/],
    [{ path: '/s', tls: true }, /a Unix socket has no TLS/],
    [{ url: 'redis://h?sslmode=disable', tls: { ca } }, /sslmode=disable contradicts the options/],
    [{ url: `rediss://h?sslrootcert=${one}`, tls: { ca } }, /both name authorities/],
    [
      { url: 'rediss://h?sslmode=verify-full', tls: { rejectUnauthorized: false } },
      /the options of TLS turn that off/,
    ],
    [
      { url: `rediss://h?sslrootcert=${one}`, tls: { rejectUnauthorized: false } },
      /the options of TLS turn that off/,
    ],
    [{ cluster: 'nope' }, /cluster takes 0 or 1/],
    [{ protocol: 4 }, /protocol takes 2 or 3/],
    [{ password: 'a\0user\0b' }, /password has a zero byte/],
  ]
  for (const [given, message] of refused)
    assert.throws(() => redis(given as RedisOptions), { code: 'config', message }, String(message))
})

test('options of TLS and settings that fit together are both used', () => {
  const ca = readFileSync(file('one'))
  const one = encodeURIComponent(file('one'))
  const { tls } = configOf({ url: `rediss://h?sslrootcert=${one}`, tls: { servername: 'x' } })
  assert.deepEqual(tls, { ca, servername: 'x' })
  assert.equal(configOf({ url: 'rediss://h', tls: false }).tls, undefined)
  // Options verify the server unless they turn it off themselves.
  assert.deepEqual(configOf({ url: 'rediss://h?sslmode=require', tls: {} }).tls, {})
  assert.deepEqual(configOf('rediss://h?sslmode=require').tls, { rejectUnauthorized: false })
  assert.equal(configOf({ user: null } as unknown as RedisOptions).user, undefined)
})

test('sslmode=require with an authority verifies the server', async (t) => {
  const port = await deadPort()
  const server = await startRedis(['--tls-port', `${port}`, '--tls-cert-file', file('one'),
    '--tls-key-file', file('one.key'), '--tls-ca-cert-file', file('one'), '--tls-auth-clients', 'no'])
  t.after(() => server.stop())
  const url = (name: string): string =>
    `rediss://localhost:${port}?sslmode=require&sslrootcert=${encodeURIComponent(file(name))}`
  await using right = redis(url('one'))
  assert.equal(await right.ping(), 'PONG')
  // As verify-ca, it does not look at the name.
  await using address = redis(url('one').replace('localhost', '127.0.0.1'))
  assert.equal(await address.ping(), 'PONG')
  await using wrong = redis({ url: url('other'), waitTimeout: 3000 })
  const why = { code: 'connect_failed', outcome: 'NotSent', message: /self-signed|self signed|unable to/ }
  await assert.rejects(wrong.ping(), why)
})

test('of several servers the next one is tried', async (t) => {
  const server = await startRedis()
  t.after(() => server.stop())
  await using client = redis(`redis://127.0.0.1:${await deadPort()},127.0.0.1:${server.port}`)
  assert.equal(await client.ping(), 'PONG')
})
