import { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'

import { Standstill, warnOfHeld } from '../engine/standstill'
import { Connection, type TransportOptions } from './connect'
import { defaults } from './defaults'
import { tellUnsent } from './error'
import { hide } from './hidden'
import { ConnectionParameters, type ConnectionConfig, type Password } from './parameters'
import { pipeliningOf, type PipelineConfig } from './pipeline'
import { guarded } from './request'
import { Session } from './session'
import { startupConf, type EngineOptions, type StartupConf } from './settings'
import { TypeOverrides, type TypeSource } from './types'

/**
 * A client's configuration: where to connect, as whom, and how. It takes all keys of pg.
 * `client_encoding` has no effect, since texts are always UTF-8.
 */
export interface ClientConfig extends ConnectionConfig, PipelineConfig {
  /** A timeout of the server in milliseconds, sent with the login. False: not sent. */
  statement_timeout?: number | string | false | undefined
  lock_timeout?: number | string | false | undefined
  idle_in_transaction_session_timeout?: number | string | false | undefined
  application_name?: string | undefined
  /** The application name, if no other is set. */
  fallback_application_name?: string | undefined
  /** Command-line options for the server process: `-c name=value`. */
  options?: string | undefined
  /** `true` or `database`: a replication connection, which takes simple queries only. */
  replication?: string | boolean | undefined
  /** The deadline of queries in milliseconds, unless a query has its own. False: none. */
  query_timeout?: number | string | false | undefined
  /** `direct`: TLS begins at once, without asking the server first (PostgreSQL 17). */
  sslnegotiation?: string | undefined
  /**
   * Binds SCRAM to the TLS connection if the server can, so no one in between can log in. Default
   * false.
   */
  enableChannelBinding?: boolean | undefined
  /** The parsers of this client. */
  types?: TypeSource | undefined
  /** A socket that is not connected, or a function that makes one. */
  stream?: TransportOptions['stream']
  /** A connection made for this client. The options of the transport have no effect then. */
  connection?: Connection | undefined
  /** Asks for results in binary form, unless a query says otherwise. */
  binary?: boolean | undefined
  /** Prepares a statement with values at its fifth use on a connection. Default true. */
  autoPrepare?: boolean | undefined
  /**
   * Answers a plain BEGIN at once, if the client waits for nothing, and sends it with the first
   * statement. A transaction then takes one round trip less, and an empty one takes none. `now()`
   * is the time of the first statement. If the server refuses BEGIN, the statements fail. Default
   * true.
   */
  holdBegin?: boolean | undefined
  /** The most SCRAM iterations that a server may ask for; 0 for any number. Default 100,000. */
  scramMaxIterations?: number | string | undefined
  /** The class of the promises that are returned. */
  Promise?: PromiseConstructor | undefined
}

type ConnectCallback = (error: Error | null, client?: Life) => void

/** The life of a client: connecting, the loss of its connection, and its end. */
export class Life extends EventEmitter {
  readonly connectionParameters: ConnectionParameters
  user: string | undefined
  database: string | undefined
  port: number
  host: string
  /** Not enumerable, so that it is not printed. */
  declare password: Password
  replication: string | undefined
  enableChannelBinding: boolean
  scramMaxIterations: number
  connection: Connection
  /** Whether queries are sent without waiting for those before them. */
  readonly pipeline: boolean
  readonly pipelineMaxQueries: number
  binary: boolean
  processID: number | null = null
  // Not enumerable either: a secret, or objects that lead back to this client. Clients may be
  // logged.
  declare secretKey: number | null
  declare readonly _engineOptions: EngineOptions
  declare connectionTimeoutHandle: NodeJS.Timeout | undefined
  declare readonly _session: Session
  ssl: ConnectionParameters['ssl']
  sslNegotiation: string
  /** Whether a query was sent. */
  declare hasExecuted: boolean | undefined
  _Promise: PromiseConstructor
  _types: TypeOverrides
  _ending = false
  _ended = false
  _connecting = false
  _connected = false
  _connectionError = false
  _queryable = true
  _txStatus: string | null = null
  _connectionTimeoutMillis: number
  #connectionCallback: ConnectCallback | undefined
  /** The promise that `connect` returned. */
  #connected: Promise<this> | undefined
  #lost: Error | undefined

  constructor(given?: string | ClientConfig | null) {
    super()
    const parameters = new ConnectionParameters(given)
    this.connectionParameters = parameters
    this.user = parameters.user
    this.database = parameters.database
    this.port = parameters.port
    this.host = parameters.host
    hide(this, 'password', parameters.password)
    hide(this, 'secretKey', null)
    this.replication = parameters.replication
    const config: ClientConfig = typeof given === 'object' && given !== null ? given : {}
    this._Promise = config.Promise || Promise
    this._types = new TypeOverrides(config.types)
    this.enableChannelBinding = Boolean(config.enableChannelBinding)
    this.scramMaxIterations = numberOr(config.scramMaxIterations, SCRAM_ITERATIONS_MAX)
    const pipelining = pipeliningOf(config)
    this.pipeline = pipelining.on
    this.pipelineMaxQueries = pipelining.window
    hide(this, '_engineOptions', {
      pipelining,
      autoPrepare: config.autoPrepare !== false,
      holdBegin: config.holdBegin !== false,
      scramMaxIterations: this.scramMaxIterations,
    })
    this.binary = config.binary || defaults.binary
    this.ssl = parameters.ssl || false
    this.sslNegotiation = parameters.sslnegotiation || 'postgres'
    this._connectionTimeoutMillis = Number(config.connectionTimeoutMillis) || 0
    this.connection = config.connection || this.#transport(config)
    if (!(this.connection instanceof Connection)) throw new TypeError(NOT_OURS)
    hide(this, 'connectionTimeoutHandle', undefined)
    hide(this, '_session', new Session(this, this.connection, nobody))
  }

  #transport(config: ClientConfig): Connection {
    return new Connection({
      stream: config.stream,
      ssl: this.ssl as NonNullable<TransportOptions['ssl']>,
      sslNegotiation: this.sslNegotiation,
      keepAlive: Boolean(config.keepAlive),
      keepAliveInitialDelayMillis: Number(config.keepAliveInitialDelayMillis) || 0,
      encoding: this.connectionParameters.client_encoding || 'utf8',
    })
  }

  /**
   * Connects; a client can do so once. Returns a promise of this client unless there is a callback.
   */
  connect(): Promise<this>
  connect(callback: ConnectCallback): void
  connect(callback?: ConnectCallback): Promise<this> | undefined {
    if (callback) {
      this.#connect(callback)
      return undefined
    }
    const connected = new this._Promise<this>((resolve, reject) => {
      this.#connect((error) => (error ? reject(error) : resolve(this)))
    })
    this.#connected ??= connected
    return connected
  }

  #connect(callback: ConnectCallback): void {
    if (this._connecting || this._connected) {
      process.nextTick(
        callback,
        tellUnsent(new Error('Client has already been connected. You cannot reuse a client.')),
      )
      return
    }
    this._connecting = true
    this.#connectionCallback = callback
    if (this._connectionTimeoutMillis > 0) {
      this.connectionTimeoutHandle = setTimeout(() => {
        this.connection._ending = true
        this.connection.stream.destroy(new Error('timeout expired'))
      }, this._connectionTimeoutMillis)
      this.connectionTimeoutHandle.unref()
    }
    this._session.open()
  }

  /** Ends the connection. A client that pipelines answers its queries first. */
  end(): Promise<void>
  end(callback: (error?: Error) => void): void
  end(callback?: (error?: Error) => void): Promise<void> | undefined {
    this._ending = true
    if (!this.connection._connecting || this._ended) {
      if (callback) callback()
      return callback ? undefined : this._Promise.resolve()
    }
    const session = this._session
    // Without pipelining a query that hangs would keep the client from ending.
    const forced = !this._queryable || (!this.pipeline && session.isReady && !session.isIdle)
    if (forced) this.connection.stream.destroy()
    else session.terminate()
    if (!forced && session.lending.isClosed) this.#cutStill()
    if (callback) {
      this.connection.once('end', callback)
      return undefined
    }
    return new this._Promise((resolve) => {
      this.connection.once('end', resolve)
    })
  }

  /**
   * Cuts a query that runs itself once nothing moves: its reader may be waiting for the end of the
   * client.
   */
  #cutStill(): void {
    const { connection, _session: session } = this
    const bytes = (): number => {
      const { bytesRead = 0, bytesWritten = 0 } = connection.stream as Partial<Socket>
      return bytesRead + bytesWritten
    }
    const standstill = new Standstill(bytes, () => {
      if (!session.lending.isClosed) return
      warnOfHeld('A cursor, stream or COPY')
      connection.stream.destroy()
    })
    connection.once('end', () => standstill.stop())
  }

  /** The parameters that are sent with the login. */
  getStartupConf(): StartupConf {
    return startupConf(this.connectionParameters)
  }

  /** The address of the link in the module, for a pool. */
  get _address(): number | undefined {
    return this._session.address
  }

  // --- events of the connection ---

  /** The login is over. */
  _handleReady(): void {
    const callback = this.#connectionCallback
    this._connecting = false
    this._connected = true
    this.#connectionCallback = undefined
    clearTimeout(this.connectionTimeoutHandle)
    if (callback) guarded(callback, null, this)
    guarded(() => this.emit('connect'))
  }

  /** The connection failed. Queries that wait for an answer fail when it has closed. */
  _handleErrorEvent(error: Error): void {
    if (this._connecting) return this.#failConnecting(error)
    const isFirst = this.#lost === undefined
    this._queryable = false
    this.#lost ??= error
    if (this.listenerCount('error') > 0) guarded(() => this.emit('error', error))
    // Without a listener `emit('error')` would end the process. Later queries report the loss.
    else if (isFirst) process.emitWarning(`A client's connection is lost: ${error.message}`)
  }

  /** Only the first error of connecting is reported. */
  #failConnecting(error: Error): void {
    if (this._connectionError) return
    this._connectionError = true
    this.#notConnected(error)
  }

  #notConnected(error: Error): void {
    clearTimeout(this.connectionTimeoutHandle)
    // A program that ended it while it connected may not catch the rejection of `connect`.
    if (this._ending) this.#connected?.then(undefined, ignore)
    const callback = this.#connectionCallback
    if (callback) guarded(callback, tellUnsent(error))
  }

  /** The transport is closed. */
  _handleEnd(): void {
    clearTimeout(this.connectionTimeoutHandle)
    this._ended = true
    if (this._connectionError || this._session.isLossTold) return
    if (!this._ending) this._handleErrorEvent(this._terminated())
    else if (this._connecting) this.#notConnected(this._terminated())
  }

  _terminated(): Error {
    return new Error(this._ending ? 'Connection terminated' : 'Connection terminated unexpectedly')
  }

  /** Whether queries are taken: they run, or fail when the connection has closed. */
  get _takesQueries(): boolean {
    const session = this._session
    return (this._queryable || session.isClosingGracefully) && !this._ending && !session.isGone
  }

  /** The error of queries that are not taken. */
  _notQueryable(): Error {
    const isClosed = this._ending && this._queryable && !this._connectionError
    return isClosed
      ? new Error('Client was closed and is not queryable')
      : new Error('Client has encountered a connection error and is not queryable', {
          cause: this.#lost,
        })
  }
}

/** Stands for a client that nobody can reach any more: nobody hears what it is told. */
function nobody(): Life {
  const client = new Life()
  client._ending = true
  return client
}

function numberOr(value: unknown, otherwise: number): number {
  const text = typeof value === 'string' ? value.trim() : ''
  const number = typeof value === 'number' ? value : text === '' ? NaN : Number(text)
  return Number.isFinite(number) ? number : otherwise
}

function ignore(): void {}

const NOT_OURS = 'connection must be a Connection of this package'

/** As in pg. */
const SCRAM_ITERATIONS_MAX = 100_000
