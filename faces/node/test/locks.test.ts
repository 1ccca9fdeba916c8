// A statement that waits for a lock holds up nobody who could go elsewhere, and those behind it
// only for a while: whoever holds the lock may be waiting for one of them.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { Pool, type Result } from '../src/pg'
import { client, failure, url } from './modern/client'

/** What a run with kills lasts in seconds; without it, until each of some kills had its effect. */
const seconds = Number(process.env['ONETRIP_SECONDS'] ?? 0)

/** `ONETRIP_KILLS=0`: a run of so many seconds has no kills. */
const kills = process.env['ONETRIP_KILLS'] === '0' ? 0 : Infinity

/** Only a hang reaches it. */
const limits = { timeout: 600_000 }

/** What a program does with its client, in either face. */
interface Program {
  update(id: number): PromiseLike<unknown>
  read(): PromiseLike<number>
  /** Runs `inside` in a transaction that has updated row 1. */
  holding(inside: () => Promise<void>): PromiseLike<void>
  end(): PromiseLike<void>
}

let tables = 0

async function makeTable(): Promise<string> {
  const name = `locks_${process.pid}_${++tables}`
  const sql = client()
  await sql`create table ${sql.id(name)} (id int primary key, n int not null)`
  await sql`insert into ${sql.id(name)} select i, 0 from generate_series(1, 9) i`
  await sql.end()
  return name
}

/** The server's URL, with what the connections are called there. */
function named(name: string): string {
  const at = new URL(url)
  at.searchParams.set('application_name', name)
  return at.href
}

async function drop(name: string): Promise<number> {
  const sql = client()
  const [row] = await sql<{ n: number }>`select n from ${sql.id(name)} where id = 1`
  await sql`drop table ${sql.id(name)}`
  await sql.end()
  return row?.n ?? -1
}

function modern(table: string, connectionsMax: number): Program {
  const sql = client({ url: named(table), connectionsMax })
  const name = sql.id(table)
  return {
    update: (id) => sql`update ${name} set n = n + 1 where id = ${id}`,
    async read() {
      const [row] = await sql<{ n: number }>`select n from ${name} where id = ${7}`
      return row?.n ?? -1
    },
    holding: (inside) =>
      sql.begin(async (tx) => {
        await tx`update ${name} set n = n + 1 where id = ${1}`
        await inside()
      }),
    end: () => sql.end(),
  }
}

function dropIn(table: string, max: number): Program {
  const pool = new Pool({ connectionString: named(table), max, pipeline: true })
  // Without listeners, a connection that is lost would end the process.
  pool.on('error', () => undefined)
  pool.on('connect', (one) => one.on('error', () => undefined))
  const text = `update ${table} set n = n + 1 where id = $1`
  return {
    update: (id) => pool.query(text, [id]),
    async read() {
      const result = await pool.query(`select n from ${table} where id = $1`, [7])
      const [row] = (result as Result).rows as { n: number }[]
      return row?.n ?? -1
    },
    async holding(inside) {
      const own = await pool.connect()
      try {
        await own.query('begin')
        await own.query(text, [1])
        await inside()
        await own.query('commit')
        own.release()
      } catch (error) {
        own.release(true)
        throw error
      }
    },
    end: () => pool.end(),
  }
}

/** What tasks were told of their requests, by outcome. */
class Told {
  readonly counts: Record<string, number> = { there: 0, NotSent: 0, Rejected: 0, Unknown: 0 }
  /** The longest time in which no request succeeded, in milliseconds. */
  standstill = 0
  #last = performance.now()

  async of(request: PromiseLike<unknown>): Promise<void> {
    try {
      await request
    } catch (error) {
      const { outcome } = error as { outcome?: string }
      assert.ok(outcome !== undefined && outcome in this.counts, String(error))
      this.counts[outcome]!++
      return
    }
    this.counts['there']!++
    const now = performance.now()
    this.standstill = Math.max(this.standstill, now - this.#last)
    this.#last = now
  }
}

/** Ends some connections of the table's program now and then, each time after requests were served. */
async function kill(table: string, told: Told): Promise<number> {
  const KILLS = 6
  const AMONG = seconds > 0 ? 500 : 30
  const watcher = client({ connectionsMax: 1 })
  const end = performance.now() + seconds * 1000
  let killed = 0
  while (seconds > 0 ? performance.now() < end : killed < KILLS) {
    const before = told.counts['there']!
    while (told.counts['there']! < before + AMONG) await new Promise(setImmediate)
    if (killed < kills) {
      killed++
      const most = killed % 3 === 0 ? 10 : 1 + Math.floor(Math.random() * 3)
      await watcher`select pg_terminate_backend(pid) from pg_stat_activity
        where application_name = ${table} order by random() limit ${most}`
    }
  }
  await watcher.end()
  return killed
}

for (const max of [3, 2]) {
  test(`a holder of a lock sends pipelines and blocks beside it: ${max} connections`, limits, async () => {
    const table = await makeTable()
    const sql = client({ connectionsMax: max })
    const update = (): PromiseLike<unknown> => sql`update ${sql.id(table)} set n = n + 1 where id = ${1}`
    for (let i = 0; i < 60; i++) await update()
    for (let i = 0; i < 3; i++) {
      let others: Promise<unknown> = Promise.resolve()
      await sql.begin(async (tx) => {
        await tx`update ${tx.id(table)} set n = n + 1 where id = ${1}`
        others = Promise.all([update(), update()])
        await Promise.resolve()
        await sql.pipeline([sql`select n from ${sql.id(table)} where id = ${7}`])
        await sql`do $$ begin perform 1; end $$`
      })
      await others
    }
    await sql.end()
    assert.equal(await drop(table), 60 + 9)
  })
}

test('a read beside a pipeline that waits for its reader fails in time', limits, async () => {
  const table = await makeTable()
  const sql = client({ url: named(table), connectionsMax: 2, waitTimeoutMs: 4000 })
  const watcher = client()
  const name = sql.id(table)
  const read = () => sql<{ n: number }>`select n from ${name} where id = 7`.one()
  for (let i = 0; i < 60; i++) {
    await sql`update ${name} set n = n + 1 where id = 1`
    await read()
  }
  let other: PromiseLike<unknown> | undefined
  await sql.begin(async (tx) => {
    await tx`update ${name} set n = n + 1 where id = 1`
    other = sql.pipeline([sql`update ${name} set n = n + 1 where id = 1`])
    // It is sent once it is awaited.
    void Promise.resolve(other)
    const waiting = () =>
      watcher<{ n: number }>`select count(*)::int as n from pg_stat_activity
        where wait_event_type = 'Lock' and application_name = ${table}`.one()
    while ((await waiting()).n === 0);
    const late = await failure(read())
    assert.deepEqual([late.code, late.outcome], ['wait_timeout', 'NotSent'])
  })
  await other
  assert.equal((await read()).n, 0)
  await sql.end()
  assert.equal(await drop(table), 60 + 2)
})

for (const [name, program] of Object.entries({ modern, 'drop-in': dropIn })) {
  for (const max of [10, 3, 2]) {
    test(`a holder of a lock reads beside it: ${name}, ${max} connections`, limits, async () => {
      const table = await makeTable()
      const it = program(table, max)
      for (let i = 0; i < 60; i++) {
        await it.update(1)
        assert.equal(await it.read(), 0)
      }
      for (let i = 0; i < 3; i++) {
        let other: PromiseLike<unknown> = Promise.resolve()
        await it.holding(async () => {
          other = it.update(1)
          void Promise.resolve(other)
          await Promise.resolve()
          assert.equal(await it.read(), 0)
          await it.update(2)
        })
        await other
      }
      await it.end()
      assert.equal(await drop(table), 60 + 6)
    })
  }

  test(`tasks that lock and read beside others that update go on: ${name}`, limits, async () => {
    const table = await makeTable()
    const it = program(table, 10)
    for (let i = 0; i < 60; i++) {
      await it.update(1)
      await it.read()
    }
    let left = 1000
    const locks = async (): Promise<void> => {
      while (left-- > 0) await it.holding(async () => assert.equal(await it.read(), 0))
    }
    const updates = async (): Promise<void> => {
      while (left-- > 0) await it.update(1)
    }
    await Promise.all([...[1, 2, 3].map(locks), ...[1, 2, 3, 4, 5, 6].map(updates)])
    await it.end()
    assert.equal(await drop(table), 60 + 1000)
  })

  const killed = { timeout: limits.timeout + 2 * seconds * 1000 }
  test(`what tasks that lock were told is true while connections are killed: ${name}`, killed, async () => {
    const table = await makeTable()
    const it = program(table, 10)
    const told = new Told()
    let over = false
    const task = async (one: () => PromiseLike<unknown>): Promise<void> => {
      while (!over) await told.of(one())
    }
    // Another's loss is none of the transaction's.
    const reads = (): Promise<void> => Promise.resolve(it.read()).then(undefined, () => undefined)
    const locks = (): PromiseLike<void> => it.holding(async () => void (await reads()))
    const tasks = [
      ...[1, 2, 3].map(() => task(locks)),
      ...[1, 2, 3, 4, 5, 6].map(() => task(() => it.update(1))),
    ]
    const times = await kill(table, told)
    over = true
    await Promise.all(tasks)
    await it.end()
    const { there, Unknown } = told.counts
    const counted = await drop(table)
    const report = `${name}: ${times} kills, ${JSON.stringify(told.counts)}, the row counts ${counted}, ${told.standstill.toFixed(0)} ms`
    console.log(report)
    assert.ok(counted >= there! && counted <= there! + Unknown!, report)
    // Otherwise it says how busy the machine is.
    if (seconds > 0) assert.ok(told.standstill <= 1200, report)
  })
}
