// A client of a pool that nobody can reach any more is closed, with a warning.

import assert from 'node:assert/strict'
import { after, test } from 'node:test'

import { Pool, type PoolConfig } from '../src/pg'
import type { PoolClient } from '../src/pg/pool'
import { collectedUntil, warnings } from './collected'
import { url } from './pg-both'

const limits = { timeout: 600_000 }

const open: Pool[] = []
after(() => Promise.all(open.map((pool) => pool.end())))

function poolOf(config: PoolConfig = {}): Pool {
  const pool = new Pool({ connectionString: url, max: 1, ...config })
  open.push(pool)
  return pool
}

/** Ways to leave a client; each returns nothing that reaches it. */
const ways: [string, (pool: Pool) => Promise<unknown>][] = [
  ['a client', async (pool) => void (await pool.connect())],
  ['a client that was used', async (pool) => void (await (await pool.connect()).query('select 1'))],
  [
    'a client in a transaction',
    async (pool) => {
      const client = await pool.connect()
      client.on('error', () => undefined)
      await client.query('begin')
      await client.query('create table pg_abandoned (n int)')
    },
  ],
  [
    'a client by callback',
    (pool) =>
      new Promise<void>((resolve) => {
        pool.connect((_, client) => client?.query('select 1', [], () => resolve()))
      }),
  ],
  [
    'a client in a function that never goes on',
    (pool) =>
      new Promise<void>((resolve) => {
        const run = async (): Promise<void> => {
          const client = await pool.connect()
          try {
            await client.query('select 1')
            resolve()
            await new Promise(() => undefined)
          } finally {
            client.release()
          }
        }
        void run()
      }),
  ],
]

for (const pipeline of [false, true]) {
  for (const [name, leave] of ways) {
    test(`${name} that nobody can reach is closed, pipeline ${pipeline}`, limits, async () => {
      const pool = poolOf({ pipeline })
      const first = await pool.query('select pg_backend_pid() as p')
      await leave(pool)
      await collectedUntil(() => warnings.length > 0)
      assert.equal(warnings.length, 1)
      assert.match(warnings.splice(0)[0] ?? '', /^A client of a pool was closed/)
      const { rows } = (await pool.query("select pg_backend_pid() as p, to_regclass('pg_abandoned') as t")) as unknown as {
        rows: { p: number; t: string | null }[]
      }
      assert.notEqual(rows[0]?.p, (first as unknown as { rows: { p: number }[] }).rows[0]?.p)
      assert.equal(rows[0]?.t, null)
      assert.equal(pool.totalCount, 1)
    })
  }
}

test('a client that somebody holds, or that is to be told something, is not closed', limits, async () => {
  const pool = poolOf({ max: 5 })
  const held = await pool.connect()
  const lock = `(${process.pid}, 94)`
  await held.query(`select pg_advisory_lock${lock}`)
  const heard: string[] = []
  let done: ((error?: Error) => void) | undefined
  const leave = async (): Promise<unknown> => {
    await new Promise<void>((resolve) => {
      pool.connect((_, __, release) => {
        done = release
        resolve()
      })
    })
    const listening = await pool.connect()
    await listening.query('listen pg_abandoned')
    listening.on('notification', ({ payload }: { payload: string }) => heard.push(payload))
    const slow = (await pool.connect()).query(`select pg_advisory_lock${lock}, 7 as n`)
    return { slow }
  }
  const { slow } = (await leave()) as { slow: Promise<{ rows: { n: number }[] }> }
  let rounds = 0
  await collectedUntil(() => ++rounds > 20)
  assert.deepEqual(warnings, [])
  await held.query(`select pg_advisory_unlock${lock}`)
  assert.equal((await slow).rows[0]?.n, 7)
  // Once it is answered nobody can reach its client.
  await collectedUntil(() => warnings.length === 1)
  await held.query("notify pg_abandoned, 'hello'")
  await collectedUntil(() => heard.length > 0)
  done?.()
  held.release()
  assert.deepEqual(warnings.splice(0).length, 1)
  // The listening client has no user any more who could release it.
  for (const client of pool._clients) (pool as unknown as { _remove(it: PoolClient): void })._remove(client)
})

test('a client that was released leaves no warning, however often it is lent', limits, async () => {
  const pool = poolOf()
  const use = async (): Promise<void> => {
    for (let i = 0; i < 10; i++) {
      const client = await pool.connect()
      await client.query('select 1')
      client.release(i % 3 === 0)
    }
  }
  await use()
  let rounds = 0
  await collectedUntil(() => ++rounds > 20)
  assert.deepEqual(warnings, [])
  assert.ok(pool.totalCount <= 1)
})
