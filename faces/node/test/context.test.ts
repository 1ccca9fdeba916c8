import assert from 'node:assert/strict'
import { AsyncLocalStorage } from 'node:async_hooks'
import { test } from 'node:test'

import { Client, Pool, type ClientConfig } from '../src/pg'
import { client, url } from './modern/client'
import { listen, WELCOME } from './pg-served'

const limits = { timeout: 600_000 }
const requests = new AsyncLocalStorage<string>()

test('a client of a pool connects in the async context of its caller', limits, async () => {
  const seen: (string | undefined)[] = []
  class Noting extends Client {
    constructor(given?: ClientConfig) {
      super(given)
      // The client is told to connect after this.
      seen.push(requests.getStore())
    }
  }
  for (const pipeline of [false, true]) {
    const pool = new Pool({ connectionString: url, max: 1, Client: Noting, pipeline })
    await requests.run('a request', () => pool.query('select 1'))
    await pool.end()
  }
  const lends = new Pool({ connectionString: url, max: 1, Client: Noting })
  const lent = await requests.run('another', () => lends.connect())
  lent.release()
  await lends.end()
  assert.deepEqual(seen, ['a request', 'a request', 'another'])
})

test('the modern face opens connections_min without a caller', limits, async () => {
  let came = 0
  await new Promise<void>((resolve) => {
    const opened = listen(
      () => undefined,
      () => {
        if (++came === 2) resolve()
        return WELCOME
      },
    )
    void opened.then((port) =>
      client({ url: `postgres://me@127.0.0.1:${port}/d?sslmode=disable`, connectionsMin: 2 }),
    )
  })
})
