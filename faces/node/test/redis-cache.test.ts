import assert from 'node:assert/strict'
import { connect, createServer, type Socket } from 'node:net'
import { after, before, test } from 'node:test'

import { type CacheMetrics, type Client, redis } from '../src/redis'
import { type Server, startRedis, until } from './redis-server'

let server: Server
before(async () => {
  server = await startRedis()
})
after(() => server.stop())

/** A client with a cache, and one that writes without its knowledge. */
async function both(): Promise<{ client: Client; other: Client } & AsyncDisposable> {
  const client = redis(`${server.url}?cache=1MiB`)
  const other = redis(server.url)
  await Promise.all([client.connect(), other.command('FLUSHALL')])
  return {
    client,
    other,
    async [Symbol.asyncDispose]() {
      await Promise.all([client.close(), other.close()])
    },
  }
}

const counts = (client: Client): CacheMetrics => client.metrics().cache as CacheMetrics

/** How many GETs the server has run. */
async function gets(other: Client): Promise<number> {
  const stats = await other.info('commandstats')
  return Number(/cmdstat_get:calls=(\d+)/.exec(stats)?.[1] ?? 0)
}

test('what is in the cache costs no trip, and each caller gets its own form', async () => {
  await using it = await both()
  const { client, other } = it
  await other.set('k', 'v')
  await other.hset('h', { a: '1' })
  const before = await gets(other)
  for (let i = 0; i < 10; i++) assert.equal(await client.get('k'), 'v')
  assert.deepEqual(await client.buffers.get('k'), Buffer.from('v'))
  assert.equal(await client.get('none'), null)
  assert.equal(await client.get('none'), null)
  for (let i = 0; i < 3; i++) assert.deepEqual({ ...(await client.hgetall('h')) }, { a: '1' })
  assert.equal((await gets(other)) - before, 2)
  const { hits, misses, entries, isOn, bytes } = counts(client)
  assert.deepEqual({ hits, misses, entries, isOn }, { hits: 13, misses: 3, entries: 3, isOn: true })
  assert.ok(bytes > 3 * 384)
})

test('values that fill the cache many times over are read whole, one by one and at once', async () => {
  await using client = redis(`${server.url}?cache=1MiB`)
  await using other = redis(server.url)
  const sizes = [1_000, 5_000, 70_000, 1_000_000]
  const value = (size: number, key: number): string => `${key} `.padEnd(size, 'x')
  for (const size of sizes) {
    const keys = Array.from({ length: Math.ceil(3e6 / size) }, (_, key) => key)
    for (const key of keys) await other.set(`${size}:${key}`, value(size, key))
    for (const key of keys) assert.equal(await client.get(`${size}:${key}`), value(size, key))
    for (let first = 0; first < keys.length; first += 50) {
      const some = keys.slice(first, first + 50)
      const got = await Promise.all(some.map((key) => client.get(`${size}:${key}`)))
      assert.ok(got.every((it, at) => it === value(size, some[at] as number)))
    }
    await other.command('FLUSHALL')
  }
  assert.ok(counts(client).evicted > 0)
})

test('what another client writes is seen once the server has said so', async () => {
  await using it = await both()
  const { client, other } = it
  await other.set('k', 0)
  for (let i = 1; i <= 50; i++) {
    await client.get('k')
    await other.set('k', i)
    await until(async () => (await client.get('k')) === `${i}`)
  }
  await other.command('FLUSHALL')
  await until(async () => (await client.get('k')) === null)
  // On a busy machine it may be gone before it is read.
  await until(async () => {
    await other.command('SET', 'k', 'soon gone', 'PX', 20)
    return (await client.get('k')) === 'soon gone'
  })
  await until(async () => (await client.get('k')) === null)
  assert.ok(counts(client).invalidations >= 51)
})

test('a caller that reads nothing but the cache hears of changes', async () => {
  await using it = await both()
  const { client, other } = it
  await other.set('k', 'old')
  assert.equal(await client.get('k'), 'old')
  const written = other.set('k', 'new')
  // Each of these calls is answered without the event loop, if nothing gives it a turn.
  let calls = 0
  while ((await client.get('k')) === 'old') assert.ok(++calls < 5_000_000)
  await written
})

test('no reader sees an older value behind a newer one', async () => {
  await using it = await both()
  const { client, other } = it
  await other.set('n', 0)
  let isOver = false
  const readers = Array.from({ length: 20 }, async () => {
    for (let last = 0; !isOver; ) {
      const now = Number(await client.get('n'))
      assert.ok(now >= last, `${now} behind ${last}`)
      last = now
      await new Promise((resolve) => setImmediate(resolve))
    }
  })
  for (let i = 0; i < 1_000; i++) await other.incr('n')
  await until(async () => (await client.get('n')) === '1000')
  isOver = true
  await Promise.all(readers)
})

const WAYS: { readonly [name: string]: (client: Client, key: string, n: number) => Promise<unknown> } =
  {
    'by itself': (client, key, n) => client.set(key, n),
    'by its name': (client, key, n) => client.command('set', key, n),
    alone: (client, key, n) => client.alone().set(key, n),
    'in a pipeline': (client, key, n) => client.pipeline().get('x').set(key, n).run(),
    'in a list': (client, key, n) => client.atomic().set(key, n).get('x').run(),
    'by a script': (client, key, n) =>
      client.call(client.script('return redis.call("SET", KEYS[1], ARGV[1])'), [key], [n]),
    'by a script that names no key': (client, key, n) =>
      client.call(client.script('return redis.call("SET", ARGV[1], ARGV[2])'), [], [key, n]),
    'by a script in a list': (client, key, n) =>
      client.atomic().call(client.script('return redis.call("SET", KEYS[1], ARGV[1])'), [key], [n]).run(),
    'in a stream': async (client, key, n) => {
      for await (const _ of client.stream([['SET', key, n]])) assert.equal(_, 'OK')
    },
    'in a session': async (client, key, n) => {
      await using session = await client.session()
      await session.set(key, n)
    },
    'on a session between MULTI and EXEC': async (client, key, n) => {
      await using session = await client.session()
      const all = ['MULTI', 'SET', 'EXEC'].map((name) =>
        name === 'SET' ? session.command(name, key, n) : session.command(name),
      )
      await Promise.all(all)
    },
  }

for (const [name, write] of Object.entries(WAYS)) {
  test(`a client sees what it wrote: ${name}`, async () => {
    await using it = await both()
    const { client } = it
    for (let i = 0; i < 20; i++) {
      await client.get('k')
      await write(client, 'k', i)
      assert.equal(await client.get('k'), `${i}`)
      const later = write(client, 'k', -i)
      const reads = Array.from({ length: 3 }, () => client.get('k'))
      await later
      assert.equal(await client.get('k'), `${-i}`)
      await Promise.all(reads)
    }
  })
}

test('a read behind an unanswered write sees it', async () => {
  await using it = await both()
  const { client } = it
  await client.set('k', 'old')
  assert.equal(await client.get('k'), 'old')
  void client.set('k', 'new')
  assert.equal(await client.get('k'), 'new')
})

test('what many ask for at once is asked for once', async () => {
  await using it = await both()
  const { client, other } = it
  await other.set('k', 'v')
  const before = await gets(other)
  const all = await Promise.all(Array.from({ length: 100 }, () => client.get('k')))
  assert.deepEqual(new Set(all), new Set(['v']))
  assert.equal((await gets(other)) - before, 1)
  const { misses, joined } = counts(client)
  assert.deepEqual({ misses, joined }, { misses: 1, joined: 99 })
})

test('callers that joined are served although the first is gone, and each has its own end', async () => {
  await using it = await both()
  const { client, other } = it
  await other.set('k', 'v')
  await other.command('CLIENT PAUSE', 300, 'ALL')
  const first = new AbortController()
  const second = new AbortController()
  const [gone, stays, left, late] = [
    client.with({ signal: first.signal }).get('k'),
    client.get('k'),
    client.with({ signal: second.signal }).get('k'),
    client.with({ timeout: 20 }).get('k'),
  ]
  await new Promise((resolve) => setImmediate(resolve))
  first.abort()
  second.abort()
  await assert.rejects(gone, { code: 'ABORT_ERR', outcome: 'Unknown' })
  await assert.rejects(left, { code: 'ABORT_ERR', outcome: 'NotSent' })
  await assert.rejects(late, { code: 'timeout', outcome: 'NotSent' })
  assert.equal(await stays, 'v')
  assert.equal(counts(client).joined, 3)
})

test('if the first caller is late, those who joined ask by themselves', async () => {
  await using it = await both()
  const { client, other } = it
  await other.set('k', 'v')
  await other.command('CLIENT PAUSE', 200, 'ALL')
  const late = client.with({ timeout: 20 }).get('k')
  const joined = client.get('k')
  await assert.rejects(late, { code: 'timeout', outcome: 'Unknown' })
  assert.equal(await joined, 'v')
})

test('an error is for its caller, and never kept', async () => {
  await using it = await both()
  const { client, other } = it
  await other.lpush('list', 'x')
  const both_ = await Promise.allSettled([client.get('list'), client.get('list')])
  for (const one of both_) assert.equal(one.status, 'rejected')
  assert.equal(counts(client).entries, 0)
  await other.set('list', 'text')
  assert.equal(await client.get('list'), 'text')
})

test('a lost connection empties the cache at once', async () => {
  await using it = await both()
  const { client, other } = it
  await other.set('k', 'old')
  assert.equal(await client.get('k'), 'old')
  await other.command('CLIENT KILL', 'SKIPME', 'yes', 'TYPE', 'normal')
  await until(async () => {
    await new Promise((resolve) => setImmediate(resolve))
    return !counts(client).isOn
  })
  assert.equal(counts(client).entries, 0)
  await other.set('k', 'new')
  assert.equal(await client.get('k'), 'new')
  assert.equal(counts(client).isOn, true)
  for (let i = 0; i < 2; i++) assert.equal(await client.get('k'), 'new')
  assert.equal(counts(client).hits, 1)
})

test('those who wait for a reply whose connection is lost ask again', async () => {
  // The first connection is cut when it has asked.
  const sockets = new Set<Socket>()
  let cuts = 1
  const proxy = createServer((near) => {
    const far = connect(server.port, '127.0.0.1')
    for (const [from, to] of [[near, far], [far, near]] as const) {
      sockets.add(from)
      from.on('error', () => {})
      from.on('close', () => to.destroy())
    }
    far.on('data', (chunk) => near.write(chunk))
    near.on('data', (chunk: Buffer) => {
      if (chunk.includes('GET') && cuts-- > 0) near.destroy()
      else far.write(chunk)
    })
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  const { port } = proxy.address() as { port: number }
  await using it = await both()
  await it.other.set('k', 'v')
  await using client = redis({ port, cache: 1 << 20 })
  await client.connect()
  const [first, ...others] = Array.from({ length: 5 }, () => client.get('k'))
  await assert.rejects(first as Promise<unknown>, { outcome: 'Unknown' })
  assert.deepEqual(await Promise.all(others), ['v', 'v', 'v', 'v'])
  await client.close()
  sockets.forEach((socket) => socket.destroy())
  proxy.close()
})

test('without tracking nothing is kept, and the metrics say so', async () => {
  await using it = await both()
  const { other } = it
  await other.set('k', 'v')
  await other.command('ACL SETUSER', 'untracked', 'on', 'nopass', '~*', '&*', '+@all', '-client|tracking')
  await using client = redis({ url: server.url, cache: '1MiB', user: 'untracked' })
  const before = await gets(other)
  for (let i = 0; i < 3; i++) assert.equal(await client.get('k'), 'v')
  assert.equal((await gets(other)) - before, 3)
  const { isOn, hits, entries } = counts(client)
  assert.deepEqual({ isOn, hits, entries }, { isOn: false, hits: 0, entries: 0 })
})

test('uncached and alone ask the server', async () => {
  await using it = await both()
  const { client, other } = it
  await client.get('k')
  const before = await gets(other)
  for (const way of [client.uncached(), client.alone()]) await way.get('k')
  assert.equal((await gets(other)) - before, 2)
})

test('the cache has no more bytes than it may, and what was used longest ago goes first', async () => {
  await using it = await both()
  const { other } = it
  await using client = redis({ url: server.url, cache: 64 * 1024 })
  await client.connect()
  await other.set('big', 'x'.repeat(16 * 1024))
  for (let i = 0; i < 400; i++) {
    await client.get(`key:${i}`)
    await client.get('always')
    assert.ok(counts(client).bytes <= 64 * 1024)
  }
  assert.ok(counts(client).evicted > 200)
  const before = await gets(other)
  await client.get('always')
  await client.get('key:399')
  assert.equal((await gets(other)) - before, 0)
  await client.get('key:0')
  for (let i = 0; i < 2; i++) await client.get('big')
  assert.equal((await gets(other)) - before, 3)
})

test('a closed client answers nothing from its cache', async () => {
  await using it = await both()
  const { client } = it
  await client.get('k')
  const closed = client.close()
  await assert.rejects(client.get('k'), { outcome: 'NotSent' })
  await closed
  assert.equal(counts(client).isOn, false)
})

test('a cache is refused where it can not be', () => {
  const why = (message: RegExp) => ({ code: 'config', message })
  assert.throws(() => redis({ cluster: true, cache: 1 }), why(/cache is not for clusters/))
  for (const cache of ['64MB', '', '-1', 1.5, '3GiB'])
    assert.throws(() => redis({ cache }), why(/cache takes a number of bytes/))
  assert.equal(redis('redis://localhost').metrics().cache, undefined)
})
