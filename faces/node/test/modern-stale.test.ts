import assert from 'node:assert/strict'
import { test } from 'node:test'

import { Pool, type Result } from '../src/pg'
import { client, failure } from './modern/client'
import { listen, message, ready } from './pg-served'

const limits = { timeout: 600_000 }

const KEY = message('K', Buffer.from([0, 0, 0, 1, 0, 0, 0, 2]))

const PROBED: Record<string, Buffer> = {
  P: message('1'),
  B: message('2'),
  E: Buffer.concat([
    message('D', Buffer.from([0, 2, 0, 0, 0, 1, 0x31, 0, 0, 0, 1, 0x74])),
    message('C', Buffer.from('SELECT 1\0')),
  ]),
  C: message('3'),
}

/** The error of a plan that went stale. */
const STALE = message(
  'E',
  Buffer.from('SERROR\0VERROR\0C0A000\0Mcached plan must not change result type\0RRevalidateCachedQuery\0\0'),
)

/** A RowDescription of one text column, whose name has the number of the Parse. */
function columns(name: string): Buffer {
  const type = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 255, 255, 255, 255, 255, 255, 0, 0])
  return message('T', Buffer.concat([Buffer.from([0, 1]), Buffer.from(`${name}\0`), type]))
}

/** The error of a statement that was cancelled. */
const CANCELLED = message('E', Buffer.from('SERROR\0VERROR\0C57014\0Mcanceling statement due to user request\0\0'))

/**
 * A server that finds the plans of the next `stale` Binds of a name stale, and fails to describe
 * the next `undescribed` statements.
 */
async function scripted(): Promise<{ url: string; stale: number; binds: number; undescribed: number }> {
  const told = { url: '', stale: 0, binds: 0, undescribed: 0 }
  let parses = 0
  let skips = false
  // Answers the probe for a pooler: this is the server itself.
  let probed = false
  const port = await listen(
    (tag, body, socket) => {
      if (tag === 'P' && body.includes('pg_backend_pid')) probed = true
      if (probed && tag !== 'S') {
        socket.write(PROBED[tag] as Buffer)
        probed = tag !== 'C'
      } else if (tag === 'S') {
        skips = false
        socket.write(ready())
      } else if (skips) {
        return
      } else if (tag === 'P') {
        parses++
        socket.write(message('1'))
      } else if (tag === 'C') socket.write(message('3'))
      else if (tag === 'D' && told.undescribed-- > 0) {
        skips = true
        socket.write(CANCELLED)
      } else if (tag === 'D') {
        if (body[0] === 0x53) socket.write(message('t', Buffer.from([0, 0])))
        socket.write(columns(`c${parses}`))
      } else if (tag === 'B') {
        const named = body[0] === 0 && body[1] !== 0
        if (named) told.binds++
        skips = named && told.stale-- > 0
        socket.write(skips ? STALE : message('2'))
      } else if (tag === 'E') {
        socket.write(message('D', Buffer.from([0, 1, 0, 0, 0, 1, 0x37])))
        socket.write(message('C', Buffer.from('SELECT 1\0')))
      }
    },
    () => Buffer.concat([message('R', Buffer.alloc(4)), KEY, ready()]),
  )
  told.url = `postgres://me@127.0.0.1:${port}/d?sslmode=disable&prepare_threshold=1&connections_max=1`
  return told
}

test('a plan that goes stale twice in a row is healed twice', limits, async () => {
  const server = await scripted()
  const sql = client({ url: server.url })
  for (let i = 0; i < 3; i++) assert.deepEqual([...(await sql`select * from t`)], [{ c1: '7' }])
  server.stale = 2
  assert.deepEqual([...(await sql`select * from t`)], [{ c3: '7' }])
})

test('a plan that is stale at every attempt is given up', limits, async () => {
  const server = await scripted()
  const sql = client({ url: server.url })
  for (let i = 0; i < 3; i++) await sql`select * from t`
  server.stale = Infinity
  server.binds = 0
  const error = await failure(sql`select * from t`)
  assert.deepEqual([error.code, error.outcome], ['0A000', 'Rejected'])
  assert.equal(server.binds, 1 + 5)
})

test('a statement whose description was lost is described before its rows are read', limits, async () => {
  const server = await scripted()
  server.undescribed = 1
  const sql = client({ url: server.url })
  assert.equal((await failure(sql`select * from t`)).code, '57014')
  assert.deepEqual([...(await sql`select * from t`)], [{ c2: '7' }])
  assert.deepEqual([...(await sql`select * from t`)], [{ c2: '7' }])
})

test('the drop-in, too, describes a statement again whose description was lost', limits, async () => {
  const server = await scripted()
  const url = new URL(server.url)
  url.searchParams.delete('prepare_threshold')
  url.searchParams.delete('connections_max')
  const pool = new Pool({ connectionString: url.href, max: 1 })
  const named = { name: 'mine', text: 'select 1' }
  const seven = async (query: object): Promise<void> => {
    const { rows } = (await pool.query(query)) as Result
    assert.deepEqual(rows.map(Object.values), [['7']])
  }
  const counted = { text: 'select $1', values: [1] }
  // It is prepared at its fifth use.
  for (let i = 0; i < 4; i++) await seven(counted)
  for (const query of [counted, named]) {
    server.undescribed = 1
    await assert.rejects(pool.query(query), { code: '57014' })
    for (let i = 0; i < 2; i++) await seven(query)
  }
  await pool.end()
})

test('rows without a description are an error, not an empty result', limits, async () => {
  const port = await listen(
    (tag, _, socket) => {
      const said: Record<string, Buffer> = {
        P: message('1'),
        B: message('2'),
        D: message('n'),
        E: Buffer.concat([message('D', Buffer.from([0, 1, 0, 0, 0, 1, 0x37])), message('C', Buffer.from('SELECT 1\0'))]),
        S: ready(),
      }
      socket.write(said[tag] ?? Buffer.alloc(0))
    },
    () => Buffer.concat([message('R', Buffer.alloc(4)), ready()]),
  )
  const pool = new Pool({ connectionString: `postgres://me@127.0.0.1:${port}/d?sslmode=disable`, max: 1 })
  const failed: unknown = await pool.query('select * from t where a = $1', [1]).catch((error: unknown) => error)
  assert.match(String(failed), /the server described no columns/)
  assert.equal((failed as { outcome?: string }).outcome, 'Applied')
  await pool.end()
})
