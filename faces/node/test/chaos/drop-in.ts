// The drop-in, used as pg is. As with pg, a lent client keeps the state that its user leaves. So a
// user who changed it cleans it (`DISCARD ALL`) or destroys it.

import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'

import { Pool, type PoolClient, type Result } from '../../src/pg'
import type { Unit } from './ledger'
import type { Face, Stage } from './run'
import { anyState, type State } from './states'
import { SEEN } from './world'

const Cursor = require('pg-cursor') as new (text: string, values: unknown[]) => CursorLike
const QueryStream = require('pg-query-stream') as new (text: string, values: unknown[]) => Readable
const { from: copyFrom } = require('pg-copy-streams') as { from(text: string): NodeJS.WritableStream }

interface CursorLike {
  read(count: number): Promise<Seen[]>
  close(): Promise<void>
}

interface Seen {
  n: number
  seen: string
}

const LOOK = `select $1::int as n, ${SEEN} as seen`
const INSERT = `insert into entry (n, own, fine, seen)
  select $1::bigint, $2::bool, $3::bool, ${SEEN} returning n::int as n, seen`
const SLOW = INSERT.replace('$3::bool,', '$3::bool and pg_sleep(0.01) is not null,')
const COUNTED = `insert into entry (n, counted, seen) select $1::bigint, true, ${SEEN} returning n::int as n, seen`

/** The number of rows that may only be in a temporary table. */
const NOWHERE = -(2 ** 30)

type Lent = PoolClient

/** A query of pg, and its result. */
interface Asked {
  query(config: object): Promise<Result>
}

export class DropIn implements Face {
  readonly #stage: Stage
  readonly #pool: Pool
  readonly #pipeline: boolean

  constructor(stage: Stage) {
    this.#stage = stage
    this.#pipeline = stage.setting.face === 'pg-pipeline'
    this.#pool = new Pool({
      connectionString: stage.url,
      application_name: stage.name,
      max: stage.setting.connections,
      pipeline: this.#pipeline,
      connectionTimeoutMillis: 20_000,
    })
    this.#pool.on('error', () => undefined)
  }

  end(): Promise<void> {
    return this.#pool.end()
  }

  write(way: number): Promise<void> {
    const { shared } = this.#stage.setting
    if (way < 6) return this.#looks()
    if (way < 12) return this.#inserts()
    if (way < 13) return this.#refused()
    if (way < 16) return this.#givenUp()
    if (way < 22) return this.#transaction()
    if (way < 24) return this.#savepoints()
    if (way < 27) return this.#counted()
    if (way < 29) return this.#copied()
    if (way < 32) return this.#streamed()
    return shared ? this.#transaction() : this.#owned()
  }

  #hold(what: string, n: number, result: { rows: unknown[]; command?: string | null; fields?: unknown[] }): void {
    const { ledger, world } = this.#stage
    const [row] = result.rows as Seen[]
    const got = { rows: result.rows, command: result.command, fields: result.fields }
    if (row?.n !== n) ledger.wrong.push(`${what} got ${JSON.stringify(got)} for ${n}`)
    if (row?.seen !== world.clean) ledger.wrong.push(`${what} saw ${row?.seen}`)
  }

  #bear(what: string, error: unknown): void {
    const { message } = error as Error
    if (this.#stage.setting.faults || /timeout exceeded/.test(message)) return
    this.#stage.ledger.wrong.push(`${what} failed: ${message}`)
  }

  /** A statement, with a name if the server keeps prepared statements. */
  #insert(on: unknown, n: number, own = false, fine = true): Promise<Result> {
    const named = this.#stage.below(4) === 0 && this.#stage.setting.pooler === undefined && !own
    const config = { text: INSERT, values: [n, own, fine], ...(named ? { name: 'insert' } : {}) }
    return (on as Asked).query(config)
  }

  async #looks(): Promise<void> {
    const { below, ledger } = this.#stage
    const asked = Array.from({ length: below(3) === 0 ? 20 : 1 }, async () => {
      const n = ledger.number()
      try {
        this.#hold('a read', n, (await this.#pool.query(LOOK, [n])) as Result)
      } catch (error) {
        this.#bear('a read', error)
      }
    })
    await Promise.all(asked)
  }

  async #take(unit: Unit, result: Promise<Result>): Promise<void> {
    const held = result.then((it) => this.#hold('an insert', unit.numbers[0] as number, it))
    await this.#stage.ledger.settle(unit, held)
  }

  async #inserts(): Promise<void> {
    const { below, ledger } = this.#stage
    const asked = Array.from({ length: below(4) === 0 ? 20 : 1 }, () => {
      const unit = ledger.begin('insert')
      return this.#take(unit, this.#insert(this.#pool, unit.numbers[0] as number))
    })
    await Promise.all(asked)
  }

  #refused(): Promise<void> {
    const unit = this.#stage.ledger.begin('insert that is refused')
    return this.#take(unit, this.#insert(this.#pool, unit.numbers[0] as number, false, false))
  }

  /** Ends a query early, by a timeout or by a signal. */
  #givenUp(): Promise<void> {
    const { below, ledger } = this.#stage
    const unit = ledger.begin('insert that is given up')
    const text = below(2) === 0 ? SLOW : INSERT
    const values = [unit.numbers[0], false, true]
    const pool = this.#pool as unknown as Asked
    if (below(2) === 0) return this.#take(unit, pool.query({ text, values, query_timeout: 1 + below(30) }))
    const abort = new AbortController()
    if (below(3) === 0) abort.abort()
    else setTimeout(() => abort.abort(), below(20))
    return this.#take(unit, pool.query({ text, values, signal: abort.signal }))
  }

  /** Runs with a lent client. The client is destroyed unless `use` returns that it is clean. */
  async #lent(what: string, use: (client: Lent) => Promise<boolean>): Promise<unknown> {
    let client: Lent
    try {
      client = await this.#pool.connect()
    } catch (error) {
      this.#bear(what, error)
      return error
    }
    const ignore = (): void => undefined
    client.on('error', ignore)
    let clean = false
    try {
      clean = await use(client)
    } catch (error) {
      this.#bear(what, error)
    } finally {
      client.off('error', ignore)
      client.release(!clean)
    }
    return undefined
  }

  /**
   * Runs in a transaction of a lent client. `undone`: the transaction is rolled back, or just left.
   */
  async #within(unit: Unit, undone: boolean, work: (client: Lent) => Promise<void>): Promise<void> {
    const { ledger, below } = this.#stage
    const refused = await this.#lent('a transaction', async (client) => {
      let clean = false
      try {
        await client.query('begin')
        await work(client)
        if (undone && below(2) === 0) {
          // A client in a transaction is destroyed, or given back if the pool rolls it back.
          clean = this.#pipeline
        } else {
          const { command } = (await client.query(undone ? 'rollback' : 'commit')) as Result
          unit.claims.push(command === 'COMMIT' ? 'there' : 'absent')
          clean = true
        }
      } catch (error) {
        ledger.failed(unit, error)
        // A failure before COMMIT is undone, by ROLLBACK or with its connection.
        clean = await client.query('rollback').then(() => true, () => false)
      }
      return clean
    })
    if (refused) ledger.failed(unit, refused)
    ledger.end(unit, ...(undone ? (['absent'] as const) : []))
  }

  async #transaction(): Promise<void> {
    const { below, ledger } = this.#stage
    const unit = ledger.begin('transaction', 1 + below(4))
    const fine = below(8) > 0
    await this.#within(unit, below(4) === 0, async (client) => {
      const asked = unit.numbers.map((n, at) => this.#insert(client, n, false, fine || at > 0))
      const all = await Promise.allSettled(asked)
      for (const [at, result] of all.entries()) {
        if (result.status === 'rejected') throw result.reason
        this.#hold('a transaction', unit.numbers[at] as number, result.value)
      }
    })
  }

  async #savepoints(): Promise<void> {
    const { below, ledger } = this.#stage
    const unit = ledger.begin('transaction with a savepoint', 2)
    const undone = ledger.begin('savepoint that is undone')
    const fine = below(2) === 0
    await this.#within(unit, false, async (client) => {
      this.#hold('a transaction', unit.numbers[0] as number, await this.#insert(client, unit.numbers[0] as number))
      await client.query('savepoint here')
      await this.#insert(client, undone.numbers[0] as number, false, fine).catch(() => undefined)
      await client.query('rollback to here')
      this.#hold('a transaction', unit.numbers[1] as number, await this.#insert(client, unit.numbers[1] as number))
    })
    ledger.end(undone, 'absent')
  }

  async #counted(): Promise<void> {
    const { below, ledger } = this.#stage
    const unit = ledger.begin('transaction that counts')
    const n = unit.numbers[0] as number
    const ids = [below(4), below(4)]
    await this.#within(unit, false, async (client) => {
      for (const id of ids) await client.query('update public.counter set v = v + 1 where id = $1', [id])
      this.#hold('a transaction', n, (await client.query(COUNTED, [n])) as Result)
    })
  }

  async #copied(): Promise<void> {
    const { below, ledger, setting } = this.#stage
    if (setting.shared && setting.faults) return this.#inserts()
    const unit = ledger.begin('COPY', 1 + below(5))
    const finishes = below(4) > 0 || setting.shared
    const refused = await this.#lent('a COPY', async (client) => {
      const copy = client.query(copyFrom('copy entry (n) from stdin') as never) as unknown as NodeJS.WritableStream
      if (finishes) {
        const fed = pipeline(Readable.from(unit.numbers.map((n) => `${n}\n`)), copy)
        return ledger.settle(unit, fed)
      }
      copy.on('error', () => undefined)
      copy.write(`${unit.numbers[0]}\n`)
      ;(copy as unknown as Readable).destroy()
      return false
    })
    if (refused) ledger.failed(unit, refused)
    ledger.end(unit, ...(finishes ? [] : (['absent'] as const)))
  }

  /** Reads by a cursor, or by a stream of rows. */
  async #streamed(): Promise<void> {
    const { below, ledger } = this.#stage
    const n = ledger.number()
    await this.#lent('a cursor', async (client) => {
      if (below(2) === 0) {
        const cursor = client.query(new Cursor(LOOK, [n]) as never) as unknown as CursorLike
        this.#hold('a cursor', n, { rows: await cursor.read(100) })
        await cursor.close()
        return true
      }
      const rows = client.query(new QueryStream(LOOK, [n]) as never) as unknown as AsyncIterable<Seen>
      for await (const row of rows) this.#hold('a stream', n, { rows: [row] })
      return true
    })
  }

  /** Uses a client that its user leaves state in, and then cleans or destroys. */
  async #owned(): Promise<void> {
    const { below } = this.#stage
    await this.#lent('a client', async (client) => {
      const kept: State[] = []
      let known = true
      for (let count = 1 + below(3); count > 0; count--) {
        const state = anyState(below)
        kept.push(state)
        known = await client.query(state.text).then(() => known, () => false)
      }
      if (known && below(2) === 0) await this.#writeOwn(client, kept)
      if (below(3) === 0) return false
      // Its own statement_timeout may stop the rest.
      await client.query('set statement_timeout = 0')
      await client.query('discard all')
      return true
    }).catch(() => undefined)
  }

  async #writeOwn(client: Lent, kept: readonly State[]): Promise<void> {
    const { ledger, stray } = this.#stage
    const has = (name: string): boolean => kept.some((state) => state.name === name)
    if (has('temp')) {
      // If a function made the table, a text prepared before may refer to the other table.
      const hidden = kept.some((state) => state.name === 'temp' && state.hidden)
      const text = hidden ? `${INSERT} -- ${ledger.number()}` : INSERT
      await client.query(text, [NOWHERE, true, true]).catch(() => undefined)
      return
    }
    const book = has('path') ? stray : ledger
    const unit = book.begin("insert of a client's owner")
    const [number] = unit.numbers as [number]
    const n = has('path') ? -1 - number : number
    const got = this.#insert(client, n, true)
    await book.settle(
      unit,
      got.then(({ rows }) => {
        const [row] = rows as unknown as Seen[]
        if (row?.n !== n) ledger.wrong.push(`a client got ${row?.n} for ${n}`)
      }),
    )
  }
}
