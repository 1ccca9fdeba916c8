import type { Parameter } from '../engine/link'
import type { Request } from './request'

/** A request as it is submitted. */
export interface Call {
  request: Request
  flags: number
  text: string
  name: string
  parameters: readonly Parameter[]
  /** Milliseconds; 0 for none. */
  timeout: number
}

/** A request that waits for the login. */
export class Waiting {
  readonly call: Call
  readonly #since = performance.now()
  readonly #timer: NodeJS.Timeout | undefined

  constructor(queue: { readonly waiting: Waiting[] }, call: Call) {
    this.call = call
    if (call.timeout > 0) {
      this.#timer = setTimeout(() => {
        queue.waiting.splice(queue.waiting.indexOf(this), 1)
        call.request.abort?.forget()
        call.request.fail(new Error('Query read timeout'), 'NotSent')
      }, call.timeout)
    }
  }

  /** It waits no more. Returns what is left of its time. */
  stop(): number {
    clearTimeout(this.#timer)
    const { timeout } = this.call
    return timeout > 0 ? Math.max(1, timeout - (performance.now() - this.#since)) : 0
  }
}
