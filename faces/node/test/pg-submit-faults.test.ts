import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { Readable } from 'node:stream'
import { test } from 'node:test'

import type { Client, QueryError, Result } from '../src/pg'
import { both, bothAlone, connected, event, longQuery, settled, type Side } from './pg-both'
import { behind, closed, copy, Cursor, noted, QueryStream, readAll } from './pg-submit-kit'
import { listen, secured, through } from './pg-submit-servers'

const NUMBERS = 'select generate_series(1, $1::int) as i'
const ENDLESS = 'copy (select generate_series(1, 100000000)) to stdout'

async function kill(client: Client): Promise<void> {
  const killer = await connected()
  await killer.query('select pg_terminate_backend($1)', [client.processID])
}

/** The emitted events, without our additions to errors. */
function words(seen: unknown[]): unknown {
  const all = seen.map((it) => (it as unknown[]).map((part) => (part instanceof Error ? part.message : part)))
  // These errors depend on what was sent to a server that had gone.
  return all.filter((it) => !/^(read ECONNRESET|write EPIPE|write ECONNRESET)$/.test(String(it[1])))
}

/** Queries that are running when the connection fails. Each returns what it saw. */
const OPEN: { [name: string]: (client: Client) => Promise<() => Promise<unknown>> } = {
  'a cursor': async (client) => {
    const cursor = client.query(new Cursor(NUMBERS, [1000]))
    const seen = noted(cursor, 'error', 'end')
    await cursor.read(3)
    return async () => [words(seen), await settled(cursor.read(1)), cursor.state]
  },
  'a cursor that reads': async (client) => {
    const cursor = client.query(new Cursor(await longQuery(client)))
    const running = once(client, 'notice')
    const reading = settled(cursor.read(3))
    await running
    return async () => [String(await reading), cursor.state]
  },
  'a copy into the server': async (client) => {
    await client.query('create temp table t (a int)')
    const into = client.query(copy.from('copy pg_temp.t from stdin'))
    const error = once(into, 'error')
    await new Promise((resolve) => into.write('1\n', resolve))
    return () => error
  },
  'a copy out of it': async (client) => {
    const out = client.query(copy.to(ENDLESS))
    const error = once(out, 'error')
    await once(out, 'readable')
    return () => error
  },
}

for (const [name, open] of Object.entries(OPEN)) {
  bothAlone(`${name} is in the middle when the client ends`, async (side) => {
    const client = await connected({}, side)
    const tell = await open(client)
    const later = settled(client.query('select 1'))
    await client.end()
    return [await tell(), await later]
  })

  bothAlone(`${name} is in the middle when the line is cut`, async (side) => {
    const client = await connected({}, side)
    const errors = noted(client, 'error')
    const tell = await open(client)
    const later = settled(client.query('select 1'))
    client.connection.stream.destroy()
    return [await tell(), await later, words(errors)]
  })
}

// A copy whose reader waits does not see the end of the line, as with pg.
for (const name of ['a cursor', 'a cursor that reads', 'a copy into the server'] as const) {
  bothAlone(`${name} is in the middle when the server ends the connection`, async (side) => {
    const client = await connected({}, side)
    const errors = noted(client, 'error')
    const ended = event(client, 'end')
    const tell = await OPEN[name]?.(client)
    await kill(client)
    await ended
    return [await tell?.(), words(errors), await settled(client.query('select 1'))]
  })
}

// With pg such a stream never closes.
test('a stream fails when the connection is lost while it runs', { timeout: 600_000 }, async () => {
  for (const lose of [(it: Client) => it.end(), (it: Client) => it.connection.stream.destroy(), kill]) {
    const client = await connected()
    client.on('error', () => {})
    const stream = client.query(new QueryStream(NUMBERS, [100_000])) as Readable
    const end = closed(stream)
    await once(stream, 'readable')
    const ended = event(client, 'end')
    await lose(client)
    await ended
    stream.resume()
    assert.match(String(await end), /terminat/)
    const cursor = client.query(new Cursor(NUMBERS, [1]))
    await settled(cursor.read(1))
    await cursor.close()
  }
})

test('an error of a query that runs itself has the right outcome', { timeout: 600_000 }, async () => {
  const client = await connected()
  client.on('error', () => {})
  const running = client.query(new Cursor(NUMBERS, [1000]))
  await running.read(1)
  const waiting = client.query(new Cursor(NUMBERS, [1000])).read(1)
  const settledWaiting = settled(waiting)
  const failed = once(running, 'error')
  client.connection.stream.destroy()
  assert.equal(((await failed)[0] as QueryError).outcome, 'Unknown')
  assert.equal(((await settledWaiting) as QueryError).outcome, 'NotSent')
  const late = client.query(new Cursor(NUMBERS, [1]))
  assert.equal(((await settled(late.read(1))) as QueryError).outcome, 'NotSent')
})

bothAlone('a client that has ended, or was never connected, takes none', async (side) => {
  const client = await connected({}, side)
  await client.end()
  const cursor = client.query(new Cursor(NUMBERS, [1]))
  return [await settled(cursor.read(1)), cursor.state]
})

test('queries that run themselves wait for the login', { timeout: 600_000 }, async () => {
  const client = (await connected()).constructor as typeof Client
  const other = new client({ connectionString: process.env['ONETRIP_TEST_POSTGRES'] ?? '' })
  const cursor = other.query(new Cursor(NUMBERS, [5]))
  const behindIt = other.query('select 1 as a')
  await other.connect()
  assert.deepEqual(await readAll(cursor, 3), [[{ i: 1 }, { i: 2 }, { i: 3 }], [{ i: 4 }, { i: 5 }]])
  assert.deepEqual(((await behindIt) as Result).rows, [{ a: 1 }])
  await other.end()
})

both('a stream of rows that is destroyed in the middle of a transaction leaves that as it was', async (client) => {
  await client.query('begin')
  const stream = client.query(new QueryStream(NUMBERS, [100_000])) as Readable
  await once(stream, 'data')
  stream.destroy()
  await closed(stream)
  const seen = [await behind(client)]
  await client.query('commit')
  return [seen, await behind(client)]
})

// With pg the client would wait for ever.
test('a copy out of the server that is destroyed is cancelled, and those behind it go on', { timeout: 600_000 }, async () => {
  for (const config of [{}, await secured()]) {
    const client = await connected(config)
    const out = client.query(copy.to(ENDLESS))
    await once(out, 'readable')
    const after = client.query('select 1 as a')
    out.destroy()
    assert.deepEqual(((await after) as Result).rows, [{ a: 1 }])
    const unread = client.query(copy.to('copy (select generate_series(1, 1000)) to stdout'))
    unread.destroy(new Error('enough'))
    const [error] = (await once(unread, 'error')) as [Error]
    assert.equal(error.message, 'enough')
    await behind(client)
  }
})

test('a query that runs itself is cancelled', { timeout: 600_000 }, async () => {
  const client = await connected()
  const cursor = client.query(new Cursor(await longQuery(client)))
  const queued = client.query(new Cursor(NUMBERS, [1]))
  const behindIt = client.query('select 1 as a')
  const running = once(client, 'notice')
  const reading = settled(cursor.read(1))
  await running
  client.cancel(client, queued)
  client.cancel(client, cursor)
  assert.equal(((await reading) as { code?: string }).code, '57014')
  assert.deepEqual(((await behindIt) as Result).rows, [{ a: 1 }])
})

test('a cursor waits until a cancel of the query before it can hit nothing else', { timeout: 600_000 }, async () => {
  const client = await connected()
  const text = await longQuery(client)
  for (let i = 0; i < 5; i++) {
    const controller = new AbortController()
    const running = once(client, 'notice')
    const cancelled = settled(client.query({ text, signal: controller.signal }))
    const cursors = [1, 2].map((it) => client.query(new Cursor(NUMBERS, [it])))
    const behindThem = client.query('select 1 as a')
    await running
    controller.abort()
    assert.equal(((await cancelled) as Error).name, 'AbortError')
    assert.deepEqual(await Promise.all(cursors.map((it) => it.read(9))), [[{ i: 1 }], [{ i: 1 }, { i: 2 }]])
    assert.deepEqual(((await behindThem) as Result).rows, [{ a: 1 }])
  }
})

bothAlone('a cursor ends the connection', async (side) => {
  const client = await connected({}, side)
  const lost = once(client, 'error')
  const cursor = client.query(new Cursor(NUMBERS, [9])) as Cursor & { end(done: () => void): void }
  const rows = await cursor.read(2)
  await new Promise<void>((resolve) => cursor.end(resolve))
  return [rows, String((await lost)[0]), await settled(client.query('select 1'))]
})

test('the timeout of a query that runs itself includes its wait', { timeout: 600_000 }, async () => {
  const client = await connected()
  await client.query('create temp table t (a int)')
  const limited = <T extends object>(query: T): T => Object.assign(query, { query_timeout: 100 })
  const cursor = client.query(limited(new Cursor(NUMBERS, [1000])))
  const queued = client.query(limited(new Cursor(NUMBERS, [1000])))
  const reads = [queued, cursor].map((it) => once(it, 'error'))
  for (const read of reads) assert.match(String((await read)[0]), /Query read timeout/)
  await behind(client)
  const into = client.query(limited(copy.from('copy pg_temp.t from stdin')))
  assert.match(String((await once(into, 'error'))[0]), /Query read timeout/)
  await behind(client)
  const out = client.query(limited(copy.to(ENDLESS)))
  assert.match(String((await once(out, 'error'))[0]), /Query read timeout/)
  await behind(client)
  const unread = limited(new Cursor(NUMBERS, [1]))
  assert.match(String(await new Promise((resolve) => client.query(unread, resolve))), /Query read timeout/)
  await behind(client)
})

/** The same with chunks that end at any byte. */
async function inBytes(side: Side): Promise<unknown> {
  const config = await through((chunk, to) => {
    for (const byte of chunk) to.write(Buffer.from([byte]))
  })
  const client = await connected(config, side)
  const rows = await readAll(client.query(new Cursor(NUMBERS, [7])), 3)
  const failing = client.query(new Cursor('select 1 / 0'))
  const error = await settled(failing.read(1))
  return [rows, error, await behind(client)]
}
bothAlone('messages come byte by byte', inBytes)

test('a message that has begun before a cursor is read to its end first', { timeout: 600_000 }, async () => {
  let release: (() => void) | undefined
  let isCut: () => void = () => {}
  const cut = new Promise<void>((resolve) => (isCut = resolve))
  const config = await through((chunk, to) => {
    const at = chunk.indexOf('half of it')
    if (at < 0) return void to.write(chunk)
    to.write(chunk.subarray(0, at + 2))
    release = () => to.write(chunk.subarray(at + 2))
    return isCut()
  })
  const client = await connected(config)
  const channel = `cut_${process.pid}`
  await client.query(`listen ${channel}`)
  const notified = once(client, 'notification')
  const other = await connected()
  await other.query(`select pg_notify($1, 'half ' || 'of it')`, [channel])
  await cut
  const cursor = client.query(new Cursor(NUMBERS, [3]))
  const reading = cursor.read(10)
  release?.()
  const [message] = (await notified) as [{ payload: string }]
  assert.equal(message.payload, 'half of it')
  assert.equal((await reading).length, 3)
  await behind(client)
})

test('a server that sends an impossible message loses the connection', { timeout: 600_000 }, async () => {
  const bytes = (...parts: (string | number)[]): Buffer =>
    Buffer.concat(parts.map((it) => (typeof it === 'string' ? Buffer.from(it) : Buffer.from([0, 0, 0, it]))))
  const login = bytes('R', 8, 0, 'K', 12, 1, 2, 'Z', 5, 'I')
  const answers = [
    bytes('D', 3),
    bytes('T', 8, '12ab'),
    bytes('?', 4),
    bytes('D', 10, '\0\x02', 1),
    bytes('Z', 4),
  ]
  for (const answer of answers) {
    const port = await listen((socket) => {
      socket.once('data', () => {
        socket.write(login)
        socket.once('data', () => socket.write(answer))
      })
    })
    const client = await connected({ connectionString: '', host: '127.0.0.1', port, user: 'u', password: 'p' })
    const lost = once(client, 'error')
    const cursor = client.query(new Cursor(NUMBERS, [1]))
    const error = await settled(cursor.read(1))
    assert.match(String(error), /The server sent/, answer.toString('hex'))
    assert.equal(((await lost)[0] as Error).message, (error as Error).message)
  }
})
