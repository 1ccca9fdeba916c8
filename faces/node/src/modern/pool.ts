import { delay } from '../engine/clock'
import { type Outcome } from '../engine/choices'
import { Condition, PoolCause, StatementPlace } from '../engine/exports'
import { PoolAdapter, type Borrower, type Opener } from '../engine/pool-adapter'
import { Lineage } from '../engine/lineage'
import { ENGINE_LOST } from '../engine/memory'
import { Standstill, warnOfHeld } from '../engine/standstill'
import type { Replicas } from '../engine/replicas'
import type { Settings } from './config'
import { Connection } from './connection'
import { again, misuse, PostgresError } from './error'
import { Hedge } from './hedge'
import type { Host } from './host'
import { Lease } from './lease'
import type { Scope } from './scope'
import type { Statement } from './statement'
import { SlowNeighbours, type PoolStats } from './slow-neighbours'
import { refusal } from './traits'
import type { Watch } from './watch'

/** A statement or a pipeline, to be placed on a shared connection. */
export interface Work {
  readonly isOver: boolean
  readonly watch: Watch | undefined
  /** The key of its text, by which the policy knows how long it takes. */
  readonly key: number
  /** Until when it may wait in line; infinity for `waitTimeoutMs`. */
  readonly until: number
  _run(connection: Connection): void
  fail(error: PostgresError, outcome: Outcome): void
}

/** The connections of one client, and the statements that share them. */
export class Pool implements Opener, Host, Scope {
  readonly settings: Settings
  readonly lineage: Lineage
  readonly #adapter: PoolAdapter
  readonly #members = new Map<number, Connection>()
  /** Work that waits: in line (by its token), or for the pause before its next attempt. */
  readonly #inLine = new Map<Work, number>()
  readonly #pausing = new Map<Work, NodeJS.Timeout>()
  readonly #waitMs: number
  readonly #opened = new WeakSet<Connection>()
  /** Connections that take nothing new, and are closed when all requests on them have ended. */
  readonly #retiring = new Set<number>()
  readonly #slow = new SlowNeighbours()
  #hedged = 0
  #watcher: Replicas | undefined
  /** The connection that looks for another primary. It is none of the pool's. */
  #scout: Connection | undefined
  #lastError: PostgresError | undefined
  #isClosing = false
  #isOver = false
  #closing = 0
  #whenOver: (() => void)[] = []

  /** `lineage`: what its client has seen of servers. */
  constructor(settings: Settings, lineage = new Lineage()) {
    this.settings = settings
    this.lineage = lineage
    lineage.hold(this)
    this.#adapter = new PoolAdapter(settings.ofPool(), this)
    this.#waitMs = settings.number('wait_timeout_ms')
  }

  // --- shared statements ---

  _submit(statement: Statement): void {
    const refused = refusal(statement.traits, StatementPlace.SHARED)
    if (refused !== undefined) return statement.fail(refused, 'NotSent')
    this.place(statement)
  }

  /** The address of its policy in the module. */
  get address(): number {
    return this.#adapter.address
  }

  get isClosing(): boolean {
    return this.#isClosing
  }

  /** Runs work on a shared connection, if one takes it at once. Returns whether it did. */
  tryPlace(work: Work): boolean {
    const connection = this.#isClosing ? undefined : this.#members.get(this.#adapter.place(work.key))
    if (connection !== undefined) work._run(connection)
    return connection !== undefined
  }

  /** Runs work on a shared connection, at once or when its turn comes. */
  place(work: Work): void {
    if (this.#isClosing) return work.fail(closed(), 'NotSent')
    const connection = this.#members.get(this.#adapter.place(work.key))
    if (connection !== undefined) return work._run(connection)
    this.#wait(work)
  }

  _waits(work: Work): boolean {
    if (!this.#isClosing) this.#wait(work)
    return !this.#isClosing
  }

  #wait(work: Work): void {
    const borrower: Borrower = {
      served: (number) => {
        this.#inLine.delete(work)
        const served = this.#members.get(number)
        if (work.isOver) return
        if (served === undefined) this.place(work)
        else work._run(served)
      },
      failed: (cause) => {
        this.#inLine.delete(work)
        work.fail(this.#noConnection(cause), 'NotSent')
      },
    }
    const left = work.watch?.left ?? Infinity
    const { until } = work
    const patience = until === Infinity ? this.#waitMs : Math.max(until - performance.now(), 0)
    // If its own deadline comes first, its watch ends it with the error of that.
    const timeout = left <= patience ? Infinity : patience
    this.#inLine.set(work, this.#adapter.waitShared(borrower, work.key, timeout))
  }

  _takeBack(work: Work): void {
    const token = this.#inLine.get(work)
    if (token !== undefined) this.#adapter.giveUp(token)
    this.#inLine.delete(work)
    clearTimeout(this.#pausing.get(work))
    this.#pausing.delete(work)
  }

  _late(error: PostgresError): PostgresError {
    const last = this.#lastError
    if (last === undefined) return error
    const message = `${error.message}; the last attempt to open a connection failed: ${last.message}`
    return new PostgresError(error.code, 'NotSent', message, last)
  }

  _goesOn(statement: Statement): boolean {
    const { attempts, until, watch } = statement
    statement.until = this.#adapter.again(attempts, until, watch?.left ?? Infinity)
    statement.attempts++
    return statement.until >= 0
  }

  _again(statement: Statement, error: PostgresError): boolean {
    statement.mayHaveRun ||= error.outcome === 'Unknown'
    const isLost = error.code === 'connection_lost' && statement.connection?.isMisused !== true
    if (!isLost || this.#isClosing) return false
    const pause = this.#adapter.repeatPause(++statement.attempts)
    if (pause < 0 || pause >= (statement.watch?.left ?? Infinity)) return false
    statement.connection = undefined
    statement.restarted()
    this.#pausing.set(
      statement,
      setTimeout(() => {
        this.#pausing.delete(statement)
        this._submit(statement)
      }, pause),
    )
    return true
  }

  _hedge(statement: Statement): void {
    if (statement.attempts === 0) this.#adapter.mayHedge()
    this.#hedgeLater(statement)
  }

  #hedgeLater(statement: Statement): void {
    const { connection } = statement
    if (statement.isOver || statement.second !== undefined || connection === undefined) return
    const number = this.#adapter.hedge(connection.number, statement.key)
    const other = this.#members.get(number)
    if (other !== undefined) {
      this.#hedged++
      new Hedge(statement)._run(other)
    } else if (number < 0 && number > -Infinity) {
      setTimeout(() => this.#hedgeLater(statement), delay(-number)).unref()
    }
  }

  // --- connections of one's own ---

  /** A connection for one caller, until it is released. */
  checkout(timeoutMs = this.#waitMs): Promise<Lease> {
    return new Promise((resolve, reject) => {
      if (this.#isClosing) return reject(closed())
      const borrower: Borrower = {
        served: (number) => {
          const connection = this.#members.get(number)
          // The connection was lost while it was being lent.
          if (connection === undefined) this.checkout(timeoutMs).then(resolve, reject)
          else resolve(new Lease(this, connection))
        },
        failed: (cause) => reject(this.#noConnection(cause)),
      }
      this.#adapter.checkout(borrower, timeoutMs)
    })
  }

  _release(connection: Connection): void {
    const condition = connection.share() ? Condition.DIRTY_HOLDING : Condition.CLEAN
    if (this.#members.get(connection.number) !== connection) return
    this.#adapter.release(connection.number, condition)
  }

  #noConnection(cause: number): PostgresError {
    if (cause === PoolCause.CLOSED) return closed()
    if (cause === PoolCause.LOST) return misuse('connection_lost', ENGINE_LOST)
    if (cause === PoolCause.LINE_FULL)
      return misuse(
        'waiting_full',
        `too many callers wait for a connection: ${this.settings.number('waiting_max')} do already ` +
          '(waitingMax); make fewer calls at once, or raise waitingMax or connectionsMax',
      )
    const last = this.#lastError
    if (cause === PoolCause.OPEN_FAILED && last !== undefined) return again(last, 'NotSent')
    const why = last === undefined ? '' : `; the last attempt to open one failed: ${last.message}`
    return new PostgresError(
      'wait_timeout',
      'NotSent',
      `no connection became free in time: up to ${this.settings.number('connections_max')} ` +
        '(connectionsMax) are in use or being opened, and a call waits for one for at most ' +
        `${this.#waitMs} ms (waitTimeoutMs)${why}`,
      last,
    )
  }

  // --- orders of the policy ---

  open(number: number): void {
    const connection = new Connection(this.settings, this.lineage, this)
    connection.number = number
    this.#members.set(number, connection)
  }

  reset(number: number): void {
    this.#members.get(number)?.reset()
  }

  close(number: number): void {
    const connection = this.#members.get(number)
    if (connection === undefined) return
    this.#members.delete(number)
    this.#retiring.delete(number)
    this.#closing++
    connection.terminate()
  }

  scout(): void {
    this.#closing++
    this.#scout = new Connection(this.settings, this.lineage, this, true)
  }

  /** What the scout has met stands in the lineage, which closes what is open to a former primary. */
  #scouted(connection: Connection): void {
    if (this.#scout !== connection) return
    this.#scout = undefined
    this.#adapter.scouted()
  }

  closed(): void {
    this.#isOver = true
    this.#scout?.destroy(closed())
    this.#finish()
  }

  // --- events of connections ---

  opened(connection: Connection): void {
    if (this.#members.get(connection.number) !== connection) {
      this.#scouted(connection)
      return connection.terminate()
    }
    this.#lastError = undefined
    this.#opened.add(connection)
    connection.share()
    this.#watcher?.mark(connection.address)
    this.#adapter.opened(connection.number, connection.address)
  }

  gone(connection: Connection, permanent: boolean): void {
    const { number } = connection
    if (this.#members.get(number) !== connection) {
      this.#closing--
      this.#scouted(connection)
      return this.#finish()
    }
    this.#members.delete(number)
    this.#retiring.delete(number)
    if (this.#opened.has(connection)) return this.#adapter.lost(number)
    this.#lastError = connection.why
    this.#adapter.openFailed(number, permanent)
  }

  answered(connection: Connection): void {
    const { number } = connection
    if (this.#members.get(number) === connection) this.#adapter.answered(number)
  }

  changed(connection: Connection): void {
    const { number } = connection
    if (this.#members.get(number) !== connection || this.#retiring.has(number)) return
    this.#retiring.add(number)
    this.#adapter.retire(number)
  }

  /** The positions of what is written here are told to them. */
  watchedBy(replicas: Replicas): void {
    this.#watcher = replicas
  }

  uncertain(what: number): void {
    if (this.#watcher?.uncertain(what) !== true) return
    for (const { address } of this.#members.values()) this.#watcher.mark(address)
  }

  positioned(mark: number, start: number, end: number): void {
    this.#watcher?.positioned(mark, start, end)
  }

  /** Closes connections on which nothing is unanswered but questions of this side. */
  leaveQuestions(): void {
    for (const connection of [...this.#members.values()]) {
      const { pending, questions } = connection
      if (questions > 0 && pending === questions) connection.destroy(closed())
    }
  }

  heldUp(key: number, requests: number, millis: number): void {
    this.#slow.add(key, requests, millis)
  }

  // --- its end ---

  get stats(): PoolStats {
    const { connections, idle, waiting } = this.#adapter
    const { all, list } = this.#slow
    const hedged = this.#hedged
    return { connections, idle, waiting, waitedBehindSlow: all, slowNeighbours: list, hedged }
  }

  /**
   * Takes no new work. Resolves when all is answered, callers in line included; after `timeoutMs`
   * those are refused and connections are cut.
   */
  end(timeoutMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.#whenOver.push(resolve)
      if (!this.#isClosing) {
        this.#isClosing = true
        this.#adapter.close()
        for (const [statement, timer] of this.#pausing) {
          clearTimeout(timer)
          statement.fail(closed(), 'NotSent')
        }
        this.#pausing.clear()
      }
      if (timeoutMs < Infinity) this.#endLater(timeoutMs)
      else this.#cutHeld()
      if (this.#isOver) this.#finish()
    })
  }

  /** Cuts what is up to callers once nothing moves: they may be waiting for this end. */
  #cutHeld(): void {
    const moves = (): number => {
      let sum = 0
      for (const connection of this.#members.values()) sum += connection.moves
      return sum
    }
    const standstill = new Standstill(moves, () => {
      for (const connection of [...this.#members.values()]) {
        if (!connection.isUpToCaller) continue
        warnOfHeld('A session, transaction, stream or COPY')
        connection.destroy(heldTooLong())
      }
    })
    this.#whenOver.push(() => standstill.stop())
  }

  #endLater(timeoutMs: number): void {
    const timer = setTimeout(() => {
      const why = new PostgresError(
        'connection_lost',
        'Unknown',
        'the client was ended before the answer came',
      )
      this.#adapter.cut()
      for (const connection of [...this.#members.values()]) connection.destroy(why)
    }, delay(timeoutMs))
    this.#whenOver.push(() => clearTimeout(timer))
  }

  #finish(): void {
    if (!this.#isOver || this.#closing > 0) return
    for (const tell of this.#whenOver.splice(0)) tell()
    this.#adapter.free()
    this.lineage.release(this)
  }
}

function heldTooLong(): PostgresError {
  const message = 'the client was ended, and this connection was held while nothing moved'
  return new PostgresError('connection_lost', 'Unknown', message)
}

export function closed(): PostgresError {
  return misuse('closed', 'the client was ended')
}
