import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import { redis, type Client, type RedisError } from '../src/redis'
import { slotOf } from '../src/redis/spec'
import { startCluster, type TestCluster } from './redis-cluster-kit'
import type { Server } from './redis-server'

let cluster: TestCluster
let plain: Client[] = []
let url = ''

before(async () => {
  cluster = await startCluster()
  ;({ plain, url } = cluster)
})
after(() => cluster.stop())

test('hash slots are those of the server', async () => {
  for (const key of ['foo', '{user}.name', '', 'ü', '{}x', 'a{b}c{d}']) {
    assert.equal(slotOf(key), await (plain[0] as Client).command('CLUSTER KEYSLOT', key))
  }
})

test('commands go to the nodes of their keys and are answered in the order of the calls', async () => {
  await using client = redis(url)
  const keys = Array.from({ length: 300 }, (_, i) => `key:${i}`)
  await Promise.all(keys.map((key, i) => client.set(key, i)))
  assert.deepEqual(
    await Promise.all(keys.map((key) => client.get(key))),
    keys.map((_, i) => `${i}`),
  )
  const list = client.pipeline()
  for (const key of keys) list.incr(key)
  assert.deepEqual(
    await list.run(),
    keys.map((_, i) => i + 1),
  )
})

test('commands of several slots are split, and their replies joined', async () => {
  await using client = redis(url)
  await client.mset({ a: 1, b: 2, c: 3, d: 4 })
  assert.deepEqual(await client.mget('d', 'none', 'a', 'b', 'a'), ['4', null, '1', '2', '1'])
  assert.equal(await client.exists('a', 'b', 'c', 'none'), 3)
  assert.equal(await client.del('a', 'b', 'c', 'd'), 4)
})

test('large replies of several nodes are joined', async () => {
  await using client = redis(cluster.url)
  const keys = Array.from({ length: 60 }, (_, at) => `large:${at}`)
  const value = (key: string): string => `${key} `.padEnd(100_000, 'x')
  await Promise.all(keys.map((key) => client.set(key, value(key))))
  for (let round = 0; round < 6; round++) {
    const all = await Promise.all([client.mget(keys), ...keys.map((key) => client.get(key))])
    assert.deepEqual(all, [keys.map(value), ...keys.map(value)])
  }
  await client.unlink(keys)
})

test('an atomic list with a script that its node has forgotten runs as a whole', async () => {
  await using client = redis(url)
  const script = client.script<number>("return redis.call('INCRBY', KEYS[1], ARGV[1])")
  await client.del('{whole}a', '{whole}b')
  for (let n = 1; n <= 5; n++) {
    await script.run(['{whole}b'], [0])
    await client.script_flush()
    const list = client.atomic().incr('{whole}a').call(script, ['{whole}b'], [1])
    assert.deepEqual(await list.run(), [n, n])
  }
})

test('keys of two hash slots are named', async () => {
  await using client = redis(url)
  for (const call of [
    client.rename('one', 'two'),
    client.atomic().set('one', 1).set('two', 2).run(),
    client.msetnx({ one: 1, two: 2 }),
  ]) {
    await assert.rejects(call, (error: RedisError) => {
      assert.deepEqual([error.code, error.outcome], ['cross_slot', 'NotSent'])
      assert.match(error.message, /"one" \(hash slot \d+\).*"two" \(hash slot \d+\)/)
      return true
    })
  }
  assert.deepEqual(await client.atomic().set('{t}one', 1).incr('{t}one').run(), ['OK', 2])
})

test('commands for all nodes are sent to all, and their replies joined', async () => {
  await using client = redis(url)
  await client.flushall()
  await Promise.all(Array.from({ length: 50 }, (_, i) => client.set(`all:${i}`, i)))
  assert.equal(await client.dbsize(), 50)
  assert.equal((await client.keys('all:*')).length, 50)
  assert.match((await client.randomkey()) ?? '', /^all:/)
  assert.equal(await client.ping(), 'PONG')
  await assert.rejects(client.scan(0), { code: 'node_by_node', outcome: 'NotSent' })
  await using session = await client.session('all:1')
  assert.ok((await session.scan(0, { count: 1000 })).items.length > 0)
})

test('scripts, blocking commands and streams find their nodes', async () => {
  await using client = redis(url)
  const script = client.script<string>('return KEYS[1] .. ARGV[1]')
  assert.deepEqual(await Promise.all(['x', 'y', 'z', 'x'].map((key) => script.run([key], ['!']))), [
    'x!',
    'y!',
    'z!',
    'x!',
  ])
  const waiting = ['q1', 'q2', 'q3'].map((key) => client.blpop(key, 5))
  await Promise.all(['q1', 'q2', 'q3'].map((key) => client.rpush(key, 'item')))
  assert.deepEqual(await Promise.all(waiting), [
    ['q1', 'item'],
    ['q2', 'item'],
    ['q3', 'item'],
  ])
  let count = 0
  function* commands(): Generator<[string, ...string[]]> {
    for (let i = 0; i < 1_000; i++) yield ['SET', `s:${i}`, `${i}`]
  }
  for await (const reply of client.stream(commands(), { window: 50 })) {
    assert.equal(reply, 'OK')
    count++
  }
  assert.equal(count, 1_000)
})

test('messages published on any node arrive', async () => {
  await using client = redis(url)
  await using news = await client.subscribe('news')
  await (plain[2] as Client).publish('news', 'hello')
  assert.equal((await news.next()).value?.payload, 'hello')
})

test('a slot that moves loses nothing and keeps its order', async () => {
  await using client = redis(url)
  const key = 'moving'
  const slot = slotOf(key)
  await client.del(key)
  const from = await cluster.ownerOf(slot)
  const to = (from + 1) % 3
  const lengths: Promise<number>[] = []
  let going = true
  let number = 0
  const writing = (async () => {
    while (going) {
      for (let i = 0; i < 20; i++) lengths.push(client.rpush(key, number++))
      await Promise.allSettled(lengths.slice(-20))
    }
  })()
  for (const [one, other] of [
    [from, to],
    [to, from],
  ] as const) {
    await cluster.beginMove(slot, one, other)
    await cluster.finishMove(slot, one, other)
  }
  going = false
  await writing
  assert.deepEqual(
    await Promise.all(lengths),
    lengths.map((_, i) => i + 1),
  )
  assert.deepEqual(
    await client.lrange(key, 0, -1),
    lengths.map((_, i) => `${i}`),
  )
})

test('missing keys of a moving slot are looked up on the new node', async () => {
  await using client = redis(url)
  const slot = slotOf('{ask}')
  const from = await cluster.ownerOf(slot)
  const to = (from + 1) % 3
  await client.set('{ask}old', 1)
  await cluster.beginMove(slot, from, to)
  assert.equal(await client.set('{ask}new', 2), 'OK')
  assert.deepEqual(
    await Promise.all([client.get('{ask}new'), client.get('{ask}old'), client.incr('{ask}new')]),
    ['2', '1', 3],
  )
  assert.equal(await client.script('return redis.call("GET", KEYS[1])').run(['{ask}new']), '3')
  await cluster.finishMove(slot, from, to)
  assert.deepEqual(await client.mget('{ask}new', '{ask}old'), ['3', '1'])
})

test('a command for a slot without a node fails in time', async () => {
  await using client = redis({ url, waitTimeout: 3000 })
  await client.set('k', 1)
  await using nowhere = redis({ url: `redis://127.0.0.1:1?cluster=1`, waitTimeout: 3000 })
  await assert.rejects(nowhere.get('k'), { outcome: 'NotSent' })
})

test('a node that ends fails only the commands that were sent to it', async () => {
  await using client = redis({ url, waitTimeout: 3000 })
  await client.command('PING')
  const third = cluster.servers[2] as Server
  const keys = Array.from({ length: 60 }, (_, i) => `gone:${i}`)
  await Promise.all(keys.map((key) => client.set(key, 1)))
  await third.stop()
  const results = await Promise.allSettled(keys.map((key) => client.incr(key)))
  for (const [i, result] of results.entries()) {
    const isGone = slotOf(keys[i] as string) >= Math.ceil((2 * 16384) / 3)
    if (result.status === 'fulfilled') assert.ok(!isGone && result.value === 2)
    else assert.notEqual((result.reason as RedisError).outcome, 'Applied')
  }
  assert.ok(results.some(({ status }) => status === 'fulfilled'))
})
