// A statement that waits for a lock holds up nobody who could go elsewhere, and those behind it
// only for a while: whoever holds the lock may be waiting for one of them.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { Pool, type Result } from '../src/pg'
import { client, url } from './modern/client'

/** Only a hang reaches it. */
const limits = { timeout: 60_000 }

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

async function drop(name: string): Promise<number> {
  const sql = client()
  const [row] = await sql<{ n: number }>`select n from ${sql.id(name)} where id = 1`
  await sql`drop table ${sql.id(name)}`
  await sql.end()
  return row?.n ?? -1
}

function modern(table: string, connectionsMax: number): Program {
  const sql = client({ connectionsMax })
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
  const pool = new Pool({ connectionString: url, max, pipeline: true })
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
      await own.query('begin')
      await own.query(text, [1])
      await inside()
      await own.query('commit')
      own.release()
    },
    end: () => pool.end(),
  }
}

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
}
