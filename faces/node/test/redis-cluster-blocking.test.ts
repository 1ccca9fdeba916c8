import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import { memory } from '../src/engine/memory'
import { redis, type Client } from '../src/redis'
import { Call } from '../src/redis/call'
import { configOf } from '../src/redis/config'
import { Node } from '../src/redis/core'
import { RedisError } from '../src/redis/error'
import { slotOf, specOf } from '../src/redis/spec'
import { startCluster, type TestCluster } from './redis-cluster-kit'
import { until } from './redis-server'

const limits = { timeout: 600_000 }
let cluster: TestCluster

before(async () => {
  cluster = await startCluster(2)
})
after(() => cluster.stop())

/** A number of a server's INFO. */
async function infoOf(node: number, name: string): Promise<number> {
  const info = await (cluster.plain[node] as Client).command<string>('INFO')
  return Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1])
}

/** Waits until this many callers are blocked at a node. */
function blocked(node: number, count: number): Promise<void> {
  return until(async () => (await infoOf(node, 'blocked_clients')) === count)
}

/** A key's slot, the node that has it, and the node to move it to. */
async function moveOf(key: string): Promise<[slot: number, from: number, to: number]> {
  const slot = slotOf(key)
  const from = await cluster.ownerOf(slot)
  return [slot, from, (from + 1) % 3]
}

test('a blocking command follows its slot, if it is sent before, during or after a move', limits, async () => {
  await using client = redis(cluster.url)
  const [slot, from, to] = await moveOf('{a}')
  const before = client.blpop('{a}', 0)
  await blocked(from, 1)
  await cluster.beginMove(slot, from, to)
  const meanwhile = client.blpop('{a}', 0)
  await blocked(to, 1)
  await cluster.finishMove(slot, from, to)
  const behind = client.blpop('{a}', 0)
  await blocked(to, 3)
  await client.rpush('{a}', '1', '2', '3')
  const items = await Promise.all([before, meanwhile, behind])
  assert.deepEqual(items.map((it) => it?.[1]).sort(), ['1', '2', '3'])
  assert.equal(await client.llen('{a}'), 0)
})

test('blocking commands take each item once while their slot moves back and forth', limits, async () => {
  await using client = redis(cluster.url)
  const [slot, from, to] = await moveOf('{b}')
  const [taken, count] = [[] as string[], 200]
  const taking = Array.from({ length: 4 }, async () => {
    for (;;) {
      const item = (await client.blpop('{b}', 0))?.[1]
      if (item === undefined || item === 'end') return
      taken.push(item)
    }
  })
  const moving = (async () => {
    for (const [one, other] of [[from, to], [to, from]] as const) {
      await cluster.beginMove(slot, one, other)
      await cluster.finishMove(slot, one, other)
    }
  })()
  for (let i = 0; i < count; i++) await client.rpush('{b}', i)
  await moving
  await client.rpush('{b}', ...taking.map(() => 'end'))
  await Promise.all(taking)
  assert.deepEqual(
    taken.map(Number).sort((a, b) => a - b),
    Array.from({ length: count }, (_, i) => i),
  )
})

test('a connection whose command was sent elsewhere is lent again', limits, async () => {
  await using client = redis(cluster.url)
  const [slot, from, to] = await moveOf('{c}')
  const blocking = client.blpop('{c}', 0)
  await blocked(from, 1)
  const before = await infoOf(from, 'total_connections_received')
  await cluster.beginMove(slot, from, to)
  await cluster.finishMove(slot, from, to)
  await blocked(to, 1)
  await client.rpush('{c}', 1)
  assert.deepEqual(await blocking, ['{c}', '1'])
  await cluster.beginMove(slot, to, from)
  await cluster.finishMove(slot, to, from)
  const again = client.blpop('{c}', 0)
  await blocked(from, 1)
  const then = await infoOf(from, 'total_connections_received')
  await client.rpush('{c}', 2)
  assert.deepEqual(await again, ['{c}', '2'])
  assert.equal(then, before)
})

test('a command that waits for a connection to a node that leaves is sent elsewhere', limits, async () => {
  await using client = redis({ url: cluster.url, connectionsMax: 1 })
  const [slot, home] = await moveOf('{d}')
  await cluster.beginMove(slot, home, 3)
  await cluster.finishMove(slot, home, 3)
  const blocking = [client.blpop('{d}', 0), client.blpop('{d}', 0)]
  await blocked(3, 1)
  // Without a slot the node is not part of the topology.
  await cluster.beginMove(slot, 3, home)
  await cluster.finishMove(slot, 3, home)
  await client.rpush('{d}', 1, 2)
  assert.deepEqual((await Promise.all(blocking)).map((it) => it?.[1]).sort(), ['1', '2'])
})

test('a command that was blocked for longer than waitTimeout is still sent elsewhere', limits, async () => {
  await using client = redis({ url: cluster.url, waitTimeout: 3000 })
  const [slot, home] = await moveOf('{e}')
  await cluster.beginMove(slot, home, 4)
  await cluster.finishMove(slot, home, 4)
  const blocking = client.blpop('{e}', 0)
  await blocked(4, 1)
  const since = performance.now()
  await until(() => Promise.resolve(performance.now() - since > 3000))
  // A master that loses its last slot becomes a replica, and answers blocked commands so.
  await cluster.beginMove(slot, 4, home)
  await cluster.finishMove(slot, 4, home)
  await client.rpush('{e}', 1)
  assert.deepEqual(await blocking, ['{e}', '1'])
})

test('a command that CLIENT UNBLOCK ends gets that error', limits, async () => {
  await using client = redis(cluster.url)
  const [, from] = await moveOf('{f}')
  const told = client.blpop('{f}', 0).then(
    () => 'served',
    (error: Error) => error.message,
  )
  await blocked(from, 1)
  const node = cluster.plain[from] as Client
  const list = await node.command<string>('CLIENT LIST')
  const [, id] = /^id=(\d+) .* cmd=blpop /m.exec(list) ?? []
  await node.command('CLIENT UNBLOCK', id as string, 'ERROR')
  assert.equal(await told, 'UNBLOCKED client unblocked via CLIENT UNBLOCK')
})

const HOW = { bytes: false, repeatable: false, alone: false, timeout: 0, signal: undefined }
const ignore = (): void => undefined

test('a caller that waits for a connection to a dropped node gets node_gone, not closed', limits, async () => {
  const config = configOf('redis://127.0.0.1:1')
  const node = new Node(config, config.servers)
  const waiting = new Promise((_, reject) => {
    node.sendOwn(new Call(specOf('BLPOP'), ['k', 0], HOW, undefined, ignore, reject))
  })
  const told = assert.rejects(waiting, { code: 'node_gone', outcome: 'NotSent' })
  await node.close(new RedisError('it has left', 'node_gone', 'NotSent'))
  await told
})

test('a blocking command ends with its deadline, signal or client, and its connection is closed', limits, async () => {
  const [, from] = await moveOf('{g}')
  const client = redis(cluster.url)
  // A connection that waits for it: then it leaves before its deadline can pass.
  await client.rpush('{g}', 'x')
  await client.blpop('{g}', 0)
  await assert.rejects(client.with({ timeout: 50 }).blpop('{g}', 0), {
    code: 'timeout',
    outcome: 'Unknown',
  })
  await blocked(from, 0)
  const signal = new AbortController()
  const aborted = client.with({ signal: signal.signal }).blpop('{g}', 0)
  await blocked(from, 1)
  signal.abort()
  await assert.rejects(aborted, { code: 'ABORT_ERR', outcome: 'Unknown' })
  await blocked(from, 0)
  const last = client.blpop('{g}', 0)
  await blocked(from, 1)
  client.destroy()
  await assert.rejects(last, { code: 'closed', outcome: 'Unknown' })
  await assert.rejects(client.get('{g}'), { code: 'closed', outcome: 'NotSent' })
  await blocked(from, 0)
})

test('a command that waits for a node is given up as NotSent, and ends with its client', limits, async () => {
  const client = redis({ url: 'redis://127.0.0.1:1?cluster=1' })
  const signal = new AbortController()
  const aborted = client.with({ signal: signal.signal }).get('a')
  const late = client.with({ timeout: 50 }).get('a')
  const last = client.get('a')
  signal.abort()
  await assert.rejects(aborted, { code: 'ABORT_ERR', outcome: 'NotSent' })
  await assert.rejects(late, { code: 'timeout', outcome: 'NotSent' })
  client.destroy()
  await assert.rejects(last, { outcome: 'NotSent' })
})

test('a list runs as a whole on the node of its slot, also during a move', limits, async () => {
  await using client = redis(cluster.url)
  const [slot, from, to] = await moveOf('{h}')
  await client.set('{h}old', 0)
  await cluster.beginMove(slot, from, to)
  const asked = await client.atomic().incr('{h}new').incr('{h}new').run()
  assert.deepEqual(asked, [1, 2])
  await cluster.finishMove(slot, from, to)
  assert.deepEqual(await client.atomic().incr('{h}old').incr('{h}new').run(), [1, 3])
})

test('a closed client answers its calls, and takes no new ones', limits, async () => {
  const client = redis(cluster.url)
  const asked = Array.from({ length: 100 }, (_, i) => client.incr(`closing:${i}`))
  await client.close()
  assert.equal((await Promise.all(asked)).length, 100)
  await assert.rejects(client.get('a'), { code: 'closed', outcome: 'NotSent' })
})

test('when the module fails, calls fail, and the topology is queried again', limits, async () => {
  const client = redis(cluster.url)
  await client.set('{i}', 1)
  const told = (asked: Promise<unknown>): Promise<RedisError> =>
    asked.then(
      () => assert.fail('the call was answered'),
      (error: RedisError) => error,
    )
  const asked = [told(client.incr('{i}')), told(client.blpop('{i}list', 0))]
  memory.failed(new WebAssembly.RuntimeError('it is over'))
  for (const error of await Promise.all(asked)) {
    assert.match(error.message, /engine of this process failed/)
    assert.notEqual(error.outcome, 'Applied')
  }
  assert.equal(await client.set('{i}', 2), 'OK')
  assert.deepEqual(await client.mget('{i}', 'none'), ['2', null])
  await client.close()
})

test('a client is closed beside a command that blocks for ever, at its limit or once nothing moves', limits, async () => {
  const cut = { code: 'closed', outcome: 'Unknown' }
  const close = async (timeoutMs?: number): Promise<void> => {
    const client = redis(cluster.url)
    await client.ping()
    const [, from] = await moveOf('{never}')
    const ended = assert.rejects(client.blpop('{never}', 0), cut)
    await blocked(from, 1)
    await client.close(timeoutMs === undefined ? {} : { timeoutMs })
    await ended
    await blocked(from, 0)
  }
  await close(10)
  await close()
})
