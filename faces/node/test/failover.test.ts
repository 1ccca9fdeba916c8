// A real primary and its standby: a commit that was not replicated is not acknowledged, and a
// client of both follows the primary.
import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { test, type TestContext } from 'node:test'

import type { PostgresError } from '../src/modern'
import type { Sql } from '../src/modern/sql'
import { Client, Pool, type Result } from '../src/pg'
import { client, failure } from './modern/client'
import { pair, until, type Pair } from './pair'

const limits = { timeout: 600_000 }

const ASKS_FOR_12 = 'not tested: a standby that can be promoted asks for PostgreSQL 12'

/** A server whose commits wait for a standby that does not exist, and a client that does not wait. */
async function waiting(t: TestContext): Promise<{ url: string; observer: Sql }> {
  const { primary: url } = await pair(t)
  const observer = client({ url, options: '-c synchronous_commit=local', connectionsMax: 1 })
  await observer`create table t (id int)`
  await observer`alter system set synchronous_standby_names = 'nobody'`
  await observer`select pg_reload_conf()`
  // Writes wait once the checkpointer has read the setting.
  const writer = client({ url, connectionsMax: 1 })
  await observer`create table canary (id int)`
  await until(async () => {
    let ended = false
    const waited = writer`insert into canary values (1)`.then(
      () => !(ended = true),
      () => (ended = true),
    )
    while (!ended) {
      await observer`
        select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'`
    }
    return await waited
  })
  await writer.end()
  return { url, observer }
}

/** Cancels the next wait for the standby while `work` goes on, which must end as unconfirmed. */
async function unconfirmed(observer: Sql, work: PromiseLike<unknown>): Promise<void> {
  const [error] = await Promise.all([
    failure(work),
    until(async () => {
      const cancelled = await observer`
        select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'`
      return cancelled.length > 0
    }),
  ])
  assert.deepEqual([error.outcome, error.code], ['Unknown', 'sync_replication_canceled'], String(error))
  assert.match(error.message, /synchronous standby/)
}

async function idsOf(sql: Sql): Promise<number[]> {
  return (await sql<{ id: number }>`select id from t order by id`).map(({ id }) => id)
}

test('no way of writing acknowledges a commit whose wait for a standby was cancelled', limits, async (t) => {
  const { url, observer } = await waiting(t)
  const sql = client({ url, connectionsMax: 1 })

  await unconfirmed(observer, sql`insert into t values (${1})`)
  await unconfirmed(observer, sql`insert into t values (${2}) returning id`)
  await unconfirmed(observer, sql.pipeline([sql`insert into t values (3)`, sql`insert into t values (4)`]))
  await unconfirmed(
    observer,
    sql.begin(async (tx) => {
      await tx`insert into t values (5)`
    }),
  )
  await unconfirmed(
    observer,
    sql.begin((tx) => [tx`insert into t values (6)`, tx`select 1`]),
  )
  await unconfirmed(observer, pipeline(Readable.from(['7\n']), sql.copyFrom`copy t from stdin`))
  const session = await sql.session()
  await session`begin`
  await session`insert into t values (8)`
  await unconfirmed(observer, session`commit`)
  session.release()

  assert.deepEqual(await idsOf(observer), [1, 2, 3, 4, 5, 6, 7, 8], 'all of it stands here')
  assert.deepEqual(await sql`select ${42}::int4 as n`.one(), { n: 42 })
})

test('nor does any way of the drop-in for pg', limits, async (t) => {
  const { url: connectionString, observer } = await waiting(t)
  const one = new Client({ connectionString })
  const pool = new Pool({ connectionString, max: 1 })
  await one.connect()

  await unconfirmed(observer, one.query('insert into t values (1)'))
  await unconfirmed(observer, one.query('insert into t values ($1) returning id', [2]))
  const named = { name: 'insert', text: 'insert into t values ($1)', values: [3] }
  await unconfirmed(observer, one.query(named))
  await unconfirmed(observer, one.query('insert into t values (4); insert into t values (5)'))
  await one.query('begin')
  await one.query('insert into t values (6)')
  await unconfirmed(observer, one.query('commit'))
  await unconfirmed(observer, pool.query('insert into t values ($1)', [7]))
  const called = new Promise((resolve, reject) => {
    const callback = (error: Error | null): void => (error ? reject(error) : resolve(undefined))
    pool.query('insert into t values (8)', callback)
  })
  await unconfirmed(observer, called)

  assert.deepEqual(await idsOf(observer), [1, 2, 3, 4, 5, 6, 7, 8], 'all of it stands here')
  for (const side of [one, pool]) {
    const { rows } = (await side.query('select $1::int4 as n', [42])) as Result
    assert.deepEqual(rows, [{ n: 42 }])
    await side.end()
  }
})

/** A URL with the hosts of both. */
function both({ primary, standby }: Pair): string {
  return primary.replace(new URL(primary).host, `${new URL(primary).host},${new URL(standby).host}`)
}

/** Waits until a standby has all that its primary has acknowledged. */
async function caughtUp(primary: Sql, standby: Sql): Promise<void> {
  const { position } = await primary<{ position: string }>`
    select pg_current_wal_flush_lsn()::text as position`.one()
  await until(async () => {
    const { there } = await standby`select pg_last_wal_replay_lsn() >= ${position}::pg_lsn as there`.one()
    return there === true
  })
}

/** Stops a server with all that serve its clients. Returns what wakes it. */
async function pause(server: Sql): Promise<() => void> {
  const processes = await server<{ pid: number }>`
    select split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::int as pid
    union all select pid from pg_stat_activity`
  const signal = (name: 'SIGSTOP' | 'SIGCONT'): void => processes.forEach(({ pid }) => process.kill(pid, name))
  signal('SIGSTOP')
  return () => signal('SIGCONT')
}

/** A split brain of the test's making. */
test('a paused primary that wakes gets nothing more', limits, async (t) => {
  const servers = await pair(t)
  if (servers.standby === '') return t.diagnostic(ASKS_FOR_12)
  const [former, next] = [client({ url: servers.primary }), client({ url: servers.standby })]
  const sql = client({
    url: both(servers),
    targetSessionAttrs: 'read-write',
    applicationName: 'under-test',
    connectionsMax: 4,
    connectTimeout: 1,
    requestTimeoutMs: 3000,
    waitTimeoutMs: 40_000,
  })
  await former`create table t (id int)`
  const lent = await sql.session()
  await lent`select 1`
  await caughtUp(former, next)

  const wake = await pause(former)
  try {
    await next`select pg_promote()`
    // A statement on its way to the paused server is late; the next finds the new primary.
    await until(async () => sql`insert into t values (1)`.then(() => true, () => false))
    const gone = await failure(lent`insert into t values (2)`)
    assert.deepEqual([gone.outcome, gone.code], ['NotSent', 'connection_lost'], String(gone))
    assert.match(gone.message, /former primary/)
  } finally {
    wake()
  }
  lent.release()
  // It is awake, takes writes, and stands first in the list.
  await former`insert into t values (-1)`
  for (let id = 10; id < 20; id++) {
    await using session = await sql.session()
    await session`insert into t values (${id})`
    await failure(session`select pg_terminate_backend(pg_backend_pid())`)
  }
  const there = await idsOf(next)
  assert.deepEqual(there.filter((id) => id >= 10), Array.from({ length: 10 }, (_, i) => 10 + i))
  assert.deepEqual(await idsOf(former), [-1])
})

/** Nothing has a deadline, so only a look elsewhere meets the next primary. */
test('a full pool on a paused primary goes on at the next primary', limits, async (t) => {
  const servers = await pair(t)
  if (servers.standby === '') return t.diagnostic(ASKS_FOR_12)
  const [former, next] = [client({ url: servers.primary }), client({ url: servers.standby })]
  const sql = client({
    url: both(servers),
    targetSessionAttrs: 'read-write',
    connectionsMax: 2,
    inFlightMax: 1,
    waitTimeoutMs: 40_000,
  })
  await former`create table t (id int)`
  const lent = await sql.session()
  await lent`select 1`
  await sql`insert into t values (0)`
  await caughtUp(former, next)

  const wake = await pause(former)
  try {
    const inSession = failure(lent`insert into t values (1)`)
    const write = async (id: number): Promise<number[]> => {
      try {
        await sql`insert into t values (${id})`
        return [id]
      } catch (error) {
        assert.equal((error as PostgresError).outcome, 'Unknown', String(error))
        return []
      }
    }
    const writes = Promise.all(Array.from({ length: 20 }, (_, i) => write(10 + i)))
    await next`select pg_promote()`
    const written = (await writes).flat()
    assert.ok(written.length >= 19, 'only what was sent is unknown')
    const gone = await inSession
    assert.deepEqual([gone.outcome, gone.code], ['Unknown', 'connection_lost'], String(gone))
    assert.deepEqual(await idsOf(next), [0, ...written])
  } finally {
    wake()
  }
  lent.release()
  const { port } = await sql`select inet_server_port() as port`.one()
  assert.equal(`127.0.0.1:${port}`, new URL(servers.standby).host)
})

/** As operators do it without ending sessions: the former primary is set read only. */
test('after its server turned read only, the next statement goes to the new primary', limits, async (t) => {
  const servers = await pair(t)
  if (servers.standby === '') return t.diagnostic(ASKS_FOR_12)
  const [former, next] = [client({ url: servers.primary }), client({ url: servers.standby })]
  const hosts = [servers.primary, servers.standby].map((url) => new URL(url).host)
  const sql = client({
    url: both(servers),
    targetSessionAttrs: 'read-write',
    applicationName: 'under-test',
    connectionsMax: 1,
    waitTimeoutMs: 40_000,
  })
  await former`create table t (id int)`

  /** Writes a row, and says on which server. */
  const write = async (id: number): Promise<string> => {
    const { port } = await sql`insert into t values (${id}) returning inet_server_port() as port`.one()
    return `127.0.0.1:${port}`
  }
  assert.equal(await write(0), hosts[0])
  await former`alter system set default_transaction_read_only = on`
  await former`select pg_reload_conf()`

  const [acknowledged, refused]: [number[], PostgresError[]] = [[0], []]
  const moved = async (): Promise<void> => {
    for (let id = 1; ; id++) {
      try {
        const where = await write(id)
        acknowledged.push(id)
        if (where === hosts[1]) return
      } catch (error) {
        // Only the statement that met the read-only server.
        if (refused.push(error as PostgresError) > 1) throw error
      }
    }
  }
  const promoted = async (): Promise<void> => {
    await until(async () => {
      const theirs = await former`select from pg_stat_activity where application_name = 'under-test'`
      return theirs.length === 0
    })
    await caughtUp(former, next)
    await next`select pg_promote()`
  }
  await Promise.all([moved(), promoted()])

  assert.deepEqual(await idsOf(next), acknowledged)
  for (const { code, outcome } of refused) assert.deepEqual([code, outcome], ['25006', 'Rejected'])
})
