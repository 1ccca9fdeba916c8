import { EventEmitter } from 'node:events'

import type { Outcome } from '../engine/choices'
import type { Connection, Lessee } from './connect'
import { Effect } from './effect'
import { DatabaseError, type NoticeMessage } from './error'
import type { NotificationMessage } from './messages'
import { guarded } from './request'
import { timeoutError, type Submittable, type Turn } from './submittable'
import { announce } from './tap'
import { readMessage, type BackendMessage, type ReadyForQueryMessage } from './wire-read'
import { BIND, CLOSE, DESCRIBE, EXECUTE, PARSE, QUERY, SYNC } from './wire-write'

/** The lender of the connection. */
export interface Host {
  /** The server is ready, with this status (`I`, `T` or `E`). */
  status(letter: string): void
  notice(message: NoticeMessage): void
  notification(message: NotificationMessage): void
  /** The server ends the connection. `error` is the reason, unless the query was told it. */
  fatal(error: Error | undefined): void
  /** The server broke the protocol. */
  violation(error: Error): void
  /** Asks the server to cancel the query. */
  cancel(): void
  /** The conversation is over, and everything of it is answered. */
  finished(): void
}

/**
 * The messages between a query that runs itself and the server. It is over when the server has
 * answered every Sync and simple query that was sent. If the query leaves messages without a Sync,
 * one is sent for it.
 */
export class Conversation implements Lessee {
  readonly #turn: Turn
  readonly #connection: Connection
  readonly #host: Host
  /** The query, as long as it is told messages: until it failed or the server was ready. */
  #active: Submittable | undefined
  readonly #effect = new Effect()
  #hasSent = false
  #hasFailed = false
  #isLate = false
  /** The number of ReadyForQuery messages that are still to come. */
  #outstanding = 0
  /** Messages of the extended protocol were sent, and no Sync behind them. */
  #isUnsynced = false
  /** Syncs behind the last Execute. If that begins a COPY, the server skips them. */
  #syncs = 0
  #copiesIn = false
  readonly #closed = (): void => this.#abandoned()

  constructor(turn: Turn, connection: Connection, host: Host) {
    this.#turn = turn
    this.#active = turn.query
    this.#connection = connection
    this.#host = host
  }

  get active(): Submittable | undefined {
    return this.#active
  }

  get hasFailed(): boolean {
    return this.#hasFailed
  }

  get isLate(): boolean {
    return this.#isLate
  }

  start(): void {
    const { query } = this.#turn
    if (query instanceof EventEmitter) query.once('close', this.#closed)
    let fault: unknown
    try {
      fault = query.submit(this.#connection)
    } catch (error) {
      fault = error
    }
    if (fault) process.nextTick(() => this.#refused(fault))
  }

  #refused(fault: unknown): void {
    this.#fail(fault, this.#hasSent ? 'Unknown' : 'NotSent')
    if (this.#hasSent) this.#free()
    else this.#host.finished()
  }

  sent(message: Buffer): void {
    const type = message[0] as number
    this.#hasSent = true
    this.#effect.sent(message)
    if (type === SYNC || type === QUERY) {
      this.#outstanding++
      this.#syncs = type === SYNC ? this.#syncs + 1 : 0
      this.#isUnsynced = false
    } else if (UNSYNCED.has(type)) {
      this.#isUnsynced = true
      if (type === EXECUTE) this.#syncs = 0
    }
  }

  // --- messages of the server ---

  received(bytes: Buffer): void {
    let message: BackendMessage | undefined
    try {
      message = readMessage(bytes)
    } catch {
      message = undefined
    }
    if (message === undefined) {
      const what = `of type ${bytes.toString('latin1', 0, 1)}`
      return this.#host.violation(new Error(`The server sent an unreadable message ${what}`))
    }
    // Other listeners are told after the query.
    announce(this.#connection, message, () => this.#dispatch(message))
    if (message.name === 'readyForQuery') this.#answered()
  }

  #dispatch(message: BackendMessage): void {
    const connection = this.#connection
    if (message instanceof DatabaseError) return this.#failed(message)
    switch (message.name) {
      case 'dataRow':
        return this.#tell('handleDataRow', message)
      case 'rowDescription':
        return this.#tell('handleRowDescription', message)
      case 'portalSuspended':
        return this.#tell('handlePortalSuspended', connection)
      case 'emptyQuery':
        return this.#tell('handleEmptyQuery', connection)
      case 'commandComplete':
        this.#copiesIn = false
        return this.#tell('handleCommandComplete', message, connection)
      case 'parseComplete':
        return this.#parsed()
      case 'copyInResponse':
        return this.#copyBegins()
      case 'copyData':
        return this.#tell('handleCopyData', message, connection)
      case 'readyForQuery':
        return this.#ready(message)
      case 'notice':
        return this.#host.notice(message)
      case 'notification':
        return this.#host.notification(message)
      default:
        return undefined
    }
  }

  #tell(name: keyof Submittable, ...args: unknown[]): void {
    const active = this.#active
    if (active === undefined) return
    const handle = active[name] as ((...args: unknown[]) => unknown) | undefined
    if (typeof handle === 'function') return guarded(() => handle.apply(active, args))
    // Without the method the query would wait for ever.
    const error = new Error(`The query has no method ${name}, which this reply needs`)
    this.#free(() => this.#fail(error, 'Unknown'))
  }

  #parsed(): void {
    const { name, text } = this.#turn.query
    if (this.#active === undefined || !name) return
    this.#connection.parsedStatements[name] = text ?? ''
    delete this.#connection.submittedNamedStatements[name]
  }

  #copyBegins(): void {
    this.#copiesIn = true
    if (this.#syncs > 0) {
      this.#outstanding -= this.#syncs
      this.#syncs = 0
      this.#isUnsynced = true
    }
    this.#tell('handleCopyInResponse', this.#connection)
  }

  #failed(error: DatabaseError): void {
    this.#copiesIn = false
    const { name } = this.#turn.query
    if (name) delete this.#connection.submittedNamedStatements[name]
    const isFatal = error.severity === 'FATAL' || error.severity === 'PANIC'
    const isHeard = this.#active !== undefined
    if (isHeard) this.#fail(error, isFatal ? 'Unknown' : this.#effect.ofError)
    if (isFatal) this.#host.fatal(isHeard ? undefined : error)
    else if (isHeard) this.#free()
  }

  #ready({ status }: ReadyForQueryMessage): void {
    const active = this.#active
    this.#active = undefined
    this.#copiesIn = false
    this.#outstanding = Math.max(0, this.#outstanding - 1)
    this.#host.status(status)
    if (active) guarded(() => active.handleReadyForQuery?.(this.#connection))
  }

  /** The server is ready, and all listeners have been told. */
  #answered(): void {
    if (this.#outstanding > 0) return
    if (this.#isUnsynced) this.#connection.sync()
    else this.#host.finished()
  }

  // --- early ends ---

  /** Its deadline has passed. */
  expired(): void {
    if (this.#active === undefined) return
    this.#isLate = true
    // It may have been closed before, and wait for `readyForQuery`.
    setImmediate(() => this.#connection.waitNoMore())
    const error = timeoutError()
    this.#turn.callBack(error)
    const { query } = this.#turn
    if (this.#hasStream && 'destroy' in query && typeof query.destroy === 'function') {
      // A query that reads the stream itself is destroyed: after an error it would not give it
      // back.
      query.destroy(error)
      return
    }
    this.#free(() => this.#fail(error, 'Unknown'))
  }

  /** The connection is lost. */
  lost(error: unknown): void {
    if (this.#active === undefined) return
    const fail = (): void => this.#turn.failNow(error, this.#hasSent ? 'Unknown' : 'NotSent')
    this.#active = undefined
    process.nextTick(fail)
  }

  /** Ends the conversation: the query is told nothing more. */
  over(): void {
    this.#active = undefined
    this.#turn.over()
    const { query } = this.#turn
    if (query instanceof EventEmitter) query.off('close', this.#closed)
  }

  #fail(error: unknown, outcome: Outcome): void {
    this.#active = undefined
    this.#hasFailed = true
    this.#turn.failNow(error, outcome)
  }

  /** Ends the query on the server, whatever the query itself does. */
  #free(fail?: () => void): void {
    if (this.#copiesIn) this.#connection.sendCopyFail('The query failed')
    fail?.()
    if (this.#outstanding === 0 && this.#isUnsynced) this.#connection.sync()
  }

  /** Whether the query reads the stream itself. */
  get #hasStream(): boolean {
    return !this.#connection.isReading
  }

  /** The query is a stream, and was closed. */
  #abandoned(): void {
    if (this.#active === undefined) return
    if (this.#hasStream) this.#drain()
    else if (this.#outstanding === 0 && this.#isUnsynced) {
      this.#active = undefined
      this.#connection.sync()
    }
  }

  /**
   * The query reads the stream itself, and stopped. Only it knows where in a message it is, so it
   * is made to read to the end.
   */
  #drain(): void {
    const { query } = this.#turn
    const { stream } = this.#connection
    this.#active = undefined
    if (!('_read' in query) || typeof query._read !== 'function') {
      const error = new Error('A query was closed and did not give its connection back')
      return this.#host.violation(error)
    }
    const read = query._read.bind(query) as (size: number) => void
    const pump = (): void => {
      while (this.#hasStream && stream.readableLength > 0) read(0)
      if (!this.#hasStream) stream.off('readable', pump)
    }
    stream.on('readable', pump)
    this.#host.cancel()
    pump()
  }
}

/** Messages that need a Sync behind them. */
const UNSYNCED = new Set([PARSE, BIND, DESCRIBE, EXECUTE, CLOSE])
