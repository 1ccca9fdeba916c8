import { EventEmitter } from 'node:events'
import { Socket, isIP } from 'node:net'
import { connect as connectTls, type ConnectionOptions, type TLSSocket } from 'node:tls'

/** How a transport is made: a part of a client's configuration. */
export interface TransportOptions {
  /** A socket that is not connected, or what makes one. */
  stream?: Socket | ((options: TransportOptions) => Socket) | undefined
  /** True, or the options of `tls.connect`. */
  ssl: boolean | ConnectionOptions
  /** `postgres`: the server is asked for TLS first. `direct`: TLS begins at once. */
  sslNegotiation: string
  keepAlive: boolean
  keepAliveInitialDelayMillis: number
  encoding: string
}

/** Who has a connection opened. `gone` is the last call, and comes once. */
export interface Opener {
  /** The transport is there, with TLS if there is to be TLS. */
  opened(): void
  received(chunk: Buffer): void
  failed(error: Error): void
  gone(): void
}

/**
 * The way to a server: a socket, and TLS on it.
 *
 * Emits `connect`, `sslconnect`, `parameterStatus` (as the server reports settings) and `end`.
 */
export class Connection extends EventEmitter {
  /** The socket; from the handshake on that of TLS. */
  stream: Socket
  readonly ssl: boolean | ConnectionOptions
  readonly sslNegotiation: string
  /** Texts of statements that were prepared under names, by name. */
  parsedStatements: { [name: string]: string } = Object.create(null) as { [name: string]: string }
  _connecting = false
  _ending = false
  readonly #options: TransportOptions
  #opener: Opener | undefined

  constructor(options: TransportOptions) {
    super()
    this.#options = options
    const { stream } = options
    this.stream = typeof stream === 'function' ? stream(options) : (stream ?? new Socket())
    this.ssl = options.ssl
    this.sslNegotiation = options.sslNegotiation
  }

  /** Another one to the same server; undefined where the one stream that was given is in use. */
  sibling(): Connection | undefined {
    const { stream } = this.#options
    return stream === undefined || typeof stream === 'function'
      ? new Connection(this.#options)
      : undefined
  }

  /** Opens it. A host that begins with a slash is the directory of a Unix socket. */
  open(port: number, host: string, opener: Opener): void {
    this._connecting = true
    this.#opener = opener
    const { stream } = this
    stream.setNoDelay(true)
    stream.once('connect', () => this.#connected(host))
    stream.on('error', (error) => this.#failed(error))
    // TLS on it may still have something to say.
    stream.on('close', () => (this.stream === stream ? this.#closed() : setImmediate(() => this.#closed())))
    if (host?.startsWith('/')) stream.connect(`${host}/.s.PGSQL.${port}`)
    else stream.connect(port, host)
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
    this.stream.end()
  }

  #connected(host: string): void {
    const { keepAlive, keepAliveInitialDelayMillis } = this.#options
    if (keepAlive) this.stream.setKeepAlive(true, keepAliveInitialDelayMillis)
    this.emit('connect')
    if (!this.ssl) this.#opened()
    else if (this.sslNegotiation === 'direct') this.#secure(host)
    else this.#askForTls(host)
  }

  #askForTls(host: string): void {
    this.stream.once('data', (answer: Buffer) => {
      // Anything behind the one byte came before the handshake, from whoever is on the line.
      if (answer.length === 1 && answer[0] === 0x53) return this.#secure(host)
      this.stream.end()
      const refused = answer.length === 1 && answer[0] === 0x4e
      this.#failed(
        new Error(
          refused
            ? 'The server does not support SSL connections'
            : 'There was an error establishing an SSL connection',
        ),
      )
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
    stream.on('error', (error) => this.#failed(error))
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
    this.stream.on('data', (chunk: Buffer) => this.#opener?.received(chunk))
    this.#opener?.opened()
  }

  #failed(error: Error & { code?: string }): void {
    if (this._ending && (error.code === 'ECONNRESET' || error.code === 'EPIPE')) return
    this.#opener?.failed(error)
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
