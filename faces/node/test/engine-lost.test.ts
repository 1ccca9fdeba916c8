import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import type { Exports } from '../src/engine/exports'
import { memory } from '../src/engine/memory'
import { postgres } from '../src/modern'
import { Client, Pool } from '../src/pg'
import { redis } from '../src/redis'
import { connected, settled, url } from './pg-both'
import { type Server, startRedis } from './redis-server'

let server: Server
before(async () => {
  server = await startRedis()
})
after(() => server.stop())

const limits = { timeout: 600_000 }

/** Makes the module trap, as it does on a state that it holds to be impossible. */
function fail(): void {
  // This address is beyond the memory.
  memory.engine.onetrip_connection_free(0xffff_fff0)
}

/** Makes the next call of this function fail. */
function failNext(name: keyof Exports): void {
  for (const handle of memory.handles) {
    const broken = (): never => {
      throw new WebAssembly.RuntimeError('unreachable')
    }
    handle.engine = { ...handle.engine, [name]: broken }
  }
}

/** The rows of a result of pg. */
function rows(results: unknown): unknown {
  return (results as { rows: unknown }).rows
}

/** The outcome and the message of an error, or that there was none. */
async function told(asked: PromiseLike<unknown>): Promise<string> {
  const error = (await settled(Promise.resolve(asked))) as Error & { outcome?: string }
  assert.ok(error instanceof Error, String(error))
  return `${error.outcome}: ${error.message}`
}

const UNKNOWN = /^Unknown: .*engine of this process failed.*new ones can be opened/

test('when the module fails, all callers that wait fail, and a fresh module serves new ones', limits, async () => {
  const clients = [await connected(), await connected({ pipeline: true })]
  const [pool, sql, r] = [new Pool({ connectionString: url }), postgres(url), redis(server.url)]
  for (const client of clients) client.on('error', () => {})
  pool.on('error', () => {})
  await Promise.all([pool.query('select 1'), sql`select 1`, r.set('lost', '1')])
  const ends = clients.map((client) => new Promise((resolve) => client.once('end', resolve)))
  const asked: PromiseLike<unknown>[] = [
    ...clients.map((client) => client.query('select pg_sleep(60)')),
    pool.query('select pg_sleep(60)'),
    sql`select pg_sleep(60)`,
    r.incr('lost'),
  ]
  const answers = asked.map(told)
  // This call waits for a connection of its own, or has it.
  const own = told(r.blpop('nothing', 60))
  await new Promise((resolve) => setImmediate(resolve))
  const before = memory.engine
  fail()
  for (const answer of answers) assert.match(await answer, UNKNOWN)
  assert.match(await own, /^(?:Unknown|NotSent): .*engine of this process failed/)
  await Promise.all(ends)
  assert.notEqual(memory.engine, before)
  const again = new Client({ connectionString: url })
  await again.connect()
  assert.deepEqual(rows(await again.query('select 7 as n')), [{ n: 7 }])
  assert.deepEqual(rows(await pool.query('select 7 as n')), [{ n: 7 }])
  assert.deepEqual([...(await sql`select 7 as n`)], [{ n: 7 }])
  assert.ok(Number(await r.get('lost')) >= 1)
  await Promise.all([again.end(), pool.end(), sql.end(), r.close()])
})

for (const name of [
  'onetrip_request',
  'onetrip_postgres_submit',
  'onetrip_transmit_len',
  'onetrip_written',
  'onetrip_input',
  'onetrip_received',
  'onetrip_take',
  'onetrip_deadline',
  'onetrip_postgres_status',
] as const) {
  test(`a failure of ${name} is not thrown, and all callers that wait fail`, limits, async () => {
    const [client, neighbour] = [await connected(), await connected()]
    for (const one of [client, neighbour]) one.on('error', () => {})
    const beside = told(neighbour.query('select pg_sleep(60)'))
    await new Promise((resolve) => setImmediate(resolve))
    failNext(name)
    if (name === 'onetrip_postgres_status') fail()
    assert.match(await told(client.query('select 1')), /^(?:Unknown|NotSent): /)
    assert.match(await beside, UNKNOWN)
    const again = await connected()
    assert.deepEqual(rows(await again.query('select 7 as n')), [{ n: 7 }])
    await again.end()
  })
}

test('a request made before all are told is not sent, and its traits are not remembered', limits, async () => {
  const [sql, r] = [postgres(url), redis(server.url)]
  await Promise.all([sql`select 1`, r.get('a')])
  const client = await connected()
  client.on('error', () => {})
  fail()
  const asked = [client.query('select 1'), sql`select 'asked at once'`, r.get('a')].map(told)
  for (const answer of asked) assert.match(await answer, /^NotSent: /)
  assert.deepEqual([...(await sql`select 'asked at once' as a`)], [{ a: 'asked at once' }])
  assert.equal(await r.get('a'), null)
  await Promise.all([sql.end(), r.close()])
})

test('a pool whose module failed fails its callers, and opens as many connections again', limits, async () => {
  const pool = new Pool({ connectionString: url, max: 2 })
  pool.on('error', () => {})
  const lent = await Promise.all([pool.connect(), pool.connect()])
  for (const client of lent) client.on('error', () => {})
  const waits = told(pool.query('select 1'))
  fail()
  assert.match(await waits, /^NotSent: the engine of this process failed/)
  for (const client of lent) client.release()
  const results = await Promise.all(Array.from({ length: 9 }, () => pool.query('select 7 as n')))
  for (const result of results) assert.deepEqual(rows(result), [{ n: 7 }])
  assert.equal(pool.totalCount, 2)
  await pool.end()
})

test('a client that a pool has just asked for when the module fails is not kept', limits, async () => {
  const pool = new Pool({ connectionString: url, max: 1 })
  const asked = told(pool.connect())
  await new Promise((resolve) => setImmediate(resolve))
  fail()
  assert.match(await asked, /engine of this process failed/)
  assert.deepEqual(rows(await pool.query('select 7 as n')), [{ n: 7 }])
  assert.equal(pool.totalCount, 1)
  await pool.end()
})
