import assert from 'node:assert/strict'
import { test } from 'node:test'

import { Client, Query, Result, type Results } from '../src/pg'
import { both, bothAlone, connected, event, settled, url } from './pg-both'

const rowsOf = (results: Results): unknown => (results as Result).rows

both('values of any type come as pg has them', (client) =>
  client.query(
    `select 1::int2 a, 2::int4 b, 3::int8 c, 4.5::float4 d, 5.5::float8 e, 6.78::numeric f, true g, 'ü𝄞' h,
      '\\x00ff'::bytea i, '{"a":[1,null]}'::jsonb j, '{1,null,3}'::int[] k, date '2024-02-29' l,
      timestamp '2024-01-02 03:04:05.678' m, timestamptz '2024-01-02 03:04:05.678+02' n, null o, point '(1,2)' p,
      interval '1 day 2 hours' q, '{a,"b c",null}'::text[] r, 'a'::char(3) s, repeat('x', 300000) t`,
  ),
)

both('parameters of any type arrive as pg sends them', (client) =>
  client.query(
    `select $1::text a, $2::int b, $3::bool c, $4::timestamptz d, $5::bytea e, $6::int[] f, $7::jsonb g, $8::text h,
      $9::text i, $10::float8 j, $11::int8 k`,
    ['ü', 5, false, new Date(1e12), Buffer.from([0, 255]), [1, null, 3], { a: 1 }, null, undefined, 1.5, 2n ** 40n],
  ),
)

both('several statements have a result each', (client) =>
  client.query('select 1 a; select 2 b, 3 c where false; create temp table t (i int); insert into t values (4), (5); ; table t'),
)
both('an empty text has an empty result', (client) => client.query(''))
both('an empty list of values makes no extended query', (client) => client.query('select 1; select 2', []))
both('queryMode extended refuses several statements', (client) =>
  settled(client.query({ text: 'select 1; select 2', queryMode: 'extended' })),
)
both('queryMode extended runs one', (client) => client.query({ text: 'select 1 a', queryMode: 'extended' }))
both('rowMode array keeps columns of the same name apart', (client) =>
  client.query({ text: 'select 1 a, 2 a, $1::text b', values: ['x'], rowMode: 'array' }),
)
both('of columns of the same name the last is seen', (client) => client.query('select 1 a, 2 b, 3 a'))
both('columns may have any name', (client) =>
  client.query('select 1 "__proto__", 2 "constructor", 3 " ", 4 "a b", 5 "Ü", 6 "\'\n"'),
)
both('values in binary form come as bytes where nobody reads them', (client) =>
  client.query({ text: 'select $1::int a, 3::int2 b, true c', values: [7], binary: true }),
)
both('rows without columns', (client) => client.query('select from generate_series(1, 3)'))
both('tags of every kind', async (client) => {
  const texts = ['begin', 'create temp table t (i int)', 'insert into t values (1), (2)', 'update t set i = 3']
  texts.push('delete from t', 'declare c cursor for select 1', 'fetch c', 'move c', 'close c', 'commit', 'listen x')
  const results = []
  for (const text of texts) results.push(await client.query(text))
  return results
})

both('types of a query are asked for its parsers', (client) => {
  const types = { getTypeParser: (oid: number) => (value: string) => `${oid}:${value}` }
  return client.query({ text: 'select 1 a, now() is null b, null c', types })
})
both('a parser that is registered later holds from then on', async (client) => {
  const text = 'select $1::int a'
  const results = []
  for (let i = 0; i < 8; i++) results.push(await client.query(text, [i]))
  client.setTypeParser(23, (value) => `<${value}>`)
  results.push(await client.query(text, [8]), await client.query('select 9 a'))
  return [...results, client.getTypeParser(23)('x')]
})
both('a parser that throws fails its query and no other', async (client) => {
  client.setTypeParser(23, () => {
    throw new Error('unreadable')
  })
  return [await settled(client.query('select 1')), await client.query("select 'a'")]
})

both('a named statement runs again without its text', async (client) => {
  const first = await client.query({ name: 'n', text: 'select $1::int a, $2::text b', values: [1, 'x'] })
  const again = await client.query({ name: 'n', text: 'select $1::int a, $2::text b', values: [2, 'y'] })
  const bare = await client.query({ name: 'n', values: [3, 'z'] })
  const list = await client.query('select name, statement from pg_prepared_statements')
  return [first, again, bare, list]
})
both('a name stands for one text', async (client) => {
  await client.query({ name: 'n', text: 'select 1 a' })
  return settled(client.query({ name: 'n', text: 'select 2 a' }))
})
for (const pipeline of [false, true]) {
  both(`a name is free again when its Parse failed, and stands for its text when only the query failed, pipeline: ${pipeline}`, async (client) => {
    const texts = { n: ['selec 1', 'select 2 a', 'select 3 a'], m: ['select 1/$1::int a', 'select 1/$1::int a', 'select 4'] }
    const seen: unknown[] = []
    for (const [name, of] of Object.entries(texts)) {
      for (const [i, text] of of.entries()) {
        seen.push(await settled(client.query({ name, text, values: name === 'm' ? [i] : [] })))
        seen.push({ ...client.connection.parsedStatements })
      }
    }
    return [seen, await client.query('select name, statement from pg_prepared_statements order by 1')]
  }, { pipeline })
}
both('a query that was not sent leaves its name free', async (client) => {
  const wrong = await settled(client.query({ name: 'n', text: 'select 1 a', values: 5 }))
  const right = await client.query({ name: 'n', text: 'select 2 a' })
  return [wrong, right, { ...client.connection.parsedStatements }]
})
both('a named statement and rows of several kinds', async (client) => {
  const run = (): Promise<Results> => client.query({ name: 'r', text: 'select 1 a', rowMode: 'array' })
  return [await run(), await run(), await client.query({ name: 'r', text: 'select 1 a', binary: true })]
})

bothAlone('callbacks are called with what promises come to', async (side) => {
  const client = await connected({}, side)
  const calls: unknown[][] = []
  const call = (run: (done: (...args: unknown[]) => void) => unknown): Promise<void> =>
    new Promise((resolve) => {
      const returned = run((...args) => (calls.push(args), resolve()))
      calls.push([returned])
    })
  await call((done) => client.query('select 1 a', done))
  await call((done) => client.query('select $1::int a', [2], done))
  await call((done) => client.query({ text: 'select 3 a', callback: done }))
  await call((done) => client.query({ text: 'select 4 a' }, undefined, done))
  await call((done) => client.query('select 1 / 0', done))
  return calls
})

both('a Query emits rows, its end and its error', async (client, side) => {
  const seen: unknown[] = []
  const run = (query: Query, last: string): Promise<unknown> => {
    query.on('row', (row, result) => seen.push(['row', row, (result as Result).fields.length]))
    query.on('end', (results) => seen.push(['end', results]))
    query.on('error', (error) => seen.push(['error', error]))
    assert.equal(client.query(query), query)
    return event(query, last)
  }
  await run(new side.Query('select generate_series(1, 3) i'), 'end')
  await run(new side.Query('select $1::int a', [1]), 'end')
  await run(new side.Query({ text: 'select 1 / 0' }), 'error')
  await run(new side.Query({ text: 'select 5 a', rowMode: 'array' }, undefined, () => seen.push('called')), 'end')
  return seen
})

both('notices and notifications are told', async (client) => {
  const seen: unknown[] = []
  client.on('notice', (it) => seen.push({ ...it }))
  client.on('notification', (it) => seen.push({ ...it, processId: it.processId === client.processID }))
  await client.query(`do $$ begin raise warning 'careful %', 7 using hint = 'none'; end $$`)
  await client.query('listen c; notify c; notify c, $$a text$$')
  return seen
})

both('drain is told when nothing waits for an answer', async (client) => {
  let drains = 0
  client.on('drain', () => drains++)
  await client.query('select 1')
  await Promise.all([client.query('select 1'), client.query('select 2'), client.query('select 3')])
  await client.query('select 1')
  return drains
})

both('the transaction status is the one of the last answer', async (client) => {
  const seen = [client.getTransactionStatus()]
  for (const text of ['begin', 'select 1 / 0', 'select 1', 'rollback']) {
    await settled(client.query(text))
    await client.query('').catch(() => {})
    seen.push(client.getTransactionStatus())
  }
  return seen
})

bothAlone('queries before connect run in their order', async (side) => {
  const client = new side.Client(url)
  const results: unknown[] = []
  const early = [1, 2].map((i) => client.query('select $1::int i', [i]).then((it) => results.push(rowsOf(it))))
  assert.equal(await client.connect(), client)
  await Promise.all([...early, client.query('select 3 i').then((it) => results.push(rowsOf(it)))])
  await client.end()
  return results
})

bothAlone('connect and end call back', async (side) => {
  const client = new side.Client(url)
  const events: string[] = []
  for (const name of ['connect', 'end', 'error', 'drain']) client.on(name, () => events.push(name))
  const args = await new Promise<unknown[]>((resolve) => client.connect((...given) => resolve(given)))
  await client.query('select 1')
  await new Promise<void>((resolve) => client.end(() => resolve()))
  await client.end()
  return [args.length, args[0], args[1] === client, events]
})

bothAlone('wrong use is told as pg tells it', async (side) => {
  const never = new side.Client(url)
  assert.equal(await never.end(), undefined)
  const client = await connected({}, side)
  const seen: unknown[] = []
  seen.push(await settled(client.connect()))
  assert.throws(() => client.query(null as unknown as string), { name: 'TypeError', message: /null or undefined/ })
  assert.throws(() => client.query('select 1', [], 5 as unknown as () => void), { name: 'TypeError' })
  seen.push(await settled(client.query({})))
  seen.push(await settled(client.query({ text: 'select 1', values: 'x' })))
  const odd = { toPostgres: () => assert.fail('no value') }
  seen.push(await settled(client.query('select $1', [odd])))
  seen.push(await client.query('select 1 a'))
  await client.end()
  seen.push(await settled(client.query('select 1')), await settled(client.connect()))
  return seen
})

both('COPY goes through, and has no source', async (client) => {
  await client.query('create temp table t (i int)')
  const seen: unknown[] = []
  for (const text of ['copy (select 1) to stdout', '/* a */ -- b\n Copy t to stdout']) {
    seen.push(await client.query(text), await client.query({ text, queryMode: 'extended' }))
  }
  return [...seen, await settled(client.query('copy t from stdin')), await client.query('select 1')]
})

test('a connection that is ended while it opens fails its connect', async () => {
  const client = new Client(url)
  const connecting = settled(client.connect())
  await client.end()
  assert.match(String(await connecting), /Connection terminated/)
})

both('a query that runs when its client ends fails', async (client) => {
  const running = settled(client.query('select pg_sleep(10)'))
  const queued = settled(client.query('select 1'))
  const ended = client.end()
  return [await running, await queued, await ended]
})

test('the stack of an error leads to the caller', async () => {
  const client = await connected()
  async function asksForTrouble(): Promise<void> {
    await client.query('select 1 / 0')
  }
  const error = (await settled(asksForTrouble())) as Error
  assert.match(error.stack ?? '', /asksForTrouble/)
})

test('an error of a callback is uncaught, and no reply is lost', async () => {
  const client = await connected({ pipeline: true })
  const uncaught = new Promise((resolve) => process.setUncaughtExceptionCaptureCallback(resolve))
  client.query('select 1', () => {
    throw new Error('thrown by a callback')
  })
  const behind = await client.query('select 2 a')
  assert.equal(String(await uncaught), 'Error: thrown by a callback')
  process.setUncaughtExceptionCaptureCallback(null)
  assert.deepEqual(rowsOf(behind), [{ a: 2 }])
})

test('a text is prepared at its fifth use, unless that is turned off', async () => {
  const list = 'select count(*)::int n from pg_prepared_statements'
  for (const [config, n] of [[{}, 1], [{ autoPrepare: false }, 0]] as const) {
    const client = await connected(config)
    for (let i = 0; i < 6; i++) {
      assert.deepEqual(rowsOf(await client.query('select $1::int i', [i])), [{ i }])
    }
    assert.deepEqual(rowsOf(await client.query(list)), [{ n }])
  }
})

test('a prepared statement whose columns changed is read with the new columns', async () => {
  const client = await connected()
  await client.query('create temp table changing (a int)')
  await client.query('insert into changing values (1)')
  const run = async (): Promise<unknown> => rowsOf(await client.query('select * from changing where a = $1', [1]))
  for (let i = 0; i < 7; i++) assert.deepEqual(await run(), [{ a: 1 }])
  await client.query('alter table changing add b text')
  for (let i = 0; i < 7; i++) assert.deepEqual(await run(), [{ a: 1, b: null }])
  await client.query('deallocate all')
  assert.deepEqual(await run(), [{ a: 1, b: null }])
})

test('results have fields of their own', async () => {
  const client = await connected()
  const first = (await client.query('select 1 a')) as Result
  first.fields.length = 0
  assert.equal(((await client.query('select 1 a')) as Result).fields.length, 1)
})

test('settings that the server reports are emitted on the connection', async () => {
  const client = new Client(url)
  const seen = new Map<string, string>()
  client.connection.on('parameterStatus', (it) => seen.set(it.parameterName, it.parameterValue))
  await client.connect()
  assert.match(seen.get('server_version') ?? '', /^\d+/)
  await client.query("set application_name = 'told'")
  assert.equal(seen.get('application_name'), 'told')
  await client.end()
})

both('an insert that came often finds a temporary table that hides the one of before', async (client) => {
  const insert = 'insert into pg_hidden (n) select $1::int returning tableoid::regclass::text as place'
  await client.query('drop table if exists public.pg_hidden')
  await client.query('create temp table pg_first (n int)')
  await client.query('create table public.pg_hidden (n int)')
  for (let n = 0; n < 8; n++) await client.query(insert, [n])
  await client.query('create temp table pg_hidden (n int)')
  await client.query(insert, [99])
  const left = await client.query('select count(*)::int as count from public.pg_hidden')
  await client.query('discard temp')
  await client.query('drop table public.pg_hidden')
  return (left as { rows: unknown[] }).rows
})
