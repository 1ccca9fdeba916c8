import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'

import { Client } from '../src/pg'
import { type Asked, type Came, type Case, casesOf, check, checkError, newTable, on } from './conformance/cases'

const url = process.env['ONETRIP_TEST_POSTGRES'] ?? ''

/** The cases through the drop-in. It has no lists with one sync point, and its values are those of pg. */
for (const pipeline of [false, true]) {
  describe(`the drop-in${pipeline ? ', pipelined' : ''}`, () => {
    const client = new Client({ connectionString: url, pipeline })
    before(() => client.connect())
    after(() => client.end())

    const run = async ({ text, parameters = [] }: Asked): Promise<Came> => {
      const { fields, rows, rowCount, command } = (await client.query({ text, values: [...parameters], rowMode: 'array' })) as {
        fields: { name: string }[]
        rows: unknown[][]
        rowCount: number | null
        command: string | null
      }
      const columns = fields.map(({ name }) => name)
      return { columns, rows, count: command === 'SELECT' ? null : rowCount }
    }

    const setUp = async ({ setup = [] }: Case): Promise<string> => {
      const table = newTable()
      for (const text of setup) await client.query(text.replaceAll('{t}', table))
      return table
    }

    const inOrder = async (table: string, asked: readonly Asked[] = []): Promise<void> => {
      for (const each of asked) await check(on(table, each), run(on(table, each)))
    }

    for (const it of casesOf('postgres_statements.json')) {
      test(it.name, async () => {
        const table = await setUp(it)
        if (pipeline) {
          await Promise.all(it.statements.map((each) => check(on(table, each), run(on(table, each)))))
        } else {
          await inOrder(table, it.statements)
        }
        await inOrder(table, it.then)
        await client.query(`drop table if exists ${table}`)
      })
    }

    for (const it of casesOf('postgres_transactions.json')) {
      test(it.name, async () => {
        const table = await setUp(it)
        const { isolation, read_only: readOnly } = it.begin ?? {}
        const modes = `${isolation ? ` isolation level ${isolation}` : ''}${readOnly ? ' read only' : ''}`
        await client.query(`begin${modes}`)
        await inOrder(table, it.statements)
        if (typeof it.end === 'object') {
          // As pg: COMMIT of a failed transaction is answered by ROLLBACK.
          const expected = it.end.commit
          const commit = client.query('commit') as Promise<{ command: string }>
          if (expected.sqlstate === undefined) assert.equal((await commit).command, 'ROLLBACK')
          else await assert.rejects(commit, (error: Error) => checkError(error, expected))
        } else {
          await client.query(it.end ?? 'commit')
        }
        await inOrder(table, it.then)
        await client.query(`drop table if exists ${table}`)
      })
    }
  })
}
