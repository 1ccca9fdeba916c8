import assert from 'node:assert/strict'
import { test } from 'node:test'

import { Client, type Result, type QueryError, type Results } from '../src/pg'
import { both, connected, event, settled } from './pg-both'

const first = (results: Results): unknown => Object.values((results as Result).rows[0] ?? {})[0]

for (const config of [{ pipeline: true }, { pipelineMode: true }]) {
  both(
    `replies come to those who asked with ${JSON.stringify(config)}`,
    async (client) => {
      const asked = []
      for (let i = 0; i < 300; i++) {
        if (i % 7 === 3) asked.push(settled(client.query('select $1::int / 0', [i])))
        else if (i % 7 === 5) asked.push(client.query(`select ${i} a; select 'b'`))
        else if (i % 7 === 6) asked.push(client.query({ name: `n${i % 3}`, text: `select $1::int + ${i % 3} a`, values: [i] }))
        else asked.push(client.query('select $1::int a', [i]))
      }
      return Promise.all(asked)
    },
    config,
  )
}

both(
  'a client that pipelines answers its queries before it ends',
  async (client) => {
    const asked = [client.query('select 1 a'), client.query('select $1::int b', [2])]
    const ended = client.end()
    const late = await settled(client.query('select 3'))
    return [await Promise.all(asked), await ended, late]
  },
  { pipeline: true },
)

both(
  'in a transaction a failed query aborts the rest, and COMMIT answers ROLLBACK',
  async (client) => {
    await client.query('create temp table t (i int)')
    const texts = ['begin', 'insert into t values (1)', 'select 1 / 0', 'insert into t values (2)', 'commit', 'table t']
    return Promise.all(texts.map((text) => settled(client.query(text))))
  },
  { pipeline: true },
)

test('each query has a sync point of its own, so that a failure undoes no other query', async () => {
  const client = await connected({ pipeline: true })
  await client.query('create temp table t (i int)')
  const asked = ['1', '2', 'x', '4'].map((i) => settled(client.query('insert into t values ($1)', [i])))
  const errors = (await Promise.all(asked)).map((it) => (it as QueryError).outcome)
  assert.deepEqual(errors, [undefined, undefined, 'Rejected', undefined])
  assert.equal(first(await client.query('select array_agg(i)::text from t')), '{1,2,4}')
})

test('queries of one name run at once, and one that fails leaves its neighbours alone', async () => {
  const client = await connected({ pipeline: true })
  // Names are used once it is known that the server itself is on the other end.
  await client.query({ name: 'first', text: 'select 1' })
  const run = (value: string): Promise<unknown> =>
    settled(client.query({ name: 'same', text: 'select $1::int a', values: [value] }).then(first))
  const answers = await Promise.all(['1', 'x', '3', '4'].map(run))
  assert.deepEqual([answers[0], answers[2], answers[3]], [1, 3, 4])
  assert.equal((answers[1] as QueryError).outcome, 'Rejected')
  const other = (await settled(client.query({ name: 'same', text: 'select 2' }))) as QueryError
  assert.equal(other.message, "Prepared statements must be unique - 'same' was used for a different statement")
  assert.equal(other.outcome, 'NotSent')
})

test('a statement whose Parse fails fails alone', async () => {
  const client = await connected({ pipeline: true })
  const bad = [1, 2].map(() => settled(client.query({ name: 'bad', text: 'selec $1', values: [1] })))
  const good = client.query({ name: 'good', text: 'select $1::int', values: [5] })
  for (const error of await Promise.all(bad)) assert.equal((error as { code?: string }).code, '42601')
  assert.equal(first(await good), 5)
})

test('pipelineFull and pipelineDrain are emitted once each, with the right counts', async () => {
  const client = await connected({ pipeline: true, pipelineMaxQueries: 8 })
  const events: [string, boolean][] = []
  client.on('pipelineFull', () => events.push(['full', client.pendingQueryCount === 8]))
  client.on('pipelineDrain', () => events.push(['drain', client.pendingQueryCount < 6]))
  const burst = (n: number): Promise<unknown> =>
    Promise.all(Array.from({ length: n }, (_, i) => client.query('select $1::int', [i])))
  await burst(8)
  assert.deepEqual(events, [])
  await burst(50)
  assert.deepEqual(events, [['full', true], ['drain', true]])
  await burst(9)
  assert.equal(events.length, 4)
  assert.equal(client.pendingQueryCount, 0)
})

test('the count of unanswered queries stays within the window', async () => {
  const client = await connected({ pipelineMode: true, pipelineMaxQueries: 5 })
  const asked = Array.from({ length: 20 }, () => client.query('select pg_sleep(0)'))
  const drained = event(client, 'drain')
  let most = 0
  for (const query of asked) {
    most = Math.max(most, client.pendingQueryCount)
    await query
  }
  await drained
  assert.equal(most, 5)
})

test('without the option a query is sent when the last one is answered', async () => {
  const client = await connected()
  const events: string[] = []
  client.on('pipelineFull', () => events.push('full'))
  const asked = [1, 2, 3].map((i) => client.query('select $1::int', [i]))
  assert.equal(client.pendingQueryCount, 1)
  await Promise.all(asked)
  assert.deepEqual(events, [])
})

test('an invalid window is refused', () => {
  for (const pipelineMaxQueries of [0, -1, 1.5, NaN]) {
    assert.throws(() => new Client({ pipeline: true, pipelineMaxQueries }), RangeError)
  }
})
