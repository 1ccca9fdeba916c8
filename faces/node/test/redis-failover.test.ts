import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import { type Client, redis, type RedisError } from '../src/redis'
import { type Server, startRedis, until } from './redis-server'

const servers: Server[] = []
const plain: Client[] = []

/** Three masters, the first with a replica. */
before(async () => {
  for (let i = 0; i < 4; i++) {
    servers.push(
      await startRedis([
        '--cluster-enabled',
        'yes',
        '--cluster-node-timeout',
        '500',
        '--repl-diskless-sync-delay',
        '0',
      ]),
    )
    const client = redis((servers[i] as Server).url)
    plain.push(client)
    if (i < 3) {
      await client.command(
        'CLUSTER ADDSLOTSRANGE',
        Math.ceil((i * 16384) / 3),
        Math.ceil(((i + 1) * 16384) / 3) - 1,
      )
    }
    if (i > 0) await client.command('CLUSTER MEET', '127.0.0.1', (servers[0] as Server).port)
  }
  await until(async () => {
    const infos = await Promise.all(plain.map((client) => client.command<string>('CLUSTER INFO')))
    return infos.every(
      (info) => /cluster_known_nodes:4/.test(info) && /cluster_state:ok/.test(info),
    )
  })
  await (plain[3] as Client).command(
    'CLUSTER REPLICATE',
    await (plain[0] as Client).command<string>('CLUSTER MYID'),
  )
  await until(async () =>
    /master_link_status:up/.test(await (plain[3] as Client).info('replication')),
  )
  await until(async () => {
    const slots = await (plain[1] as Client).command<unknown[][]>('CLUSTER SLOTS')
    return slots.some((range) => range.length === 4)
  })
})
after(async () => {
  plain.forEach((client) => client.destroy())
  await Promise.all(servers.map((server) => server.stop()))
})

test('replicas are read from if the settings allow it', async () => {
  const url = `redis://127.0.0.1:${(servers[1] as Server).port}?cluster=1`
  await using client = redis({ url, replicaReads: true })
  // A slot of the first master.
  await client.set('{b}1', 'x')
  await until(async () => (await client.get('{b}1')) === 'x')
  assert.match(await (plain[3] as Client).info('commandstats'), /cmdstat_get:/)
  assert.equal(await client.incr('{b}n'), 1)
})

test('a replica that took over is found, and acknowledged writes are kept', async () => {
  const url = `redis://127.0.0.1:${(servers[1] as Server).port}?cluster=1`
  await using client = redis({ url, waitTimeout: 15_000 })
  const key = '{b}count'
  let acknowledged = 0
  let unknown = 0
  const count = async (): Promise<void> => {
    try {
      const now = await client.incr(key)
      assert.ok(now > acknowledged, `${now} behind ${acknowledged}`)
      acknowledged = now
    } catch (error) {
      assert.equal((error as RedisError).outcome, 'Unknown', (error as RedisError).message)
      unknown++
    }
  }
  for (let i = 0; i < 100; i++) await count()
  await until(async () =>
    (await (plain[3] as Client).command<string[]>('CLUSTER GETKEYSINSLOT', 3300, 10)).includes(key),
  )
  const before = client.incr(key).catch(() => 0)
  await (servers[0] as Server).stop()
  await before
  for (let i = 0; i < 100; i++) await count()
  assert.ok(acknowledged >= 199 - unknown, `${acknowledged} and ${unknown} unknown`)
  assert.ok(unknown <= 2, `${unknown} unknown`)
  assert.equal(await client.get(key), `${acknowledged}`)
})
