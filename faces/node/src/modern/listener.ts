import { Flag } from '../engine/exports'
import type { Lineage } from '../engine/lineage'
import type { NotificationMessage } from '../pg/messages'
import type { Settings } from './config'
import { Connection } from './connection'
import { ASYNC_DISPOSE } from './dispose'
import { misuse, type PostgresError } from './error'
import { Control } from './control'

/** An event of a listener: a notification, or a gap. */
export type ListenEvent =
  | {
      readonly kind: 'notification'
      readonly channel: string
      readonly payload: string
      readonly processId: number
    }
  /**
   * Notifications may be missing: the connection was lost, or `dropped` of them were dropped
   * because they were not read in time.
   */
  | { readonly kind: 'gap'; readonly dropped: number }

interface Waiter {
  resolve(result: IteratorResult<ListenEvent, undefined>): void
  reject(error: unknown): void
}

/**
 * The notifications of channels, on a connection of its own. If that connection is lost, the
 * listener opens another one and yields a `gap`, behind what came before. Up to 1,024 notifications wait for the reader.
 * When more come, the oldest are dropped, and a `gap` says how many.
 *
 * If the server refuses the login or the LISTEN for good, the next `next()` rejects, and the
 * listener goes on trying. It ends with `end` or `return`, or when its loop is left. Until then it
 * keeps the process alive.
 */
export class Listener implements AsyncIterableIterator<ListenEvent, undefined> {
  /**
   * Resolves when the server has confirmed the LISTEN: notifications that are committed from then
   * on are received. Rejects if the server refuses, or if the listener is ended before.
   */
  readonly ready: Promise<void>
  readonly #settings: Settings
  readonly #lineage: Lineage
  readonly #text: string
  #connection: Connection | undefined
  #events: ListenEvent[] = []
  /** What is missing in front of them. */
  #missing: ListenEvent | undefined
  #droppedInAll = 0
  #waiters: Waiter[] = []
  #error: PostgresError | undefined
  #isOver = false
  #wasReady = false
  #attempts = 0
  #timer: NodeJS.Timeout | undefined
  #settle: { resolve(): void; reject(error: unknown): void } = { resolve: noop, reject: noop }

  constructor(settings: Settings, lineage: Lineage, channels: readonly string[]) {
    this.#settings = settings
    this.#lineage = lineage
    if (channels.length === 0) throw misuse('channel_name', 'listen: a channel is missing')
    this.#text = channels.map((channel) => `listen ${quoted(channel)}`).join('; ')
    lineage.hold(this)
    this.ready = new Promise((resolve, reject) => (this.#settle = { resolve, reject }))
    // A caller that only iterates gets the error from `next`.
    this.ready.catch(noop)
    this.#open()
  }

  /** How many notifications were dropped in all, because they were not read in time. */
  get dropped(): number {
    return this.#droppedInAll
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  next(): Promise<IteratorResult<ListenEvent, undefined>> {
    const event = this.#take()
    if (event !== undefined) return Promise.resolve({ value: event, done: false })
    const error = this.#error
    this.#error = undefined
    if (error !== undefined) return Promise.reject(error)
    if (this.#isOver) return Promise.resolve(DONE)
    return new Promise((resolve, reject) => this.#waiters.push({ resolve, reject }))
  }

  return(): Promise<IteratorResult<ListenEvent, undefined>> {
    this.end()
    return Promise.resolve(DONE)
  }

  /** Ends the listener and closes its connection. Events that were not read are discarded. */
  end(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#events = []
    this.#missing = undefined
    clearTimeout(this.#timer)
    this.#connection?.terminate()
    this.#lineage.release(this)
    this.#settle.reject(misuse('closed', 'the listener was ended'))
    for (const waiter of this.#waiters.splice(0)) waiter.resolve(DONE)
  }

  async [ASYNC_DISPOSE](): Promise<void> {
    this.end()
  }

  #open(): void {
    this.#connection = new Connection(this.#settings, this.#lineage, this)
  }

  #take(): ListenEvent | undefined {
    const missing = this.#missing
    if (missing === undefined) return this.#events.shift()
    this.#missing = undefined
    return missing
  }

  /** Hands events to the calls of `next` that wait. */
  #tell(): void {
    while (this.#waiters.length > 0) {
      const event = this.#take()
      if (event === undefined) return
      this.#waiters.shift()?.resolve({ value: event, done: false })
    }
  }

  // --- its connection ---

  opened(connection: Connection): void {
    if (this.#isOver) return connection.terminate()
    connection.isShared = false
    connection.ref()
    const listening = new Promise<void>((resolve, reject) => {
      new Control(this.#text, resolve, reject, connection)._sendOn(connection, Flag.SIMPLE)
    })
    listening.then(
      () => this.#listens(),
      (error: PostgresError) => this.#refused(connection, error),
    )
  }

  #listens(): void {
    this.#attempts = 0
    if (this.#wasReady) this.#keep({ kind: 'gap', dropped: 0 })
    this.#wasReady = true
    this.#settle.resolve()
  }

  /** The server refused the LISTEN, as a standby does. */
  #refused(connection: Connection, error: PostgresError): void {
    if (connection.isOver) return
    this.#fail(error)
    connection.destroy(error)
  }

  #fail(error: PostgresError): void {
    this.#settle.reject(error)
    const waiter = this.#waiters.shift()
    if (waiter !== undefined) waiter.reject(error)
    else this.#error = error
  }

  gone(connection: Connection, permanent: boolean): void {
    if (this.#isOver) return
    if (permanent) this.#fail(connection.why)
    const longest = Math.min(PAUSE_MIN_MS * 2 ** this.#attempts++, PAUSE_MAX_MS)
    this.#timer = setTimeout(() => this.#open(), longest * (1 - Math.random() / 2))
  }

  notified(_: Connection, { channel, payload, processId }: NotificationMessage): void {
    if (this.#isOver) return
    this.#keep({ kind: 'notification', channel, payload, processId })
  }

  #keep(event: ListenEvent): void {
    this.#events.push(event)
    if (this.#events.length > KEPT_MAX) {
      const lost = this.#events.shift()?.kind === 'notification' ? 1 : 0
      const before = this.#missing?.kind === 'gap' ? this.#missing.dropped : 0
      this.#missing = { kind: 'gap', dropped: before + lost }
      this.#droppedInAll += lost
    }
    this.#tell()
  }

  answered(): void {}
  changed(): void {}
}

function quoted(channel: unknown): string {
  if (
    typeof channel !== 'string' ||
    channel === '' ||
    channel.includes('\0') ||
    Buffer.byteLength(channel) > 63
  ) {
    throw misuse('channel_name', 'listen: a channel is a text of 1 to 63 bytes')
  }
  return `"${channel.replace(/"/g, '""')}"`
}

function noop(): void {}

const DONE: IteratorReturnResult<undefined> = { value: undefined, done: true }

/** Events that wait for the reader. */
const KEPT_MAX = 1024
const PAUSE_MIN_MS = 100
const PAUSE_MAX_MS = 10_000
