import assert from 'node:assert/strict'
import { test } from 'node:test'

import { Client } from '../src/pg'
import { both, bothAlone, connected, settled, url, type Side } from './pg-both'
import { Cursor, QueryStream } from './pg-submit-kit'

/** Queries that are refused before anything is sent. */
const REFUSED: readonly [string, (client: Client) => unknown][] = [
  ['a query without a text', (client) => client.query({})],
  ['values that are no array', (client) => client.query({ text: 'select $1', values: 'x' })],
  ['values that are no array, beside a text', (client) => client.query('select $1', 'x' as never)],
  ['a value that throws', (client) => client.query('select $1', [{ toPostgres: () => assert.fail('no value') }])],
  ['a circular value', (client) => client.query('select $1', [circular()])],
  ['too many values', (client) => client.query('select 1', new Array(70_000).fill(1))],
  ['a zero byte', (client) => client.query('select 1\0')],
]

function circular(): object {
  const value: { self?: object } = {}
  value.self = value
  return value
}

/** Waits for the next drain, or reports that none came. */
function drain(client: Client): Promise<string> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve('no drain'), 3_000)
    client.once('drain', () => {
      clearTimeout(timer)
      resolve('drain')
    })
  })
}

for (const pipeline of [false, true]) {
  for (const [name, refused] of REFUSED) {
    test(`drain is emitted after ${name}, pipeline: ${pipeline}`, { timeout: 600_000 }, async () => {
      const client = await connected({ pipeline })
      const drained = drain(client)
      assert.ok((await settled(refused(client) as Promise<unknown>)) instanceof Error)
      assert.equal(await drained, 'drain')
    })
  }
}

/** The number of drains while `run` runs, and until nothing is pending. */
async function drains(client: Client, run: () => Promise<unknown>): Promise<number> {
  let count = 0
  const listener = (): unknown => count++
  client.on('drain', listener)
  await run()
  await new Promise((resolve) => setTimeout(resolve, 30))
  client.off('drain', listener)
  return count
}

both('drain is told once for all that are refused in a turn, and behind others', async (client) => {
  const wrong = (): Promise<unknown> => settled(client.query({}))
  return [
    await drains(client, () => Promise.all([wrong(), wrong(), wrong()])),
    await drains(client, () => Promise.all([client.query('select 1'), wrong()])),
    await drains(client, () => Promise.all([wrong(), client.query('select 1')])),
    await drains(client, () => settled(client.query('select $1', 'x' as never))),
  ]
})

bothAlone('drain is told behind connect where all that was asked in the login was refused', async (side: Side) => {
  const client = new side.Client(url)
  const events: string[] = []
  for (const name of ['connect', 'drain']) client.on(name, () => events.push(name))
  const drained = drain(client)
  const refused = settled(client.query({}))
  await client.connect()
  const seen = [await refused, await drained, events]
  await client.end()
  return seen
})

bothAlone('a client that ends with drain ends behind a query that is refused', async (side) => {
  const client = await connected({}, side)
  client.on('drain', () => void client.end())
  const ended = new Promise((resolve) => client.once('end', () => resolve('ended')))
  const error = await settled(client.query('select $1::text', 'foo' as never))
  return [error, await ended]
})

bothAlone('a client that takes no queries tells no drain, and says so first', async (side) => {
  const client = await connected({}, side)
  await client.end()
  const seen: unknown[] = []
  seen.push(await drains(client, async () => seen.push(await settled(client.query({})))))
  return seen
})

test('drain is emitted although the stream that waited for its turn was destroyed', async () => {
  const client = await connected()
  const running = client.query('select pg_sleep(0.05)')
  const stream = client.query(new QueryStream('select 1'))
  const drained = drain(client)
  stream.on('error', () => {})
  stream.destroy()
  await running
  assert.equal(await drained, 'drain')
})

test('a wrong query behind a cursor fails at once, and drain follows the cursor', async () => {
  const client = await connected()
  const cursor = client.query(new Cursor('select generate_series(1, 3) i'))
  let isOver = false
  const drained = drain(client).then((it) => [it, isOver])
  assert.ok((await settled(client.query({}))) instanceof Error)
  assert.equal((await cursor.read(2)).length, 2)
  isOver = true
  await cursor.close()
  assert.deepEqual(await drained, ['drain', true])
})
