// How a client connects, by PostgreSQL's documentation of libpq ("Database Connection Control
// Functions"): several hosts, all addresses of a name, which servers fit, and the time for each.
import assert from 'node:assert/strict'
import dns from 'node:dns'
import { createServer, type AddressInfo } from 'node:net'
import { networkInterfaces } from 'node:os'
import { after, mock, test } from 'node:test'

import type { Config } from '../src/modern/config'
import { client, failure, url } from './modern/client'
import { CLEARTEXT, login, type Place } from './pg-login-servers'
import { failure as fatal, listen, message, ready, WELCOME } from './pg-served'

const limits = { timeout: 600_000 }
const lone = { user: 'me', dbname: 'd', sslmode: 'disable', waitTimeoutMs: 3000 }

const real = new URL(url)
const REAL = { user: real.username, password: real.password, dbname: real.pathname.slice(1) }

const silent: ReturnType<typeof createServer>[] = []
after(() => silent.forEach((server) => server.close()))

/** An address of this machine that is not loopback, if it has one. */
const elsewhere = Object.values(networkInterfaces())
  .flatMap((all) => all ?? [])
  .find(({ family, internal }) => family === 'IPv4' && !internal)?.address

/** A server that takes connections and never answers. */
async function mute(): Promise<number> {
  const server = createServer((socket) => socket.on('error', () => {}).resume().unref())
  silent.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

/** A port without a server. */
async function closed(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

const DONE = Buffer.concat(
  [message('1'), message('2'), message('n'), message('C', Buffer.from('SELECT 0\0'))].concat(ready()),
)

const parameter = (name: string, value: string): Buffer => message('S', Buffer.from(`${name}\0${value}\0`))

/** A server that answers the login with `welcome`, completes statements, and counts connections. */
async function server(welcome: Buffer = WELCOME): Promise<{ port: number; came: () => number }> {
  let came = 0
  const serve = (tag: string, _: Buffer, socket: { write(bytes: Buffer): void }): void => {
    if (tag === 'S') socket.write(DONE)
  }
  const port = await listen(serve, () => (came++, welcome))
  return { port, came: () => came }
}

/** A server that reports these properties of its sessions. */
function saying(standby: boolean, readOnly: boolean): Promise<{ port: number; came: () => number }> {
  const said = [
    parameter('in_hot_standby', standby ? 'on' : 'off'),
    parameter('default_transaction_read_only', readOnly ? 'on' : 'off'),
  ]
  return server(Buffer.concat([WELCOME.subarray(0, 9), ...said, ready()]))
}

function to(ports: readonly number[], config: Config = {}): ReturnType<typeof client> {
  const hosts = ports.map((port) => `127.0.0.1:${port}`)
  return client({ url: `postgres://${hosts.join(',')}/`, ...lone, ...config })
}

test('hosts are tried in their order, each with its port, until one answers', limits, async () => {
  const dead = await closed()
  const hosts = `127.0.0.1:${dead},${real.hostname}:${real.port}`
  const sql = client({ url: `postgres://${hosts}/`, ...REAL })
  assert.deepEqual([...(await sql`select 1 as n`)], [{ n: 1 }])
  const [first, second] = [await server(), await server()]
  await to([first.port, second.port])`select`
  assert.deepEqual([first.came(), second.came()], [1, 0])
})

test('the error says what was wrong with each host', limits, async () => {
  const [one, two] = [await closed(), await server(fatal('57P03', 'it is starting', 'FATAL'))]
  const error = await failure(to([one, two.port])`select`)
  assert.equal(error.outcome, 'NotSent')
  assert.match(error.message, new RegExp(`127.0.0.1:${one} .*ECONNREFUSED.*; 127.0.0.1:${two.port}: it is starting`))
})

test('all addresses of a name are tried', limits, async () => {
  const { port, came } = await server()
  const found = ['127.0.0.9', '127.0.0.8', '127.0.0.1'].map((address) => ({ address, family: 4 }))
  const asked: string[] = []
  const lookup = (name: string, _: unknown, tell: (error: null, found: unknown) => void): void => {
    asked.push(name)
    setImmediate(tell, null, found)
  }
  mock.method(dns, 'lookup', lookup)
  try {
    await client({ ...lone, host: 'db.example', port })`select`
  } finally {
    mock.restoreAll()
  }
  assert.deepEqual([asked, came()], [['db.example'], 1])
})

test('a name is looked up anew at each attempt, and not if hostaddr has its address', limits, async () => {
  const { port, came } = await server()
  const asked: string[] = []
  const lookup = (name: string, _: unknown, tell: (error: null, found: unknown) => void): void => {
    // The server moves after the first attempt.
    const address = asked.push(name) === 1 ? '127.0.0.9' : '127.0.0.1'
    setImmediate(tell, null, [{ address, family: 4 }])
  }
  mock.method(dns, 'lookup', lookup)
  try {
    await client({ ...lone, host: 'db.example', port, waitTimeoutMs: 10_000 })`select`
    assert.deepEqual([asked, came()], [['db.example', 'db.example'], 1])
    await client({ ...lone, host: 'db.example', hostaddr: '127.0.0.1', port })`select`
    assert.deepEqual([asked.length, came()], [2, 2])
  } finally {
    mock.restoreAll()
  }
})

test('a password is sent in clear text to this machine, by any name, and to no other', limits, async () => {
  const lead = async (next: () => Promise<Buffer>, write: (reply: Buffer) => void): Promise<void> => {
    await next()
    write(CLEARTEXT)
    await next()
    write(WELCOME)
    await next()
    write(DONE)
  }
  for (const [address, says] of [
    ['127.0.0.1', undefined],
    ['::ffff:127.0.0.1', undefined],
    [elsewhere, /password/],
  ] as const) {
    if (address === undefined) continue
    const port = await login(lead, { host: address.includes('.') ? address.replace('::ffff:', '') : '::' })
    const lookup = (_: string, __: unknown, tell: (error: null, found: unknown) => void): void => {
      setImmediate(tell, null, [{ address, family: address.includes(':') ? 6 : 4 }])
    }
    mock.method(dns, 'lookup', lookup)
    try {
      const run = client({ ...lone, host: 'localhost', port, password: 'secret' })`select`
      if (says === undefined) await run
      else assert.match((await failure(run)).message, says)
    } finally {
      mock.restoreAll()
    }
  }
})

test('after a name that is unknown, the next host is tried', limits, async () => {
  const { port, came } = await server()
  await client({ ...lone, host: 'nowhere.invalid,127.0.0.1', port })`select`
  assert.equal(came(), 1)
  const error = await failure(client({ ...lone, host: 'nowhere.invalid' })`select`)
  assert.match(error.message, /nowhere\.invalid/)
})

test('each host has the connect timeout for itself', limits, async () => {
  const { port, came } = await server()
  const late = await mute()
  await to([late, port], { connectTimeout: 3, waitTimeoutMs: 20_000 })`select`
  assert.equal(came(), 1)
  const error = await failure(to([late, await mute()], { connectTimeout: 1, waitTimeoutMs: 4500 })`select`)
  assert.equal(error.code, 'connect_timeout')
  assert.match(error.message, /did not answer within 1 s.*; .*did not answer within 1 s/)
})

test('hosts behind one that refuses the login are not tried', limits, async () => {
  for (const code of ['28P01', '28000', '3D000']) {
    const [first, second] = [await server(fatal(code, 'no', 'FATAL')), await server()]
    const error = await failure(to([first.port, second.port])`select`)
    assert.deepEqual([error.code, second.came()], [code, 0])
    assert.equal(error.message, `127.0.0.1:${first.port}: no (${code})`)
  }
  const [full, free] = [await server(fatal('53300', 'too many', 'FATAL')), await server()]
  await to([full.port, free.port])`select`
  assert.deepEqual([full.came(), free.came()], [1, 1])
})

test('a server is chosen by target_session_attrs', limits, async () => {
  const kinds = [await saying(false, false), await saying(false, true), await saying(true, false)]
  for (const [wanted, chosen] of [
    ['any', 0],
    ['read-write', 0],
    ['read-only', 1],
    ['primary', 0],
    ['standby', 2],
    ['prefer-standby', 2],
  ] as const) {
    const before = kinds.map((kind) => kind.came())
    await to(kinds.map(({ port }) => port), { targetSessionAttrs: wanted })`select`
    const came = kinds.map((kind, i) => kind.came() - (before[i] as number))
    assert.deepEqual(came, [0, 1, 2].map((i) => (i <= chosen ? 1 : 0)), wanted)
  }
})

test('without a standby, prefer-standby takes any server, and standby takes none', limits, async () => {
  const primary = await saying(false, false)
  await to([primary.port], { targetSessionAttrs: 'prefer-standby' })`select`
  assert.equal(primary.came(), 2)
  const error = await failure(to([primary.port], { targetSessionAttrs: 'standby' })`select`)
  assert.match(error.message, /is not what target_session_attrs asks for/)
  const old = await server()
  const unknown = await failure(to([old.port], { targetSessionAttrs: 'primary' })`select`)
  assert.match(unknown.message, /too old to say/)
})

test('a real server that is read-only by default is recognized', limits, async () => {
  const asked = { url, targetSessionAttrs: 'read-only', waitTimeoutMs: 3000 }
  const [{ version } = { version: 0 }] = await client()`select current_setting('server_version_num')::int4 as version`
  const sql = client({ ...asked, options: '-c default_transaction_read_only=on' })
  if (Number(version) >= 140_000) assert.equal((await sql`select 1`).length, 1)
  assert.match((await failure(client(asked)`select 1`)).message, /target_session_attrs/)
})

test('load_balance_hosts=random tries hosts in random order', limits, async () => {
  const both = [await server(), await server()]
  // The chance that all choose the same host is 1 in 2^39.
  for (let i = 0; i < 40 && both.some((one) => one.came() === 0); i++) {
    await to(both.map(({ port }) => port), { loadBalanceHosts: 'random' })`select`
  }
  assert.ok(both.every((one) => one.came() > 0))
})

/** A server that lets clients in only with TLS, or only without. Notes how each client came. */
function choosy(lets: boolean, seen: boolean[], place: Place = {}): Promise<number> {
  return login(async (next, write, secure) => {
    await next()
    seen.push(secure)
    if (secure !== lets) return write(fatal('28000', 'no entry', 'FATAL'))
    write(WELCOME)
    await next()
    write(DONE)
  }, place)
}

test('allow goes on with TLS, and prefer without, if the server lets clients in only so', limits, async () => {
  for (const [sslmode, lets, ways] of [
    ['allow', false, [false]],
    ['allow', true, [false, true]],
    ['prefer', true, [true]],
    ['prefer', false, [true, false]],
  ] as const) {
    const seen: boolean[] = []
    await to([await choosy(lets, seen)], { sslmode })`select`
    assert.deepEqual(seen, ways, `${sslmode} ${lets}`)
  }
})

test('if both ways are refused, the error has both reasons; require tries only one', limits, async () => {
  const seen: boolean[] = []
  const port = await choosy(true, seen, { hasTls: false })
  const error = await failure(to([port], { sslmode: 'allow' })`select`)
  assert.match(error.message, /^no entry \(28000\); with TLS: 127\.0\.0\.1:\d+ has no TLS/)
  assert.equal(error.code, '28000')
  const other = await failure(to([await choosy(false, seen)], { sslmode: 'require' })`select`)
  assert.equal(other.message, 'no entry (28000)')
})

test('prefer goes on without TLS if the handshake fails', limits, async () => {
  let came = 0
  // The server says that it has TLS, and then doesn't speak it.
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', () => {
      if (came++ > 0) return socket.write(WELCOME) && socket.on('data', () => socket.write(DONE))
      socket.write('S')
      return socket.once('data', () => socket.end('no TLS'))
    })
  })
  silent.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  assert.equal((await to([port], { sslmode: 'prefer' })`select`).count, 0)
  assert.equal(came, 2)
})

test('a cancel goes to the same host and address as its connection', limits, async () => {
  const hosts = `127.0.0.1:${await closed()},${real.hostname}:${real.port}`
  const sql = client({ url: `postgres://${hosts}/`, ...REAL, connectionsMax: 1 })
  const began = performance.now()
  const error = await failure(sql`select pg_sleep(15)`.timeout(300))
  assert.equal(error.code, 'timeout')
  // The only connection is free again.
  await sql`select 1`
  assert.ok(performance.now() - began < 10_000)
})
