import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { Readable } from 'node:stream'
import { test } from 'node:test'

import { Pool, type Client, type Result } from '../src/pg'
import { pgTypes } from '../src/pg/types'
import { both, bothAlone, connected, event, plain, settled, url, type Side } from './pg-both'
import { behind, closed, Cursor, noted, QueryStream, readAll } from './pg-submit-kit'

const theirs = require('pg') as { Pool: typeof Pool }

const NUMBERS = 'select i, i * 1.5 as half, null as nothing from generate_series(1, $1::int) i'
/** Fails at row 500. */
const FAILS = 'select 1 / (500 - i) as q from generate_series(1, 1000) i'

for (const by of [1, 7, 10, 100]) {
  both(`a cursor is read by ${by}`, async (client) => {
    const cursor = client.query(new Cursor(NUMBERS, [20]))
    const events = noted(cursor, 'end', 'error')
    const rows = await readAll(cursor, by)
    return [rows, await cursor.read(by), await behind(client), cursor.state, events]
  })
}

both('a cursor without rows, or whose statement returns none', async (client) => {
  await client.query('create temp table t (a int)')
  const none = client.query(new Cursor('select 1 as a where false'))
  const seen = [await none.read(5), await none.read(5), await none.close()]
  const insert = client.query(new Cursor('insert into pg_temp.t values (1), (2)'))
  seen.push(await insert.read(5))
  const returning = client.query(new Cursor('insert into pg_temp.t values (3), (4) returning a'))
  seen.push(await returning.read(1), await returning.read(1), await returning.read(1))
  const empty = client.query(new Cursor(''))
  seen.push(await empty.read(1))
  return [seen, await client.query('select * from pg_temp.t'), await behind(client)]
})

both('a cursor has results by callback, rows as arrays and types of its own', async (client) => {
  const read = (cursor: Cursor): Promise<unknown> =>
    new Promise((resolve) => cursor.read(2, (error, rows, result) => resolve([error, rows, result])))
  const upper = { getTypeParser: () => (text: string) => `<${text}>` }
  const arrays = client.query(new Cursor('select 1 as a, 2 as a', null, { rowMode: 'array' }))
  const seen = [await read(arrays), await arrays.close()]
  const own = client.query(new Cursor('select 1 as a, $1::text as b', ['x'], { types: upper }))
  seen.push(await read(own), await own.close())
  client.setTypeParser(pgTypes().builtins['INT4'] as number, (text) => `int ${text}`)
  const ofClient = client.query(new Cursor('select 1 as a'))
  seen.push(await read(ofClient), await ofClient.close())
  return [seen, await behind(client)]
})

both('a cursor is closed early, at once, and twice', async (client) => {
  const early = client.query(new Cursor(NUMBERS, [1000]))
  const seen: unknown[] = [await early.read(3), await early.close(), await early.read(3), await early.close()]
  const atOnce = client.query(new Cursor(NUMBERS, [1000]))
  return [seen, await atOnce.close(), await behind(client)]
})

both('a cursor is closed while it reads', async (client) => {
  const cursor = client.query(new Cursor(NUMBERS, [1000]))
  await cursor.read(1)
  const reading = cursor.read(10)
  await cursor.close()
  return [await reading, await behind(client)]
})

both('a cursor fails: in its text, at its first row, in the middle', async (client) => {
  const seen: unknown[] = []
  for (const text of ['select from where', 'select 1 / 0', FAILS]) {
    const cursor = client.query(new Cursor(text))
    const events = noted(cursor, 'error', 'end')
    seen.push(await settled(cursor.read(100)), await settled(cursor.read(399)), await settled(cursor.read(100)))
    seen.push(events, cursor.state, await behind(client))
  }
  return seen
})

both('cursors and queries one behind the other', async (client) => {
  const first = client.query('select 1 as a')
  const cursors = [1, 2, 3].map((it) => client.query(new Cursor(NUMBERS, [it * 5])))
  const second = client.query('select $1::int as b', [2])
  const third = settled(client.query('select 1 / 0'))
  const last = client.query(new Cursor(NUMBERS, [3]))
  const order: number[] = []
  const read = cursors.map(async (cursor, i) => {
    const batches = await readAll(cursor, 4)
    order.push(i)
    return batches
  })
  return [await first, await Promise.all(read), order, await second, await third, await readAll(last, 10)]
})

both('cursors in a transaction, and in one that failed', async (client) => {
  await client.query('begin')
  const status = client.getTransactionStatus()
  const cursor = client.query(new Cursor(NUMBERS, [9]))
  const seen: unknown[] = [status, await cursor.read(2), await cursor.close(), client.getTransactionStatus()]
  const failing = client.query(new Cursor(FAILS))
  seen.push(await settled(failing.read(1000)), await behind(client).catch((error: unknown) => error))
  const inFailed = client.query(new Cursor('select 1'))
  seen.push(await settled(inFailed.read(1)), client.getTransactionStatus())
  await client.query('rollback')
  return [seen, await behind(client)]
})

both('a stream gives all rows, however many it takes at once', async (client) => {
  const seen: unknown[] = []
  for (const config of [{}, { highWaterMark: 3 }, { batchSize: 64 }, { rowMode: 'array', batchSize: 1000 }]) {
    const rows: unknown[] = []
    for await (const row of client.query(new QueryStream(NUMBERS, [250], config))) rows.push(row)
    seen.push(rows)
  }
  return [seen, await behind(client)]
})

both('a stream that is left early gives its connection back', async (client) => {
  const seen: unknown[] = []
  for await (const row of client.query(new QueryStream(NUMBERS, [100_000]))) {
    seen.push(row)
    if (seen.length === 150) break
  }
  const stream = client.query(new QueryStream(NUMBERS, [100_000]))
  await once(stream, 'data')
  stream.destroy()
  const other = client.query(new QueryStream(NUMBERS, [100_000]))
  await once(other, 'data')
  const end = closed(other)
  other.destroy(new Error('enough'))
  return [seen, await behind(client), await end]
})

both('a stream fails in the middle, and calls back', async (client) => {
  const stream = new QueryStream(FAILS, [], { batchSize: 50 })
  const called = new Promise((resolve) => client.query(stream, (error: unknown) => resolve(error)))
  const rows: unknown[] = []
  const error = await settled((async () => {
    for await (const row of stream) rows.push(row)
  })())
  return [rows.length, error, await called, await behind(client)]
})

both('a stream calls back with its result', async (client) => {
  const stream = new QueryStream(NUMBERS, [120])
  const called = new Promise((resolve) => {
    client.query(stream, (error: unknown, result: Result) => resolve([error, result.fields, result.command]))
  })
  stream.resume()
  await closed(stream)
  return [await called, await behind(client)]
})

both('notices and notifications come while a cursor is open', async (client) => {
  const seen = noted(client, 'notice', 'notification', 'drain')
  await client.query(`create function pg_temp.say(i int) returns int language plpgsql as
    $$ begin raise notice 'i is %', i; perform pg_notify('submit', i::text); return i; end $$`)
  await client.query('listen submit')
  const cursor = client.query(new Cursor('select pg_temp.say(i) from generate_series(1, 3) i'))
  const batches = await readAll(cursor, 2)
  await behind(client)
  // Fields that differ between connections.
  const own = ['processId', 'where', 'length']
  return [batches, JSON.parse(JSON.stringify(seen, (key, it: unknown) => (own.includes(key) ? 0 : it)))]
})

/** A test with pools of both drivers. */
function bothPools(name: string, run: (pool: Pool, side: Side) => Promise<unknown>): void {
  bothAlone(name, async (side) => {
    const pool = new (side.name === 'pg' ? theirs.Pool : Pool)({ connectionString: url, max: 2 })
    try {
      return await run(pool, side)
    } finally {
      await pool.end()
    }
  })
}

bothPools('clients of a pool run cursors and streams', async (pool) => {
  const run = async (i: number): Promise<unknown> => {
    const client = await pool.connect()
    const rows: unknown[] = []
    for await (const row of client.query(new QueryStream(NUMBERS, [i], { batchSize: 3 }))) rows.push(row)
    const cursor = client.query(new Cursor(NUMBERS, [i]))
    const read = await cursor.read(2)
    await cursor.close()
    const after = await behind(client)
    client.release()
    return [rows, read, after]
  }
  const ran = await Promise.all([5, 6, 7, 8].map(run))
  // What the last one left behind may be on its way to the server.
  while (pool.idleCount < pool.totalCount) await new Promise((resolve) => setImmediate(resolve))
  return [ran, pool.totalCount]
})

bothPools('a stream runs by pool.query', async (pool) => {
  const stream = new QueryStream(NUMBERS, [150])
  const rows: unknown[] = []
  stream.on('data', (row) => rows.push(row))
  const result = (await pool.query(stream)) as unknown as Result
  const failing = new QueryStream(FAILS)
  failing.on('error', () => {}).resume()
  return [rows, result.command, await settled(pool.query(failing) as unknown as Promise<unknown>), (await pool.query('select 1 as a') as Result).rows]
})

test('a pipelining client runs a cursor after the queries before it, and later ones wait', { timeout: 600_000 }, async () => {
  const client = await connected({ pipeline: true })
  const order: string[] = []
  const ran = (name: string) => (result: unknown) => {
    order.push(name)
    return plain(result)
  }
  const before = [1, 2, 3].map((it) => client.query('select $1::int as a', [it]).then(ran(`before ${it}`)))
  const cursor = client.query(new Cursor(NUMBERS, [5]))
  const reading = readAll(cursor, 2).then(ran('cursor'))
  const behindIt = [1, 2].map((it) => client.query('select $1::int as b', [it]).then(ran(`behind ${it}`)))
  const stream = client.query(new QueryStream(NUMBERS, [5])) as Readable
  const rows = stream.toArray()
  const last = client.query('select 9 as c').then(ran('last'))
  await client.query('select 10')
  await Promise.all([...before, reading, ...behindIt, last])
  assert.equal((await rows).length, 5)
  assert.deepEqual(order, ['before 1', 'before 2', 'before 3', 'cursor', 'behind 1', 'behind 2', 'last'])
  const ending = client.query(new Cursor(NUMBERS, [3]))
  const afterIt = client.query('select 11 as d')
  const ended = client.end()
  assert.equal((await ending.read(10)).length, 3)
  assert.deepEqual(((await afterIt) as Result).rows, [{ d: 11 }])
  await ended
})

test('drain is emitted when nothing waits any more', { timeout: 600_000 }, async () => {
  const client = await connected()
  const drains = noted(client, 'drain')
  const cursors = [1, 2].map((it) => client.query(new Cursor(NUMBERS, [it])))
  const behindThem = client.query('select 1')
  assert.equal(client.readyForQuery, false)
  for (const cursor of cursors) await cursor.read(10)
  assert.equal(drains.length, 0)
  const drained = event(client, 'drain')
  await behindThem
  await drained
  assert.equal(drains.length, 1)
  assert.equal(client.readyForQuery, true)
})

test('a stream that is destroyed before its turn is left out', { timeout: 600_000 }, async () => {
  const client = await connected()
  const running = client.query('select 1')
  const stream = client.query(new QueryStream(NUMBERS, [1000])) as Readable
  stream.destroy()
  await once(stream, 'close')
  const late = client.query(new QueryStream(NUMBERS, [1000])) as Readable
  const after = client.query('select 1 as a')
  await running
  late.destroy()
  assert.deepEqual(((await after) as Result).rows, [{ a: 1 }])
})

test('a cursor that failed is closed later without waiting for a query', { timeout: 600_000 }, async () => {
  const client: Client = await connected()
  const cursor = client.query(new Cursor('select 1 / 0'))
  await assert.rejects(cursor.read(1), /division by zero/)
  await client.query('select 1')
  await cursor.close()
  await behind(client)
})
