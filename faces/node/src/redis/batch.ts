import { OUTCOMES, type Outcome } from '../engine/choices'
import { End } from '../engine/exports'
import type { RedisReceiver } from '../engine/redis-link'
import type { Call } from './call'
import { RedisError } from './error'
import { begin, position, skip } from './reply'

/** Is told of calls that were answered, and of calls that ended without a reply. */
export interface FailureListener {
  /** Why the connection ended, if it did. */
  readonly reason: RedisError | undefined
  /** A call has no reply. The listener sends it again or fails it. */
  lost(call: Call, outcome: Outcome, error: RedisError): void
  /** Calls were answered. */
  answered(count: number): void
}

/**
 * Calls that share one request of the engine: those of one turn of the event loop. Each has a reply
 * of its own, which may be an error.
 */
export class Batch implements RedisReceiver {
  readonly calls: Call[] = []
  readonly #listener: FailureListener
  #next = 0

  constructor(listener: FailureListener) {
    this.#listener = listener
  }

  received(start: number, end: number): void {
    const { calls } = this
    const first = this.#next
    begin(start)
    while (position() < end) {
      const call = calls[this.#next++]
      if (call === undefined) break
      const before = position()
      try {
        call.take()
      } catch (cause) {
        begin(skip(before))
        call.spoil(cause)
      }
    }
    this.#listener.answered(this.#next - first)
  }

  ended(how: number, outcome: number, start: number, end: number): void {
    // If the request is a single command, an error is the reply to that command.
    if ((how === End.COMPLETE || how === End.SERVER) && end > start) this.received(start, end)
    const { calls } = this
    if (this.#next >= calls.length) return
    const known = OUTCOMES[outcome] ?? 'Unknown'
    this.#listener.answered(calls.length - this.#next)
    for (; this.#next < calls.length; this.#next++)
      this.#lost(calls[this.#next] as Call, how, known)
  }

  #lost(call: Call, how: number, outcome: Outcome): void {
    if (call.settled) return
    if (how === End.DEADLINE) return call.expire(outcome)
    this.#listener.lost(call, outcome, this.#listener.reason ?? ENDED)
  }
}

const ENDED = new RedisError('the connection ended', 'connection_lost', 'Unknown')
