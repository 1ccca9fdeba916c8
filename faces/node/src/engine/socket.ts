import { Socket, type OnReadOpts, type SocketConstructorOpts } from 'node:net'
import { Duplex } from 'node:stream'

type Received = (chunk: Buffer) => void

/**
 * A socket that hands bytes to one listener where they were read to, which is valid for the time of the call. With other
 * listeners, or for one who reads it as a stream, it is a socket like all: they get bytes of their own.
 *
 * Node makes a buffer of 64 KiB for each read otherwise, and cuts it to the length of what came: of a query that waits
 * for its answer alone that is a sixth of the work. (`onread` in the documentation of `net`.)
 */
export class InletSocket extends Socket {
  readonly #received: Received

  /** `received` is still to be added as a listener of `data`: it hears of nothing before. */
  constructor(received: Received) {
    const onread: OnReadOpts = { buffer: INLET, callback: (length) => this.#read(length) }
    // The declarations know of it elsewhere only.
    const options: SocketConstructorOpts & { onread: OnReadOpts } = { onread }
    super(options)
    this.#received = received
  }

  /**
   * With `onread` a socket would stop reading at once, and whoever then waits for `readable` would wait for ever. Others
   * stop when their buffer is full.
   */
  override pause(): this {
    return Duplex.prototype.pause.call(this) as this
  }

  #read(length: number): boolean {
    const chunk = INLET.subarray(0, length)
    if (!this.#isDirect) return this.push(Buffer.from(chunk))
    this.#received(chunk)
    return true
  }

  get #isDirect(): boolean {
    if (this.readableFlowing !== true || this.readableLength > 0) return false
    const listeners: unknown[] = this.listeners('data')
    return listeners.length === 1 && listeners[0] === this.#received
  }
}

/** What the sockets of this thread read to, one at a time. */
const INLET = Buffer.allocUnsafeSlow(64 << 10)
