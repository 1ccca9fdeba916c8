// Quick statements don't wait for slow ones of the same pool, and texts that are known to be quick
// share a connection.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { Pool } from '../src/pg'
import { keyOf } from '../src/engine/text-key'
import type { Stats } from '../src/modern'
import { client, url } from './modern/client'

const limits = { timeout: 600_000 }

/** A statement that waits for a lock. */
const LOCK = 'select pg_advisory_lock($1)'
const WAIT = 'select pg_advisory_xact_lock($1)'

test('texts that differ in numbers and strings only have one key', () => {
  assert.equal(keyOf("select 1, 'a''b'"), keyOf("select 22, 'c'"))
  assert.notEqual(keyOf('select a from t'), keyOf('select b from t'))
  for (const text of ['', '1', "''"]) assert.ok(keyOf(text) > 1)
})

test('ten quick statements of one tick do not wait for a slow one', limits, async () => {
  const sql = client({ connectionsMax: 10 })
  const holder = await sql.session()
  await holder`select pg_advisory_lock(4601)`
  let isOver = false
  const slow = sql`select pg_advisory_xact_lock(4601)`.then(() => (isOver = true))
  const quick = Array.from({ length: 10 }, (_, i) => sql<{ i: number }>`select ${i}::int as i`)
  const rows = await Promise.all(quick)
  assert.deepEqual(rows.map(([row]) => row?.i), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
  assert.equal(isOver, false)
  await holder`select pg_advisory_unlock(4601)`
  await slow
  heldUpNobody(sql.stats, 'select pg_advisory_xact_lock(4601)')
  holder.release()
  await sql.end()
})

/**
 * This text held up no other. Other texts are ignored: on a busy machine a quick one may look slow.
 */
function heldUpNobody({ slowNeighbours }: Stats, text: string): void {
  assert.deepEqual(slowNeighbours.filter((one) => one.text === text), [])
}

test('twenty quick statements share one connection once their text is known', limits, async () => {
  // With this limit no statement is slow, however busy the machine is.
  const sql = client({ connectionsMax: 5, slowHeadMs: 60_000 })
  const quick = (i: number): PromiseLike<unknown> => sql`select ${i}::int as i, pg_backend_pid() as pid`
  for (let i = 0; i < 60; i++) await quick(i)
  const sessions = await Promise.all(Array.from({ length: 5 }, () => sql.session()))
  for (const session of sessions) session.release()
  await sql`select 1`
  const connections = async (): Promise<number> => {
    const rows = await Promise.all(Array.from({ length: 20 }, (_, i) => quick(i)))
    return new Set((rows as { pid: number }[][]).map(([row]) => row?.pid)).size
  }
  // On a busy machine the first few may look slow, and be spread.
  let least = Infinity
  for (let tries = 0; tries < 200 && least > 1; tries++) least = Math.min(least, await connections())
  assert.equal(least, 1)
  await sql.end()
})

test('nothing shares the connection of a statement that runs alone', limits, async () => {
  const sql = client({ connectionsMax: 2 })
  const holder = await client({ connectionsMax: 1 }).session()
  const quick = (i: number): PromiseLike<unknown> => sql`select ${i}::int as i`
  for (let i = 0; i < 60; i++) await quick(i)
  await holder`select pg_advisory_lock(4602)`
  const text = (n: number): PromiseLike<unknown> & { alone(): PromiseLike<unknown> } =>
    sql`select pg_advisory_xact_lock_shared(${n}::bigint)`
  for (let i = 0; i < 60; i++) await text(1)
  const slow = text(4602).alone().then(() => 'over')
  for (let i = 0; i < 20; i++) await Promise.all([quick(i), quick(i)])
  await holder`select pg_advisory_unlock(4602)`
  assert.equal(await slow, 'over')
  heldUpNobody(sql.stats, 'select pg_advisory_xact_lock_shared($1::bigint)')
  holder.release()
  await sql.end()
})

test('stats tell which texts held others up', limits, async () => {
  const sql = client({ connectionsMax: 1 })
  const quick = (i: number): PromiseLike<unknown> => sql`select ${i}::int as i`
  for (let i = 0; i < 60; i++) await quick(i)
  await Promise.all([sql`select pg_sleep(0.05), 'report'`, quick(1), quick(2), quick(3)])
  const { waitedBehindSlow, slowNeighbours } = sql.stats
  assert.ok(waitedBehindSlow >= 3)
  const one = slowNeighbours.find(({ text }) => text === "select pg_sleep(0.05), 'report'")
  assert.equal(one?.statements, 3)
  assert.ok((one?.longestMs ?? 0) >= 49)
  await sql.end()
})

test('a hedged read behind a late head is answered by another connection', limits, async () => {
  // The limit is above the noise of the machine.
  const sql = client({ connectionsMax: 2, slowHeadMs: 300 })
  const other = await sql.session()
  // A statement that is usually quick, and waits for a lock this time.
  const lock = (key: number): PromiseLike<unknown> => sql`select pg_advisory_xact_lock_shared(${key}::bigint)`
  const read = (i: number) => sql<{ i: number }>`select ${i}::int as i`
  for (let i = 0; i < 60; i++) await Promise.all([lock(1), read(i)])
  const holder = await client({ connectionsMax: 1 }).session()
  await holder`select pg_advisory_lock(4606)`
  const late = lock(4606).then(() => 'over')
  const plain = read(1).one()
  const hedged = read(2).hedged().one()
  other.release()
  assert.deepEqual(await hedged, { i: 2 })
  assert.equal(sql.stats.hedged, 1)
  await holder`select pg_advisory_unlock(4606)`
  assert.equal(await late, 'over')
  assert.deepEqual(await plain, { i: 1 })
  assert.deepEqual(await read(3).one(), { i: 3 })
  holder.release()
  await sql.end()
})

test('a statement that is not a read is not hedged', limits, async () => {
  const sql = client({ connectionsMax: 2, slowHeadMs: 300 })
  await sql`create table if not exists hedged_once (n int)`
  await sql`truncate hedged_once`
  const other = await sql.session()
  const lock = (key: number): PromiseLike<unknown> => sql`select pg_advisory_xact_lock_shared(${key}::bigint)`
  const insert = (n: number) => sql`insert into hedged_once values (${n})`
  for (let i = 0; i < 60; i++) await Promise.all([lock(1), insert(0)])
  const holder = await client({ connectionsMax: 1 }).session()
  await holder`select pg_advisory_lock(4607)`
  const late = lock(4607).then(() => 'over')
  const inserted = insert(1).hedged().send()
  other.release()
  // Once this read behind the same head was hedged, the INSERT would have been.
  await sql`select pg_advisory_xact_lock_shared(${1}::bigint)`.hedged()
  await holder`select pg_advisory_unlock(4607)`
  assert.equal(await late, 'over')
  await inserted
  assert.equal((await sql`select from hedged_once where n = 1`).length, 1)
  await sql`drop table hedged_once`
  holder.release()
  await sql.end()
})

test('an ended client closes its connections once all statements are answered', limits, async () => {
  const sql = client({ connectionsMax: 2 })
  await sql`select 1`
  const reply = sql<{ n: number }>`select 2 as n`.send()
  // This pipeline waits for a connection, and is served before the end.
  const waits = sql.pipeline([sql<{ n: number }>`select 3 as n`])
  const ended = sql.end()
  await assert.rejects(async () => await sql`select 4`, { code: 'closed', outcome: 'NotSent' })
  assert.deepEqual([...(await reply)], [{ n: 2 }])
  assert.deepEqual([...(await waits)[0]], [{ n: 3 }])
  await ended
})

test('a text that runs in pipelines alone becomes known', limits, async () => {
  // Without knowing the text, the client would open a second connection for two at once.
  const connections = async (): Promise<number> => {
    const sql = client({ connectionsMax: 5, slowHeadMs: 60_000 })
    for (let i = 0; i < 60; i++) await sql.pipeline([sql`select ${i}::int as i`])
    await Promise.all(Array.from({ length: 2 }, (_, i) => sql`select ${i}::int as i`))
    const opened = sql.stats.connections
    await sql.end()
    return opened
  }
  // On a busy machine the two may look like more work than one connection is to have.
  let least = Infinity
  for (let tries = 0; tries < 20 && least > 1; tries++) least = Math.min(least, await connections())
  assert.equal(least, 1, 'they share one, as quick statements do')
})

test('in the drop-in with pipelining quick queries do not wait for a slow one either', limits, async () => {
  const pool = new Pool({ connectionString: url, pipeline: true, max: 10 })
  const holder = await pool.connect()
  await holder.query(LOCK, [4603])
  let isOver = false
  const slow = pool.query(WAIT, [4603]).then(() => (isOver = true))
  const quick = Array.from({ length: 10 }, (_, i) => pool.query('select $1::int as i', [i]))
  const results = await Promise.all(quick)
  for (const [i, result] of results.entries()) assert.deepEqual((result as { rows: unknown[] }).rows, [{ i }])
  assert.equal(isOver, false)
  await holder.query('select pg_advisory_unlock($1)', [4603])
  await slow
  holder.release()
  await pool.end()
})

test('a query of the drop-in with alone has its client to itself', limits, async () => {
  const pool = new Pool({ connectionString: url, pipeline: true, max: 2 })
  for (let i = 0; i < 60; i++) await pool.query('select $1::int as i', [i])
  const holder = await pool.connect()
  await holder.query(LOCK, [4604])
  holder.release()
  const text = 'select pg_advisory_xact_lock_shared($1)'
  for (let i = 0; i < 60; i++) await pool.query(text, [1])
  const other = new Pool({ connectionString: url, max: 1 })
  await other.query(LOCK, [4605])
  const slow = pool.query({ text, values: [4605], alone: true })
  for (let i = 0; i < 20; i++) await Promise.all([1, 2, 3].map((i) => pool.query('select $1::int as i', [i])))
  await other.query('select pg_advisory_unlock($1)', [4605])
  await slow
  await Promise.all([pool.end(), other.end()])
})
