// The end of a client waits for what is under way, and never for what its caller holds for ever.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'

import type { Sql } from '../src/modern/sql'
import { client, failure } from './modern/client'

const limits = { timeout: 600_000 }

/** Ways to end a client while the caller holds something. */
const ways: [string, (sql: Sql) => Promise<unknown>][] = [
  [
    'a session',
    async (sql) => {
      const session = await sql.session()
      await session`select 1`
      await sql.end()
      const error = await failure(session`select 1`)
      assert.deepEqual([error.code, error.outcome], ['connection_lost', 'NotSent'])
      assert.match(error.message, /the client was ended/)
      session.release()
    },
  ],
  [
    'a transaction',
    async (sql) => {
      const error = await failure(
        sql.begin(async (tx) => {
          await tx`select 1`
          await sql.end()
          await tx`select 2`
        }),
      )
      assert.equal(error.code, 'connection_lost')
    },
  ],
  [
    'a stream half read',
    async (sql) => {
      const loop = async (): Promise<void> => {
        for await (const _ of sql`select repeat('x', 10000) from generate_series(1, 2000)`)
          await sql.end()
      }
      const error = await failure(loop())
      assert.equal(error.code, 'connection_lost')
    },
  ],
  [
    'a stream that was read to its end',
    async (sql) => {
      const stream = sql`select generate_series(1, 2)`.stream()
      await stream.next()
      await stream.next()
      await sql.end()
    },
  ],
  [
    'a COPY in',
    async (sql) => {
      await sql`create table if not exists modern_end (n int)`
      const into = sql.copyFrom`copy modern_end from stdin`
      const told = once(into, 'error')
      await new Promise((resolve) => into.write('1\n', resolve))
      await sql.end()
      assert.equal(((await told) as [{ code: string }])[0].code, 'connection_lost')
    },
  ],
  [
    'a COPY out',
    async (sql) => {
      const out = sql.copyTo`copy (select repeat('x', 10000) from generate_series(1, 2000)) to stdout`
      await once(out, 'readable')
      const told = once(out, 'error')
      await sql.end()
      assert.equal(((await told) as [{ code: string }])[0].code, 'connection_lost')
    },
  ],
]

test('the end of a client does not wait for ever for what its caller holds', limits, async () => {
  const held: string[] = []
  const hear = (warning: Error & { code?: string }): void => void held.push(warning.code ?? '')
  process.on('warning', hear)
  await Promise.all(
    ways.map(async ([name, run]) => {
      await run(client({ connectionsMax: 1 })).catch((error: unknown) => {
        throw new Error(name, { cause: error })
      })
    }),
  )
  process.off('warning', hear)
  assert.deepEqual(held, new Array(5).fill('ONETRIP_HELD'))
})

test('the end of a client waits for statements, however long they take', limits, async () => {
  const sql = client({ connectionsMax: 2 })
  const slow = sql.begin(async (tx) => {
    await tx`select pg_sleep(6)`
    await tx`select pg_sleep(6)`
    return 7
  })
  await sql`select 1`
  await sql.end()
  assert.equal(await slow, 7)
})

test('listen on a client that was ended is an error at once, and leaves nothing open', limits, async () => {
  const sql = client()
  await sql`select 1`
  const before = sql.listen('modern_end')
  await before.ready
  const ending = sql.end()
  assert.throws(() => sql.listen('modern_end'), { code: 'closed', outcome: 'NotSent' })
  await ending
  assert.throws(() => sql.listen('modern_end'), { code: 'closed', outcome: 'NotSent' })
  before.end()
})
