import assert from 'node:assert/strict'

import { type Client, redis } from '../src/redis'
import { type Server, startRedis, until } from './redis-server'

/** A cluster of a test file's own: masters, which share the hash slots, and a client of each. */
export interface TestCluster {
  readonly servers: Server[]
  readonly plain: Client[]
  readonly url: string
  /** The index of the node that has a slot. */
  ownerOf(slot: number): Promise<number>
  beginMove(slot: number, from: number, to: number): Promise<void>
  finishMove(slot: number, from: number, to: number): Promise<void>
  stop(): Promise<void>
}

/** Starts a cluster of three masters, and `others` nodes without slots. */
export async function startCluster(others = 0): Promise<TestCluster> {
  const servers: Server[] = []
  const plain: Client[] = []
  const ids: string[] = []
  const first = (): Server => servers[0] as Server
  const stop = async (): Promise<void> => {
    plain.forEach((client) => client.destroy())
    await Promise.all(servers.map((server) => server.stop()))
  }
  const start = async (): Promise<void> => {
    for (let i = 0; i < 3 + others; i++) {
      servers.push(await startRedis(['--cluster-enabled', 'yes', '--cluster-node-timeout', '1000']))
      const client = redis((servers[i] as Server).url)
      plain.push(client)
      ids.push(await client.command<string>('CLUSTER MYID'))
      const [from, to] = [i, i + 1].map((part) => Math.ceil((part * 16384) / 3)) as [number, number]
      if (i < 3) await client.command('CLUSTER ADDSLOTSRANGE', from, to - 1)
      if (i > 0) await client.command('CLUSTER MEET', '127.0.0.1', first().port)
    }
    for (const client of plain) {
      await until(async () => {
        const info = await client.command<string>('CLUSTER INFO')
        return info.includes('cluster_state:ok') && info.includes(`cluster_known_nodes:${3 + others}`)
      })
    }
  }
  try {
    await start()
  } catch (error) {
    // What goes on would keep the process from ending.
    await stop()
    throw error
  }
  const at = (node: number): Client => plain[node] as Client
  return {
    servers,
    plain,
    url: `redis://127.0.0.1:${first().port}?cluster=1`,
    async ownerOf(slot) {
      const ranges = await at(0).command<[number, number, [string, number]][]>('CLUSTER SLOTS')
      const range = ranges.find(([start, end]) => start <= slot && slot <= end)
      return servers.findIndex(({ port }) => port === range?.[2][1])
    },
    async beginMove(slot, from, to) {
      // A node that does not know the last epoch takes a slot with an older epoch than that of the
      // node it comes from. The older claim of that node then wins, and no node has the slot
      // (clusterBumpConfigEpochWithoutConsensus in Redis' cluster.c).
      await until(async () => {
        const infos = plain.map((client) => client.command<string>('CLUSTER INFO'))
        const epochs = (await Promise.all(infos)).map((info) => /current_epoch:(\d+)/.exec(info)?.[1])
        return new Set(epochs).size === 1
      })
      await at(to).command('CLUSTER SETSLOT', slot, 'IMPORTING', ids[from] as string)
      await at(from).command('CLUSTER SETSLOT', slot, 'MIGRATING', ids[to] as string)
    },
    async finishMove(slot, from, to) {
      const { port } = servers[to] as Server
      for (;;) {
        const keys = await at(from).command<string[]>('CLUSTER GETKEYSINSLOT', slot, 100)
        if (keys.length === 0) break
        await at(from).command('MIGRATE', '127.0.0.1', port, '', 0, 5000, 'KEYS', ...keys)
      }
      for (const client of [at(to), at(from), ...plain]) {
        const said = client.command('CLUSTER SETSLOT', slot, 'NODE', ids[to] as string)
        // A master whose last slot has left may be a replica by now.
        await said.catch((error: Error) => assert.match(error.message, /only with masters/))
      }
    },
    stop,
  }
}
