import type { ConnectionOptions } from 'node:tls'

import { Connection as Transport, type Opener } from '../pg/connect'
import type { Endpoint, Settings } from './config'
import { PostgresError } from './error'
import { unreached } from './loss'

/**
 * What became of one attempt to reach a server. `gone` is the last call, and comes once where
 * `reached` came.
 */
export interface Reached {
  reached(transport: Transport, endpoint: Endpoint, secure: boolean): void
  received(chunk: Buffer): void
  /** None of the servers could be reached. */
  unreachable(why: PostgresError): void
  gone(error: Error | undefined): void
}

/** Reaches the first of the servers that can be reached, with TLS as the settings say. */
export class Opening implements Opener {
  readonly #settings: Settings
  readonly #to: Reached
  #next = 0
  #tls: ConnectionOptions | undefined
  #endpoint: Endpoint = { host: '', port: 0 }
  #transport: Transport | undefined
  #timer: NodeJS.Timeout | undefined
  #isReached = false
  #isOver = false
  #error: Error | undefined

  constructor(settings: Settings, to: Reached) {
    this.#settings = settings
    this.#to = to
    this.#open()
  }

  /** Gives up, whatever has been reached. */
  stop(): void {
    this.#isOver = true
    this.#transport?.stream.destroy()
  }

  /** The login is over; no time limit any more. */
  done(): void {
    clearTimeout(this.#timer)
  }

  #open(): void {
    const settings = this.#settings
    this.#endpoint = settings.endpoints[this.#next++] as Endpoint
    this.#tls = settings.tlsOf(this.#endpoint.host)
    const seconds = settings.number('connect_timeout')
    if (seconds > 0) this.#timer = setTimeout(() => this.#late(seconds), seconds * 1000)
    const transport = new Transport({
      ssl: this.#tls ?? false,
      sslNegotiation: settings.said('sslnegotiation'),
      allowsPlain: settings.allowsPlain,
      keepAlive: settings.isOn('keepalives'),
      keepAliveInitialDelayMillis: settings.number('keepalives_idle') * 1000,
      encoding: 'utf8',
    })
    this.#transport = transport
    transport.open(this.#endpoint.port, this.#endpoint.host, this)
  }

  #late(seconds: number): void {
    const { host, port } = this.#endpoint
    const message = `${host}:${port} did not answer within ${seconds} s (connect_timeout)`
    this.#transport?.stream.destroy(new PostgresError('connect_timeout', 'NotSent', message))
  }

  opened(): void {
    if (this.#isOver) return void this.#transport?.stream.destroy()
    this.#isReached = true
    const verified = this.#tls !== undefined && this.#tls.rejectUnauthorized !== false
    this.#to.reached(this.#transport as Transport, this.#endpoint, verified)
  }

  received(chunk: Buffer): void {
    this.#to.received(chunk)
  }

  failed(error: Error): void {
    this.#error ??= error
  }

  gone(): void {
    const error = this.#error
    this.#error = undefined
    clearTimeout(this.#timer)
    if (this.#isReached) return this.#to.gone(error)
    if (!this.#isOver && this.#next < this.#settings.endpoints.length) return this.#open()
    const { host, port } = this.#endpoint
    this.#to.unreachable(unreached(`${host}:${port} can't be reached`, error))
  }
}
