import { heed, heedNoMore } from '../engine/signal'
import type { Request } from './request'

/** The error of a query whose signal was aborted. */
export class AbortError extends Error {
  override readonly name = 'AbortError'
  readonly code = 'ABORT_ERR'

  constructor(cause: unknown) {
    super('The operation was aborted', { cause })
  }
}

/** Ends a request early when its signal is aborted. */
export class Abort {
  readonly #signal: AbortSignal
  readonly #request: Request
  readonly #cancel: (request: Request) => void

  constructor(signal: AbortSignal, request: Request, cancel: (request: Request) => void) {
    this.#signal = signal
    this.#request = request
    this.#cancel = cancel
    heed(signal, this)
  }

  handleEvent(): void {
    this.#cancel(this.#request)
  }

  /** The server was not asked to cancel it, or has not answered: the caller waits no longer. */
  notPossible(): void {
    this.#request.fail(this.error(), 'Unknown')
  }

  forget(): void {
    heedNoMore(this.#signal, this)
  }

  error(cause: unknown = this.#signal.reason): AbortError {
    return new AbortError(cause)
  }

  /**
   * Replaces the server's error by an AbortError, if the server cancelled the query for the signal.
   */
  explain(error: unknown): unknown {
    const code = (error as { code?: unknown } | null)?.code
    return this.#signal.aborted && code === QUERY_CANCELED ? this.error(error) : error
  }
}

const QUERY_CANCELED = '57014'
