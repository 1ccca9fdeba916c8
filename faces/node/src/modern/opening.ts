import { lookup } from 'node:dns'
import type { ConnectionOptions } from 'node:tls'

import { timeUntil } from '../engine/clock'
import { Close, Connect, ConnectEvent, ConnectFault } from '../engine/exports'
import { NO_MEMORY, reason } from '../engine/memory'
import type { Lineage } from '../engine/lineage'
import type { Link } from '../engine/link'
import { Plan, type Refusal } from '../engine/plan'
import { Connection as Transport, Step, type Guide, type Opener } from '../pg/connect'
import type { Endpoint, Settings } from './config'
import { PostgresError } from './error'
import { isPermanent, unreached } from './loss'

/**
 * Is told how the attempts to connect go. Each `reached` whose login fails is followed by `left`.
 * The last call is `unreachable`, or `gone` if a login had succeeded.
 */
export interface Reached {
  reached(transport: Transport, endpoint: Endpoint, secure: boolean): void
  left(): void
  received(chunk: Buffer): void
  /** No server can be used. `permanent`: retrying won't help. */
  unreachable(why: PostgresError, permanent: boolean): void
  gone(error: Error | undefined): void
}

/** Carries out the connect plan of the module: sockets, TLS, timers and errors are here. */
export class Opening implements Opener, Guide {
  readonly #settings: Settings
  readonly #to: Reached
  readonly #plan: Plan
  /** The errors that were reported to the plan, in that order. */
  readonly #errors: { readonly error: PostgresError; readonly isFinal: boolean }[] = []
  #tls: ConnectionOptions | undefined
  #endpoint: Endpoint = { host: '', port: 0 }
  /** The addresses that the last lookup found, and the index of its host. */
  #addresses: string[] = []
  #found = -1
  #transport: Transport | undefined
  #timer: NodeJS.Timeout | undefined
  /** The login is under way. */
  #isReached = false
  #isSecured = false
  /** The login is over. */
  #isDone = false
  #isOver = false
  #isTold = false
  /** The number of the current action: lookups and timers of earlier ones are ignored. */
  #turn = 0
  #error: Error | undefined
  /** The fault of this attempt. If it is not set, the fault follows from the action (`FAULTS`). */
  #why: { readonly fault: ConnectFault; readonly isFinal: boolean } | undefined

  /** `scouts`: it looks for another primary. */
  constructor(settings: Settings, lineage: Lineage, to: Reached, scouts: boolean) {
    this.#settings = settings
    this.#to = to
    this.#plan = new Plan(settings.ofPlan(scouts), lineage, () => this.#lost())
    if (!this.#plan.isThere) this.#error = new PostgresError('no_memory', 'NotSent', NO_MEMORY)
    this.#go()
  }

  /** Gives up, also if a connection is open. */
  stop(): void {
    if (this.#isOver) return
    this.#isOver = true
    clearTimeout(this.#timer)
    this.#plan.free()
    if (this.#transport === undefined) setImmediate(() => this.#end())
    else this.#transport.stream.destroy()
  }

  /** The login failed. */
  fail(error: PostgresError, fault: ConnectFault, isFinal = false): void {
    this.#error ??= error
    this.#why ??= { fault, isFinal }
    this.#transport?.stream.destroy()
  }

  /**
   * The login on this connection succeeded. Returns whether the connection can be used: it can't if
   * the server does not fit, or is asked first which it is.
   */
  loggedIn(link: Link): boolean {
    const isFit = this.#goesOn(this.#plan.loggedIn(link))
    if (!isFit && this.#plan.action === Connect.IDENTIFY) link.identify()
    return isFit
  }

  /** The server has said which it is. Returns the same. */
  identified(link: Link): boolean {
    return this.#goesOn(this.#plan.identified(link))
  }

  #goesOn(refusal: Refusal | undefined): boolean {
    if (refusal !== undefined) this.#refuse(refusal)
    else if (this.#plan.action === Connect.DONE) {
      this.#isDone = true
      clearTimeout(this.#timer)
      this.#plan.free()
    }
    return this.#isDone
  }

  #go(): void {
    const plan = this.#plan
    const turn = ++this.#turn
    clearTimeout(this.#timer)
    const { action } = plan
    // The owner is never told in the turn in which it asked.
    if (action === Connect.FAILED) return void setImmediate(() => this.#end())
    const { until } = plan
    if (until !== Infinity) this.#timer = setTimeout(() => this.#late(turn), timeUntil(until))
    this.#endpoint = this.#settings.endpoints[plan.host] as Endpoint
    if (action === Connect.RESOLVE) this.#resolve(turn)
    else this.#dial(plan.address)
  }

  #resolve(turn: number): void {
    lookup(this.#endpoint.host, { all: true }, (error, found) => {
      if (turn !== this.#turn || this.#isOver) return
      if (error !== null || found.length === 0) {
        return this.#failed(ConnectFault.SERVER, error ?? new Error('the name has no address'))
      }
      this.#addresses = found.map(({ address }) => address)
      this.#found = this.#plan.host
      this.#plan.happened(ConnectEvent.RESOLVED, found.length)
      this.#go()
    })
  }

  #dial(at: number): void {
    const settings = this.#settings
    const given = settings.endpoints[this.#plan.host] as Endpoint
    const { port } = given
    // An address wins over the directory of a socket, as in libpq.
    const host = given.host.startsWith('/') ? (given.address ?? given.host) : given.host
    const found = this.#found === this.#plan.host ? this.#addresses[at] : undefined
    const address = given.address ?? found
    this.#endpoint = address === undefined ? { host, port } : { host, port, address }
    try {
      this.#tls = settings.tlsOf(host)
    } catch (error) {
      const why = new PostgresError('config', 'NotSent', (error as Error).message, error)
      return void setImmediate(() => this.#failed(ConnectFault.OURS, why))
    }
    const transport = new Transport({
      ssl: this.#tls ?? false,
      sendsName: settings.isOn('sslsni'),
      sslNegotiation: settings.said('sslnegotiation'),
      guide: this,
      keepAlive: settings.isOn('keepalives'),
      keepAliveInitialDelayMillis: settings.number('keepalives_idle') * 1000,
      encoding: 'utf8',
    })
    this.#transport = transport
    transport.open(port, host, this, address)
  }

  /** The name of the server that is tried, or that the connection leads to. */
  get name(): string {
    const { host, port } = this.#endpoint
    return `${host}:${port}`
  }

  #late(turn: number): void {
    const seconds = this.#settings.number('connect_timeout')
    const message = `${this.name} did not answer within ${seconds} s (connect_timeout)`
    const why = new PostgresError('connect_timeout', 'NotSent', message)
    if (this.#transport !== undefined) this.fail(why, ConnectFault.LATE)
    else if (turn === this.#turn) this.#failed(ConnectFault.LATE, why)
  }

  // --- questions of the transport ---

  connected(): Step {
    this.#plan.happened(ConnectEvent.CONNECTED)
    return this.#step()
  }

  answered(byte: number, early: boolean): Step | undefined {
    const a = byte | (early ? ConnectEvent.EARLY : 0)
    const refusal = this.#plan.happened(ConnectEvent.ANSWERED, a)
    if (refusal === undefined) return this.#step()
    this.#refuse(refusal)
    return undefined
  }

  #step(): Step {
    const { action } = this.#plan
    if (action === Connect.ASK_FOR_TLS) return Step.ASK
    return action === Connect.BEGIN_TLS ? Step.SECURE : Step.OPEN
  }

  #refuse({ code, text }: Refusal): void {
    this.fail(new PostgresError(code, 'NotSent', this.name + text), ConnectFault.SERVER)
  }

  // --- events of the transport ---

  opened(): void {
    if (this.#isOver) return void this.#transport?.stream.destroy()
    this.#isSecured = this.#plan.action === Connect.BEGIN_TLS
    if (this.#isSecured) this.#plan.happened(ConnectEvent.SECURED)
    this.#isReached = true
    const verified = this.#isSecured && this.#tls?.rejectUnauthorized !== false
    this.#to.reached(this.#transport as Transport, this.#endpoint, verified)
  }

  received(chunk: Buffer): void {
    this.#to.received(chunk)
  }

  failed(error: Error): void {
    this.#error ??= error
  }

  gone(): void {
    const [error, why, wasReached] = [this.#error, this.#why, this.#isReached]
    this.#error = this.#why = this.#transport = undefined
    this.#isReached = false
    if (this.#isDone) return this.#to.gone(error)
    if (wasReached) this.#to.left()
    if (this.#isOver) return this.#end(error)
    const fault = why?.fault ?? FAULTS[this.#plan.action] ?? ConnectFault.SERVER
    this.#failed(fault, error, why?.isFinal, wasReached)
  }

  #failed(fault: ConnectFault, cause: Error | undefined, isFinal = false, wasReached = false): void {
    const what = wasReached ? 'the login failed' : `${this.name} can't be reached`
    const error = unreached(what, cause)
    this.#errors.push({ error, isFinal: isFinal || isPermanent(error) })
    const isOne = this.#settings.endpoints.length === 1 || error.message.startsWith(this.name)
    const text = isOne ? error.message : `${this.name}: ${error.message}`
    const isTold = fault === ConnectFault.LOG_IN || fault === ConnectFault.SESSION
    const code = isTold ? error.code.padEnd(5).slice(0, 5) : ''
    this.#plan.failed(fault, code + text)
    this.#go()
  }

  /** There is no connection. */
  #end(error?: Error): void {
    if (this.#isTold) return
    this.#isTold = true
    const verdict = this.#plan.verdict()
    const told = verdict && this.#errors[verdict.error]
    this.#isOver = true
    this.#plan.free()
    if (verdict === undefined || told === undefined) {
      return this.#to.unreachable(unreached(`${this.name} can't be reached`, error ?? this.#error), false)
    }
    const { code, sqlstate, message } = told.error
    const isSame = verdict.text === message
    const why = isSame ? told.error : new PostgresError(code, 'NotSent', verdict.text, told.error, sqlstate)
    this.#to.unreachable(why, told.isFinal && !verdict.isOfMany)
  }

  /** The module failed. */
  #lost(): void {
    if (this.#isOver || this.#isDone) return
    this.#error ??= new PostgresError('connection_lost', 'NotSent', reason(Close.LOST, 0, 0))
    this.stop()
  }
}

/** The fault that an end of the socket means, by the action that was under way. */
const FAULTS: { readonly [action: number]: ConnectFault } = {
  [Connect.DIAL]: ConnectFault.UNREACHABLE,
  [Connect.BEGIN_TLS]: ConnectFault.HANDSHAKE,
}
