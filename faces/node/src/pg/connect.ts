import { EventEmitter } from 'node:events'
import { isIP, Socket } from 'node:net'
import { connect as connectTls, TLSSocket, type ConnectionOptions } from 'node:tls'

import { InletSocket } from '../engine/socket'
import * as wire from './wire-write'

/** The part of a client's configuration that a transport needs. */
export interface TransportOptions {
  /** A socket that is not connected, or a function that makes one. */
  stream?: Socket | ((options: TransportOptions) => Socket) | undefined
  /** True, or the options of `tls.connect`. */
  ssl: boolean | ConnectionOptions
  /** Whether the host's name is sent when TLS begins (SNI); by default it is. */
  sendsName?: boolean
  /** `postgres`: the server is asked for TLS first. `direct`: TLS begins at once. */
  sslNegotiation: string
  /**
   * Decides whether TLS begins. Without a guide `ssl` decides, and a server without TLS is refused.
   */
  guide?: Guide | undefined
  keepAlive: boolean
  keepAliveInitialDelayMillis: number
  encoding: string
}

/** The next step on a socket that is connected. */
export const enum Step {
  /** The socket is used as it is. */
  OPEN,
  /** The server is asked for TLS. */
  ASK,
  /** TLS begins. */
  SECURE,
}

/** Decides whether TLS begins. */
export interface Guide {
  connected(): Step
  /**
   * The step after the server's answer; undefined to close the socket. `early`: bytes followed the
   * answer.
   */
  answered(byte: number, early: boolean): Step | undefined
}

/** The owner of a transport. `gone` is the last call, and is made once. */
export interface Opener {
  /** The transport is ready, with TLS if that was chosen. */
  opened(): void
  /** The chunk is valid only during the call: bytes that are kept must be copied. */
  received(chunk: Buffer): void
  failed(error: Error): void
  gone(): void
}

/** The query that a connection is lent to. */
export interface Lessee {
  /** This message is being sent. */
  sent(message: Buffer): void
  /** Whether the query failed. */
  readonly hasFailed: boolean
  /** Whether its deadline passed before the server had answered. */
  readonly isLate: boolean
}

/**
 * The transport to a server: a socket, and TLS on it.
 *
 * Emits `connect`, `sslconnect`, `end`, and the server's messages, each under its name and as
 * `message`.
 *
 * It is lent to a query that runs itself (a `Submittable`), which sends messages by its methods.
 */
export class Connection extends EventEmitter {
  /** The socket; once the handshake begins, the TLS socket. */
  stream: Socket
  readonly ssl: boolean | ConnectionOptions
  readonly sslNegotiation: string
  /** The texts of the statements that were prepared under names, by name. */
  parsedStatements: { [name: string]: string } = Object.create(null) as { [name: string]: string }
  /** The same for statements whose Parse the server has not answered. */
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

  /** Whether there is a listener for the server's messages. */
  get isHeard(): boolean {
    if (this.#isHeard) this.#isHeard = this.eventNames().some((name) => !OWN.has(name))
    return this.#isHeard
  }

  /** TLS reads its socket by itself, and needs an ordinary one. */
  #socket({ ssl }: TransportOptions): Socket {
    return ssl ? new Socket() : new InletSocket(this.#onData)
  }

  /** Another transport to the same server; undefined if the user gave a single stream. */
  sibling(): Connection | undefined {
    const { stream, guide } = this.#options
    if (stream !== undefined && typeof stream !== 'function') return undefined
    if (guide === undefined) return new Connection(this.#options)
    // The other transport uses TLS if this one does.
    const ssl = this.stream instanceof TLSSocket && this.ssl
    return new Connection({ ...this.#options, guide: undefined, ssl })
  }

  /**
   * Opens the socket. A host that begins with a slash is the directory of a Unix socket. `address`:
   * the address of the host, if it was resolved before.
   */
  open(port: number, host: string, opener: Opener, address = host): void {
    this._connecting = true
    this.#opener = opener
    const { stream } = this
    stream.setNoDelay(true)
    stream.once('connect', () => this.#connected(host))
    stream.on('error', (error) => this.#broken(error))
    // TLS on it may still report an error.
    stream.on('close', () => (this.stream === stream ? this.#closed() : setImmediate(() => this.#closed())))
    if (host?.startsWith('/')) stream.connect(`${host}/.s.PGSQL.${port}`)
    else stream.connect(port, address)
  }

  /** Lets the process end while it is open. */
  unref(): void {
    this.stream.unref()
  }

  ref(): void {
    this.stream.ref()
  }

  /** Closes the socket once everything that was written has been sent. */
  end(): void {
    this._ending = true
    if (this.#lessee !== undefined) this._send(wire.bare(wire.TERMINATE))
    this.stream.end()
  }

  // --- for the query that it is lent to ---

  /** Lends the connection to a query, or takes it back. */
  lend(lessee: Lessee | undefined): void {
    this.#lessee = lessee
  }

  /** Whether the stream is read here, and not by the query itself. */
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
    // The portal ended with its failed query, and the answer to a Close would arrive too late.
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

  /** Sends a message. The messages of one turn of the event loop leave in one write. */
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
    // A stream of the user may have no `cork`.
    const { stream }: { stream: Partial<Socket> } = this
    if (this.#isCorked || stream.cork === undefined) return
    this.#isCorked = true
    stream.cork()
    process.nextTick(() => {
      this.#isCorked = false
      stream.uncork?.()
    })
  }

  /** Refuses a message of code that the connection is not lent to: another would get the answer. */
  #unheard(type: number): boolean {
    this.#ended(type)
    if (!QUIET.has(type)) {
      throw new Error(
        'A query may use its connection only until the server is ready for the next query',
      )
    }
    return true
  }

  /**
   * Answers a Sync or a Close that is not sent, since its query is over: its sender waits for that.
   */
  #ended(type: number): void {
    if (type === wire.SYNC || type === wire.CLOSE) setImmediate(() => this.waitNoMore())
  }

  /** Emits a `readyForQuery` for code that waits for one that the server will not send. */
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
      // More bytes than the answer were sent before the handshake, perhaps by an attacker.
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
      // `key` may be hidden (not enumerable), so that it is not printed.
      if ('key' in this.ssl) options.key = this.ssl.key
    }
    if (this.sslNegotiation === 'direct') options.ALPNProtocols = ['postgresql']
    // An IP address must not be sent as a server name (RFC 6066, section 3).
    if (isIP(host) === 0 && this.#options.sendsName !== false) options.servername = host
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
        // Without ALPN another service may be made to take our messages as its own.
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
    if (this.listenerCount('error') > 0) super.emit('error', error)
  }

  /**
   * pg's client listens to its connection, so an error that a program emits here, as tests of its
   * own do, is one of the client.
   */
  override emit(name: string | symbol, ...given: unknown[]): boolean {
    if (name !== 'error' || this.#opener === undefined) return super.emit(name, ...given)
    this.#opener.failed(given[0] as Error)
    return this.listenerCount('error') === 0 || super.emit(name, ...given)
  }

  /** The stream failed. A stream of the user may never emit `close`, so the end is told here. */
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

/** An SSLRequest: its length and its code. */
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f])

const DEFAULTS: TransportOptions = {
  ssl: false,
  sslNegotiation: 'postgres',
  keepAlive: false,
  keepAliveInitialDelayMillis: 0,
  encoding: 'utf8',
}

/** Events that are emitted without reading the server's messages one by one. */
const OWN = new Set<string | symbol>([
  'connect',
  'sslconnect',
  'end',
  'error',
  'parameterStatus',
  'newListener',
  'removeListener',
])

/** Messages that a server ignores, or that may be left out, when a query is over. */
const QUIET = new Set([
  wire.SYNC,
  wire.CLOSE,
  wire.FLUSH,
  wire.COPY_DATA,
  wire.COPY_DONE,
  wire.COPY_FAIL,
])
