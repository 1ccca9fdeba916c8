import assert from 'node:assert/strict'
import { test } from 'node:test'

import type { Client, Submittable } from '../src/pg'
import type { Connection } from '../src/pg/connect'
import { both, connected, plain, settled } from './pg-both'
import { behind, Logging } from './pg-submit-kit'

const theirs = require('pg') as {
  Query: new (config: object) => Submittable
  Connection: new (config: object) => Connection
}

/** Runs a logging query on both, and a plain one behind it. */
function logs(name: string, make: () => Logging, prepare?: (client: Client) => Promise<unknown>): void {
  both(name, async (client) => {
    await prepare?.(client)
    const notices: unknown[] = []
    client.on('notice', (notice) => notices.push(notice))
    const query = client.query(make())
    return [await query.done, notices, await behind(client), { ...client.connection.parsedStatements }]
  })
}

/** Sends the messages of an extended query. */
function extended(text: string, values: unknown[] = [], rows = 0, name = ''): (it: Connection) => void {
  return (connection) => {
    connection.parse({ text, name })
    connection.bind({ portal: 'p', statement: name, values })
    connection.describe({ type: 'P', name: 'p' })
    connection.execute({ portal: 'p', rows })
    if (rows > 0) connection.flush()
    else connection.sync()
  }
}

logs('a simple query is told all', () => new Logging((it) => it.query('select 1 as a, null as b; select 2')))
logs('an empty query is told all', () => new Logging((it) => it.query('')))
logs('an extended query is told all', () => new Logging(extended('select $1::text as t, $2::bytea', ['ä', Buffer.from([1, 0])])))
logs('an error is the first message', () => new Logging((it) => it.query('select 1 / 0 as "x"')))
logs('a query reads in parts', () => {
  const more = (it: Connection): void => {
    it.execute({ portal: 'p', rows: 2 })
    it.flush()
  }
  return new Logging(extended('select generate_series(1, 5) as i', [], 2), {
    handlePortalSuspended: more,
    handleCommandComplete: (it) => it.sync(),
  })
})
logs('an error in the middle is synced by the query', () => {
  return new Logging(extended('select 1 / (3 - i) as q from generate_series(1, 5) i', [], 2), {
    handlePortalSuspended: (it) => {
      it.execute({ portal: 'p', rows: 2 })
      it.flush()
    },
    handleError: (it) => it.sync(),
  })
})
logs('a statement is described, and closed', () => {
  return new Logging((it) => {
    it.parse({ text: 'select $1::int as a', name: 's', types: [23] })
    it.describe({ type: 'S', name: 's' })
    it.close({ type: 'S', name: 's' })
    it.parse({ text: 'set my.value = 1' })
    it.describe({ type: 'S' })
    it.sync()
  })
})
logs('notices and settings come in between', () => {
  return new Logging((it) => it.query("do $$ begin raise notice 'hello'; end $$; set application_name = 'x'"))
})
logs(
  'copies in, and out',
  () => {
    return new Logging((it) => it.query('copy pg_temp.c from stdin; copy pg_temp.c to stdout'), {
      handleCopyInResponse: (it) => {
        it.sendCopyFromChunk(Buffer.from('1\ta\n2\t'))
        it.sendCopyFromChunk(Buffer.from('ü\n'))
        it.endCopyFrom()
      },
    })
  },
  (client) => client.query('create temp table c (a int, b text)'),
)
logs(
  'a copy that the query gives up fails',
  () => new Logging((it) => it.query('copy pg_temp.c from stdin'), { handleCopyInResponse: (it) => it.sendCopyFail('why not') }),
  (client) => client.query('create temp table c (a int, b text)'),
)
logs('a named statement is known to the connection', () => {
  const query = new Logging(extended('select $1::int as i', ['1'], 0, 'mine'))
  return Object.assign(query, { name: 'mine', text: 'select $1::int as i' })
})

both('a query of pg runs on the emulated connection', async (client) => {
  const run = (config: object): Promise<unknown> =>
    settled(new Promise((resolve, reject) => {
      client.query(new theirs.Query({ ...config, callback: (e: unknown, r: unknown) => (e ? reject(e) : resolve(r)) }))
    }))
  return [
    await run({ text: 'select 1 as a; select 2 as b' }),
    await run({ text: 'select $1::int + 1 as a', values: [41] }),
    await run({ text: 'select i from generate_series(1, 7) i', rows: 3 }),
    await run({ text: 'select $1::date as d', values: ['2024-02-29'], name: 'day' }),
    await run({ text: 'select $1::date as d', values: ['2023-02-28'], name: 'day' }),
    await run({ text: 'select $1::date', values: [], name: 'day' }),
    await run({ text: 'select 1 / 0' }),
    await run({ text: 'select 1 / $1', values: [0] }),
    await run({ text: 'copy pg_class from stdin' }),
    await run({ values: [1] }),
    await behind(client),
  ]
})

test('messages of the client have the same bytes as those of pg', () => {
  const said = (connection: Connection): string[] => {
    const seen: string[] = []
    const stream = {
      writable: true,
      write: (bytes: Buffer) => seen.push(bytes.toString('hex')),
      cork() {},
      uncork() {},
    }
    Object.assign(connection, { stream })
    connection.lend?.({ sent() {}, hasFailed: false, isLate: false })
    connection.query('select ä')
    connection.parse({ text: 'a' })
    connection.parse({ text: 'a', name: 'b', types: [1, 4_000_000_000] })
    connection.bind()
    connection.bind({ portal: 'p', statement: 's', values: ['ö', null, undefined, Buffer.from('x'), ''], binary: true })
    connection.bind({ values: [1, 2], valueMapper: (it, i) => `${it}${i}` })
    connection.execute()
    connection.execute({ rows: 7 })
    connection.execute({ portal: 'ü', rows: 4_000_000_000 })
    connection.describe({ type: 'P' })
    connection.describe({ type: 'S' })
    connection.describe({ type: 'S', name: 'n' })
    connection.close({ type: 'P', name: 'n' })
    connection.close({ type: 'S' })
    connection.flush()
    connection.sync()
    connection.sendCopyFromChunk(Buffer.from('data'))
    connection.endCopyFrom()
    connection.sendCopyFail('ß')
    return seen
  }
  const { Connection: Ours } = require('../src/pg/connect') as typeof import('../src/pg/connect')
  const ours = new Ours({ ssl: false, sslNegotiation: 'postgres', keepAlive: false, keepAliveInitialDelayMillis: 0, encoding: 'utf8' })
  assert.deepEqual(said(ours), said(new theirs.Connection({})))
})

test('a query that sends no Sync does not harm later queries', { timeout: 600_000 }, async () => {
  const client = await connected()
  const leaves = [
    extended('select 1', [], 1),
    (it: Connection): void => {
      extended('select 2')(it)
      it.close({ type: 'S', name: '' })
    },
    (it: Connection): void => {
      it.sync()
      it.query('select 3')
      it.sync()
    },
    extended('select 1 / 0', [], 1),
  ]
  for (const leave of leaves) {
    const query = client.query(new Logging(leave, { handlePortalSuspended: (it) => it.sync() }))
    const after = await client.query('select 4 as it')
    assert.deepEqual((after as { rows: unknown }).rows, [{ it: 4 }])
    await query.done
  }
})

test('a message that is sent out of turn reaches no one', { timeout: 600_000 }, async () => {
  const client = await connected()
  const { connection } = client
  assert.throws(() => connection.query('select 1'), /only until the server is ready/)
  assert.throws(() => connection.parse({ text: 'select 1' }), /only until the server is ready/)
  const ready = new Promise((resolve) => connection.once('readyForQuery', resolve))
  connection.close({ type: 'P', name: 'p' })
  connection.flush()
  connection.sendCopyFail('late')
  await ready
  assert.deepEqual(((await client.query('select 1 as a')) as { rows: unknown }).rows, [{ a: 1 }])
})

test('a query that returns or throws an error gets it, and others go on', { timeout: 600_000 }, async () => {
  const client = await connected()
  const submits = [
    (): Error => new Error('returned'),
    (): never => {
      throw new Error('thrown')
    },
    (connection: Connection): never => {
      connection.parse({ text: 'select 1' })
      throw new Error('thrown late')
    },
  ]
  const seen: unknown[] = []
  for (const submit of submits) {
    const error = new Promise<Error & { outcome?: string }>((resolve) => {
      client.query({ submit, handleError: resolve })
    })
    const after = client.query('select 1 as a')
    seen.push([(await error).message, (await error).outcome, plain(((await after) as { rows: unknown }).rows)])
  }
  assert.deepEqual(seen, [
    ['returned', 'NotSent', [{ a: 1 }]],
    ['thrown', 'NotSent', [{ a: 1 }]],
    ['thrown late', 'Unknown', [{ a: 1 }]],
  ])
})

test('a query without a method for a message fails, and others go on', { timeout: 600_000 }, async () => {
  const client = await connected()
  await client.query('create temp table c (a int)')
  const simple = (text: string) => (it: Connection) => it.query(text)
  const submits = [
    simple('select 1'),
    simple('copy pg_temp.c from stdin'),
    extended('select 1'),
    extended('select generate_series(1, 3)', [], 1),
    extended('copy pg_temp.c from stdin'),
    extended('copy pg_temp.c from stdin', [], 1),
  ]
  for (const submit of submits) {
    const error = new Promise<Error>((resolve) => client.query({ submit, handleError: resolve }))
    const after = client.query('select 2 as a')
    assert.match((await error).message, /has no method handle\w+, which/)
    assert.deepEqual(((await after) as { rows: unknown }).rows, [{ a: 2 }])
  }
})
