import { Act, CopyPart, Holder, type Rest } from '../engine/choices'
import { Close, ConnectFault } from '../engine/exports'
import type { Lineage } from '../engine/lineage'
import { Link, type Owner, type Parameters, type Reader, type Receiver } from '../engine/link'
import { UNTOLD } from '../engine/text-key'
import { reason } from '../engine/memory'
import { sendCancel } from '../pg/cancel'
import { ColumnsCache } from '../pg/columns'
import type { Connection as Transport } from '../pg/connect'
import { notice } from '../pg/report'
import { readNotification } from '../pg/messages'
import type { Endpoint, Settings } from './config'
import { PostgresError } from './error'
import { serverError } from './failure'
import { closedBy, isFinalRefusal, LOST, lost } from './loss'
import { Occupants } from './occupants'
import { Opening, type Reached } from './opening'
import { guarded } from './guarded'
import type { Host } from './host'
import type { Values } from './types'

/** What the engine answers of a transaction whose connection has ended. */
const ACTS_OF_LEVELS: ReadonlySet<Act> = new Set([
  Act.SAVEPOINT,
  Act.RELEASE,
  Act.UNDO,
  Act.HAS_LEFT,
])

/** One connection to the server: the engine's link and the socket below it. */
export class Connection implements Owner, Reached {
  readonly columns = new ColumnsCache()
  readonly values: Values
  readonly resultBytesMax: number
  /** The streams and COPYs of whoever has the connection to himself. */
  readonly occupants = new Occupants()
  /** Its number in the pool; 0 outside of one. */
  number = 0
  /** No caller has the connection to itself. */
  isShared = true
  /** Requests that were submitted and have not ended. */
  pending = 0
  /** Those of them that are no caller's. */
  questions = 0
  /** The error of requests that end because the connection ends. */
  why: PostgresError = LOST
  processId = 0
  /** The engine ended the connection because of a request on it, which must not be sent again. */
  isMisused = false
  /** Counts what its caller and the server do. */
  moves = 0
  /** The server waits for more of a COPY. */
  #isFed = false
  /** The reader of a stream takes nothing. */
  #isPaused = false
  readonly #settings: Settings
  readonly #lineage: Lineage
  readonly #host: Host
  readonly #opening: Opening
  #endpoint: Endpoint = { host: '', port: 0 }
  #transport: Transport | undefined
  #link: Link | undefined
  #isReady = false
  #isOver = false
  /** Its socket has gone. */
  #isGone = false
  #whenIdle: (() => void)[] = []
  #leaving: (() => void) | undefined

  /** `lineage`: what its client has seen of servers. `scouts`: it looks for another primary. */
  constructor(settings: Settings, lineage: Lineage, host: Host, scouts = false) {
    this.#settings = settings
    this.#lineage = lineage
    this.#host = host
    this.values = settings.values
    this.resultBytesMax = settings.number('result_bytes_max') || Infinity
    this.#opening = new Opening(settings, lineage, this, scouts)
  }

  /** The address of its link in the module. */
  get address(): number {
    return this.#link?.address ?? 0
  }

  get isOver(): boolean {
    return this.#isOver
  }

  // --- requests ---

  /**
   * Submits a request. Its receiver must call `ended` of this connection when it has ended. Returns
   * a negative number if the request was refused.
   */
  submit(
    receiver: Receiver,
    flags: number,
    text: string,
    parameters: Parameters,
    key = UNTOLD,
  ): number {
    this.moves++
    this.leaving()
    const link = this.#link
    if (link === undefined || this.#isOver) return CLOSED
    const place = link.submit(receiver, flags, text, '', parameters, 0, key)
    if (place >= 0) this.#began()
    return place
  }

  /** Submits a read on a connection to a replica. */
  submitRead(
    receiver: Receiver,
    read: Reader,
    text: string,
    parameters: Parameters,
    key: number,
  ): number {
    const link = this.#link
    if (link === undefined || this.#isOver) return CLOSED
    const place = link.submit(receiver, 0, text, '', parameters, 0, key, read)
    if (place >= 0) this.#began()
    return place
  }

  /** Undoes a segment of members whose rest can't be submitted, at its end. */
  failSegment(): void {
    this.#link?.failSegment()
  }

  /** Ends a segment of members. */
  sync(receiver: Receiver): number {
    if (this.#link === undefined || this.#isOver) return CLOSED
    const place = this.#link.sync(receiver)
    if (place >= 0) this.#began()
    return place
  }

  /**
   * Begins a transaction (see `Link.begin`). `leaving` submits the statement that it holds back.
   */
  begin(modes: number, leaving: () => void): void {
    this.#link?.begin(modes)
    this.#leaving = leaving
  }

  /** Has `leaving` called at the end of this turn, for a statement that is held back. */
  hold(): void {
    if (this.#link === undefined || this.#isOver) this.leaving()
    else this.#link.schedule()
  }

  leaving(): void {
    this.#leaving?.()
  }

  /** Acts on the transaction (see `Link.act`). With a receiver it is a request, which ends. */
  act(act: Act, subject: Receiver | number = 0): number {
    this.moves++
    this.leaving()
    if (act === Act.FORGET) {
      this.#leaving = undefined
      if (this.#isGone) this.#drop()
    }
    const answers = !this.#isOver || ACTS_OF_LEVELS.has(act)
    if (this.#link === undefined || !answers) return CLOSED
    const said = this.#link.act(act, subject)
    if (said >= 0 && typeof subject !== 'number') this.#began()
    return said
  }

  /** Submits a COPY FROM STDIN with the first of its data, as `submit` does. */
  submitCopy(receiver: Receiver, text: string, data: Uint8Array): number {
    this.leaving()
    if (this.#link === undefined || this.#isOver) return CLOSED
    const place = this.#link.submitCopy(receiver, text, data)
    this.moves++
    this.#isFed = place >= 0
    if (place >= 0) this.#began()
    return place
  }

  /** Hands over more data of a COPY (see `Link.feed`). */
  feed(receiver: Receiver, part: CopyPart, data: Uint8Array): number {
    this.moves++
    const fed = this.#link?.feed(receiver, part, data) ?? CLOSED
    if (part !== CopyPart.DATA && fed > 0) this.#isFed = false
    return fed
  }

  /** The reader of a stream has taken this many bytes. */
  taken(bytes: number): void {
    this.#link?.taken(bytes)
  }

  /** The reader of a stream takes no more. */
  leave(receiver: Receiver, rest: Rest): void {
    this.#link?.leave(receiver, rest)
  }

  #began(): void {
    // A request that waits for its answer keeps the process alive.
    if (this.pending++ === 0) this.#transport?.ref()
  }

  /** A request has ended. */
  ended(): void {
    if (--this.pending > 0) return
    this.#isFed = false
    if (this.isShared) this.#transport?.unref()
    this.#tellIdle()
  }

  /** Resolves when all submitted requests have ended. */
  whenIdle(): Promise<void> {
    return this.pending === 0
      ? Promise.resolve()
      : new Promise((resolve) => this.#whenIdle.push(resolve))
  }

  #tellIdle(): void {
    if (this.pending > 0) return
    for (const tell of this.#whenIdle.splice(0)) tell()
  }

  /** Whether one caller has the connection, and nothing happens before the caller goes on. */
  get isUpToCaller(): boolean {
    return !this.isShared && (this.pending === 0 || this.#isPaused || this.#isFed)
  }

  takeBack(place: number): boolean {
    return this.#link?.takeBack(place) ?? false
  }

  wantCancel(receiver: Receiver): void {
    this.#link?.wantCancel(receiver)
  }

  letRun(receiver: Receiver): void {
    this.#link?.letRun(receiver)
  }

  /** Requests that wait to be sent. */
  get queued(): number {
    return this.#link?.queued ?? 0
  }

  // --- its holder ---

  /** Gives the connection to one caller alone. */
  lend(): void {
    this.isShared = false
    this.#link?.hold(Holder.ONE)
    this.ref()
  }

  /** Shares the connection among all callers again. Returns whether its session needs a reset. */
  share(): boolean {
    const owes = !this.isShared && this.#link?.hold(Holder.NOBODY) === true
    this.isShared = true
    this.#link?.hold(Holder.ALL)
    this.unref()
    return owes
  }

  /** Sends the reset that is owed now, and not with the next request. */
  reset(): void {
    if (!this.#isOver) this.#link?.reset()
  }

  ref(): void {
    this.#transport?.ref()
  }

  unref(): void {
    if (this.pending === 0) this.#transport?.unref()
  }

  /** Takes no more requests, and closes the connection when all are answered. */
  terminate(): void {
    this.ref()
    if (this.#link === undefined || !this.#isReady) this.destroy(this.why)
    else this.#link.terminate()
  }

  destroy(why: PostgresError): void {
    if (this.#isOver) return
    this.why = why
    if (this.#isReady) this.#tell(false)
    this.#opening.stop()
  }

  // --- the transport ---

  reached(transport: Transport, endpoint: Endpoint, secure: boolean): void {
    this.#transport = transport
    this.#endpoint = endpoint
    this.#settings.password(endpoint).then(
      (password) => this.#logIn(transport, password, secure),
      (error: Error) => this.#fail(transport, 'password', error),
    )
  }

  /** A login failed; another attempt may follow. */
  left(): void {
    const link = this.#link
    this.#link = this.#transport = undefined
    this.#free(link)
  }

  #free(link: Link | undefined): void {
    if (link === undefined) return
    this.#lineage.left(link)
    setImmediate(() => link.free())
  }

  #logIn(transport: Transport, password: string | undefined, secure: boolean): void {
    if (this.#isOver || this.#transport !== transport) return
    try {
      const { stream } = transport
      const { address, host } = this.#endpoint
      const settings = this.#settings.ofEngine(password, address ?? host, secure, stream)
      this.#link = new Link(stream, settings, this)
    } catch (error) {
      this.#fail(transport, 'config', error as Error)
    }
  }

  /** The login can't be sent, for a reason of this side. */
  #fail(transport: Transport, code: string, cause: Error): void {
    if (this.#transport !== transport) return
    this.#opening.fail(new PostgresError(code, 'NotSent', cause.message, cause), ConnectFault.OURS)
  }

  received(chunk: Buffer): void {
    this.moves++
    this.#link?.receive(chunk)
    this.#host.answered(this)
  }

  /** The reader of a reply found it malformed: the connection ends. */
  violated(): void {
    this.#link?.violated()
  }

  unreachable(why: PostgresError, permanent: boolean): void {
    if (this.why === LOST) this.why = why
    this.#over(permanent)
  }

  gone(error: Error | undefined): void {
    if (this.why === LOST && error !== undefined) this.why = lost(error.message, error)
    this.#over(false)
  }

  #over(permanent: boolean): void {
    if (this.#isGone) return
    const link = this.#link
    this.#tell(permanent)
    link?.peerClosed()
    this.#isGone = true
    // Its transaction goes on asking what of it was sent.
    if (this.#leaving === undefined) this.#drop()
  }

  #drop(): void {
    this.#free(this.#link)
    setImmediate(() => (this.#link = undefined))
  }

  /** Tells the pool before the requests, so that none is sent again on this connection. */
  #tell(permanent: boolean): void {
    if (this.#isOver) return
    this.#isOver = true
    // A statement that is held back is refused now: no turn of the link will submit it.
    this.leaving()
    this.#host.gone(this, permanent)
    this.#tellIdle()
  }

  // --- events that belong to no request ---

  ready(process: number): void {
    this.processId = process
    if (this.#link !== undefined && this.#opening.loggedIn(this.#link)) this.#opened()
  }

  identified(): void {
    const link = this.#link
    if (link === undefined) return
    const isFit = this.#opening.identified(link)
    // One that is refused may teach something, too.
    this.#lineage.met(link)
    if (isFit) this.#opened()
  }

  #opened(): void {
    this.#isReady = true
    this.#transport?.unref()
    this.#host.opened(this)
  }

  notice(start: number, end: number): void {
    const { onNotice } = this.#settings
    if (onNotice === undefined) return
    const { severity, code, message, detail, hint } = notice(start, end)
    guarded(() => onNotice({ severity, code, message: message ?? '', detail, hint }))
  }

  notification(start: number, end: number): void {
    this.#host.notified?.(this, readNotification(start, end))
  }

  uncertain(what: number): void {
    this.#host.uncertain?.(what)
  }

  positioned(mark: number, start: number, end: number): void {
    this.#host.positioned?.(mark, start, end)
  }

  parameterStatus(): void {}
  full(): void {}
  drained(): void {}

  /** While the socket is not read, the server stops sending. */
  read(goesOn: boolean): void {
    this.#isPaused = !goesOn
    if (goesOn) this.#transport?.stream.resume()
    else this.#transport?.stream.pause()
  }

  cancel(): void {
    if (!this.#link || !this.#transport) return
    sendCancel(this.#link, this.#transport, this.#endpoint)
  }

  astray(stays: boolean): void {
    this.#host.changed(this)
    if (!this.isShared && !stays) this.#link?.terminate()
  }

  heldUp(key: number, requests: number, millis: number): void {
    this.#host.heldUp?.(key, requests, millis)
  }

  forgotten(statement: number): void {
    this.columns.forget(statement)
  }

  closed(why: number, isFinal: boolean, start: number, end: number): void {
    if (this.#isOver || this.#link === undefined) return
    if (!this.#isReady) return this.#refused(why, isFinal, start, end)
    if (why === Close.HOST) {
      // Terminate has been written to the socket by then.
      setImmediate(() => this.#transport?.end())
      return
    }
    if (why === Close.SERVER) this.why = closedBy(serverError(start, end, 'Unknown'))
    else if (why === Close.REFUSED) this.why = lost(this.#opening.name + reason(why, start, end))
    else this.why = endedBy(why, reason(why, start, end))
    this.isMisused = why === Close.UNUSABLE
    this.#tell(false)
    this.#transport?.stream.destroy()
  }

  /** The login failed. `isFinal` behind a message of the server: it had taken the login before. */
  #refused(why: number, isFinal: boolean, start: number, end: number): void {
    if (why !== Close.SERVER) {
      return this.#opening.fail(endedBy(why, reason(why, start, end)), ConnectFault.SERVER, isFinal)
    }
    const fault = isFinal ? ConnectFault.SESSION : ConnectFault.LOG_IN
    this.#opening.fail(serverError(start, end, 'Unknown'), fault, isFinalRefusal(start, end))
  }
}

/** The error for a connection that the engine has ended. */
function endedBy(why: number, text: string): PostgresError {
  if (why === Close.LOGIN) return new PostgresError('login', 'NotSent', text)
  if (why === Close.VIOLATION) return new PostgresError('violation', 'Unknown', text)
  if (why === Close.UNUSABLE || why === Close.NOT_RESET)
    return new PostgresError('connection_lost', 'Unknown', text)
  if (why === Close.NO_MEMORY) return new PostgresError('no_memory', 'Unknown', text)
  return lost(text)
}

const CLOSED = -1
