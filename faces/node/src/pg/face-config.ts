import type { Duplex } from 'node:stream'
import type { ConnectionOptions } from 'node:tls'

import type { ClientBase, Connection, PoolClient } from './face'

/** Looks up the parser of a type: `types`, or any object with this method. */
export interface CustomTypesConfig {
  getTypeParser(oid: number, format?: 'text' | 'binary'): any
}

/**
 * Where to connect, as whom, and how. Fields that are left out are taken from the environment
 * (`PGHOST` and so on), then from `defaults`.
 */
export interface ClientConfig {
  user?: string | undefined
  database?: string | undefined
  /** The password, or a function that returns one each time that a connection is made. */
  password?: string | (() => string | Promise<string>) | undefined
  port?: number | undefined
  /** A name or an address; if it begins with a slash, the directory of a Unix socket. */
  host?: string | undefined
  /** A connection string. Its parts win over the other fields. */
  connectionString?: string | undefined
  /** TLS: true, or options of `tls.connect`. */
  ssl?: boolean | ConnectionOptions | undefined
  /** `direct`: TLS begins at once, without asking the server first (PostgreSQL 17). */
  sslnegotiation?: 'postgres' | 'direct' | undefined
  /** Binds SCRAM to the TLS connection if the server can. Default false. */
  enableChannelBinding?: boolean | undefined
  /** The most SCRAM iterations that a server may ask for; 0 for any number. Default 100,000. */
  scramMaxIterations?: number | undefined
  /** Turns TCP keepalives on. Default false. */
  keepAlive?: boolean | undefined
  /** Milliseconds of silence before the first keepalive. Default 0: the system's. */
  keepAliveInitialDelayMillis?: number | undefined
  /** Milliseconds until connecting fails. Default 0: no limit. */
  connectionTimeoutMillis?: number | undefined
  /**
   * The deadline of a query in milliseconds, its waits included. A late query fails with `Query
   * read timeout`; other queries are not affected. Default: none.
   */
  query_timeout?: number | undefined
  /** A timeout of the server in milliseconds, as are the next two. */
  statement_timeout?: false | number | undefined
  lock_timeout?: number | undefined
  idle_in_transaction_session_timeout?: number | undefined
  application_name?: string | undefined
  fallback_application_name?: string | undefined
  /** Command-line options for the server process: `-c name=value`. */
  options?: string | undefined
  client_encoding?: string | undefined
  replication?: string | undefined
  /** A socket that is not connected, or a function that makes one. */
  stream?: (() => Duplex) | Duplex | undefined
  /** A `Connection` that was made for this client. */
  connection?: Connection | undefined
  /** The parsers of this client. Default: `types`. */
  types?: CustomTypesConfig | undefined
  /** Asks for results in binary form. Default false. */
  binary?: boolean | undefined
  /**
   * Sends queries at once, without waiting for the answers to earlier ones. Each query fails alone.
   * `pool.query` then shares connections among callers. Default false.
   */
  pipeline?: boolean | undefined
  /** Another name for `pipeline`. */
  pipelineMode?: boolean | undefined
  /** The most queries in flight on a client; further queries wait. Default 1000. */
  pipelineMaxQueries?: number | undefined
  /** Holds a plain BEGIN back, and sends it with the first statement. Default true. */
  holdBegin?: boolean | undefined
  /** Prepares a statement with values at its fifth use on a connection. Default true. */
  autoPrepare?: boolean | undefined
  /** The class of the promises that are returned. Default: `Promise`. */
  Promise?: PromiseConstructorLike | undefined
}

/** Another name for `ClientConfig`. */
export type ConnectionConfig = ClientConfig

/**
 * The defaults of configurations. Fields may be assigned, and apply to clients that are made later.
 */
export interface Defaults extends ClientConfig {
  /** Has no effect, as in pg; neither have the next two. */
  poolSize?: number | undefined
  poolIdleTimeout?: number | undefined
  reapIntervalMillis?: number | undefined
  max?: number | undefined
  idleTimeoutMillis?: number | undefined
  rows?: number | undefined
  /** Sends Dates as parameters in UTC, and not in local time with its offset. */
  parseInputDatesAsUTC?: boolean | undefined
  /**
   * Decodes int8 and its arrays as numbers (true) or as strings (false), in the whole process. It
   * can only be set, not read.
   */
  parseInt8?: boolean | undefined
}

/** The configuration of a pool and of its clients. */
export interface PoolConfig extends ClientConfig {
  /** The most clients. Default 10. */
  max?: number | undefined
  /** Idle clients that are not closed for being idle. Default 0. */
  min?: number | undefined
  /** Milliseconds after which an idle client is closed; 0 for never. Default 10,000. */
  idleTimeoutMillis?: number | null | undefined
  /** How often a client is used before it is closed. Default: any number. */
  maxUses?: number | undefined
  /** Seconds after which a client is closed. Default 0: never. */
  maxLifetimeSeconds?: number | undefined
  /** Lets the process end while clients are idle. Default false. */
  allowExitOnIdle?: boolean | undefined
  /** Called with each new client before it is lent. If it rejects, so does the caller's request. */
  onConnect?: ((client: PoolClient) => void | Promise<void>) | undefined
  /** Called with each new client. If it calls `done` with an error, the client is closed. */
  verify?: ((client: PoolClient, done: (error?: Error) => void) => void) | undefined
  /** Is called with messages about the pool's work. */
  log?: ((...messages: any[]) => void) | undefined
  /** The class of the clients. Default: `Client`. */
  Client?: (new (config?: ClientConfig) => ClientBase) | undefined
}

/** A pool's configuration with the defaults filled in. */
export interface PoolOptions extends PoolConfig {
  max: number
  min: number
  maxUses: number
  maxLifetimeSeconds: number
  allowExitOnIdle: boolean
  idleTimeoutMillis: number | null
}

/** The type of a query's values. */
export type QueryConfigValues<T> = T extends (infer _)[] ? T : never

/** A query and its options. */
export interface QueryConfig<I = any[]> {
  /** One statement, or, without values, several with semicolons between them. */
  text: string
  /** The values of `$1`, `$2`, … */
  values?: QueryConfigValues<I> | undefined
  /** Prepares the statement under this name at its first use on a connection. */
  name?: string | undefined
  /** The parsers of this query. Default: those of the client. */
  types?: CustomTypesConfig | undefined
  /** `extended`: uses the extended protocol even without values. */
  queryMode?: string | undefined
  /** Asks for results in binary form: parsers get bytes. */
  binary?: boolean | undefined
  /**
   * The deadline in milliseconds, the wait in the queue included. A late query fails with `Query
   * read timeout`. Default: that of the client.
   */
  query_timeout?: number | undefined
  /**
   * Ends the query when the signal is aborted, with an error whose name is `AbortError`. If it was
   * sent, the server is asked to cancel it, unless that could hit another query.
   */
  signal?: AbortSignal | undefined
  /** `array`: rows are arrays. */
  rowMode?: string | undefined
  /**
   * With `pipeline: true`, keeps other queries off its connection while it runs, as long as the
   * pool has another connection or may open one. For queries that are known to be slow.
   */
  alone?: boolean | undefined
}

/** A query whose rows are arrays. */
export interface QueryArrayConfig<I = any[]> extends QueryConfig<I> {
  rowMode: 'array'
}

/** A query that runs itself on a connection, such as a cursor. */
export interface Submittable {
  submit(connection: Connection): void
}

/**
 * A statement to prepare. The empty name is that of the unnamed statement, which the next replaces.
 */
export interface QueryParse {
  name: string
  text: string
  types: string[]
}

/** Binds values to a prepared statement, as a portal. */
export interface BindConfig {
  portal?: string | undefined
  statement?: string | undefined
  binary?: string | undefined
  values?: (Buffer | string | null | undefined)[] | undefined
  valueMapper?: ((value: any, index: number) => any) | undefined
}

/** Runs a portal for `rows` rows at most. */
export interface ExecuteConfig {
  portal?: string | undefined
  rows?: string | undefined
}

/** A prepared statement (`S`) or a portal (`P`), by name. */
export interface MessageConfig {
  type: string
  name?: string | undefined
}

/** `I` (idle), `T` (in a transaction) or `E` (in a failed transaction); null before the login. */
export type TransactionStatus = 'I' | 'T' | 'E' | null
