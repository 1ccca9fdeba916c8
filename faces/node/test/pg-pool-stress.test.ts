import assert from 'node:assert/strict'
import { test } from 'node:test'

import { Client, Pool, type QueryError, type Results } from '../src/pg'
import { url } from './pg-both'
import { randomOf } from './random'

/** Operations in one run. */
const OPERATIONS = Number(process.env['ONETRIP_TEST_OPERATIONS'] ?? 2_000)
const IN_FLIGHT_MAX = 60

/** One run of random operations on a pool. */
class Run {
  readonly #pool: Pool
  readonly #killer: Client
  readonly #name: string
  readonly #random: () => number
  readonly tally = new Map<string, number>()
  #next = 0

  constructor(pool: Pool, killer: Client, name: string, random: () => number) {
    this.#pool = pool
    this.#killer = killer
    this.#name = name
    this.#random = random
  }

  /** Runs one operation. Expected failures are ignored, and wrong results throw. */
  async operation(): Promise<void> {
    const dice = this.#random()
    if (dice < 0.4) await this.#try('query', () => this.#ask((n) => this.#pool.query(NUMBER, [n])))
    else if (dice < 0.5) await this.#try('callback', () => this.#ask((n) => this.#call(n)))
    else if (dice < 0.58) await this.#try('error', () => this.#fail())
    else if (dice < 0.62) await this.#try('timeout', () => this.#late())
    else if (dice < 0.66) await this.#try('abort', () => this.#abort())
    else if (dice < 0.7) await this.#try('session', () => this.#pool.query(this.#random() < 0.5 ? 'begin' : 'select 1; select 2'))
    else if (dice < 0.97) await this.#try('lent', () => this.#lent())
    else await this.#kill()
  }

  async #try(name: string, run: () => Promise<unknown>): Promise<void> {
    let end = 'done'
    try {
      await run()
    } catch (error) {
      // The row of another query, or none.
      if (error instanceof assert.AssertionError) throw error
      const { outcome, code, message } = error as QueryError & { code?: string }
      end = outcome ?? code ?? message
      if (name !== 'lent') assert.ok(outcome, `${name} failed without an outcome: ${message}`)
    }
    const key = `${name} ${end}`
    this.tally.set(key, (this.tally.get(key) ?? 0) + 1)
  }

  async #ask(query: (n: number) => Promise<Results>): Promise<void> {
    const n = this.#next++
    const { rows } = (await query(n)) as { rows: unknown[] }
    assert.deepEqual(rows, [{ n }])
  }

  #call(n: number): Promise<Results> {
    let calls = 0
    return new Promise((resolve, reject) => {
      this.#pool.query(NUMBER, [n], (error, results) => {
        calls++
        if (calls > 1) queueMicrotask(() => assert.fail('called twice'))
        if (error) reject(error)
        else resolve(results as Results)
      })
    })
  }

  async #fail(): Promise<void> {
    const n = this.#next++
    const results = await this.#pool.query('select $1::int / 0 as n', [n])
    assert.fail(`an error was answered by ${JSON.stringify(results)}`)
  }

  async #late(): Promise<void> {
    await this.#pool.query({ text: 'select pg_sleep(0.02)', query_timeout: 1 + this.#random() * 30 })
  }

  async #abort(): Promise<void> {
    const abort = new AbortController()
    const asked = this.#ask((n) => this.#pool.query({ text: NUMBER, values: [n], signal: abort.signal }))
    if (this.#random() < 0.5) abort.abort()
    else setImmediate(() => abort.abort())
    await asked
  }

  async #lent(): Promise<void> {
    const client = await this.#pool.connect()
    // Once the client is back, its field `release` belongs to the next user.
    const { release } = client
    // The queries of the client report the loss.
    const ignore = (): void => undefined
    client.on('error', ignore)
    let error: Error | boolean | undefined
    try {
      const begins = this.#random() < 0.3
      if (begins) await client.query('begin')
      const asked = [1, 2, 3].map(() => this.#ask((n) => client.query(NUMBER, [n])))
      if (this.#random() < 0.2) await Promise.allSettled([...asked, client.query('select 1/0')])
      await Promise.all(asked)
      if (begins && this.#random() < 0.8) await client.query('rollback')
    } catch (failure) {
      error = failure as Error
      throw failure
    } finally {
      client.off('error', ignore)
      release(error ?? (this.#random() < 0.05 ? true : undefined))
      assert.throws(() => release(), /already been released/)
    }
  }

  async #kill(): Promise<void> {
    const text = `select pg_terminate_backend(pid) from pg_stat_activity
      where application_name = $1 order by random() limit 1`
    await this.#killer.query(text, [this.#name])
    this.tally.set('kill', (this.tally.get('kill') ?? 0) + 1)
  }
}

const NUMBER = 'select $1::int as n'

async function stress(seed: number, pipeline: boolean): Promise<Map<string, number>> {
  const random = randomOf(seed)
  const name = `onetrip stress ${process.pid} ${seed}`
  const max = 1 + Math.floor(random() * 10)
  const killer = new Client({ connectionString: url })
  await killer.connect()
  const pool = new Pool({ connectionString: url, application_name: name, max, pipeline, idleTimeoutMillis: 50 })
  // Idle clients are killed, too.
  pool.on('error', () => undefined)
  const run = new Run(pool, killer, name, random)
  let left = OPERATIONS
  const worker = async (): Promise<void> => {
    while (left-- > 0) await run.operation()
  }
  try {
    await Promise.all(Array.from({ length: IN_FLIGHT_MAX }, worker))
    assert.ok(pool.totalCount <= max)
    assert.equal(pool.waitingCount, 0)
  } finally {
    left = 0
    await pool.end()
    await untilGone(killer, name)
    await killer.end()
  }
  assert.deepEqual([pool.totalCount, pool.idleCount, pool.waitingCount, pool._clients.length], [0, 0, 0, 0])
  return run.tally
}

/** Waits until the sessions have ended on the server, a moment after their clients. */
async function untilGone(client: Client, name: string): Promise<void> {
  const text = 'select count(*)::int as n from pg_stat_activity where application_name = $1'
  for (;;) {
    const { rows } = (await client.query(text, [name])) as unknown as { rows: { n: number }[] }
    if (rows[0]?.n === 0) return
  }
}

for (const pipeline of [false, true]) {
  const way = pipeline ? 'with shared connections' : 'with clients by themselves'
  test(`under random faults a pool ${way} gives each caller its own answer, once`, { timeout: 600_000 }, async (t) => {
    const seed = Number(process.env['ONETRIP_TEST_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
    t.diagnostic(`ONETRIP_TEST_SEED=${seed}`)
    const tally = await stress(seed, pipeline)
    t.diagnostic([...tally].map(([what, count]) => `${count} × ${what}`).join(', '))
  })
}
