// The clients that run the statements: the two faces, and the real pg, which is what they are held
// against.

import { createHash } from 'node:crypto'

import { postgres } from '../../../src/modern'
import type { Sql } from '../../../src/modern/sql'
import type { Tag } from '../../../src/modern/tag'
import type { Query } from '../../../src/modern/query'
import { Pool as OurPool } from '../../../src/pg'
import type { Given, Statement } from './cases'

/** One use of a statement. */
export interface Use {
  readonly statement: Statement
  readonly given: Given
  /** The number of the row that it writes, if it writes one. */
  readonly id: number
}

/** Runs one statement, and returns its rows as text. */
export type Run = (use: Use) => Promise<string>

export interface Subject {
  /** How it can run several uses, of which all take effect or none. */
  readonly ways: readonly string[]
  /** How many connections it has closed on purpose. */
  readonly dropped: number
  run(way: string, uses: readonly Use[]): Promise<string[]>
  /** Lends a session, in which texts and uses run one by one. */
  session<T>(work: (run: Run, set: (text: string) => Promise<unknown>) => Promise<T>): Promise<T>
  end(): Promise<unknown>
}

/** What both the drop-in and pg have. */
interface Queries {
  query(query: string | object): Promise<{ rows: unknown[] }>
}
interface LentClient extends Queries {
  release(error?: boolean): void
}
interface PoolLike extends Queries {
  connect(): Promise<LentClient>
  end(): Promise<void>
  on(event: 'error', heard: () => void): unknown
}
const { Pool: RealPool } = require('pg') as { Pool: new (config: object) => PoolLike }

export const NAME = 'migrations'

/** A client of pg's shape: the real one, or the drop-in. */
export class PgShaped implements Subject {
  readonly ways: readonly string[]
  dropped = 0
  readonly #pool: PoolLike

  constructor(kind: 'real' | 'pg' | 'pg-pipeline', url: string, connections: number) {
    // With a name, pg keeps the types of its first use for ever, and is no measure.
    this.ways = ['plain', 'lent', 'together', 'transaction', ...(kind === 'real' ? [] : ['named'])]
    const config = { connectionString: url, max: connections, application_name: NAME, idleTimeoutMillis: 0 }
    this.#pool =
      kind === 'real'
        ? new RealPool(config)
        : (new OurPool({ ...config, pipeline: kind === 'pg-pipeline' }) as unknown as PoolLike)
    this.#pool.on('error', () => undefined)
  }

  async run(way: string, uses: readonly Use[]): Promise<string[]> {
    if (way === 'plain') return [await this.#plain(uses[0] as Use)]
    if (way === 'named') return this.#lent(async (client) => [await asked(client, uses[0] as Use, true)])
    if (way === 'lent') return this.#lent(async (client) => [await asked(client, uses[0] as Use)])
    return this.#lent(async (client) => {
      const rows: string[] = []
      await client.query('begin')
      try {
        if (way === 'together') rows.push(...(await all(uses.map((use) => asked(client, use)))))
        else for (const use of uses) rows.push(await asked(client, use))
        const { command } = (await client.query('commit')) as unknown as { command: string }
        if (command !== 'COMMIT') throw new Error(`COMMIT answered ${command}`)
      } catch (error) {
        await client.query('rollback')
        throw error
      }
      return rows
    })
  }

  /** As in pg, the pool closes a connection on which a query of its own has failed. */
  async #plain(use: Use): Promise<string> {
    try {
      return await asked(this.#pool, use)
    } catch (error) {
      this.dropped++
      throw error
    }
  }

  session<T>(work: (run: Run, set: (text: string) => Promise<unknown>) => Promise<T>): Promise<T> {
    return this.#lent(async (client) => {
      const done = await work((use) => asked(client, use), (text) => client.query(text))
      await client.query('discard all')
      return done
    })
  }

  async #lent<T>(work: (client: LentClient) => Promise<T>): Promise<T> {
    const client = await this.#pool.connect()
    try {
      return await work(client)
    } finally {
      client.release()
    }
  }

  end(): Promise<void> {
    return this.#pool.end()
  }
}

/** Waits for all of them, also when one has failed. */
async function all(asked: Promise<string>[]): Promise<string[]> {
  const settled = await Promise.allSettled(asked)
  return settled.map((it) => {
    if (it.status === 'rejected') throw it.reason
    return it.value
  })
}

async function asked(on: Queries, { statement, given, id }: Use, isNamed = false): Promise<string> {
  const values = statement.parameters.map((it) => (it === 'id' ? id : valueOf(given)))
  const { text } = statement
  const named = isNamed ? { name: createHash('md5').update(text).digest('hex') } : {}
  return shown((await on.query({ text, values, ...named })).rows, id)
}

/** The modern face. */
export class Modern implements Subject {
  readonly dropped = 0
  readonly ways = ['plain', 'together', 'pipeline', 'transaction', 'returned', 'streamed']
  readonly #sql: Sql
  readonly #templates = new Map<string, (tag: unknown, values: unknown[]) => unknown>()

  constructor(url: string, connections: number) {
    this.#sql = postgres(url, { applicationName: NAME, connectionsMax: connections })
  }

  async run(way: string, uses: readonly Use[]): Promise<string[]> {
    const sql = this.#sql
    const made = (tag: Tag): Query<unknown>[] => uses.map((use) => this.#query(tag, use))
    const told = (rows: readonly unknown[]): string[] => uses.map((use, at) => shown(rows[at], use.id))
    switch (way) {
      case 'plain':
        return told([await made(sql)[0]])
      case 'streamed': {
        const rows: unknown[] = []
        for await (const row of made(sql)[0] as Query<unknown>) rows.push(row)
        return told([rows])
      }
      case 'pipeline':
        return told(await sql.pipeline(made(sql)))
      case 'returned':
        return told((await sql.begin((tx) => made(tx) as [Query<unknown>])) as unknown[])
      case 'together':
        return told(await sql.begin((tx) => Promise.all(made(tx))))
      default:
        return told(
          await sql.begin(async (tx) => {
            const rows: unknown[][] = []
            for (const query of made(tx)) rows.push(await query)
            return rows
          }),
        )
    }
  }

  async session<T>(work: (run: Run, set: (text: string) => Promise<unknown>) => Promise<T>): Promise<T> {
    const session = await this.#sql.session()
    try {
      const run: Run = async (use) => shown(await this.#query(session, use), use.id)
      return await work(run, async (text) => this.#query(session, plain(text)))
    } finally {
      session.release()
    }
  }

  /** Templates are values of the language, so each text is made one once. */
  #query(tag: Tag, { statement, given, id }: Use): Query<unknown> {
    const used: number[] = []
    let template = this.#templates.get(statement.text)
    const escaped = statement.text.replaceAll('\\', '\\\\').replaceAll('`', '\\`').replaceAll('${', '\\${')
    const held = escaped.replaceAll(/\$(\d)(?!\d)/g, (_, n: string) => {
      used.push(Number(n) - 1)
      return `\${values[${Number(n) - 1}]}`
    })
    template ??= Function('tag', 'values', `return tag\`${held}\``) as (tag: unknown, values: unknown[]) => unknown
    this.#templates.set(statement.text, template)
    const json = (value: unknown): unknown => this.#sql.json(value as never)
    const values = statement.parameters.map((it) => (it === 'id' ? id : valueOf(given, json)))
    return template(tag, values) as Query<unknown>
  }

  end(): Promise<void> {
    return this.#sql.end()
  }
}

/** A text without parameters. */
export function plain(text: string): Use {
  return { statement: { name: 'text', text, parameters: [] }, given: null, id: 0 }
}

/** What a program of Node's would send for a value. */
function valueOf(given: Given, json: (value: unknown) => unknown = (it) => it): unknown {
  if (given === null) return null
  const [kind, value] = Object.entries(given)[0] as [string, unknown]
  switch (kind) {
    case 'int':
      return typeof value === 'string' ? BigInt(value) : value
    case 'timestamptz':
      return new Date(value as string)
    case 'interval':
      return `${value} seconds`
    case 'bytes':
      return Buffer.from(value as string, 'hex')
    case 'json':
      return json(value)
    case 'array':
      return (value as Given[]).map((it) => valueOf(it))
    case 'composite':
      return `(${(value as Given[]).map((it) => fieldOf(it)).join(',')})`
    default:
      return value
  }
}

function fieldOf(given: Given): string {
  const [kind, value] = Object.entries(given ?? { none: '' })[0] as [string, unknown]
  return ['timestamp', 'timestamptz'].includes(kind) ? `"${value}"` : String(value)
}

/** Rows as a text that shows the types of the values too. The number of the use's own row is left out. */
function shown(rows: unknown, id: number): string {
  return JSON.stringify((rows as Record<string, unknown>[]).map((row) => Object.entries(row).map(([name, it]) => [name, text(it, id)])))
}

function text(value: unknown, id: number): unknown {
  if (typeof value === 'number') return value === id ? 'own' : Object.is(value, -0) ? '-0 number' : `${value} number`
  if (typeof value === 'bigint') return value === BigInt(id) ? 'own bigint' : `${value} bigint`
  if (value === String(id)) return 'own string'
  if (value instanceof Date) return `${value.getTime()} Date`
  if (value instanceof Uint8Array) return `${Buffer.from(value).toString('hex')} bytes`
  if (Array.isArray(value)) return value.map((it) => text(it, id))
  if (typeof value === 'object' && value !== null) {
    return { [value.constructor?.name ?? '']: Object.entries(value).map(([name, it]) => [name, text(it, id)]) }
  }
  return value
}
