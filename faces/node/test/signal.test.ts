import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { after, test } from 'node:test'

import { Client, Pool } from '../src/pg'
import { redis } from '../src/redis'
import { client, failure, url } from './modern/client'

const limits = { timeout: 600_000 }

const warnings: string[] = []
const warn = ({ name }: Error): void => void warnings.push(name)
process.on('warning', warn)
after(() => process.off('warning', warn))

/** Runs many calls with one signal, aborts it, and returns the names of their errors. */
async function aborted(ask: (signal: AbortSignal) => PromiseLike<unknown>): Promise<Set<string>> {
  const { signal, abort } = stopper()
  const errors = Array.from({ length: 30 }, () => failure(ask(signal)))
  assert.equal(getEventListeners(signal, 'abort').length, 1)
  abort()
  const codes = new Set((await Promise.all(errors)).map((error) => error.code))
  assert.equal(getEventListeners(signal, 'abort').length, 0)
  // A warning would be emitted in the next tick.
  await new Promise((resolve) => setImmediate(resolve))
  assert.deepEqual(warnings, [])
  return codes
}

const ABORTED = new Set(['ABORT_ERR'])

test('many queries of a client share one listener of a signal', limits, async () => {
  const one = new Client({ connectionString: url })
  await one.connect()
  const text = 'select pg_sleep(100)'
  assert.deepEqual(await aborted((signal) => one.query({ text, signal })), ABORTED)
  await one.end()
})

test('many queries of a pool share one listener of a signal', limits, async () => {
  const pool = new Pool({ connectionString: url, max: 1 })
  const lent = await pool.connect()
  assert.deepEqual(await aborted((signal) => pool.query({ text: 'select', signal })), ABORTED)
  lent.release()
  await pool.end()
})

test('many statements of the modern face share one listener of a signal', limits, async () => {
  const sql = client({ connectionsMax: 2 })
  assert.deepEqual(await aborted((signal) => sql`select pg_sleep(100)`.signal(signal).send()), ABORTED)
})

test('many commands share one listener of a signal', limits, async () => {
  const db = redis('redis://127.0.0.1:1')
  assert.deepEqual(await aborted((signal) => db.with({ signal }).get('k')), ABORTED)
  db.destroy()
})

test('a call that has ended leaves the signal, and the others stay', limits, async () => {
  const sql = client()
  const { signal, abort } = stopper()
  const first = sql`select 1`.signal(signal).send()
  const slow = failure(sql`select pg_sleep(100)`.signal(signal).send())
  await first
  assert.equal(getEventListeners(signal, 'abort').length, 1)
  abort()
  assert.equal((await slow).code, 'ABORT_ERR')
})

function stopper(): { signal: AbortSignal; abort: () => void } {
  const controller = new AbortController()
  return { signal: controller.signal, abort: () => controller.abort() }
}
