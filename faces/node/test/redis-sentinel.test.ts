import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, test } from 'node:test'

import { type Client, redis, RedisError } from '../src/redis'
import { until } from './redis-server'

/** A master, two replicas and three Sentinels, commanded by words. */
interface Sentinels {
  readonly url: string
  readonly servers: string[]
  tell(command: string): Promise<string>
  stop(): Promise<void>
}

async function startSentinels(...options: string[]): Promise<Sentinels> {
  const program = process.env['ONETRIP_PRIVATE']
  if (!program) throw new Error('ONETRIP_PRIVATE is not set to a program: `make test` sets it')
  const child = spawn(program, ['--sentinels', ...options], { stdio: ['pipe', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const line = async (): Promise<string> => {
    const { value, done } = await lines.next()
    assert.ok(done !== true && !value.startsWith('error:'), `${value}`)
    return value
  }
  const url = await line()
  const servers = (await line()).split(' ')
  await line()
  return {
    url,
    servers,
    tell(command) {
      child.stdin.write(`${command}\n`)
      return line()
    },
    async stop() {
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.stdin.end()
      await ended
    },
  }
}

const PATIENCE = 60_000

let sentinels: Sentinels
before(async () => {
  sentinels = await startSentinels()
})
after(() => sentinels.stop())

/** The port of the server that answers. */
async function portOf(client: Client): Promise<string> {
  const [, port] = await client.command<[string, string]>('CONFIG GET', 'port').then(pairOf)
  return port
}

const pairOf = (reply: unknown): [string, string] =>
  (Array.isArray(reply) ? reply : Object.entries(reply as object)[0]) as [string, string]

async function hitsAt(port: string): Promise<number> {
  const [, password] = /:([^:@]*)@/.exec(sentinels.url) ?? []
  await using client = redis({ port: Number(port), password })
  return Number(/keyspace_hits:(\d+)/.exec(await client.info('stats'))?.[1])
}

test('commands go to the master, in whichever way they are sent', async () => {
  await using client = redis({ url: sentinels.url, waitTimeout: PATIENCE })
  assert.equal(await portOf(client), await sentinels.tell('master'))
  await client.set('name', 'Ann')
  await using session = await client.session()
  assert.equal(await session.get('name'), 'Ann')
  assert.deepEqual(await client.atomic().get('name').run(), ['Ann'])
  assert.deepEqual(await client.pipeline().get('name').run(), ['Ann'])
  await using news = await client.subscribe('news')
  await client.publish('news', 'x')
  assert.equal(((await news.next()).value as { payload: string }).payload, 'x')
})

test('what only reads goes to a replica if the option says so', async () => {
  const master = await sentinels.tell('master')
  const replicas = sentinels.servers.filter((port) => port !== master)
  const atReplicas = async (): Promise<number> => {
    const hits = await Promise.all(replicas.map(hitsAt))
    return hits.reduce((sum, count) => sum + count, 0)
  }
  for (const reads of ['replica', 'prefer_replica'] as const) {
    await using client = redis({ url: sentinels.url, waitTimeout: PATIENCE, reads })
    await client.set('read', reads)
    const before = await atReplicas()
    await until(async () => (await client.get('read')) === reads && (await atReplicas()) > before)
    const atMaster = await hitsAt(master)
    for (let i = 0; i < 10; i++) assert.equal(await client.get('read'), reads)
    assert.equal(await hitsAt(master), atMaster)
    await client.pipeline().get('read').run()
    await client.atomic().get('read').run()
    assert.equal(await hitsAt(master), atMaster + 2)
  }
})

test('what is kept is of the master, also where reads go to a replica', async () => {
  await using client = redis({
    url: sentinels.url,
    waitTimeout: PATIENCE,
    reads: 'replica',
    cache: '1MiB',
  })
  await client.set('kept', 1)
  for (let i = 0; i < 5; i++) assert.equal(await client.get('kept'), '1')
  await client.set('kept', 2)
  assert.equal(await client.get('kept'), '2')
  assert.ok((client.metrics().cache?.hits ?? 0) >= 3)
})

test('a planned failover is followed, and the cache with it', async () => {
  await using client = redis({ url: sentinels.url, waitTimeout: PATIENCE, cache: '1MiB' })
  await client.set('k', 'v')
  await client.get('k')
  const next = await sentinels.tell('fail-over')
  await until(async () => (await portOf(client.repeatable())) === next)
  await client.repeatable().set('k', 'w')
  assert.equal(await client.repeatable().get('k'), 'w')
})

/** Writes numbers, each with WAIT 2 in the same trip, and notes those that both replicas have. */
async function keepBook(client: Client, key: string, isOver: () => boolean): Promise<number[]> {
  const copied: number[] = []
  for (let number = 0; !isOver(); ) {
    try {
      await using session = await client.session()
      while (!isOver()) {
        const [write, copies] = [session.rpush(key, ++number), session.wait(2, 1_000)]
        const [, has] = await Promise.all([write, copies])
        if (has < 2) break
        copied.push(number)
      }
    } catch (error) {
      assert.ok(error instanceof RedisError, `${error}`)
      assert.notEqual(error.outcome, 'Applied')
    }
  }
  return copied
}

test('what both replicas had is there after the master was killed under load', async () => {
  const options = { url: sentinels.url, waitTimeout: PATIENCE, connectionsMax: 20 }
  await using client = redis(options)
  await client.command('FLUSHALL')
  let isOver = false
  const acknowledged = Array.from({ length: 20 }, (_, i) => keepBook(client, `list:${i}`, () => isOver))
  const numbers = (async () => {
    for (let number = 0; !isOver; number++)
      await client.set('number', number).catch((error: RedisError) => {
        assert.ok(['Unknown', 'Rejected', 'NotSent'].includes(error.outcome), `${error}`)
      })
  })()
  await until(async () => (await client.llen('list:0')) > 20)
  await sentinels.tell('kill-master')
  const next = await sentinels.tell('switched')
  await until(async () => (await portOf(client.repeatable())) === next)
  const reached = await client.repeatable().llen('list:0')
  await sentinels.tell('restart')
  await until(async () => (await client.repeatable().llen('list:0')) > reached)
  isOver = true
  const books = await Promise.all(acknowledged)
  await numbers
  for (const [i, book] of books.entries()) {
    const there = new Set(await client.lrange(`list:${i}`, 0, -1))
    for (const number of book) assert.ok(there.has(`${number}`), `list:${i} lacks ${number}`)
  }
  assert.ok(books.flat().length > 40)
})

test('with fewer than a majority nobody is connected to, and the error says what each said', async () => {
  const own = await startSentinels()
  try {
    await own.tell('kill-sentinel 0')
    await using client = redis({ url: own.url, waitTimeout: PATIENCE })
    assert.equal(await client.ping(), 'PONG')
    await own.tell('kill-sentinel 1')
    await using late = redis({ url: own.url, waitTimeout: 4000 })
    const why = { code: 'sentinel', outcome: 'NotSent', message: /asked for the master .*ECONNREFUSED/s }
    await assert.rejects(late.ping(), why)
  } finally {
    await own.stop()
  }
})

test('servers and Sentinels have TLS and users of their own', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'onetrip-sentinel-'))
  const file = (name: string): string => join(folder, name)
  const openssl = (...args: string[]): unknown => execFileSync('openssl', args, { stdio: 'ignore' })
  openssl('req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', file('key'), '-out',
    file('crt'), '-days', '2', '-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1')
  const own = await startSentinels('--users', '--tls', file('crt'), file('key'), file('crt'))
  try {
    const at = own.url.replace(/^.*@/, '').replace(/\?.*/, '')
    const options = { sentinelUser: 'watcher', sentinelPassword: 'of-watcher', waitTimeout: PATIENCE }
    const tls = `sslrootcert=${encodeURIComponent(file('crt'))}`
    await using client = redis({ url: `rediss+sentinel://app:of-app@${at}?${tls}`, ...options })
    await client.set('k', 'v')
    assert.equal(await client.command('ACL WHOAMI'), 'app')
    const guests = { url: `rediss+sentinel://guest@${at}?${tls}`, sentinelUser: 'guest' }
    await using guest = redis({ ...guests, waitTimeout: PATIENCE })
    assert.equal(await guest.command('ACL WHOAMI'), 'guest')
    await using wrong = redis({ url: `rediss+sentinel://app:of-app@${at}?${tls}`, waitTimeout: 4000 })
    await assert.rejects(wrong.ping(), { code: 'sentinel', outcome: 'NotSent' })
  } finally {
    await own.stop()
    rmSync(folder, { recursive: true, force: true })
  }
})

test('settings of Sentinels are refused where they can not be', () => {
  const why = (message: RegExp) => ({ code: 'config', message })
  assert.throws(() => redis('redis+sentinel://a'), why(/names them and the master/))
  assert.throws(() => redis('redis+sentinel:///m'), why(/names them and the master/))
  assert.throws(() => redis('redis://a?reads=replica'), why(/go with redis\+sentinel/))
  assert.throws(() => redis('redis+sentinel://a/m?reads=some'), why(/reads takes master/))
  assert.throws(() => redis('redis+sentinel://a/m?cluster=1'), why(/Sentinels know no clusters/))
  assert.throws(() => redis({ path: '/s', sentinel: 'm' }), why(/by TCP/))
})
