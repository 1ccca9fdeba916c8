import assert from 'node:assert/strict'
import { test } from 'node:test'

import { Client, DatabaseError, Pool, type QueryError } from '../src/pg'
import { both, connected, login, settled, url } from './pg-both'
import { silentServer } from './pg-pools'

/** Queries that fail, with their values. */
const FAILING: readonly [string, unknown[]?][] = [
  ['selec 1'],
  ['select 1 / 0'],
  ['select * from no_such_table'],
  ['select no_such_column from pg_class'],
  ['select no_such_function(1)'],
  ["select 'x'::int"],
  ["select '2024-02-30'::date"],
  ["select '{'::json"],
  ["select 'é' ->> 1"],
  ['select $1::int', ['x']],
  ['select $1::int, $2::int', [1]],
  ['select $1::int', [1, 2]],
  ['select $1', [{ a: 1 }, 2]],
  ['select 1 from pg_class for update limit 1 nowait foo'],
  ['insert into things values (1, null, 5)'],
  ["insert into things values (1, 'a', 5), (1, 'b', 6)"],
  ["insert into things values (2, 'a', -5)"],
  ["insert into things values (3, 'toolong', 5)"],
  ["insert into parts values (1, 99)"],
  ['drop table things'],
  ['create temp table things (i int)'],
  ["do $$ begin raise exception 'own' using errcode = 'P0042', detail = 'd', hint = 'h', column = 'c', table = 't'; end $$"],
  ["do $$ begin perform 1 / 0; end $$"],
  ['set no_such_setting = 1'],
  ["set client_min_messages = 'x'"],
  ['commit prepared $$x$$'],
  ['vacuum; select 1'],
  ['select $1::text', ['a\0b']],
  ['copy things from stdin'],
  ['listen'],
  ['execute no_such_statement'],
  ['fetch no_such_cursor'],
  ['select 1; select 1 / 0; select 2'],
]

both('each error has the fields that pg gives it', async (client) => {
  await client.query(`create temp table things (id int primary key, name varchar(3) not null, n int check (n > 0));
    create temp table parts (id int, thing int references things)`)
  const errors = []
  for (const [text, values] of FAILING) {
    const error = await settled(client.query(text, values))
    assert.ok(error instanceof Error, text)
    errors.push([text, error])
  }
  return errors
})

both('in a transaction that failed all fails until its end', async (client) => {
  await client.query('begin')
  const seen = [await settled(client.query('select 1 / 0'))]
  seen.push(await settled(client.query('select $1::int', [1])), await client.query('commit'))
  return [...seen, await client.query('select 1')]
})

both('an error at the commit of a statement is the error of the statement', async (client) => {
  await client.query('create temp table later (i int unique deferrable initially deferred)')
  await client.query('insert into later values (1)')
  const seen = [await settled(client.query('insert into later values ($1)', [1]))]
  return [...seen, await client.query('select * from later')]
})

test('errors of the server are of one class and have the outcome Rejected', async () => {
  const client = await connected()
  const error = (await settled(client.query('select 1 / 0'))) as QueryError
  assert.ok(error instanceof DatabaseError)
  assert.equal(error.outcome, 'Rejected')
})

test('a query that was never sent has the outcome NotSent', async () => {
  const client = await connected()
  const cases = [client.query({}), client.query({ text: 'select 1', values: 'x' }), client.query('select 1\0')]
  for (const query of cases) assert.equal(((await settled(query)) as QueryError).outcome, 'NotSent')
})

test('a query whose result cannot be read has the outcome Applied', async () => {
  const client = await connected()
  client.setTypeParser(23, () => {
    throw new Error('unreadable')
  })
  assert.equal(((await settled(client.query('select 1'))) as QueryError).outcome, 'Applied')
})

test('a caller that gets no connection has the outcome NotSent', async () => {
  const { hostname, port } = new URL(url)
  const refused = { host: hostname, port: Number(port), ...login, database: 'no_such' }
  const closed = { host: '127.0.0.1', port: 1 }
  const silent = await silentServer()
  const late = { host: '127.0.0.1', port: silent.port, connectionTimeoutMillis: 50 }
  const attempts: (() => Promise<unknown>)[] = []
  for (const config of [refused, closed, late]) {
    attempts.push(() => new Client(config).connect())
    const pool = new Pool(config)
    attempts.push(() => pool.connect(), () => pool.query('select 1'))
  }
  const connectedAlready = await connected()
  attempts.push(() => connectedAlready.connect())
  const over = new Pool({ connectionString: url })
  await over.end()
  attempts.push(() => over.connect(), () => over.query('select 1'))
  const picky = new Pool({ connectionString: url, verify: (_, done) => done(new Error('no')) })
  attempts.push(() => picky.connect(), () => picky.query('select 1'))
  for (const attempt of attempts) {
    const error = (await settled(attempt())) as QueryError
    assert.ok(error instanceof Error)
    assert.equal(error.outcome, 'NotSent', error.message)
    assert.ok(!Object.keys(error).includes('outcome'))
  }
  silent.close()
})

test('a client that was given another encoding ends, and says why', async () => {
  const client = new Client({ connectionString: url })
  await client.connect()
  const ended = new Promise<Error>((resolve) => client.once('error', resolve))
  await client.query("set client_encoding = 'utf8'")
  const result = (await client.query('select $1 as a', ['ä'])) as unknown as { rows: unknown[] }
  assert.deepEqual(result.rows, [{ a: 'ä' }])
  await client.query("set client_encoding = 'latin1'")
  assert.match((await ended).message, /client_encoding/)
  await assert.rejects(client.query('select $1', ['ä']))
})
