// Nothing waits for itself: what would is an error at once, or goes on. Each limit is reached by a
// hang alone.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import { redis } from '../src/redis'
import { type Server, startRedis } from './redis-server'

const limits = { timeout: 20_000 }

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
