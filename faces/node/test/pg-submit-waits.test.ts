import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { test } from 'node:test'

import { Pool, type Client, type ClientConfig, type PoolConfig, type QueryError } from '../src/pg'
import { connected, event, longQuery, settled } from './pg-both'
import { behind, copy, Cursor, QueryStream } from './pg-submit-kit'
import { through } from './pg-submit-servers'

// With pg the queries of these tests wait for ever, or their errors don't tell the effect.

const limits = { timeout: 600_000 }
const SEVEN = 'select generate_series(1, 7) as i'

/** Readers to the end: of a cursor, or of a stream. They resolve to the error. */
const READERS: { [name: string]: (client: Client, text: string) => Promise<unknown> } = {
  'a cursor': (client, text) => settled(client.query(new Cursor(text)).read(100)),
  'a stream': async (client, text) => {
    const stream = client.query(new QueryStream(text)) as Readable
    return settled(drained(stream))
  },
}

async function drained(stream: Readable): Promise<void> {
  for await (const _ of stream);
}

/** A proxy to the server that passes the command tag `mark`, and then lets `lose` end the reply. */
function lostBehind(mark: string, lose: (to: Socket) => void): Promise<ClientConfig> {
  const marked = new WeakSet<Socket>()
  return through((chunk, to) => {
    if (marked.has(to)) return lose(to)
    if (chunk.includes(mark)) marked.add(to)
    return void to.write(chunk)
  })
}

/** The tag behind all rows, as many as were requested. */
const ALL = 'SELECT 7\0'
const SOME = 's\0\0\0\x04'

function fatal(): Buffer {
  const fields = Buffer.from('SFATAL\0VFATAL\0C57P01\0Mthe end\0\0')
  const head = Buffer.from([0x45, 0, 0, 0, fields.length + 4])
  return Buffer.concat([head, fields])
}

/** The ways in which the ReadyForQuery behind the rows is lost. */
const LOSSES: { [name: string]: { lose(to: Socket): void; config?: { query_timeout: number }; error: RegExp } } = {
  'the line is cut': { lose: (to) => to.destroy(), error: /terminated unexpectedly|ECONNRESET/ },
  'the server ends it, and leaves the line open': { lose: (to) => to.write(fatal()), error: /the end/ },
  'time is over': { lose: () => {}, config: { query_timeout: 200 }, error: /Query read timeout/ },
}

for (const [reader, read] of Object.entries(READERS)) {
  for (const [name, { lose, config, error }] of Object.entries(LOSSES)) {
    test(`${reader} that has its last row fails when ${name}`, limits, async () => {
      for (const pipeline of [false, true]) {
        const pool = new Pool({ ...(await lostBehind(ALL, lose)), ...config, max: 1, pipeline } as PoolConfig)
        const client = await pool.connect()
        client.on('error', () => {})
        const failure = (await read(client, SEVEN)) as QueryError
        assert.match(String(failure), error)
        assert.equal(failure.outcome, 'Unknown')
        client.release(failure)
        await pool.end()
      }
    })
  }

  test(`${reader} that has its last row fails when the commit fails`, limits, async () => {
    const client = await connected()
    await client.query('create temp table t (a int unique deferrable initially deferred)')
    const failure = (await read(client, 'insert into t values (1), (1) returning a')) as QueryError
    assert.equal((failure as { code?: string }).code, '23505')
    assert.equal(failure.outcome, 'Rejected')
    assert.deepEqual(await behind(client), await behind(await connected()))
    const { rows } = (await client.query('select * from t')) as { rows: unknown[] }
    assert.deepEqual(rows, [])
  })
}

test('a cursor that is closed while it reads fails when its connection is lost', limits, async () => {
  const client = await connected()
  client.on('error', () => {})
  const cursor = client.query(new Cursor(await longQuery(client)))
  const running = once(client, 'notice')
  const reading = settled(cursor.read(1))
  await running
  const closing = cursor.close()
  client.connection.stream.destroy()
  assert.match(String(await reading), /terminated unexpectedly/)
  await closing
  assert.match(String(await settled(cursor.read(1))), /terminated unexpectedly/)
})

test('closing a cursor waits no longer than its timeout', limits, async () => {
  for (const isClosedFirst of [true, false]) {
    const client = await connected(await lostBehind(SOME, () => {}))
    const cursor = client.query(Object.assign(new Cursor(SEVEN), { query_timeout: 1000 }))
    await cursor.read(3)
    if (!isClosedFirst) assert.match(String(await settled(cursor.read(1))), /Query read timeout/)
    await cursor.close()
    client.on('error', () => {})
    client.connection.stream.destroy()
  }
})

test('a query that is withdrawn before its turn fails', limits, async () => {
  const client = await connected()
  const cursor = client.query(new Cursor(SEVEN))
  await cursor.read(1)
  const queued = client.query(new Cursor(SEVEN))
  const reading = settled(queued.read(1))
  client.cancel(client, queued)
  const error = (await reading) as QueryError
  assert.deepEqual([error.message, error.outcome], ['Query was cancelled', 'NotSent'])
  await cursor.close()
  // Its turn is next, once the query before it is answered.
  const slow = client.query('select pg_sleep(0.1)')
  const next = client.query(new Cursor(SEVEN))
  const waiting = settled(next.read(1))
  const last = client.query('select 1 as a')
  client.cancel(client, next)
  assert.match(String(await waiting), /Query was cancelled/)
  await slow
  assert.equal(((await last) as { rowCount: number }).rowCount, 1)
})

test('a copy that the server refused, or that was destroyed, took no effect', limits, async () => {
  const client = await connected()
  await client.query('create temp table t (a int)')
  const from = (): ReturnType<typeof copy.from> => client.query(copy.from('copy pg_temp.t from stdin'))
  const bad = from()
  bad.end('1\nno number\n')
  const [refused] = (await once(bad, 'error')) as [QueryError & { code: string }]
  assert.deepEqual([refused.code, refused.outcome], ['22P02', 'Rejected'])
  const left = from()
  left.write('1\n')
  await behindCopy(left)
  left.destroy()
  const [given] = (await once(left, 'error')) as [QueryError & { code: string }]
  assert.deepEqual([given.code, given.outcome], ['57014', 'Rejected'])
  const out = client.query(copy.to('copy (select 1 / a from (values (1), (0)) as v(a)) to stdout'))
  out.resume()
  const [failed] = (await once(out, 'error')) as [QueryError]
  assert.equal(failed.outcome, 'Rejected')
  const { rows } = (await client.query('select * from t')) as { rows: unknown[] }
  assert.deepEqual(rows, [])
})

/** Waits until the server has taken the data. */
function behindCopy(into: ReturnType<typeof copy.from>): Promise<unknown> {
  return new Promise((resolve) => into.write('2\n', resolve))
}

test('a query that may have committed a part of its work is not Rejected', limits, async () => {
  const client = await connected()
  await client.query('create temp table t (a int unique)')
  const several = `copy pg_temp.t from stdin; commit; insert into t values (1)`
  const into = client.query(copy.from(several))
  into.end('1\n')
  const [error] = (await once(into, 'error')) as [QueryError & { code: string }]
  assert.deepEqual([error.code, error.outcome], ['23505', 'Unknown'])
  const called = client.query(new Cursor('do $$ begin commit; raise exception $a$no$a$; end $$'))
  assert.equal(((await settled(called.read(1))) as QueryError).outcome, 'Unknown')
  const ended = event(client, 'end')
  client.on('error', () => {})
  const own = client.query(new Cursor('select pg_terminate_backend(pg_backend_pid())'))
  assert.equal(((await settled(own.read(1))) as QueryError).outcome, 'Unknown')
  await ended
})
