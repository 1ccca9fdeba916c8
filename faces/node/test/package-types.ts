import assert from 'node:assert/strict'
import { test } from 'node:test'

import { compile, type Project } from './package-project'

const LIMIT = { timeout: 600_000 }

/** A program written for pg. */
const PROGRAM = `
import type { ClientBase, ClientConfig, CustomTypesConfig, FieldDef, Notification, PoolClient, PoolConfig,
  QueryArrayConfig, QueryArrayResult, QueryConfig, QueryError, QueryResult, QueryResultRow, Submittable } from 'PACKAGE'
import { Client, DatabaseError, Pool, Query, TypeOverrides, defaults, escapeIdentifier, types } from 'PACKAGE'

interface User { id: number; name: string }

export class Repository {
  private readonly pool: Pool
  constructor(config: PoolConfig) {
    this.pool = new Pool({ max: 5, idleTimeoutMillis: 1000, ...config })
    this.pool.on('error', (error, client) => console.error(error.message, client.processID))
    this.pool.on('connect', (client) => void client.query('set search_path to mine'))
  }
  async find(id: number): Promise<User | undefined> {
    const { rows, rowCount } = await this.pool.query<User>('select * from users where id = $1', [id])
    const count: number | null = rowCount
    return count === 0 ? undefined : rows[0]
  }
  async names(): Promise<string[]> {
    const result: QueryArrayResult<[string]> = await this.pool.query({ text: 'select name from users', rowMode: 'array' })
    return result.rows.map(([name]) => name)
  }
  async within<T>(work: (client: PoolClient) => Promise<T>): Promise<T> {
    const client = await this.pool.connect()
    try {
      await client.query('BEGIN')
      const result = await work(client)
      await client.query('COMMIT')
      return result
    } catch (error) {
      await client.query('ROLLBACK')
      if (error instanceof DatabaseError && error.code === '23505') throw new Error(error.constraint)
      throw error
    } finally {
      client.release()
    }
  }
  byCallback(done: (rows: QueryResultRow[]) => void): void {
    this.pool.query('select $1::text', ['a'], (error, result) => { if (!error) done(result.rows) })
    this.pool.connect((error, client, release) => { client?.query('select 1', () => release(error)) })
  }
}

export async function look(config: ClientConfig): Promise<string> {
  const client = new Client(config)
  client.on('notification', ({ channel, payload }: Notification) => console.log(channel, payload))
  client.on('notice', (notice) => console.log(notice.message, notice.severity))
  await client.connect()
  const untyped = await client.query('select 1 as one')
  const text: string = untyped.rows[0].one.toFixed()
  const fields: FieldDef[] = untyped.fields
  const query: QueryConfig = { name: 'named', text: 'select $1', values: [1], query_timeout: 5 }
  const result: QueryResult = await client.query(query)
  const status: string | null = client.getTransactionStatus()
  const rows = client.query(new Query<User>('select 1'))
  rows.on('row', (row) => console.log(row.name))
  client.setTypeParser(types.builtins.INT8, (value: string) => BigInt(value))
  await client.end()
  return [text, fields.length, result.command, status, escapeIdentifier('a')].join()
}

export const why = ({ code, outcome }: QueryError): string => code ?? outcome ?? 'unknown'
export const mine: CustomTypesConfig = { getTypeParser: () => (value: string) => value }
export const arrays: QueryArrayConfig = { text: 'select 1', rowMode: 'array', types: mine }
export const overrides = new TypeOverrides(mine)
types.setTypeParser(types.builtins.NUMERIC, (value: string) => Number(value))
defaults.parseInt8 = true

export class Timed extends Client {
  startedAt = Date.now()
}
export const run = (client: ClientBase, cursor: Submittable): Submittable => client.query(cursor)
`

/** The same with the default import, as a namespace of types and values. */
const BY_DEFAULT = `
import pg from 'PACKAGE'
const { Pool } = pg
const pool: pg.Pool = new Pool({ pipeline: true })
export const query = async (): Promise<number> => {
  const client: pg.PoolClient = await pool.connect()
  const { rows }: pg.QueryResult<{ n: number }> = await client.query('select 1 as n')
  client.release()
  return rows[0]?.n ?? pg.defaults.max ?? 0
}
`

/** Imports of files of pg that `@types/pg` declares. */
const BY_PATH = `
import TypeOverrides from 'pg/lib/type-overrides.js'
import ConnectionParameters from 'pg/lib/connection-parameters.js'
import { TypeOverrides as Same } from 'pg'
const overrides: TypeOverrides = new Same()
overrides.setTypeParser(20, (value: string) => BigInt(value))
const parameters = new ConnectionParameters({ host: 'db' })
parameters.getLibpqConnectionString((error: Error | null, text: string | null) => console.log(error, text))
export const port: number | undefined = parameters.port
`

/**
 * Ways of resolving packages, and the extension of the files: one resolves imports, the other
 * requires.
 */
const RESOLVERS: { [way: string]: string[] } = {
  nodenext: ['.ts', '.mts'],
  bundler: ['.ts'],
}

/** Tests that programs written for the types of pg compile. */
export function typed(project: Project): void {
  for (const [way, endings] of Object.entries(RESOLVERS)) {
    test(
      `programs that were written for the types of pg compile with ours (${way})`,
      LIMIT,
      async () => {
        const files: string[] = []
        for (const name of ['pg', 'onetrip/pg']) {
          const put = (file: string, text: string): void => {
            files.push(
              project.write(
                `${way}-${name.replace('/', '-')}-${file}`,
                text.replaceAll('PACKAGE', name),
              ),
            )
          }
          for (const ending of endings) put(`names${ending}`, PROGRAM)
          put(`default${endings.at(-1)}`, BY_DEFAULT)
        }
        files.push(project.write(`${way}-by-path${endings.at(-1)}`, BY_PATH))
        const module = way === 'bundler' ? 'esnext' : way
        const parameters = ['--module', module, '--moduleResolution', way, ...files]
        assert.equal(await compile(project, parameters), '')
      },
    )
  }
}
