/**
 * A drop-in for `pg`: the interface that programs written for `pg` use.
 *
 * The programs of users are checked against these declarations; the code is in the files beside
 * this one. Rows and values are `any` unless a type is given, as in `@types/pg`.
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
 * The transport to a server: a socket, and TLS on it.
 *
 * Emits `connect`, `sslconnect`, `end`, and the server's messages, each under its name and as
 * `message`.
 */
export declare class Connection extends EventEmitter {
  constructor(config?: ClientConfig)

  readonly stream: Socket
  readonly ssl: boolean | ConnectionOptions

  // For queries that run themselves, while the connection is lent to them.
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

/** The method `query` of clients and pools. */
export interface Queries {
  /**
   * Runs a query: a text with values, a configuration, or an object that runs itself, which is
   * returned. The bytes leave at the end of the turn of the event loop: at once with `pipeline:
   * true`, otherwise once the queries before it are answered. The promise resolves when the server
   * has confirmed the query.
   *
   * A text without values may have several statements; the result is then an array of results. It
   * rejects with a `DatabaseError` if the server refuses the query. Each error has an `outcome`,
   * which says what is known of the effect. A pool runs the query on a client that is lent for it
   * or, with `pipeline: true`, on a connection that callers share.
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
  /** Whether TLS is used, or its options; a boolean in `@types/pg`. */
  ssl: any
  /** The process ID of the server process; null before it is connected. */
  readonly processID: number | null
  readonly connection: Connection
  /** Whether queries are sent without waiting for the answers to earlier ones. */
  readonly pipeline: boolean
  /** The number of queries that are sent and not answered. */
  readonly pendingQueryCount: number

  /** Connects; a client can do so once. Resolves to the client when the login has succeeded. */
  connect(): Promise<this>
  connect(callback: (error: any, client: this) => void): void

  /** `I`, `T` (in a transaction) or `E` (in a failed one); null before it is connected. */
  getTransactionStatus(): TransactionStatus
  setTypeParser: typeof pgTypes.setTypeParser
  getTypeParser: typeof pgTypes.getTypeParser
  /** Quotes a name as an identifier. */
  escapeIdentifier(name: string): string
  /** Quotes a text as a literal. Parameters are safer. */
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
 * Emits `connect`, `end`, `error` (the connection failed; the errors of queries are not emitted),
 * `notice`, `notification`, and `drain` when no query waits for an answer. With `pipeline: true` it
 * also emits `pipelineFull` when a query has to wait for the window and, once for each of these,
 * `pipelineDrain` when no query waits and less than three quarters of the window is in use.
 */
export declare class Client extends ClientBase {
  /**
   * Ends a query of a client early. If it was not sent, it fails at once. Otherwise the server is
   * asked to cancel it, if that can hit no other query.
   */
  cancel(client: ClientBase, query: Query): void
  /**
   * Ends the connection. Resolves when it is closed. With `pipeline: true` the queries before are
   * answered first; otherwise a query that runs fails.
   */
  end(): Promise<void>
  end(callback: (error: Error) => void): void
  /** Keeps the process alive while the client is connected, which is the default. */
  ref(): void
  unref(): void
}

/** A client that a pool lent. */
export interface PoolClient extends Client {
  /** Gives the client back, once. With an error or `true` it is closed. */
  release(error?: Error | boolean): void
}

/** `pool.query` runs a query on one of its clients. */
export interface Pool extends Queries {}

/** Gives a client back to its pool. With an error or another true value it is closed. */
export type Release = (error?: any) => void

/**
 * A pool of clients, which are lent to callers.
 *
 * Emits `connect` for each new client, `acquire` and `release` when a client is lent and given
 * back, `remove` when one is closed, and `error` when an idle client fails. Without a listener of
 * `error` that is a warning of the process.
 */
export declare class Pool extends EventEmitter {
  constructor(config?: PoolConfig)

  options: PoolOptions
  /** Clients, those that are being connected included. */
  readonly totalCount: number
  /** Clients that are unused. */
  readonly idleCount: number
  /** Callers that wait for a client. */
  readonly waitingCount: number
  /** Lent clients that are past their lifetime, and will be closed when they come back. */
  readonly expiredCount: number
  readonly ending: boolean
  readonly ended: boolean

  /**
   * Lends a client; give it back with its `release`. Rejects if connecting fails, or if no client
   * is free within `connectionTimeoutMillis`.
   */
  connect(): Promise<PoolClient>
  connect(
    callback: (error: Error | undefined, client: PoolClient | undefined, release: Release) => void,
  ): void
  /**
   * Serves callers that wait, and takes no new ones. Closes idle clients now, and the others when
   * they come back. Resolves when all are closed.
   */
  end(): Promise<void>
  end(callback: () => void): void

  on(event: 'connect' | 'acquire' | 'remove', listener: (client: PoolClient) => void): this
  on(event: 'error', listener: (error: Error, client: PoolClient) => void): this
  on(event: 'release', listener: (error: Error, client: PoolClient) => void): this
  on(event: string | symbol, listener: (...args: any[]) => void): this
}

/** Called once, with the error or the result of a query. */
export type QueryCallback<R extends QueryResultRow> = (
  error: Error | undefined,
  result: ResultBuilder<R>,
) => void

/**
 * A query as an object. Emits `row` (with the row and the result), `end` (with the result) and
 * `error`.
 *
 * The result keeps the rows, unless there is a listener of `row` and no callback.
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

/** A type of `@types/pg`, for the listeners of a pool's errors. There are no objects of it. */
export declare class Events extends EventEmitter {
  on(event: 'error', listener: (error: Error, client: Client) => void): this
}

/** The parsers of one client: its own, and for all other types those of its source. */
export declare class TypeOverrides implements CustomTypesConfig {
  constructor(types?: CustomTypesConfig)
  setTypeParser<T>(oid: number, parse: (text: string) => T): void
  setTypeParser<T>(oid: number, format: 'text', parse: (text: string) => T): void
  setTypeParser<T>(oid: number, format: 'binary', parse: (bytes: Buffer) => T): void
  getTypeParser: typeof pgTypes.getTypeParser
}

/**
 * The parsers of the package `pg-types`. It is the same object, so a parser that is registered here
 * applies to the whole process.
 */
export declare const types: typeof pgTypes
/** The defaults of configurations in this process. */
export declare const defaults: Defaults
/** Quotes a name as an identifier. */
export declare function escapeIdentifier(name: string): string
/** Quotes a text as a literal. Parameters are safer. */
export declare function escapeLiteral(text: string): string
/** Null: there is no client over libpq. With pg it is null if `pg-native` is missing. */
export declare const native: typeof import('./face') | null
