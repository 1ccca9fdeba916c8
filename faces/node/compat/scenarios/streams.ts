// Programs that move many rows: cursors, streams of rows and COPY, each with the usual package.
import { once } from 'node:events'
import { Readable, Transform, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'

import * as pg from 'pg'

import type { Scenarios, Stage } from '../support/stage'

type Row = { [column: string]: unknown }

interface Cursor extends pg.Submittable {
  read(rows: number): Promise<Row[]>
  read(rows: number, done: (error: Error | null, rows: Row[], result: unknown) => void): void
  close(): Promise<void>
}

const Cursor = require('pg-cursor') as new (text: string, values?: unknown[], config?: object) => Cursor
const QueryStream = require('pg-query-stream') as new (
  text: string,
  values?: unknown[],
  config?: object,
) => Readable & pg.Submittable
const { from: copyFrom, to: copyTo } = require('pg-copy-streams') as {
  from(text: string): Writable & pg.Submittable & { rowCount: number }
  to(text: string): Readable & pg.Submittable & { rowCount: number }
}

/** Runs with a client of a pool, and checks at the end that the client is in order. */
async function lent(stage: Stage, run: (client: pg.PoolClient) => Promise<void>): Promise<void> {
  const pool = new pg.Pool({ connectionString: stage.url, max: 1 })
  const client = await pool.connect()
  try {
    await run(client)
    stage.see('the client is as it was', [client.getTransactionStatus(), (await client.query('select 1 as one')).rows])
  } finally {
    client.release()
    await pool.end()
  }
}

/** Lines of CSV, all different, with characters that have to be quoted. */
function* people(count: number): Generator<string> {
  for (let i = 1; i <= count; i++) yield `${i},"Ann ""${i}"" Ö",${i % 7 === 0 ? '' : i * 1.5}\n`
}

/** A table is copied in as CSV, changed while it is copied out, and copied in as another table. */
async function copies(stage: Stage): Promise<void> {
  const { see, settles } = stage
  await lent(stage, async (client) => {
    await client.query('drop table if exists people, names')
    await client.query('create table people (id int primary key, name text not null, score numeric)')
    await client.query('create table names (name text)')
    const into = client.query(copyFrom('copy people from stdin with (format csv)'))
    await pipeline(Readable.from(people(20_000)), into)
    see('rows in', into.rowCount)
    see('what is there', (await client.query('select count(*), sum(score), min(name), max(name) from people')).rows)

    const out = client.query(copyTo('copy (select name from people order by id) to stdout'))
    const chunks: Buffer[] = []
    await pipeline(out, async (source: AsyncIterable<Buffer>) => {
      for await (const chunk of source) chunks.push(chunk)
    })
    const text = Buffer.concat(chunks).toString().toUpperCase()
    see('rows out', [out.rowCount, text.length, text.slice(0, 40)])
    await pipeline(Readable.from([text]), client.query(copyFrom('copy names from stdin')))
    see('names', (await client.query('select count(*), min(name), max(name) from names')).rows)

    await settles('a row that is wrong', pipeline(Readable.from(['1,a,2\n']), client.query(copyFrom('copy people from stdin with (format csv)'))))
    await settles('a source that fails', pipeline(failing(), client.query(copyFrom('copy people from stdin with (format csv)'))))
    see('nothing came of these', (await client.query('select count(*) from people')).rows)
    await settles('a table that is not there', pipeline(client.query(copyTo('copy nothing to stdout')), new Writable({ write: (_, __, done) => done() })))

    await client.query('begin')
    await pipeline(Readable.from(['0,zero,0\n']), client.query(copyFrom('copy people from stdin with (format csv)')))
    see('in the transaction', [client.getTransactionStatus(), (await client.query('select * from people where id = 0')).rows])
    await client.query('rollback')
    see('after it', (await client.query('select * from people where id = 0')).rows)
  })
}

function failing(): Readable {
  return Readable.from(
    (function* () {
      yield '100001,a,1\n'
      throw new Error('the source failed')
    })(),
  )
}

/** Pages of a cursor in a transaction, with other statements between. */
async function pages(stage: Stage): Promise<void> {
  const { see, settles } = stage
  await lent(stage, async (client) => {
    await client.query('begin isolation level repeatable read')
    const cursor = client.query(new Cursor('select n, n::text || $1 as t from generate_series(1, $2::int) n', ['!', 25]))
    const sizes: unknown[] = []
    for (;;) {
      const rows = await cursor.read(10)
      if (rows.length === 0) break
      sizes.push([rows.length, rows[0], rows.at(-1)])
    }
    see('pages', sizes)
    await cursor.close()
    await settles('between', client.query('select $1::int as between', [1]))
    const arrays = client.query(new Cursor('select 1 as a, 2 as a', [], { rowMode: 'array' }))
    await settles('as arrays', arrays.read(5))
    await arrays.close()
    const early = client.query(new Cursor('select n from generate_series(1, 100000) n'))
    await settles('first page', early.read(3))
    await early.close()
    await settles('behind one that was closed early', client.query('select 2 as two'))
    const called = client.query(new Cursor('select 3 as three'))
    see('by a callback', await new Promise((resolve) => called.read(1, (...args) => resolve(args))))
    await called.close()
    await client.query('commit')
    const wrong = client.query(new Cursor('select 1 / (3 - n) as q from generate_series(1, 5) n'))
    await settles('one page', wrong.read(2))
    await settles('the page that fails', wrong.read(2))
    await settles('behind it', client.query('select 4 as four'))
    const syntax = client.query(new Cursor('selec'))
    await settles('a syntax error', syntax.read(1))
  })
}

/** Two cursors and queries that are submitted at once use the connection one after the other. */
async function inTurn(stage: Stage): Promise<void> {
  await lent(stage, async (client) => {
    const seen: unknown[] = []
    const keep = async (label: string, what: Promise<unknown>): Promise<void> => void seen.push([label, await what])
    const one = client.query(new Cursor('select n from generate_series(1, 3) n'))
    const between = keep('query', client.query('select 1 as one').then(({ rows }) => rows))
    const two = client.query(new Cursor('select n from generate_series(4, 6) n'))
    await keep('one', one.read(2))
    await keep('rest of one', one.read(2))
    await one.close()
    await between
    await keep('two', two.read(5))
    await two.close()
    stage.see('order', seen)
  })
}

/** Rows go through a slow transform into a slow sink. */
async function streams(stage: Stage): Promise<void> {
  const { see, settles } = stage
  await lent(stage, async (client) => {
    const text = "select n, repeat('x', 500) as pad from generate_series(1, $1::int) n"
    let sum = 0
    let buffered = 0
    const rows = client.query(new QueryStream(text, [5000], { highWaterMark: 50, batchSize: 50 }))
    const odd = new Transform({
      objectMode: true,
      highWaterMark: 4,
      transform(row: { n: number }, _, done) {
        buffered = Math.max(buffered, rows.readableLength)
        setImmediate(done, null, row.n % 2 ? row : undefined)
      },
    })
    const sink = new Writable({
      objectMode: true,
      highWaterMark: 4,
      write(row: { n: number }, _, done) {
        sum += row.n
        setImmediate(done)
      },
    })
    await pipeline(rows, odd, sink)
    see('sum of the odd ones', sum)
    see('no more is buffered than asked for', buffered <= 100)

    const counted: unknown[] = []
    for await (const row of client.query(new QueryStream('select generate_series(1, 5) as n'))) counted.push(row)
    see('rows', counted)
    for await (const row of client.query(new QueryStream(text, [100_000], { batchSize: 10 }))) {
      see('only the first', (row as { n: number }).n)
      break
    }
    await settles('behind it', client.query('select 1 as one'))
    const failing = client.query(new QueryStream('select 1 / (200 - n) as q from generate_series(1, 300) n', [], { batchSize: 100 }))
    await settles('a stream that fails', pipeline(failing, new Writable({ objectMode: true, write: (_, __, done) => done() })))
    const destroyed = client.query(new QueryStream(text, [100_000]))
    const closed = once(destroyed, 'close')
    destroyed.once('data', () => destroyed.destroy())
    await settles('a stream that is destroyed', closed)
    const arrays: unknown[] = []
    for await (const row of client.query(new QueryStream('select 1 as a, null as b', [], { rowMode: 'array' }))) arrays.push(row)
    see('as arrays', arrays)
  })
}

const scenarios: Scenarios = {
  'tables come and go by COPY': copies,
  'pages of a cursor in a transaction': pages,
  'cursors and queries that were asked for at once have their turns': inTurn,
  'rows as a stream, with back-pressure': streams,
}
export = scenarios
