import assert from 'node:assert/strict'
import { describe, test } from 'node:test'

import { postgres, type Query, type Sql, type Tag, type TransactionOptions, type Tx } from '../src/modern'
import type { Config } from '../src/modern/config'
import { type Asked, type Came, type Case, casesOf, newTable } from './conformance/cases'
import { type Place, runCases, type Sent } from './conformance/steps'
import { statement } from './conformance/texts'
import { client } from './modern/client'

const made = (sql: Tag, { text, parameters = [] }: Asked): Query<unknown[]> => statement(sql, text, parameters).values()

async function cameOf(query: PromiseLike<readonly unknown[][] & { columns: readonly { name: string }[]; count: number | null }>): Promise<Came> {
  const rows = await query
  return { columns: rows.columns.map(({ name }) => name), rows: [...rows], count: rows.count }
}

async function setUp(sql: Sql, { setup = [] }: Case): Promise<string> {
  const table = newTable()
  for (const text of setup) await statement(sql, text.replaceAll('{t}', table))
  return table
}

describe('values', () => {
  const sql = client()
  /** Removes from a text what a JavaScript value cannot hold: the microseconds of a Date. */
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

/** A tag as a place of the conformance cases. */
function placeOf(sql: Tag): Place {
  return { ask: (asked) => sent(sql, asked) }
}

function sent(sql: Tag, asked: Asked): Sent {
  const cancel = new AbortController()
  let query = made(sql, asked)
  if (asked.timeout_ms !== undefined) query = query.timeout(asked.timeout_ms)
  if (asked.cancelled) query = query.signal(cancel.signal)
  if (asked.repeatable) query = query.repeatable()
  return { came: cameOf(query as never), cancel: () => cancel.abort() }
}

function placeOfSql(sql: Sql): Place {
  return {
    ...placeOf(sql),
    ...begins(sql),
    ...pipelines(sql, (all) => sql.pipeline(all)),
    async session(run) {
      const session = await sql.session()
      try {
        await run({ ...placeOf(session), ...begins(session) })
      } finally {
        session.release()
      }
    },
    run: (attemptsMax, texts, attempt) =>
      sql.begin({ retry: { attemptsMax } }, async (tx) => {
        attempt()
        for (const text of texts) await statement(tx, text)
      }),
  }
}

function begins(sql: Pick<Sql, 'begin'>): Pick<Place, 'begin'> {
  return {
    async begin({ isolation, read_only: readOnly }, run) {
      const options = { ...(isolation && { isolation }), ...(readOnly && { readOnly }) } as TransactionOptions
      const results = await sql.begin(options, async (tx) => {
        const last = await run(placeOfTx(tx))
        return last && [made(tx, last)]
      })
      return results && cameOf(Promise.resolve(results[0]) as never)
    },
  }
}

function placeOfTx(tx: Tx): Place {
  return {
    ...placeOf(tx),
    ...pipelines(tx, (all) => tx.pipeline(all)),
    savepoint: (run) => tx.savepoint((inner) => run(placeOfTx(inner))),
  }
}

function pipelines(sql: Tag, send: (all: Query<unknown[]>[]) => Promise<unknown>): Pick<Place, 'pipeline'> {
  return {
    pipeline(asked) {
      const all = asked.map((it) => made(sql, it))
      return { end: send(all), each: () => all.map((it) => cameOf(it as never)) }
    },
  }
}

runCases({
  name: 'modern',
  connect(url, settings) {
    const camel = (name: string): string => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
    const named = Object.entries(settings).map(([name, value]) => [camel(name), value])
    const sql = postgres({ url, ...(Object.fromEntries(named) as Config) })
    return { client: placeOfSql(sql), end: () => sql.end({ timeoutMs: 5000 }) }
  },
})
