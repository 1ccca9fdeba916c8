import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runInNewContext } from 'node:vm'

import { client, failure, url } from './modern/client'
import { postgres } from '../src/modern'

test('a template returns its rows, with columns, count and command', async () => {
  const sql = client()
  const rows = await sql<{ n: number; t: string }>`select ${7}::int as n, ${'seven'} as t`
  assert.deepEqual([...rows], [{ n: 7, t: 'seven' }])
  assert.deepEqual([rows.count, rows.command], [1, 'SELECT'])
  assert.deepEqual(
    rows.columns.map(({ name, type }) => [name, type]),
    [
      ['n', 23],
      ['t', 25],
    ],
  )
  assert.equal(Array.isArray(rows), true)
})

test('settings may stand behind a URL, and nowhere else', async () => {
  await using sql = postgres(url, { applicationName: 'behind' })
  const [row] = await sql<{ name: string }>`select current_setting('application_name') as name`
  assert.equal(row?.name, 'behind')
  assert.throws(() => postgres({}, {}), /the first is a URL/)
  assert.throws(() => postgres(undefined, {}), /no url, not undefined: is its variable set\?/)
  for (const given of [5, null, [], true])
    assert.throws(() => postgres(given as never), /^TypeError: postgres: settings are a URL or an object, and not/)
  assert.throws(() => postgres(url, { url }), /the object has no url/)
})

test('values are sent unchanged, whatever characters they have', async () => {
  const sql = client()
  const evil = `'; drop table x; -- " \\ $1 \u{1f600}`
  const [row] = await sql<{ t: string }>`select ${evil} as t`
  assert.equal(row?.t, evil)
})

test('types are decoded as documented', async () => {
  const sql = client()
  const row =
    await sql`select 1::int2 as i2, 2::int4 as i4, 9007199254740993::int8 as i8, 1.5::float8 as f8,
    1.10::numeric as num, true as b, 'x'::text as t, '\\x00ff'::bytea as raw, '{"a":1}'::jsonb as j,
    '2020-01-02 03:04:05.678+00'::timestamptz as tz, '2020-01-02'::date as d, '2020-01-02 03:04:05'::timestamp as ts,
    array[1,null,3]::int8[] as a, array['a','b"c']::text[] as ta, null as nothing`.one()
  assert.deepEqual(row, {
    i2: 1,
    i4: 2,
    i8: 9007199254740993n,
    f8: 1.5,
    num: '1.10',
    b: true,
    t: 'x',
    raw: Buffer.from([0, 255]),
    j: { a: 1 },
    tz: new Date('2020-01-02T03:04:05.678Z'),
    d: '2020-01-02',
    ts: '2020-01-02 03:04:05',
    a: [1n, null, 3n],
    ta: ['a', 'b"c'],
    nothing: null,
  })
})

test('types can be decoded by other functions, by name or number, in arrays too', async () => {
  const sql = client({ types: { int8: Number, 1700: (text: string) => `n${text}` } })
  const row = await sql`select 5::int8 as a, 1.5::numeric as b, array[1.5]::numeric[] as c`.one()
  assert.deepEqual(row, { a: 5, b: 'n1.5', c: ['n1.5'] })
})

test('arrays of box, which have another separator, are read and written as others', async () => {
  const sql = client({ types: { circle: (text: string) => `a ${text}` } })
  const boxes = ['(1,1),(0,0)', null, '(3,3),(2,2)']
  const nested = [boxes, boxes]
  const row = await sql`select array['(1,1),(0,0)', null, '(3,3),(2,2)']::box[] as a,
    '[2:3]={(1,1),(0,0);(3,3),(2,2)}'::box[] as later, '{}'::box[] as none, ${[]}::box[] as empty,
    ${boxes}::box[] as b, ${nested} :: pg_catalog.box[] as c, cast(${nested} as box[][]) as d,
    array_length(${boxes}::box array, 1) as n, ${boxes}::text[]::box[] as e, ${boxes}::_box as f,
    array['((0,0),1)']::circle[] as circles, array['[(0,0),(1,1)]']::lseg[] as segments`.one()
  assert.deepEqual(row, {
    a: boxes,
    later: ['(1,1),(0,0)', '(3,3),(2,2)'],
    none: [],
    empty: [],
    b: boxes,
    c: nested,
    d: nested,
    n: 3,
    e: boxes,
    f: boxes,
    circles: ['a <(0,0),1>'],
    segments: ['[(0,0),(1,1)]'],
  })
  const own = client({ types: { box: (text: string) => text.length } })
  assert.deepEqual(await own`select ${boxes}::box[] as a`.one(), { a: [11, null, 11] })
})

test('parameters of all kinds arrive', async () => {
  const sql = client()
  const date = new Date('2021-03-04T05:06:07.089Z')
  const row =
    await sql`select ${1.5}::float8 as f, ${10n ** 18n}::int8 as i, ${false}::bool as b, ${date}::timestamptz as d,
    ${Buffer.from([1, 2, 255])}::bytea as raw, ${[1, 2]}::int[] as a, ${['x,"y"\\', null, '']}::text[] as ta,
    ${[[1], [2]]}::int[] as nested, ${[Buffer.from([7])]}::bytea[] as raws, ${sql.json({ a: [1] })}::jsonb as j,
    ${null}::text as n, ${new Date('-000044-03-15T00:00:00Z')}::timestamptz::text as bc`.one()
  assert.deepEqual(row, {
    f: 1.5,
    i: 10n ** 18n,
    b: false,
    d: date,
    raw: Buffer.from([1, 2, 255]),
    a: [1, 2],
    ta: ['x,"y"\\', null, ''],
    nested: [[1], [2]],
    raws: [Buffer.from([7])],
    j: { a: [1] },
    n: null,
    bc: row['bc'],
  })
  assert.match(String(row['bc']), /^0045-03-1[45] .* BC$/)
})

test('an object that cannot be a value is refused by its number, and nothing is sent', async () => {
  const sql = client()
  for (const [value, says] of [
    [undefined, /parameter 2 is undefined/],
    [{ a: 1 }, /parameter 2 is an object: use sql\.json/],
    [() => 1, /parameter 2 is a function/],
    [new Date(NaN), /parameter 2 is an invalid Date/],
    [[1, undefined], /parameter 2\[1\] is undefined/],
    [new Map(), /parameter 2 is a Map/],
  ] as const) {
    const error = await failure(sql`select ${1}, ${value as never}`)
    assert.match(error.message, says)
    assert.deepEqual([error.code, error.outcome], ['unencodable_parameter', 'NotSent'])
  }
  assert.throws(() => sql.json(undefined), /no JSON/)
  assert.equal(sql.stats.connections, 0)
})

test('an array that contains itself is refused by its number, and nothing is sent', async () => {
  const sql = client()
  const circle: unknown[] = [1]
  circle.push(circle, circle)
  let deep: unknown[] = []
  for (let i = 0; i < 100_000; i++) deep = [deep]
  for (const value of [circle, deep]) {
    const error = await failure(sql`select ${1}, ${value as never}`)
    assert.match(error.message, /^parameter 2 is an array that contains itself/)
    assert.deepEqual([error.code, error.outcome], ['unencodable_parameter', 'NotSent'])
  }
  assert.equal(sql.stats.connections, 0)
  const whole = await failure(
    sql.begin(async (tx) => {
      await tx`select 1`
      await tx`select ${circle as never}`
    }),
  )
  assert.deepEqual([whole.code, whole.outcome], ['unencodable_parameter', 'Rejected'])
})

test('a call that is not a tagged template is refused', () => {
  const sql = client()
  const call = sql as unknown as (...args: unknown[]) => unknown
  const forged = Object.assign(['select 1'], { raw: ['select 1'] })
  const hidden = Object.defineProperty(['select 1'], 'raw', { value: ['select 1'] })
  assert.throws(() => call('select 1'), /sql is a tag, not a function/)
  assert.throws(() => call(['select 1']), /sql is a tag, not a function/)
  assert.throws(() => call(JSON.parse('["select 1"]')), { code: 'not_a_template' })
  assert.throws(() => call(), { code: 'not_a_template' })
  assert.throws(() => call(forged), { code: 'forged_template' })
  assert.throws(() => call(hidden), { code: 'forged_template' })
  assert.throws(() => sql`select '\u{zzz}'`, { code: 'invalid_escape' })
})

test('fragments, names and lists compose, and their values are numbered through', async () => {
  const sql = client()
  const where = sql`n > ${1} and n < ${5}`
  const list = sql.join([sql`n`, sql`n * ${10} as tens`])
  const rows =
    await sql`select ${list} from generate_series(${0}::int, 9) as ${sql.id('we"ird')}(n) where ${where} and n <> ${3}`
  assert.deepEqual(
    [...rows],
    [
      { n: 2, tens: 20 },
      { n: 4, tens: 40 },
    ],
  )
  const any = await sql<{
    n: number
  }>`select n from generate_series(1, 9) n where n = any(${[2, 3]}) or n in (${sql.join([7, 8])})`
  assert.deepEqual(
    any.map((row) => row.n),
    [2, 3, 7, 8],
  )
  const or = sql.join([sql`n = 1`, sql`n = 2`], sql` or `)
  assert.equal((await sql`select from generate_series(1, 9) n where ${or}`).count, 2)
  assert.throws(() => sql.id('a', ''), { code: 'identifier' })
  assert.throws(() => sql.join([]), { code: 'nothing_to_join' })
  assert.match((await failure(sql`select ${[sql`1`] as never}`)).message, /sql\.join/)
})

test('a statement is sent once, when it is first awaited, and not before', async () => {
  const sql = client()
  await sql`create table if not exists modern_once (n serial)`
  const insert = sql`insert into modern_once default values`
  const before = await sql<{ n: number }>`select count(*)::int as n from modern_once`.one()
  await Promise.all([insert, insert, insert.then((rows) => rows.count)])
  const after = await sql<{ n: number }>`select count(*)::int as n from modern_once`.one()
  assert.equal(after.n, before.n + 1)
  assert.match((await failure(sql`select (${insert})`)).message, /was sent/)
  await sql`drop table modern_once`
})

test('rows are returned as arrays, as the only one, or as the first', async () => {
  const sql = client()
  assert.deepEqual([...(await sql`select 1 as a, 2 as a`.values())], [[1, 2]])
  assert.deepEqual(
    [...(await sql`select 1 as "__proto__", 2 as a`)].map((row) => Object.keys(row)),
    [['__proto__', 'a']],
  )
  assert.equal(await sql`select where false`.first(), undefined)
  assert.deepEqual(await sql`select n from generate_series(1, 2) n`.first(), { n: 1 })
  const none = await failure(sql`select where false`.one())
  assert.deepEqual([none.code, none.outcome], ['no_rows', 'Applied'])
  assert.equal((await failure(sql`select from generate_series(1, 2)`.one())).code, 'too_many_rows')
})

test('counts and commands come from the tag', async () => {
  const sql = client()
  await sql.begin(async (tx) => {
    const made = await tx`create temp table modern_tags (n int)`
    assert.deepEqual([made.count, made.command, made.length], [0, 'CREATE TABLE', 0])
    const inserted = await tx`insert into modern_tags select generate_series(1, 3)`
    assert.deepEqual([inserted.count, inserted.command], [3, 'INSERT'])
    const returned = await tx`update modern_tags set n = n + 1 returning n`
    assert.deepEqual([returned.count, returned.command, returned.length], [3, 'UPDATE', 3])
    const shown = await tx`show work_mem`
    assert.deepEqual([shown.count, shown.command, shown.length], [1, 'SHOW', 1])
    const explained = await tx`explain select 1`
    assert.deepEqual([explained.count, explained.command], [explained.length, 'EXPLAIN'])
    for (const nothing of [await tx``, await tx`-- nothing`])
      assert.deepEqual([nothing.count, nothing.command, nothing.length], [0, '', 0])
  })
})

test('a timestamptz in another style than ISO is an error, and never null', async () => {
  const sql = client({ options: '-c datestyle=German' })
  for (const query of [sql`select now()`, sql`select array[now()]`]) {
    const error = await failure(query)
    assert.deepEqual([error.code, error.outcome], ['conversion', 'Applied'])
    assert.match(error.message, /let DateStyle begin with ISO/)
  }
  const iso = client({ options: '-c datestyle=ISO,DMY' })
  const moment = await iso`select '31/12/1999 0:00+00'::timestamptz as m, null::timestamptz as n`
  assert.deepEqual(moment[0], { m: new Date(Date.UTC(1999, 11, 31)), n: null })
  assert.equal((await iso`select 'infinity'::timestamptz as m`.one())['m'], Infinity)
})

test('an error of the server has its message, its statement and its outcome', async () => {
  const sql = client()
  const error = await failure(sql`select 1 / ${0}::int as x`)
  assert.equal(error.message, 'division by zero (22012)')
  assert.deepEqual(
    [error.code, error.sqlstate, error.outcome, error.query],
    ['22012', '22012', 'Rejected', 'select 1 / $1::int as x'],
  )
  assert.equal(Object.keys(error).includes('query'), false)
  const syntax = await failure(sql`select from from`)
  assert.equal(syntax.position, 13)
  // Its neighbours are not affected.
  const [a, b, c] = await Promise.allSettled([
    sql`select 1 as n`,
    sql`select 1 / 0`,
    sql`select 2 as n`,
  ])
  assert.deepEqual([a.status, b.status, c.status], ['fulfilled', 'rejected', 'fulfilled'])
})

test('a value without a parameter in its statement is refused by the server, prepared or not', async () => {
  const sql = client()
  for (let i = 0; i < 8; i++) {
    const error = await failure(sql`select ${1}::int /* ${2} */`)
    assert.deepEqual([error.sqlstate, error.outcome], ['08P01', 'Rejected'])
  }
})

test('a value that its parser refuses is an error of that statement, which has run', async () => {
  const sql = client({
    types: {
      int4: () => {
        throw new Error('no')
      },
    },
  })
  const error = await failure(sql`select 1 as a`)
  assert.deepEqual([error.code, error.outcome], ['conversion', 'Applied'])
  assert.deepEqual([...(await sql`select 'x' as t`)], [{ t: 'x' }])
})

test('a result that is too large is dropped, and the connection goes on', async () => {
  const sql = client({ resultBytesMax: 100_000, connectionsMax: 1 })
  const error = await failure(sql`select repeat('x', 1000) from generate_series(1, 1000)`)
  assert.deepEqual([error.code, error.outcome], ['result_too_large', 'Applied'])
  assert.equal((await sql`select 1`).count, 1)
})

test('statements of a session are refused on a shared connection', async () => {
  const sql = client()
  for (const [query, code] of [
    [sql`begin`, 'transaction_control'],
    [sql`/* a */ COMMIT`, 'transaction_control'],
    [sql`set search_path to x`, 'session_state'],
    [sql`listen a`, 'session_state'],
    [sql`create temp table a (n int)`, 'session_state'],
    [sql`select pg_advisory_lock(1)`, 'session_state'],
    [sql`set local x.y to 1`, 'transaction_local'],
    [sql`copy a from stdin`, 'copy'],
    [sql`select 1; select ';'`, 'several'],
  ] as const) {
    const error = await failure(query)
    assert.deepEqual([error.code, error.outcome], [code, 'NotSent'])
  }
  assert.equal((await sql`select 'begin; set x', pg_try_advisory_xact_lock(1);`).count, 1)
})

test('each of 10,000 statements at once gets its own answer', { timeout: 600_000 }, async () => {
  const sql = client()
  const rows = await Promise.all(
    Array.from({ length: 10_000 }, (_, n) => sql<{ n: number }>`select ${n}::int as n`.one()),
  )
  assert.equal(
    rows.every((row, n) => row.n === n),
    true,
  )
  assert.ok(sql.stats.connections <= 10)
})

test('statements that are sent without waiting share one write', async () => {
  const sql = client({ connectionsMax: 1 })
  await sql`select 1`
  const [a, b] = await Promise.all([
    sql`select now() as n, pg_backend_pid() as p`,
    sql`select pg_backend_pid() as p`,
  ])
  assert.equal(a[0]?.['p'], b[0]?.['p'])
})

test('more parameters than the protocol allows are refused', async () => {
  const sql = client()
  const many = sql.join(Array.from({ length: 65_536 }, (_, n) => n))
  assert.equal((await failure(sql`select ${many}`)).code, 'too_many_parameters')
})

test('wrong settings are refused by name, and never shown', () => {
  for (const [config, says] of [
    ['mysql://x', /connection string begins with postgres/],
    ['postgres://u:secret@h:99999/db', /port is a number/],
    ['postgres://h/db?connections_max=0', /connections_max must be at least 1/],
    ['postgres://h/db?sslmode=maybe', /sslmode takes one of/],
    ['postgres://h/db?nonsense=1', /there is no keyword nonsense/],
    ['postgres://h,h2:1,h3:2?port=1,2', /one port for all hosts/],
    [{ connectionsMax: -1 }, /connections_max must be at least 1/],
    [{ connectionsMax: 'many' }, /connections_max takes a whole number/],
    [{ queueMax: 2 ** 31 }, /queue_max must be at most 2147483647/],
    [{ slowHeadMs: 1e300 }, /slow_head_ms must be at most 2147483647/],
    [{ slowHeadMs: Infinity }, /slow_head_ms must be at most 2147483647/],
    [{ slowHeadMs: NaN }, /slow_head_ms takes a whole number/],
    ['postgres://h/db?service=secret', /the service has no section in /],
    [{ tpyes: {} }, /there is no keyword tpyes/],
    [{ types: { nope: String } }, /nope is not a built-in type/],
  ] as const) {
    assert.throws(
      () => postgres(config as string),
      (error: Error) => says.test(error.message) && !error.message.includes('secret'),
    )
  }
  assert.ok(url)
})

test('a Date of another realm is a Date', async () => {
  const moment = runInNewContext('new Date(0)') as Date
  const row = await client()`select ${moment}::timestamptz as a, ${[moment]}::timestamptz[] as b`.one()
  assert.deepEqual(row, { a: new Date(0), b: [new Date(0)] })
})

test('bytes of another realm are bytes', async () => {
  const sql = client()
  for (const text of ['new Uint8Array([1, 255])', 'new Uint8Array([1, 255]).buffer']) {
    const bytes = runInNewContext(text) as Uint8Array
    assert.equal((await sql`select encode(${bytes}::bytea, 'hex') as h`.one())['h'], '01ff')
  }
})

test('a wrong argument is an error at once, with an outcome', async () => {
  const sql = client()
  const circle: { own?: unknown } = {}
  circle.own = circle
  const calls: [() => unknown, string][] = [
    [() => sql.json(circle), 'unencodable_parameter'],
    [() => sql.json(1n as never), 'unencodable_parameter'],
    [() => sql`select 1`.signal({} as AbortSignal), 'wrong_argument'],
    [() => sql.begin({ isolationLevel: 'serializable' } as object, () => 1), 'wrong_argument'],
    [() => sql.begin(undefined as never), 'wrong_argument'],
  ]
  for (const [call, code] of calls) {
    const error = await failure((async () => await call())())
    assert.deepEqual([error.code, error.outcome], [code, 'NotSent'])
    assert.doesNotMatch(error.message, /\n/)
  }
  assert.throws(() => client({ onNotice: 5 as never }), /onNotice takes a function/)
})
