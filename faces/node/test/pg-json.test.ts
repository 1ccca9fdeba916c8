import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect } from 'node:util'

import { Client, Pool, Query } from '../src/pg'
import { connected, event, login, settled, url } from './pg-both'
import { listen } from './pg-served'
import { Cursor, QueryStream } from './pg-submit-kit'

const theirs = require('pg') as { Client: typeof Client; Query: typeof Query; Pool: typeof Pool }

/** The documented fields that this package adds to pg's objects. */
const MORE = new Set(['pipelineMaxQueries', 'signal', 'query_timeout'])

/** Logs an object as JSON and by `inspect`. Neither may fail or show a secret. */
function logged(value: object): string {
  const text = JSON.stringify(value)
  for (const seen of [text, inspect(value, { depth: 20 })]) assert.ok(!seen.includes(login.password))
  return text
}

function keysBeside(ours: object, reference: object): string[] {
  const known = new Set(Object.keys(reference))
  return Object.keys(ours).filter((key) => !known.has(key) && !MORE.has(key))
}

test('a client can be logged in all of its life', async () => {
  const client = new Client({ ...parts(), connectionTimeoutMillis: 20_000, query_timeout: 20_000 })
  const named = (it: string): void => assert.ok(logged(client).includes('"host"'), it)
  named('new')
  const connecting = client.connect()
  const waiting = client.query('select 1')
  named('connecting')
  await connecting
  named('connected')
  const running = client.query('select $1::int', [1])
  named('with queries')
  await Promise.all([waiting, running])
  const cursor = client.query(new Cursor('select 1'))
  await cursor.read(1)
  named('lent to a cursor')
  await cursor.close()
  await settled(client.query('select 1 / 0'))
  await client.query('begin')
  named('in a transaction')
  await client.end()
  named('ended')
})

test('a client that is lost can be logged, and its error', async () => {
  const port = await listen((_tag, _body, socket) => socket.destroy())
  const client = new Client({ ...parts(), host: '127.0.0.1', port })
  client.on('error', () => {})
  await client.connect()
  const error = (await settled(client.query('select 1'))) as Error
  logged(client)
  logged(error)
})

test('a query can be logged before, while and after it runs', async () => {
  const client = await connected()
  for (const query of [new Query('select 1 a'), new Query('select $1::int a', [1])]) {
    logged(query)
    assert.equal(client.query(query), query)
    logged(query)
    await event(query, 'end')
    assert.deepEqual((JSON.parse(logged(query)) as Query)._result.rows, [{ a: 1 }])
  }
  const failing = client.query(new Query('select 1 / 0'))
  await event(failing, 'error')
  logged(failing)
})

test('nothing internal is among the fields of a client or a query', async () => {
  const client = await connected()
  await client.query('select 1')
  const other = new theirs.Client(url)
  await other.connect()
  await other.query('select 1')
  assert.deepEqual(keysBeside(client, other), [])
  await other.end()
  const [ours, reference] = [new Query('select 1'), new theirs.Query('select 1')]
  client.query(ours)
  await event(ours, 'end')
  assert.deepEqual(keysBeside(ours, reference), [])
})

test('a pool, its clients and their queries can be logged', async () => {
  for (const pipeline of [false, true]) {
    const pool = new Pool({ ...parts(), max: 2, pipeline, connectionTimeoutMillis: 20_000 })
    const running = pool.query('select pg_sleep(0.01)')
    logged(pool)
    const client = await pool.connect()
    logged(client)
    const stream = client.query(new QueryStream('select generate_series(1, 3) i'))
    for await (const row of stream) logged(row as object)
    client.release()
    logged(client)
    await running
    logged(pool)
    await pool.end()
  }
})

test('a query is still cancelled by its object', async () => {
  const client = await connected()
  const query = client.query(new Query('select pg_sleep(100)'))
  const failed = event(query, 'error')
  new Client(url).cancel(client, query)
  assert.match(String(await failed), /cancel/)
})

function parts(): object {
  const { hostname, port } = new URL(url)
  return { ...login, host: hostname, port: Number(port) }
}
