import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { test } from 'node:test'

import type { Client } from '../src/pg'
import { connected, plain, settled, type Side } from './pg-both'
import { behind, copy, Cursor, QueryStream, readAll } from './pg-submit-kit'
import { belowOf } from './random'

const theirs: Side = { name: 'pg', ...(require('pg') as { Client: typeof Client; Query: Side['Query'] }) }

const rows = (count: number): string => `select i, repeat('x', i % 50) as t from generate_series(1, ${count}) i`
const failing = (count: number): string => `select 1 / (${count} - i) as q from generate_series(1, 1000) i`

/** The steps. Each submits its query before it first waits. */
const STEPS: ((client: Client, n: number) => Promise<unknown>)[] = [
  (client, n) => client.query(`select ${n} as n`),
  (client, n) => client.query('select $1::int as n', [n]),
  (client, n) => client.query(`select ${n} as a; select 'b' as b`),
  (client) => client.query('select 1 / 0'),
  (client) => client.query('begin'),
  (client) => client.query('commit'),
  (client) => client.query('rollback'),
  (client, n) => readAll(client.query(new Cursor(rows(n * 20))), n + 1),
  (client, n) => readAll(client.query(new Cursor(failing(n * 3))), n + 1),
  async (client, n) => {
    const cursor = client.query(new Cursor(rows(1000)))
    const read = await cursor.read(n + 1)
    await cursor.close()
    return read
  },
  async (client, n) => {
    const stream = client.query(new QueryStream(rows(n * 40), [], { batchSize: n + 1 }))
    return (await stream.toArray()).length
  },
  async (client, n) => {
    const stream = client.query(new QueryStream(failing(n * 9), [], { batchSize: 7 }))
    // With pg a COPY right behind this would get the wrong answer.
    const after = settled(client.query('select'))
    return [await settled(stream.toArray()), await after]
  },
  async (client, n) => {
    const stream = client.query(new QueryStream(rows(1000)))
    await once(stream, 'data')
    stream.destroy(n % 2 ? new Error('enough') : undefined)
    return settled(once(stream, 'close'))
  },
  async (client, n) => {
    const out = client.query(copy.to(`copy (${rows(n * 300)}) to stdout`))
    const bytes = Buffer.concat((await out.toArray()) as Buffer[])
    return createHash('sha256').update(bytes).digest('hex')
  },
  async (client, n) => {
    const into = client.query(copy.from('copy pg_temp.mixed from stdin'))
    await pipeline(Readable.from(Array.from({ length: n * 10 }, (_, i) => `${i}\n`)), into)
    return into.rowCount
  },
  (client, n) => {
    const lines = Array.from({ length: n * 10 }, (_, i) => (i === n ? 'bad\n' : `${i}\n`))
    return pipeline(Readable.from(lines), client.query(copy.from('copy pg_temp.mixed from stdin')))
  },
]

async function run(client: Client, seed: number, atOnce: boolean): Promise<unknown> {
  const next = belowOf(seed)
  await client.query('create temp table mixed (a int)')
  const seen: unknown[] = []
  for (let i = 0; i < 25; i++) {
    const step = STEPS[next(STEPS.length)] as (typeof STEPS)[number]
    const ran = settled(step(client, next(9) + 1))
    seen.push(atOnce ? ran : await ran)
    // An error is reported before the status that follows it.
    if (!atOnce) seen.push(await settled(client.query('select')), client.getTransactionStatus())
  }
  const all = await Promise.all(seen)
  await client.query('rollback')
  return plain([all, await client.query('select count(*), sum(a) from mixed'), await behind(client)])
}

const first = Number(process.env['ONETRIP_SEED'] ?? 1000)
for (let seed = first; seed < first + 4; seed++) {
  for (const atOnce of [false, true]) {
    const how = atOnce ? 'at once' : 'one by one'
    test(`queries of all kinds ${how}, as on pg: ONETRIP_SEED=${seed}`, { timeout: 600_000 }, async () => {
      const expected = await run(await connected({}, theirs), seed, atOnce)
      assert.deepEqual(await run(await connected(), seed, atOnce), expected)
      assert.deepEqual(await run(await connected({ pipeline: true }), seed, atOnce), expected)
    })
  }
}

test('a copy right behind a stream that fails gets its own answer', { timeout: 600_000 }, async () => {
  const client = await connected()
  for (let i = 0; i < 10; i++) {
    const stream = client.query(new QueryStream(failing(9), [], { batchSize: 7 }))
    const out = client.query(copy.to(`copy (${rows(10)}) to stdout`))
    const after = client.query('select 1 as a')
    assert.match(String(await settled(stream.toArray())), /division by zero/)
    const lines = Buffer.concat((await out.toArray()) as Buffer[]).toString().split('\n')
    assert.deepEqual([lines.length, out.rowCount], [11, 10])
    await after
  }
})
