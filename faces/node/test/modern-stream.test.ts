import assert from 'node:assert/strict'
import { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { test } from 'node:test'

import type { Tag } from '../src/modern/tag'
import { client, failure } from './modern/client'

test('rows are iterated in their order, however many', { timeout: 600_000 }, async () => {
  const sql = client()
  let sum = 0
  for await (const { n } of sql<{ n: number }>`select n from generate_series(1, ${100_000}::int) n`)
    sum += n
  assert.equal(sum, 5_000_050_000)
  const { connections, idle, waiting } = sql.stats
  assert.deepEqual({ connections, idle, waiting }, { connections: 1, idle: 1, waiting: 0 })
})

test(
  'a reader that stops makes the server stop, and memory stays bounded',
  { timeout: 600_000 },
  async () => {
    const applicationName = `modern_${process.pid}`
    const sql = client({ applicationName })
    // About 400 MB of rows.
    const rows = sql<{
      t: string
    }>`select repeat('x', 10000) as t from generate_series(1, 40000)`.stream()
    await rows.next()
    const before = process.memoryUsage()
    const other = client()
    // While the server can send, it does not wait for the client.
    for (;;) {
      const { state } = await other<{
        state: string
      }>`select wait_event as state from pg_stat_activity
      where application_name = ${applicationName}`.one()
      if (state === 'ClientWrite') break
    }
    const paused = process.memoryUsage()
    assert.ok(paused.arrayBuffers + paused.heapUsed - before.arrayBuffers - before.heapUsed < 32e6)
    let count = 1
    for await (const { t } of rows) count += t.length / 10000
    assert.equal(count, 40_000)
  },
)

test(
  'a loop that is left early gives its connection back, with nothing unread on it',
  { timeout: 600_000 },
  async () => {
    const sql = client({ connectionsMax: 1 })
    for await (const { n } of sql<{ n: number }>`select n from generate_series(1, 1000) n`)
      if (n === 10) break
    assert.equal((await sql`select 1`).count, 1)
    for await (const _ of sql`select repeat('x', 10000) from generate_series(1, 100000)`) break
    for await (const _ of sql`select repeat('x', 20000), pg_sleep(case when n = 9 then 100 else 0 end) from generate_series(1, 9) n`)
      break
    assert.equal((await sql`select 1`).count, 1)
  },
)

test('an error is reported behind the rows that came before it', async () => {
  const sql = client()
  const seen: number[] = []
  const error = await failure(
    (async () => {
      for await (const { n } of sql<{
        n: number
      }>`select 10 / (3 - n) as q, n from generate_series(1, 5) n`)
        seen.push(n)
    })(),
  )
  assert.deepEqual([seen, error.code, error.outcome], [[1, 2], '22012', 'Rejected'])
  assert.match(
    (await failure(sql`select ${undefined as never}`.stream().next())).message,
    /parameter 1/,
  )
  assert.throws(() => sql`select 1`.timeout(5).stream(), { code: 'stream_option' })
})

test(
  'a transaction streams on its own connection, and goes on after it',
  { timeout: 600_000 },
  async () => {
    const sql = client({ connectionsMax: 1 })
    await sql.begin(async (tx) => {
      const seen: unknown[] = []
      for await (const row of tx`select pg_current_xact_id()::text as x from generate_series(1, 2)`)
        seen.push(row)
      for await (const _ of tx`select repeat('x', 1000) from generate_series(1, 5000)`) break
      const [same] = await tx`select pg_current_xact_id()::text as x`
      assert.deepEqual([same, same], seen)
      await tx.savepoint(async (sp) => {
        for await (const row of sp`select 1 as n`) assert.deepEqual(row, { n: 1 })
      })
    })
  },
)

test('streams and pipelines run where the settings have a deadline for statements', async () => {
  const sql = client({ requestTimeoutMs: 60_000 })
  const seen: number[] = []
  for await (const { n } of sql<{ n: number }>`select generate_series(1, 3) as n`) seen.push(n)
  assert.deepEqual(seen, [1, 2, 3])
  const [first] = await sql.pipeline([sql<{ n: number }>`select 4 as n`, sql`select 5`])
  assert.deepEqual([...first], [{ n: 4 }])
  assert.throws(() => sql`select 1`.timeout(5).stream(), { code: 'stream_option' })
  await assert.rejects(sql.pipeline([sql`select 1`.timeout(5)]), { code: 'pipeline_option' })
})

test('a pipeline that the server refused is rejected, also if its rest was never sent', async () => {
  const sql = client({ inFlightMax: 1, connectionsMax: 1 })
  const rest = Array.from({ length: 10 }, (_, i) => sql`select ${i}::int`)
  const error = await failure(sql.pipeline([sql`select 1/0`, ...rest]))
  assert.deepEqual([error.code, error.outcome, error.statement], ['22012', 'Rejected', 0])
})

test('COPY takes a stream and gives one', { timeout: 600_000 }, async () => {
  const sql = client()
  await sql.begin(async (tx) => {
    await tx`create temp table modern_copy (n int, t text)`
    const into = tx.copyFrom`copy ${sql.id('modern_copy')} from stdin`
    const lines = Array.from({ length: 20_000 }, (_, n) => `${n}\ttext ${n}\n`)
    await pipeline(Readable.from(lines), into)
    assert.equal(into.count, 20_000)
    assert.deepEqual(await tx`select count(*)::int as c, sum(n)::int as s from modern_copy`.one(), {
      c: 20_000,
      s: 199_990_000,
    })
    let text = ''
    const out = tx.copyTo`copy (select * from modern_copy order by n) to stdout`
    await pipeline(
      out,
      new Writable({ write: (chunk, _, done) => ((text += String(chunk)), done()) }),
    )
    assert.equal(text, lines.join(''))
    assert.equal(out.count, 20_000)
    assert.equal((await tx`select 1`).count, 1)
  })
})

test(
  'a COPY that fails or is destroyed has no effect, and its connection goes on',
  { timeout: 600_000 },
  async () => {
    const sql = client({ connectionsMax: 1 })
    const name = sql.id(`modern_copy_${process.pid}`)
    await sql`create table ${name} (n int)`
    const wrong = await failure(
      pipeline(Readable.from(['1\n', 'x\n', '2\n']), sql.copyFrom`copy ${name} from stdin`),
    )
    assert.deepEqual([wrong.code, wrong.outcome], ['22P02', 'Rejected'])
    const missing = await failure(
      pipeline(Readable.from(['1\n']), sql.copyFrom`copy modern_missing from stdin`),
    )
    assert.equal(missing.code, '42P01')
    async function* broken() {
      yield '1\n'
      throw new Error('no more')
    }
    assert.match(
      (await failure(pipeline(broken, sql.copyFrom`copy ${name} from stdin`))).message,
      /no more/,
    )
    assert.equal((await sql`select from ${name}`).count, 0)
    const out = sql.copyTo`copy (select repeat('x', 1000) from generate_series(1, 1000)) to stdout`
    for await (const _ of out) break
    assert.equal(
      (await failure(pipeline(sql.copyTo`copy modern_missing to stdout`, new Writable()))).code,
      '42P01',
    )
    assert.equal((await sql`select 1`).count, 1)
    assert.throws(() => sql.copyFrom`copy t from ${'x'}`, { code: 'copy_parameters' })
    assert.throws(() => sql.copyFrom`select 1`, { code: 'copy' })
    await sql`drop table ${name}`
  },
)

test('a COPY after a session of another user finds a clean one', async () => {
  const sql = client({ connectionsMax: 1 })
  const session = await sql.session()
  await session`set datestyle to 'German'`
  session.release()
  let text = ''
  for await (const chunk of sql.copyTo`copy (select '2020-01-02'::date) to stdout`)
    text += String(chunk)
  assert.equal(text, '2020-01-02\n')
  const again = await sql.session()
  await again`create temp table modern_gone (n int)`
  again.release()
  assert.equal(
    (await failure(pipeline(Readable.from(['1\n']), sql.copyFrom`copy modern_gone from stdin`)))
      .code,
    '42P01',
  )
})

test('a statement that is awaited beside or behind its stream is refused', async () => {
  const sql = client({ connectionsMax: 1 })
  // In an object, since an async function awaits what it returns.
  const streamed = async (tag: Tag) => {
    const query = tag`select 1 as a`
    for await (const row of query) assert.deepEqual(row, { a: 1 })
    return { query }
  }
  const beside = sql`select 1 as a`
  const ways: [() => PromiseLike<unknown>, string][] = [
    [async () => await (await streamed(sql)).query, 'NotSent'],
    [async () => (await streamed(sql)).query.one(), 'NotSent'],
    // It speaks of the transaction, of which the stream was sent and rolled back.
    [() => sql.begin(async (tx) => [(await streamed(tx)).query]), 'Rejected'],
    [
      () => {
        void beside.stream().next()
        return beside
      },
      'NotSent',
    ],
  ]
  for (const [again, whole] of ways) {
    const { code, outcome } = await failure(again())
    assert.deepEqual([code, outcome], ['sent_already', whole])
  }
  assert.equal((await sql`select 1`).count, 1)
})

test('a stream that is left inside a decoder of its rows yields nothing more', { timeout: 600_000 }, async () => {
  let leave = (): void => undefined
  const types = { int8: (text: string) => (text === '5' && leave(), Number(text)) }
  const sql = client({ connectionsMax: 1, types })
  const rows = (scope: Tag) => scope<{ n: number }>`select n::int8 as n from generate_series(1, 2000) n`
  const ways: [(left: AsyncIterator<unknown>) => unknown, (run: (scope: Tag) => Promise<void>) => Promise<void>][] = [
    [(left) => left.return?.(), (run) => run(sql)],
    [(left) => left.return?.(), (run) => sql.begin(run)],
  ]
  for (const [end, within] of ways) {
    await within(async (scope) => {
      const stream = rows(scope).stream()
      leave = () => void end(stream)
      const seen: number[] = []
      // Some calls wait when the rows come, and the rows behind those are kept.
      const results = await Promise.all([stream.next(), stream.next(), stream.next(), stream.next(), stream.next()])
      for (const { value } of results) if (value !== undefined) seen.push(value.n)
      for await (const { n } of stream) seen.push(n)
      assert.deepEqual(seen, [1, 2, 3, 4])
      leave = () => undefined
      assert.equal((await rows(scope))[1999]?.n, 2000)
    })
  }
  // Its session ends meanwhile, which the stream is told.
  const session = await sql.session()
  leave = () => session.release()
  const stream = rows(session).stream()
  const seen: number[] = []
  const error = await failure(
    (async () => {
      for await (const { n } of stream) seen.push(n)
    })(),
  )
  assert.deepEqual([error.code, seen], ['stream_open', [1]])
})
