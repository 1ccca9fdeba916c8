import assert from 'node:assert/strict'
import { afterEach, test } from 'node:test'

import { Client, Pool, type PoolClient, type PoolConfig, type QueryError, type Results } from '../src/pg'
import { isShareable } from '../src/pg/pool-text'
import { settled, url } from './pg-both'
import { listen, message, ready } from './pg-served'
import { Cursor } from './pg-submit-kit'
import { counts, Diary, events, turn } from './pg-pools'

const pools: Pool[] = []
afterEach(async () => {
  await Promise.all(pools.splice(0).map((it) => (it.ending ? undefined : it.end())))
})

function shared(config: PoolConfig = {}): Pool {
  const made = new Pool({ connectionString: url, pipeline: true, ...config })
  pools.push(made)
  return made
}

/** A pool without pipelining. */
function plainPool(config: PoolConfig = {}): Pool {
  return shared({ pipeline: false, ...config })
}

function rows(results: Results): unknown[] {
  return (results as { rows: unknown[] }).rows
}

const limits = { timeout: 600_000 }

/** Queries whose answers are their numbers. */
function numbered(pool: Pool, count: number): Promise<unknown[]> {
  const asked = Array.from({ length: count }, async (_, i) => {
    const found = rows(await pool.query('select $1::int as n, pg_backend_pid() as pid', [i]))
    assert.equal(found.length, 1)
    const { n, pid } = found[0] as { n: number; pid: number }
    assert.equal(n, i)
    return pid
  })
  return Promise.all(asked)
}

test('queries in flight share the connections of a pool, and each has its own answer', limits, async () => {
  for (const keys of [{ pipeline: true }, { pipeline: false, pipelineMode: true }]) {
    const pool = shared({ max: 3, ...keys })
    await numbered(pool, 10)
    // On a busy machine they may look slow for a while, and then none is sent behind
    // another.
    for (let together = false; !together; ) {
      const running = numbered(pool, 300)
      await turn()
      together = pool._clients.some((it) => it.pendingQueryCount > 1)
      const pids = new Set(await running)
      assert.ok(pids.size <= 3)
    }
    assert.equal(pool.waitingCount, 0)
    assert.ok(pool.idleCount > 0 && pool.idleCount <= pool.totalCount)
  }
})

test('queries whose shared connection is lost fail with "terminated unexpectedly"', limits, async () => {
  const pool = shared({ max: 1 })
  await pool.query('select 1')
  const asked = [1, 2].map((n) => settled(pool.query('select pg_sleep(100), $1::int', [n])))
  await turn()
  pool._clients[0]?.connection.stream.destroy()
  for (const error of await Promise.all(asked)) {
    assert.equal((error as QueryError).message, 'Connection terminated unexpectedly')
  }
})

test('a query that fails leaves its neighbours alone', limits, async () => {
  const pool = shared({ max: 2 })
  const asked = Array.from({ length: 90 }, (_, i) =>
    i % 3 === 1 ? pool.query('select $1::int / 0 as n', [i]) : pool.query('select $1::int as n', [i]),
  )
  const told = await Promise.all(asked.map((it) => settled(it)))
  told.forEach((it, n) => {
    if (n % 3 === 1) {
      const { code, outcome } = it as QueryError & { code: string }
      assert.deepEqual([code, outcome], ['22012', 'Rejected'])
    } else {
      assert.deepEqual(rows(it as Results), [{ n }])
    }
  })
  assert.ok(pool.totalCount > 0)
})

test('queries with callbacks and configurations are shared too', limits, async () => {
  const pool = shared({ max: 1 })
  const called = await new Promise<unknown[]>((resolve) => {
    pool.query('select $1::int as n', [5], (...args: unknown[]) => resolve(args))
  })
  assert.equal(called[0], undefined)
  assert.deepEqual(rows(called[1] as Results), [{ n: 5 }])
  const failed = await new Promise<unknown[]>((resolve) => {
    pool.query('select 1/0', (...args: unknown[]) => resolve(args))
  })
  assert.deepEqual([failed.length, (failed[0] as { code: string }).code], [1, '22012'])
  const array = await pool.query({ text: 'select $1::int', values: [6], rowMode: 'array' })
  assert.deepEqual(rows(array), [[6]])
  const named = await Promise.all(
    [1, 2, 3].map((n) => pool.query({ name: 'it', text: 'select $1::int as n', values: [n] })),
  )
  assert.deepEqual(named.map(rows), [[{ n: 1 }], [{ n: 2 }], [{ n: 3 }]])
  const wrong = await settled(pool.query('select 1', 'no array' as never))
  assert.match(String(wrong), /must be an array/)
})

test('texts that need a session have a client to themselves', limits, async () => {
  const pool = shared({ max: 2 })
  await pool.query('select 1')
  const diary = new Diary(pool)
  await pool.query('select 1')
  const others = diary.lines.filter((line) => !line.startsWith('connect'))
  assert.deepEqual(others, [])
  const texts = [
    'begin',
    "set application_name = 'mine'",
    'listen nobody',
    'select 1; select 2',
    'create temp table gone (n int)',
    'discard all',
  ]
  for (const text of texts) {
    diary.lines.length = 0
    await pool.query(text)
    const lent = diary.lines.filter((line) => /^acquire|^release/.test(line))
    assert.equal(lent.length, 2, text)
  }
})

test('a text that is one complete statement is shared, and no other text is', () => {
  const yes = [
    'select 1',
    '  SELECT 1 ; ',
    '(select 1) union (select 2)',
    '-- a comment\nselect 1',
    '/* one */ select 1',
    'insert into t values (1)',
    'with a as (select 1) select * from a',
    'update t set a = 1',
    'delete from t',
    'values (1)',
    'table t',
    'merge into t using s on true when matched then delete',
    'explain select 1',
    'show search_path',
    'select pg_advisory_xact_lock(1)',
    'select 1 /* traceparent=0 */',
    "select ';'",
    '/* /* nested */ */ select 1',
    'select "into temp t"',
  ]
  const no = [
    '',
    ';',
    'begin',
    'BEGIN',
    '/* select */ begin',
    '-- select\nbegin',
    '-- select\rbegin --\nselect',
    '/* a */ begin -- */ select',
    'explain analyze create temp table t as select 1',
    '/* /* select */ begin */ begin',
    'start transaction',
    'commit',
    'rollback',
    'savepoint a',
    'set a = 1',
    'reset all',
    'listen a',
    'declare c cursor for select 1',
    'fetch c',
    'prepare p as select 1',
    'execute p',
    'copy t from stdin',
    'create temp table t (a int)',
    'select 1 into temp t',
    'select 1 into temporary table t',
    'select * from pg_temp.t',
    'select pg_advisory_lock(1)',
    'select pg_try_advisory_lock(1)',
    'select pg_advisory_unlock_all()',
    "select set_config('a', 'b', false)",
    'select 1; begin',
    'select 1;;select 2',
    'do $$ begin end $$',
    'call p()',
    'vacuum',
    'selection',
  ]
  for (const text of yes) assert.equal(isShareable(text), true, text)
  for (const text of no) assert.equal(isShareable(text), false, text)
  const long = ' '.repeat(10_000)
  assert.equal(isShareable(`${long}select 1`), true)
  assert.equal(isShareable(`${long}begin`), false)
})

test('no query runs in the transaction of a pool.query that begins one', limits, async () => {
  const pool = shared({ max: 1 })
  await pool.query('begin')
  const [first, second] = await Promise.all([
    pool.query('select pg_current_xact_id()::text as id'),
    pool.query('select pg_current_xact_id()::text as id'),
  ])
  assert.notDeepEqual(rows(first), rows(second))
})

for (const [state, statements] of [
  ['open', ['begin', 'create temp table leaked (n int)']],
  ['failed', ['begin', 'select 1/0']],
  ['begun alone', ['begin']],
] as const) {
  test(`a client that comes back with its transaction ${state} is rolled back`, limits, async () => {
    const pool = shared({ max: 1 })
    const client = await pool.connect()
    const { processID } = client
    for (const text of statements) await settled(client.query(text))
    client.release()
    const results = await Promise.all([
      pool.query("select to_regclass('leaked') as leaked, pg_backend_pid() as pid"),
      pool.query('select pg_current_xact_id()::text as id'),
      pool.query('select pg_current_xact_id()::text as id'),
    ])
    const [found, one, two] = results.map(rows)
    assert.deepEqual(found, [{ leaked: null, pid: processID }])
    assert.notDeepEqual(one, two)
  })
}

test('a client that comes back with a query running takes no other before it has answered', limits, async () => {
  const pool = shared({ max: 1 })
  const client = await pool.connect()
  const answers = [client.query('begin'), client.query('select pg_current_xact_id()::text as id')]
  client.release()
  const [, within] = await Promise.all(answers)
  const after = await pool.query('select pg_current_xact_id()::text as id')
  assert.notDeepEqual(rows(after), rows(within as Results))
  assert.deepEqual(counts(pool), [1, 1, 0, 0])
})

test('a client that comes back with a query running is lent once it has answered', limits, async () => {
  const pool = shared({ max: 1 })
  let holders = 0
  const borrow = async (): Promise<void> => {
    const client = await pool.connect()
    assert.equal(++holders, 1)
    const cursor = client.query(new Cursor('select generate_series(1, 9)'))
    await cursor.read(1)
    // The server answers this after the client was given back.
    const closing = cursor.close()
    holders--
    client.release()
    await closing
  }
  await Promise.all(Array.from({ length: 20 }, borrow))
})

test('a burst is spread over all clients that the pool may have', limits, async () => {
  const pool = shared({ max: 4 })
  for (let round = 0; round < 2; round++) {
    // Long enough not to look quick: many quick queries would share a client.
    const asked = Array.from({ length: 40 }, () => pool.query('select pg_sleep(0.03), pg_backend_pid() as pid'))
    const pids = (await Promise.all(asked)).map((it) => (rows(it)[0] as { pid: number }).pid)
    assert.equal(new Set(pids).size, 4)
  }
})

test('a client that is lent carries no queries of others', limits, async () => {
  const pool = shared({ max: 3 })
  await numbered(pool, 50)
  for (let round = 0; round < 10; round++) {
    const busy = numbered(pool, 40)
    const client = await pool.connect()
    assert.equal(client.pendingQueryCount, 0)
    const pids = new Set(await numbered(pool, 40))
    assert.equal(pids.has(client.processID), false)
    client.release()
    await busy
  }
})

test('queries wait while all clients are lent, and are sent together when one comes back', limits, async () => {
  const pool = shared({ max: 1 })
  const client = await pool.connect()
  const asked = numbered(pool, 30)
  assert.deepEqual(counts(pool), [1, 0, 30, 0])
  client.release()
  await asked
  assert.deepEqual(counts(pool), [1, 1, 0, 0])
})

test('a query that waits too long for a place was not sent', limits, async () => {
  // The timeout also bounds connecting, which is slow on a busy machine.
  const pool = shared({ max: 1, connectionTimeoutMillis: 3000 })
  const client = await pool.connect()
  const error = (await settled(pool.query('select 1'))) as QueryError
  assert.equal(error.message, 'timeout exceeded when trying to connect')
  assert.equal(error.outcome, 'NotSent')
  client.release()
  await pool.query('select 1')
})

test('a query that is aborted while it waits gives up its place', limits, async () => {
  for (const pool of [shared({ max: 1 }), plainPool({ max: 1 })]) {
    const client = await pool.connect()
    const abort = new AbortController()
    const waiting = settled(pool.query({ text: 'select 1', signal: abort.signal }))
    const next = pool.query('select 2 as a')
    await turn()
    abort.abort()
    const error = (await waiting) as QueryError
    assert.deepEqual([error.name, error.outcome], ['AbortError', 'NotSent'])
    client.release()
    assert.deepEqual(rows(await next), [{ a: 2 }])
    const late = (await settled(pool.query({ text: 'select 1', signal: abort.signal }))) as QueryError
    assert.deepEqual([late.name, late.outcome], ['AbortError', 'NotSent'])
    assert.deepEqual(counts(pool), [1, 1, 0, 0])
  }
})

test('queries on a connection that is lost settle once each, with their outcome', limits, async () => {
  const pool = shared({ max: 1 })
  const errors: Error[] = []
  pool.on('error', (error) => errors.push(error))
  const pid = ((await numbered(pool, 1)) as number[])[0]
  let settlements = 0
  const asked = Array.from({ length: 20 }, (_, i) =>
    pool.query(i === 3 ? 'select pg_terminate_backend(pg_backend_pid()), pg_sleep(10)' : 'select $1::int as n', i === 3 ? [] : [i]),
  )
  const told = await Promise.all(asked.map((it) => settled(it.finally(() => settlements++))))
  assert.equal(settlements, 20)
  for (const it of told.slice(4)) assert.equal((it as QueryError).outcome, 'Unknown')
  assert.deepEqual(told.slice(0, 3).map((it) => rows(it as Results)), [[{ n: 0 }], [{ n: 1 }], [{ n: 2 }]])
  // The queries reported the loss, so the pool does not.
  assert.deepEqual(errors, [])
  const next = ((await numbered(pool, 1)) as number[])[0]
  assert.notEqual(next, pid)
})

test('the pool emits the error of a shared connection that is lost while idle', limits, async () => {
  const pool = shared({ max: 1 })
  const [pid] = await numbered(pool, 1)
  const told = new Promise<Error>((resolve) => pool.once('error', resolve))
  await plainPool({ max: 1 }).query('select pg_terminate_backend($1)', [pid])
  assert.match((await told).message, /terminat/)
  await numbered(pool, 5)
})

test('if no connection can be made, each query fails as NotSent', limits, async () => {
  const pool = shared({ connectionString: undefined, host: '127.0.0.1', port: 1, user: 'nobody', max: 4 })
  const told = await Promise.all(Array.from({ length: 50 }, () => settled(pool.query('select 1'))))
  for (const it of told) {
    assert.match((it as Error).message, /ECONNREFUSED/)
    assert.equal((it as QueryError).outcome, 'NotSent')
  }
  // One more attempt may have been under way.
  while (pool.totalCount > 0) await turn()
  assert.equal(pool.waitingCount, 0)
})

test('a pool that ends answers its queries', limits, async () => {
  const pool = shared({ max: 2 })
  const asked = numbered(pool, 100)
  const ends = pool.end()
  await asked
  await ends
  assert.deepEqual(counts(pool), [0, 0, 0, 0])
  assert.match(String(await settled(pool.query('select 1'))), /after calling end/)
})

test('settings made when a client connects apply to all who share it', limits, async () => {
  const pool = shared({ max: 2, verify: (_, done) => setImmediate(done) })
  pool.on('connect', (client: PoolClient) => void client.query("set application_name = 'ours'"))
  const results = await Promise.all(Array.from({ length: 20 }, () => pool.query('show application_name')))
  for (const it of results) assert.deepEqual(rows(it), [{ application_name: 'ours' }])
})

test('shared clients are closed after their uses, their lifetime, and when idle', limits, async () => {
  const worn = shared({ max: 1, maxUses: 5 })
  const pids = new Set<unknown>()
  for (let i = 0; i < 10; i++) for (const pid of await numbered(worn, 1)) pids.add(pid)
  assert.equal(pids.size, 2)
  const old = shared({ max: 1, maxLifetimeSeconds: 0.1 })
  const gone = events(old, 'remove')
  await numbered(old, 5)
  await gone
  assert.equal(old.totalCount, 0)
  const idle = shared({ max: 1, idleTimeoutMillis: 20 })
  const closed = events(idle, 'remove')
  await numbered(idle, 5)
  await closed
  assert.equal(idle.totalCount, 0)
})

test('a query that times out leaves those behind it alone', limits, async () => {
  const pool = shared({ max: 1 })
  await numbered(pool, 1)
  const slow = pool.query({ text: 'select pg_sleep(0.3)', query_timeout: 20 })
  const behind = numbered(pool, 10)
  assert.match(String(await settled(slow)), /Query read timeout/)
  await behind
})

/** A server that answers logins, and queries on all connections but the first. */
async function muteAtFirst(): Promise<{ config: PoolConfig; asked: () => number }> {
  const seen: unknown[] = []
  const port = await listen((tag, _, socket) => {
    if (!seen.includes(socket)) seen.push(socket)
    if (seen.indexOf(socket) === 0) return
    const complete = message('C', Buffer.from('SELECT 0\0'))
    if (tag === 'Q') socket.write(Buffer.concat([complete, ready()]))
    else if (tag === 'S') socket.write(Buffer.concat([message('1'), message('2'), message('n'), complete, ready()]))
  })
  const config = { connectionString: undefined, host: '127.0.0.1', port, user: 'me', database: 'd', max: 1 }
  return { config, asked: () => seen.length }
}

test('a connection on which a query timed out takes no other, and is closed if no answer comes', limits, async () => {
  // The second text has a client to itself, since it has several statements.
  for (const text of ['select 1', 'select 1; select 1']) {
    const { config, asked } = await muteAtFirst()
    const pool = shared(config)
    // Once it is connected, a query leaves before its timeout can pass.
    ;(await pool.connect()).release()
    const late = await settled(pool.query({ text, query_timeout: 20 }))
    assert.match(String(late), /Query read timeout/)
    assert.equal(((await pool.query(text)) as { rowCount: number }).rowCount, 0)
    assert.equal(asked(), 2)
    await pool.end()
  }
})

test('a pool ends although answers that nobody waits for are due', limits, async () => {
  const { config } = await muteAtFirst()
  const pool = shared(config)
  const late = await settled(pool.query({ text: 'select 1', query_timeout: 20 }))
  assert.match(String(late), /Query read timeout/)
  await pool.end()
})

test('a client ends although the answer to a query that timed out is due', limits, async () => {
  const { config } = await muteAtFirst()
  const client = new Client({ ...config, pipeline: true })
  await client.connect()
  const late = client.query({ text: 'select 1', query_timeout: 20 })
  assert.match(String(await settled(late)), /Query read timeout/)
  await client.end()
})

test('a patched client sees the queries of the pool', limits, async () => {
  const seen: unknown[] = []
  class Watched extends Client {
    override query(...args: unknown[]): never {
      seen.push(args[0])
      return super.query(...(args as [string])) as never
    }
  }
  const pool = shared({ max: 1, Client: Watched })
  await pool.query('select 1')
  assert.deepEqual(seen, ['select 1'])
})

test('a patched connect sees the queries that have a client to themselves', limits, async () => {
  const pool = plainPool({ max: 1 })
  const diary = new Diary(pool)
  const { connect } = pool
  pool.connect = function (this: Pool, ...args: unknown[]): never {
    diary.note('asked')
    return (connect as (...args: unknown[]) => unknown).apply(this, args) as never
  } as typeof connect
  assert.deepEqual(rows(await pool.query('select 1 as a')), [{ a: 1 }])
  assert.equal(((await settled(pool.query('select 1/0'))) as { code: string }).code, '22012')
  assert.deepEqual(rows(await pool.query('select 2 as a')), [{ a: 2 }])
  const lent = ['asked', 'acquire client 0', 'release undefined, client 0']
  assert.deepEqual(diary.lines, ['asked', 'connect client 0', ...lent.slice(1), ...lent, ...lent])
})

test('a client is lent once the queries that were asked before its borrower are answered', limits, async () => {
  const pool = shared({ max: 1 })
  for (let i = 0; i < 20; i++) {
    const first = await pool.connect()
    const before = numbered(pool, 20)
    const second = pool.connect()
    first.release()
    const client = await second
    // Destroying the client fails no query of others.
    client.release(true)
    await before
  }
})
