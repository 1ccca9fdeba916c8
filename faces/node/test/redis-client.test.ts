import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import { redis, RedisError } from '../src/redis'
import { lacks, type Server, startRedis, until } from './redis-server'

let server: Server
after(() => server.stop())
before(async () => {
  server = await startRedis()
})

test('each call of one turn gets its own reply', async () => {
  await using client = redis(server.url)
  const replies = await Promise.all([
    client.set('a', 1),
    client.incr('a'),
    client.get('a'),
    client.get('none'),
    client.command('OBJECT ENCODING', 'a'),
    client.command('object', 'encoding', 'a'),
  ])
  assert.deepEqual(replies, ['OK', 2, '2', null, 'int', 'int'])
})

test('a command of alone() is sent on a connection of its own', async () => {
  await using client = redis(server.url)
  const id = (of: typeof client): Promise<number> => of.command<number>('CLIENT ID')
  const shared = await id(client)
  assert.notEqual(await id(client.alone()), shared)
  assert.equal(await id(client), shared)
  await client.set('alone', 'x')
  const get = client.script<string>("return redis.call('GET', KEYS[1])")
  for (let i = 0; i < 3; i++) assert.equal(await client.alone().call(get, ['alone']), 'x')
  const piped = await client.alone().pipeline().command('CLIENT ID').run()
  assert.deepEqual(piped, [shared], 'a pipeline must use the shared connection')
})

test('an error belongs to its command, with the outcome Rejected', async () => {
  await using client = redis(server.url)
  const [, wrong, right] = await Promise.allSettled([
    client.set('text', 'x'),
    client.lpush('text', 1),
    client.get('text'),
  ])
  assert.equal(right.status === 'fulfilled' && right.value, 'x')
  assert.ok(wrong.status === 'rejected')
  const error = wrong.reason as RedisError
  assert.ok(error instanceof RedisError)
  assert.deepEqual([error.code, error.outcome, error.command], ['WRONGTYPE', 'Rejected', 'LPUSH'])
})

test('arguments of all kinds arrive unchanged', async () => {
  await using client = redis(server.url)
  const texts = [
    '',
    'a',
    'ü',
    '漢字'.repeat(40),
    'x'.repeat(41),
    'é'.repeat(70_000),
    '😀'.repeat(3),
    '\r\n$3\r\n',
    'y'.repeat(1_000_000),
  ]
  for (const text of texts) {
    assert.equal(await client.set('k', text), 'OK')
    assert.equal(await client.get('k'), text)
  }
  const bytes = Uint8Array.from({ length: 256 }, (_, i) => i)
  await client.set('k', bytes)
  assert.deepEqual(await client.buffers.get('k'), Buffer.from(bytes))
  const numbers = [0, -1, 1.5, 1e21, 2 ** 53, 123456789012345678901234567890n, -7n]
  for (const number of numbers) {
    await client.set('k', number)
    assert.equal(
      await client.get('k'),
      typeof number === 'bigint'
        ? `${number}`
        : number === 1e21
          ? '1000000000000000000000'
          : `${number}`,
    )
  }
  await client.zadd('z', [
    [Infinity, 'a'],
    [-Infinity, 'b'],
  ])
  assert.deepEqual(await client.zrange_withscores('z', 0, -1), [
    { value: 'b', score: -Infinity },
    { value: 'a', score: Infinity },
  ])
})

test('a value that cannot be an argument is refused before anything is sent', async () => {
  await using client = redis(server.url)
  for (const wrong of [null, undefined, {}, ['a'], true, Symbol.iterator]) {
    const call = client.command('SET', 'k', wrong as never)
    const before = client.set('before', 1)
    await assert.rejects(call, { code: 'wrong_argument', outcome: 'NotSent' })
    assert.equal(await before, 'OK')
  }
})

for (const protocol of [3, 2] as const) {
  test(`helpers answer the same on RESP${protocol}`, async () => {
    await using client = redis({ url: server.url, protocol, database: protocol })
    await client.flushdb()
    assert.equal(await client.hset('h', { a: 1, ['__proto__']: 2 }), 2)
    const all = await client.hgetall('h')
    assert.deepEqual(Object.entries(all).sort(), [
      ['__proto__', '2'],
      ['a', '1'],
    ])
    assert.deepEqual([...(await client.buffers.hgetall('h')).values()].map(String).sort(), [
      '1',
      '2',
    ])
    assert.equal(await client.sadd('s', 'x', 'y'), 2)
    assert.deepEqual(await client.smembers('s'), new Set(['x', 'y']))
    assert.equal(await client.sismember('s', 'x'), true)
    assert.deepEqual(await client.smismember('s', 'x', 'z'), [true, false])
    assert.equal(
      await client.zadd('z', [
        [1.5, 'a'],
        [2, 'b'],
      ]),
      2,
    )
    assert.equal(await client.zscore('z', 'a'), 1.5)
    assert.equal(await client.zscore('z', 'none'), null)
    assert.equal(await client.zincrby('z', 1, 'a'), 2.5)
    assert.deepEqual(await client.zrange_withscores('z', 0, -1), [
      { value: 'b', score: 2 },
      { value: 'a', score: 2.5 },
    ])
    assert.deepEqual(await client.zpopmin('z'), [{ value: 'b', score: 2 }])
    assert.equal(await client.incrbyfloat('f', 1.25), 1.25)
    assert.deepEqual(await client.mget('none', 'f'), [null, '1.25'])
    const id = await client.xadd('x', '1-1', { field: 'value' })
    assert.equal(id, '1-1')
    const entry = {
      id: '1-1',
      fields: Object.assign(Object.create(null), { field: 'value' }) as { field: string },
    }
    assert.deepEqual(await client.xrange('x', '-', '+'), [entry])
    assert.deepEqual((await client.xread({ x: '0' }))?.['x'], [entry])
    assert.equal(await client.xread({ x: '1-1' }), null)
    assert.deepEqual(await client.scan(0, { match: 'h*', count: 1000 }), {
      cursor: '0',
      items: ['h'],
    })
    assert.deepEqual((await client.hscan('h', 0)).items['a'], '1')
    assert.equal(await client.expire('h', 100), true)
    assert.equal(await client.set('n', 1, { nx: true, ex: 10 }), 'OK')
    assert.equal(await client.set('n', 1, { nx: true }), null)
    assert.equal((await client.config_get('maxmemory-policy'))['maxmemory-policy'], 'noeviction')
    assert.match(await client.info('server'), /redis_version/)
  })
}

test('a string is deleted by whoever knows it', async () => {
  await using client = redis(server.url)
  if (await lacks(client, 'DELIFEQ')) return
  await client.set('lock', 'mine')
  assert.equal(await client.delifeq('lock', 'yours'), false)
  assert.equal(await client.delifeq('lock', 'mine'), true)
  assert.equal(await client.delifeq('lock', 'mine'), false)
})

test('every type of RESP3 is read', async () => {
  await using client = redis(server.url)
  const types = [
    'string',
    'integer',
    'double',
    'null',
    'array',
    'set',
    'map',
    'attrib',
    'bignum',
    'true',
    'false',
    'verbatim',
  ]
  const replies = await Promise.all(
    types.map((type) =>
      client.command('DEBUG', 'PROTOCOL', type).catch((error: Error) => error.message),
    ),
  )
  if (String(replies[0]).includes('DEBUG command not allowed')) return
  assert.deepEqual(replies, [
    'Hello World',
    12345,
    3.141,
    null,
    [0, 1, 2],
    new Set([0, 1, 2]),
    Object.assign(Object.create(null), { 0: false, 1: true, 2: false }),
    'Some real reply following the attribute',
    1234567999999999999999999999999999999n,
    true,
    false,
    'This is a verbatim\nstring',
  ])
})

test('integers that a number cannot hold are bigints', async () => {
  await using client = redis(server.url)
  await client.set('big', '9223372036854775806')
  assert.equal(await client.incr('big'), 9223372036854775807n)
  await client.set('big', '-9223372036854775807')
  assert.equal(await client.decr('big'), -9223372036854775808n)
  await client.set('big', '9007199254740990')
  assert.equal(await client.incr('big'), 9007199254740991)
})

test('a command that would harm a shared connection is refused, with what to use instead', async () => {
  await using client = redis(server.url)
  for (const [name, ...args] of [
    ['WATCH', 'k'],
    ['SELECT', '1'],
    ['SUBSCRIBE', 'c'],
    ['CLIENT', 'REPLY', 'OFF'],
    ['MONITOR'],
    ['client reply', 'off'],
    ['Post', '/ HTTP/1.1'],
    ['cLient', Buffer.from('import-source'), 'on'],
  ]) {
    await assert.rejects(client.command(name as string, ...args), (error: RedisError) => {
      assert.deepEqual([error.code, error.outcome], ['wrong_place', 'NotSent'])
      return true
    })
  }
})

test('a blocking command waits on a connection of its own', async () => {
  await using client = redis(server.url)
  const waiting = client.blpop('queue', 0)
  assert.equal(await client.set('meanwhile', 1), 'OK')
  await client.rpush('queue', 'item')
  assert.deepEqual(await waiting, ['queue', 'item'])
  assert.equal(await client.blpop('queue', 0.01), null)
  const entry = client.xread({ stream: '$' }, { block: 0 })
  // XREAD waits on another connection. Entries are added until it has got one.
  let read: unknown
  void entry.then((streams) => (read = streams))
  await until(async () => {
    await client.xadd('stream', '*', { a: 1 })
    return read !== undefined
  })
})

test('the database, the name and a Unix socket of the settings are used', async () => {
  await using client = redis(`unix:${server.socket}?db=5&client_name=tests`)
  assert.equal(await client.command('CLIENT GETNAME'), 'tests')
  assert.match(await client.command<string>('CLIENT INFO'), / db=5 /)
})

test('a list answers in order, with an error for each command that failed', async () => {
  await using client = redis(server.url)
  const [set, wrong, number] = await client.pipeline().set('p', 1).lpush('p', 2).incr('p').run()
  assert.equal(set, 'OK')
  assert.ok(wrong instanceof RedisError && wrong.code === 'WRONGTYPE')
  assert.equal(number, 2)
  assert.deepEqual(await client.pipeline().run(), [])
})

test('an atomic list runs as a whole or not at all', async () => {
  await using client = redis(server.url)
  await client.set('n', 1)
  const [incremented, wrong, members] = await client
    .atomic()
    .incr('n')
    .lpush('n', 1)
    .sadd('as', 'a')
    .run()
  assert.deepEqual([incremented, members], [2, 1])
  assert.ok(wrong instanceof RedisError && wrong.outcome === 'Rejected')
  await assert.rejects(client.atomic().incr('n').command('GET').run(), {
    outcome: 'Rejected',
    command: 'GET',
  })
  assert.equal(await client.get('n'), '2')
})

test('an atomic list of a session does not run if a watched key was changed', async () => {
  await using client = redis(server.url)
  await using session = await client.session()
  await client.set('stock', 5)
  await session.watch('stock')
  await client.decr('stock')
  await assert.rejects(session.atomic().set('stock', 9).run(), {
    code: 'watched_key_changed',
    outcome: 'Rejected',
  })
  await session.watch('stock')
  assert.deepEqual(await session.atomic().set('stock', 9).run(), ['OK'])
  assert.equal(await client.get('stock'), '9')
})

test('changes of a session are not passed on to the next', async () => {
  await using client = redis(server.url)
  {
    await using session = await client.session()
    await session.command('SELECT', 7)
    await session.set('only', 'seven')
  }
  await using session = await client.session()
  assert.equal(await session.get('only'), null)
})

test('a script is sent as a text once, and again if the server has forgotten it', async () => {
  await using client = redis(server.url)
  const script = client.script<number>("return redis.call('INCRBY', KEYS[1], ARGV[1])")
  await client.del('visits')
  assert.equal(await script.run(['visits'], [7]), 7)
  assert.equal(await script.run(['visits'], [7]), 14)
  await client.script_flush()
  assert.equal(await script.run(['visits'], [7]), 21)
  await client.script_flush()
  const [first, second] = await Promise.allSettled([
    script.run(['visits'], [1]),
    client.get('visits'),
  ])
  assert.ok(first.status === 'rejected' && (first.reason as RedisError).code === 'NOSCRIPT')
  assert.equal((first.reason as RedisError).outcome, 'Rejected')
  assert.ok(second.status === 'fulfilled' && second.value === '21')
  assert.deepEqual(
    await client.pipeline().call(script, ['visits'], [1]).call(script, ['visits'], [1]).run(),
    [22, 23],
  )
  assert.deepEqual(await client.atomic().call(script, ['visits'], [1]).run(), [24])
})

test('a call of what is no script says how commands are sent', async () => {
  await using client = redis(server.url)
  await using session = await client.session()
  const given = 'PING' as unknown as ReturnType<typeof client.script>
  const expected = { code: 'no_script', outcome: 'NotSent', message: /command\(name, / }
  for (const call of [
    () => client.call(given),
    () => session.call(given),
    () => client.pipeline().call(given),
    () => client.call(undefined as unknown as typeof given),
  ]) {
    assert.throws(call, expected)
  }
})

test('the error of a script leaves its outcome unknown', async () => {
  await using client = redis(server.url)
  const script = client.script(
    "redis.call('SET', KEYS[1], 'left'); return redis.call('LPUSH', KEYS[1], 1)",
  )
  await assert.rejects(script.run(['effect']), { outcome: 'Unknown', code: 'WRONGTYPE' })
  assert.equal(await client.get('effect'), 'left')
})

test('a stream of commands is answered in order within its window', async () => {
  await using client = redis(server.url)
  await client.del('count')
  let taken = 0
  function* commands(): Generator<[string, string]> {
    for (let i = 0; i < 5_000; i++, taken++) yield ['INCR', 'count']
  }
  let expected = 0
  for await (const reply of client.stream(commands(), { window: 100 })) {
    assert.equal(reply, ++expected)
    assert.ok(taken - expected <= 101, `${taken} taken`)
  }
  assert.equal(expected, 5_000)
})

test('a client may be closed again, also after it was destroyed', { timeout: 600_000 }, async () => {
  for (const first of ['close', 'destroy'] as const) {
    const client = redis(server.url)
    await client.alone().get('closed')
    await client[first]()
    await client.get('closed').catch(() => undefined)
    await client.close()
    await client.close()
  }
})

test('ten thousand calls in flight come back in order', async () => {
  await using client = redis(server.url)
  await client.del('many')
  const replies = await Promise.all(Array.from({ length: 10_000 }, () => client.incr('many')))
  assert.deepEqual(
    replies,
    Array.from({ length: 10_000 }, (_, i) => i + 1),
  )
})
