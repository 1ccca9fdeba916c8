// State that a user leaves in a session never reaches the next user.

import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { test } from 'node:test'

import type { Session } from '../src/modern'
import type { Sql } from '../src/modern/sql'
import { client, failure } from './modern/client'
import { listen, message, ready } from './pg-served'

const limits = { timeout: 600_000 }

/** Checks, by a shared statement, that a connection is as it was when it was opened. */
async function assertClean(sql: Sql, after: string): Promise<void> {
  const [row] = await sql<{ clean: boolean }>`
    select current_setting('search_path') = '"$user", public'
      and current_user = session_user
      and not exists (select from pg_locks where locktype = 'advisory' and pid = pg_backend_pid())
      and not exists (select from pg_listening_channels())
      and not exists (select from pg_prepared_statements where from_sql)
      and not exists (select from pg_class where relpersistence = 't' and relkind = 'r'
        and relnamespace = pg_my_temp_schema()) as clean`
  assert.equal(row?.clean, true, `state was left by ${after}`)
}

/** Statements that leave state without showing it. */
const hidden: ((session: Session) => PromiseLike<unknown>)[] = [
  (session) => session`select set_config('search_path', 'nowhere', false)`,
  (session) => session`do $$ begin perform pg_advisory_lock(4502); end $$`,
  (session) => session`do $$ begin create temp table modern_left (n int); end $$`,
  (session) => session`do $$ begin execute 'set role pg_monitor'; end $$`,
  (session) => session`do $$ begin execute 'listen something'; end $$`,
  (session) => session`do $$ begin execute 'prepare mine as select 1'; end $$`,
  (session) => session`prepare mine as select 1`,
  (session) => session`select * from modern_left_view`,
  (session) => session`insert into modern_left_table values (1)`,
  (session) => session`call modern_left_call()`,
]

async function setUp(sql: Sql): Promise<void> {
  const session = await sql.session()
  await session`drop table if exists modern_left_table`
  await session`create or replace function modern_left_call_it() returns int language plpgsql as
    $f$ begin perform pg_advisory_lock(4503); return 1; end $f$`
  await session`create or replace procedure modern_left_call() language plpgsql as
    $f$ begin perform modern_left_call_it(); end $f$`
  await session`create or replace view modern_left_view as select modern_left_call_it() as n`
  await session`create table modern_left_table (n int, m int default modern_left_call_it())`
  session.release()
}

test('state that a function left in a session is gone for the next user', limits, async () => {
  const sql = client({ connectionsMax: 1 })
  await setUp(sql)
  for (const leave of hidden) {
    const session = await sql.session()
    await leave(session)
    session.release()
    await assertClean(sql, String(leave))
  }
})

test('state that a function left is gone, whatever the connection was lent for', limits, async () => {
  const sql = client({ connectionsMax: 1 })
  await setUp(sql)
  await sql.begin(async (tx) => {
    await tx`select * from modern_left_view`
  })
  await assertClean(sql, 'a transaction')
  await pipeline(Readable.from(['1\n']), sql.copyFrom`copy modern_left_table (n) from stdin`)
  await assertClean(sql, 'a COPY in')
  for await (const chunk of sql.copyTo`copy (select * from modern_left_view) to stdout`) String(chunk)
  await assertClean(sql, 'a COPY out')
  for await (const row of sql`select * from modern_left_view`) assert.ok(row)
  await assertClean(sql, 'a stream')
})

test('an insert behind a session with a temporary table of that name is not lost', limits, async () => {
  const sql = client({ connectionsMax: 1 })
  await sql`drop table if exists modern_left_kept`
  await sql`create table modern_left_kept (n int)`
  for (let n = 0; n < 20; n++) {
    const one = await sql.session()
    await one`set work_mem to '99kB'`
    one.release()
    const other = await sql.session()
    await other`do $$ begin create temp table modern_left_kept (n int); end $$`
    other.release()
    await sql`insert into public.modern_left_kept select ${n}::int`
    await sql`insert into modern_left_kept values (${n})`
  }
  const [row] = await sql<{ count: string }>`select count(*)::text as count from public.modern_left_kept`
  assert.equal(row?.count, '40')
  await sql`drop table modern_left_kept`
})

test('a statement behind a transaction that was not recognized is never acknowledged', limits, async () => {
  const answer = [message('1'), message('2'), message('n'), message('C', Buffer.from('SELECT 0\0'))]
  let asked = 0
  const port = await listen((tag, _, socket) => {
    // Both answers arrive in one read.
    if (tag === 'S' && ++asked === 2) {
      socket.write(Buffer.concat([...answer, ready('T'), ...answer, ready('T')]))
    } else if (tag === 'S' && asked > 2) socket.write(Buffer.concat([...answer, ready()]))
  })
  const sql = client({ url: `postgres://me@127.0.0.1:${port}/d?sslmode=disable`, connectionsMax: 1 })
  const [first, second] = [sql`select`, sql`select`]
  first.catch(() => undefined)
  const error = await failure(second)
  assert.deepEqual([error.code, error.outcome], ['connection_lost', 'Unknown'])
  assert.match(error.message, /began a transaction/)
})
