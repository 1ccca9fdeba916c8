import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'

import { End, Flag } from '../../src/engine/exports'
import { Link, type Owner, type Parameter, type Receiver } from '../../src/engine/link'
import { memory } from '../../src/engine/memory'
import { rowReader, type RowReader } from '../../src/pg/decode'
import type { DatabaseError, NoticeMessage } from '../../src/pg/error'
import { readFields, type Field } from '../../src/pg/fields'
import { databaseError, notice } from '../../src/pg/report'
import { Result } from '../../src/pg/result'
import { pgTypes, type TypeSource } from '../../src/pg/types'

/** The parts of the real pg that these tests use. */
export interface Pg {
  Client: new (config: object | string) => PgClient
  types: TypeSource
  TypeOverrides: new (source?: object) => TypeSource & {
    setTypeParser(oid: number, parse: (value: string) => unknown): void
  }
  escapeIdentifier(name: string): string
  escapeLiteral(text: unknown): string
  defaults: { [name: string]: unknown }
  Result: new (mode?: string, types?: TypeSource) => object
  utils: {
    prepareValue(value: unknown): string | Buffer | null
    normalizeQueryConfig(config: unknown, values?: unknown, callback?: unknown): object
  }
}

export interface PgClient {
  connect(): Promise<unknown>
  end(): Promise<void>
  query(config: object | string, values?: unknown[]): Promise<Result>
  on(event: string, listener: (message: object) => void): void
}

export const pg = require('pg') as Pg

const url = process.env['ONETRIP_TEST_POSTGRES'] ?? ''

export async function openPg(config: object = {}): Promise<PgClient> {
  const client = new pg.Client({ connectionString: url, ...config })
  await client.connect()
  return client
}

interface Asking {
  text: string
  values?: Parameter[]
  rowMode?: 'object' | 'array'
  types?: TypeSource
  flags?: number
}

/** One connection of the engine, whose results are read as by a client. */
export class Asker {
  readonly notices: NoticeMessage[] = []
  readonly #link: Link
  readonly #socket: Socket

  constructor(socket: Socket) {
    const { username, password, pathname } = new URL(url)
    const owner: Owner = {
      ready() {},
      notice: (start, end) => void this.notices.push(notice(start, end)),
      notification() {},
      parameterStatus() {},
      full() {},
      drained() {},
      cancel() {},
      astray() {},
      forgotten() {},
      closed() {},
    }
    const settings: [string, string][] = [
      ['user', decodeURIComponent(username)],
      ['password', decodeURIComponent(password)],
      ['database', pathname.slice(1)],
    ]
    this.#socket = socket
    this.#link = new Link(socket, settings, owner)
    socket.on('data', (chunk) => this.#link.receive(chunk))
    socket.on('close', () => this.#link.peerClosed())
  }

  static async open(): Promise<Asker> {
    const { hostname, port } = new URL(url)
    const socket = connect({ host: hostname, port: Number(port), noDelay: true })
    await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject))
    return new Asker(socket)
  }

  ask(asking: string | Asking): Promise<Result> {
    const all = typeof asking === 'string' ? { text: asking } : asking
    return new Promise((resolve, reject) => {
      const answer = new Answer(all, resolve, reject)
      const flags = all.flags ?? Flag.UNPREPARED
      assert.ok(this.#link.submit(answer, flags, all.text, '', all.values ?? [], 0, 0) >= 0)
    })
  }

  close(): void {
    this.#socket.destroy()
  }
}

class Answer implements Receiver {
  readonly #asking: Asking
  readonly #result: Result
  readonly #resolve: (result: Result) => void
  readonly #reject: (error: DatabaseError | Error) => void
  #read: RowReader | undefined

  constructor(
    asking: Asking,
    resolve: (result: Result) => void,
    reject: (error: DatabaseError | Error) => void,
  ) {
    this.#asking = asking
    this.#result = new Result(asking.rowMode, asking.types)
    this.#resolve = resolve
    this.#reject = reject
  }

  received(start: number, end: number): void {
    for (let at = start; at < end; at += 1 + memory.int32(at + 1)) {
      const tag = String.fromCharCode(memory.bytes[at] as number)
      if (tag === 'T') this.#describe(readFields(at))
      else if (tag === 'D') this.#result.addRow((this.#read as RowReader)(at))
      else if (tag === 'C') {
        this.#result.addCommandComplete(memory.text(at + 5, at + memory.int32(at + 1)))
      }
    }
  }

  #describe(fields: Field[]): void {
    const { rowMode, types: source } = this.#asking
    this.#result.addFields(fields)
    this.#read = rowReader(fields, source ?? pgTypes(), rowMode ?? 'object', this.#result._parsers)
  }

  restarted(): void {
    this.#result.rows = []
  }

  ended(how: number, _outcome: number, start: number, end: number): void {
    if (how === End.COMPLETE) this.#resolve(this.#result)
    else if (how === End.SERVER) this.#reject(databaseError(start, end))
    else this.#reject(new Error(`ended with ${how}`))
  }
}

/** Random numbers from a seed. A failure prints the seed, and ONETRIP_SEED sets it. */
export function seeded(): { seed: number; below(limit: number): number } {
  const seed = Number(process.env['ONETRIP_SEED'] ?? Date.now() % 1_000_000)
  let state = seed
  return {
    seed,
    below(limit) {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0
      return Math.floor((state / 2 ** 32) * limit)
    },
  }
}

/** Writes a message into the memory of the module for the time of a call. */
export function withMessage<T>(
  type: string,
  body: Buffer,
  use: (start: number, end: number) => T,
): T {
  const message = Buffer.alloc(5 + body.length)
  message.write(type, 0, 'latin1')
  message.writeInt32BE(4 + body.length, 1)
  body.copy(message, 5)
  return memory.lend(message, (start) => use(start, start + message.length))
}

/** The body of a DataRow. */
export function rowBody(values: readonly (string | Buffer | null)[]): Buffer {
  const count = Buffer.alloc(2)
  count.writeInt16BE(values.length)
  const parts = values.map((value) => {
    const bytes = value === null ? Buffer.alloc(0) : Buffer.from(value as string)
    const length = Buffer.alloc(4)
    length.writeInt32BE(value === null ? -1 : bytes.length)
    return Buffer.concat([length, bytes])
  })
  return Buffer.concat([count, ...parts])
}
