import type { Duplex } from 'node:stream'
import type { ConnectionOptions } from 'node:tls'

import type { ClientBase, Connection, PoolClient } from './face'

/** Looks up the parser of a type. `types` is one, and so is whatever has the method. */
export interface CustomTypesConfig {
  getTypeParser(oid: number, format?: 'text' | 'binary'): any
}

/**
 * Where to connect and as whom, and how. What is not here comes from the environment (`PGHOST` and
 * so on), or is the default.
 */
export interface ClientConfig {
  user?: string | undefined
  database?: string | undefined
  /** Or how to get one, each time that a connection is made. */
  password?: string | (() => string | Promise<string>) | undefined
  port?: number | undefined
  /** A name or an address; the directory of a Unix socket if it begins with a slash. */
  host?: string | undefined
  /** What stands in it wins over the fields beside it. */
  connectionString?: string | undefined
  /** TLS: true, or options of `tls.connect`. */
  ssl?: boolean | ConnectionOptions | undefined
  /** `direct`: TLS begins at once, without asking (PostgreSQL 17). */
  sslnegotiation?: 'postgres' | 'direct' | undefined
  enableChannelBinding?: boolean | undefined
  /** Iterations of SCRAM that a server may ask for; 0: any number. Default 100,000. */
  scramMaxIterations?: number | undefined
  keepAlive?: boolean | undefined
  keepAliveInitialDelayMillis?: number | undefined
  /** Milliseconds until connecting fails; 0: no limit, which is the default. */
  connectionTimeoutMillis?: number | undefined
  /** Milliseconds after which a query fails with `Query read timeout`. Others are not harmed. */
  query_timeout?: number | undefined
  /** Milliseconds, kept by the server; so are the two behind it. */
  statement_timeout?: false | number | undefined
  lock_timeout?: number | undefined
  idle_in_transaction_session_timeout?: number | undefined
  application_name?: string | undefined
  fallback_application_name?: string | undefined
  /** Options of the server's command line. */
  options?: string | undefined
  client_encoding?: string | undefined
  replication?: string | undefined
  /** A socket that is not connected yet, or what makes one. */
  stream?: (() => Duplex) | Duplex | undefined
  /** A `Connection` that was made for this client. */
  connection?: Connection | undefined
  /** Parsers of this client's values. */
  types?: CustomTypesConfig | undefined
  /** Results in binary form, unless a query says otherwise. */
  binary?: boolean | undefined
  /**
   * Queries are sent at once, without waiting for those before them. Each fails alone. Default
   * false.
   */
  pipeline?: boolean | undefined
  /** Another name for it. */
  pipelineMode?: boolean | undefined
  /** Queries that are sent and unanswered at most; more wait. Default 1000. */
  pipelineMaxQueries?: number | undefined
  /** A plain BEGIN leaves with the first statement behind it. Default true. */
  holdBegin?: boolean | undefined
  /** Prepares a statement with values at its fifth use on a connection. Default true. */
  autoPrepare?: boolean | undefined
  /** Makes the promises that are returned. */
  Promise?: PromiseConstructorLike | undefined
}

/** Another name for it. */
export type ConnectionConfig = ClientConfig

/**
 * What holds where a configuration says nothing. Fields may be assigned; they hold for what is made
 * after.
 */
export interface Defaults extends ClientConfig {
  /** These three are of old versions of pg, and have no effect there either. */
  poolSize?: number | undefined
  poolIdleTimeout?: number | undefined
  reapIntervalMillis?: number | undefined
  max?: number | undefined
  idleTimeoutMillis?: number | undefined
  rows?: number | undefined
  /** Dates as parameters are sent in UTC instead of local time with its offset. */
  parseInputDatesAsUTC?: boolean | undefined
  /**
   * `true`: int8 and arrays of it become numbers, in the whole process; `false`: texts again. Can't
   * be read.
   */
  parseInt8?: boolean | undefined
}

/** What a pool is told beside what its clients are told. */
export interface PoolConfig extends ClientConfig {
  /** Clients at most. Default 10. */
  max?: number | undefined
  /** Clients that are kept though nobody needs them. Default 0. */
  min?: number | undefined
  /** Milliseconds after which an idle client is closed; 0: never. Default 10,000. */
  idleTimeoutMillis?: number | null | undefined
  /** How often a client is lent before it is closed. Default: any number. */
  maxUses?: number | undefined
  /** After how long a client is closed; 0: never. Default 0. */
  maxLifetimeSeconds?: number | undefined
  /** Whether the process may end while clients are idle. Default false. */
  allowExitOnIdle?: boolean | undefined
  /**
   * Called with each new client before it is lent; what it rejects with is the error of the caller.
   */
  onConnect?: ((client: PoolClient) => void | Promise<void>) | undefined
  /** Called with each new client; an error makes the pool close it. */
  verify?: ((client: PoolClient, done: (error?: Error) => void) => void) | undefined
  /** Is told what happens. */
  log?: ((...messages: any[]) => void) | undefined
  /** The class of the clients. */
  Client?: (new (config?: ClientConfig) => ClientBase) | undefined
}

/** A pool's configuration as it holds. */
export interface PoolOptions extends PoolConfig {
  max: number
  min: number
  maxUses: number
  maxLifetimeSeconds: number
  allowExitOnIdle: boolean
  idleTimeoutMillis: number | null
}

/** The values of a query, of a type that is known or not. */
export type QueryConfigValues<T> = T extends (infer _)[] ? T : never

/** A query, and how it runs. */
export interface QueryConfig<I = any[]> {
  /** One statement; without values also several, with a semicolon between them. */
  text: string
  /** Values for `$1`, `$2`, … */
  values?: QueryConfigValues<I> | undefined
  /** Prepared under this name at its first use on a connection, and used by it from then on. */
  name?: string | undefined
  /** Who knows the parsers of this query's values. */
  types?: CustomTypesConfig | undefined
  /** `extended`: the extended protocol also without values. */
  queryMode?: string | undefined
  /** Results in binary form: the parsers are given bytes. */
  binary?: boolean | undefined
  /** Milliseconds after which it fails with `Query read timeout`, waiting in the queue included. */
  query_timeout?: number | undefined
  /** Ends it early, without harm to others. */
  signal?: AbortSignal | undefined
  rowMode?: string | undefined
  /**
   * With `pipeline: true`: nothing shares its connection while it runs, as long as the pool has another or may open one.
   * For a query that is known to take long.
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

/** A statement to be prepared; the empty name stands for the one that is forgotten at the next. */
export interface QueryParse {
  name: string
  text: string
  types: string[]
}

/** Values for a statement, under the name of a portal. */
export interface BindConfig {
  portal?: string | undefined
  statement?: string | undefined
  binary?: string | undefined
  values?: (Buffer | string | null | undefined)[] | undefined
  valueMapper?: ((value: any, index: number) => any) | undefined
}

/** Runs a portal, for so many rows. */
export interface ExecuteConfig {
  portal?: string | undefined
  rows?: string | undefined
}

/** A statement (`S`) or portal (`P`) by its name. */
export interface MessageConfig {
  type: string
  name?: string | undefined
}

/** `I` (idle), `T` (in a transaction) or `E` (in one that failed); null before the login. */
export type TransactionStatus = 'I' | 'T' | 'E' | null
