import assert from 'node:assert/strict'
import { test } from 'node:test'

import { client, failure } from './modern/client'
import { listen, message, ready } from './pg-served'

const limits = { timeout: 20_000 }

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

/** One column of type text, named after the Parse that it came by. */
function columns(name: string): Buffer {
  const type = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 255, 255, 255, 255, 255, 255, 0, 0])
  return message('T', Buffer.concat([Buffer.from([0, 1]), Buffer.from(`${name}\0`), type]))
}

/** A server that finds the plans of the next Binds of a name stale, as often as it is told. */
async function scripted(): Promise<{ url: string; stale: number; binds: number }> {
  const told = { url: '', stale: 0, binds: 0 }
  let parses = 0
  let skips = false
  // The question whether this is the server itself: it is.
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
      else if (tag === 'D') {
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

test('a plan that is stale each time is given up', limits, async () => {
  const server = await scripted()
  const sql = client({ url: server.url })
  for (let i = 0; i < 3; i++) await sql`select * from t`
  server.stale = Infinity
  server.binds = 0
  const error = await failure(sql`select * from t`)
  assert.deepEqual([error.code, error.outcome], ['0A000', 'Rejected'])
  assert.equal(server.binds, 1 + 5)
})
