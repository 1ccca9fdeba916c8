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
import type { Occupant } from './occupants'
import { Pipeline } from './pipeline'
import { closed, Pool } from './pool'
import type { Defaults, Query } from './query'
import type { Stats } from './slow-neighbours'
import type { Position } from './position'
import { NO_READS, ReplicaSet, type Reads } from './reads'
import type { Rows } from './rows'
import { Statement } from './statement'
import { tagOf, type Part, type Tag } from './tag'
import { copyFrom, copyTo, type CopyIn, type CopyOut } from './copy'
import type { TransactionOptions } from './begin'
import { Borrowed, Level, Transaction } from './transaction'

/** The results of a list of statements, in their order. */
export type Results<Q extends readonly unknown[]> = {
  -readonly [I in keyof Q]: Q[I] extends Query<infer Row> ? Rows<Row> : never
}

/** The options of `begin`. */
export interface BeginOptions extends TransactionOptions {
  /**
   * Whether the transaction is run again after a serialization failure (40001), a deadlock
   * (40P01) or an error that comes of a migration. The function then runs several times: up to 10 attempts, or `attemptsMax`, with pauses
   * that double from 5 ms to 1 s. A COMMIT of unknown outcome is never run again. Default false.
   */
  readonly retry?: boolean | { readonly attemptsMax: number } | undefined
}

type Run<T, X> = (tx: X) => Promise<T> | T

/** COPY, in every scope that has a connection for it. */
interface Streams {
  /** Runs a COPY … FROM STDIN. Write its data to the stream. */
  copyFrom(strings: TemplateStringsArray, ...fragments: readonly Part[]): CopyIn
  /** Runs a COPY … TO STDOUT. Read its data from the stream. */
  copyTo(strings: TemplateStringsArray, ...fragments: readonly Part[]): CopyOut
}

/** A transaction, as the argument of the function of `begin`. It ends when the function does. */
export interface Tx extends Tag, Streams {
  /**
   * Runs a function behind a savepoint. If the function throws, its statements are undone, and the
   * transaction goes on. If it returns an array of statements, they are sent, and `savepoint`
   * resolves to their results.
   */
  savepoint<const Q extends readonly [Query<unknown>, ...Query<unknown>[]]>(
    run: Run<Q, Tx>,
  ): Promise<Results<Q>>
  savepoint<T>(run: Run<T, Tx>): Promise<Unwrapped<T>>
  /** Sends statements together. If one fails, the transaction can only be rolled back. */
  pipeline<const Q extends readonly Query<unknown>[]>(queries: Q): Promise<Results<Q>>
}

interface Begins {
  /**
   * Runs a function in a transaction on a connection of its own. BEGIN leaves with the first
   * statement. When the function returns, the transaction is committed; when it throws, it is
   * rolled back, and `begin` rejects with that error. If the function returns an array of
   * statements, they leave together with COMMIT, and `begin` resolves to their results. Otherwise
   * it resolves to the function's value, once the server has confirmed the COMMIT. If no statement
   * is sent, neither BEGIN nor COMMIT is.
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

/** The value of a function: the results, if it returned statements. */
type Unwrapped<T> = T extends readonly Query<unknown>[] ? Results<T> : Awaited<T>

/**
 * A connection of one caller's own, for session state: SET, temporary tables, advisory locks.
 */
export interface Session extends Tag, Begins, Streams, AsyncDisposable {
  /**
   * Gives the connection back, once all its statements are answered. It is reset before its next
   * user. Streams that are half read and COPYs that are open are ended. Until it is released, a
   * session keeps its connection and keeps the process alive, unless nobody can reach it any more.
   */
  release(): void
}

/** A client of a database: a tag whose statements share a pool of connections. */
export interface Sql extends Tag, Begins, Streams, AsyncDisposable {
  /**
   * Sends statements with one sync point, in one trip: all of them take effect, or none. Resolves
   * to their results. Rejects with the error of the first statement that failed; its `statement` is
   * the index of that statement. If one is refused before anything is sent, all end as `NotSent`.
   */
  pipeline<const Q extends readonly Query<unknown>[]>(queries: Q): Promise<Results<Q>>
  pipeline<const Q extends readonly Query<unknown>[]>(
    make: (tag: Tag) => Q | Promise<Q>,
  ): Promise<Results<Q>>
  /**
   * Reads that replicas may serve, where the setting `reads` sends them there, and that show this
   * client's own writes. Make it once and keep it, or call it for each read.
   */
  reads(): Reads
  /**
   * Resolves to the position in the log behind all writes that this client had acknowledged before
   * the call: a token for `reads().after(…)`, here or in another process. That costs no trip where
   * `reads` is set and the position is known, which it mostly is once a write was acknowledged;
   * otherwise one, to the primary. Rejects with `no_position` on a standby.
   */
  position(): Promise<Position>
  /**
   * Resolves to a connection of the caller's own, which must be released. Rejects with
   * `wait_timeout` if none is free within `waitTimeoutMs` (default 30,000).
   */
  session(): Promise<Session>
  /**
   * Listens to channels, on a connection of its own that is opened again when it is lost. Throws on
   * a client that was ended (`closed`).
   */
  listen(...channels: readonly [string, ...string[]]): Listener
  /**
   * Takes no new statements. Resolves when all are answered, all sessions released and all
   * connections closed. After `timeoutMs` (default: no limit) connections that are left are cut,
   * and their statements end as `Unknown`. Without a limit, sessions, transactions, streams and
   * COPYs that nobody uses are cut once nothing has moved for 5 s. Listeners are not ended.
   */
  end(options?: { readonly timeoutMs?: number }): Promise<void>
  /** The state of the pool and of the replicas now, and counts of what became of statements. */
  readonly stats: Stats
}

/**
 * Makes a client of a PostgreSQL database. It connects when the first statement needs a connection.
 * End it with `end`, or declare it with `await using`. An idle client does not keep the process
 * alive.
 *
 * Give a URL, an object, or a URL and an object. Settings that are left out are taken from the
 * environment (`PGHOST` and so on), then from the defaults. A wrong setting is a `TypeError`.
 */
export function postgres(config?: string | Config, more?: Config): Sql {
  const settings = new Settings(more === undefined ? config : withUrl(config, more))
  const pool = new Pool(settings)
  const defaults: Defaults = {
    timeoutMs: settings.number('request_timeout_ms'),
    cancelsLate: settings.isOn('cancel_on_timeout'),
  }
  const scope: LendingScope = Object.assign(pool, {
    _occupants: undefined,
    _lend: () => lendOf(pool),
  })
  const make = (): ReplicaSet =>
    new ReplicaSet(pool, (settings) => new Pool(settings, pool.lineage), defaults)
  let made = settings.replicas().length > 0 ? make() : undefined
  const set = (): ReplicaSet => (made ??= make())
  const end = async ({ timeoutMs = Infinity }: { timeoutMs?: number } = {}): Promise<void> => {
    await Promise.all([pool.end(timeoutMs), made?.end(timeoutMs)])
  }
  const sql = tagOf(scope, defaults, {
    begin: beginOn(defaults, () => borrowFrom(pool)),
    pipeline: pipelineOn(pool, defaults),
    reads: () => set().reads(),
    position: () => set().position(),
    session: () => sessionOf(pool, defaults),
    listen: (...channels: string[]) => {
      if (pool.isClosing) throw closed()
      return new Listener(settings, pool.lineage, channels)
    },
    end,
    ...streamsOn(scope),
    [ASYNC_DISPOSE]: () => end(),
  })
  const stats = { get: () => ({ ...pool.stats, ...(made?.stats ?? NO_READS) }), enumerable: true }
  return Object.defineProperty(sql, 'stats', stats) as unknown as Sql
}

function withUrl(url: string | Config | undefined, more: Config): Config {
  if (typeof url === 'string' && more.url === undefined) return { ...more, url }
  const what = url === undefined ? ', not undefined: is its variable set?' : ''
  throw new TypeError(
    `postgres: with two arguments, the first is a URL and the object has no url${what}`,
  )
}

function pipelineOn(pool: Pool, defaults: Defaults) {
  return async (given: unknown): Promise<unknown> => {
    const pipeline = new Pipeline(pool)
    const bare: Defaults = { ...defaults, timeoutMs: 0, cancelsLate: true }
    const made: unknown =
      typeof given === 'function'
        ? await (given as (tag: Tag) => unknown)(tagOf(pipeline, bare, {}))
        : given
    const statements = statementsOf(made)
    if (statements.some(({ scope }) => scope instanceof Level || scope instanceof SessionScope))
      throw misuse(
        'wrong_place',
        'a statement of a session or a transaction runs on a connection of its own: use its pipeline, or await it',
      )
    return pipeline.send(statements)
  }
}

function statementsOf(given: unknown): readonly Statement[] {
  if (Array.isArray(given) && given.every((it) => it instanceof Statement)) return given
  throw misuse('not_statements', 'pipeline takes an array of statements that were made by sql`…`')
}

function beginOn(defaults: Defaults, borrow: () => Promise<Borrowed> | Borrowed) {
  return async (first: unknown, second?: unknown): Promise<unknown> => {
    const options = (second === undefined ? {} : first) as BeginOptions
    const run = (second === undefined ? first : second) as Run<unknown, Tx>
    if (typeof run !== 'function') throw misuse('wrong_argument', 'begin takes a function')
    const { retry = false, ...modes } = options
    const wrong = Object.keys(modes).find((name) => !MODES.has(name))
    if (wrong !== undefined)
      throw misuse('wrong_argument', `begin has no option ${wrong}: ${[...MODES].join(', ')}, retry`)
    const attemptsMax = typeof retry === 'object' ? retry.attemptsMax : retry ? 0 : 1
    for (let attempt = 1; ; attempt++) {
      const borrowed = await borrow()
      let transaction: Transaction | undefined
      let pause: number
      try {
        transaction = new Transaction(borrowed, options)
        return await runIn(transaction, defaults, run)
      } catch (error) {
        const runsAgain = transaction?.runsAgain
        await transaction?.rollback(error)
        pause = runsAgain ? pauseBehind(attempt, attemptsMax) : -1
        if (pause < 0) throw error
      } finally {
        borrowed.giveBack()
      }
      await new Promise((resolve) => setTimeout(resolve, pause))
    }
  }
}

/** The modes of a transaction, as options. */
const MODES = new Set(['isolation', 'readOnly', 'deferrable'])

async function borrowFrom(pool: Pool): Promise<Borrowed> {
  const lease = await pool.checkout()
  return new Borrowed(lease.connection, () => lease.release())
}

/** The pause in milliseconds before a transaction is run again; negative if it is not. */
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
  const statements = returned(transaction, value)
  await transaction.commit(statements)
  return statements.length === 0 ? value : Promise.all(statements.map((it) => it.settled()))
}

/** The statements that a function of the transaction has returned. */
function returned(transaction: Transaction, value: unknown): readonly Statement[] {
  const areStatements =
    Array.isArray(value) && value.length > 0 && value.every((it) => it instanceof Statement)
  return areStatements ? within(transaction, value) : []
}

/** Throws if one of them would run outside of the transaction, whatever becomes of that. */
function within(
  transaction: Transaction,
  statements: readonly Statement[],
): readonly Statement[] {
  if (statements.every(({ scope, isSent }) => isSent || transaction.has(scope))) return statements
  throw misuse(
    'wrong_place',
    'the statement would run outside of the transaction: make it by the argument of the function',
  )
}

/** Sends statements of a transaction, and waits until all have ended, since it goes on behind them. */
async function together(statements: readonly Statement[]): Promise<unknown[]> {
  const promises = statements.map((it) => it.settled())
  const ends = await Promise.allSettled(promises)
  const failed = ends.find((it) => it.status === 'rejected')
  if (failed?.status === 'rejected') throw failed.reason
  return Promise.all(promises)
}

function txOf(level: Level, defaults: Defaults): Tx {
  const scope: LendingScope = Object.assign(level, {
    _occupants: level.transaction.connection.occupants,
    _lend: (occupant: Occupant): Promise<Checkout> => lendOfLevel(level, occupant),
  })
  return tagOf(scope, defaults, {
    savepoint: <T>(run: Run<T, Tx>): Promise<T> =>
      level.transaction.savepoint(level, async (inner) => {
        const value = await run(txOf(inner, defaults))
        const statements = returned(level.transaction, value)
        return statements.length === 0 ? value : ((await together(statements)) as T)
      }),
    pipeline: async (given: unknown): Promise<unknown> =>
      together(within(level.transaction, statementsOf(given))),
    ...streamsOn(scope),
  }) as unknown as Tx
}

async function sessionOf(pool: Pool, defaults: Defaults): Promise<Session> {
  const scope = new SessionScope(await pool.checkout())
  const borrow = (): Borrowed => {
    const error = scope.check()
    if (error !== undefined) throw error
    scope.isInTransaction = true
    return new Borrowed(scope.connection, () => void (scope.isInTransaction = false))
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
