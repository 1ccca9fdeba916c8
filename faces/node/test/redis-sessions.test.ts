import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import { type Client, redis, RedisError } from '../src/redis'
import { type Server, startRedis, until } from './redis-server'

let server: Server
after(() => server.stop())
before(async () => {
  server = await startRedis()
})

const ADD = "return redis.call('INCRBY', KEYS[1], ARGV[1])"

const idOf = (sender: Pick<Client, 'command'>): Promise<number> =>
  sender.command<number>('CLIENT', 'ID')

test('an atomic list runs as a whole although the server has forgotten its script', async () => {
  await using client = redis(server.url)
  await using other = redis(server.url)
  await using session = await client.session()
  const script = client.script<number>(ADD)
  await client.del('whole', 'called')
  for (let round = 1; round <= 20; round += 2) {
    // Both connections know it by its hash.
    await script.run(['called'], [0])
    await session.call(script, ['called'], [0])
    await session.watch('called')
    await other.script_flush()
    const inSession = session.atomic().incr('whole').call(script, ['called'], [1])
    assert.deepEqual(await inSession.run(), [round, round])
    await other.script_flush()
    const list = client.atomic().incr('whole').call(script, ['called'], [1])
    assert.deepEqual(await list.run(), [round + 1, round + 1])
  }
})

test('a script between MULTI and EXEC by hand runs although the server has forgotten it', async () => {
  await using client = redis(server.url)
  await using session = await client.session()
  const script = session.script<number | string>(ADD)
  await client.del('by hand')
  assert.equal(await script.run(['by hand'], [1]), 1)
  for (let n = 1; n <= 5; n += 2) {
    await client.script_flush()
    const pipeline = session.pipeline().call(script, ['by hand'], [1])
    await session.command('MULTI')
    assert.equal(await script.run(['by hand'], [1]), 'QUEUED')
    assert.deepEqual(await pipeline.run(), ['QUEUED'])
    assert.deepEqual(await session.command('EXEC'), [n + 1, n + 2])
  }
  await client.script_flush()
  await session.command('MULTI')
  await script.run(['by hand'], [1])
  await session.command('DISCARD')
  const [called, behind] = await Promise.all([script.run(['by hand'], [1]), session.get('by hand')])
  assert.deepEqual([called, behind], [8, '8'])
})

test('errors within EXEC have the outcome of their own command', async () => {
  await using client = redis(server.url)
  const failing = client.script(
    "redis.call('SET', KEYS[1], 1); return redis.call('LPUSH', KEYS[1], 1)",
  )
  const errors = await client
    .atomic()
    .command('EVALSHA', 'f'.repeat(40), 0)
    .set('errors', 'x')
    .lpush('errors', 1)
    .call(failing, ['errors'])
    .run()
  const told = errors.map((it) =>
    (it as unknown) instanceof RedisError
      ? [(it as RedisError).code, (it as RedisError).outcome, (it as RedisError).command]
      : it,
  )
  assert.deepEqual(told, [
    ['NOSCRIPT', 'Rejected', 'EVALSHA'],
    'OK',
    ['WRONGTYPE', 'Rejected', 'LPUSH'],
    ['WRONGTYPE', 'Unknown', 'EVAL'],
  ])
})

test('a script whose text was withdrawn is not called by its hash', async () => {
  await using client = redis({ url: server.url, inFlightBytesMax: 100 })
  const script = client.script<number>(`${ADD} -- taken back`)
  const controller = new AbortController()
  await client.connect()
  // The script waits for the window.
  const first = client.set('large', 'x'.repeat(1000))
  const given = client.with({ signal: controller.signal }).call(script, ['taken back'], [1])
  queueMicrotask(() => controller.abort())
  await assert.rejects(given, { code: 'ABORT_ERR', outcome: 'NotSent' })
  await first
  const [called, behind] = await Promise.all([script.run(['taken back'], [1]), client.ping()])
  assert.deepEqual([called, behind], [1, 'PONG'])
})

test('changes by the lists of a session are not passed on to the next', async () => {
  await using client = redis(server.url)
  const changes: ((session: Awaited<ReturnType<typeof client.session>>) => Promise<unknown>)[] = [
    (session) => session.pipeline().command('SELECT', 7).run(),
    (session) => session.pipeline().command('client', Buffer.from('setname'), 'mine').run(),
    (session) => session.pipeline().command('Watch', 'watched').run(),
    (session) => session.pipeline().command('mULTI').run(),
    (session) => session.command('sElect', Buffer.from('7')),
    (session) => session.command('NOSUCH').catch(() => {}),
    (session) => session.pipeline().command('NOSUCH').run(),
  ]
  for (const change of changes) {
    const session = await client.session()
    const id = await idOf(session)
    await change(session)
    await session.close()
    await using next = await client.session()
    assert.notEqual(await idOf(next), id, String(change))
    assert.match(await next.command<string>('CLIENT INFO'), / name= .* db=0 /)
  }
})

test('a connection whose stream sent an unknown command is not used again', async () => {
  await using client = redis(server.url)
  for (const [name, isLentAgain] of [
    ['ECHO', true],
    ['NOSUCH', false],
  ] as const) {
    const session = await client.session()
    const id = await idOf(session)
    await session.close()
    for await (const _ of client.stream([[name, 'x']]));
    await using next = await client.session()
    assert.equal((await idOf(next)) === id, isLentAgain, name)
  }
})

test('the connection of a session that changed nothing is used again', async () => {
  await using client = redis(server.url)
  const session = await client.session()
  const id = await idOf(session)
  await session.watch('unchanged')
  await session.atomic().incr('unchanged').run()
  await session.watch('unchanged')
  await session.unwatch()
  await session.close()
  await using next = await client.session()
  assert.equal(await idOf(next), id)
})

test('the watches of a session affect no other, however its list ended', async () => {
  await using client = redis(server.url)
  for (const spoil of ['refused', 'never run', 'not sent', 'watched behind it']) {
    const session = await client.session()
    await session.watch('mine')
    const list = session.atomic().incr('mine')
    if (spoil === 'refused') await assert.rejects(list.command('GET').run())
    if (spoil === 'not sent') await assert.rejects(list.set('mine', null as never).run())
    if (spoil === 'watched behind it') await Promise.all([list.run(), session.watch('mine')])
    await session.close()
    await client.set('mine', 1)
    await using next = await client.session()
    assert.deepEqual(await next.atomic().incr('mine').run(), [2], spoil)
  }
})

test('lists of a session refuse commands that are not answered exactly once', async () => {
  await using client = redis(server.url)
  await using session = await client.session()
  for (const [name, ...args] of [
    ['MONITOR'],
    ['client', 'Reply', 'off'],
    ['reset'],
    ['SUBSCRIBE', 'c'],
  ]) {
    const [error] = await session
      .pipeline()
      .command(name as string, ...args)
      .run()
    assert.ok((error as unknown) instanceof RedisError, name)
    assert.equal((error as unknown as RedisError).code, 'wrong_place')
    const list = session.atomic().command(name as string, ...args)
    await assert.rejects(list.run(), { code: 'wrong_place', outcome: 'NotSent' })
  }
  for (const name of ['MULTI', 'EXEC', 'discard', 'Watch']) {
    const list = session.atomic().set('k', 1).command(name)
    await assert.rejects(list.run(), { code: 'wrong_place', outcome: 'NotSent' })
  }
  assert.equal(await session.ping(), 'PONG')
})

test("an atomic list does not begin within a MULTI of the session's own", async () => {
  await using client = redis(server.url)
  await using session = await client.session()
  await session.command('MULTI')
  await session.set('own', 'first')
  await assert.rejects(session.atomic().get('own').run(), {
    code: 'wrong_place',
    outcome: 'NotSent',
  })
  assert.deepEqual(await session.command('EXEC'), ['OK'])
  assert.deepEqual(await session.atomic().get('own').run(), ['first'])
})

test('after a refused EXEC no caller is left within MULTI', async () => {
  const without = await startRedis(['--rename-command', 'EXEC', ''])
  try {
    await using client = redis(without.url)
    const [list, behind] = await Promise.allSettled([
      client.atomic().set('k', 'x').run(),
      client.get('k'),
    ])
    assert.ok(list.status === 'rejected' && behind.status === 'rejected')
    assert.equal((list.reason as RedisError).outcome, 'Unknown')
    assert.equal((behind.reason as RedisError).outcome, 'Unknown')
    assert.equal(await client.get('k'), null)
    assert.equal(await client.set('k', 'y'), 'OK')
    assert.equal(await client.get('k'), 'y')
  } finally {
    await without.stop()
  }
})

test('a blocking XREADGROUP has its own connection, whatever the order of its options', async () => {
  await using client = redis(server.url)
  await client.xgroup_create('s', 'streams', '$', { mkstream: true })
  const [group, streams] = [
    ['GROUP', 'streams'],
    ['streams', 's', '>'],
  ]
  const calls = [
    client.command('XREADGROUP', 'BLOCK', 0, ...group!, 'c', ...streams!),
    client.command('xreadgroup', ...group!, 'd', 'count', 1, 'block', 0, ...streams!),
  ]
  assert.equal(await client.ping(), 'PONG')
  let left = calls.length
  for (const call of calls) void call.then(() => left--)
  await until(async () => {
    await client.xadd('s', '*', { a: 1 })
    return left === 0
  })
})

test('sessions and blocking commands follow the shared connection to another server', async () => {
  const [first, second] = [await startRedis(), await startRedis()]
  let back: Server | undefined
  try {
    await using client = redis(`redis://127.0.0.1:${first.port},127.0.0.1:${second.port}`)
    await using other = redis(second.url)
    const portOf = async (sender: Pick<Client, 'command'>): Promise<string> =>
      /laddr=\S+:(\d+)/.exec(await sender.command<string>('CLIENT INFO'))?.[1] ?? ''
    const idle = await client.session()
    assert.equal(await portOf(idle), `${first.port}`)
    await first.stop()
    await idle.close()
    await client.repeatable().ping()
    back = await startRedis([], first.port)
    assert.equal(await portOf(client), `${second.port}`)
    await using session = await client.session()
    assert.equal(await portOf(session), `${second.port}`)
    const popped = client.blpop('follows', 0)
    await other.rpush('follows', 'x')
    assert.deepEqual(await popped, ['follows', 'x'])
  } finally {
    await Promise.all([first.stop(), second.stop(), back?.stop()])
  }
})
