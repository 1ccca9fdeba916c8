import { CancelEnd } from '../engine/exports'
import type { Link } from '../engine/link'
import type { Connection, Opener } from './connect'

/** How long a cancel may take to reach the server. */
const CANCEL_TIMEOUT_MS = 5000

/**
 * How long a query may run on after a cancel before it is cancelled again. A server forgets one that
 * comes before the query has begun.
 */
const PAUSES_MS = [100, 1000]

/** Where cancels go. */
export interface Address {
  readonly port: number
  readonly host: string
  /** Where the host is, if that is known. */
  readonly address?: string | undefined
}

/**
 * Asks the server to cancel what a link wants cancelled, on a connection of its own that is made in the same way; and
 * again, as long as it runs on. The engine puts nothing behind it meanwhile, so nothing else is hit.
 */
export class Cancel {
  readonly #link: Link
  readonly #via: Connection
  readonly #to: Address
  readonly #over: (cancel: Cancel) => void
  #message: Buffer | undefined
  #tries = 0
  /** One was sent, and nobody knows yet whether it arrived. */
  #isLost = false
  #isVoid = false
  #pause: NodeJS.Timeout | undefined

  /** `over`: no more cancels of it will come. */
  constructor(link: Link, via: Connection, to: Address, over: (cancel: Cancel) => void) {
    this.#link = link
    this.#via = via
    this.#to = to
    this.#over = over
  }

  start(): void {
    this.#send()
  }

  /** A reply has ended. */
  answered(): void {
    if (this.#pause !== undefined && this.#link.inFlight === 0) this.#end(CancelEnd.CLOSED)
  }

  #send(): void {
    this.#pause = undefined
    const connection = this.#via.sibling()
    if (connection === undefined) return this.#end(CancelEnd.NOT_SENT)
    const timer = setTimeout(() => connection.stream.destroy(), CANCEL_TIMEOUT_MS)
    const opener: Opener = {
      opened: () => {
        const message = this.#next()
        if (message === undefined) return void connection.stream.destroy()
        this.#isLost = true
        connection.stream.write(message)
        // The server closes its side when it has done what was asked.
        connection.stream.once('end', () => (this.#isLost = false))
      },
      received() {},
      failed() {},
      gone: () => {
        clearTimeout(timer)
        this.#gone()
      },
    }
    connection.open(this.#to.port, this.#to.host, opener, this.#to.address)
  }

  /** What is to be sent, unless there is nothing to cancel any more. */
  #next(): Buffer | undefined {
    if (this.#tries > 0) return this.#link.inFlight > 0 ? this.#message : undefined
    this.#message = this.#link.beginCancel()
    this.#isVoid = this.#message === undefined
    return this.#message
  }

  #gone(): void {
    // The engine does not wait for the end of it, then.
    if (this.#isVoid) return this.#over(this)
    if (this.#message === undefined) return this.#end(CancelEnd.NOT_SENT)
    if (this.#isLost) return this.#end(CancelEnd.LOST)
    const pause = PAUSES_MS[this.#tries++]
    if (pause === undefined || this.#link.inFlight === 0) return this.#end(CancelEnd.CLOSED)
    this.#pause = setTimeout(() => this.#send(), pause)
  }

  #end(end: CancelEnd): void {
    clearTimeout(this.#pause)
    this.#pause = undefined
    this.#over(this)
    this.#link.cancelEnded(end)
  }
}
