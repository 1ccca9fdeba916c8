// The databases of a run: one for the client under test, and twins for those that it is held
// against. The real pg makes the migrations and reads what is stored.

import { inDatabase } from '../world'
import { NAME } from './clients'

interface Connection {
  connect(): Promise<void>
  query(text: string): Promise<{ rows: Record<string, string>[] }>
  end(): Promise<void>
}
const { Client } = require('pg') as { Client: new (config: object) => Connection }

/** What is stored: for each number the other columns as text, once for each row that has it. */
export type Stored = Map<number, string[]>

export const KINDS = ['ours', 'real', 'fresh'] as const
export type Kind = (typeof KINDS)[number]

export class Databases {
  readonly #url: string
  readonly #name: string
  readonly #connections: Map<Kind, Connection>

  private constructor(url: string, name: string, connections: Map<Kind, Connection>) {
    this.#url = url
    this.#name = name
    this.#connections = connections
  }

  static async make(url: string, name: string): Promise<Databases> {
    const connections = new Map<Kind, Connection>()
    await asked(url, async (client) => {
      for (const kind of KINDS) {
        await client.query(`create database ${name}_${kind} template template0`)
        const own = new Client({ connectionString: inDatabase(url, `${name}_${kind}`), application_name: 'observer' })
        await own.connect()
        connections.set(kind, own)
      }
    })
    return new Databases(url, name, connections)
  }

  url(kind: Kind): string {
    return inDatabase(this.#url, `${this.#name}_${kind}`)
  }

  #of(kind: Kind): Connection {
    return this.#connections.get(kind) as Connection
  }

  /** Installs an extension everywhere. Returns whether the server has it. */
  async extension(name: string): Promise<boolean> {
    const found = await this.#of('ours').query(`select name from pg_available_extensions where name = '${name}'`)
    if (found.rows.length === 0) return false
    for (const kind of KINDS) await this.#of(kind).query(`create extension if not exists ${name}`)
    return true
  }

  /** Runs texts everywhere. */
  async script(texts: readonly string[]): Promise<void> {
    for (const kind of KINDS) for (const text of texts) await this.#of(kind).query(text)
  }

  /** Makes a migration, in one transaction. */
  async migrate(kind: Kind, texts: readonly string[]): Promise<void> {
    const on = this.#of(kind)
    for (let tries = 0; ; tries++) {
      try {
        await on.query('begin')
        for (const text of texts) await on.query(text)
        await on.query('commit')
        return
      } catch (error) {
        await on.query('rollback')
        // A statement that has a weaker lock and wants another one may be in its way.
        if ((error as { code?: string }).code !== '40P01' || tries > 20) throw error
      }
    }
  }

  /** The rows that clients wrote. */
  async stored(kind: Kind, tables: readonly string[]): Promise<Stored> {
    const stored: Stored = new Map()
    for (const table of tables) {
      const { rows } = await this.#of(kind).query(`select id::text, t::text as row from ${table} t where id > 0`)
      for (const { id = '', row = '' } of rows) {
        const others = `${table} ${row.slice(row.indexOf(','))}`
        stored.set(Number(id), [...(stored.get(Number(id)) ?? []), others])
      }
    }
    return stored
  }

  /** The process numbers of the connections of the client under test. */
  async connections(): Promise<string[]> {
    const text = `select pid::text from pg_stat_activity
      where datname = current_database() and application_name = '${NAME}'`
    return (await this.#of('ours').query(text)).rows.map((it) => it['pid'] as string)
  }

  async end(): Promise<void> {
    for (const own of this.#connections.values()) await own.end()
    await asked(this.#url, async (client) => {
      for (const kind of KINDS) await client.query(`drop database ${this.#name}_${kind} with (force)`)
    })
  }
}

async function asked(url: string, ask: (client: Connection) => Promise<void>): Promise<void> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    await ask(client)
  } finally {
    await client.end()
  }
}
