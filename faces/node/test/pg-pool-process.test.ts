import assert from 'node:assert/strict'
import { test } from 'node:test'

import { OURS, THEIRS, run } from './pg-process'

const limits = { timeout: 600_000 }

test('allowExitOnIdle lets the process end with idle clients', limits, async () => {
  const program = (keys: string): string => `
    const pool = new Pool({ connectionString: url, max: 2, allowExitOnIdle: true, ${keys} })
    await Promise.all([pool.query('select 1'), pool.query('select 2')])
    const client = await pool.connect()
    await client.query('select 3')
    client.release()
    console.log(pool.totalCount > 0)`
  const ends = [
    await run(THEIRS, program('')),
    await run(OURS, program('')),
    await run(OURS, program('pipeline: true')),
  ]
  for (const { code, out } of ends) assert.deepEqual([code, out], [0, 'true\n'])
})

test('with allowExitOnIdle, a lent client or a query still keeps the process alive', limits, async () => {
  const program = (keys: string): string => `
    const pool = new Pool({ connectionString: url, max: 1, allowExitOnIdle: true, ${keys} })
    await pool.query('select 1')
    await new Promise((resolve) => setImmediate(resolve))
    await pool.query('select pg_sleep(0.1)')
    const client = await pool.connect()
    const waits = pool.query('select 1')
    await client.query('select pg_sleep(0.1)')
    client.release()
    await waits
    console.log('all')`
  for (const end of [
    await run(THEIRS, program('')),
    await run(OURS, program('')),
    await run(OURS, program('pipeline: true')),
  ]) {
    assert.deepEqual([end.code, end.out], [0, 'all\n'])
  }
})

test('without allowExitOnIdle, idle clients keep the process alive until they are closed', limits, async () => {
  const program = `
    const pool = new Pool({ connectionString: url, idleTimeoutMillis: 300 })
    await pool.query('select 1')
    pool.on('remove', () => console.log('removed'))`
  assert.deepEqual((await run(THEIRS, program)).out, 'removed\n')
  assert.deepEqual((await run(OURS, program)).out, 'removed\n')
})

test('without a listener a lost idle client is a warning, and the pool goes on', limits, async () => {
  const program = `
    const pool = new Pool({ connectionString: url, max: 1 })
    const killer = new Pool({ connectionString: url, max: 1 })
    const client = await pool.connect()
    client.release()
    const removed = new Promise((resolve) => pool.once('remove', resolve))
    await killer.query('select pg_terminate_backend($1)', [client.processID])
    await removed
    const { rows } = await pool.query('select 1 as a')
    console.log(rows[0].a)
    await Promise.all([pool.end(), killer.end()])`
  // With pg the process crashes.
  assert.notEqual((await run(THEIRS, program)).code, 0)
  const ours = await run(OURS, program)
  assert.deepEqual([ours.code, ours.out], [0, '1\n'])
  assert.match(ours.err, /Warning: An idle client of a pool lost its connection/)
})

test('without a listener a client lost while it is lent is a warning', limits, async () => {
  const program = `
    const pool = new Pool({ connectionString: url, max: 1 })
    const killer = new Pool({ connectionString: url, max: 1 })
    const client = await pool.connect()
    const ended = new Promise((resolve) => client.once('end', resolve))
    await killer.query('select pg_terminate_backend($1)', [client.processID])
    await ended
    client.release()
    const { rows } = await pool.query('select 1 as a')
    console.log(rows[0].a)
    await Promise.all([pool.end(), killer.end()])`
  assert.notEqual((await run(THEIRS, program)).code, 0)
  const ours = await run(OURS, program)
  assert.deepEqual([ours.code, ours.out], [0, '1\n'])
  assert.match(ours.err, /Warning: A client's connection is lost/)
})

test('an error of a callback ends the process, like any uncaught error', limits, async () => {
  const program = `
    const pool = new Pool({ connectionString: url, max: 1 })
    pool.query('select 1', () => { throw new Error('mine') })`
  for (const from of [THEIRS, OURS]) {
    const { code, err } = await run(from, program)
    assert.notEqual(code, 0)
    assert.match(err, /Error: mine/)
  }
})
