// Nothing waits for itself: what would is an error at once, or goes on. Each limit is reached by a
// hang alone.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'

import { redis } from '../src/redis'
import { type Server, startRedis } from './redis-server'

const limits = { timeout: 600_000 }

let server: Server
after(() => server.stop())
before(async () => {
  server = await startRedis()
})

test('the source of a stream of commands may wait for the replies to earlier ones', limits, async () => {
  const client = redis(server.url)
  await client.set('waits', '0')
  let heard: ((reply: unknown) => void) | undefined
  const source = async function* (): AsyncGenerator<[string, ...string[]]> {
    for (let i = 1; i <= 100; i++) {
      const come = new Promise((resolve) => (heard = resolve))
      yield ['INCR', 'waits']
      assert.equal(await come, i)
    }
  }
  const replies: unknown[] = []
  for await (const reply of client.stream(source())) {
    replies.push(reply)
    heard?.(reply)
  }
  assert.equal(replies.length, 100)
  await client.close()
})

test('a stream of commands is left while its source waits for a reply that is never read', limits, async () => {
  const client = redis(server.url)
  const source = async function* (): AsyncGenerator<[string, ...string[]]> {
    yield ['PING']
    await new Promise(() => undefined)
  }
  for await (const reply of client.stream(source())) {
    assert.equal(reply, 'PONG')
    break
  }
  await client.close()
})

test('the error of the source of a stream of commands reaches its reader', limits, async () => {
  const client = redis(server.url)
  const source = async function* (): AsyncGenerator<[string, ...string[]]> {
    yield ['PING']
    throw new Error('mine')
  }
  const read = async (): Promise<void> => {
    for await (const _ of client.stream(source()));
  }
  await assert.rejects(read(), /mine/)
  await client.close()
})

// --- the end of a client ---

const refused = { code: 'closed', outcome: 'NotSent' }

test('a subscription on a client that is closed, or is being closed, is an error at once', limits, async () => {
  for (const protocol of [2, 3] as const) {
    const client = redis({ url: server.url, protocol })
    await client.ping()
    const news = await client.subscribe('waits')
    const closing = client.close()
    await assert.rejects(client.subscribe('more'), refused)
    await assert.rejects(news.subscribe('more'), refused)
    await closing
    for (const subscribe of ['subscribe', 'psubscribe', 'ssubscribe'] as const)
      await assert.rejects(client[subscribe]('more'), refused)
    assert.deepEqual(await news.next(), { value: undefined, done: true })
  }
})

test('a client is closed beside what its caller holds, and does not wait for ever', { timeout: 600_000 }, async () => {
  const warned: string[] = []
  const hear = (warning: Error & { code?: string }): void => void warned.push(warning.code ?? '')
  process.on('warning', hear)
  const cut = { code: 'closed', outcome: 'Unknown' }
  const ways: ((client: ReturnType<typeof redis>) => Promise<unknown>)[] = [
    async (client) => {
      const session = await client.session()
      await session.get('waits')
      await client.close()
      await assert.rejects(session.get('waits'), { code: 'closed', outcome: 'NotSent' })
    },
    async (client) => {
      const popped = assert.rejects(client.blpop('never', 0), cut)
      await client.ping()
      await client.close()
      await popped
    },
    async (client) => {
      const session = await client.session()
      const popped = assert.rejects(session.command('BLPOP', 'never', 0), cut)
      await client.close()
      await popped
    },
    async (client) => {
      for await (const _ of client.stream([['PING'], ['PING']], { window: 1 })) {
        await client.close()
        break
      }
    },
  ]
  await Promise.all(ways.map((run) => run(redis(server.url))))
  process.off('warning', hear)
  assert.deepEqual(warned, new Array(4).fill('ONETRIP_HELD'))
})

test('a client is closed at once beside a stream of which all replies were read', limits, async () => {
  const client = redis(server.url)
  const stream = client.stream([['PING'], ['PING']])
  await stream.next()
  await stream.next()
  await client.close()
  assert.deepEqual(await stream.next(), { value: undefined, done: true })
})

test('close with a limit cuts what is left then, and its calls end as Unknown', limits, async () => {
  const client = redis(server.url)
  const session = await client.session()
  const popped = assert.rejects(client.blpop('never', 0), { code: 'closed', outcome: 'Unknown' })
  while (!/cmd=blpop/.test(await session.command<string>('CLIENT LIST'))) await setImmediate()
  await client.close({ timeoutMs: 10 })
  await popped
  await assert.rejects(session.ping(), { code: 'closed' })
  const idle = redis(server.url)
  await idle.ping()
  await idle.close({ timeoutMs: 60_000 })
})

test('a stream with a window that takes nothing, or with what is no command, is an error', limits, async () => {
  await using client = redis(server.url)
  const read = async (commands: unknown, options: object) => {
    for await (const reply of client.stream(commands as never, options)) void reply
  }
  for (const [commands, options] of [
    [[['PING']], { window: 0 }],
    [[['PING']], { window: NaN }],
    [[['PING']], { windowBytes: -1 }],
    [[['PING'], []], {}],
    [[undefined, ['PING']], {}],
  ] as const) {
    await assert.rejects(read(commands, options), { code: 'wrong_argument', outcome: 'NotSent' })
  }
})

test('times that no timer can wait are refused', () => {
  assert.throws(() => redis({ connectTimeout: 2 ** 31 }), { code: 'config' })
  const client = redis(server.url)
  assert.throws(() => client.with({ timeout: -1 }), { code: 'wrong_argument' })
  assert.throws(() => client.with({ timeout: NaN }), { code: 'wrong_argument' })
  assert.throws(() => client.with({ signal: 5 as never }), { code: 'wrong_argument' })
})
