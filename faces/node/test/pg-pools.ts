import assert from 'node:assert/strict'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { test } from 'node:test'

import { Client, Pool, type PoolConfig } from '../src/pg'
import { plain, url } from './pg-both'

/** The real pg. */
const theirs = require('pg') as { Pool: typeof Pool; Client: typeof Client }

/** One of the two drivers, and its pools. */
export class Side {
  readonly name: 'pg' | 'onetrip'
  readonly Pool: typeof Pool
  readonly Client: typeof Client
  readonly #made: Pool[] = []

  constructor(name: 'pg' | 'onetrip') {
    this.name = name
    this.Pool = name === 'pg' ? theirs.Pool : Pool
    this.Client = name === 'pg' ? theirs.Client : Client
  }

  pool(config: PoolConfig = {}): Pool {
    const made = new this.Pool({ connectionString: url, ...config })
    this.#made.push(made)
    return made
  }

  async end(): Promise<void> {
    await Promise.all(this.#made.map((it) => (it.ending ? undefined : it.end())))
  }
}

/** A test that runs with pools of both drivers, and compares the results. */
export function bothPools(name: string, run: (side: Side) => Promise<unknown>): void {
  test(name, { timeout: 600_000 }, async () => {
    const expected = await runOn(new Side('pg'), run)
    assert.deepEqual(await runOn(new Side('onetrip'), run), expected)
  })
}

async function runOn(side: Side, run: (side: Side) => Promise<unknown>): Promise<unknown> {
  try {
    return plain(await run(side))
  } finally {
    await side.end()
  }
}

/** The counts of a pool. */
export function counts(pool: Pool): number[] {
  return [pool.totalCount, pool.idleCount, pool.waitingCount, pool.expiredCount]
}

/** Notes the events of a pool with their arguments. Clients are numbered in their order. */
export class Diary {
  readonly lines: string[] = []
  readonly #pool: Pool
  readonly #clients: unknown[] = []

  constructor(pool: Pool, withCounts = false) {
    this.#pool = pool
    for (const event of ['connect', 'acquire', 'release', 'remove', 'error']) {
      pool.on(event, (...args: unknown[]) => {
        const state = withCounts ? ` ${counts(this.#pool).join(' ')}` : ''
        this.note(`${event} ${args.map((it) => this.#show(it)).join(', ')}${state}`)
      })
    }
  }

  note(line: string): void {
    this.lines.push(line)
  }

  #show(value: unknown): string {
    if (value instanceof Error) return value.message
    if (typeof value !== 'object' || value === null) return String(value)
    if (!this.#clients.includes(value)) this.#clients.push(value)
    return `client ${this.#clients.indexOf(value)}`
  }
}

/** A server that takes connections and never answers. */
export async function silentServer(): Promise<{ port: number; close(): void }> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    close() {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}

/** The next turn of the event loop, when everything that needs no server has happened. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

/** Resolves when a pool has emitted this many events. */
export function events(pool: Pool, name: string, count = 1): Promise<void> {
  return new Promise((resolve) => {
    pool.on(name, () => {
      if (--count === 0) resolve()
    })
  })
}
