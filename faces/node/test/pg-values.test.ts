import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { inspect } from 'node:util'

import { Flag } from '../src/engine/exports'
import { Asker, openPg, seeded, type PgClient } from './pg/ask'
import { EXPRESSIONS, SETTINGS, SETUP, TEARDOWN } from './pg/expressions'

let theirs: PgClient
let ours: Asker

before(async () => {
  theirs = await openPg()
  ours = await Asker.open()
  for (const text of SETUP) await theirs.query(text)
  for (const text of SETTINGS) {
    await theirs.query(text)
    await ours.ask(text)
  }
})
after(async () => {
  await theirs.query(TEARDOWN)
  await theirs.end()
  ours.close()
})

test('there are many expressions', () => assert.ok(EXPRESSIONS.length >= 150))

for (const expression of EXPRESSIONS) {
  test(`the value is the same as in pg: ${expression}`, async () => {
    // Code is generated only after some rows.
    const text = `select ${expression} as value from generate_series(1, 20)`
    for (const rowMode of ['object', 'array'] as const) {
      const [expected, actual] = await Promise.all([
        theirs.query({ text, rowMode, queryMode: 'extended' }),
        ours.ask({ text, rowMode }),
      ])
      assert.deepStrictEqual(comparable(actual.rows), comparable(expected.rows))
      assert.deepStrictEqual(plain(actual.fields), plain(expected.fields))
      assert.equal(inspect(actual.rows, DEEP), inspect(expected.rows, DEEP))
    }
  })
}

test('results are printed and copied as those of pg are', async () => {
  for (const text of [
    "select 1 as a, 'x' as b",
    'select 1 as a, 2 as a, null as b',
    'select 1 as "__proto__", 2 as "constructor", 3 as "7", 4 as "1"',
    'select where false',
    'begin',
    'rollback',
    'create temp table printed (id int primary key)',
    'insert into printed values (1), (2)',
    'update printed set id = id + 10',
    'delete from printed',
    'drop table printed',
    'set application_name = a',
  ]) {
    for (const rowMode of ['object', 'array'] as const) {
      if (rowMode === 'array' && !text.startsWith('select')) continue
      const expected = await theirs.query({ text, rowMode })
      const actual = await ours.ask({ text, rowMode })
      // pg's results keep the types of their client; ours were made without.
      const shown = (result: object): string => inspect({ ...result, _types: undefined }, DEEP)
      assert.equal(shown(actual), shown(expected))
      assert.equal(json(actual), json(expected))
      assert.deepEqual(Object.keys(actual), Object.keys(expected))
      assert.deepEqual(plain(actual.rows), plain(expected.rows))
    }
  }
})

test('a result of many rows is the same as in pg', async () => {
  const text = `select i as id, 'name ' || i as name, i * 1.5::float8 / 7 as score, i % 2 = 0 as ok,
    now() + i * interval '1 day' as at, (i * 1000)::int8 as big, case when i % 3 = 0 then null else i end as some,
    repeat('ä', i % 40) as wide, random()::float4 is null as never
    from generate_series(1, 3000) i`
  await theirs.query('begin')
  const expected = await theirs.query(
    text.replace('now()', "'2020-02-03 04:05:06.789+02'::timestamptz"),
  )
  await theirs.query('commit')
  const actual = await ours.ask(text.replace('now()', "'2020-02-03 04:05:06.789+02'::timestamptz"))
  assert.deepStrictEqual(actual.rows, expected.rows)
})

test('numbers of any length are read as they are parsed', async () => {
  const random = seeded()
  const texts = Array.from({ length: 2000 }, () => {
    const digits = Array.from({ length: random.below(19) + 1 }, () => random.below(10)).join('')
    const exponent = random.below(3) === 0 ? `e${random.below(600) - 300}` : ''
    const point = random.below(digits.length + 1)
    return `${random.below(2) ? '-' : ''}${digits.slice(0, point)}.${digits.slice(point)}${exponent}`
  })
  const text = 'select x::float8 as wide, x::float8::float4 as narrow from unnest($1::text[]) x'
  const values = [`{${texts.filter((one) => Math.abs(Number(one)) < 1e38).join(',')}}`]
  const usable = `{${values[0]
    ?.slice(1, -1)
    .split(',')
    .filter((one) => Number(one) === 0 || Math.abs(Number(one)) > 1e-37)}}`
  const expected = await theirs.query(text, [usable])
  const actual = await ours.ask({ text, values: [usable] })
  assert.deepStrictEqual(actual.rows, expected.rows, `seed ${random.seed}`)
})

test('binary values are those of pg, but for bytes that pg takes for broken texts', async () => {
  const text =
    'select 1::int4 as a, 7::int2 as b, true as c, 5::oid as d, 12::int8 as e, $1::text as f, null::int4 as g'
  const expected = await theirs.query({ text, values: ['é'], binary: true } as object)
  const actual = await ours.ask({ text, values: ['é'], flags: Flag.BINARY | Flag.UNPREPARED })
  assert.deepStrictEqual(actual.rows, expected.rows)
  assert.deepStrictEqual(plain(actual.fields), plain(expected.fields))
  const minus = await ours.ask({
    text: 'select -2::int4 as a',
    flags: Flag.BINARY | Flag.UNPREPARED,
  })
  assert.deepStrictEqual(minus.rows, [{ a: -2 }])
})

test('errors and notices have the same fields as in pg', async () => {
  const text = `select nope from pg_class`
  const raising = `do $$ begin raise exception using message = 'ä message', detail = 'd', hint = 'h', errcode = 'P0042',
    column = 'c', constraint = 'n', datatype = 't', table = 'tt', schema = 's'; end $$`
  for (const one of [text, raising, 'select 1/0', "select 'x'::int", 'selec']) {
    const expected = await theirs
      .query({ text: one, queryMode: 'extended' })
      .catch((error: unknown) => error)
    const actual = await ours.ask(one).catch((error: unknown) => error)
    assert.ok(expected instanceof Error && actual instanceof Error)
    assert.equal(actual.message, expected.message)
    assert.deepEqual(Object.entries(actual), Object.entries(expected))
    assert.equal(actual.constructor.name, expected.constructor.name)
    assert.equal(String(actual), String(expected))
    assert.equal(JSON.stringify(actual), JSON.stringify(expected))
  }
  const heard: object[] = []
  theirs.on('notice', (message) => heard.push(message))
  const noticing = "do $$ begin raise notice 'hello %', 1 using hint = 'h'; end $$"
  await theirs.query({ text: noticing, queryMode: 'extended' })
  await ours.ask(noticing)
  assert.deepEqual(
    ours.notices.map((one) => Object.entries(one)),
    heard.map((one) => Object.entries(one)),
  )
  assert.equal(inspect(ours.notices), inspect(heard))
})

const DEEP = { depth: 10, maxArrayLength: 1000, maxStringLength: 100_000 }

/** Replaces invalid dates, which an assertion never finds equal. */
function comparable(value: unknown): unknown {
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'no date' : value
  if (Array.isArray(value)) return value.map(comparable)
  if (typeof value !== 'object' || value === null) return value
  if (Object.getPrototypeOf(value) !== Object.prototype) return value
  const entries = Object.entries(value).map(([name, one]) => [name, comparable(one)])
  return Object.fromEntries(entries) as object
}

/** The objects without their classes. */
function plain(objects: readonly object[]): object[] {
  return objects.map((one) => Object.fromEntries(Object.entries(one)))
}

function json(result: object): string {
  return JSON.stringify({ ...result, _types: undefined })
}
