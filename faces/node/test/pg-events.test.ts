import assert from 'node:assert/strict'
import { Socket } from 'node:net'
import { test } from 'node:test'

import { Client, Connection, type ClientConfig } from '../src/pg'
import { bothAlone, connected, settled, url, type Side } from './pg-both'
import { belowOf } from './random'
import { Cursor, QueryStream } from './pg-submit-kit'

const NAMES = `errorMessage parameterStatus notice notification readyForQuery rowDescription dataRow
  commandComplete parseComplete bindComplete closeComplete noData portalSuspended emptyQuery
  parameterDescription copyInResponse copyOutResponse copyData copyDone backendKeyData authenticationOk
  authenticationSASL authenticationSASLContinue authenticationSASLFinal`.split(/\s+/)

/** Fields that differ from run to run. */
const VARYING = new Set(['processID', 'secretKey', 'processId', 'data', 'tableID'])

function shape(message: object): unknown {
  const fields = Object.entries(message).filter(([key]) => !VARYING.has(key))
  return Object.fromEntries(fields.map(([key, value]) => [key, key === 'fields' ? fieldsOf(value) : value]))
}

function fieldsOf(fields: (object | string | null)[]): unknown[] {
  return fields.map((it) => (typeof it === 'object' && it !== null ? shape(it) : it))
}

/** Notes the messages of a connection: those with these names or, without names, all. */
function listen(client: Client, names: readonly string[]): unknown[] {
  const told: unknown[] = []
  for (const name of names) client.connection.on(name, (it: object) => told.push([name, shape(it)]))
  return told
}

/** Queries that are not prepared automatically, so that both drivers send the same. */
async function talk(client: Client): Promise<void> {
  await client.query('select 1 a; select 2 b')
  await client.query('select $1::int a, $2::text b', [1, 'x'])
  await settled(client.query('select 1 / 0'))
  await settled(client.query('select $1::int / 0', [1]))
  await client.query('')
  await client.query("set application_name = 'told'")
  await client.query('listen c; notify c; do $$ begin raise notice $a$hi$a$; end $$')
  await client.query('copy (select 1) to stdout')
  await client.query('create temp table t (i int)')
  await settled(client.query('copy t from stdin'))
  await client.query('insert into t values ($1)', [1])
  const cursor = client.query(new Cursor('select generate_series(1, 3)'))
  await cursor.read(2)
  await cursor.close()
  await client.query("select repeat('x', 300000) t")
}

for (const [what, names] of [['message', ['message']], ['each name', NAMES]] as const) {
  bothAlone(`a connection tells what the server says, to listeners of ${what}`, async (side) => {
    const client = new side.Client(url)
    const told = listen(client, names)
    await client.connect()
    await talk(client)
    await client.end()
    return told
  })
}

bothAlone('a login by SCRAM is told on the connection', async (side) => {
  const client = new side.Client(url)
  const seen: unknown[] = []
  client.connection.once('authenticationSASL', (it: { mechanisms: unknown }) => seen.push(it.mechanisms))
  client.connection.once('backendKeyData', (it: { processID: number }) => seen.push(it.processID > 0))
  await client.connect()
  await client.end()
  return seen
})

bothAlone('a message is told before anything comes of it, and its name behind that', async (side) => {
  const client = await connected({}, side)
  const order: string[] = []
  client.connection.on('message', (it: { name: string }) => order.push(`message ${it.name}`))
  client.connection.on('readyForQuery', () => order.push('ready'))
  await new Promise<void>((resolve) => {
    client.query('select 1', () => {
      order.push('answered')
      setImmediate(resolve)
    })
  })
  return order
})

bothAlone('listeners that come and go hear what comes while they are there', async (side: Side) => {
  const client = await connected({}, side)
  const heard: unknown[] = []
  const listener = (it: { text: string }): unknown => heard.push(it.text)
  await client.query('select 1')
  client.connection.on('commandComplete', listener)
  await client.query('create temp table u (i int)')
  client.connection.off('commandComplete', listener)
  await client.query('select 2')
  client.connection.once('commandComplete', listener)
  await client.query('insert into u values (1)')
  await client.query('select 3')
  return heard
})

test('without listeners messages are not read one by one', async () => {
  const client = await connected()
  assert.equal(client.connection.isHeard, false)
  client.connection.on('parameterStatus', () => {}).on('end', () => {}).on('error', () => {})
  assert.equal(client.connection.isHeard, false)
  const listener = (): void => {}
  client.connection.on('dataRow', listener)
  assert.equal(client.connection.isHeard, true)
  client.connection.off('dataRow', listener)
  assert.equal(client.connection.isHeard, false)
})

/** A socket that hands bytes over in pieces of any length. */
class Choppy extends Socket {
  readonly #random = belowOf(1)

  override push(chunk: Buffer | null): boolean {
    if (chunk === null) return super.push(null)
    let goesOn = true
    for (let at = 0; at < chunk.length; ) {
      const end = Math.min(chunk.length, at + 1 + this.#random(at % 3 === 0 ? 4 : 90))
      goesOn = super.push(chunk.subarray(at, end))
      at = end
    }
    return goesOn
  }
}

for (const pipeline of [false, true]) {
  test(`a listener that comes and goes changes no result, pipeline: ${pipeline}`, { timeout: 600_000 }, async () => {
    const client = await connected({ pipeline, stream: () => new Choppy() } as ClientConfig)
    const random = belowOf(2)
    let rows = 0
    const listener = (): unknown => rows++
    // Listeners are added and removed in the middle of messages.
    client.connection.stream.prependListener('data', () => {
      client.connection.off('dataRow', listener)
      if (random(3) > 0) client.connection.on('dataRow', listener)
    })
    for (let round = 0; round < 40; round++) {
      const text = 'select i, repeat($1, i) t from generate_series(1, 40) i'
      const asked = [1, 2, 3].map(() => client.query(text, ['ü']))
      const stream = client.query(new QueryStream('select generate_series(1, 30) i'))
      let streamed = 0
      for await (const row of stream) streamed += (row as { i: number }).i
      assert.equal(streamed, 465)
      for (const result of await Promise.all(asked)) {
        const { rows } = result as unknown as { rows: { i: number; t: string }[] }
        assert.ok(rows.length === 40 && rows.every(({ i, t }) => t === 'ü'.repeat(i)))
      }
      assert.ok((await settled(client.query('select 1 / 0'))) instanceof Error)
    }
    assert.ok(rows > 0)
  })
}

test('an error of a listener is uncaught, and no reply is lost', async () => {
  const client = await connected()
  const uncaught = new Promise((resolve) => process.setUncaughtExceptionCaptureCallback(resolve))
  client.connection.once('dataRow', () => {
    throw new Error('thrown by a listener')
  })
  const { rows } = (await client.query('select 1 a')) as { rows: unknown }
  assert.equal(String(await uncaught), 'Error: thrown by a listener')
  process.setUncaughtExceptionCaptureCallback(null)
  assert.deepEqual(rows, [{ a: 1 }])
})

bothAlone('a connection may be made by its user', async (side) => {
  const { Connection: Theirs } = require('pg') as { Connection: typeof Connection }
  const Class = side.name === 'pg' ? Theirs : Connection
  const bare = new Class()
  const connection = new Class({ keepAlive: true })
  const client = new side.Client({ connectionString: url, connection })
  await client.connect()
  const { rows } = (await client.query('select 1 a')) as { rows: unknown }
  const seen = [client.connection === connection, bare.ssl, bare._ending, { ...bare.parsedStatements }, rows]
  await client.end()
  return seen
})

test('an object that is not a Connection of this package is refused', () => {
  const connection = {} as Connection
  assert.throws(() => new Client({ connection }), { name: 'TypeError', message: /Connection of this package/ })
})

bothAlone('queries that wait are counted by both names', async (side) => {
  const client = new side.Client(url) as Client & { queryQueue: unknown[] }
  const asked = [1, 2, 3].map((i) => client.query('select $1::int', [i]))
  const seen = [client.queryQueue.length, client._queryQueue.length]
  await client.connect()
  await Promise.all(asked)
  seen.push(client.queryQueue.length)
  await client.end()
  return seen
})

bothAlone('an error that a program emits on a connection is one of its client', async (side) => {
  const client = new side.Client(url)
  const told: unknown[] = []
  client.on('error', (error: Error) => told.push(error.message))
  await client.connect()
  client.connection.emit('error', new Error('expected'))
  client.connection.on('error', (error: Error) => told.push(['heard', error.message]))
  client.connection.emit('error', new Error('once more'))
  const query = await settled(client.query('select 1'))
  await client.end()
  return [told, query]
})
