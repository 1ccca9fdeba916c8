/**
 * A drop-in for `pg`: its surface, as programs that were written for it use it.
 *
 * These declarations are what users' programs are checked against; what they declare is in the
 * files beside this one. Rows and values are `any` where nobody said otherwise, for so do programs
 * expect them that were checked against the types of pg.
 *
 * @module pg
 */
import type { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import type { ConnectionOptions } from 'node:tls'
import type * as pgTypes from 'pg-types'

import type {
  BindConfig,
  ClientConfig,
  CustomTypesConfig,
  Defaults,
  ExecuteConfig,
  MessageConfig,
  PoolConfig,
  PoolOptions,
  QueryArrayConfig,
  QueryConfig,
  QueryConfigValues,
  QueryParse,
  Submittable,
  TransactionStatus,
} from './face-config'
import type {
  NoticeMessage,
  Notification,
  QueryArrayResult,
  QueryResult,
  QueryResultRow,
  ResultBuilder,
} from './face-result'

export type * from './face-config'
export * from './face-result'

/**
 * The way to a server: a socket, and TLS on it.
 *
 * Emits `connect`, `sslconnect`, `end`, and what the server says: under the names of its messages,
 * and all of it as `message`.
 */
export declare class Connection extends EventEmitter {
  constructor(config?: ClientConfig)

  readonly stream: Socket
  readonly ssl: boolean | ConnectionOptions

  // What queries that run themselves say; each while it has the connection.
  parse(query: QueryParse, more?: boolean): void
  bind(config: BindConfig | null, more?: boolean): void
  describe(message: MessageConfig, more?: boolean): void
  execute(config: ExecuteConfig | null, more?: boolean): void
  close(message: MessageConfig, more?: boolean): void
  query(text: string): void
  flush(): void
  sync(): void
  end(): void
}

/** What runs queries. */
export interface Queries {
  /**
   * Runs a query: a text with values, a configuration, or an object that runs itself, which is
   * returned.
   *
   * Without values a text may have several statements; what comes is then an array of results. It
   * fails with a `DatabaseError` if the server refuses it. Each error has an `outcome`, which says
   * what is known of its effect. A pool runs it on a client that is lent for it or, with
   * `pipeline: true`, next to the queries of others.
   */
  query<T extends Submittable>(query: T): T
  query<R extends any[] = any[], I = any[]>(
    config: QueryArrayConfig<I>,
    values?: QueryConfigValues<I>,
  ): Promise<QueryArrayResult<R>>
  query<R extends QueryResultRow = any, I = any[]>(
    config: string | QueryConfig<I>,
    values?: QueryConfigValues<I>,
  ): Promise<QueryResult<R>>
  query<R extends any[] = any[], I = any[]>(
    config: QueryArrayConfig<I>,
    callback: (error: Error, result: QueryArrayResult<R>) => void,
  ): void
  query<R extends QueryResultRow = any, I = any[]>(
    config: string | QueryConfig<I>,
    callback: (error: Error, result: QueryResult<R>) => void,
  ): void
  query<R extends QueryResultRow = any, I = any[]>(
    config: string | QueryConfig<I>,
    values: QueryConfigValues<I>,
    callback: (error: Error, result: QueryResult<R>) => void,
  ): void
}

/** A client that a program made, or one that a pool lent. */
export interface ClientBase extends Queries {}
export declare class ClientBase extends EventEmitter {
  constructor(config?: string | ClientConfig)

  host: string
  port: number
  user?: string | undefined
  database?: string | undefined
  password?: string | undefined
  /** Whether there is TLS, or its options: `@types/pg` knows it as a boolean. */
  ssl: any
  /** The server's process that serves it; null before it is connected. */
  readonly processID: number | null
  readonly connection: Connection
  /** Whether queries are sent without waiting for those before them. */
  readonly pipeline: boolean
  /** Queries that were sent and not answered. */
  readonly pendingQueryCount: number

  /** Connects, once. Returns a promise of this client unless there is a callback. */
  connect(): Promise<this>
  connect(callback: (error: any, client: this) => void): void

  /** `I`, `T` (in a transaction) or `E` (in one that failed); null before it is connected. */
  getTransactionStatus(): TransactionStatus
  setTypeParser: typeof pgTypes.setTypeParser
  getTypeParser: typeof pgTypes.getTypeParser
  /** Quotes a name, so that it stands for itself in a statement. */
  escapeIdentifier(name: string): string
  /** Quotes a text as a literal. Values as parameters are safer. */
  escapeLiteral(text: string): string

  on(
    event: 'drain' | 'end' | 'connect' | 'pipelineFull' | 'pipelineDrain',
    listener: () => void,
  ): this
  on(event: 'error', listener: (error: Error) => void): this
  on(event: 'notice', listener: (notice: NoticeMessage) => void): this
  on(event: 'notification', listener: (message: Notification) => void): this
  on(event: string | symbol, listener: (...args: any[]) => void): this
}

/**
 * One connection to a server.
 *
 * Emits `connect`, `end`, `error` (the connection failed; queries tell of their own errors),
 * `notice`, `notification`, and `drain` when no query waits for an answer. When it pipelines, also
 * `pipelineFull` when a query has to wait for room and, once for each of these, `pipelineDrain`
 * when none waits and less than three quarters of the room is taken.
 */
export declare class Client extends ClientBase {
  /**
   * Ends a query of a client early: it is not sent, or the server is asked to cancel it if that
   * harms no other.
   */
  cancel(client: ClientBase, query: Query): void
  /** Ends the connection. A client that pipelines answers what it was asked before. */
  end(): Promise<void>
  end(callback: (error: Error) => void): void
  /** Keeps the process from ending while it is open, which is the default. */
  ref(): void
  unref(): void
}

/** A client that a pool lent. */
export interface PoolClient extends Client {
  /** Gives it back; with an error or `true` it is closed. Once. */
  release(error?: Error | boolean): void
}

/** Queries of its clients. */
export interface Pool extends Queries {}

/** Gives a client back to its pool; with an error, or what else is true, it is closed. */
export type Release = (error?: any) => void

/**
 * Clients that are lent to callers and come back.
 *
 * Emits `connect` for each new client, `acquire` and `release` when one is lent and comes back,
 * `remove` when one is closed, and `error` when an idle one fails: with nobody listening, that is a
 * warning.
 */
export declare class Pool extends EventEmitter {
  constructor(config?: PoolConfig)

  options: PoolOptions
  /** Clients, those that are being connected included. */
  readonly totalCount: number
  /** Clients that nobody has. */
  readonly idleCount: number
  /** Callers that wait for a client. */
  readonly waitingCount: number
  /** Clients that were closed for their age. */
  readonly expiredCount: number
  readonly ending: boolean
  readonly ended: boolean

  /** Lends a client, which is given back by its `release`. */
  connect(): Promise<PoolClient>
  connect(
    callback: (error: Error | undefined, client: PoolClient | undefined, release: Release) => void,
  ): void
  /** Closes idle clients now and the others when they come back. Resolves when all are closed. */
  end(): Promise<void>
  end(callback: () => void): void

  on(event: 'connect' | 'acquire' | 'remove', listener: (client: PoolClient) => void): this
  on(event: 'error', listener: (error: Error, client: PoolClient) => void): this
  on(event: 'release', listener: (error: Error, client: PoolClient) => void): this
  on(event: string | symbol, listener: (...args: any[]) => void): this
}

/** Called once, with what came of a query. */
export type QueryCallback<R extends QueryResultRow> = (
  error: Error | undefined,
  result: ResultBuilder<R>,
) => void

/**
 * A query as an object that emits `row` (with the row and the result), `end` (with what came) and
 * `error`.
 *
 * Rows are kept in the result unless somebody listens to `row` and there is no callback.
 */
export declare class Query<R extends QueryResultRow = any, I extends any[] = any>
  extends EventEmitter
  implements Submittable
{
  constructor(config?: string | QueryConfig<I>, callback?: QueryCallback<R>)
  constructor(config?: string | QueryConfig<I>, values?: I, callback?: QueryCallback<R>)
  submit(connection: Connection): void
  on(event: 'row', listener: (row: R, result?: ResultBuilder<R>) => void): this
  on(event: 'error', listener: (error: Error) => void): this
  on(event: 'end', listener: (result: ResultBuilder<R>) => void): this
  on(event: string | symbol, listener: (...args: any[]) => void): this
}

/** What `@types/pg` has for listeners of a pool's errors. Nothing makes one. */
export declare class Events extends EventEmitter {
  on(event: 'error', listener: (error: Error, client: Client) => void): this
}

/** Parsers of one client: its own, and those of its source for all other types. */
export declare class TypeOverrides implements CustomTypesConfig {
  constructor(types?: CustomTypesConfig)
  setTypeParser<T>(oid: number, parse: (text: string) => T): void
  setTypeParser<T>(oid: number, format: 'text', parse: (text: string) => T): void
  setTypeParser<T>(oid: number, format: 'binary', parse: (bytes: Buffer) => T): void
  getTypeParser: typeof pgTypes.getTypeParser
}

/**
 * The parsers of the package `pg-types`, the very object: what is registered here holds for the
 * whole process.
 */
export declare const types: typeof pgTypes
export declare const defaults: Defaults
/** Quotes a name, so that it stands for itself in a statement. */
export declare function escapeIdentifier(name: string): string
/** Quotes a text as a literal. Values as parameters are safer. */
export declare function escapeLiteral(text: string): string
/** There is no client over libpq: it is null, and so it may be with pg. */
export declare const native: typeof import('./face') | null
