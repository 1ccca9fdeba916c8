import assert from 'node:assert/strict'
import { test } from 'node:test'

import { postgres } from '../src/modern'
import { client, failure, url } from './modern/client'

const channel = `modern "channel" ${process.pid}`

test(
  'notifications come in their order, of all channels of a listener',
  { timeout: 600_000 },
  async () => {
    const sql = client()
    await using events = sql.listen(channel, 'other')
    await events.ready
    await sql.pipeline([
      sql`select pg_notify(${channel}, 'one')`,
      sql`select pg_notify('other', 'two')`,
      sql`select pg_notify('third', 'three')`,
      sql`select pg_notify(${channel}, 'four')`,
    ])
    const seen: unknown[] = []
    for await (const event of events) {
      assert.equal(event.kind, 'notification')
      if (event.kind === 'notification') seen.push([event.channel, event.payload])
      if (seen.length === 3) break
    }
    assert.deepEqual(seen, [
      [channel, 'one'],
      ['other', 'two'],
      [channel, 'four'],
    ])
    assert.deepEqual(await events.next(), { value: undefined, done: true })
  },
)

test(
  'a listener reconnects when its connection is lost, and yields a gap',
  { timeout: 600_000 },
  async () => {
    const sql = client()
    await using events = sql.listen(channel)
    await events.ready
    await sql`select pg_notify(${channel}, pg_backend_pid()::text)`
    await events.next()
    const next = events.next()
    await sql`select pg_terminate_backend(pid, 5000) from pg_stat_activity
    where query like 'listen "modern ""channel"" %' and pid <> pg_backend_pid()`
    assert.deepEqual(await next, { value: { kind: 'gap', dropped: 0 }, done: false })
    await sql`select pg_notify(${channel}, 'after')`
    const { value } = await events.next()
    assert.equal(value?.kind === 'notification' && value.payload, 'after')
  },
)

test(
  'the gap of a lost connection is behind what came before',
  { timeout: 600_000 },
  async () => {
    const sql = client()
    await using events = sql.listen(channel)
    await events.ready
    await sql`select pg_notify(${channel}, n::text) from generate_series(1, 1025) n`
    // One more than is kept: so all have come.
    while (events.dropped < 1) await new Promise((resolve) => setImmediate(resolve))
    await sql`select pg_terminate_backend(pid, 5000) from pg_stat_activity
    where query like 'listen "modern ""channel"" %' and pid <> pg_backend_pid()`
    // The gap of the loss takes the place of another one.
    while (events.dropped < 2) await new Promise((resolve) => setImmediate(resolve))
    await sql`select pg_notify(${channel}, 'after')`
    const told: unknown[] = []
    for await (const event of events) {
      told.push(event.kind === 'gap' ? event.dropped : event.payload)
      if (event.kind === 'notification' && event.payload === 'after') break
    }
    assert.equal(told[1], String(Number(told[0]) + 1))
    assert.deepEqual(told.slice(-3), ['1025', 0, 'after'])
  },
)

test(
  'of notifications that are not read the latest are kept, and the others counted',
  { timeout: 600_000 },
  async () => {
    const sql = client()
    await using events = sql.listen(channel)
    await using witness = sql.listen(channel)
    await Promise.all([events.ready, witness.ready])
    await sql`select pg_notify(${channel}, n::text) from generate_series(1, 3000) n`
    let taken = 0
    for await (const event of witness)
      if (event.kind === 'notification' && ++taken && event.payload === '3000') break
    while (events.dropped < 3000 - 1024) await new Promise((resolve) => setImmediate(resolve))
    assert.deepEqual((await events.next()).value, { kind: 'gap', dropped: 1976 })
    const { value } = await events.next()
    assert.equal(value?.kind === 'notification' && value.payload, '1977')
  },
)

test('a listener whose server refuses reports the reason', { timeout: 600_000 }, async () => {
  const unknown = new URL(url)
  unknown.pathname = '/no_such_database'
  await using sql = postgres(unknown.href)
  await using events = sql.listen(channel)
  for (const told of [events.ready, events.next()]) {
    const { code, outcome } = await failure(told)
    assert.deepEqual([code, outcome], ['3D000', 'NotSent'])
  }
  assert.throws(() => sql.listen(''), { code: 'channel_name' })
  assert.throws(() => sql.listen('x'.repeat(64)), { code: 'channel_name' })
})
