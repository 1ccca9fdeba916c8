import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { finished, pipeline } from 'node:stream/promises'
import { test } from 'node:test'

import type { CopyIn, Tx } from '../src/modern'
import { client, failure, url } from './modern/client'
import { failure as said, listen, message, ready } from './pg-served'

const limits = { timeout: 600_000 }

const complete = (tag: string): Buffer => message('C', Buffer.from(`${tag}\0`))
const notice = (text: string): Buffer => message('N', Buffer.from(`SNOTICE\0C00000\0M${text}\0\0`))
const ANSWER = Buffer.concat([message('1'), message('2'), message('n'), complete('SELECT 0'), ready()])
const COPY_IN = message('G', Buffer.alloc(3))

/** Runs a program with a client, in a process that survives the error of a listener. */
function run(program: string): string {
  const module = JSON.stringify(join(__dirname, '../src/modern'))
  const before = `
    process.on('uncaughtException', (error) => console.log('thrown', error.message))
    const sql = require(${module}).postgres({ url: ${JSON.stringify(url)}, connectionsMax: 1 })
    async function main() { ${program}; await sql.end() }
    main()`
  const { stdout, stderr, signal } = spawnSync(process.execPath, ['-e', before], {
    timeout: 600_000,
    encoding: 'utf8',
  })
  assert.equal(signal, null, `the program did not end: ${stdout}${stderr}`)
  return stdout + stderr
}

test('messages behind the end of a COPY in the same chunk are read, whole or not', limits, async () => {
  const cut = notice('behind')
  const answers: Buffer[] = [cut.subarray(9)]
  const answer: Record<string, Buffer> = {
    P: message('1'),
    B: message('2'),
    D: message('n'),
    E: complete('SELECT 0'),
    S: ready(),
  }
  const port = await listen((tag, _, socket) => {
    if (tag === 'Q') socket.write(COPY_IN)
    if (tag === 'c') socket.write(Buffer.concat([complete('COPY 1'), ready(), cut.subarray(0, 9)]))
    answers.push(answer[tag] ?? Buffer.alloc(0))
    // Answers the reset of the COPY's session, and then the statement.
    if (tag === 'S') socket.write(Buffer.concat(answers.splice(0)))
  })
  const heard: string[] = []
  const sql = client({
    url: `postgres://me@127.0.0.1:${port}/d?sslmode=disable`,
    connectionsMax: 1,
    onNotice: ({ message: text }) => heard.push(text),
  })
  const into = sql.copyFrom`copy t from stdin`
  await pipeline(Readable.from(['1\n']), into)
  assert.equal(into.count, 1)
  assert.equal((await sql`select`).count, 0)
  assert.deepEqual(heard, ['behind'])
})

test('a COPY in waits until a message that has begun has arrived whole', limits, async () => {
  const cut = notice('in two')
  let rest: (() => void) | undefined
  const port = await listen((tag, _, socket) => {
    if (tag === 'S') socket.write(Buffer.concat([ANSWER, cut.subarray(0, 9)]))
    if (tag === 'S') rest = () => socket.write(cut.subarray(9))
    if (tag === 'Q') socket.write(COPY_IN)
    if (tag === 'c') socket.write(Buffer.concat([complete('COPY 1'), ready()]))
  })
  const heard: string[] = []
  const sql = client({
    url: `postgres://me@127.0.0.1:${port}/d?sslmode=disable`,
    connectionsMax: 1,
    onNotice: ({ message: text }) => heard.push(text),
  })
  await sql`select`
  const into = sql.copyFrom`copy t from stdin`
  const fed = pipeline(Readable.from(['1\n']), into)
  setImmediate(() => rest?.())
  await fed
  assert.equal(into.count, 1)
  assert.deepEqual(heard, ['in two'])
})

test('a COPY in behind half a message of the server is sent, and ends with its connection', limits, async () => {
  const cut = notice('never whole')
  let end: (() => void) | undefined
  const port = await listen((tag, _, socket) => {
    if (tag === 'S') socket.write(Buffer.concat([ANSWER, cut.subarray(0, 9)]))
    end = () => socket.destroy()
  })
  const sql = client({ url: `postgres://me@127.0.0.1:${port}/d?sslmode=disable`, connectionsMax: 1 })
  await sql`select`
  const into = sql.copyFrom`copy t from stdin`
  const fed = pipeline(Readable.from(['1\n']), into)
  setImmediate(() => end?.())
  // All of its data had been sent.
  await assert.rejects(fed, { code: 'connection_lost', outcome: 'Unknown' })
})

test('a connection that ends behind a COPY is not used again', limits, async () => {
  const ended = new Set<unknown>()
  let asked = 0
  const port = await listen((tag, _, socket) => {
    if (tag === 'Q') socket.write(COPY_IN)
    const last = said('57P01', 'terminating connection', 'FATAL')
    if (tag === 'c') socket.write(Buffer.concat([complete('COPY 1'), ready(), last]))
    if (tag === 'c') ended.add(socket)
    if (tag === 'S' && ended.has(socket)) asked++
    if (tag === 'S') socket.write(ANSWER)
  })
  const sql = client({ url: `postgres://me@127.0.0.1:${port}/d?sslmode=disable`, connectionsMax: 1 })
  await pipeline(Readable.from(['1\n']), sql.copyFrom`copy t from stdin`)
  assert.equal((await sql`select`).count, 0)
  assert.equal(asked, 0)
})

test('notices that arrive while a COPY is fed are delivered', limits, async () => {
  const heard: string[] = []
  const sql = client({ onNotice: ({ message: text }) => heard.push(text) })
  await sql.begin(async (tx) => {
    await tx`create temp table modern_noticed (n int) on commit drop`
    await tx`
      create function pg_temp.notice_it() returns trigger language plpgsql as $$
      begin raise notice 'row %', new.n; return new; end $$`
    await tx`
      create trigger t before insert on modern_noticed
      for each row execute function pg_temp.notice_it()`
    await pipeline(Readable.from(['1\n2\n']), tx.copyFrom`copy modern_noticed from stdin`)
  })
  assert.deepEqual(heard, ['row 1', 'row 2'])
})

test('a listener of a COPY out that throws loses no later data', limits, () => {
  const out = run(`
    let lines = 0, first = true
    const out = sql.copyTo\`copy (select generate_series(1, 1000)) to stdout\`
    out.on('data', (chunk) => {
      lines += chunk.toString().split('\\n').length - 1
      if (!first) return
      first = false
      throw new Error('ours')
    })
    await new Promise((resolve) => out.on('end', resolve))
    console.log(lines, out.count, (await sql\`select\`).count)`)
  assert.equal(out, 'thrown ours\n1000 1000 1\n')
})

test('a callback of a COPY in that throws when its connection is lost lets it end', limits, () => {
  const out = run(`
    const other = require(${JSON.stringify(join(__dirname, '../src/modern'))}).postgres(${JSON.stringify(url)})
    const begun = sql.begin(async (tx) => {
      await tx\`create temp table slow (n int) on commit drop\`
      await tx\`create function pg_temp.slow() returns trigger language plpgsql as $$
        begin perform pg_sleep(100); return new; end $$\`
      await tx\`create trigger t before insert on slow for each row execute function pg_temp.slow()\`
      const { p } = await tx\`select pg_backend_pid() as p\`.one()
      const into = tx.copyFrom\`copy slow from stdin\`
      into.on('error', (error) => console.log(error.code))
      const closed = new Promise((resolve) => into.on('close', resolve))
      // More than the buffers of the server and the system hold.
      into.write('2\\n'.repeat(16 << 20), () => { throw new Error('ours') })
      const sleeps = () => other\`
        select from pg_stat_activity where pid = \${p} and wait_event = 'PgSleep'\`
      for (let i = 0; i < 5000 && (await sleeps()).count === 0; i++);
      await other\`select pg_terminate_backend(\${p}, 5000)\`
      await closed
    })
    await begun.catch((error) => console.log('begin', error.code))
    await other.end()`)
  assert.equal(out, 'thrown ours\nconnection_lost\nbegin connection_lost\n')
})

test('a COPY in that had to wait for room tells of a lost connection once', limits, async () => {
  const [sql, other] = [client({ connectionsMax: 1 }), client()]
  const table = other.id('modern_copy_waited')
  await other`create table ${table} (n int)`
  const { p } = await sql<{ p: number }>`select pg_backend_pid() as p`.one()
  const into = sql.copyFrom`copy ${table} from stdin`
  const failed = new Promise<Error & { outcome?: string; code?: string }>((resolve) => into.once('error', resolve))
  // Much more than may be unwritten.
  await new Promise((resolve) => into.write('2\n'.repeat(4 << 20), resolve))
  await other`select pg_terminate_backend(${p}, 5000)`
  into.write('3\n')
  const { code, outcome } = await failed
  assert.deepEqual([code, outcome], ['connection_lost', 'Rejected'])
  await other`drop table ${table}`
})

test('COPY in on a session and in a transaction run one after the other, and not side by side', limits, async () => {
  const sql = client({ connectionsMax: 1 })
  const table = sql.id('modern_copy_in_turn')
  await sql`create table ${table} (n int)`
  const copy = (scope: Pick<typeof sql, 'copyFrom'>, n: number): Promise<void> =>
    pipeline(Readable.from([`${n}\n`, `${n + 100}\n`]), scope.copyFrom`copy ${table} from stdin`)
  const five = async (scope: Pick<typeof sql, 'copyFrom'>, from: number): Promise<void> => {
    for (let at = 0; at < 4; at++) await copy(scope, from + at)
    const beside = await Promise.allSettled([copy(scope, from + 4), copy(scope, from + 5)])
    const [first, second] = beside.map((it) => (it.status === 'rejected' ? it.reason : undefined))
    assert.deepEqual([first, second?.code, second?.outcome], [undefined, 'copy_open', 'NotSent'])
  }
  const session = await sql.session()
  await five(session, 0)
  await session[Symbol.asyncDispose]()
  await sql.begin((tx) => five(tx, 1000))
  const [{ n, d } = {}] = await sql<{ n: number; d: number }>`
    select count(*)::int as n, count(distinct n)::int as d from ${table}`
  assert.deepEqual([n, d], [20, 20])
  await sql`drop table ${table}`
})

test('a pipeline to a COPY in that is destroyed fails, also before it has a connection', limits, async () => {
  const sql = client({ connectionsMax: 1 })
  const into = sql.copyFrom`copy nowhere from stdin`
  const rows = async function* (): AsyncGenerator<string> {
    yield '1\n'
    into.destroy()
  }
  await assert.rejects(pipeline(Readable.from(rows()), into), { code: 'ERR_STREAM_PREMATURE_CLOSE' })
  assert.equal((await sql`select 1`).count, 1)
})

test('the error of a COPY in that is aborted says what became of its rows', limits, async () => {
  const [sql, other] = [client({ connectionsMax: 1 }), client()]
  const table = sql.id('modern_copy_aborted')
  await sql`create table ${table} (n int)`
  const rows = async (): Promise<number> =>
    (await other<{ n: number }>`select count(*)::int as n from ${table}`.one()).n
  // The server takes the data, and waits for the table.
  const locked = async (run: (into: CopyIn) => Promise<void>): Promise<void> => {
    const holder = await other.session()
    await holder`begin`
    await holder`lock table ${table}`
    await run(sql.copyFrom`copy ${table} from stdin`)
    await holder`commit`
    await holder[Symbol.asyncDispose]()
    await sql`select 1`
  }
  const waits = async (): Promise<void> => {
    while ((await other`select from pg_locks where not granted`).count === 0);
  }
  await locked(async (into) => {
    const stop = new AbortController()
    const copied = pipeline(Readable.from(['1\n']), into, { signal: stop.signal })
    await waits()
    stop.abort()
    const { name, outcome } = await failure(copied)
    assert.deepEqual([name, outcome], ['AbortError', 'Unknown'])
  })
  assert.equal(await rows(), 1, 'its end was sent')
  await locked(async (into) => {
    into.write('2\n')
    await waits()
    const ended = failure(finished(into))
    into.destroy(new Error('mine'))
    const { message, outcome } = await ended
    assert.deepEqual([message, outcome], ['mine', 'Rejected'])
  })
  const unsent = sql.copyFrom`copy ${table} from stdin`
  const ended = failure(finished(unsent))
  assert.equal(unsent.outcome, undefined)
  unsent.destroy(Object.freeze(new Error('frozen')))
  assert.equal((await ended).message, 'frozen')
  assert.equal(unsent.outcome, 'NotSent')
  const mine = new Error('mine')
  sql.copyFrom`copy ${table} from stdin`.on('error', () => {}).destroy(mine)
  assert.equal((mine as { outcome?: string }).outcome, 'NotSent')
  assert.equal(await rows(), 1)
  // Without an error, the stream alone can say it.
  await locked(async (into) => {
    into.end('3\n')
    await waits()
    into.destroy()
    assert.equal(into.outcome, 'Unknown')
  })
  assert.equal(await rows(), 2, 'its end was sent')
  const whole = sql.copyFrom`copy ${table} from stdin`
  await pipeline(Readable.from(['4\n']), whole)
  assert.equal(whole.outcome, undefined)
  await sql`drop table ${table}`
})

test('a COPY that its transaction did not wait for never runs outside of it', limits, async () => {
  const sql = client({ connectionsMax: 1 })
  const table = sql.id('modern_copy_outside')
  await sql`create table ${table} (n int)`
  for (const inner of [false, true]) {
    let told: Promise<Error & { code?: string; outcome?: string }> | undefined
    const run = (tx: Tx): void => {
      // Its data has ended, and BEGIN or the savepoint is not answered.
      const into = tx.copyFrom`copy ${table} from stdin`
      told = failure(finished(into.end('1\n')))
      throw new Error('mine')
    }
    const error = await failure(sql.begin((tx) => (inner ? tx.savepoint(run) : run(tx))))
    assert.equal(error.message, 'mine')
    const { code, outcome } = (await told) as Error & { code?: string; outcome?: string }
    assert.deepEqual([code, outcome], ['transaction_over', 'NotSent'])
  }
  assert.equal((await sql`select from ${table}`).count, 0)
  await sql`drop table ${table}`
})

test('a malformed description of columns for a caller that has gone does not end the process', limits, async () => {
  const broken = message('T', Buffer.from([0, 9, 0x61]))
  let late: (() => void) | undefined
  const port = await listen((tag, _, socket) => {
    if (tag === 'S' && late === undefined) {
      const answer = [message('1'), message('2'), broken, complete('SELECT 0'), ready()]
      late = () => socket.write(Buffer.concat(answer))
    } else if (tag === 'S') socket.write(ANSWER)
    if (tag !== 'cancel') return
    late?.()
    socket.end()
  })
  const sql = client({ url: `postgres://me@127.0.0.1:${port}/d?sslmode=disable`, connectionsMax: 1 })
  const error = await failure(sql`select 1`.timeout(3000))
  assert.equal(error.code, 'timeout')
  // The connection ends with it. A statement behind it may have run; the next one gets a new
  // connection.
  const behind = await failure(sql`select`)
  assert.deepEqual([behind.code, behind.outcome], ['violation', 'Unknown'])
  assert.equal((await sql`select`).count, 0)
})

test('rows without columns are an error, not an empty result', limits, async () => {
  const row = message('D', Buffer.from([0, 0]))
  const port = await listen((tag, _, socket) => {
    const answer = [message('1'), message('2'), message('n'), row, complete('SELECT 1'), ready()]
    if (tag === 'S') socket.write(Buffer.concat(answer))
  })
  const sql = client({ url: `postgres://me@127.0.0.1:${port}/d?sslmode=disable` })
  const error = await failure(sql`select 1`)
  assert.equal(error.outcome === 'Applied' ? error.code : error.outcome, 'conversion')
})
