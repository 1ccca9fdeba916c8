import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import { type Client, type Message, redis, type Subscription } from '../src/redis'
import { slotOf } from '../src/redis/spec'
import { startCluster, type TestCluster } from './redis-cluster-kit'
import { until } from './redis-server'

let cluster: TestCluster
before(async () => {
  cluster = await startCluster()
})
after(() => cluster.stop())

async function next<T>(subscription: Subscription<T>): Promise<Message<T>> {
  const { value, done } = await subscription.next()
  assert.ok(done !== true)
  return value as Message<T>
}

/** A channel of a slot that this node has. */
async function channelAt(node: number, name: string): Promise<string> {
  for (let i = 0; ; i++)
    if ((await cluster.ownerOf(slotOf(`${name}:${i}`))) === node) return `${name}:${i}`
}

/** How many sharded channels a node has subscribers of. */
async function subscribedAt(node: number): Promise<string[]> {
  return (cluster.plain[node] as Client).command<string[]>('PUBSUB SHARDCHANNELS')
}

test('messages of sharded channels arrive from each node', async () => {
  await using client = redis(cluster.url)
  const channels = await Promise.all([0, 1, 2].map((node) => channelAt(node, 'news')))
  await using news = await client.ssubscribe(...channels)
  await using bytes = await client.buffers.ssubscribe(channels[1] as string)
  for (const [node, channel] of channels.entries()) {
    assert.deepEqual(await subscribedAt(node), [channel])
    assert.equal(await client.spublish(channel, `from ${node}`), 1)
    assert.deepEqual(await next(news), { channel, pattern: undefined, payload: `from ${node}` })
  }
  assert.deepEqual((await next(bytes)).payload, Buffer.from('from 1'))
  news.unsubscribe(channels[1] as string)
  await client.spublish(channels[1] as string, 'for bytes alone')
  assert.deepEqual((await next(bytes)).payload, Buffer.from('for bytes alone'))
  await bytes.return()
  await until(async () => (await subscribedAt(1)).length === 0)
  await client.spublish(channels[0] as string, 'still')
  assert.equal((await next(news)).payload, 'still')
  assert.deepEqual([news.reconnects, news.dropped], [0, 0])
})

test('a sharded channel follows its hash slot, and no message comes twice', async () => {
  await using client = redis(cluster.url)
  const channel = await channelAt(0, 'moves')
  await using news = await client.ssubscribe(channel)
  await using usual = await client.subscribe('usual')
  const slot = slotOf(channel)
  for (const [turn, [from, to]] of ([[0, 1], [1, 2], [2, 0]] as const).entries()) {
    const before = news.reconnects
    await cluster.beginMove(slot, from, to)
    await client.spublish(channel, `while it moves ${turn}`)
    assert.equal((await next(news)).payload, `while it moves ${turn}`)
    await cluster.finishMove(slot, from, to)
    await until(async () => (await subscribedAt(to)).includes(channel))
    assert.deepEqual(await subscribedAt(from), [])
    // More than once, if a node that was asked did not know the new owner yet.
    await until(async () => news.reconnects > before)
    assert.equal(await client.spublish(channel, `after ${turn}`), 1)
    assert.equal((await next(news)).payload, `after ${turn}`)
  }
  await client.publish('usual', 'x')
  assert.equal((await next(usual)).payload, 'x')
  assert.equal(usual.reconnects, 0)
})

test('sharded channels are subscribed again after a lost connection', async () => {
  await using client = redis(`${cluster.url}&client_name=sharded-lost`)
  const [channel, other] = [await channelAt(1, 'lost'), await channelAt(2, 'kept')]
  await using news = await client.ssubscribe(channel)
  await using kept = await client.ssubscribe(other)
  const node = cluster.plain[1] as Client
  const list = await node.command<string>('CLIENT LIST')
  for (const line of list.split('\n').filter((it) => it.includes('name=sharded-lost'))) {
    await node.command('CLIENT KILL', 'ID', /id=(\d+)/.exec(line)?.[1] ?? '')
  }
  await until(async () => (await client.repeatable().spublish(channel, 'back')) > 0)
  assert.equal((await next(news)).payload, 'back')
  await until(async () => news.reconnects === 1)
  assert.equal(kept.reconnects, 0)
})

test('a sharded channel that is refused leaves nothing behind', async () => {
  for (const node of cluster.plain) {
    await node.command('ACL SETUSER', 'limited', 'on', 'nopass', '+@all', '~*', 'resetchannels')
    await node.command('ACL SETUSER', 'limited', '&allowed*')
  }
  await using client = redis(cluster.url.replace('//', '//limited@'))
  const refused = { code: 'NOPERM', outcome: 'Rejected' }
  await assert.rejects(client.ssubscribe('forbidden'), refused)
  await using news = await client.ssubscribe('allowed')
  await assert.rejects(news.ssubscribe('forbidden'), refused)
  await client.spublish('allowed', 'x')
  assert.equal((await next(news)).payload, 'x')
})

test('sharded channels of a cluster need RESP3', async () => {
  await using client = redis({ url: cluster.url, protocol: 2 })
  const why = { code: 'sharded_needs_resp3', outcome: 'NotSent' }
  await assert.rejects(client.ssubscribe('news'), why)
  await using usual = await client.subscribe('usual')
  await assert.rejects(usual.ssubscribe('news'), why)
})

test('a loop over sharded messages ends with its client', async () => {
  const client = redis(cluster.url)
  const news = await client.ssubscribe('loop')
  await client.spublish('loop', 'one')
  const seen: string[] = []
  for await (const { payload } of news) {
    seen.push(payload)
    void client.close()
  }
  assert.deepEqual(seen, ['one'])
})
