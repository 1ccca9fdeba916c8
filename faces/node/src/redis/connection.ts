import type { Socket } from 'node:net'

import type { Outcome } from '../engine/exports'
import { reason } from '../engine/memory'
import { RedisLink, type RedisOwner } from '../engine/redis-link'
import type { FailureListener } from './batch'
import { type Call, Confirmation } from './call'
import type { Config, Server } from './config'
import { closed, endOf, lost, silent } from './ends'
import { RedisError } from './error'
import { open } from './open'
import { Outbox } from './outbox'

/** Whom a connection serves. */
export interface Seat {
  /** It takes calls from now on. */
  ready(connection: Connection): void
  /** It has room again, after `send` said that it has none. */
  drained(connection: Connection): void
  /** A push came, which is valid for the time of the call. */
  push(connection: Connection, start: number, end: number): void
  /** A call that may be sent again, since its connection was lost. Whether it will be. */
  again(call: Call, outcome: Outcome): boolean
  /** The connection took no more: of these, which were handed to it last, it has sent nothing. */
  returned(calls: readonly Call[]): void
  /** Calls were answered. */
  answered(connection: Connection): void
  /** It is gone, and so is all that was on its way. `permanent`: time does not mend it. */
  ended(connection: Connection, error: RedisError, permanent: boolean): void
}

/** What a connection is for. */
export interface Purpose {
  /** Subscriptions: on RESP2 messages look like replies there. */
  readonly subscriber?: boolean
  /** A replica of a cluster is read from. */
  readonly readonly?: boolean
}

const RESP3_LOST = 'the server that was connected to meanwhile has no RESP3: subscribe once more'

/**
 * One connection to a server, from the moment it is wanted to its end. Calls of one turn leave in
 * one write.
 */
export class Connection implements RedisOwner, FailureListener {
  readonly server: Server
  reason: RedisError | undefined
  /** 2 or 3, once it is ready. */
  protocol = 0
  readonly #config: Config
  readonly #seat: Seat
  readonly #purpose: Purpose
  readonly #received = (chunk: Buffer): void => this.#link?.receive(chunk)
  #socket: Socket | undefined
  #link: RedisLink | undefined
  #outbox: Outbox | undefined
  #giveUp: (() => void) | undefined
  #timer: NodeJS.Timeout | undefined
  #permanent = false
  #isOver = false

  constructor(config: Config, server: Server, purpose: Purpose, seat: Seat) {
    this.server = server
    this.#config = config
    this.#seat = seat
    this.#purpose = purpose
    this.#giveUp = open(
      config,
      server,
      this.#received,
      (socket) => this.#opened(socket),
      (error) => this.#ended(error),
    )
  }

  /** It takes calls. */
  get isReady(): boolean {
    return this.#outbox?.isOpen === true
  }

  /** Replies that are to come, also those that nobody waits for any more. */
  get unanswered(): number {
    return Math.max(this.#outbox?.unanswered ?? 0, this.#link?.unanswered ?? 0)
  }

  /** Where it lies in the module, for a pool. */
  get address(): number {
    return this.#link?.address ?? 0
  }

  /**
   * Sends a call, behind what was sent before. False if there is no room for it: then it was not
   * taken.
   */
  send(call: Call): boolean {
    if (call instanceof Confirmation && this.protocol === 2 && !this.#purpose.subscriber) {
      // It was called when the server spoke RESP3: here a message can't be told from a reply.
      call.reject(new RedisError(RESP3_LOST, 'resp3_lost', 'NotSent', call.spec.name))
      return true
    }
    return this.#outbox?.send(call) === true
  }

  /** Takes no more calls, and ends when all are answered. */
  end(): void {
    this.#shut()
    if (this.#link !== undefined) this.#link.terminate()
    else this.abort(closed())
  }

  /** Ends it now, whatever is unanswered. */
  abort(error: RedisError): void {
    this.reason ??= error
    if (this.#giveUp !== undefined) return this.#ended(error)
    this.#socket?.destroy()
    this.#gone()
  }

  #shut(): void {
    if (this.#outbox !== undefined) this.#outbox.isOpen = false
  }

  // --- what happens ---

  #opened(socket: Socket): void {
    this.#giveUp = undefined
    this.#socket = socket
    const link = new RedisLink(socket, this.#settings(), this)
    this.#link = link
    this.#outbox = new Outbox(link, this, (calls) => this.#seat.returned(calls))
    socket.on('data', this.#received)
    socket.on('error', (cause) => (this.reason ??= lost(this.server, cause)))
    socket.on('close', () => this.#gone())
    this.#timer = setTimeout(() => this.abort(silent(this.server)), this.#config.connectTimeout)
  }

  *#settings(): Generator<readonly [string, string]> {
    const config = this.#config
    if (config.user !== undefined) yield ['user', config.user]
    if (config.password !== undefined) yield ['password', config.password]
    if (config.clientName !== undefined) yield ['client_name', config.clientName]
    yield ['database', `${config.database}`]
    yield ['protocol', `${config.protocol}`]
    yield ['subscriber', this.#purpose.subscriber === true ? '1' : '0']
    yield ['readonly', this.#purpose.readonly === true ? '1' : '0']
    yield ['reply_bytes_max', `${config.replyBytesMax}`]
    yield ['in_flight_bytes_max', `${config.inFlightBytesMax}`]
    yield ['queue_bytes_max', `${config.queueBytesMax}`]
    yield ['stall_timeout_ms', `${config.stallTimeout}`]
  }

  ready(protocol: number): void {
    clearTimeout(this.#timer)
    this.protocol = protocol
    if (this.#outbox !== undefined) this.#outbox.isOpen = true
    this.#seat.ready(this)
  }

  flush(): void {
    this.#outbox?.flush()
  }

  push(start: number, end: number): void {
    this.#seat.push(this, start, end)
  }

  full(): void {}

  drained(): void {
    if (this.#outbox?.isFull !== true) return
    this.#outbox.isFull = false
    this.#seat.drained(this)
  }

  answered(count: number): void {
    if (this.#outbox !== undefined) this.#outbox.unanswered -= count
    this.#seat.answered(this)
  }

  /** From now on scripts go as texts. */
  sendScriptsAsTexts(): void {
    this.flush()
    this.#link?.sendScriptsAsTexts()
  }

  lost(call: Call, outcome: Outcome, error: RedisError): void {
    if (!this.#seat.again(call, outcome)) call.fail(error, outcome)
  }

  closed(why: number, isFinal: boolean, start: number, end: number): void {
    this.#shut()
    this.#permanent = isFinal
    this.reason ??= endOf(this.server, why, isFinal, reason(why, start, end))
    // The ends of what was on its way come first.
    setImmediate(() => this.#gone())
    this.#socket?.end()
  }

  /** The socket is closed, or is to be. */
  #gone(): void {
    if (this.#isOver) return
    this.reason ??= lost(this.server)
    this.#shut()
    this.flush()
    this.#link?.peerClosed()
    this.#socket?.destroy()
    this.#ended(this.reason)
  }

  #ended(error: RedisError): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#shut()
    clearTimeout(this.#timer)
    this.#giveUp?.()
    this.#giveUp = undefined
    this.reason ??= error
    const link = this.#link
    if (link !== undefined) setImmediate(() => link.free())
    this.#seat.ended(this, this.reason, this.#permanent)
  }
}
