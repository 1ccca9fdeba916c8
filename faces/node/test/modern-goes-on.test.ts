import assert from 'node:assert/strict'
import { connect, createServer, type Socket } from 'node:net'
import { test, type TestContext } from 'node:test'

import type { PostgresError, Sql } from '../src/modern'
import type { Config } from '../src/modern/config'
import { client, failure, url } from './modern/client'

const limits = { timeout: 600_000 }

/** A table of its own, and a client that sends one statement at a time on one connection. */
async function begin(t: TestContext, more: Config = {}) {
  const observer = client()
  const name = `goes_on_${process.pid}_${number++}`
  const table = observer.id(name)
  await observer`create table ${table} (id int, what text)`
  const sql = client({ connectionsMax: 1, inFlightMax: 1, applicationName: name, ...more })
  t.after(async () => {
    await observer`select pg_terminate_backend(pid) from pg_stat_activity where application_name = ${name}`
    await observer`drop table ${table}`
    await sql.end({ timeoutMs: 0 })
    await observer.end()
  })
  const ids = async (): Promise<number[]> =>
    (await observer<{ id: number }>`select id from ${table} order by id`).map(({ id }) => id)
  /** The process of the client that sleeps, other than that one. */
  const sleeper = async (but = 0): Promise<number> => {
    for (;;) {
      const row = await observer<{ pid: number }>`
        select pid from pg_stat_activity
        where application_name = ${name} and wait_event = 'PgSleep' and pid <> ${but}`.first()
      if (row !== undefined) return row.pid
    }
  }
  /** Ends the connection whose statement sleeps; what else is on it was not sent. */
  const kill = async (but = 0): Promise<number> => {
    const pid = await sleeper(but)
    await observer`select pg_terminate_backend(${pid})`
    return pid
  }
  return { observer, sql, name, table, ids, sleeper, kill }
}

let number = 0

/** How a statement ends. */
async function outcome(statement: PromiseLike<unknown>): Promise<string> {
  return statement.then(
    () => 'done',
    (error: PostgresError) => error.outcome,
  )
}

function sleep(sql: Sql, seconds = 60): Promise<string> {
  return outcome(sql`select pg_sleep(${seconds})`)
}

test('what was not sent goes on, whichever way it is sent, and runs once', limits, async (t) => {
  const { sql, table, ids, kill } = await begin(t, { prepareThreshold: 2 })
  for (let id = 0; id < 3; id++) await sql`insert into ${table} values (${id}, ${'before'})`
  const head = sleep(sql)
  const bytes = Buffer.from('sent as it was')
  const calls = [
    ...[10, 11, 12].map((id) => sql`insert into ${table} values (${id}, ${'prepared'})`.send()),
    sql`insert into ${table} values (20, 'no parameters')`.send(),
    sql`insert into ${table} (id) values (${21})`.send(),
  ]
  const read = sql<{ x: string; n: number; b: Buffer }>`
    select ${'x'}::text as x, ${7}::int as n, ${bytes}::bytea as b`.send()
  bytes.fill(0)
  await kill()
  assert.equal(await head, 'Unknown')
  for (const call of calls) assert.equal((await call).count, 1)
  const row = await read.one()
  assert.deepEqual([row.x, row.n, String(row.b)], ['x', 7, 'sent as it was'])
  assert.deepEqual(await ids(), [0, 1, 2, 10, 11, 12, 20, 21])
})

test('what goes on keeps its deadline, and can be aborted', limits, async (t) => {
  const { sql, table, ids, kill } = await begin(t)
  const head = sleep(sql)
  const stop = new AbortController()
  const late = failure(sql`insert into ${table} values (1)`.timeout(400))
  const aborted = failure(sql`insert into ${table} values (2)`.signal(stop.signal))
  // Another caller has the only connection that comes next.
  const session = sql.session()
  await kill()
  assert.equal(await head, 'Unknown')
  await using lent = await session
  await lent`select 1`
  stop.abort()
  const { name, outcome } = await aborted
  assert.deepEqual([name, outcome], ['AbortError', 'NotSent'])
  const error = await late
  assert.deepEqual([error.code, error.outcome], ['timeout', 'NotSent'])
  assert.deepEqual(await ids(), [])
})

test('what was aborted before its connection ended does not go on', limits, async (t) => {
  const { sql, table, ids, sleeper, kill } = await begin(t)
  const head = sleep(sql)
  const stop = new AbortController()
  const aborted = failure(sql`insert into ${table} values (1)`.signal(stop.signal))
  await sleeper()
  stop.abort()
  await kill()
  assert.equal(await head, 'Unknown')
  assert.equal((await aborted).outcome, 'NotSent')
  await sql`select 1`
  assert.deepEqual(await ids(), [])
})

test('what goes on waits no longer than waitTimeoutMs', limits, async (t) => {
  const line = await lineTo(new URL(url))
  t.after(line.down)
  const { sql, table, ids, sleeper } = await begin(t, { url: line.url, waitTimeoutMs: 3000 })
  const head = sleep(sql)
  const waits = outcome(sql`insert into ${table} values (1)`)
  await sleeper()
  const began = performance.now()
  line.down()
  assert.equal(await head, 'Unknown')
  assert.equal(await waits, 'NotSent')
  const took = performance.now() - began
  assert.ok(took > 200 && took < 20_000, `${took} ms`)
  assert.deepEqual(await ids(), [])
})

test('after eight losses it was not sent', limits, async (t) => {
  const { sql, kill } = await begin(t)
  const ends = Array.from({ length: 11 }, () => sleep(sql))
  let pid = 0
  for (let kills = 0; kills < 9; kills++) pid = await kill(pid)
  const expected = [...Array<string>(9).fill('Unknown'), 'NotSent', 'NotSent']
  assert.deepEqual(await Promise.all(ends), expected)
})

test('what belongs together does not go on', limits, async (t) => {
  const { sql, table, ids, kill } = await begin(t)
  const head = sleep(sql)
  const pipelined = outcome(
    sql.pipeline((p) => [1, 2].map((id) => p`insert into ${table} values (${id})`)),
  )
  await kill()
  assert.deepEqual([await head, await pipelined], ['Unknown', 'NotSent'])
  await using session = await sql.session()
  const slept = outcome(session`select pg_sleep(60)`)
  const behind = outcome(session`insert into ${table} values (3)`)
  await kill()
  assert.deepEqual([await slept, await behind], ['Unknown', 'NotSent'])
  assert.deepEqual(await ids(), [])
})

/**
 * As many kills as a statement gets in line again at most. Each ends one connection: from one that has
 * ended, a statement may go to another whose end was not seen yet.
 */
test('while connections are killed nothing fails as NotSent, and nothing runs twice', limits, async (t) => {
  const { observer, sql, name, table, ids } = await begin(t, { connectionsMax: 3, inFlightMax: 2 })
  const claims = new Map<number, string>()
  let stops = false
  const writer = async (first: number): Promise<void> => {
    for (let id = first; !stops; id++) {
      claims.set(id, await outcome(sql`insert into ${table} values (${id})`))
    }
  }
  const writers = Array.from({ length: 32 }, (_, at) => writer(at * 100_000))
  for (let kills = 0; kills < 8; kills++) {
    const processes = observer`from pg_stat_activity where application_name = ${name}`
    while ((await observer`select 1 ${processes}`).length === 0);
    await observer`select pg_terminate_backend(pid) ${processes} limit 1`
  }
  stops = true
  await Promise.all(writers)
  const there = await ids()
  assert.equal(new Set(there).size, there.length, 'none ran twice')
  const lost = [...claims].filter(([, claim]) => claim !== 'done')
  assert.deepEqual(lost.filter(([, claim]) => claim !== 'Unknown'), [])
  const unknown = new Set(lost.map(([id]) => id))
  const certain = there.filter((id) => !unknown.has(id))
  const done = [...claims.keys()].filter((id) => !unknown.has(id))
  assert.deepEqual(certain, done.sort((a, b) => a - b))
})

/** A way to the server that can be taken down for good. */
async function lineTo(target: URL): Promise<{ url: string; down: () => void }> {
  const sockets = new Set<Socket>()
  const server = createServer((near) => {
    const far = connect(Number(target.port || 5432), target.hostname)
    for (const [socket, other] of [[near, far], [far, near]] as const) {
      sockets.add(socket)
      socket.on('error', () => undefined).on('close', () => other.destroy())
    }
    near.pipe(far).pipe(near)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const through = new URL(target)
  through.host = `127.0.0.1:${(server.address() as { port: number }).port}`
  const down = (): void => {
    server.close()
    for (const socket of sockets) socket.destroy()
  }
  return { url: through.href, down }
}
