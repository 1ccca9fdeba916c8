import assert from 'node:assert/strict'
import { test } from 'node:test'

import type { Client, ClientConfig, QueryError } from '../src/pg'
import { bothAlone, settled, url, type Side } from './pg-both'
import { OURS, THEIRS, run } from './pg-process'
import { listen } from './pg-served'
import { Cursor } from './pg-submit-kit'

const limits = { timeout: 600_000 }

function piped(side: Side, more: ClientConfig = {}): Client {
  return new side.Client({ connectionString: url, pipeline: true, ...more })
}

bothAlone('end() in a pipelined login waits for the queries that were asked before', async (side) => {
  const client = piped(side)
  const events: string[] = []
  for (const name of ['connect', 'drain', 'error', 'end']) client.on(name, () => events.push(name))
  const early = client.query('select 0 a')
  const connecting = client.connect()
  const asked = [early, client.query('select $1::int a', [1]), settled(client.query('select 1 / 0'))]
  const ended = client.end().then(() => events.push('ended'))
  asked.push(settled(client.query('select 3 a')))
  const results = await Promise.all(asked)
  assert.equal(await connecting, client)
  await ended
  await new Promise((resolve) => setImmediate(resolve))
  return [results, events.filter((name) => name !== 'drain')]
})

bothAlone('end() in a pipelined login without queries ends at once', async (side) => {
  const client = piped(side)
  void client.connect().catch(() => {})
  return [await client.end(), await settled(client.query('select 1'))]
})

bothAlone('queries behind a pipelined login that fails after end() have its error', async (side) => {
  const client = piped(side, { database: 'no_such_database', connectionString: undefined, ...there() })
  const connecting = settled(client.connect())
  const query = settled(client.query('select 1'))
  const ended = client.end()
  const seen = [await connecting, ((await query) as Error).message]
  await ended
  return seen
})

function there(): ClientConfig {
  const { hostname, port, username, password } = new URL(url)
  return { host: hostname, port: Number(port), user: username, password }
}

test('a cursor that was submitted during a pipelined login is read to its end', limits, async () => {
  const { Client } = await import('../src/pg')
  const client = new Client({ connectionString: url, pipeline: true })
  const connecting = client.connect()
  const cursor = client.query(new Cursor('select generate_series(1, 3) i'))
  const behind = client.query('select 4 i')
  const ended = client.end()
  assert.equal((await cursor.read(2)).length, 2)
  assert.equal((await cursor.read(2)).length, 1)
  assert.deepEqual((await behind as { rows: unknown[] }).rows, [{ i: 4 }])
  await Promise.all([connecting, ended])
})

test('a pipelined login that is never answered ends with its timeout', limits, async () => {
  const port = await listen(() => {}, () => Buffer.alloc(0))
  const { Client } = await import('../src/pg')
  const client = new Client({ ...there(), host: '127.0.0.1', port, pipeline: true, connectionTimeoutMillis: 50 })
  const connecting = settled(client.connect())
  const query = settled(client.query('select 1'))
  await client.end()
  assert.equal(((await query) as QueryError).outcome, 'NotSent')
  assert.match(String(await connecting), /timeout expired/)
})

const QUICK = [
  ['connect and end without await', 'client.connect(); client.end()'],
  ['the same with pipelining', 'client.connect(); client.end()', 'pipeline: true'],
  ['connect by callback', "client.connect(() => {}); client.end(() => console.log('ended'))"],
] as const

for (const [name, program, keys = ''] of QUICK) {
  test(`a process goes on after a quick disconnect: ${name}`, limits, async () => {
    const text = `const client = new Client({ connectionString: url, ${keys} }); ${program}
      client.on('end', () => console.log('over'))`
    const [theirs, ours] = await Promise.all([run(THEIRS, text), run(OURS, text)])
    assert.equal(theirs.code, 0, theirs.err)
    assert.deepEqual(ours, theirs)
  })
}

test('a connect that end() interrupts is rejected', limits, async () => {
  const text = `const client = new Client(url)
    const waits = client.connect()
    client.end()
    try { await waits } catch (error) { console.log(error.message) }`
  assert.deepEqual(await run(OURS, text), { code: 0, out: 'Connection terminated\n', err: '' })
})

test('an end() in the middle of a login, which the server refuses, causes no unhandled rejection', limits, async () => {
  const text = `const client = new Client(url); client.connect()
    client.connection.stream.on('connect', () => setImmediate(() => client.end()))`
  assert.deepEqual(await run(OURS, text), { code: 0, out: '', err: '' })
})

test('a connect that fails by itself still causes an unhandled rejection', limits, async () => {
  const text = "new Client({ host: '127.0.0.1', port: 1 }).connect()"
  assert.deepEqual([(await run(THEIRS, text)).code, (await run(OURS, text)).code], [1, 1])
})
