import assert from 'node:assert/strict'
import { afterEach, after, before, test } from 'node:test'

import { Refused } from '../src/engine/exports'
import { memory } from '../src/engine/memory'
import { postgres, type PostgresError } from '../src/modern'
import type { Client, ClientConfig, QueryError } from '../src/pg'
import { redis } from '../src/redis'
import { connected, settled, url } from './pg-both'
import { type Server, startRedis } from './redis-server'

let server: Server
before(async () => {
  server = await startRedis()
})
after(() => server.stop())

const MIB = 1 << 20
const limits = { timeout: 600_000 }

/** Pieces of memory that the test holds. */
const pieces: [number, number][] = []

function take(size: number): boolean {
  const start = memory.engine.onetrip_alloc(size) >>> 0
  if (start !== 0) pieces.push([start, size])
  return start !== 0
}

/** Leaves the module one piece of memory of this size. */
function leave(mib: number): void {
  const { engine } = memory
  const kept = engine.onetrip_alloc(mib * MIB) >>> 0
  assert.notEqual(kept, 0)
  // Memory that is never touched costs the machine nothing.
  engine.memory.grow(PAGES_MAX - engine.memory.buffer.byteLength / PAGE)
  for (let size = 256 * MIB; size >= MIB; size /= 2) while (take(size));
  engine.onetrip_free(kept, mib * MIB)
}

const PAGE = 64 << 10
const PAGES_MAX = 65_535

afterEach(async () => {
  for (const [start, size] of pieces.splice(0)) memory.engine.onetrip_free(start, size)
  // A fresh module has all its memory again.
  memory.failed(new WebAssembly.RuntimeError('the test is over'))
  await new Promise((resolve) => setImmediate(resolve))
})

async function open(config: ClientConfig = {}): Promise<Client> {
  const client = await connected(config)
  client.on('error', () => {})
  return client
}

async function seven(client: Client): Promise<unknown> {
  const results = await client.query('select 7 as n')
  return 'rows' in results && results.rows
}

async function failed(asked: PromiseLike<unknown>): Promise<QueryError> {
  const error = await settled(Promise.resolve(asked))
  assert.ok(error instanceof Error, String(error))
  return error as QueryError
}

test('a parameter for which there is no memory is refused, and its neighbours go on', limits, async () => {
  const client = await open({ pipeline: true })
  const [sql, r] = [postgres(url), redis(server.url)]
  await Promise.all([sql`select 1`, r.get('a')])
  leave(50)
  const large = Buffer.alloc(40 * MIB)
  const asked = [
    failed(client.query('select length($1::bytea)', [large])),
    failed(sql`select length(${large}::bytea)`),
    failed(r.set('large', large)),
  ]
  const beside = [client.query('select 7 as n'), sql`select 7 as n`, r.set('small', 'x')]
  for (const error of await Promise.all(asked)) {
    assert.equal(error.outcome, 'NotSent')
    assert.match(error.message, /no memory for it: the engine has 4 GiB for all connections/)
  }
  await Promise.all(beside)
  await Promise.all([sql.end(), r.close()])
})

test('a parameter of 2 GiB is refused', limits, async () => {
  const client = await open({ pipeline: true })
  const [sql, r] = [postgres(url), redis(server.url)]
  const large = Buffer.alloc(2 ** 31)
  const asked = [
    failed(client.query('select length($1::bytea)', [large])),
    failed(sql`select length(${large}::bytea)`),
    failed(r.set('large', large)),
  ]
  const messages = (await Promise.all(asked)).map((error) => `${error.outcome}: ${error.message}`)
  assert.match(messages[0] ?? '', /^NotSent: A query is too large: it has 1 GiB or more$/)
  assert.match(messages[1] ?? '', /^NotSent: .* 1 GiB or more/)
  assert.match(messages[2] ?? '', /^NotSent: .*2147483/)
  assert.deepEqual(await seven(client), [{ n: 7 }])
  await Promise.all([sql.end(), r.close()])
})

test('a reply for which there is no memory ends its connection and no other', limits, async () => {
  const [client, neighbour] = [await open(), await open()]
  const told = new Promise<Error>((resolve) => client.once('error', resolve))
  const [sql, r] = [postgres(url), redis(server.url)]
  await Promise.all([sql`select 1`, r.setrange('large', 40 * MIB, 'x')])
  leave(30)
  const errors = await Promise.all([
    failed(client.query("select repeat('x', 40 << 20)")),
    failed(sql`select repeat('x', 40 << 20)`),
    failed(r.get('large')),
  ])
  for (const error of errors) {
    assert.equal(error.outcome, 'Unknown')
    assert.match(error.message, /no room for \d+ more bytes of a reply.*ask for less at once/)
  }
  assert.match((await told).message, /^Connection terminated: there is no room/)
  assert.deepEqual(await seven(neighbour), [{ n: 7 }])
  await Promise.all([sql.end(), r.close()])
})

test('a queued request that memory lacks for ends its connection and no other', limits, async () => {
  const [client, neighbour] = [await open({ pipeline: true }), await open()]
  // This query fills the window.
  const slow = client.query('select pg_sleep(0.2), length($1::bytea)', [Buffer.alloc(2 * MIB)])
  const waiting = failed(client.query('select length($1::bytea)', [Buffer.alloc(40 * MIB)]))
  await new Promise((resolve) => setImmediate(resolve))
  leave(30)
  const error = await waiting
  assert.equal(error.outcome, 'NotSent')
  assert.match(error.message, /no memory to send the requests that wait/)
  await slow
  assert.deepEqual(await seven(neighbour), [{ n: 7 }])
})

test('a connection for which there is no memory is not opened', limits, async () => {
  const neighbour = await open()
  leave(1)
  for (let size = MIB / 2; size >= 4096; size /= 2) while (take(size));
  // One page is freed again: without it, what fits depends on the rest of the memory.
  const [start, size] = pieces.pop() as [number, number]
  memory.engine.onetrip_free(start, size)
  assert.match((await failed(open())).message, /no memory/)
  assert.deepEqual(await seven(neighbour), [{ n: 7 }])
})

test('a session for whose reset there is no memory serves nobody else', limits, async () => {
  const sql = postgres({ url, connectionsMax: 1 })
  const session = await sql.session()
  await session`set application_name = 'mine'`
  await session[Symbol.asyncDispose]()
  for (const handle of memory.handles) {
    const { engine } = handle
    const onetrip_postgres_submit = (): number => {
      handle.engine = engine
      return Refused.NO_MEMORY
    }
    handle.engine = { ...engine, onetrip_postgres_submit }
  }
  const name = async (): Promise<unknown> => (await sql`show application_name`)[0]
  const refused = await name().catch((error: PostgresError) => error.code)
  assert.equal(refused, 'no_memory')
  await new Promise((resolve) => setImmediate(resolve))
  assert.notDeepEqual(await name(), { application_name: 'mine' })
  await sql.end()
})

test('a COPY for whose data there is no memory fails, and no more', limits, async () => {
  const sql = postgres({ url, connectionsMax: 1 })
  await sql`drop table if exists no_memory`
  await sql`create table no_memory (n int)`
  const copy = sql.copyFrom`copy no_memory from stdin`
  const told = new Promise<PostgresError>((resolve) => copy.once('error', resolve))
  await new Promise((resolve) => copy.write('1\n', resolve))
  leave(1)
  for (let size = MIB / 2; size >= 16; size /= 2) while (take(size));
  copy.end('2\n'.repeat(1 << 20))
  const { code, outcome } = await told
  assert.deepEqual([code, outcome], ['no_memory', 'Rejected'])
  for (const [start, size] of pieces.splice(0)) memory.engine.onetrip_free(start, size)
  assert.deepEqual([...(await sql`select count(*)::int as n from no_memory`)], [{ n: 0 }])
  await sql`drop table no_memory`
  await sql.end()
})
