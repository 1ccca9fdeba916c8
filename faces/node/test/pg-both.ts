import assert from 'node:assert/strict'
import { after, test } from 'node:test'

import { Client, Query, Result, type ClientConfig } from '../src/pg'

/** The real pg. */
const theirs = require('pg') as { Client: typeof Client; Query: typeof Query }

export const url = process.env['ONETRIP_TEST_POSTGRES'] ?? ''

/** The login of the test server, for tests that connect in other ways. */
export const login = ((): { user: string; password: string; database: string } => {
  const { username, password } = new URL(url)
  return {
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    database: 'postgres',
  }
})()

/** One of the two drivers, and its configuration. */
export interface Side {
  name: 'pg' | 'onetrip'
  Client: typeof Client
  Query: typeof Query
}

const OURS: Side = { name: 'onetrip', Client, Query }
const THEIRS: Side = { name: 'pg', ...theirs }

const open = new Set<Client>()
after(() => Promise.all([...open].map((client) => client.end())))

/** A client that is connected, and ended when the file's tests are over. */
export async function connected(config: ClientConfig = {}, side = OURS): Promise<Client> {
  const client = new side.Client({ connectionString: url, ...config })
  open.add(client)
  client.once('end', () => open.delete(client))
  await client.connect()
  return client
}

/**
 * A test that runs with both drivers and compares the results. Errors are compared by their fields.
 */
export function both(
  name: string,
  run: (client: Client, side: Side) => Promise<unknown>,
  config: ClientConfig = {},
): void {
  test(name, { timeout: 600_000 }, async () => {
    const sides: unknown[] = []
    // One after the other, since they share channels and the like.
    for (const side of [THEIRS, OURS]) {
      const client = await connected(config, side)
      sides.push(plain(await run(client, side)))
      // The server takes a limited number of connections.
      await client.end()
    }
    assert.deepEqual(sides[1], sides[0])
  })
}

/** The same without a client. */
export function bothAlone(name: string, run: (side: Side) => Promise<unknown>): void {
  test(name, { timeout: 600_000 }, async () => {
    assert.deepEqual(plain(await run(OURS)), plain(await run(THEIRS)))
  })
}

/** The value or the error of a promise. */
export async function settled(promise: Promise<unknown>): Promise<unknown> {
  try {
    return await promise
  } catch (error) {
    return error
  }
}

/** The next event of an emitter, or its error. */
export function event(emitter: NodeJS.EventEmitter, name: string): Promise<unknown> {
  return new Promise((resolve) => emitter.once(name, resolve))
}

/** Converts to values that can be compared: without classes, stacks and our additions to errors. */
export function plain(value: unknown): unknown {
  if (value instanceof Error) {
    const { outcome: _, ...fields } = value as Error & { outcome?: string }
    // The names of temporary schemas have numbers, which differ.
    if (/^pg_temp_/.test((fields as { schema?: string }).schema ?? '')) {
      Object.assign(fields, { schema: 'pg_temp', length: 0 })
    }
    // The source line that refuses a statement of a failed transaction depends on the protocol.
    if ((fields as { code?: string }).code === '25P02') {
      Object.assign(fields, { length: 0, line: '', routine: '' })
    }
    return [value.constructor.name, value.message, fields]
  }
  if (Array.isArray(value)) return value.map(plain)
  if (value instanceof Date || Buffer.isBuffer(value) || typeof value !== 'object' || value === null) {
    return value
  }
  if (isResult(value)) {
    const { command, rowCount, oid, rows, fields, rowAsArray, _prebuiltEmptyResultObject } = value
  // Each driver has tables of its own.
    const columns = fields.map((field) => ({ ...field, tableID: field.tableID > 0 }))
    return { command, rowCount, oid, rows: rows.map(plain), columns, rowAsArray, _prebuiltEmptyResultObject }
  }
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, plain(part)]))
}

function isResult(value: object): value is Result {
  return value.constructor.name === 'Result'
}

/** A long query that sends a notice once it runs. A cancel before that would have no effect. */
export async function longQuery(client: Client): Promise<string> {
  await client.query(`create or replace function pg_temp.long() returns void language plpgsql as
    $$ begin raise notice 'runs'; perform pg_sleep(100); end $$`)
  return 'select pg_temp.long()'
}
