// People change their schema while programs run. A client behind a migration stores and returns what
// one that was started after it would. docs/concepts/migrations.md has the promise; what is stored is
// compared with what the real pg stores, which parses each query anew.

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'

import { Pool } from '../src/pg'
import { client as modern, failure, url } from './modern/client'

const limits = { timeout: 600_000 }

/** Uses that have a text prepared on its connection. */
const OFTEN = 8

interface Rows {
  readonly rows: readonly Record<string, unknown>[]
}

type Run = (text: string, values?: readonly unknown[]) => Promise<Rows['rows']>

/** A client. */
interface Subject {
  query(text: string, values?: readonly unknown[], name?: string): Promise<Rows['rows']>
  /** Runs statements in one transaction; returns the rows of the last one. */
  transaction(...statements: readonly [text: string, values?: readonly unknown[]][]): Promise<Rows['rows']>
  /** Runs statements in one session. */
  session(work: (query: Run) => Promise<void>): Promise<void>
  end(): Promise<unknown>
}

interface PgClient {
  query(query: object): Promise<Rows>
  release(): void
}
interface PgPool {
  query(query: object): Promise<Rows>
  connect(): Promise<PgClient>
  end(): Promise<void>
}

function ofPool(pool: PgPool): Subject {
  const lent = async <T>(work: (client: PgClient) => Promise<T>): Promise<T> => {
    const client = await pool.connect()
    try {
      return await work(client)
    } finally {
      client.release()
    }
  }
  return {
    query: async (text, values = [], name = undefined) =>
      (await pool.query({ text, values, ...(name !== undefined && { name }) })).rows,
    transaction: (...statements) =>
      lent(async (client) => {
        await client.query({ text: 'begin' })
        try {
          let rows: Rows['rows'] = []
          for (const [text, values = []] of statements) rows = (await client.query({ text, values })).rows
          await client.query({ text: 'commit' })
          return rows
        } catch (error) {
          await client.query({ text: 'rollback' })
          throw error
        }
      }),
    session: (work) =>
      lent((client) => work(async (text, values = []) => (await client.query({ text, values })).rows)),
    end: () => pool.end(),
  }
}

/** A text with `$1` and so on as a template, which only the language itself makes. */
function tagged(tag: unknown, text: string, values: readonly unknown[]): Promise<Rows['rows']> {
  const held = text.replaceAll(/\$(\d)/g, (_, n: string) => `\${values[${Number(n) - 1}]}`)
  const of = Function('tag', 'values', `return tag\`${held}\``) as (...given: unknown[]) => Promise<Rows['rows']>
  return of(tag, values)
}

function ofModern(connections: number): Subject {
  const sql = modern({ connectionsMax: connections })
  const run = async (tag: unknown, text: string, values: readonly unknown[] = []): Promise<Rows['rows']> => [
    ...(await tagged(tag, text, values)),
  ]
  return {
    query: (text, values) => run(sql, text, values),
    transaction: (...statements) =>
      sql.begin(async (tx) => {
        let rows: Rows['rows'] = []
        for (const [text, values] of statements) rows = await run(tx, text, values)
        return rows
      }),
    session: async (work) => {
      const session = await sql.session()
      try {
        await work((text, values) => run(session, text, values))
      } finally {
        session.release()
      }
    },
    end: () => Promise.resolve(),
  }
}

const ours = (max: number, pipeline: boolean): Subject =>
  ofPool(new Pool({ connectionString: url, max, pipeline }) as unknown as PgPool)

const FACES: Readonly<Record<string, (connections?: number) => Subject>> = {
  pg: (connections = 1) => ours(connections, false),
  'pg pipelined': (connections = 1) => ours(connections, true),
  modern: (connections = 1) => ofModern(connections),
}

const { Pool: RealPool } = require('pg') as { Pool: new (config: object) => PgPool }
const admin = new RealPool({ connectionString: url, max: 1 })
const alter = async (text: string): Promise<Rows['rows']> => (await admin.query({ text, values: [] })).rows

before(async () => {
  await admin.query({ text: 'create schema moving' })
})
after(async () => {
  await admin.query({ text: 'drop schema moving cascade' })
  await admin.end()
})

let tables = 0
const newName = (): string => `moving.n${process.pid}_${++tables}`

const AT = '2020-01-01 12:00:00'

/** From and to which type, a value of before, and values that are stored behind the migration. */
const STORED: readonly [from: string, to: string, before: unknown, after: readonly unknown[]][] = [
  ['timestamp', 'timestamptz', AT, [`${AT}+05:00`, new Date('2020-01-01T12:00:00Z')]],
  ['timestamptz', 'timestamp', `${AT}+00`, [`${AT}+05:00`]],
  ['date', 'timestamptz', '2020-01-01', [`${AT}+00`]],
  ['date', 'timestamp', '2020-01-01', [AT]],
  ['int', 'text', 7, ['007', '+7', 7]],
  ['int', 'bigint', 7, [3_000_000_000, 9_007_199_254_740_993n]],
  ['int', 'jsonb', 7, ['{"a": 1}', 7]],
  ['int', 'uuid', 7, ['a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11']],
  ['int', 'int[]', 7, [[1, 2]]],
  ['float4', 'numeric', 0.5, [0.12345678901234567, '1.50']],
  ['float4', 'float8', 0.5, [0.1, 16777217]],
  ['char(4)', 'text', 'a', ['b ', 'cd']],
  ['inet', 'text', '10.0.0.1', ['1.2.3.4']],
  ['bool', 'text', true, ['t', true]],
]

for (const [name, open] of Object.entries(FACES)) {
  describe(name, () => {
    for (const [from, to, value, values] of STORED) {
      test(`${name}: ${from} to ${to}: what is stored is what the real pg stores`, limits, async () => {
        const [client, t] = [open(), newName()]
        await alter(`create table ${t} (id serial, a ${from})`)
        const insert = `insert into ${t} (a) values ($1)`
        for (let i = 0; i < OFTEN; i++) await client.query(insert, [value])
        await alter(`truncate ${t}; alter table ${t} alter a type ${to} using null`)
        const texts = async (): Promise<unknown[]> =>
          (await alter(`select a::text from ${t} order by id`)).map((row) => row['a'])
        for (const one of values) await client.query(insert, [one])
        const ours = await texts()
        await alter(`truncate ${t}`)
        for (const one of values) await admin.query({ text: insert, values: [one] } as object)
        assert.deepEqual(ours, await texts())
        await client.end()
      })
    }

    test(`${name}: a text is compared as the type that its column has now`, limits, async () => {
      const [client, t] = [open(), newName()]
      await alter(`create table ${t} (a int)`)
      const find = `select count(*)::int as n from ${t} where a = $1`
      for (let i = 0; i < OFTEN; i++) await client.query(find, ['7'])
      await alter(`alter table ${t} alter a type text; insert into ${t} values ('007')`)
      const counts = async (value: string): Promise<unknown> => (await client.query(find, [value]))[0]?.['n']
      assert.deepEqual([await counts('7'), await counts('007')], [0, 1])
      await client.end()
    })

    test(`${name}: sessions with their own paths have their own meanings`, limits, async () => {
      const [client, one, two] = [open(), ...['one', 'two'].map((it) => `n${process.pid}_${++tables}_${it}`)] as [
        Subject,
        string,
        string,
      ]
      await alter(`create schema ${one}; create type ${one}.mood as enum ('glad');
        create table ${one}.visit (at date, mood ${one}.mood);
        create schema ${two}; create type ${two}.mood as enum ('sad');
        create table ${two}.visit (at timestamp, mood ${two}.mood)`)
      const insert = 'insert into visit values ($1, $2) returning at::text as at'
      const told: unknown[] = []
      const work = async (schema: string, mood: string): Promise<void> =>
        client.session(async (query) => {
          await query(`set search_path = ${schema}`)
          for (let i = 0; i < 2; i++) told.push((await query(insert, [AT, mood]))[0]?.['at'])
        })
      for (let i = 0; i < OFTEN; i++) {
        await work(one, 'glad')
        await work(two, 'sad')
      }
      const round = ['2020-01-01', '2020-01-01', AT, AT]
      assert.deepEqual(told, Array.from({ length: OFTEN }, () => round).flat())
      await alter(`drop schema ${one}, ${two} cascade`)
      await client.end()
    })

    test(`${name}: an enum that is made anew costs one error at most`, limits, async () => {
      const [client, t] = [open(), newName()]
      await alter(`create type ${t}_e as enum ('a'); create table ${t} (a ${t}_e)`)
      const texts = [`insert into ${t} values ($1)`, `select a from ${t} where a = $1`, `select $1::${t}_e as a`]
      const run = async (text: string): Promise<unknown> => client.transaction(['select 1'], [text, ['a']])
      for (let i = 0; i < OFTEN; i++) for (const text of texts) await run(text)
      await alter(`truncate ${t}; alter table ${t} drop a; drop type ${t}_e;
        create type ${t}_e as enum ('b', 'a'); alter table ${t} add a ${t}_e`)
      const errors: unknown[] = []
      for (let i = 0; i < 2; i++) {
        for (const text of texts) await run(text).catch((error: unknown) => errors.push(error))
      }
      assert.ok(errors.length <= 1, String(errors))
      await client.end()
    })

    test(`${name}: columns that are added cost one transaction at most`, limits, async () => {
      const [client, t] = [open(3), newName()]
      await alter(`create table ${t} (a int); insert into ${t} values (1)`)
      const reads = [0, 1, 2].map((number) => `select *, ${number} + $1::int as n from ${t}`)
      const errors: string[] = []
      const all = async (sessions: readonly Run[], isBehind: boolean): Promise<void> => {
        for (const read of reads) {
          for (const query of sessions) {
            await query('begin')
            await query('select 1')
            await query(read, [0]).then(
              (rows) => assert.equal(rows[0]?.['b'], isBehind ? '10.0.0.1' : undefined),
              (error: { code?: string }) => errors.push(String(error.code)),
            )
            await query('rollback')
          }
        }
      }
      await client.session((one) =>
        client.session((two) =>
          client.session(async (three) => {
            for (let i = 0; i < OFTEN; i++) await all([one, two, three], false)
            await alter(`alter table ${t} add b inet default '10.0.0.1'`)
            for (let i = 0; i < 2; i++) await all([one, two, three], true)
          }),
        ),
      )
      assert.ok(errors.length <= 1 && errors.every((it) => it === '0A000'), String(errors))
      // What stands alone costs none.
      await alter(`alter table ${t} add c int default 3`)
      for (const read of reads) assert.equal((await client.query(read, [0]))[0]?.['c'], 3)
      await client.end()
    })
  })
}

for (const name of ['pg', 'pg pipelined']) {
  test(`${name}: names that share 63 bytes never stand for each other's text`, limits, async () => {
    const client = FACES[name]?.() as Subject
    const common = 'x'.repeat(63)
    assert.deepEqual(await client.query('select 1 as a', [], `${common}1`), [{ a: 1 }])
    const error = await failure(client.query('select 2 as b', [], `${common}2`))
    assert.match(error.message, /must be unique/)
    assert.deepEqual(await client.query('select 1 as a', [], `${common}1`), [{ a: 1 }])
    await client.end()
  })
}

test('modern: a transaction is run again whose text has lost its meaning', limits, async () => {
  const sql = modern({ connectionsMax: 1 })
  const name = newName()
  await alter(`create table ${name} as select 7::bigint as a`)
  let runs = 0
  const find = (): Promise<unknown> =>
    sql.begin({ retry: true }, async (tx) => {
      runs++
      await tx`select 1`
      return [...(await tagged(tx, `select 8 as n from ${name} where a = $1`, [7]))]
    })
  for (let use = 0; use < OFTEN; use++) assert.deepEqual(await find(), [{ n: 8 }])
  await alter(`alter table ${name} alter a type text`)
  assert.deepEqual(await find(), [{ n: 8 }])
  assert.equal(runs, OFTEN + 2)
})
