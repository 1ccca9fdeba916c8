import type { Parameter } from '../engine/link'
import type { Request } from './request'
import type { Turn } from './submittable'

/** The arguments of a request's submission. */
export interface Call {
  request: Request | Turn
  flags: number
  text: string
  name: string
  parameters: readonly Parameter[]
  /** In milliseconds; 0 for none. */
  timeout: number
}

/** A request that waits for the login, or behind a lent connection. */
export class Waiting {
  readonly call: Call
  readonly #since = performance.now()
  readonly #timer: NodeJS.Timeout | undefined

  constructor(queue: { readonly waiting: Waiting[] }, call: Call) {
    this.call = call
    if (call.timeout > 0) {
      this.#timer = setTimeout(() => {
        queue.waiting.splice(queue.waiting.indexOf(this), 1)
        call.request.fail(new Error('Query read timeout'), 'NotSent')
      }, call.timeout)
    }
  }

  /** Makes one of a query that runs itself, which has its own timer. */
  static turn(queue: { readonly waiting: Waiting[] }, request: Turn): Waiting {
    return new Waiting(queue, { request, flags: 0, text: '', name: '', parameters: [], timeout: 0 })
  }

  /** Ends the wait. Returns the milliseconds that are left of its timeout. */
  stop(): number {
    clearTimeout(this.#timer)
    const { timeout } = this.call
    return timeout > 0 ? Math.max(1, timeout - (performance.now() - this.#since)) : 0
  }
}
