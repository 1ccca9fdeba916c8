import assert from 'node:assert/strict'
import { Socket } from 'node:net'
import { test } from 'node:test'

import { Client, Pool, type PoolClient, type QueryError } from '../src/pg'
import { bothAlone, event, settled, url, type Side } from './pg-both'
import { turn } from './pg-pools'
import { Cursor } from './pg-submit-kit'

const theirs = require('pg') as { Pool: typeof Pool }

/** A stream of a user that fails and never emits `close`. */
class NeverClosed extends Socket {
  override emit(name: string | symbol, ...args: unknown[]): boolean {
    return name === 'close' ? false : super.emit(name as string, ...args)
  }
}

const LONG = 'select pg_sleep(100)'
const limits = { timeout: 600_000 }

/** Runs a query of a pool whose stream fails meanwhile. */
async function failInPool(side: Side, stream: () => Socket): Promise<unknown> {
  const Made = side.name === 'pg' ? theirs.Pool : Pool
  const pool = new Made({ connectionString: url, max: 1, stream })
  const connected = event(pool, 'connect') as Promise<PoolClient>
  const running = pool.query(LONG).catch((error: Error) => [error, client.connection.stream.destroyed])
  const client = await connected
  client.connection.stream.emit('error', new Error('network issue'))
  const seen = [await running, pool.totalCount, pool.idleCount]
  const { rows } = (await pool.query('select 1 as a')) as { rows: unknown[] }
  // With pg this never ends if the stream emits nothing.
  void pool.end()
  return [...seen, rows]
}

bothAlone('a stream that fails while a query of a pool runs fails it, and is destroyed', async (side) => {
  return [await failInPool(side, () => new Socket()), await failInPool(side, () => new NeverClosed())]
})

bothAlone('a stream that fails and is never closed fails what runs, waits and comes', async (side) => {
  const client = new side.Client({ connectionString: url, stream: () => new NeverClosed() })
  await client.connect()
  const lost = event(client, 'error')
  client.on('error', () => {})
  const asked = [client.query(LONG), client.query('select 1')].map(settled)
  const read = settled(client.query(new Cursor('select 1')).read(1))
  client.connection.stream.emit('error', new Error('network issue'))
  const seen = [await Promise.all(asked), await read, await lost, await settled(client.query('select 1'))]
  client.connection.stream.destroy()
  return seen
})

test('a client whose stream failed and never closes ends', limits, async () => {
  for (const pipeline of [false, true]) {
    const config = { connectionString: url, pipeline, stream: () => new NeverClosed() }
    const client = new Client(config)
    await client.connect()
    client.on('error', () => {})
    const ended = event(client, 'end')
    const running = settled(client.query(LONG))
    await turn()
    client.connection.stream.emit('error', new Error('network issue'))
    const ends = client.end()
    assert.equal(((await running) as QueryError).outcome, 'Unknown')
    await Promise.all([ends, ended])
    const pool = new Pool(config)
    await pool.query('select 1')
    const failed = event(pool, 'error')
    pool._clients[0]?.connection.stream.emit('error', new Error('network issue'))
    assert.match(String(await failed), /network issue/)
    await pool.end()
  }
})
