import assert from 'node:assert/strict'
import { test } from 'node:test'

import type { Client } from '../src/pg'
import type { PoolClient } from '../src/pg/pool-config'
import { connected, event, settled } from './pg-both'
import { bothPools, counts, Diary, Side } from './pg-pools'

/** Ends the server process of a client, and waits until the client has noticed. */
async function kill(client: PoolClient): Promise<void> {
  client.on('error', () => {})
  const ended = event(client, 'end')
  const other = await connected()
  await other.query('select pg_terminate_backend($1)', [client.processID])
  await ended
  await other.end()
}

const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 30))

bothPools('a lent client that is lost counts until it is released', async (side) => {
  const pool = side.pool({ max: 1 })
  const diary = new Diary(pool)
  const client = await pool.connect()
  await kill(client)
  const seen: unknown[] = [counts(pool)]
  let isServed = false
  const next = pool.connect().then((it) => ((isServed = true), it))
  const query = pool.query('select 1 as one')
  await turn()
  seen.push(counts(pool), isServed)
  client.release()
  const other = await next
  seen.push(other !== client, counts(pool))
  other.release()
  seen.push(((await query) as { rows: unknown }).rows, counts(pool), diary.lines)
  return seen
})

bothPools('one that its user ended counts until it is released', async (side) => {
  const pool = side.pool({ max: 1 })
  const client = await pool.connect()
  await client.end()
  await turn()
  const waits = pool.connect()
  const seen = [counts(pool)]
  client.release()
  ;(await waits).release()
  return [seen, counts(pool)]
})

bothPools('a pool of several lends the others while one is lost', async (side) => {
  const pool = side.pool({ max: 2 })
  const [lost, other] = await Promise.all([pool.connect(), pool.connect()])
  await kill(lost)
  const waits = pool.connect()
  const seen = [counts(pool)]
  other.release()
  const again = await waits
  seen.push(counts(pool))
  again.release()
  lost.release(new Error('lost'))
  await turn()
  return [seen, again === other, counts(pool)]
})

bothPools('pool.end() waits for a lost client that is lent', async (side) => {
  const pool = side.pool({ max: 1 })
  const client = await pool.connect()
  await kill(client)
  let isOver = false
  const ended = pool.end().then(() => (isOver = true))
  await turn()
  const before = isOver
  client.release()
  await ended
  return [before, isOver, counts(pool)]
})

for (const pipeline of [false, true]) {
  test(`a client lost while lent is never used again, pipeline: ${pipeline}`, { timeout: 600_000 }, async () => {
    const side = new Side('onetrip')
    const pool = side.pool({ max: 3, pipeline })
    for (let round = 0; round < 20; round++) {
      const clients = await Promise.all([pool.connect(), pool.connect()])
      await kill(clients[round % 2] as PoolClient)
      // By now the freed memory holds other connections.
      const work = Array.from({ length: 40 }, () => settled(pool.query('select $1::text a', ['x'.repeat(2000)])))
      await turn()
      for (const client of clients) client.release()
      for (const result of await Promise.all(work)) assert.equal((result as { rowCount: number }).rowCount, 1)
      assert.ok(pool.totalCount <= 3)
    }
    await side.end()
  })
}

test('a client that is never released, and lost, frees its place by _remove', async () => {
  const side = new Side('onetrip')
  const pool = side.pool({ max: 1 })
  const client = await pool.connect()
  await kill(client)
  const waits = pool.connect()
  ;(pool as unknown as { _remove(client: Client): void })._remove(client)
  const next = await waits
  assert.notEqual(next, client)
  client.release()
  next.release()
  await side.end()
})
