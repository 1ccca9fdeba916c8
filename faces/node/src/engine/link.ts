import { randomBytes } from 'node:crypto'
import type { Duplex } from 'node:stream'

import { type Act, type CancelEnd, type CopyPart, type Holder, type Rest } from './choices'
import { End, Event, Flag, Kind, Refused } from './exports'
import type { Lineage } from './lineage'
import { memory } from './memory'
import { UNTOLD } from './text-key'
import { Wire } from './wire'

/**
 * The receiver of a reply. Addresses are valid only during the call: bytes that are kept must be
 * copied.
 */
export interface Receiver {
  /**
   * Whole messages arrived. `statement`: the statement whose columns the rows have, unless the
   * messages describe them; 0 for none.
   */
  received(start: number, end: number, statement: number): void
  /** The request is sent again: the messages so far are void. */
  restarted(): void
  /**
   * The request ended; called once. `how` is one of `End`. For `End.SERVER` the error lies from
   * `start` to `end`.
   */
  ended(how: number, outcome: number, start: number, end: number): void
  /**
   * Its connection ended before any byte of it was sent, and nothing ties it to that. Its parameters
   * lie from `start` to `end`, as they were submitted. Returns whether it goes on elsewhere; it is
   * then not told this end.
   */
  unsent?(start: number, end: number): boolean
  /** The server is not asked to cancel it, since that could hit others: it goes on. */
  notCancelled?(): void
  /** A COPY that took no more data takes data again. */
  feedable?(): void
  /** The guard in front of a read has ended: the `kind`, `a` and `b` of its completion. */
  guarded?(kind: number, a: number, b: number): void
}

/** Is told of events of a connection that belong to no request. */
export interface Owner {
  /** The server asks for the password: call `givePassword`. `how` is one of `PasswordRequest`. */
  password?(how: number): void
  /** The login is over. `settings`: names and values in turn. */
  ready(process: number, settings: string[]): void
  /** The server has answered `identify`. */
  identified?(): void
  /** Whether writes were acknowledged whose position is not known; told in front of their ends. */
  uncertain?(what: number): void
  /** The position of what was written is known. */
  positioned?(mark: number, start: number, end: number): void
  notice(start: number, end: number): void
  notification(start: number, end: number): void
  parameterStatus(start: number, end: number): void
  full(): void
  drained(): void
  /** The turn of the event loop ends: submit now what must leave in this turn's write. */
  leaving?(): void
  /** Whether to read the socket: not while the reader of a stream takes nothing. */
  read?(goesOn: boolean): void
  /** Send a cancel on a socket of its own: call `beginCancel`, then `cancelEnded`. */
  cancel(): void
  /**
   * Close the connection once it has answered all. `stays`: its server is not what is wanted any
   * more, and whoever has it to itself may go on.
   */
  astray(stays: boolean): void
  /** `requests` waited behind one whose text has this key, and which took `millis` milliseconds. */
  heldUp?(key: number, requests: number, millis: number): void
  /** The engine has forgotten this statement. */
  forgotten(statement: number): void
  /** The connection ended. `why` is one of `Close`. The ends of its requests follow. */
  closed(why: number, isFinal: boolean, start: number, end: number): void
}

/** A read: its number among those of a client, and the address of the client's replicas. */
export interface Reader {
  readonly number: number
  readonly replicas: number
}

/** An encoded parameter: text, bytes in binary form, or NULL. */
export type Parameter = string | Uint8Array | null

/** The parameters of a statement: one by one, or as the engine has them. */
export type Parameters = readonly Parameter[] | Uint8Array

/** One connection to PostgreSQL. */
export class Link extends Wire<Receiver> {
  readonly #owner: Owner

  /** Takes an open socket and the settings of `onetrip_postgres_new`. The login is sent at once. */
  constructor(socket: Duplex, settings: Iterable<readonly [string, string]>, owner: Owner) {
    super(socket, settings, (now, start, len) =>
      memory.lend(randomBytes(18), (nonce) =>
        memory.engine.onetrip_postgres_new(now, start, len, nonce),
      ),
    )
    this.#owner = owner
  }

  /**
   * Submits a statement whose text has this key (`text-key.ts`). `timeout` in milliseconds; 0 for
   * none. `by` submits a read to a replica. Returns its place in the queue, 0 if it was sent, or one
   * of `Refused`.
   */
  submit(
    receiver: Receiver,
    flags: number,
    text: string,
    name: string,
    parameters: Parameters,
    timeout: number,
    key: number,
    by?: Reader,
  ): number {
    const size = sizeOf(text, name, parameters)
    if (size > SIZE_MAX) return Refused.TOO_LONG
    const room = this.roomFor(size)
    if (room === 0) return this.noRoom
    const textLen = memory.writeText(text, room)
    const nameLen = name === '' ? 0 : memory.writeText(name, room + textLen)
    const end = writeParameters(parameters, room + textLen + nameLen)
    if (!this.isScheduled) this.time()
    const token = this.tokenOf(receiver)
    let place: number = Refused.CLOSED
    try {
      place =
        by === undefined
          ? this.engine.onetrip_postgres_submit(
              this.address,
              this.now,
              token,
              flags,
              textLen,
              nameLen,
              end - room,
              timeout,
              key,
            )
          : this.engine.onetrip_replicas_submit(
              by.replicas,
              by.number,
              this.address,
              this.now,
              token,
              flags,
              textLen,
              end - room,
              key,
            )
    } catch (error) {
      memory.failed(error)
    }
    if (place < 0) this.release(token)
    this.schedule()
    this.grew(end - room + FRAMES)
    return place
  }

  /** Submits a COPY FROM STDIN with the first of its data, as `submit` does. */
  submitCopy(receiver: Receiver, text: string, data: Uint8Array): number {
    const size = 3 * text.length + data.byteLength
    if (size > SIZE_MAX) return Refused.TOO_LONG
    const room = this.roomFor(size)
    if (room === 0) return this.noRoom
    const textLen = memory.writeText(text, room)
    memory.bytes.set(data, room + textLen)
    const token = this.tokenOf(receiver)
    const len = textLen + data.byteLength
    let place: number = Refused.CLOSED
    try {
      place = this.engine.onetrip_postgres_submit(
        this.address,
        this.time(),
        token,
        Flag.COPY_IN,
        textLen,
        0,
        len,
        0,
        UNTOLD,
      )
    } catch (error) {
      memory.failed(error)
    }
    if (place < 0) this.release(token)
    this.schedule()
    this.grew(len + FRAMES)
    return place
  }

  /**
   * Hands over more data of a COPY. Returns 1 if it was taken, 0 if it was not, or one of
   * `Refused`. After a 0, `feedable` is called when data is taken again, unless the COPY ends
   * before.
   */
  feed(receiver: Receiver, part: CopyPart, data: Uint8Array): number {
    const token = this.receivers.indexOf(receiver)
    if (this.isFree || token < 0) return 0
    const room = data.byteLength === 0 ? 0 : this.roomFor(data.byteLength)
    if (room === 0 && data.byteLength > 0) return this.noRoom
    memory.bytes.set(data, room)
    let taken: number = Refused.CLOSED
    try {
      const { engine, address } = this
      taken = engine.onetrip_postgres_feed(address, this.time(), token, part, data.byteLength)
    } catch (error) {
      memory.failed(error)
    }
    this.schedule()
    this.grew(data.byteLength + FRAMES)
    return taken
  }

  /** The reader of a stream has taken this many bytes. */
  taken(bytes: number): void {
    if (this.isFree) return
    this.engine.onetrip_postgres_taken(this.address, bytes)
    this.schedule()
  }

  /** The reader of a stream takes no more: its receiver is only told the end. */
  leave(receiver: Receiver, rest: Rest): void {
    const token = this.receivers.indexOf(receiver)
    if (this.isFree || token < 0) return
    this.engine.onetrip_postgres_leave(this.address, this.time(), token, rest)
    this.schedule()
  }

  protected override closed(why: number): void {
    this.#owner.closed(why, false, 0, 0)
  }

  /** Ends a segment of members. If a transaction `isOpening`, the end says whether it has begun. */
  sync(receiver: Receiver): number {
    const token = this.tokenOf(receiver)
    const place = this.engine.onetrip_postgres_sync(this.address, this.time(), token)
    if (place < 0) this.release(token)
    this.schedule()
    return place
  }

  /**
   * The rest of a segment of members can't be submitted: what was is undone, at the sync point that
   * follows.
   */
  failSegment(): void {
    if (!this.isFree) this.engine.onetrip_postgres_fail_segment(this.address, this.time())
  }

  /** Begins a transaction. BEGIN is sent with the first request, which belongs to it. */
  begin(modes: number): void {
    if (this.isFree) return
    this.engine.onetrip_postgres_begin(this.address, modes)
  }

  /**
   * Acts on the transaction (see `onetrip_postgres_act`). A receiver is told the end of the act.
   */
  act(act: Act, subject: Receiver | number): number {
    if (this.isFree) return Refused.CLOSED
    const token = typeof subject === 'number' ? subject : this.tokenOf(subject)
    const said = this.engine.onetrip_postgres_act(this.address, this.time(), act, token)
    if (said < 0 && typeof subject !== 'number') this.release(token)
    this.schedule()
    return said
  }

  protected override leaving(): void {
    this.#owner.leaving?.()
  }

  /** Answers `Owner.password`; undefined if there is no password. */
  givePassword(password: string | undefined): void {
    if (this.isFree) return
    const bytes = Buffer.from(password ?? '')
    const now = this.time()
    const given = password === undefined ? 0 : 1
    memory.lend(bytes, (start) => {
      this.engine.onetrip_postgres_password(this.address, now, given, start, bytes.length)
      memory.refresh()
      // The password must not stay in memory.
      memory.bytes.fill(0, start, start + bytes.length)
    })
    bytes.fill(0)
    this.walk()
    this.schedule()
  }

  /** Asks the server which it is: nothing else is sent until `Owner.identified` is called. */
  identify(): void {
    if (this.isFree) return
    this.engine.onetrip_postgres_identify(this.address)
    this.schedule()
  }

  /** Ends if its server is a former primary, by what was seen of others. */
  compare(lineage: Lineage): void {
    if (this.isFree || lineage.address === 0) return
    this.engine.onetrip_lineage_compare(lineage.address, this.address)
    this.walk()
  }

  /** Takes bytes that were read from the socket. */
  receive(chunk: Uint8Array): void {
    this.take(chunk)
    this.settle()
  }

  /** A reader found a reply malformed: the connection ends, and `Owner.closed` is called. */
  violated(): void {
    if (this.isFree) return
    this.engine.onetrip_postgres_violated(this.address)
    this.walk()
  }

  /** Whether a BEGIN is pending (held back, sent or refused) and its transaction is not over. */
  get isOpening(): boolean {
    return this.engine.onetrip_postgres_is_opening(this.address) !== 0
  }

  /**
   * Leaves a transaction: sends a BEGIN that is held back, and forgets a BEGIN that was refused.
   */
  flushBegin(): void {
    this.engine.onetrip_postgres_flush(this.address, this.time())
    this.schedule()
  }

  /** Whether nothing is in flight or unsent, and the next byte begins a message. */
  get isQuiet(): boolean {
    return this.inFlight === 0 && this.queued === 0 && !this.hasUnsent && this.isBetween
  }

  /** Whether the bytes so far end with a whole message. */
  get isBetween(): boolean {
    return this.isFree || this.engine.onetrip_is_between(this.address) !== 0
  }

  /**
   * Lends the socket of a quiet link to other code. The engine is told that a Sync was sent, which
   * was not, so it sends nothing more until `receive` is given an answer. Returns what `submit`
   * returns. If that is a place in the queue, nothing is lent: the Sync waits for a cancel, and
   * will be sent.
   */
  lend(receiver: Receiver): number {
    const place = this.sync(receiver)
    if (place !== 0) return place
    const { engine } = this
    engine.onetrip_written(this.address, this.now, engine.onetrip_transmit_len(this.address))
    return place
  }

  /** Nobody waits for a request that was sent, which goes on. */
  letRun(receiver: Receiver): void {
    const token = this.receivers.indexOf(receiver)
    if (!this.isFree && token >= 0) this.engine.onetrip_let_run(this.address, token)
  }

  /**
   * Wants a request that was sent to be cancelled at the server. `Owner.cancel` or
   * `Receiver.notCancelled` is called, or neither if the request ends before.
   */
  wantCancel(receiver: Receiver): void {
    const token = this.receivers.indexOf(receiver)
    if (this.isFree || token < 0) return
    this.engine.onetrip_want_cancel(this.address, this.time(), token)
    this.schedule()
  }

  /**
   * Returns the bytes of a cancel, once its socket is open; undefined if it must not be sent any
   * more.
   */
  beginCancel(): Buffer | undefined {
    if (this.isFree) return undefined
    const start = this.engine.onetrip_begin_cancel(this.address, this.time()) >>> 0
    memory.refresh()
    this.schedule()
    if (start === 0) return undefined
    return Buffer.from(memory.bytes.slice(start, start + memory.int32(start)))
  }

  /** Tells how a cancel ended that `Owner.cancel` asked for. */
  cancelEnded(end: CancelEnd): void {
    if (this.isFree) return
    this.engine.onetrip_cancel_ended(this.address, this.time(), end)
    this.schedule()
  }

  /**
   * Sets the holder of the session. Returns whether the session needs a reset, or is being reset.
   * The reset is sent in front of the next request, and nothing behind it runs unless it succeeds.
   */
  hold(holder: Holder): boolean {
    return !this.isFree && this.engine.onetrip_postgres_hold(this.address, holder) !== 0
  }

  /** Sends the reset that is owed now, and not with the next request. */
  reset(): void {
    if (this.isFree) return
    this.engine.onetrip_postgres_reset(this.address, this.time())
    this.schedule()
  }

  /** The last status of the transaction that the server reported: `I`, `T` or `E`. */
  get status(): string {
    return String.fromCharCode(this.engine.onetrip_postgres_status(this.address))
  }

  protected override completion(at: number): void {
    // The receiver of the previous record may have made the memory grow.
    memory.refresh()
    const { words } = memory
    const kind = words[at] as number
    const token = words[at + 1] as number
    const a = words[at + 2] as number
    const start = words[at + 5] as number
    const end = start + (words[at + 4] as number)
    const receiver = this.receivers[token]
    if (kind === Kind.DATA || kind === Kind.PIECE) {
      receiver?.received(start, end, a)
    } else if (kind === Kind.END) {
      const b = words[at + 3] as number
      const how = b & 0xff
      this.release(token)
      try {
        if (how <= End.PROVISIONAL && end > start) receiver?.received(start, end, a)
      } finally {
        receiver?.ended(how, b >>> 8, start, end)
      }
    } else if (kind === Kind.UNSENT) {
      if (receiver?.unsent?.(start, end) === true) this.receivers[token] = undefined
    } else if (kind === Kind.RESTARTED) {
      receiver?.restarted()
    } else if (kind === Kind.NOT_CANCELLED) {
      receiver?.notCancelled?.()
    } else if (kind === Kind.FEED) {
      receiver?.feedable?.()
    } else if (kind >= Kind.GUARD_PASSED && kind <= Kind.GUARD_FAILED) {
      receiver?.guarded?.(kind, a, words[at + 3] as number)
    } else if (kind === Kind.HELD_UP) {
      this.#owner.heldUp?.(token, a, words[at + 3] as number)
    } else {
      this.#tellOwner(kind, a, words[at + 3] as number, start, end)
    }
  }

  #tellOwner(kind: number, a: number, b: number, start: number, end: number): void {
    const owner = this.#owner
    if (kind === Kind.EVENT) {
      if (a === Event.NOTICE) owner.notice(start, end)
      else if (a === Event.NOTIFICATION) owner.notification(start, end)
      else owner.parameterStatus(start, end)
    } else if (kind === Kind.READY) {
      const settings = end > start ? memory.text(start, end - 1).split('\0') : []
      owner.ready(a, settings)
    } else if (kind === Kind.FULL) owner.full()
    else if (kind === Kind.DRAINED) owner.drained()
    else if (kind === Kind.READ) owner.read?.(a !== 0)
    else if (kind === Kind.CANCEL) owner.cancel()
    else if (kind === Kind.PASSWORD) owner.password?.(a)
    else if (kind === Kind.ASTRAY) owner.astray(a !== 0)
    else if (kind === Kind.IDENTIFIED) owner.identified?.()
    else if (kind === Kind.UNCERTAIN) owner.uncertain?.(a)
    else if (kind === Kind.POSITION) owner.positioned?.(b, start, end)
    else if (kind === Kind.FORGOTTEN) owner.forgotten(a)
    else if (kind === Kind.CLOSED) owner.closed(a, b !== 0, start, end)
  }
}

/** About the bytes of the fixed parts of a Bind, an Execute and a Sync, and of a name. */
const FRAMES = 50

/**
 * The most bytes that a request needs: UTF-8 takes at most three for each unit of UTF-16. The
 * length of bytes is read as `byteLength`, never as `length`, for the reason given in
 * redis/encode.ts.
 */
function sizeOf(text: string, name: string, parameters: Parameters): number {
  if (parameters instanceof Uint8Array) return 3 * (text.length + name.length) + parameters.byteLength
  let size = 3 * (text.length + name.length) + 6 * parameters.length + 4
  for (const parameter of parameters) {
    if (typeof parameter === 'string') size += 3 * parameter.length
    else if (parameter !== null) size += parameter.byteLength
  }
  return size > ROUGH_MAX ? exactSizeOf(text, name, parameters) : size
}

/** The exact number of bytes that a request needs. */
function exactSizeOf(text: string, name: string, parameters: readonly Parameter[]): number {
  let size = Buffer.byteLength(text) + Buffer.byteLength(name) + 6 * parameters.length + 4
  for (const parameter of parameters) {
    if (typeof parameter === 'string') size += Buffer.byteLength(parameter)
    else if (parameter !== null) size += parameter.byteLength
  }
  return size
}

/**
 * Above this size the exact number is computed, since memory that has grown is never given back.
 */
const ROUGH_MAX = 1 << 20

/** The longest message that PostgreSQL takes. */
const SIZE_MAX = 0x3fff_ffff

/** Writes the formats and the values of a Bind, and returns where they end. */
function writeParameters(parameters: Parameters, start: number): number {
  if (parameters instanceof Uint8Array) {
    memory.bytes.set(parameters, start)
    return start + parameters.byteLength
  }
  const { length } = parameters
  if (length === 0) return start
  let at = writeFormats(parameters, start)
  memory.bytes[at++] = length >>> 8
  memory.bytes[at++] = length
  for (const parameter of parameters) {
    if (parameter === null) {
      memory.putInt32(at, -1)
      at += 4
      continue
    }
    let len
    if (typeof parameter === 'string') {
      len = memory.writeText(parameter, at + 4)
    } else {
      len = parameter.byteLength
      memory.bytes.set(parameter, at + 4)
    }
    memory.putInt32(at, len)
    at += 4 + len
  }
  return at
}

/** Writes no formats if all parameters are text, otherwise one for each. */
function writeFormats(parameters: readonly Parameter[], start: number): number {
  const { bytes } = memory
  let at = start
  const binary = parameters.some(isBytes)
  const count = binary ? parameters.length : 0
  bytes[at++] = count >>> 8
  bytes[at++] = count
  for (let i = 0; i < count; i++) {
    bytes[at++] = 0
    bytes[at++] = isBytes(parameters[i] as Parameter) ? 1 : 0
  }
  return at
}

/** `instanceof` would miss the `Uint8Array` of another realm. */
function isBytes(parameter: Parameter): boolean {
  return typeof parameter === 'object' && parameter !== null
}
