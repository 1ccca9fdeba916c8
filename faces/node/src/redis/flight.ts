import { OUTCOMES, type Outcome } from '../engine/choices'
import { Unanswered } from '../engine/exports'
import { memory } from '../engine/memory'
import { Atomic } from './atomic'
import { Call } from './call'
import { RedisError } from './error'
import { bare, begin, isError, position, skip } from './reply'

/** The owner of a flight, which tells the router how it ended. */
export interface Tower {
  /** The length of a flight's command. Unless `at` is 0, the command is written there. */
  encode(flight: number, at: number): number
  /**
   * The reply arrived, or all replies to a list. Returns true if it is the answer to the command,
   * so that the flight answers it directly.
   */
  replied(flight: Flight, start: number, len: number, isList: boolean): boolean
  /** No reply will come. `why` is one of `Unanswered`. */
  unanswered(flight: Flight, why: number, outcome: number, error: RedisError | undefined): void
}

/** A command of a cluster, or a part of one, that was sent to a node. */
export class Flight extends Call {
  /** The token of its command. */
  readonly token: number
  readonly number: number
  readonly #tower: Tower
  readonly #body: Call
  readonly #isAsking: boolean
  #hasLanded = false
  /** The replies to a list so far. Only errors are kept as they are. */
  #replies: Buffer[] = NONE

  constructor(tower: Tower, token: number, number: number, body: Call, isAsking: boolean) {
    super(body.spec, body.args, HOW, undefined, nothing, nothing, body.script)
    this.token = token
    this.number = number
    this.deadline = body.deadline
    this.leaves = body.leaves
    this.#tower = tower
    this.#body = body
    this.#isAsking = isAsking
  }

  override get settled(): boolean {
    return this.#hasLanded
  }

  override get replies(): number {
    return this.#body.replies
  }

  override get body(): Call {
    return this.#body
  }

  override get isConfirmed(): boolean {
    return this.#body.isConfirmed
  }

  override get isAsking(): boolean {
    return this.#isAsking
  }

  override mayRepeat(): boolean {
    return false
  }

  override size(): number {
    const isItsOwn = this.script !== undefined || this.#body instanceof Atomic
    return isItsOwn ? this.#body.size() : this.#tower.encode(this.number, 0)
  }

  override write(at: number): number {
    if (this.#body instanceof Atomic) return this.#body.write(at)
    return at + this.#tower.encode(this.number, at)
  }

  override take(): void {
    const start = bare(position())
    const end = skip(start)
    this.replied = true
    if (!this.#hasLanded) {
      if (this.#body instanceof Atomic) this.#takeOfList(this.#body, start, end)
      else this.#takeWhole(start, end)
    }
    begin(end)
  }

  #takeWhole(start: number, end: number): void {
    // A node that becomes a replica answers blocked commands so, and closes the connection.
    if (isError(start) && memory.text(start + 1, start + 10) === 'UNBLOCKED') this.replied = false
    this.#land()
    if (!this.#tower.replied(this, start, end - start, false)) return
    begin(start)
    answer(this.#body)
  }

  #takeOfList(list: Atomic, start: number, end: number): void {
    const reply = memory.bytes.subarray(start, end)
    if (this.#replies === NONE) this.#replies = []
    this.#replies.push(isError(start) ? Buffer.from(reply) : GOOD)
    if (this.#replies.length < list.replies) {
      begin(start)
      return list.take()
    }
    const all = Buffer.concat(this.#replies)
    this.#land()
    const isFinal = memory.lend(all, (at) => this.#tower.replied(this, at, all.byteLength, true))
    if (!isFinal) return list.reset()
    begin(start)
    answer(list)
  }

  /** Ends the flight. Its connection is given back before anything else is told. */
  #land(): void {
    this.#hasLanded = true
    this.done?.(this.replied)
  }

  #unanswered(why: number, outcome: Outcome, error: RedisError | undefined): void {
    if (this.#hasLanded) return
    this.#land()
    this.#tower.unanswered(this, why, OUTCOMES.indexOf(outcome), error)
    if (this.#body instanceof Atomic) this.#body.reset()
  }

  override reject(error: RedisError): void {
    this.#unanswered(Unanswered.LOST, error.outcome, error)
  }

  override expire(outcome: Outcome): void {
    this.#unanswered(Unanswered.EXPIRED, outcome, undefined)
  }

  /** Its caller gives it up: it is withdrawn if no byte of it was sent. */
  giveUp(): void {
    if (this.takeBack?.() === true) this.#unanswered(Unanswered.TAKEN_BACK, 'NotSent', undefined)
  }

  /** Nobody waits for it any more: the connection that it has to itself is closed. */
  abandon(): void {
    this.replied = false
    this.#unanswered(Unanswered.LOST, 'Unknown', undefined)
  }
}

/** Reads the next reply as that of this call. */
export function answer(call: Call): void {
  try {
    call.take()
  } catch (cause) {
    call.spoil(cause)
  }
}

const NONE: Buffer[] = []
const GOOD = Buffer.from('+OK\r\n')
const HOW = { bytes: false, repeatable: false, alone: false, timeout: 0, signal: undefined }
const nothing = (): void => {}
