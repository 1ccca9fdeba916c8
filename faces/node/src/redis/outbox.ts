import { RedisFlag, Refused } from '../engine/exports'
import { memory } from '../engine/memory'
import type { RedisLink } from '../engine/redis-link'
import { Atomic } from './atomic'
import { Batch, type FailureListener } from './batch'
import { Call } from './call'
import { Words, write } from './encode'
import { noMemory } from './ends'
import type { RedisError } from './error'
import { specOf } from './spec'

/** A request is submitted at this many bytes, since the window moves on by whole requests. */
const BATCH_BYTES = 64 * 1024

const ASKING = new Words('ASKING')
const EVAL = new Words('EVAL')
const EVALSHA = new Words('EVALSHA')

/**
 * Collects calls for the engine. Those of one turn of the event loop share requests, which are
 * written to the memory where the engine reads them.
 */
export class Outbox {
  /** Whether it takes calls. */
  isOpen = false
  /** The engine has no room for more. */
  isFull = false
  /** Replies that are still to come. */
  unanswered = 0
  readonly #link: RedisLink
  readonly #listener: FailureListener
  readonly #returned: (calls: readonly Call[]) => void
  #batch: Batch | undefined
  /** The start of the batch's room, the place of the next command, and the end of the room. */
  #start = 0
  #at = 0
  #limit = 0

  /** `returned`: the engine took no more, and no byte of these calls was sent. */
  constructor(link: RedisLink, listener: FailureListener, returned: (calls: readonly Call[]) => void) {
    this.#link = link
    this.#listener = listener
    this.#returned = returned
  }

  /**
   * Sends a call, behind those that were sent before. Returns false, and does not take the call, if
   * there is no room for it.
   */
  send(call: Call): boolean {
    if (this.isFull || !this.isOpen) return false
    try {
      if (call.isConfirmed) return this.#sendConfirmed(call)
      if (call.isAsking) return this.#sendAsking(call)
      if (call.body instanceof Atomic) return this.#sendAtomic(call)
      if (call.script !== undefined) return this.#sendScript(call)
      if (call.isAlone) return this.#sendAlone(call)
      return this.#sendWithOthers(call)
    } catch (error) {
      // The call can't be encoded, and nothing of it was submitted.
      call.reject(error as RedisError)
      return true
    }
  }

  #sendWithOthers(call: Call): boolean {
    const batch = this.#batchFor(call.size(), call)
    if (batch === undefined) return false
    memory.refresh()
    this.#at = call.write(this.#at)
    batch.calls.push(call)
    this.unanswered++
    return true
  }

  #batchFor(size: number, call: Call): Batch | undefined {
    let batch = this.#batch
    const fits = this.#at + size <= this.#limit
    if (batch !== undefined && fits && sameDeadline(batch.calls[0], call)) return batch
    if (batch !== undefined && !this.#flushed()) return undefined
    const room = Math.max(size, BATCH_BYTES)
    this.#start = this.#at = this.#room(room, call)
    this.#limit = this.#start + room
    batch = this.#batch = new Batch(this.#listener)
    this.#link.schedule()
    return batch
  }

  #room(size: number, call: Call): number {
    const room = this.#link.room(size)
    if (room === 0) throw noMemory(call.spec.name)
    return room
  }

  /** Submits the batch. Returns whether more may be sent. */
  #flushed(): boolean {
    this.flush()
    return this.isOpen && !this.isFull
  }

  /** Submits the batch. */
  flush(): void {
    const batch = this.#batch
    this.#batch = undefined
    const [first] = batch?.calls ?? []
    if (batch === undefined || first === undefined) return
    const { calls } = batch
    const len = this.#at - this.#start
    const place = this.#link.submit(batch, 0, calls.length, 0, len, first.timeLeft)
    if (place >= 0) return
    this.#refused(place, calls.length)
    if (place !== Refused.NO_MEMORY) return this.#returned(calls)
    for (const call of calls) call.fail(noMemory(call.spec.name), 'NotSent')
  }

  #refused(why: number, replies: number): void {
    this.unanswered -= replies
    if (why === Refused.FULL) this.isFull = true
    else if (why !== Refused.NO_MEMORY) this.isOpen = false
  }

  // --- calls with a request of their own ---

  /** Sends a call that its signal may withdraw. */
  #sendAlone(call: Call): boolean {
    if (!this.#flushed()) return false
    const room = this.#room(call.size(), call)
    const end = call.write(room)
    return this.#submit(call, call.leaves ? RedisFlag.LEAVES : 0, 0, 0, end - room)
  }

  #sendConfirmed(call: Call): boolean {
    if (!this.#flushed()) return false
    const room = this.#room(call.size(), call)
    const end = call.write(room)
    return this.#submit(call, RedisFlag.CONFIRMED, call.replies, 0, end - room)
  }

  /** Hands a script to the engine with its text and its hash. The engine chooses which is sent. */
  #sendScript(call: Call): boolean {
    const { script } = call
    if (script === undefined || !this.#flushed()) return false
    call.leaves = true
    const room = this.#room(2 * call.size(), call)
    const textLen = memory.writeText(script.text, room)
    const end = write(room + textLen, EVALSHA, [script.sha, ...call.args])
    return this.#submit(call, RedisFlag.LEAVES, 0, textLen, end - room)
  }

  /** Sends an atomic list: all of it is submitted, or nothing. */
  #sendAtomic(call: Call): boolean {
    if (!this.#flushed()) return false
    const room = this.#room(call.size(), call)
    const end = call.write(room)
    return this.#submit(call, RedisFlag.ATOMIC, call.replies, 0, end - room)
  }

  /**
   * Sends a call behind ASKING, in the same request. A script goes as a text, since the engine does
   * not load it there.
   */
  #sendAsking(call: Call): boolean {
    if (!this.#flushed()) return false
    const room = this.#room(call.size() + 64, call)
    let end = write(room, ASKING, [])
    const flags = call.body instanceof Atomic ? RedisFlag.ATOMIC : 0
    if (call.script === undefined) end = call.write(end)
    else end = write(end, EVAL, [call.script.text, ...call.args])
    const asked = new Call(specOf('ASKING'), [], call.how, undefined, nothing, nothing)
    return this.#submit(call, flags, call.replies + 1, 0, end - room, asked)
  }

  /** Submits the request of one call. Its batch lists the call once for each reply. */
  #submit(
    call: Call,
    flags: number,
    replies: number,
    textLen: number,
    len: number,
    first?: Call,
  ): boolean {
    const batch = new Batch(this.#listener)
    if (first !== undefined) batch.calls.push(first)
    for (let i = 0; i < call.replies; i++) batch.calls.push(call)
    const { length } = batch.calls
    this.unanswered += length
    const place = this.#link.submit(batch, flags, replies, textLen, len, call.timeLeft)
    if (place < 0) {
      this.#refused(place, length)
      if (place === Refused.NO_MEMORY) throw noMemory(call.spec.name)
      return false
    }
    call.takeBack = place > 0 ? () => this.#link.takeBack(place) : undefined
    return true
  }
}

const nothing = (): void => {}

function sameDeadline(one: Call | undefined, other: Call): boolean {
  // The deadlines of calls of one turn differ by microseconds.
  return (
    one === undefined ||
    one.deadline === other.deadline ||
    Math.abs(one.deadline - other.deadline) < 1
  )
}
