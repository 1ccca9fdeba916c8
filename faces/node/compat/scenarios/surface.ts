// What other packages touch of pg beside queries: what the module exports, fields that are not documented and are read
// all the same, files that are asked for by their paths, and methods that are replaced.
import { EventEmitter } from 'node:events'
import { inspect } from 'node:util'

import * as pg from 'pg'

import type { Scenarios, Stage } from '../support/stage'

/** Any object: these scenarios read fields that the types don't declare. */
type Loose = { [key: string]: unknown }

const loose = (value: unknown): Loose => value as Loose

/** The members of an object, with the kind of each. */
function shape(value: unknown, ignored: readonly string[] = []): Loose {
  const known = Object.getOwnPropertyNames(value).filter((key) => !ignored.includes(key)).sort()
  return Object.fromEntries(known.map((key) => [key, typeof loose(value)[key]]))
}

async function exported({ see }: Stage): Promise<void> {
  for (const [name, type] of Object.entries(shape(pg))) see(`pg.${name}`, type)
  see('enumerable', Object.keys(pg).sort())
  see('native', loose(pg)['native'])
  see('classes', [pg.Client.name, pg.Pool.name, loose(pg.Client)['Query'] === loose(pg)['Query'], Object.getPrototypeOf(pg.Pool).name])
  see('types', [pg.types === require('pg-types'), shape(pg.types), pg.types.builtins])
  see('defaults', pg.defaults)
  see('parseInt8 is a setter', Object.getOwnPropertyDescriptor(pg.defaults, 'parseInt8')?.set !== undefined)
  const utils = loose(pg)['utils']
  if (utils) for (const [name, type] of Object.entries(shape(utils))) see(`utils.${name}`, type)
  const client = ['connect', 'query', 'end', 'cancel', 'escapeIdentifier', 'escapeLiteral', 'getTransactionStatus', 'getTypeParser', 'setTypeParser', 'getStartupConf', 'ref', 'unref']
  see('methods of Client', client.map((name) => [name, typeof loose(pg.Client.prototype)[name]]))
  // Without `newClient`: the engine decides when a client is connected.
  see('methods of Pool', ['connect', 'query', 'end', '_pulseQueue', '_isFull', '_remove'].map((name) => [name, typeof loose(pg.Pool.prototype)[name]]))
  const counts = ['totalCount', 'idleCount', 'waitingCount', 'expiredCount']
  see('getters of Pool', counts.map((name) => [name, Object.getOwnPropertyDescriptor(poolClass().prototype, name)?.get !== undefined]))
  see('methods of Result', methods(pg.Result))
  see('errors', new pg.DatabaseError('m', 1, 'error') instanceof Error)
}

/** Instrumentation patches the class behind the exported one. */
function poolClass(): typeof pg.Pool {
  const Base = Object.getPrototypeOf(pg.Pool) as typeof pg.Pool
  return methods(Base).includes('connect') ? Base : pg.Pool
}

function methods(Class: { prototype: object }): string[] {
  return Object.getOwnPropertyNames(Class.prototype).sort()
}

async function files({ see }: Stage): Promise<void> {
  const names = ['client', 'query', 'result', 'defaults', 'utils', 'connection', 'connection-parameters', 'type-overrides']
  for (const name of names) {
    for (const path of [`pg/lib/${name}`, `pg/lib/${name}.js`]) {
      try {
        const module: unknown = require(path)
        see(path, typeof module === 'function' ? ['class', module.name] : shape(module))
      } catch (error) {
        see(path, loose(error)['code'])
      }
    }
  }
  see('the same client', require('pg/lib/client') === pg.Client)
  see('the same defaults', require('pg/lib/defaults') === pg.defaults)
  const { name, version } = require('pg/package.json') as { name: string; version: string }
  see('description', [typeof name, version.split('.')[0]])
}

async function fields({ url, see }: Stage): Promise<void> {
  const client = new pg.Client(url)
  const read = (): Loose => {
    const names = ['user', 'database', 'port', 'host', 'replication', 'binary', 'ssl', 'pipeline', 'hasExecuted', '_ending', '_ended', '_connecting', '_connected', '_connectionError', '_queryable', '_txStatus', 'enableChannelBinding', 'scramMaxIterations']
    const values = Object.fromEntries(names.map((name) => [name, loose(client)[name]]))
    const kinds = ['processID', 'secretKey', 'connection', 'connectionParameters', '_types', '_queryQueue', '_Promise', '_connectionTimeoutMillis', '_getActiveQuery']
    const states = ['readyForQuery', 'activeQuery'].map((name) => [name, Boolean(loose(client)[name])])
    return { ...values, ...Object.fromEntries(states), ...Object.fromEntries(kinds.map((name) => [name, typeof loose(client)[name]])) }
  }
  see('new', read())
  const connected = client.connect()
  see('connecting', read())
  const back: unknown = await connected
  see('connect gives', [back === client, typeof back])
  see('connected', read())
  see('status', client.getTransactionStatus())
  const running = client.query('select 1')
  see('running', read())
  await running
  see('idle', read())
  see('parameters', loose(client)['connectionParameters'])
  see('password is hidden', [Object.keys(client).includes('password'), JSON.stringify(loose(client)['connectionParameters']).includes('password'), inspect(client).includes('secret-password')])
  const { connection } = loose(client) as { connection: Loose & EventEmitter }
  see('connection', ['stream', 'on', 'once', 'parse', 'bind', 'execute', 'describe', 'close', 'flush', 'sync', 'query', 'end', 'sendCopyFromChunk', 'endCopyFrom', 'sendCopyFail', 'parsedStatements', 'ssl', '_ending', '_connecting'].map((name) => [name, typeof connection[name]]))
  await client.end()
  see('ended', read())
}

/** Raw messages of the connection, as Sequelize uses them. */
async function rawMessages({ url, see }: Stage): Promise<void> {
  const client = new pg.Client(url)
  const parameters: string[] = []
  const { connection } = loose(client) as { connection: EventEmitter }
  connection.on('parameterStatus', (message: { parameterName: string; parameterValue: string }) => {
    if (/^(?:client_encoding|standard_conforming_strings|application_name)$/.test(message.parameterName)) {
      parameters.push(`${message.parameterName}=${message.parameterValue}`)
    }
  })
  let ended = 0
  connection.on('end', () => ended++)
  await client.connect()
  await client.query("set application_name = 'changed'; set standard_conforming_strings = on")
  see('parameters', parameters.sort())
  await client.end()
  see('end of the connection', ended)
}

async function wrappers({ url, see }: Stage): Promise<void> {
  const calls: unknown[] = []
  const undo: (() => void)[] = []
  const patch = (Class: { prototype: object } & (new (...args: never[]) => unknown), name: string): void => {
    const prototype = Class.prototype as { [name: string]: (...args: unknown[]) => unknown }
    const original = prototype[name]!
    prototype[name] = function (this: unknown, ...args: unknown[]): unknown {
      calls.push([Class === pg.Client ? 'client' : 'pool', name, this instanceof Class, args.map((arg) => (typeof arg === 'string' ? arg : typeof arg))])
      return original.apply(this, args)
    }
    undo.push(() => (prototype[name] = original))
  }
  patch(pg.Client, 'query')
  patch(pg.Client, 'connect')
  patch(pg.Client, 'end')
  patch(poolClass(), 'connect')
  patch(poolClass(), 'query')
  try {
    const pool = new pg.Pool({ connectionString: url, max: 1 })
    await pool.query('select 1')
    await pool.query('select $1::int', [1])
    await pool.query({ text: 'select 2' })
    await new Promise((resolve) => pool.query('select 3', (...args: unknown[]) => resolve(args)))
    const client = await pool.connect()
    await client.query('select 4')
    await new Promise((resolve) => client.query('select 5', [], (...args: unknown[]) => resolve(args)))
    client.release()
    await pool.end()
  } finally {
    for (const one of undo) one()
  }
  see('calls', calls)
}

/** Spans as OpenTelemetry makes them: it wraps the callback of a query, or its promise. */
async function spans({ url, see }: Stage): Promise<void> {
  const started: string[] = []
  const ended: string[] = []
  const prototype = pg.Client.prototype as unknown as { query(...args: unknown[]): unknown }
  const { query } = prototype
  prototype.query = function (this: unknown, ...args: unknown[]): unknown {
    const [first] = args
    const text = typeof first === 'string' ? first : (first as { text: string }).text
    const { host, port, database, user } = loose(loose(this)['connectionParameters'])
    started.push(`${text} ${typeof host} ${typeof port} ${typeof database} ${typeof user}`)
    const last = args.at(-1)
    if (typeof last === 'function') {
      args[args.length - 1] = (error: unknown, result: unknown): void => {
        ended.push(`${text} ${error ? loose(error)['code'] : 'fine'}`)
        ;(last as (error: unknown, result: unknown) => void)(error, result)
      }
    }
    const result = query.apply(this, args)
    if (result instanceof Promise) {
      return result.then(
        (value: unknown) => {
          ended.push(`${text} fine`)
          return value
        },
        (error: unknown) => {
          ended.push(`${text} ${loose(error)['code']}`)
          throw error
        },
      )
    }
    return result
  }
  try {
    const pool = new pg.Pool({ connectionString: url, max: 2 })
    await pool.query('select 1')
    await pool.query({ text: 'select 2', values: [] })
    await pool.query('wrong').catch(() => {})
    await new Promise((resolve) => pool.query('select $1::int', [3], resolve))
    const client = await pool.connect()
    await client.query('begin')
    await client.query({ text: 'select $1::int', values: [4], name: 'four' })
    await client.query('commit')
    await new Promise((resolve) => client.query('wrong again', resolve))
    client.release()
    await pool.end()
  } finally {
    prototype.query = query
  }
  see('started', started)
  see('ended', ended)
}

async function subclasses({ url, see, settles }: Stage): Promise<void> {
  const log: string[] = []
  class Mine extends pg.Client {
    extra = 5
    override query(...args: never[]): never {
      log.push(String(args[0]))
      return (super.query as (...args: never[]) => unknown).apply(this, args) as never
    }
  }
  const pool = new pg.Pool({ connectionString: url, max: 1, Client: Mine })
  await settles('query', pool.query('select 1 as one'))
  const client = await pool.connect()
  see('class', [client instanceof Mine, loose(client)['extra'], loose(pool)['Client'] === Mine])
  Object.assign(client, { $useCount: 1 })
  client.release()
  const again = await pool.connect()
  see('it is the same, and keeps what it was given', [again === client, loose(again)['$useCount']])
  again.release()
  see('log', log)
  await pool.end()
  class Pools extends pg.Pool {
    hello(): string {
      return 'hello'
    }
  }
  const pools = new Pools({ connectionString: url })
  see('pool', [pools.hello(), pools instanceof pg.Pool, pools instanceof EventEmitter, pools.constructor.name])
  await settles('its query', pools.query('select 2 as two'))
  await pools.end()
}

async function poolFields({ url, see }: Stage): Promise<void> {
  const pool = new pg.Pool({ connectionString: url, max: 3 })
  const read = (): unknown => ['totalCount', 'idleCount', 'waitingCount', 'expiredCount', 'ending', 'ended'].map((name) => [name, loose(pool)[name]])
  see('options', pool.options)
  see('new', read())
  const clients = await Promise.all([pool.connect(), pool.connect(), pool.connect()])
  const waiting = pool.connect()
  see('all lent', read())
  see('lists', ['_clients', '_idle', '_pendingQueue'].map((name) => [name, (loose(pool)[name] as unknown[] | { length: number } | undefined)?.length]))
  clients[0]!.release()
  ;(await waiting).release()
  clients[1]!.release()
  see('one is lent', read())
  const ended = pool.end()
  see('ending', read())
  clients[2]!.release()
  await ended
  see('ended', read())
}

const scenarios: Scenarios = {
  'what the module exports': exported,
  'files that are asked for by their paths': files,
  'fields of a client': fields,
  'raw messages of a connection': rawMessages,
  'methods that are replaced are those that are called': wrappers,
  'spans of queries': spans,
  'classes that extend those of pg': subclasses,
  'fields of a pool': poolFields,
}
export = scenarios
