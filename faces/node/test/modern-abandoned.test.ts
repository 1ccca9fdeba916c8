// What nobody can reach any more gives its connection back, with a warning.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'

import type { Sql } from '../src/modern/sql'
import { collectedUntil, warnings } from './collected'
import { client } from './modern/client'

const limits = { timeout: 600_000 }

/** Waits until the only connection of a client is free, and warnings like this have come. */
async function isFree(sql: Sql, warning: RegExp): Promise<void> {
  await collectedUntil(() => sql.stats.idle === sql.stats.connections && warnings.length > 0)
  for (const said of warnings.splice(0)) assert.match(said, warning)
  assert.equal((await sql`select 1`).count, 1)
}

/** Rows of some 20 MB, far more than waits for a reader. */
const many = (sql: Pick<Sql, never> & ((s: TemplateStringsArray) => unknown)) =>
  (sql as Sql)<{ n: number }>`select n, repeat('x', 10000) as t from generate_series(1, 2000) n`

/** Ways to leave something that holds a connection; each returns nothing that reaches it. */
const ways: [string, RegExp, (sql: Sql) => Promise<unknown>][] = [
  ['a session', /^A session was released/, async (sql) => void (await (await sql.session())`select 1`)],
  ['a new session', /^A session was released/, async (sql) => void (await sql.session())],
  [
    'a session in a transaction of its own',
    /^A session was released/,
    async (sql) => {
      const session = await sql.session()
      await session`begin`
    },
  ],
  ['a stream', /^A stream of rows was ended/, async (sql) => void (await many(sql).stream().next())],
  [
    'a loop that never goes on',
    /^A stream of rows was ended/,
    async (sql) => {
      await new Promise<void>((resolve) => {
        const loop = async (): Promise<void> => {
          for await (const _ of many(sql)) {
            resolve()
            await new Promise(() => undefined)
          }
        }
        void loop()
      })
    },
  ],
  [
    'a COPY in',
    /^A COPY FROM STDIN was undone/,
    async (sql) => {
      await sql`create table if not exists modern_abandoned (n int)`
      const into = sql.copyFrom`copy modern_abandoned from stdin`
      await new Promise((resolve) => into.write('1\n', resolve))
    },
  ],
  [
    'a COPY out',
    /^A COPY TO STDOUT was ended/,
    async (sql) => {
      const out = sql.copyTo`copy (select repeat('x', 10000) from generate_series(1, 2000)) to stdout`
      await once(out, 'readable')
    },
  ],
  [
    'a transaction whose function never ends',
    /^A transaction was rolled back/,
    async (sql) => {
      await new Promise<void>((resolve) => {
        void sql.begin(async (tx) => {
          await tx`create table modern_abandoned_tx (n int)`
          resolve()
          await new Promise(() => undefined)
        })
      })
    },
  ],
  [
    'a transaction with a stream half read',
    /^A (transaction was rolled back|stream of rows was ended)/,
    async (sql) => {
      await new Promise<void>((resolve) => {
        void sql.begin(async (tx) => {
          for await (const _ of many(tx as unknown as Sql)) {
            resolve()
            await new Promise(() => undefined)
          }
        })
      })
    },
  ],
]

for (const [name, warning, leave] of ways) {
  test(`${name} that nobody can reach gives its connection back`, limits, async () => {
    const sql = client({ connectionsMax: 1 })
    await leave(sql)
    await isFree(sql, warning)
    await sql`drop table if exists modern_abandoned`
  })
}

/** Uses sessions that nobody holds but their statements and streams, while garbage is collected. */
async function use(sql: Sql): Promise<void> {
  const stream = many((await sql.session()) as unknown as Sql).stream()
  await stream.next()
  const into = (await sql.session()).copyFrom`copy modern_in_use from stdin`
  into.write('1\n')
  const query = (await sql.session())`select 7 as n`
  const out = sql.copyTo`copy (select repeat('x', 10000) from generate_series(1, 2000)) to stdout`
  let bytes = 0
  out.on('data', (chunk: Buffer) => void (bytes += chunk.length))
  let rounds = 0
  await collectedUntil(() => ++rounds > 20)
  assert.equal((await query)[0]?.['n'], 7)
  let count = 1
  for await (const _ of stream) count++
  assert.equal(count, 2000)
  into.end('2\n')
  await once(into, 'finish')
  if (!out.readableEnded) await once(out, 'end')
  assert.equal(bytes, 20_002_000)
  assert.deepEqual(warnings, [])
}

test('what is in use is not taken from its user, whatever is collected', limits, async () => {
  const sql = client({ connectionsMax: 4 })
  await sql`create table modern_in_use (n int)`
  await use(sql)
  // Only now can nobody reach the sessions.
  await collectedUntil(() => warnings.length === 3)
  for (const said of warnings.splice(0)) assert.match(said, /^A session was released/)
  await sql`drop table modern_in_use`
})

test('what has ended leaves no warning', limits, async () => {
  const sql = client({ connectionsMax: 1 })
  const use = async (): Promise<void> => {
    const session = await sql.session()
    for await (const _ of many(session as unknown as Sql)) break
    session.release()
    await sql.begin((tx) => tx`select 1`)
    for await (const _ of sql`select 1`);
    for await (const _ of sql.copyTo`copy (select 1) to stdout`);
  }
  await use()
  let rounds = 0
  await collectedUntil(() => ++rounds > 20)
  assert.deepEqual(warnings, [])
})
