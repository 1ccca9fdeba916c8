import type { Socket } from 'node:net'

import { Close, type Outcome, Refused } from '../engine/exports'
import { memory } from '../engine/memory'
import { RedisLink, type RedisOwner } from '../engine/redis-link'
import { Atomic } from './atomic'
import { Batch, type Mourner } from './batch'
import { Call, Confirmation } from './call'
import type { Config, Server } from './config'
import { sizeOf, Words, write } from './encode'
import { fromText, RedisError } from './error'
import { nameOf, open } from './open'
import { specOf } from './spec'

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

/** A request is submitted when it has so many bytes: the window slides by whole requests. */
const BATCH_BYTES = 64 * 1024

const ASKING = new Words('ASKING')
const EVAL = new Words('EVAL')
const EVALSHA = new Words('EVALSHA')

/** Programs have some dozens of scripts. One that makes them up as it goes is not helped by hashes. */
const SCRIPTS_MAX = 1024

/** One connection to a server, from the moment it is wanted to its end. Calls of one turn leave in one write. */
export class Connection implements RedisOwner, Mourner {
  readonly server: Server
  reason: RedisError | undefined
  /** 2 or 3, once it is ready. */
  protocol = 0
  /** Calls that were sent and are not answered. */
  unanswered = 0
  readonly #config: Config
  readonly #seat: Seat
  readonly #purpose: Purpose
  #socket: Socket | undefined
  #link: RedisLink | undefined
  #giveUp: (() => void) | undefined
  #timer: NodeJS.Timeout | undefined
  #permanent = false
  #isReady = false
  #isFull = false
  #isOver = false
  #batch: Batch | undefined
  /** Where the room of the batch begins, where the next command goes, and where the room ends. */
  #start = 0
  #at = 0
  #limit = 0
  /** Scripts that were sent as texts, so that the server knows them by their hashes. */
  readonly #scripts = new Set<string>()

  constructor(config: Config, server: Server, purpose: Purpose, seat: Seat) {
    this.server = server
    this.#config = config
    this.#seat = seat
    this.#purpose = purpose
    this.#giveUp = open(
      config,
      server,
      (socket) => this.#opened(socket),
      (error) => this.#ended(error),
    )
  }

  /** It takes calls. */
  get isReady(): boolean {
    return this.#isReady
  }

  /** Where it lies in the module, for a pool. */
  get address(): number {
    return this.#link?.address ?? 0
  }

  /** Sends a call, behind what was sent before. False if there is no room for it: then it was not taken. */
  send(call: Call): boolean {
    if (this.#isFull || !this.#isReady) return false
    if (call instanceof Confirmation) {
      return this.#submitAlone(call, call.spec.words, call.args, CONFIRMED, call.replies)
    }
    if (call instanceof Atomic && !call.asking) return this.#sendAtomic(call)
    if (call.asking) return this.#sendAsking(call)
    if (call.script !== undefined || call.how.signal !== undefined) return this.#sendAlone(call)
    const { words, name } = call.spec
    let size: number
    try {
      size = sizeOf(words, call.args, name)
    } catch (error) {
      call.reject(error as RedisError)
      return true
    }
    const batch = this.#roomFor(size, call)
    if (batch === undefined) return false
    memory.refresh()
    this.#at = write(this.#at, words, call.args)
    batch.calls.push(call)
    this.unanswered++
    return true
  }

  /** Takes no more calls, and ends when all are answered. */
  end(): void {
    this.#isReady = false
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

  ref(): void {
    this.#socket?.ref()
  }

  unref(): void {
    this.#socket?.unref()
  }

  // --- sending ---

  #roomFor(size: number, call: Call): Batch | undefined {
    let batch = this.#batch
    const fits = this.#at + size <= this.#limit
    if (batch !== undefined && fits && sameDeadline(batch.calls[0], call)) return batch
    if (batch !== undefined) {
      this.#submit()
      if (this.#isFull || !this.#isReady) return undefined
    }
    const link = this.#link as RedisLink
    const room = Math.max(size, BATCH_BYTES)
    this.#start = this.#at = link.room(room)
    this.#limit = this.#start + room
    batch = this.#batch = new Batch(this)
    link.schedule()
    return batch
  }

  /** Submits what was written, before anything else is. */
  flush(): void {
    if (this.#batch !== undefined) this.#submit()
  }

  #submit(): void {
    const batch = this.#batch as Batch
    this.#batch = undefined
    const { calls } = batch
    const [first] = calls
    if (first === undefined) return
    const place = (this.#link as RedisLink).submit(
      batch,
      0,
      calls.length,
      0,
      this.#at - this.#start,
      timeLeft(first),
    )
    if (place < 0) this.#refused(calls, place)
  }

  #refused(calls: readonly Call[], why: number): void {
    this.unanswered -= calls.length
    if (why === Refused.FULL) this.#isFull = true
    else this.#isReady = false
    this.#seat.returned(calls)
  }

  #sendAlone(call: Call): boolean {
    const { script } = call
    if (script === undefined) {
      const flags = call.leaves ? LEAVES : 0
      return this.#submitAlone(call, call.spec.words, call.args, flags, 0)
    }
    call.leaves = true
    if (this.#scripts.has(script.sha)) {
      return this.#submitAlone(call, EVALSHA, [script.sha, ...call.args], LEAVES, 0, script.text)
    }
    const sent = this.#submitAlone(call, EVAL, [script.text, ...call.args], LEAVES, 0)
    if (sent) this.#knows(script.sha)
    return sent
  }

  /** A script was sent as a text. */
  #knows(sha: string): void {
    if (this.#scripts.size >= SCRIPTS_MAX) this.#scripts.clear()
    this.#scripts.add(sha)
  }

  /** A call with scripts failed: the server may have forgotten them, or never learned them. */
  doubtScripts(): void {
    this.#scripts.clear()
  }

  #submitAlone(
    call: Call,
    words: Words,
    args: Call['args'],
    flags: number,
    replies: number,
    text = '',
  ): boolean {
    this.flush()
    if (this.#isFull || !this.#isReady) return false
    let size: number
    try {
      size = sizeOf(words, args, call.spec.name)
    } catch (error) {
      call.reject(error as RedisError)
      return true
    }
    const room = (this.#link as RedisLink).room(size + 3 * text.length)
    const textLen = text === '' ? 0 : memory.writeText(text, room)
    const end = write(room + textLen, words, args)
    return this.#submitRoom(call, flags, replies, textLen, end - room)
  }

  /** Sends a call behind ASKING, in the same request; a script as a text, since nothing loads it there. */
  #sendAsking(call: Call): boolean {
    this.flush()
    if (this.#isFull || !this.#isReady) return false
    const room = (this.#link as RedisLink).room(call.size() + 64)
    let end = write(room, ASKING, [])
    if (call instanceof Atomic) end = call.write(end, () => false)
    else if (call.script !== undefined) end = write(end, EVAL, [call.script.text, ...call.args])
    else end = write(end, call.spec.words, call.args)
    call.asking = false
    const asked = new Call(specOf('ASKING'), [], call.how, undefined, nothing, nothing)
    return this.#submitRoom(call, 0, call.replies + 1, 0, end - room, asked)
  }

  /** Submits what was written for one call; its batch has a place for each of its replies. */
  #submitRoom(call: Call, flags: number, replies: number, textLen: number, len: number, first?: Call): boolean {
    const link = this.#link as RedisLink
    const batch = new Batch(this)
    if (first !== undefined) batch.calls.push(first)
    for (let i = 0; i < call.replies; i++) batch.calls.push(call)
    const { length } = batch.calls
    this.unanswered += length
    const place = link.submit(batch, flags, replies, textLen, len, timeLeft(call))
    if (place < 0) {
      this.unanswered -= length
      if (place === Refused.FULL) this.#isFull = true
      else this.#isReady = false
      return false
    }
    call.takeBack = place > 0 ? () => link.takeBack(place) : undefined
    return true
  }

  /** Sends a list that runs as a whole, as one request: all of it leaves, or nothing. */
  #sendAtomic(call: Atomic): boolean {
    this.flush()
    if (this.#isFull || !this.#isReady) return false
    let size = 0
    try {
      size = call.size()
    } catch (error) {
      call.reject(error as RedisError)
      return true
    }
    const room = (this.#link as RedisLink).room(size)
    const end = call.write(room, (sha) => this.#scripts.has(sha))
    return this.#submitRoom(call, 0, call.replies, 0, end - room)
  }

  // --- what happens ---

  #opened(socket: Socket): void {
    this.#giveUp = undefined
    this.#socket = socket
    const link = new RedisLink(socket, this.#settings(), this)
    this.#link = link
    socket.on('data', (chunk: Buffer) => link.receive(chunk))
    socket.on('error', (cause) => (this.reason ??= lost(this.server, cause)))
    socket.on('close', () => this.#gone())
    this.#timer = setTimeout(() => {
      const message = `${nameOf(this.server)} did not answer the login in time`
      this.abort(new RedisError(message, 'connect_timeout', 'NotSent'))
    }, this.#config.connectTimeout)
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
    this.#isReady = true
    this.#seat.ready(this)
  }

  push(start: number, end: number): void {
    this.#seat.push(this, start, end)
  }

  full(): void {}

  drained(): void {
    if (!this.#isFull) return
    this.#isFull = false
    this.#seat.drained(this)
  }

  answered(count: number): void {
    this.unanswered -= count
    this.#seat.answered(this)
  }

  lost(call: Call, outcome: Outcome, error: RedisError): void {
    if (!this.#seat.again(call, outcome)) call.fail(error, outcome)
  }

  closed(why: number, isFinal: boolean, start: number, end: number): void {
    this.#isReady = false
    this.#permanent = isFinal
    const text = end > start ? memory.text(start, end) : ''
    if (why === Close.SERVER) this.reason ??= refused(this.server, text)
    else if (why === Close.VIOLATION) {
      const message = `${nameOf(this.server)} broke the protocol: ${text}`
      this.reason ??= new RedisError(message, 'protocol_violation', 'Unknown')
    } else if (why === Close.LOGIN) this.reason ??= login(this.server, text, isFinal)
    else if (why === Close.STALLED) {
      const message = `${nameOf(this.server)} took no bytes for too long`
      this.reason ??= new RedisError(message, 'stalled', 'Unknown')
    }
    // The ends of what was on its way come first.
    setImmediate(() => this.#gone())
    this.#socket?.end()
  }

  /** The socket is closed, or is to be. */
  #gone(): void {
    if (this.#isOver) return
    this.reason ??= lost(this.server)
    this.#isReady = false
    this.flush()
    this.#link?.peerClosed()
    this.#socket?.destroy()
    this.#ended(this.reason)
  }

  #ended(error: RedisError): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#isReady = false
    clearTimeout(this.#timer)
    this.#giveUp?.()
    this.#giveUp = undefined
    this.reason ??= error
    const link = this.#link
    if (link !== undefined) setImmediate(() => link.free())
    this.#seat.ended(this, this.reason, this.#permanent)
  }
}

const nothing = (): void => {}

const LEAVES = 1
const CONFIRMED = 2

function sameDeadline(one: Call | undefined, other: Call): boolean {
  // Those of one turn are a moment apart.
  return one === undefined || one.deadline === other.deadline || Math.abs(one.deadline - other.deadline) < 1
}

/** In milliseconds; 0 for no end. */
function timeLeft(call: Call): number {
  return call.deadline === Infinity ? 0 : Math.max(call.deadline - performance.now(), 0.001)
}

/** The error of a call on what this program has closed. */
export function closed(): RedisError {
  return new RedisError('the connection was closed by this program', 'connection_ended', 'NotSent')
}

function lost(server: Server, cause?: Error): RedisError {
  const why = cause === undefined ? 'the server closed it' : cause.message
  const message = `the connection to ${nameOf(server)} was lost: ${why}`
  return new RedisError(message, 'connection_ended', 'Unknown', undefined, cause)
}

function refused(server: Server, text: string): RedisError {
  const error = fromText(text.replace(/^[-!]/, '').trimEnd(), 'NotSent')
  return new RedisError(`${nameOf(server)} refused the connection: ${error.message}`, error.code, 'NotSent')
}

function login(server: Server, text: string, isFinal: boolean): RedisError {
  return new RedisError(`${nameOf(server)}: ${text}`, isFinal ? 'not_redis' : 'connect_failed', 'NotSent')
}
