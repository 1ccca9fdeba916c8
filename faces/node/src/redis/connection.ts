import type { Socket } from 'node:net'

import { type Outcome } from '../engine/choices'
import { Role } from '../engine/exports'
import { memory, reason } from '../engine/memory'
import { RedisLink, type RedisOwner } from '../engine/redis-link'
import type { FailureListener } from './batch'
import type { Cache } from './cache'
import type { Call } from './call'
import type { Config, Server } from './config'
import { closed, endOf, left, lost, silent } from './ends'
import { RedisError } from './error'
import { nameOf, open } from './open'
import { Outbox } from './outbox'
import type { Seated, Seating } from './sentinels'

/** The owner of a connection. */
export interface Seat {
  /** The connection takes calls from now on. */
  ready(connection: Connection): void
  /** The connection has room again, after `send` returned false. */
  drained(connection: Connection): void
  /** A push arrived. Its bytes are valid for the time of the call. */
  push(connection: Connection, start: number, end: number): void
  /** A call was lost with its connection. Returns whether the owner sends it again. */
  again(call: Call, outcome: Outcome): boolean
  /** The connection took no more: no byte of these calls was sent. */
  returned(calls: readonly Call[]): void
  /** Calls were answered. */
  answered(connection: Connection): void
  /** The connection and its requests have ended. `permanent`: retrying won't help. */
  ended(connection: Connection, error: RedisError, permanent: boolean): void
}

/** The purpose of a connection. */
export interface Purpose {
  /** It carries subscriptions: on RESP2, published messages look like replies. */
  readonly subscriber?: boolean
  /** It may be to a replica of a cluster, for reading. */
  readonly readonly?: boolean
  /** It is to a node of a cluster: commands don't wait for one that can't be reached. */
  readonly isNode?: boolean
  /** What is told of the commands that are sent on it. */
  readonly cache?: Cache | undefined
  /** The server is to say which keys that were read on it are changed, for the cache. */
  readonly tracks?: boolean
  /** Where it finds its server, if Sentinels name it. */
  readonly seating?: Seating | undefined
}

const RESP3_LOST = 'the client has reconnected to a server without RESP3: subscribe again'

/**
 * One connection to a server, from its opening to its end. Calls of one turn of the event loop
 * leave in one write.
 */
export class Connection implements RedisOwner, FailureListener, Seated {
  /** The server; the first of the configuration until it is known. */
  server: Server
  reason: RedisError | undefined
  /** Counts what its caller and the server do. */
  moves = 0
  /** The last call on it that may block for ever. */
  #blocking: Call | undefined
  /** 2 or 3, once it is ready. */
  protocol = 0
  readonly #config: Config
  readonly #seat: Seat
  readonly #purpose: Purpose
  readonly #received = (chunk: Buffer): void => {
    this.moves++
    this.#link?.receive(chunk)
  }
  #socket: Socket | undefined
  #link: RedisLink | undefined
  #outbox: Outbox | undefined
  #giveUp: (() => void) | undefined
  #timer: NodeJS.Timeout | undefined
  #permanent = false
  #isOver = false
  /** Its number at the Sentinels; 0 for none. */
  #number = 0

  constructor(config: Config, server: Server, purpose: Purpose, seat: Seat) {
    this.server = server
    this.#config = config
    this.#seat = seat
    this.#purpose = purpose
    const { seating } = purpose
    if (seating === undefined) this.dial(server)
    else this.#number = seating.sentinels.connect(seating.role, this)
  }

  /** Opens its socket to this server, and gives an earlier attempt up. */
  dial(server: Server): void {
    // What has begun its login ends, and its owner tries again.
    if (this.#link !== undefined) return this.abort(left())
    this.#giveUp?.()
    this.server = server
    this.#giveUp = open(
      this.#config,
      server,
      this.#received,
      (socket) => this.#opened(socket),
      (error) => this.#ended(error),
    )
  }

  leave(): void {
    this.abort(left())
  }

  notFound(error: RedisError): void {
    this.#ended(error)
  }

  /** Whether it takes calls. */
  get isReady(): boolean {
    return this.#outbox?.isOpen === true
  }

  /** Replies that are still to come, also to calls that have been given up. */
  get unanswered(): number {
    return Math.max(this.#outbox?.unanswered ?? 0, this.#link?.unanswered ?? 0)
  }

  /** The address of its link in the module, for a pool. */
  get address(): number {
    return this.#link?.address ?? 0
  }

  /**
   * Sends a call, behind those that were sent before. Returns false, and does not take the call, if
   * there is no room for it.
   */
  send(call: Call): boolean {
    this.#purpose.cache?.submits(call)
    if (call.isConfirmed && this.protocol === 2 && !this.#purpose.subscriber) {
      // The call was made when the server spoke RESP3. On RESP2 messages look like replies.
      call.reject(new RedisError(RESP3_LOST, 'resp3_lost', 'NotSent', call.spec.name))
      return true
    }
    const isTaken = this.#outbox?.send(call) === true
    this.moves++
    if (isTaken && call.body.blocks) this.#blocking = call
    return isTaken
  }

  /** Whether nothing is unanswered on it but what may block for ever. */
  get isStill(): boolean {
    return this.isReady && (this.unanswered === 0 || this.#blocking?.settled === false)
  }

  /** Takes no more calls, and ends when all are answered. */
  end(): void {
    this.#shut()
    this.#purpose.seating?.sentinels.left(this.#number)
    if (this.#link !== undefined) this.#link.terminate()
    else this.abort(closed())
  }

  /** Ends it now, whatever is unanswered. */
  abort(error: RedisError): void {
    this.reason ??= error
    if (this.#link === undefined) return this.#ended(error)
    this.#socket?.destroy()
    this.#gone()
  }

  #shut(): void {
    if (this.#outbox !== undefined) this.#outbox.isOpen = false
    this.#purpose.cache?.closed(this)
  }

  // --- events ---

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
    const role = this.#purpose.seating?.role
    if (role !== undefined) yield ['role', role === Role.MASTER ? 'master' : 'replica']
    yield ['tracking', this.#purpose.tracks === true ? '1' : '0']
    yield ['reply_bytes_max', `${config.replyBytesMax}`]
    yield ['in_flight_bytes_max', `${config.inFlightBytesMax}`]
    yield ['queue_bytes_max', `${config.queueBytesMax}`]
    yield ['stall_timeout_ms', `${config.stallTimeout}`]
  }

  ready(protocol: number, _: readonly string[], tracks: boolean): void {
    clearTimeout(this.#timer)
    this.protocol = protocol
    if (this.#outbox !== undefined) this.#outbox.isOpen = true
    if (tracks) this.#purpose.cache?.opened(this)
    if (this.#number !== 0) this.#purpose.seating?.sentinels.opened(this.#number)
    // Another server may have the role by now.
    if (this.#isOver) return
    this.#seat.ready(this)
  }

  flush(): void {
    this.#outbox?.flush()
  }

  push(start: number, end: number): void {
    if (this.#purpose.tracks === true && this.#purpose.cache?.pushed(start, end) === true) return
    this.#seat.push(this, start, end)
  }

  full(): void {}

  /** The connection takes nothing new, and ends when all is answered. */
  astray(start: number, end: number): void {
    const { sentinels } = this.#purpose.seating ?? {}
    if (sentinels === undefined) return
    const why = memory.text(start, end).replace(/^[-!]/, '').trimEnd()
    sentinels.useless(this.#number, `${nameOf(this.server)} says ${why}`)
    // It may still be told to leave.
    this.#shut()
    if (!this.#isOver) this.#link?.terminate()
  }

  drained(): void {
    if (this.#outbox?.isFull !== true) return
    this.#outbox.isFull = false
    this.#seat.drained(this)
  }

  answered(count: number): void {
    if (this.#outbox !== undefined) this.#outbox.unanswered -= count
    this.#seat.answered(this)
  }

  /** From now on scripts are sent as texts. */
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
    // The ends of its requests come first.
    setImmediate(() => this.#gone())
    this.#socket?.end()
  }

  /** The socket is closed, or must be. */
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
    this.#purpose.seating?.sentinels.lost(this.#number, this.reason.message)
    const link = this.#link
    if (link !== undefined) setImmediate(() => link.free())
    this.#seat.ended(this, this.reason, this.#permanent)
  }
}
