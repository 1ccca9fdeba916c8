import { EventEmitter } from 'node:events'
import type { Duplex, Readable, Writable } from 'node:stream'

import type { Client, Submittable } from '../src/pg'
import type { Connection } from '../src/pg/connect'

type Rows = Record<string, unknown>[]

/** The parts of pg-cursor that the tests use. */
export interface Cursor extends EventEmitter, Submittable {
  state: string
  read(rows: number): Promise<Rows>
  read(rows: number, callback: (error: Error | null, rows: Rows, result: unknown) => void): void
  close(): Promise<void>
}

interface Streams {
  from(text: string, options?: object): Writable & Submittable & { rowCount: number }
  to(text: string, options?: object): Readable & Submittable & { rowCount: number }
  both(text: string, options?: object): Duplex & Submittable
}

export const Cursor = require('pg-cursor') as new (
  text: string,
  values?: unknown[] | null,
  config?: object,
) => Cursor
export const QueryStream = require('pg-query-stream') as new (
  text: string,
  values?: unknown[],
  config?: object,
) => Readable & Submittable
export const copy = require('pg-copy-streams') as Streams

/** Handlers of messages. */
const HANDLERS = [
  'handleRowDescription',
  'handleDataRow',
  'handlePortalSuspended',
  'handleEmptyQuery',
  'handleCommandComplete',
  'handleCopyInResponse',
  'handleCopyData',
  'handleReadyForQuery',
  'handleError',
] as const

type Handler = (typeof HANDLERS)[number]

/** A reaction of a logging query to a message. */
type Reaction = (connection: Connection) => void

/** A query that notes all its messages, and resolves when the server is ready for the next. */
export class Logging implements Submittable {
  readonly log: unknown[] = []
  readonly done: Promise<unknown[]>
  /** Sends its messages. */
  readonly #begin: Reaction
  readonly #reactions: Partial<Record<Handler, Reaction>>
  #finish: (log: unknown[]) => void = () => {}
  name?: string
  text?: string

  constructor(begin: Reaction, reactions: Partial<Record<Handler, Reaction>> = {}) {
    this.#begin = begin
    this.#reactions = reactions
    this.done = new Promise((resolve) => (this.#finish = resolve))
    for (const name of HANDLERS) this.#note(name)
  }

  #note(name: Handler): void {
    const handlers = this as Record<string, unknown>
    handlers[name] = (...args: unknown[]): void => {
      // Some handlers get only the connection.
      const told = args.filter((it) => !(it instanceof EventEmitter))
      this.log.push([name, ...told, `${args.length} arguments`])
      this.#reactions[name]?.(this.#connection as Connection)
    }
  }

  #connection: Connection | undefined

  submit(connection: Connection): void {
    this.#connection = connection
    const events = (event: unknown): void => void this.log.push(['event', event])
    connection.on('message', events)
    const ready = (): void => {
      connection.off('message', events)
      connection.off('readyForQuery', ready)
      this.#finish(this.log)
    }
    connection.on('readyForQuery', ready)
    this.#begin(connection)
  }
}

/** Reads all rows of a cursor, `by` at a time. */
export async function readAll(cursor: Cursor, by: number): Promise<Rows[]> {
  const batches: Rows[] = []
  for (;;) {
    const rows = await cursor.read(by)
    batches.push(rows)
    if (rows.length < by) return batches
  }
}

/** Events of an emitter, as they come. */
export function noted(emitter: EventEmitter, ...names: string[]): unknown[] {
  const seen: unknown[] = []
  for (const name of names) emitter.on(name, (...args: unknown[]) => seen.push([name, ...args]))
  return seen
}

/** The end of a stream: its error, or nothing. */
export function closed(stream: Readable | Writable): Promise<unknown> {
  return new Promise((resolve) => {
    let error: unknown
    stream.on('error', (it) => (error = it))
    stream.on('close', () => resolve(error))
  })
}

/**
 * Runs a query after the test, to check that the connection is in order, and returns its status.
 */
export async function behind(client: Client): Promise<unknown> {
  return [await client.query("select 'behind' as it"), client.getTransactionStatus()]
}
