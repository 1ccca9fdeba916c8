import { heed, heedNoMore } from '../engine/signal'
import type { Request } from './request'

/** Why a query ended early that has a signal. */
export class AbortError extends Error {
  override readonly name = 'AbortError'
  readonly code = 'ABORT_ERR'

  constructor(cause: unknown) {
    super('The operation was aborted', { cause })
  }
}

/** Ends a request early when a signal says so. */
export class Abort {
  readonly #signal: AbortSignal
  readonly #request: Request
  readonly #cancel: (request: Request) => void
  #timer: NodeJS.Timeout | undefined

  constructor(signal: AbortSignal, request: Request, cancel: (request: Request) => void) {
    this.#signal = signal
    this.#request = request
    this.#cancel = cancel
    heed(signal, this)
  }

  handleEvent(): void {
    this.#timer = setTimeout(() => this.notPossible(), PATIENCE_MS)
    this.#cancel(this.#request)
  }

  /** The server goes on with it. Nobody waits for that; what came of it is not known here. */
  notPossible(): void {
    this.#request.fail(this.error(), 'Unknown')
  }

  forget(): void {
    clearTimeout(this.#timer)
    heedNoMore(this.#signal, this)
  }

  error(cause: unknown = this.#signal.reason): AbortError {
    return new AbortError(cause)
  }

  /** What is told in place of the error of a server that was asked to cancel. */
  explain(error: unknown): unknown {
    const code = (error as { code?: unknown } | null)?.code
    return this.#signal.aborted && code === QUERY_CANCELED ? this.error(error) : error
  }
}

/** How long who gave the signal waits for a server that was asked to cancel, some times. */
const PATIENCE_MS = 3000

const QUERY_CANCELED = '57014'
