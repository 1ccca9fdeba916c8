// Uses every exported name of the types of pg, as programs do. It must compile with them and with ours.
import { EventEmitter } from 'node:events'
import type { Duplex } from 'node:stream'

import pg, {
  Client,
  ClientBase,
  Connection,
  DatabaseError,
  Events,
  Pool,
  Query,
  Result,
  TypeOverrides,
  defaults,
  escapeIdentifier,
  escapeLiteral,
  native,
  types,
} from 'pg'
import type {
  BindConfig,
  ClientConfig,
  ConnectionConfig,
  CustomTypesConfig,
  Defaults,
  ExecuteConfig,
  FieldDef,
  MessageConfig,
  Notification,
  PoolClient,
  PoolConfig,
  PoolOptions,
  QueryArrayConfig,
  QueryArrayResult,
  QueryConfig,
  QueryConfigValues,
  QueryParse,
  QueryResult,
  QueryResultBase,
  QueryResultRow,
  ResultBuilder,
  Submittable,
  TransactionStatus,
} from 'pg'
import Overrides = require('pg/lib/type-overrides')
import ConnectionParameters = require('pg/lib/connection-parameters')

// --- configurations ---

const connection: ConnectionConfig = { host: 'db', port: 5433, user: 'u', password: async () => 'secret' }
const full: ClientConfig = {
  ...connection,
  database: 'd',
  connectionString: undefined,
  keepAlive: true,
  keepAliveInitialDelayMillis: 10,
  stream: undefined,
  statement_timeout: false,
  lock_timeout: 5,
  query_timeout: 5,
  idle_in_transaction_session_timeout: 5,
  ssl: { rejectUnauthorized: false },
  sslnegotiation: 'direct',
  enableChannelBinding: true,
  application_name: 'a',
  fallback_application_name: 'b',
  connectionTimeoutMillis: 5,
  options: '-c a=b',
  client_encoding: 'utf8',
  pipeline: true,
}
const mine: CustomTypesConfig = { getTypeParser: () => (value: string) => value }
const withTypes: ClientConfig = { types: mine }
class Named extends Client {
  constructor() {
    super({ application_name: 'named' })
  }
}
const pooled: PoolConfig = {
  ...full,
  max: 3,
  min: 1,
  idleTimeoutMillis: null,
  maxUses: 7,
  maxLifetimeSeconds: 60,
  allowExitOnIdle: true,
  log: (...messages: string[]) => console.log(messages.length),
  Promise,
  Client: Named,
  onConnect: (client: ClientBase) => void client.query('select 1'),
  verify: (client, done) => client.query('select 1', (error: Error) => done(error)),
}

function settled(from: Defaults): number {
  from.poolSize = 4
  from.poolIdleTimeout = 1000
  from.reapIntervalMillis = 1000
  from.binary = false
  from.parseInt8 = true
  from.parseInputDatesAsUTC = true
  from.user = 'somebody'
  return from.poolSize + (from.port ?? 5432)
}

// --- clients ---

export async function client(): Promise<unknown> {
  const it = new Client('postgres://u:p@h:1/d')
  const other: Client = await it.connect()
  it.connect((error: Error) => console.error(error.message))
  it.connect((error: null, connected: Client) => connected.host.toLowerCase() + String(error))
  new pg.Client().connect((error: Error | null) => error && console.error(error))
  it.port = it.port + 1
  it.host = `${it.host}.local`
  it.user = undefined
  it.password = 'p'
  it.database = it.user
  const secure: boolean = it.ssl
  const piped: boolean = it.pipeline
  const way: Connection = it.connection
  it.on('drain', () => {}).on('end', () => {}).on('connect', () => {})
  it.on('error', (error) => error.message.length)
  it.on('notice', (notice) => notice.message?.length ?? notice.name.length)
  it.on('notification', (message: Notification) => [message.channel, message.payload, message.processId])
  const status: TransactionStatus = other.getTransactionStatus()
  it.setTypeParser(20, (text: string) => BigInt(text))
  it.setTypeParser(types.builtins.DATE, 'text', (text) => text)
  const parse = it.getTypeParser(20, 'text')
  const quoted = it.escapeIdentifier('a') + it.escapeLiteral('b')
  await it.end()
  it.end((error: Error) => console.error(error))
  return [secure, piped, way, status, parse('1'), quoted, withTypes]
}

interface User extends QueryResultRow {
  id: number
}

export async function queries(base: ClientBase | Pool): Promise<unknown> {
  const config: QueryConfig<[number]> = { name: 'n', text: 'select $1', values: [1], types: mine }
  const values: QueryConfigValues<string[]> = ['a']
  const typed: QueryResult<User> = await base.query<User>('select 1 id', values)
  const ids: number[] = typed.rows.map(({ id }) => id)
  const loose = await base.query('select 1')
  const any: string = loose.rows[0].whatever.deep
  const exact = await base.query<User, [number]>(config)
  const listed: QueryArrayConfig = { text: 'select 1', rowMode: 'array' }
  const arrays: QueryArrayResult<[number, string]> = await base.query(listed)
  const first: number | undefined = arrays.rows[0]?.[0]
  base.query('select 1', (error: Error, result: QueryResult) => [error, result.rowCount])
  base.query<User>('select $1', [1], (error, result) => [error, result.rows[0]?.id])
  base.query(listed, (error: Error, result: QueryArrayResult) => [error, result.rows])
  base.query(config, (error, result) => [error, result.fields[0]?.dataTypeID])
  const about = ({ command, rowCount, oid, fields }: QueryResultBase): [string, number | null, number, FieldDef[]] =>
    [command, rowCount, oid, fields]
  return [ids, any, exact.rows[0]?.id, first, about(typed)]
}

export function emitters(it: Client): unknown {
  const query = it.query(new Query<User>('select 1 id'))
  query.on('row', (row, result?: ResultBuilder<User>) => result?.addRow(row))
  query.on('end', (result) => result.rows[0]?.id)
  query.on('error', (error) => error.message)
  new Query('select $1', [1])
  new Query<User>({ text: 'select 1' }, (error, result) => [error?.message, result.rows[0]?.id])
  new Query<User, [number]>('select $1', [1], (error: Error | undefined, result: ResultBuilder<User>) => [error, result])
  query.submit(it.connection)
  const events = (from: Events): Events => from.on('error', (error: Error, of: Client) => [error.message, of.host])
  return events
}

// --- queries that run themselves ---

export class Own extends EventEmitter implements Submittable {
  submit(way: Connection): void {
    const parse: QueryParse = { name: '', text: 'select $1', types: [] }
    const bind: BindConfig = { portal: '', values: ['a', null, Buffer.from('b')], valueMapper: (value) => value }
    const execute: ExecuteConfig = { portal: '', rows: '5' }
    const portal: MessageConfig = { type: 'P', name: '' }
    way.parse(parse, true)
    way.bind(bind, true)
    way.bind(null, true)
    way.describe(portal, true)
    way.execute(execute, true)
    way.execute(null, true)
    way.close(portal, false)
    way.flush()
    way.sync()
    way.query('select 1')
    const stream: Duplex = way.stream
    stream.on('close', () => way.end())
  }
}

export function connections(it: Client): unknown {
  const way = new Connection({ ssl: false, keepAlive: true })
  const plain = new pg.Connection()
  way.on('message', (message) => message.name)
  plain.once('readyForQuery', () => {})
  return [it.query(new Own()).listenerCount('row'), way, plain]
}

// --- pools ---

export async function pools(): Promise<unknown> {
  const pool = new Pool(pooled)
  const options: PoolOptions = pool.options
  const limits = options.max + options.maxUses + options.maxLifetimeSeconds + (options.idleTimeoutMillis ?? 0)
  const counts: number = pool.totalCount + pool.idleCount + pool.waitingCount + pool.expiredCount
  const state: boolean = pool.ending || pool.ended || options.allowExitOnIdle
  pool.options = { ...options, max: 9 }
  pool.on('connect', (it) => it.host).on('acquire', (it: PoolClient) => it.release)
  pool.on('remove', (it) => it.end())
  pool.on('error', (error, it) => [error.message, it.user])
  pool.on('release', (error: Error, it: PoolClient) => [error, it.host])
  const lent: PoolClient = await pool.connect()
  lent.release()
  lent.release(true)
  lent.release(new Error('broken'))
  pool.connect((error: Error | undefined, it: PoolClient | undefined, done: (release?: any) => void) => {
    if (error) console.error(error)
    done(it ? 'anything' : undefined)
  })
  await pool.end()
  pool.end(() => {})
  pool.end((): void => {})
  return [limits, counts, state, new pg.Pool(), settled(defaults), settled(pg.defaults)]
}

// --- the rest ---

export function rest(error: unknown): unknown {
  if (error instanceof DatabaseError) {
    const name: string = error.name
    return [name, error.length, error.severity, error.code, error.detail, error.hint, error.position, error.where,
      error.internalPosition, error.internalQuery, error.schema, error.table, error.column, error.dataType,
      error.constraint, error.file, error.line, error.routine]
  }
  const result = new Result<User>('array', types)
  result.rows.push({ id: 1 })
  const overrides: CustomTypesConfig = new TypeOverrides(mine)
  const same: TypeOverrides = new Overrides()
  same.setTypeParser(20, (text: string) => Number(text))
  same.setTypeParser(17, 'binary', (bytes: Buffer) => bytes.length)
  const parsed: unknown = same.getTypeParser(20, 'text')
  const parameters = new ConnectionParameters({ ...connection, isDomainSocket: false, keepalives: 1 })
  const text = new ConnectionParameters('postgres://h/d').getLibpqConnectionString((_, it) => it?.length ?? 0)
  const place: (string | number | undefined)[] = [parameters.host, parameters.port, parameters.user]
  const made = native ? new native.Client() : undefined
  const again = pg.native?.Pool
  return [result, overrides, parsed, text, place, made, again, escapeIdentifier('a') + escapeLiteral('b'), pg.types]
}
