import assert from 'node:assert/strict'
import { once } from 'node:events'
import { afterEach, test } from 'node:test'

import { Pool, type PoolConfig } from '../src/pg'
import { settled, url } from './pg-both'
import { counts, turn } from './pg-pools'

const Cursor = require('pg-cursor')
const QueryStream = require('pg-query-stream')

const pools: Pool[] = []
afterEach(async () => {
  await Promise.all(pools.splice(0).map((it) => it.end()))
})

function pool(config: PoolConfig): Pool {
  const made = new Pool({ connectionString: url, max: 1, ...config })
  pools.push(made)
  return made
}

const SERIES = 'select n from generate_series(1, 2000) n'

for (const pipeline of [false, true]) {
  const way = pipeline ? 'with shared connections' : 'with clients by themselves'
  const limits = { timeout: 600_000 }

  test(`a stream that a pool runs has a client until it is over, ${way}`, limits, async () => {
    const one = pool({ pipeline })
    const stream = new QueryStream(SERIES)
    const over = one.query(stream)
    let count = 0
    const behind = one.query('select 1 as a')
    for await (const row of stream) if (row.n === ++count) continue
    assert.equal(count, 2000)
    await over
    assert.deepEqual((await behind as unknown as { rows: unknown }).rows, [{ a: 1 }])
    assert.deepEqual(counts(one), [1, 1, 0, 0])
  })

  test(`a cursor that is closed early gives its client back, ${way}`, limits, async () => {
    const one = pool({ pipeline })
    const cursor = new Cursor(SERIES)
    const over = one.query(cursor)
    assert.equal((await cursor.read(10)).length, 10)
    await cursor.close()
    await over
    assert.equal((await one.query('select 1') as unknown as { rowCount: number }).rowCount, 1)
    assert.deepEqual(counts(one), [1, 1, 0, 0])
  })

  test(`a stream whose query fails gives its client back, ${way}`, limits, async () => {
    const one = pool({ pipeline })
    const stream = new QueryStream('select 1 / (n - 5) from generate_series(1, 10) n')
    // As with pg, both the stream and the pool report the error.
    const over = settled(one.query(stream) as unknown as Promise<unknown>)
    const failed = await settled((async () => {
      for await (const _ of stream) await turn()
    })())
    assert.equal((failed as { code: string }).code, '22012')
    assert.equal(await over, failed)
    await one.query('select 1')
    assert.deepEqual(counts(one), [1, 1, 0, 0])
  })

  test(`a client that is given up with a cursor open is closed, ${way}`, limits, async () => {
    const one = pool({ pipeline })
    const client = await one.connect()
    await client.query(new Cursor(SERIES)).read(1)
    const removed = once(one, 'remove')
    client.release(true)
    await removed
    assert.deepEqual(counts(one), [0, 0, 0, 0])
  })

  test(`a stream on a client that was lent leaves it as it was, ${way}`, limits, async () => {
    const one = pool({ pipeline })
    for (let round = 0; round < 3; round++) {
      const client = await one.connect()
      let count = 0
      for await (const _ of client.query(new QueryStream(SERIES))) count++
      assert.equal(count, 2000)
      client.release()
      const asked = [1, 2, 3].map((n) => one.query('select $1::int as n', [n]))
      const results = (await Promise.all(asked)) as unknown as { rows: unknown[] }[]
      assert.deepEqual(results.map((it) => it.rows[0]), [{ n: 1 }, { n: 2 }, { n: 3 }])
    }
    assert.equal(one.totalCount, 1)
  })
}
