// A server that is silent: nobody who has given a statement up waits for it without bound. Each limit
// is reached by a hang alone.

import assert from 'node:assert/strict'
import { connect, createServer, type Socket } from 'node:net'
import { after, test } from 'node:test'

import type { Sql } from '../src/modern/sql'
import { Client, Pool } from '../src/pg'
import { client, failure, url } from './modern/client'

const limits = { timeout: 600_000 }

const closers: (() => void)[] = []
after(() => closers.forEach((close) => close()))

/** A way to the server that passes nothing on while it is frozen, and then goes on. */
async function open(): Promise<{ url: string; freeze: () => void; thaw: () => void }> {
  const sockets = new Set<Socket>()
  let isFrozen = false
  const server = createServer((near) => {
    const far = connect(Number(target.port || 5432), target.hostname)
    for (const [from, to] of [[near, far], [far, near]] as const) {
      sockets.add(from)
      from.on('error', () => undefined)
      from.on('close', () => to.destroy())
      from.on('data', (bytes: Buffer) => void to.write(bytes))
      if (isFrozen) from.pause()
    }
  })
  const target = new URL(url)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closers.push(() => {
    sockets.forEach((socket) => socket.destroy())
    server.close()
  })
  const through = new URL(url)
  through.hostname = '127.0.0.1'
  through.port = String((server.address() as { port: number }).port)
  through.searchParams.set('sslmode', 'disable')
  return {
    url: through.href,
    freeze: () => {
      isFrozen = true
      sockets.forEach((socket) => socket.pause())
    },
    thaw: () => {
      isFrozen = false
      sockets.forEach((socket) => socket.resume())
    },
  }
}

interface Way {
  ask(sql: Sql, signal: AbortSignal): PromiseLike<unknown>
  /** Its error, if it is another. */
  readonly code?: string
  /** Its outcome, if that is not `Unknown`. */
  readonly outcome?: string
}

/** Ways to ask with a signal, once the server is silent. */
const ways: { readonly [name: string]: Way } = {
  'a statement': { ask: (sql, signal) => sql`select 1`.signal(signal) },
  'a repeatable one': { ask: (sql, signal) => sql`select 1`.repeatable().signal(signal) },
  'one behind another': {
    ask: (sql, signal) => {
      sql`select 1`.catch(() => undefined)
      return sql`select 2`.signal(signal)
    },
  },
  'one of a transaction': {
    ask: (sql, signal) => sql.begin((tx) => tx`select 1`.signal(signal)),
    // No COMMIT was sent.
    outcome: 'Rejected',
  },
  'one that leaves with COMMIT': {
    ask: (sql, signal) => sql.begin((tx) => [tx`select 1`.signal(signal)]),
  },
  'one that leaves with ROLLBACK': {
    ask: (sql, signal) =>
      sql.begin(async (tx) => {
        tx`select 1`.signal(signal).catch(() => undefined)
        throw Object.assign(new Error('mine'), { code: 'mine', outcome: 'Unknown' })
      }),
    code: 'mine',
  },
  'one whose transaction goes on': {
    ask: (sql, signal) =>
      sql.begin(async (tx) => {
        assert.equal((await failure(tx`select 1`.signal(signal))).code, 'ABORT_ERR')
      }),
    code: 'timeout',
  },
  'one of a session': {
    ask: async (sql, signal) => {
      const session = await sql.session()
      try {
        return await session`select 1`.signal(signal)
      } finally {
        session.release()
      }
    },
  },
}

async function endsThough(way: Way): Promise<void> {
  const { url, freeze, thaw } = await open()
  const sql = client({ url, connectionsMax: 1 })
  await sql`select 1`
  const stop = new AbortController()
  freeze()
  const failed = failure(way.ask(sql, stop.signal))
  // What is sent has left by then.
  await new Promise(setImmediate)
  await new Promise(setImmediate)
  stop.abort()
  const error = await failed
  assert.deepEqual([error.code, error.outcome], [way.code ?? 'ABORT_ERR', way.outcome ?? 'Unknown'])
  thaw()
  // What comes of it late reaches nobody else, on this connection or another.
  const others = Array.from({ length: 3 }, (_, n) => sql<{ n: number }>`select ${n}::int as n`.one())
  assert.deepEqual(await Promise.all(others), [{ n: 0 }, { n: 1 }, { n: 2 }])
  await sql.end()
}

test(
  'a statement that is aborted ends though the server is silent, in every place',
  { ...limits, concurrency: true },
  async (t) => {
    await Promise.all(
      Object.entries(ways).map(([name, way]) => t.test(name, () => endsThough(way))),
    )
  },
)

test('a late statement of a transaction ends that though the server is silent', limits, async () => {
  const { url, freeze } = await open()
  const sql = client({ url, connectionsMax: 1 })
  await sql`select 1`
  freeze()
  const error = await failure(sql.begin((tx) => tx`select 1`.timeout(10)))
  assert.deepEqual([error.code, error.outcome], ['timeout', 'Rejected'])
})

test('what was not sent before a silent server was aborted ends at once: modern', limits, async () => {
  const { url, freeze } = await open()
  freeze()
  const sql = client({ url, connectionsMax: 1 })
  const stop = new AbortController()
  const failed = [sql`select 1`.signal(stop.signal), sql`select 2`.signal(stop.signal)].map(failure)
  await new Promise(setImmediate)
  stop.abort()
  for (const { code, outcome } of await Promise.all(failed))
    assert.deepEqual([code, outcome], ['ABORT_ERR', 'NotSent'])
})

test('a query that is aborted ends though the server is silent: drop-in', limits, async () => {
  for (const pipeline of [false, true]) {
    const { url, freeze } = await open()
    const one = new Client({ connectionString: url, pipeline })
    const pool = new Pool({ connectionString: url, pipeline, max: 1 })
    one.on('error', () => undefined)
    pool.on('error', () => undefined)
    await one.connect()
    await pool.query('select 1')
    const stop = new AbortController()
    freeze()
    const { signal } = stop
    const failed = [one, pool].map((it) => failure(it.query({ text: 'select 1', signal })))
    const waits = failure(one.query({ text: 'select 2', signal }))
    await new Promise(setImmediate)
    stop.abort()
    for (const { name, outcome } of await Promise.all(failed))
      assert.deepEqual([name, outcome], ['AbortError', 'Unknown'])
    assert.equal((await waits).outcome, pipeline ? 'Unknown' : 'NotSent')
    closers.splice(0).forEach((close) => close())
    await Promise.all([one.end(), pool.end()])
  }
})
