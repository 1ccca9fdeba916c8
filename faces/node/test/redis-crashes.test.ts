import assert from 'node:assert/strict'
import { test } from 'node:test'

import { redis, type Client, type RedisError } from '../src/redis'
import { slotOf } from '../src/redis/spec'
import { startCluster, type TestCluster } from './redis-cluster-kit'
import { type Server, until } from './redis-server'

/** How long calls may wait: longer than anything takes here. */
const PATIENCE = 60_000

/** How soon all go on once a replica has taken over. It takes about a second. */
const GOES_ON = 20_000

/** Keys in hash slots all over the cluster. */
const KEYS = Array.from({ length: 60 }, (_, i) => `key:${i}`)
const SLOT = slotOf(KEYS[0] as string)

/** Kills the master of the first key. Returns its number. */
async function killFirst(cluster: TestCluster): Promise<number> {
  const master = await cluster.ownerOf(SLOT)
  await (cluster.servers[master] as Server).stop()
  return master
}

/** All nodes, so that one that lives can be asked. */
function urlOf({ servers }: TestCluster): string {
  return `redis://${servers.map(({ port }) => `127.0.0.1:${port}`).join(',')}?cluster=1`
}

test('calls that were not sent outlast the crash of their master', async (t) => {
  const cluster = await startCluster(1)
  t.after(() => cluster.stop())
  const replica = cluster.plain[3] as Client
  const master = cluster.plain[await cluster.ownerOf(SLOT)] as Client
  const id = await master.command<string>('CLUSTER MYID')
  await replica.command('CLUSTER REPLICATE', id)
  await until(async () => (await replica.info('replication')).includes('master_link_status:up'))
  await using client = redis({ url: urlOf(cluster), waitTimeout: PATIENCE })
  await Promise.all(KEYS.map((key) => client.set(key, 0)))
  let isOver = false
  let unknown = 0
  const write = async (key: string): Promise<void> => {
    for (;;) {
      const wasOver = isOver
      try {
        await client.incr(key)
        if (wasOver) return
      } catch (error) {
        assert.equal((error as RedisError).outcome, 'Unknown', (error as RedisError).message)
        unknown++
      }
    }
  }
  const writers = Promise.all(KEYS.map(write))
  const dead = await killFirst(cluster)
  const living = cluster.plain.filter((_, i) => i !== dead)
  await until(async () => {
    const infos = await Promise.all(living.map((node) => node.command<string>('CLUSTER INFO')))
    const roles = await replica.command<[string]>('ROLE')
    return roles[0] === 'master' && infos.every((info) => info.includes('cluster_state:ok'))
  })
  isOver = true
  const since = performance.now()
  await writers
  assert.ok(performance.now() - since < GOES_ON, 'once a replica has taken over')
  assert.ok(unknown <= KEYS.length, 'each had one call in flight')
})

test('a call that no node serves waits once', async (t) => {
  const wait = 2_000
  const cluster = await startCluster()
  t.after(() => cluster.stop())
  await using client = redis({ url: urlOf(cluster), waitTimeout: wait })
  const key = KEYS[0] as string
  await client.set(key, 0)
  await killFirst(cluster)
  // The first may be in flight when the connection is lost.
  await client.get(key).catch(() => {})
  for (let i = 0; i < 2; i++) {
    const since = performance.now()
    const calls = Array.from({ length: 20 }, () => client.incr(key))
    for (const call of calls) await assert.rejects(call, { outcome: 'NotSent' })
    const waited = performance.now() - since
    assert.ok(waited < 2 * wait, `${waited} ms are more than one wait`)
  }
  await using other = redis({ url: urlOf(cluster), waitTimeout: wait })
  await other.connect()
})
