import assert from 'node:assert/strict'
import { test } from 'node:test'

import { Client, type ClientConfig, type QueryError, type Result } from '../src/pg'
import { both, connected, event, settled, type Side } from './pg-both'
import { listen, served } from './pg-served'
import { randomOf } from './random'

const LIMIT = { timeout: 600_000 }

/** The result or the error of a text, and the status after it. */
async function seen(client: Client, text: string, values?: unknown[]): Promise<unknown> {
  const result = await settled(client.query(text, values))
  // After an error the server sends the status some time later.
  return result instanceof Error ? result : [result, client.getTransactionStatus()]
}

async function all(client: Client, texts: readonly string[]): Promise<unknown> {
  const notices: unknown[] = []
  const onNotice = ({ code, message }: { code: string; message: string }): void => {
    notices.push([code, message])
  }
  client.on('notice', onNotice)
  const results: unknown[] = []
  for (const text of texts) results.push(await seen(client, text))
  client.off('notice', onNotice)
  return [results, notices]
}

const SEQUENCES: readonly (readonly string[])[] = [
  ['begin', 'select 1 a', 'commit'],
  ['BEGIN;', 'ROLLBACK;', 'select 1 a'],
  ['begin', 'commit', 'begin', 'end', 'begin work', 'abort'],
  ['begin', 'begin', 'select 1', 'commit', 'commit', 'rollback'],
  ['commit', 'rollback', 'begin', 'select 1/0', 'select 1', 'commit'],
  ['begin', 'select nonsense', 'select 1', 'rollback', 'select 2 a'],
  ['begin', 'savepoint a', 'select 1/0', 'rollback to a', 'select 1 a', 'release a', 'commit'],
  ['begin read only', 'create table never (a int)', 'rollback'],
  ['start transaction isolation level serializable, read only', 'show transaction_isolation', 'end'],
  ['begin', 'select 1 a; select 2 b', 'commit'],
  ['begin', 'select 1 a; commit; select 2 b', 'select 3'],
  ['begin; select 1 a', 'select 2', 'commit'],
  ['begin', 'commit and chain', 'select 1', 'rollback'],
  ['begin', 'select 1', 'commit and chain', 'show transaction_isolation', 'commit'],
  ['begin', '', 'commit'],
  ['begin', '/* a comment */', 'commit /* signed */'],
  ['begin', 'vacuum', 'rollback'],
  ['begin', 'copy pg_class from stdin', 'rollback'],
  ['begin', "select '$1' a", 'select $1', 'rollback'],
  ['begin', 'declare c cursor for select 1 a', 'fetch c', 'commit'],
  ['begin', 'declare c binary cursor for select 1 a', 'fetch c', 'commit'],
  ['begin', 'create temp table brief (a int)', 'prepare transaction \'x\'', 'select 1', 'rollback'],
  ['begin nonsense', 'select 1', 'commit'],
  ['begin', 'notify b, \'x\'', 'commit'],
  ['begin', "do $$ begin raise notice 'heard'; end $$", 'commit'],
  ['begin', 'set local work_mem = 65', 'show work_mem', 'commit', 'show work_mem'],
  ['begin', 'set transaction isolation level repeatable read', 'show transaction_isolation', 'commit'],
]

for (const pipeline of [false, true]) {
  for (const texts of SEQUENCES) {
    const config = { pipeline }
    both(`${texts.join(' | ')}, pipeline: ${pipeline}`, (client) => all(client, texts), config)
  }
  both(`all of these at once, pipeline: ${pipeline}`, (client) => {
    return Promise.all(SEQUENCES.flat().filter(isForPipelines).map((text) => settled(client.query(text))))
  }, { pipeline })
}

/** pg gives the result of the next query to a COPY in a pipeline. */
function isForPipelines(text: string): boolean {
  return !text.startsWith('copy')
}

const STEPS = [
  'begin', 'begin', 'BEGIN ISOLATION LEVEL SERIALIZABLE', 'commit', 'commit', 'rollback', 'rollback to a',
  'savepoint a', 'release a', 'select 1 a', 'select 1/0', 'select nonsense', 'select 1 a; select 2 b',
  'insert into pg_temp.steps values (1), (2)', 'select count(*)::int from pg_temp.steps',
  'insert into pg_temp.steps values (3); select count(*)::int from pg_temp.steps',
  'begin; insert into pg_temp.steps values (4)', 'rollback; select 5 a', 'commit and chain', '',
  'update pg_temp.steps set a = a + 1 where a < $1', 'select $1::int + a a from pg_temp.steps order by 1',
]

const seed = Number(process.env['ONETRIP_SEED'] ?? Date.now() % 1_000_000)

/** Runs steps: one after the other, or some at once. */
async function walk(client: Client, side: Side, at: number, together: boolean): Promise<unknown> {
  const next = randomOf(at)
  await client.query('create temp table steps (a int)')
  const run: Promise<unknown>[] = []
  const statuses: unknown[] = []
  for (let i = 0; i < 60; i++) {
    const text = STEPS[Math.floor(next() * STEPS.length)] as string
    const values = text.includes('$1') ? [1] : undefined
    const way = next()
    if (way < 0.6) run.push(settled(client.query(text, values ?? (way < 0.1 ? [] : undefined))))
    else if (way < 0.7 && !text.includes(';')) run.push(settled(client.query({ text, values, queryMode: 'extended' })))
    else if (way < 0.85) run.push(new Promise((resolve) => client.query(text, values, (error, result) => resolve(error ?? result))))
    else run.push(queried(client, side, text, values))
    const waits = next() < (together ? 0.2 : 1)
    if (waits) {
      const [last] = (await Promise.all(run)).slice(-1)
      if (!(last instanceof Error)) statuses.push(client.getTransactionStatus())
    }
  }
  return [await Promise.all(run), statuses]
}

function queried(client: Client, side: Side, text: string, values: unknown): Promise<unknown> {
  const query = client.query(new side.Query(text, values))
  return new Promise((resolve) => {
    query.once('end', resolve)
    query.once('error', resolve)
  })
}

for (const config of [{}, { pipeline: true }] as ClientConfig[]) {
  for (const together of [false, true]) {
    for (let i = 0; i < 12; i++) {
      const name = `steps of seed ${seed + i}, ${together ? 'some at once, ' : ''}${JSON.stringify(config)}`
      both(name, (client, side) => walk(client, side, seed + i, together), config)
    }
  }
}

both('callbacks are called in order, and a Query of BEGIN emits its end', async (client, side) => {
  const order: unknown[] = []
  const done = (error: Error | null, result?: unknown): unknown => order.push(error ?? result)
  client.query('select 1 a', done)
  client.query('begin', done)
  client.query('select 2 a', done)
  client.query('commit', done)
  await client.query('select 3')
  const begin = client.query(new side.Query('begin'))
  order.push(await event(begin, 'end'), client.getTransactionStatus())
  order.push(await settled(client.query({ text: 'select 4 a', rowMode: 'array' })))
  return [order, await client.query({ text: 'rollback', queryMode: 'extended' })]
})

test('a transaction costs a trip less, and none at all if nothing happens in it', LIMIT, async () => {
  for (const holdBegin of [true, false]) {
    const client = await connected({ holdBegin })
    let writes = 0
    const { stream } = client.connection
    const write = stream.write.bind(stream) as typeof stream.write
    stream.write = ((chunk: Uint8Array): boolean => (writes++, write(chunk))) as typeof stream.write
    await client.query('BEGIN')
    assert.deepEqual([writes, client.getTransactionStatus()], holdBegin ? [0, 'T'] : [1, 'T'])
    await client.query('COMMIT')
    assert.equal(writes, holdBegin ? 0 : 2)
    writes = 0
    for (const text of ['begin', 'select 1', 'commit']) await client.query(text)
    assert.equal(writes, holdBegin ? 2 : 3)
    writes = 0
    for (const text of ['begin', 'select $1::int']) await client.query(text, text === 'begin' ? [] : [1])
    assert.equal(writes, holdBegin ? 1 : 2)
    assert.equal(client.pendingQueryCount, 0)
  }
})

test('a BEGIN that is held back is seen by no other client', LIMIT, async () => {
  const [client, other] = [await connected(), await connected()]
  const state = async (): Promise<unknown> => {
    const text = 'select state from pg_stat_activity where pid = $1'
    return ((await other.query(text, [client.processID])) as Result).rows[0]
  }
  await client.query('begin')
  assert.deepEqual(await state(), { state: 'idle' })
  // A pool does this when it takes a client back.
  client._flushHeld()
  assert.equal(client.getTransactionStatus(), 'T')
  await client.query('select 1')
  assert.deepEqual(await state(), { state: 'idle in transaction' })
  await client.query('rollback')
})

test('a query that runs itself sends the BEGIN that is held back first', LIMIT, async () => {
  const client = await connected()
  const flushed = (): Promise<unknown> => new Promise((resolve) => client._session.flushBegin(resolve))
  assert.equal(await flushed(), undefined)
  await client.query('begin')
  assert.equal(await flushed(), undefined)
  assert.equal(client.pendingQueryCount, 0)
  const { rows } = (await client.query('select now() = statement_timestamp() held')) as Result
  assert.deepEqual(rows, [{ held: false }])
  await client.query('rollback')
})

for (const config of [{}, { pipeline: true }] as ClientConfig[]) {
  test(`statements behind a BEGIN that is refused fail by its error, ${JSON.stringify(config)}`, LIMIT, async () => {
    const { client, ran } = await served(config)
    assert.equal(((await client.query('begin')) as Result).command, 'BEGIN')
    const texts = ['insert 1', 'insert 2; insert 3', 'insert 4', 'commit', 'insert 5']
    const settlements = texts.map((text, i) => settled(client.query(text, i === 2 ? ['x'] : undefined)))
    const errors = (await Promise.all(settlements.slice(0, 4))) as (QueryError & { code?: string })[]
    for (const { message, name, code } of errors) {
      assert.deepEqual([message, name, code], ['BEGIN failed: cannot begin', 'error', '25006'])
    }
    const outcomes = errors.map(({ outcome }) => outcome)
    assert.deepEqual(outcomes, ['Rejected', 'NotSent', 'NotSent', 'Rejected'])
    // This statement follows the transaction.
    assert.equal(((await settlements[4]) as Result).command, 'INSERT')
    assert.deepEqual([ran, client.getTransactionStatus()], [['insert 5'], 'I'])
    await client.end()
  })

  test(`after a BEGIN that is refused nothing runs before ROLLBACK or COMMIT, ${JSON.stringify(config)}`, LIMIT, async () => {
    const { client, ran } = await served(config)
    for (const last of ['rollback', 'commit']) {
      await client.query('begin')
      const errors: unknown[] = []
      for (const text of ['insert 1', 'insert 2; insert 3', 'begin', 'savepoint a']) {
        errors.push(await settled(client.query(text)))
      }
      const outcomes = errors.map((error) => (error as QueryError).outcome)
      assert.deepEqual(outcomes, ['Rejected', 'NotSent', 'NotSent', 'NotSent'])
      assert.equal(client.getTransactionStatus(), 'E')
      // The server ends a failed transaction in the same way.
      assert.equal(((await client.query(last)) as Result).command, 'ROLLBACK')
      assert.deepEqual([ran, client.getTransactionStatus()], [[], 'I'])
    }
    await client.query('insert 6')
    assert.deepEqual(ran, ['insert 6'])
    await client.query('begin')
    const flushed = await new Promise((resolve) => client._session.flushBegin(resolve))
    assert.match(String(flushed), /BEGIN failed: cannot begin/)
    assert.equal(client.getTransactionStatus(), 'E')
    // The next user of the client is not affected.
    client._flushHeld()
    assert.equal(client.getTransactionStatus(), 'I')
    await client.query('insert 7')
    await client.end()
  })
}

test('a connection that is lost with BEGIN on its way ends each statement once', LIMIT, async () => {
  const port = await listen((tag, _, socket) => void (tag === 'S' && socket.destroy()))
  const client = new Client({ host: '127.0.0.1', port, user: 'me', pipeline: true })
  client.on('error', () => {})
  await client.connect()
  await client.query('begin')
  const outcomes = ['select 1', 'select 2', 'select 3; select 4', 'commit'].map(async (text) => {
    return ((await settled(client.query(text))) as QueryError).outcome
  })
  assert.deepEqual(await Promise.all(outcomes), ['Unknown', 'Unknown', 'NotSent', 'NotSent'])
})
