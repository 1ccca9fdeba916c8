// Nothing waits for itself. Each limit is reached by a hang alone.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { type Result } from '../src/pg'
import { both, connected } from './pg-both'
import { Cursor, QueryStream } from './pg-submit-kit'

/** Rows of some 20 MB. */
const MANY = "select n, repeat('x', 10000) as t from generate_series(1, 2000) n"

both('queries beside a cursor that is half read wait until it is closed', async (client) => {
  const order: string[] = []
  const cursor = client.query(new Cursor(MANY))
  const rows: unknown[] = await cursor.read(10)
  const beside = ['select 1 as n', 'select 2 as n'].map((text) =>
    client.query(text).then((result) => void order.push(JSON.stringify((result as Result).rows))),
  )
  await new Promise(setImmediate)
  order.push(`${rows.length} rows`, `${((await cursor.read(5)) as unknown[]).length} rows`)
  await cursor.close()
  await Promise.all(beside)
  return order
})

both('queries inside the loop over a stream of their client run when the loop has ended', async (client) => {
  const beside: Promise<unknown>[] = []
  let count = 0
  for await (const _ of client.query(new QueryStream(MANY))) {
    if (++count % 1000 > 0) continue
    beside.push(client.query('select $1::int as n', [count]))
  }
  return [count, await Promise.all(beside)]
})

test('a pipelining client that is ended inside the loop over its own stream does not wait for ever', { timeout: 600_000 }, async () => {
  const client = await connected({ pipeline: true })
  const loop = async (): Promise<void> => {
    for await (const _ of client.query(new QueryStream(MANY, [], { highWaterMark: 10 }))) await client.end()
  }
  await assert.rejects(loop(), /Connection terminated/)
})
