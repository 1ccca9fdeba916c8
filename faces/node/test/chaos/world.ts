// The database of a run: the tables, functions and roles of proof/chaos.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'

interface Result {
  readonly rows: Record<string, unknown>[]
}

/** The real pg reads the tables, so that the client under test is not checked by itself. */
interface Observer {
  connect(): Promise<void>
  query(text: string): Promise<Result>
  end(): Promise<void>
  on(event: 'error', heard: () => void): void
}
const pg = require('pg') as { Client: new (config: object) => Observer }

const folder = join(__dirname, '../../../../../proof/chaos/src/sessions')
const file = (name: string): string => readFileSync(join(folder, name), 'utf8')

/** An expression for the state of the session that a statement runs in. */
export const SEEN = file('seen.sql').trim()

/** A URL with another database. */
export function inDatabase(url: string, name: string): string {
  const to = new URL(url)
  to.pathname = `/${name}`
  return to.href
}

/** One database on a server. */
export class World {
  readonly url: string
  /** The value of `SEEN` in a clean session. */
  clean = ''

  private constructor(url: string) {
    this.url = url
  }

  static async make(server: string, name: string): Promise<World> {
    await asked(server, async (client) => {
      await client.query(`drop database if exists ${name} with (force)`)
      // Another run may be using the template database.
      for (let tries = 0; ; tries++) {
        try {
          return await client.query(`create database ${name}`)
        } catch (error) {
          if (tries > 50) throw error
        }
      }
    })
    const world = new World(inDatabase(server, name))
    await world.ask(file('world.sql').replace(':seen', () => SEEN))
    world.clean = (await world.texts(`select ${SEEN} as text`))[0] ?? ''
    return world
  }

  /** Runs a statement, and retries while the server is starting. */
  async ask(text: string, patience = 60_000): Promise<Result> {
    const until = Date.now() + patience
    for (;;) {
      try {
        return await asked(this.url, (client) => client.query(text))
      } catch (error) {
        const { code } = error as { code?: string }
        const starts = code === undefined || /^(ECONN|57P)/.test(code)
        if (!starts || Date.now() > until) throw error
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
    }
  }

  async texts(text: string): Promise<string[]> {
    return (await this.ask(text)).rows.map((row) => String(row['text']))
  }

  /** The count of each number in a table. */
  async table(name: string): Promise<Map<number, number>> {
    const { rows } = await this.ask(`select n::text as n, count(*)::int as count from ${name} group by n`)
    return new Map(rows.map((row) => [Number(row['n']), Number(row['count'])]))
  }

  /** Ends one of the sessions with this application name. Returns how many there were. */
  end(name: string): Promise<Result> {
    return this.ask(`select pg_terminate_backend(pid) from pg_stat_activity
      where application_name = '${name}' order by random() limit 1`)
  }

  async count(name: string): Promise<number> {
    const [text] = await this.texts(`select count(*)::text as text from pg_stat_activity
      where application_name = '${name}'`)
    return Number(text)
  }
}

async function asked<T>(url: string, ask: (client: Observer) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url, application_name: 'observer' })
  client.on('error', () => undefined)
  await client.connect()
  try {
    return await ask(client)
  } finally {
    await client.end().catch(() => undefined)
  }
}
