import assert from 'node:assert/strict'
import { describe, test } from 'node:test'

import type { Query, Sql, Tag, TransactionOptions } from '../src/modern'
import { type Asked, type Came, type Case, casesOf, check, checkError, newTable, on } from './conformance/cases'
import { statement } from './conformance/texts'
import { client } from './modern/client'

const made = (sql: Tag, { text, parameters = [] }: Asked): Query<unknown[]> => statement(sql, text, parameters).values()

async function cameOf(query: PromiseLike<readonly unknown[][] & { columns: readonly { name: string }[]; count: number | null }>): Promise<Came> {
  const rows = await query
  return { columns: rows.columns.map(({ name }) => name), rows: [...rows], count: rows.count }
}

const run = (sql: Tag, asked: Asked): Promise<Came> => cameOf(made(sql, asked) as never)

async function setUp(sql: Sql, { setup = [] }: Case): Promise<string> {
  const table = newTable()
  for (const text of setup) await statement(sql, text.replaceAll('{t}', table))
  return table
}

async function inOrder(sql: Tag, table: string, asked: readonly Asked[] = []): Promise<void> {
  for (const each of asked) await check(on(table, each), run(sql, on(table, each)))
}

describe('values', () => {
  const sql = client()
  /** What a value of JavaScript does not hold: here the microseconds of a Date. */
  const asFarAsItGoes = (type: string, text: string): string =>
    type === 'timestamptz' ? `date_trunc('milliseconds', ${text})` : text

  for (const it of casesOf('postgres_values.json')) {
    test(it.name, async () => {
      const table = await setUp(sql, it)
      const type = (it.type ?? '').replaceAll('{t}', table)
      for (const [i, text] of (it.texts ?? []).entries()) {
        const literal = `${asFarAsItGoes(type, `'${text.replaceAll("'", "''")}'::${type}`)}`
        const [row] = await statement(sql, `select ${literal}, ${literal}::text`).values()
        const [value, expected] = row as [unknown, string]
        const sent = type.startsWith('json') ? sql.json(value) : value
        const [back] = await statement(sql, `select $1::${type}${type.startsWith('json') ? '::jsonb' : ''}::text`, [sent]).values()
        const wanted = type === 'json' ? (await statement(sql, `select ${literal}::jsonb::text`).values())[0]?.[0] : expected
        assert.equal(back?.[0], wanted, text)
        if (it.reads?.[i] !== undefined) {
          assert.deepEqual(typeof value === 'bigint' ? Number(value) : value, it.reads[i], text)
        }
      }
      if (it.drop !== undefined) await statement(sql, it.drop.replaceAll('{t}', table))
    })
  }
})

describe('statements', () => {
  const sql = client({ connectionsMax: 1 })
  for (const it of casesOf('postgres_statements.json')) {
    test(`${it.name}, one by one`, async () => {
      const table = await setUp(sql, it)
      await inOrder(sql, table, it.statements)
      await inOrder(sql, table, it.then)
      await statement(sql, `drop table if exists ${table}`)
    })
    test(`${it.name}, pipelined`, async () => {
      const table = await setUp(sql, it)
      await Promise.all(it.statements.map((each) => check(on(table, each), run(sql, on(table, each)))))
      await inOrder(sql, table, it.then)
      await statement(sql, `drop table if exists ${table}`)
    })
  }
})

describe('lists of statements with one sync point', () => {
  const sql = client()
  for (const it of casesOf('postgres_pipelines.json')) {
    test(it.name, async () => {
      const table = await setUp(sql, it)
      const asked = it.statements.map((each) => on(table, each))
      const queries = asked.map((each) => made(sql, each))
      const all = sql.pipeline(queries)
      if (it.error === undefined) {
        const results = await all
        for (const [i, each] of asked.entries()) await check(each, cameOf(Promise.resolve(results[i]) as never))
      } else {
        const { error } = it
        await assert.rejects(all, (it: Error) => checkError(it, error))
      }
      await inOrder(sql, table, it.then)
      await statement(sql, `drop table if exists ${table}`)
    })
  }
})

describe('transactions', () => {
  const sql = client()
  for (const it of casesOf('postgres_transactions.json')) {
    test(it.name, async () => {
      const table = await setUp(sql, it)
      const { isolation, read_only: readOnly } = it.begin ?? {}
      const options = { ...(isolation && { isolation }), ...(readOnly && { readOnly }) } as TransactionOptions
      const undone = new Error('rolled back by the case')
      const transaction = sql.begin(options, async (tx) => {
        await inOrder(tx, table, it.statements)
        if (it.end === 'rollback') throw undone
      })
      if (it.end === 'rollback') {
        await assert.rejects(transaction, (error: Error) => error === undone)
      } else if (typeof it.end === 'object') {
        const { commit } = it.end
        await assert.rejects(transaction, (error: Error) => checkError(error, commit))
      } else {
        await transaction
      }
      await inOrder(sql, table, it.then)
      await statement(sql, `drop table if exists ${table}`)
    })
  }
})
