import { heed, heedNoMore } from '../engine/signal'
import { PostgresError } from './error'
import type { Statement } from './statement'

/** Ends a statement early: at its deadline, or when its signal is aborted. */
export class Watch {
  timeoutMs = 0
  signal: AbortSignal | undefined
  /** Whether the server is asked to cancel a late statement. */
  cancelsLate = true
  /** Its deadline is that of the settings, and it has no signal. */
  isDefault = false
  #statement: Statement | undefined
  #timer: NodeJS.Timeout | undefined
  #deadline = Infinity

  start(statement: Statement): void {
    const { signal, timeoutMs } = this
    this.#statement = statement
    if (signal?.aborted) return this.handleEvent()
    if (signal !== undefined) heed(signal, this)
    if (timeoutMs <= 0) return
    this.#deadline = performance.now() + timeoutMs
    this.#timer = setTimeout(() => this.late(), timeoutMs)
  }

  /** Milliseconds until the deadline. */
  get left(): number {
    return this.#deadline - performance.now()
  }

  /** The signal was aborted. */
  handleEvent(): void {
    const reason: unknown = this.signal?.reason
    const error = new PostgresError(
      'ABORT_ERR',
      'Unknown',
      'the statement was aborted by its signal',
      reason,
    )
    Object.defineProperty(error, 'name', { value: 'AbortError', configurable: true })
    this.#statement?.abandon(error, false, true)
  }

  /** The deadline has passed. */
  late(): void {
    const message = `the statement was not answered within ${this.timeoutMs} ms`
    this.#statement?.abandon(
      new PostgresError('timeout', 'Unknown', message),
      true,
      this.cancelsLate,
    )
  }

  stop(): void {
    clearTimeout(this.#timer)
    if (this.signal !== undefined) heedNoMore(this.signal, this)
  }
}
