import { EventEmitter } from 'node:events'
import { isIP, Socket } from 'node:net'
import { connect as connectTls, TLSSocket, type ConnectionOptions } from 'node:tls'

import { InletSocket } from '../engine/socket'
import * as wire from './wire-write'

/** How a transport is made: a part of a client's configuration. */
export interface TransportOptions {
  /** A socket that is not connected, or what makes one. */
  stream?: Socket | ((options: TransportOptions) => Socket) | undefined
  /** True, or the options of `tls.connect`. */
  ssl: boolean | ConnectionOptions
  /** `postgres`: the server is asked for TLS first. `direct`: TLS begins at once. */
  sslNegotiation: string
  /** Who decides whether TLS begins; otherwise it is what `ssl` says, or there is no connection. */
  guide?: Guide | undefined
  keepAlive: boolean
  keepAliveInitialDelayMillis: number
  encoding: string
}

/** What comes next on a socket that is connected. */
export const enum Step {
  /** It is used as it is. */
  OPEN,
  /** The server is asked for TLS. */
  ASK,
  /** TLS begins. */
  SECURE,
}

/** Who decides whether TLS begins. */
export interface Guide {
  connected(): Step
  /** What the server's answer leads to; undefined: the socket is closed. `early`: more has come. */
  answered(byte: number, early: boolean): Step | undefined
}

/** Who has a connection opened. `gone` is the last call, and comes once. */
export interface Opener {
  /** The transport is there, with TLS if there is to be TLS. */
  opened(): void
  /** Valid for the time of the call: what is to live longer is copied. */
  received(chunk: Buffer): void
  failed(error: Error): void
  gone(): void
}

/** Who has a connection for a time. */
export interface Lessee {
  /** This message is being sent. */
  sent(message: Buffer): void
  /** Whether its query failed. */
  readonly hasFailed: boolean
  /** Its time was over before the server had answered, which may never come. */
  readonly isLate: boolean
}

/**
 * The way to a server: a socket, and TLS on it.
 *
 * Emits `connect`, `sslconnect`, `end`, and what the server says: under the names of its messages,
 * and all of it as `message`.
 *
 * A query that runs itself (a `Submittable`) has the connection to itself for a time, and speaks the protocol by the
 * methods that send messages.
 */
export class Connection extends EventEmitter {
  /** The socket; from the handshake on that of TLS. */
  stream: Socket
  readonly ssl: boolean | ConnectionOptions
  readonly sslNegotiation: string
  /** Texts of statements that were prepared under names, by name. */
  parsedStatements: { [name: string]: string } = Object.create(null) as { [name: string]: string }
  /** The same, of those that the server has not answered yet. */
  submittedNamedStatements: { [name: string]: string } = Object.create(null) as {
    [name: string]: string
  }
  _connecting = false
  _ending = false
  #lessee: Lessee | undefined
  #isCorked = false
  #isHeard = false
  readonly #onData = (chunk: Buffer): void => this.#opener?.received(chunk)
  readonly #options: TransportOptions
  #opener: Opener | undefined

  constructor(given: Partial<TransportOptions> = {}) {
    super()
    const options: TransportOptions = { ...DEFAULTS, ...given }
    this.#options = options
    const { stream } = options
    this.stream =
      typeof stream === 'function' ? stream(options) : (stream ?? this.#socket(options))
    this.ssl = options.ssl
    this.sslNegotiation = options.sslNegotiation
    this.on('newListener', (name) => (this.#isHeard ||= !OWN.has(name)))
  }

  /** Whether somebody listens to what the server says. */
  get isHeard(): boolean {
    if (this.#isHeard) this.#isHeard = this.eventNames().some((name) => !OWN.has(name))
    return this.#isHeard
  }

  /** TLS reads its socket in a way of its own. */
  #socket({ ssl }: TransportOptions): Socket {
    return ssl ? new Socket() : new InletSocket(this.#onData)
  }

  /** Another one to the same server; undefined where the one stream that was given is in use. */
  sibling(): Connection | undefined {
    const { stream, guide } = this.#options
    if (stream !== undefined && typeof stream !== 'function') return undefined
    if (guide === undefined) return new Connection(this.#options)
    // What was found out for this one holds.
    const ssl = this.stream instanceof TLSSocket && this.ssl
    return new Connection({ ...this.#options, guide: undefined, ssl })
  }

  /**
   * Opens it. A host that begins with a slash is the directory of a Unix socket. `address`: where the
   * host is, if that is known.
   */
  open(port: number, host: string, opener: Opener, address = host): void {
    this._connecting = true
    this.#opener = opener
    const { stream } = this
    stream.setNoDelay(true)
    stream.once('connect', () => this.#connected(host))
    stream.on('error', (error) => this.#broken(error))
    // TLS on it may still have something to say.
    stream.on('close', () => (this.stream === stream ? this.#closed() : setImmediate(() => this.#closed())))
    if (host?.startsWith('/')) stream.connect(`${host}/.s.PGSQL.${port}`)
    else stream.connect(port, address)
  }

  /** Lets the process end though it is open. */
  unref(): void {
    this.stream.unref()
  }

  ref(): void {
    this.stream.ref()
  }

  /** Closes it when what was written has left. */
  end(): void {
    this._ending = true
    if (this.#lessee !== undefined) this._send(wire.bare(wire.TERMINATE))
    this.stream.end()
  }

  // --- for who has it for a time ---

  /** From now on what is sent is of this one, or of nobody. */
  lend(lessee: Lessee | undefined): void {
    this.#lessee = lessee
  }

  /** Whether what comes is read here, and not by who has it. */
  get isReading(): boolean {
    return this.stream.listeners('data').includes(this.#onData)
  }

  query(text: string): void {
    this._send(wire.query(text))
  }

  parse(query: wire.ParseConfig): void {
    this._send(wire.parse(query))
  }

  bind(config: wire.BindConfig = {}): void {
    this._send(wire.bind(config))
  }

  execute(config?: wire.ExecuteConfig | null): void {
    this._send(wire.execute(config))
  }

  describe(what: wire.Named): void {
    this._send(wire.describe(what))
  }

  close(what: wire.Named): void {
    // A portal has ended with its query, and the answer would come behind the last that is waited for.
    if (this.#lessee?.hasFailed && what.type === 'P') {
      if (this.#lessee.isLate) setImmediate(() => this.waitNoMore())
      return
    }
    this._send(wire.close(what))
  }

  flush(): void {
    this._send(wire.bare(wire.FLUSH))
  }

  sync(): void {
    this._send(wire.bare(wire.SYNC))
  }

  sendCopyFromChunk(chunk: Uint8Array): void {
    this._send(wire.copyData(chunk))
  }

  endCopyFrom(): void {
    this._send(wire.bare(wire.COPY_DONE))
  }

  sendCopyFail(why: string): void {
    this._send(wire.copyFail(why))
  }

  /** Sends a message. What is sent in one turn of the event loop leaves in one write. */
  _send(message: Buffer): boolean {
    const { stream } = this
    const type = message[0] as number
    if (!stream.writable) {
      this.#ended(type)
      return false
    }
    if (this.#lessee === undefined) return this.#unheard(type)
    this.#lessee.sent(message)
    this.#cork()
    return stream.write(message)
  }

  #cork(): void {
    // A stream that a user has made may have no such thing.
    const { stream }: { stream: Partial<Socket> } = this
    if (this.#isCorked || stream.cork === undefined) return
    this.#isCorked = true
    stream.cork()
    process.nextTick(() => {
      this.#isCorked = false
      stream.uncork?.()
    })
  }

  /** Somebody speaks who does not have the connection: the answer would go to another. */
  #unheard(type: number): boolean {
    this.#ended(type)
    if (!QUIET.has(type)) {
      throw new Error('A query has its connection only until the server is ready for the next')
    }
    return true
  }

  /** What is closed then, or ended, has ended before: who waits for the server to be ready is told. */
  #ended(type: number): void {
    if (type === wire.SYNC || type === wire.CLOSE) setImmediate(() => this.waitNoMore())
  }

  /** Tells those who wait for the server to be ready, where it will not say so. */
  waitNoMore(): void {
    this.emit('readyForQuery', { length: 5, status: 'I', name: 'readyForQuery' })
  }

  #connected(host: string): void {
    const { keepAlive, keepAliveInitialDelayMillis } = this.#options
    if (keepAlive) this.stream.setKeepAlive(true, keepAliveInitialDelayMillis)
    this.emit('connect')
    this.#go(this.#options.guide?.connected() ?? this.#begin, host)
  }

  get #begin(): Step {
    if (!this.ssl) return Step.OPEN
    return this.sslNegotiation === 'direct' ? Step.SECURE : Step.ASK
  }

  #go(step: Step, host: string): void {
    if (step === Step.OPEN) this.#opened()
    else if (step === Step.SECURE) this.#secure(host)
    else this.#askForTls(host)
  }

  #askForTls(host: string): void {
    this.stream.once('data', (answer: Buffer) => {
      const { guide } = this.#options
      if (guide !== undefined) {
        const step = guide.answered(answer[0] as number, answer.length > 1)
        return step === undefined ? void this.stream.destroy() : this.#go(step, host)
      }
      // Anything behind the one byte came before the handshake, from whoever is on the line.
      if (answer.length === 1 && answer[0] === 0x53) return this.#secure(host)
      const refused = answer.length === 1 && answer[0] === 0x4e
      this.#failed(
        new Error(
          refused
            ? 'The server does not support SSL connections'
            : 'There was an error establishing an SSL connection',
        ),
      )
      // A server that does not close its side would keep the process alive.
      this.stream.destroy()
    })
    this.stream.write(SSL_REQUEST)
  }

  #secure(host: string): void {
    const options: ConnectionOptions = { socket: this.stream, host }
    if (typeof this.ssl === 'object') {
      Object.assign(options, this.ssl)
      // It may not be enumerable.
      if ('key' in this.ssl) options.key = this.ssl.key
    }
    if (this.sslNegotiation === 'direct') options.ALPNProtocols = ['postgresql']
    // An address is no name (RFC 6066, section 3).
    if (isIP(host) === 0) options.servername = host
    let stream: TLSSocket
    try {
      stream = connectTls(options)
    } catch (error) {
      this.#failed(error as Error)
      return this.#options.stream === undefined ? void this.stream.destroy() : undefined
    }
    this.stream = stream
    stream.on('error', (error) => this.#broken(error))
    stream.on('close', () => this.#closed())
    stream.once('secureConnect', () => {
      if (this.sslNegotiation !== 'direct' || stream.alpnProtocol === 'postgresql') {
        this.#opened()
      } else {
        // It may be another service, which was made to read our words as its own.
        stream.destroy(new Error('The server did not agree on the protocol postgresql (ALPN)'))
      }
    })
    this.emit('sslconnect')
  }

  #opened(): void {
    this.stream.on('data', this.#onData)
    this.#opener?.opened()
  }

  #failed(error: Error & { code?: string }): void {
    if (this._ending && (error.code === 'ECONNRESET' || error.code === 'EPIPE')) return
    this.#opener?.failed(error)
    if (this.listenerCount('error') > 0) this.emit('error', error)
  }

  /** The stream failed: it carries nothing any more, and one that a user has made may never say that it is closed. */
  #broken(error: Error): void {
    this.stream.destroy()
    this.#failed(error)
    setImmediate(() => this.#closed())
  }

  #closed(): void {
    const opener = this.#opener
    if (opener === undefined) return
    this.#opener = undefined
    opener.gone()
    this.emit('end')
  }
}

/** Its length, and the number that stands for it. */
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f])

const DEFAULTS: TransportOptions = {
  ssl: false,
  sslNegotiation: 'postgres',
  keepAlive: false,
  keepAliveInitialDelayMillis: 0,
  encoding: 'utf8',
}

/** Told though nobody listens to messages: what befalls it, and settings, which cost little. */
const OWN = new Set<string | symbol>([
  'connect',
  'sslconnect',
  'end',
  'error',
  'parameterStatus',
  'newListener',
  'removeListener',
])

/** What is nothing to a server that does not wait for it. */
const QUIET = new Set([
  wire.SYNC,
  wire.CLOSE,
  wire.FLUSH,
  wire.COPY_DATA,
  wire.COPY_DONE,
  wire.COPY_FAIL,
])
