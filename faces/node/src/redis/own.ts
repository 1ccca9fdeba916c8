import { Condition, PoolCause } from '../engine/exports'
import { PoolAdapter } from '../engine/pool-adapter'
import { ENGINE_LOST } from '../engine/memory'
import { Standstill, warnOfHeld } from '../engine/standstill'
import type { Config, Server } from './config'
import { Connection, type Purpose, type Seat } from './connection'
import { closedError } from './line'
import { misuse, RedisError } from './error'

/** A connection that is lent to one caller. */
export interface Lease {
  readonly connection: Connection
  /** Gives the connection back. `spoiled`: it must not be used again, and is closed. */
  release(spoiled: boolean): void
}

/**
 * Connections that are lent to one caller at a time: to sessions, blocking commands and streams.
 * The engine's pool policy chooses them.
 */
export class Own {
  readonly #config: Config
  readonly #server: () => Server
  readonly #adapter: PoolAdapter
  readonly #connections = new Map<number, Connection>()
  readonly #purpose: Purpose
  #lastError: RedisError | undefined
  #isClosed = false
  #isOver = false
  #why: RedisError | undefined
  #closing: (() => void)[] = []
  #standstill: Standstill | undefined

  /** `server` returns the server of the shared connection, which may change. */
  constructor(config: Config, server: () => Server, purpose: Purpose) {
    this.#config = config
    this.#server = server
    this.#purpose = purpose
    const settings: [string, number][] = [
      ['connections_max', config.connectionsMax],
      ['wait_timeout_ms', config.waitTimeout],
      ['idle_timeout_ms', config.idleTimeout],
      ['lifetime_ms', 0],
      ['seated', purpose.seating === undefined ? 0 : 1],
      ['backoff_min_ms', 50],
      ['backoff_max_ms', 5000],
    ]
    this.#adapter = new PoolAdapter(settings, {
      open: (number) => this.#open(number),
      reset: () => {},
      close: (number) => this.#close(number),
      closed: () => {
        this.#isOver = true
        this.#standstill?.stop()
        this.#adapter.free()
        for (const resolve of this.#closing.splice(0)) resolve()
      },
    })
  }

  /**
   * Lends a connection, at once or when one is free. Returns a function that gives up waiting; that
   * returns false if it is too late.
   */
  borrow(
    timeout: number,
    served: (lease: Lease) => void,
    failed: (error: RedisError) => void,
  ): () => boolean {
    if (this.#isClosed) {
      failed(closedError())
      return () => false
    }
    const token = this.#adapter.checkout(
      {
        served: (number) => {
          const connection = this.#connections.get(number)
          // Connections to a server that Sentinels name no more are closed by themselves.
          const isHere = this.#purpose.seating !== undefined || connection?.server === this.#server()
          if (isHere && connection?.isReady === true) return served(this.#lease(number, connection))
          if (connection !== undefined) {
            this.#adapter.release(number, Condition.BROKEN)
            this.#close(number)
          }
          this.borrow(timeout, served, failed)
        },
        failed: (cause) => failed(this.#failure(cause)),
      },
      Math.min(timeout, this.#config.waitTimeout),
    )
    return () => this.#adapter.giveUp(token)
  }

  #lease(number: number, connection: Connection): Lease {
    let released = false
    return {
      connection,
      release: (spoiled) => {
        if (released) return
        released = true
        const clean = !spoiled && connection.isReady && connection.unanswered === 0
        this.#adapter.release(number, clean ? Condition.CLEAN : Condition.BROKEN)
        if (!clean) this.#close(number)
      },
    }
  }

  /**
   * Closes the connections that are unused, and the others when they come back. Callers in line are
   * served, unless `why` says why they can't be: then they fail with it.
   */
  close(why?: RedisError): Promise<void> {
    this.#isClosed = true
    this.#why ??= why
    if (this.#isOver) return Promise.resolve()
    this.cutStill()
    return new Promise((resolve) => {
      this.#closing.push(resolve)
      if (why === undefined) this.#adapter.close()
      else this.#adapter.cut()
    })
  }

  /**
   * From now on, cuts connections that are lent once nothing moves: their callers may be waiting for
   * the end of the client.
   */
  cutStill(): void {
    if (this.#isOver) return
    const moves = (): number => {
      let sum = 0
      for (const connection of this.#connections.values()) sum += connection.moves
      return sum
    }
    this.#standstill ??= new Standstill(moves, () => {
      for (const connection of [...this.#connections.values()]) {
        if (!connection.isStill) continue
        warnOfHeld('A session, stream or blocking call of Redis')
        connection.abort(heldTooLong())
      }
    })
  }

  /** Ends all of them now. */
  destroy(error: RedisError): void {
    for (const connection of this.#connections.values()) connection.abort(error)
  }

  #open(number: number): void {
    const seat: Seat = {
      ready: (connection) => this.#adapter.opened(number, connection.address),
      drained: () => {},
      push: () => {},
      again: () => false,
      returned: (calls) => {
        const error = misuse('queue_full', 'the connection takes no more: wait for replies')
        calls.forEach((call) =>
          call.fail(this.#connections.get(number)?.reason ?? error, 'NotSent'),
        )
      },
      answered: () => {},
      ended: (connection, error, permanent) => this.#ended(number, connection, error, permanent),
    }
    this.#connections.set(number, new Connection(this.#config, this.#server(), this.#purpose, seat))
  }

  #ended(number: number, connection: Connection, error: RedisError, permanent: boolean): void {
    if (this.#connections.get(number) !== connection) return
    this.#connections.delete(number)
    this.#lastError = error
    if (connection.protocol === 0) this.#adapter.openFailed(number, permanent)
    else this.#adapter.lost(number)
  }

  #close(number: number): void {
    const connection = this.#connections.get(number)
    this.#connections.delete(number)
    if (connection === undefined) return
    if (connection.unanswered > 0) connection.abort(closedError())
    else connection.end()
  }

  #failure(cause: number): RedisError {
    if (cause === PoolCause.OPEN_FAILED && this.#lastError !== undefined) return this.#lastError
    if (cause === PoolCause.CLOSED) return this.#why ?? closedError()
    if (cause === PoolCause.LOST) return misuse('connection_lost', ENGINE_LOST)
    if (cause === PoolCause.LINE_FULL)
      return misuse(
        'waiting_full',
        'too many callers wait for a connection: raise connectionsMax, or call less at once',
      )
    const { connectionsMax, waitTimeout } = this.#config
    const message =
      `no connection became free in time: up to ${connectionsMax} (connectionsMax) are lent, and a ` +
      `call waits for one for at most ${waitTimeout} ms (waitTimeout)`
    return new RedisError(message, 'wait_timeout', 'NotSent')
  }
}

function heldTooLong(): RedisError {
  const message = 'the client was closed, and this connection was held while nothing moved'
  return new RedisError(message, 'closed', 'Unknown')
}
