import { Close, End, Refused } from '../engine/exports'
import { Link, type Owner, type Parameter } from '../engine/link'
import { keyOf, UNTOLD } from '../engine/text-key'
import { reason } from '../engine/memory'
import { Opening } from './begin'
import { channelBinding } from './binding'
import { sendCancel } from './cancel'
import { ColumnsCache } from './columns'
import type { Connection, Opener } from './connect'
import { DatabaseError } from './error'
import { Emitter } from './emitter'
import { hide } from './hidden'
import type { Life } from './life'
import { pgText, secretKeyIn, strangeMessage } from './messages'
import { findPassword, passwordFor } from './password'
import { Names } from './names'
import { Lending, type LentSession } from './raw'
import { later, refusal } from './refusal'
import { databaseError } from './report'
import { guarded, type Home, type Request } from './request'
import { engineSettings } from './settings'
import { Turn } from './submittable'
import { Tap, type TapOwner } from './tap'
import { Waiting } from './waiting'

/** The connection of a client: the engine's link, the transport below it, and its requests. */
export class Session extends Emitter<Life> implements Owner, Opener, Home, LentSession, TapOwner {
  readonly columns = new ColumnsCache()
  readonly names: Names
  /** Requests that wait for the login. */
  readonly waiting: Waiting[] = []
  /** Lends the connection to queries that run themselves. */
  readonly lending: Lending
  readonly #tap: Tap
  #link: Link | undefined
  #isReady = false
  /** The bytes that arrived before the login was over. */
  #greeting: Buffer[] = []
  #greetingLen = 0
  #isGone = false
  #isWatched = false
  /** The server ended the connection with an error, and the transport is not closed yet. */
  #isClosingGracefully = false
  /** It terminates as soon as the login is over, or the connection is not lent any more. */
  #isTerminating = false
  /** Requests that were submitted and have not ended. */
  #pending = 0
  /** Requests that were refused and have not been told. */
  #refused = 0
  #why: Error | undefined
  /** The error with which the server ended the connection. The query that ran gets it. */
  #lastWords: Error | undefined
  /** The client has heard that its connection is lost. */
  isLossTold = false
  /** A request ended before its answer came, and the answer may still be due. */
  #isLate = false
  #hasTimedOut = false
  /** Called when a request timed out before it was answered. */
  onLate: (() => void) | undefined
  /** Its pool measures how long each text takes. */
  isMeasured = false

  readonly #weak: WeakRef<Life>
  /** The client; undefined while only its user holds it. */
  #client: Life | undefined
  readonly #standIn: () => Life
  /** The client is held only while something is to be told to it. */
  #isLoose = false

  /** `standIn` makes a client that is told what one would be told that is gone. */
  constructor(client: Life, connection: Connection, standIn: () => Life) {
    super(connection)
    this.#client = client
    this.#weak = new WeakRef(client)
    this.#standIn = standIn
    this.lending = new Lending(this, connection)
    this.#tap = new Tap(connection, this)
    this.names = new Names(connection.parsedStatements)
  }

  protected get client(): Life {
    return this.#client ?? this.#weak.deref() ?? (this.#client = this.#standIn())
  }

  // --- a client that a pool has lent ---

  /**
   * From now on only its user holds the client, unless it is to be told something, so that one that
   * nobody can reach any more is found.
   */
  loosen(): void {
    const { client } = this
    if (HEARD.some((event) => client.listenerCount(event) > 0)) return
    this.#isLoose = true
    client.on('newListener', this.#heard)
    this.#letGo()
  }

  /** The client is given back. */
  tighten(client: Life): void {
    this.#isLoose = false
    this.#client = client
    client.off('newListener', this.#heard)
  }

  /** Whoever listens for what the server says of itself needs no other way to the client. */
  readonly #heard = (event: string | symbol): void => {
    if (!HEARD.includes(event as string)) return
    this.hold()
    this.#isLoose = false
  }

  /** Something is to be told to the client. */
  hold(): void {
    if (this.#isLoose) this.#client ??= this.#weak.deref()
  }

  #letGo(): void {
    if (this.#isLoose && this.#refused === 0 && this.isIdle) this.#client = undefined
  }

  /** Ends the connection at once. */
  cut(): void {
    this.connection.stream.destroy()
  }

  open(): void {
    this.connection.open(this.client.port, this.client.host, this)
  }

  /** Requests that are sent and not answered. */
  get inFlight(): number {
    return this.#link?.inFlight ?? 0
  }

  /** Whether the only answers that are due are those that nobody waits for. */
  get isAbandoned(): boolean {
    return this.#isLate && this.#pending === 0 && this.inFlight > 0
  }

  /** Requests that wait to be sent. */
  get queued(): number {
    return this.waiting.length + (this.#link?.queued ?? 0)
  }

  /** Whether nothing waits for an answer. */
  get isIdle(): boolean {
    if (this.lending.isClosed) return false
    return this.#pending === 0 && this.inFlight === 0 && this.waiting.length === 0
  }

  get pending(): number {
    return this.#pending
  }

  get openLink(): Link | undefined {
    return this.#isReady && !this.#isClosingGracefully ? this.#link : undefined
  }

  get isReady(): boolean {
    return this.#isReady
  }

  get isGone(): boolean {
    return this.#isGone
  }

  /**
   * Whether requests are taken although none will run: they fail after the client's `error`, when
   * the connection has closed. If they failed at once, a pool that learns of the loss by events
   * would hand the client out again and again.
   */
  get isClosingGracefully(): boolean {
    return this.#isClosingGracefully && !this.#isGone
  }

  /** The address of the link in the module, once the login is over. */
  get address(): number | undefined {
    return this.#isReady ? this.#link?.address : undefined
  }

  // --- requests ---

  submit(
    request: Request,
    flags: number,
    text: string,
    name: string,
    parameters: readonly Parameter[],
    timeout: number,
  ): void {
    this.hold()
    const link = this.openLink
    if (name !== '' && !this.lending.frees(name, text, this.names)) {
      return this.refuse(request, refusal(this.client, Refused.NAME_TAKEN, name))
    }
    if (link === undefined || this.lending.isClosed) {
      this.waiting.push(new Waiting(this, { request, flags, text, name, parameters, timeout }))
      return
    }
    const key = this.isMeasured ? keyOf(text) : UNTOLD
    const place = link.submit(request, flags, text, name, parameters, timeout, key)
    if (place < 0) return this.refuse(request, refusal(this.client, place, name))
    request.place = place
    this.#pending++
    this.client.hasExecuted = true
  }

  /** Fails a request that is not sent. `drain` waits for it, as for a request that is answered. */
  refuse(request: Request, error: unknown): void {
    this.hold()
    this.client.hasExecuted = true
    this.#refused++
    later(request, error, () => {
      this.#refused--
      this.tellDrain()
      this.#letGo()
    })
  }

  /** Submits the requests that waited. */
  reopened(): void {
    for (const waiting of this.waiting.splice(0)) {
      const { request, flags, text, name, parameters } = waiting.call
      if (request instanceof Turn) this.lending.lend(request)
      else this.submit(request, flags, text, name, parameters, waiting.stop())
    }
    if (this.#isTerminating && !this.lending.isClosed) this.terminate()
  }

  starting(): void {
    this.#pending++
    this.client.hasExecuted = true
  }

  /**
   * Ends a request early: takes it from the queue, or has it cancelled if that can hit no other.
   */
  abandon(request: Request): void {
    const at = this.waiting.findIndex((it) => it.call.request === request)
    if (at >= 0) {
      this.waiting.splice(at, 1)[0]?.stop()
      request.fail(request.cancelled(), 'NotSent')
    } else if (request.place === 0 || !this.#link?.takeBack(request.place)) {
      this.#link?.wantCancel(request)
    }
  }

  /**
   * Sends a BEGIN that is held back, for a query that does not go through `submit`. `done` is
   * called when the server has answered it, with the error if it refused; at once if no BEGIN was
   * held.
   */
  flushBegin(done: (error: Error | undefined) => void): void {
    const link = this.#link
    if (link === undefined || !this.#isReady || !link.isOpening) return done(undefined)
    const told = (error: Error | undefined): void => {
      if (!this.#isGone) this.client._txStatus = link.status
      done(error)
    }
    const place = link.sync(new Opening(told, () => this.lost()))
    if (place < 0) done(refusal(this.client, place, ''))
  }

  /**
   * Leaves a transaction: sends a BEGIN that is held back, and forgets a BEGIN that was refused.
   */
  leaveTransaction(): void {
    const link = this.#link
    if (link === undefined || !this.#isReady || this.#isGone || !link.isOpening) return
    const isRefused = link.status === 'E'
    link.flushBegin()
    if (isRefused) this.client._txStatus = link.status
  }

  status(code: number): void {
    this.client._txStatus = STATUS[code] ?? null
  }

  lost(): Error {
    const lastWords = this.#lastWords
    this.#lastWords = undefined
    if (lastWords !== undefined) return lastWords
    this.#tellLoss()
    const why = this.#why ?? this.client._terminated()
    // With the properties of the original, such as `code` and `errno`.
    return Object.assign(new Error(why.message), why)
  }

  violated(): void {
    this.#link?.violated()
  }

  ending(how: number): void {
    this.#pending--
    this.#isLate ||= how === End.DEADLINE || how === End.CANCELLED
    this.#hasTimedOut ||= how === End.DEADLINE
    // Where others wait for this client, it takes more queries: what holds them up is taken away.
    if (this.#hasTimedOut && this.isAbandoned) this.onLate?.()
  }

  ended(how: number): void {
    const client = this.client
    if (how !== 0 && !this.#isGone && this.#link) client._txStatus = this.#link.status
    this.tellDrain()
    this.lending.proceed()
    this.#letGo()
  }

  /** Emits `drain` if nothing waits for an answer. */
  tellDrain(): void {
    const { client } = this
    if (!this.#isReady || this.#isGone || !client._queryable) return
    if (this.#pending > 0 || this.#refused > 0 || this.lending.isClosed) return
    guarded(emitDrain, client)
  }

  // --- the transport ---

  opened(): void {
    const client = this.client
    const { stream } = this.connection
    try {
      const binding = client.enableChannelBinding ? channelBinding(stream) : undefined
      const secure = Boolean(this.connection.ssl)
      const settings = engineSettings(client.getStartupConf(), secure, binding, client._engineOptions)
      this.#link = new Link(stream, settings, this)
    } catch (error) {
      this.#refuse(error as Error)
    }
  }

  password(how: number): void {
    findPassword(this.client)
      .then((password) => this.#link?.givePassword(passwordFor(how, password)))
      .catch((error: Error) => this.#refuse(error))
  }

  received(chunk: Buffer): void {
    if (this.lending.takes(chunk)) return this.#tap.stop()
    if (!this.#isReady) this.#greet(chunk)
    if (!this.#tap.takes(chunk)) this.#link?.receive(chunk)
    if (this.#isLate && this.inFlight === 0) this.#isLate = false
    this.lending.proceed()
    this.#letGo()
  }

  get isBetween(): boolean {
    return this.#link?.isBetween ?? true
  }

  get isLent(): boolean {
    return this.lending.isLent
  }

  give(bytes: Buffer): void {
    if (!this.lending.takes(bytes)) this.#link?.receive(bytes)
  }

  protected override get isTapped(): boolean {
    return this.#isReady ? this.#tap.isOn : this.#tap.isComplete
  }

  /**
   * Keeps the first bytes, which hold the secret key. The limit is for a server that never ends.
   */
  #greet(chunk: Buffer): void {
    if (this.#greetingLen >= GREETING_MAX) return
    this.#greetingLen += chunk.length
    this.#greeting.push(Buffer.from(chunk))
  }

  failed(error: Error): void {
    this.#why = error
    this.client._handleErrorEvent(error)
  }

  gone(): void {
    const link = this.#link
    this.#isGone = true
    // Set now: a pool that is told ends the client, which would give another reason.
    this.#why ??= this.client._terminated()
    guarded(() => this.client._handleEnd())
    for (const waiting of this.waiting.splice(0)) {
      waiting.stop()
      waiting.call.request.fail(this.lost(), 'NotSent')
    }
    link?.peerClosed()
    this.lending.lost()
    process.nextTick(() => this.client.emit('end'))
    this.#free()
  }

  /**
   * Tells the client that its connection is lost, behind the query to which the server said so and in
   * front of those behind it, as pg does. One of them may end the client, which then hears nothing.
   */
  #tellLoss(): void {
    const { client } = this
    if (!this.#isClosingGracefully || this.isLossTold || client._ending) return
    this.isLossTold = true
    this.#why ??= client._terminated()
    client._handleErrorEvent(this.#why)
  }

  /** Frees the link, in a turn of its own, since its completions may be told just now. */
  #free(): void {
    setImmediate(() => {
      if (this.#isWatched) return
      this.#link?.free()
      this.#link = undefined
    })
  }

  /** The pool's policy still has the link: it must not be freed before `letGo`. */
  watch(): void {
    this.#isWatched = true
  }

  letGo(): void {
    this.#isWatched = false
    if (this.#isGone) this.#free()
  }

  #refuse(error: Error): void {
    this.client._handleErrorEvent(error)
    // A server that does not close its side would keep the process alive.
    this.connection.stream.destroy()
  }

  /** Ends the connection when all requests that somebody waits for are answered. */
  terminate(): void {
    // A client that pipelines first answers the queries that were asked while the login ran.
    const isLoggingIn = this.client.pipeline && !this.#isReady && this.waiting.length > 0
    this.connection._ending = !isLoggingIn
    if (this.isAbandoned) this.connection.stream.destroy()
    else if (isLoggingIn || this.lending.isClosed) this.#isTerminating = true
    else if (this.#link !== undefined && this.#isReady) this.#link.terminate()
    else this.connection.end()
  }

  // --- events that belong to no request ---

  ready(process: number, settings: string[]): void {
    const client = this.client
    client.processID = process | 0
    client.secretKey = secretKeyIn(Buffer.concat(this.#greeting.splice(0)))
    client._txStatus = 'I'
    for (let i = 0; i + 1 < settings.length; i += 2) {
      this.parameter(settings[i] as string, settings[i + 1] as string)
    }
    this.#isReady = true
    this.reopened()
    client._handleReady()
    // Requests that were refused during the login emit no other `drain`.
    if (client.hasExecuted) this.tellDrain()
  }

  cancel(): void {
    if (this.#link === undefined) return
    sendCancel(this.#link, this.connection, this.client)
  }

  astray(): void {
    this.client._queryable = false
    this.#link?.terminate()
  }

  forgotten(statement: number): void {
    this.columns.forget(statement)
  }

  closed(why: number, _isFinal: boolean, start: number, end: number): void {
    if (this.#isGone) return
    const client = this.client
    // Terminate has been written to the socket by then.
    if (why === Close.HOST) return void setImmediate(() => this.connection.end())
    if (why === Close.SERVER) {
      const error = databaseError(start, end)
      client._queryable = false
      if (!this.#isReady || this.#pending === 0) client._handleErrorEvent(error)
      else {
        this.#lastWords = error
        this.#isClosingGracefully = true
      }
    } else {
      this.#why = this.#fault(why, reason(why, start, end))
      client._handleErrorEvent(this.#why)
    }
    // The server sends nothing more, so its close is not awaited.
    this.connection.stream.destroy()
  }

  /** The error of a connection that the engine ended, with pg's text if it has one. */
  #fault(why: number, text: string): Error {
    const strange = strangeMessage(Buffer.concat(this.#greeting))
    if (strange !== undefined) {
      const { type, length } = strange
      const message = `received invalid response: ${type.toString(16)}`
      const error = new DatabaseError(message, length, 'error')
      hide(error, 'cause', new Error(text))
      return error
    }
    const isTold = why === Close.LOGIN || why === Close.VIOLATION
    return new Error(isTold ? pgText(text) : `Connection terminated: ${text}`)
  }
}

function emitDrain(client: Life): void {
  client.emit('drain')
}

const STATUS: { readonly [code: number]: string } = { 0x49: 'I', 0x54: 'T', 0x45: 'E' }

/** Events that are no answers. */
const HEARD = ['notification', 'notice']

/** The most bytes of a login that are kept. */
const GREETING_MAX = 64 << 10
