import assert from 'node:assert/strict'
import { afterEach, test } from 'node:test'

import { Client, Pool, type PoolClient, type PoolConfig } from '../src/pg'

const connectionString = process.env['ONETRIP_TEST_POSTGRES'] ?? ''

const pools: Pool[] = []
afterEach(async () => {
  await Promise.all(pools.splice(0).map((pool) => (pool.ending ? undefined : pool.end())))
})

function pool(config: PoolConfig = {}): Pool {
  const made = new Pool({ connectionString, ...config })
  pools.push(made)
  return made
}

test('each query of a pool gets its own result, on no more than max clients', async () => {
  const four = pool({ max: 4 })
  const results = await Promise.all(
    Array.from({ length: 100 }, (_, i) => four.query('select $1::int as n', [i])),
  )
  assert.deepEqual(
    results.map((result) => (result as { rows: unknown[] }).rows),
    results.map((_, n) => [{ n }]),
  )
  assert.deepEqual([four.totalCount, four.waitingCount], [4, 0])
  // The last connection may still be opening: the others have answered all.
  while (four.idleCount < 4) await new Promise((resolve) => setImmediate(resolve))
})

test('a client is lent to one caller at a time, in the order of the calls', async () => {
  const one = pool({ max: 1 })
  const first = await one.connect()
  const order: string[] = []
  const rest = ['a', 'b', 'c'].map(async (name) => {
    const client = await one.connect()
    order.push(name)
    client.release()
  })
  assert.deepEqual([one.totalCount, one.idleCount, one.waitingCount], [1, 0, 3])
  first.release()
  await Promise.all(rest)
  assert.deepEqual(order, ['a', 'b', 'c'])
})

test('a second release is an error, also if the client is lent again', async () => {
  const one = pool({ max: 1 })
  const client = await one.connect()
  const { release } = client
  release()
  assert.throws(() => release(), /already been released/)
  const again = await one.connect()
  assert.throws(() => release(), /already been released/)
  again.release()
})

test('a client that is released with an error is closed, and the next caller gets another', async () => {
  const one = pool({ max: 1 })
  const removed: Client[] = []
  one.on('remove', (client: Client) => removed.push(client))
  const client = await one.connect()
  const gone = new Promise((resolve) => one.once('remove', resolve))
  client.release(true)
  const next = await one.connect()
  assert.notEqual(next, client)
  await gone
  assert.deepEqual(removed, [client])
  next.release()
})

test('events are emitted when clients connect, are lent, come back and are removed', async () => {
  const one = pool({ max: 1 })
  const told: string[] = []
  for (const event of ['connect', 'acquire', 'release', 'remove']) {
    one.on(event, () => told.push(event))
  }
  await one.query('select 1')
  await one.query('select 1')
  await one.end()
  assert.deepEqual(told, ['connect', 'acquire', 'release', 'acquire', 'release', 'remove'])
})

test('a caller that waits longer than allowed is refused, and the next one is served', async () => {
  const one = pool({ max: 1, connectionTimeoutMillis: 3000 })
  const client = await one.connect()
  await assert.rejects(one.connect(), /timeout exceeded when trying to connect/)
  client.release()
  assert.equal((await one.connect()) === client, true)
  client.release()
})

test('an error of connecting fails the callers that wait', async () => {
  const wrong = pool({ connectionString: undefined, host: '127.0.0.1', port: 1, user: 'nobody' })
  await assert.rejects(wrong.query('select 1'), /ECONNREFUSED/)
  await assert.rejects(wrong.connect(), /ECONNREFUSED/)
  assert.equal(wrong.totalCount, 0)
})

test('the pool emits the error of an idle client that its server ends, and replaces it', async () => {
  const two = pool({ max: 2 })
  const victim = await two.connect()
  const { processID } = victim
  victim.release()
  const told = new Promise<[Error, PoolClient]>((resolve) => {
    two.once('error', (error, client) => resolve([error, client]))
  })
  await pool().query('select pg_terminate_backend($1)', [processID])
  const [error, client] = await told
  assert.match(error.message, /terminat/)
  assert.equal(client, victim)
  assert.equal((await two.query('select 1 as n') as { rowCount: number }).rowCount, 1)
})

test('a client that is lost while it is lent fails its caller, and is not lent again', async () => {
  const one = pool({ max: 1 })
  const other = pool({ max: 1 })
  const client = await one.connect()
  client.on('error', () => undefined)
  const failed = assert.rejects(
    client.query('select pg_sleep(100)') as Promise<unknown>,
    (error: Error & { outcome?: string }) => error.outcome === 'Unknown',
  )
  await other.query('select pg_terminate_backend($1)', [client.processID])
  await failed
  client.release()
  const next = await one.connect()
  assert.notEqual(next, client)
  next.release()
})

test('a pool that has ended refuses, and ending twice is an error', async () => {
  const ended = pool()
  await ended.query('select 1')
  await ended.end()
  assert.equal(ended.ended, true)
  await assert.rejects(ended.connect(), /after calling end on the pool/)
  await assert.rejects(ended.end(), /Called end on pool more than once/)
})

test('a pool that ends waits for the clients that are lent', async () => {
  const one = pool({ max: 1 })
  const client = await one.connect()
  let over = false
  const end = one.end().then(() => (over = true))
  await client.query('select 1')
  assert.equal(over, false)
  client.release()
  await end
})

test('clients that were lent often enough are closed', async () => {
  const one = pool({ max: 1, maxUses: 2 })
  const processes = new Set<number | null>()
  for (let i = 0; i < 6; i++) {
    const client = await one.connect()
    processes.add(client.processID)
    client.release()
  }
  assert.equal(processes.size, 3)
})

test('idle clients are closed after idleTimeoutMillis', async () => {
  const one = pool({ idleTimeoutMillis: 100 })
  const removed = new Promise((resolve) => one.once('remove', resolve))
  await one.query('select 1')
  await removed
  assert.equal(one.totalCount, 0)
})

test('onConnect prepares each client before it is lent, and its error fails the caller', async () => {
  const named = pool({ onConnect: (client) => client.query("set application_name = 'pooled'") })
  const { rows } = (await named.query('show application_name')) as { rows: unknown[] }
  assert.deepEqual(rows, [{ application_name: 'pooled' }])
  const broken = pool({
    onConnect: () => {
      throw new Error('not today')
    },
  })
  await assert.rejects(broken.connect(), /not today/)
})

test('callbacks are called as pg calls them', async () => {
  const one = pool({ max: 1 })
  await new Promise<void>((resolve, reject) => {
    one.connect((error, client, release) => {
      if (error || !client) return reject(error)
      client.query('select 1 as n', (failure: Error | null | undefined) => {
        release(failure ?? undefined)
        if (failure) reject(failure)
        else resolve()
      })
    })
  })
  await new Promise<void>((resolve, reject) => {
    one.query('select $1::int as n', [7], (error, result) => {
      if (error) return reject(error)
      assert.deepEqual((result as { rows: unknown[] }).rows, [{ n: 7 }])
      resolve()
    })
  })
})
