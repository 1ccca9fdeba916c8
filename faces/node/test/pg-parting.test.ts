import assert from 'node:assert/strict'
import { test } from 'node:test'

import type { Client } from '../src/pg'
import { bothAlone, connected, settled, type Side } from './pg-both'

interface Cursor {
  submit(connection: unknown): unknown
  read(rows: number): Promise<unknown>
}

const Cursor = require('pg-cursor') as new (text: string) => Cursor

/** A client whose server has ended the connection by an error. The socket may still be open. */
async function parting(side?: Side): Promise<{ client: Client; told: string[] }> {
  const client = await connected({}, side)
  const killer = await connected({}, side)
  const told: string[] = []
  client.on('error', (error) => told.push(`error: ${error.message}`))
  client.on('end', () => told.push('end'))
  // The answer may arrive after the test.
  killer.query('select pg_terminate_backend($1)', [client.processID]).catch(() => {})
  const error = (await settled(client.query('select pg_sleep(20)'))) as { code?: string }
  told.push(`active: ${error.code}`)
  return { client, told }
}

// With pg the error may be ECONNRESET, depending on the moment, so only the order is compared.
bothAlone('a query after the last message of the server fails after the error event of the client', async (side) => {
  const { client, told } = await parting(side)
  await settled(client.query('select 1'))
  return [told[0], told[1]?.startsWith('error: ')]
})

test('a query after the last message of the server is not sent', { timeout: 600_000 }, async () => {
  const { client } = await parting()
  const error = (await settled(client.query('select $1', [1]))) as { outcome?: string }
  assert.equal(error.outcome, 'NotSent')
})

bothAlone('a query that runs itself hears behind the last word of the server that it has no connection', async (side) => {
  const { client } = await parting(side)
  const cursor = client.query(new Cursor('select 1'))
  return (await settled(cursor.read(1))) instanceof Error
})

test('a client that is ended after the last message of the server ends', { timeout: 600_000 }, async () => {
  const { client, told } = await parting()
  const waits = settled(client.query('select 1'))
  await client.end()
  assert.equal(((await waits) as Error).message, 'Connection terminated')
  assert.deepEqual(told, ['active: 57P01', 'end'])
})
