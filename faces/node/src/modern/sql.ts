import { Settings, type Config } from './config'
import { ASYNC_DISPOSE } from './dispose'
import { memory } from '../engine/memory'
import { misuse } from './error'
import {
  lendOf,
  lendOfLevel,
  Session as SessionScope,
  type LendingScope,
  type Checkout,
} from './lending'
import { Listener } from './listener'
import { Pipeline } from './pipeline'
import { Pool } from './pool'
import type { Defaults, Query } from './query'
import type { Stats } from './slow-neighbours'
import type { Rows } from './rows'
import { Statement } from './statement'
import { tagOf, type Part, type Tag } from './tag'
import { copyFrom, copyTo, type CopyIn, type CopyOut } from './copy'
import type { TransactionOptions } from './begin'
import { type Level, Transaction } from './transaction'

/** The results of statements, in their order. */
export type Results<Q extends readonly unknown[]> = {
  -readonly [I in keyof Q]: Q[I] extends Query<infer Row> ? Rows<Row> : never
}

/** How a transaction is run. */
export interface BeginOptions extends TransactionOptions {
  /**
   * Whether it is run again after a serialization failure (40001) or a deadlock (40P01): up to 10
   * attempts, or as many as are said, with pauses that double from 5 ms to 1 s. The function then
   * runs several times.
   */
  readonly retry?: boolean | { readonly attemptsMax: number } | undefined
}

type Run<T, X> = (tx: X) => Promise<T> | T

/** What statements are given together with. */
interface Streams {
  /** COPY … FROM STDIN, whose data is what is written to the stream. */
  copyFrom(strings: TemplateStringsArray, ...fragments: readonly Part[]): CopyIn
  /** COPY … TO STDOUT, whose data is what is read from the stream. */
  copyTo(strings: TemplateStringsArray, ...fragments: readonly Part[]): CopyOut
}

/** A transaction: its statements. It ends with its function. */
export interface Tx extends Tag, Streams {
  /** Runs statements behind a savepoint: what throws undoes them, and the transaction goes on. */
  savepoint<T>(run: Run<T, Tx>): Promise<T>
  /** Sends statements together. The first that fails fails the transaction. */
  pipeline<const Q extends readonly Query<unknown>[]>(queries: Q): Promise<Results<Q>>
}

interface Begins {
  /**
   * Runs a function in a transaction on a connection of its own, and commits it. BEGIN leaves with
   * the first statement. What the function throws rolls back. Where it returns an array of
   * statements, these leave with COMMIT, and the result is theirs.
   */
  begin<const Q extends readonly [Query<unknown>, ...Query<unknown>[]]>(
    run: Run<Q, Tx>,
  ): Promise<Results<Q>>
  begin<T>(run: Run<T, Tx>): Promise<Unwrapped<T>>
  begin<const Q extends readonly [Query<unknown>, ...Query<unknown>[]]>(
    options: BeginOptions,
    run: Run<Q, Tx>,
  ): Promise<Results<Q>>
  begin<T>(options: BeginOptions, run: Run<T, Tx>): Promise<Unwrapped<T>>
}

/** What is awaited where it is returned. */
type Unwrapped<T> = T extends readonly Query<unknown>[] ? Results<T> : Awaited<T>

/**
 * A connection of one's own, for what lives in a session: SET, temporary tables, advisory locks.
 */
export interface Session extends Tag, Begins, Streams, AsyncDisposable {
  /** Gives it back. It is reset for its next user. */
  release(): void
}

/** A client of a database: a pool of connections that all statements share. */
export interface Sql extends Tag, Begins, Streams, AsyncDisposable {
  /**
   * Sends statements with one sync point: all of them take effect, or none. The first that fails is the error, whose
   * `statement` says which it was.
   */
  pipeline<const Q extends readonly Query<unknown>[]>(queries: Q): Promise<Results<Q>>
  pipeline<const Q extends readonly Query<unknown>[]>(
    make: (tag: Tag) => Q | Promise<Q>,
  ): Promise<Results<Q>>
  session(): Promise<Session>
  /** Notifications of channels, on a connection of its own that comes back by itself. */
  listen(...channels: readonly [string, ...string[]]): Listener
  /**
   * Takes nothing new, and resolves when all is answered and closed; after `timeoutMs` what is left
   * is cut.
   */
  end(options?: { readonly timeoutMs?: number }): Promise<void>
  /** Connections of any state, those that nobody uses, and callers that wait for one. */
  readonly stats: Stats
}

/**
 * A client of a database. It connects when it is first needed, and wants to be ended: by `end`, or
 * `await using`.
 *
 * `config` is a URL, an object, or a URL with an object behind it; what they don't say is taken
 * from the environment (`PGHOST` and so on).
 */
export function postgres(config?: string | Config, more?: Config): Sql {
  const settings = new Settings(more === undefined ? config : withUrl(config, more))
  const pool = new Pool(settings)
  const defaults: Defaults = {
    timeoutMs: settings.number('request_timeout_ms'),
    cancelsLate: settings.isOn('cancel_on_timeout'),
  }
  const scope: LendingScope = Object.assign(pool, { _lend: () => lendOf(pool) })
  const end = (options: { timeoutMs?: number } = {}): Promise<void> =>
    pool.end(options.timeoutMs ?? Infinity)
  return tagOf(scope, defaults, {
    begin: beginOn(defaults, () => pool.checkout()),
    pipeline: pipelineOn(pool, defaults),
    session: () => sessionOf(pool, defaults),
    listen: (...channels: string[]) => new Listener(settings, channels),
    end,
    get stats() {
      return pool.stats
    },
    ...streamsOn(scope),
    [ASYNC_DISPOSE]: () => end(),
  }) as unknown as Sql
}

function withUrl(url: string | Config | undefined, more: Config): Config {
  if (typeof url === 'string' && more.url === undefined) return { ...more, url }
  throw new TypeError('postgres: what stands behind a URL is an object without one')
}

function pipelineOn(pool: Pool, defaults: Defaults) {
  return async (given: unknown): Promise<unknown> => {
    const pipeline = new Pipeline(pool)
    const bare: Defaults = { ...defaults, timeoutMs: 0, cancelsLate: true }
    const made: unknown =
      typeof given === 'function'
        ? await (given as (tag: Tag) => unknown)(tagOf(pipeline, bare, {}))
        : given
    return pipeline.send(statementsOf(made))
  }
}

function statementsOf(given: unknown): readonly Statement[] {
  if (Array.isArray(given) && given.every((it) => it instanceof Statement)) return given
  throw misuse('not_statements', 'an array of statements that sql made was expected')
}

/** Who lends the connection of a transaction, and takes it back. */
interface Lent {
  readonly connection: Transaction['connection']
  release(): void
}

function beginOn(defaults: Defaults, borrow: () => Promise<Lent> | Lent) {
  return async (first: unknown, second?: unknown): Promise<unknown> => {
    const options = (second === undefined ? {} : first) as BeginOptions
    const run = (second === undefined ? first : second) as Run<unknown, Tx>
    const { retry = false } = options
    const attemptsMax = typeof retry === 'object' ? retry.attemptsMax : retry ? 0 : 1
    for (let attempt = 1; ; attempt++) {
      const lent = await borrow()
      let transaction: Transaction | undefined
      let pause: number
      try {
        transaction = new Transaction(lent.connection, options)
        return await runIn(transaction, defaults, run)
      } catch (error) {
        const runsAgain = transaction?.runsAgain
        await transaction?.rollback()
        pause = runsAgain ? pauseBehind(attempt, attemptsMax) : -1
        if (pause < 0) throw error
      } finally {
        transaction?.forget()
        lent.release()
      }
      await new Promise((resolve) => setTimeout(resolve, pause))
    }
  }
}

/** Before a transaction is run again that has failed so often; negative where it is not. */
function pauseBehind(failures: number, attemptsMax: number): number {
  const max = Math.min(attemptsMax, 0xffff_ffff)
  return memory.engine.onetrip_retry_pause(failures, max, Math.random())
}

async function runIn(
  transaction: Transaction,
  defaults: Defaults,
  run: Run<unknown, Tx>,
): Promise<unknown> {
  const value = await run(txOf(transaction.outermost, defaults))
  const statements =
    Array.isArray(value) && value.length > 0 && value.every((it) => it instanceof Statement)
      ? value
      : []
  await transaction.commit(statements)
  return statements.length === 0 ? value : Promise.all(statements.map((it) => it.settled()))
}

function txOf(level: Level, defaults: Defaults): Tx {
  const scope: LendingScope = Object.assign(level, {
    _lend: (): Promise<Checkout> => lendOfLevel(level),
  })
  return tagOf(scope, defaults, {
    savepoint: <T>(run: Run<T, Tx>): Promise<T> =>
      level.transaction.savepoint(level, async (inner) => run(txOf(inner, defaults))),
    pipeline: async (given: unknown): Promise<unknown> => {
      const promises = statementsOf(given).map((it) => it.settled())
      const ends = await Promise.allSettled(promises)
      const failed = ends.find((it) => it.status === 'rejected')
      if (failed?.status === 'rejected') throw failed.reason
      return Promise.all(promises)
    },
    ...streamsOn(scope),
  }) as unknown as Tx
}

async function sessionOf(pool: Pool, defaults: Defaults): Promise<Session> {
  const scope = new SessionScope(await pool.checkout())
  const borrow = (): Lent => {
    const error = scope.check()
    if (error !== undefined) throw error
    scope.isInTransaction = true
    return { connection: scope.connection, release: () => void (scope.isInTransaction = false) }
  }
  return tagOf(scope, defaults, {
    begin: beginOn(defaults, borrow),
    release: () => scope.release(),
    ...streamsOn(scope),
    [ASYNC_DISPOSE]: async () => scope.release(),
  }) as unknown as Session
}

function streamsOn(scope: LendingScope): Streams {
  return {
    copyFrom: (strings, ...values) => copyFrom(scope, strings, values),
    copyTo: (strings, ...values) => copyTo(scope, strings, values),
  }
}
