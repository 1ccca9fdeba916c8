import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { inspect } from 'node:util'

import { defaults } from '../src/pg/defaults'
import { ConnectionParameters } from '../src/pg/parameters'
import { pg, seeded } from './pg/ask'

const Theirs = require('pg/lib/connection-parameters') as typeof ConnectionParameters

const directory = mkdtempSync(join(tmpdir(), 'onetrip-parameters-'))
after(() => rmSync(directory, { recursive: true }))
const file = (name: string): string => {
  const path = join(directory, name)
  writeFileSync(path, `content of ${name}`)
  return path
}
const [cert, key, ca] = [file('cert'), file('key'), file('ca')]

const CONFIGS: unknown[] = [
  undefined,
  null,
  {},
  '',
  '/tmp',
  '/tmp database',
  'postgres://',
  'postgres:///database',
  'postgres://user@/database',
  'postgres://user:secret@host:5433/database',
  'postgresql://user:se%20cret%2F@host/data%20base?application_name=app',
  'postgres://user:pass word@host/db',
  'postgres://us%3Aer:p%40ss@[::1]:5433/db',
  'postgres://%2Fvar%2Frun/db',
  'postgres://host/db?host=other&port=1234&user=u2&password=p2',
  'postgres://u@host/db?options=-c%20a%3Db&client_encoding=LATIN1&fallback_application_name=fall',
  'postgres://u@host/db?statement_timeout=1000&lock_timeout=5&query_timeout=7',
  'postgres://u@host/db?idle_in_transaction_session_timeout=9&binary=true&replication=database',
  'postgres://u@host/db?keepalives=0&connect_timeout=3',
  'socket:/some/path/?db=my[db]&encoding=utf8',
  'socket:/some/path/',
  'pg:tcp',
  'host:5432/db',
  ...['true', '1', '0', 'false', 'no-verify', 'x'].map((ssl) => `postgres://u@h/d?ssl=${ssl}`),
  ...['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify', ''].flatMap(
    (mode) => [
      `postgres://u@h/d?sslmode=${mode}`,
      `postgres://u@h/d?uselibpqcompat=true&sslmode=${mode}`,
      `postgres://u@h/d?uselibpqcompat=true&sslmode=${mode}&sslrootcert=${ca}`,
    ],
  ),
  `postgres://u@h/d?sslcert=${cert}&sslkey=${key}&sslrootcert=${ca}`,
  'postgres://u@h/d?sslrootcert=/nowhere/at/all',
  'postgres://u@h/d?sslnegotiation=direct',
  'postgres://u@h/d?sslnegotiation=direct&sslmode=disable',
  'postgres://u@h/d?sslnegotiation=postgres',
  'postgres://u@h/d?sslnegotiation=wrong',
  'postgres://u@h:99999/d',
  'postgres://u@h:port/d',
  { user: 'u', database: 'd', password: 'p', host: 'h', port: 1 },
  { user: 'u' },
  { user: '', database: '', host: '', port: 0, password: '' },
  { port: '5434', binary: true, options: '-c x=y', replication: 'true' },
  { port: 'none' },
  { host: '/var/run/postgresql' },
  { password: () => 'later' },
  { connectionString: 'postgres://a:b@c:1/d', user: 'x', host: 'y', ssl: true },
  { connectionString: 'postgres://c/d?ssl=true', ssl: false },
  { connectionString: '', user: 'x' },
  ...[true, false, 'true', 'no-verify', 'other', null, {}, { key: 'k', ca: 'c' }].map((ssl) => ({
    ssl,
  })),
  {
    ssl: {
      key: 'k',
      sslmode: 'require',
      sslca: 'a',
      sslkey: 'b',
      sslcert: 'c',
      sslrootcert: "d'\\",
    },
  },
  { sslnegotiation: 'direct' },
  { sslnegotiation: 'direct', ssl: true },
  { sslnegotiation: 'wrong' },
  { application_name: 'a', fallback_application_name: 'f', client_encoding: 'LATIN1' },
  {
    statement_timeout: 1,
    lock_timeout: 2,
    idle_in_transaction_session_timeout: 3,
    query_timeout: 4,
  },
  { statement_timeout: 0, lock_timeout: '5', query_timeout: null },
  ...[undefined, 0, 1, 999, 1000, 1999, null, '3000'].map((connectionTimeoutMillis) => ({
    connectionTimeoutMillis,
  })),
  ...[true, false, undefined, 1].map((keepAlive) => ({ keepAlive })),
  ...[0, 500, 10000, '10000'].map((delay) => ({ keepAliveInitialDelayMillis: delay })),
]

const ENVIRONMENTS: { [name: string]: string }[] = [
  {},
  { PGUSER: 'eu', PGDATABASE: 'ed', PGHOST: 'eh', PGPORT: '7', PGPASSWORD: 'ep' },
  { PGHOST: '/run/postgresql', PGAPPNAME: 'ea', PGOPTIONS: '-c a=b', PGCONNECT_TIMEOUT: '9' },
  { PGBINARY: '1', PGREPLICATION: 'true', PGCLIENT_ENCODING: 'UTF8', PGPORT: 'x' },
  { PGSTATEMENT_TIMEOUT: '1', PGQUERY_TIMEOUT: '2', PGFALLBACK_APPLICATION_NAME: 'no' },
  { PGSSLNEGOTIATION: 'direct' },
  { PGSSLNEGOTIATION: 'direct', PGSSLMODE: 'require' },
  { PGSSLNEGOTIATION: 'wrong', PGSSLMODE: 'disable' },
  ...['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify'].map(
    (mode) => ({
      PGSSLMODE: mode,
    }),
  ),
]

/** Runs with only these environment variables of PostgreSQL. */
async function inEnvironment<T>(
  variables: { [name: string]: string },
  run: () => Promise<T>,
): Promise<T> {
  const before = { ...process.env }
  for (const name of Object.keys(process.env)) if (name.startsWith('PG')) delete process.env[name]
  Object.assign(process.env, variables)
  try {
    return await run()
  } finally {
    for (const name of Object.keys(variables)) delete process.env[name]
    Object.assign(process.env, before)
  }
}

interface Seen {
  error?: string
  shown?: string
  entries?: unknown
  password?: unknown
  hidden?: unknown
}

function see(Class: typeof ConnectionParameters, config: unknown): Seen {
  try {
    const parameters = new Class(copy(config) as string)
    return {
      entries: Object.entries(parameters),
      password: Object.getOwnPropertyDescriptor(parameters, 'password'),
      hidden: Object.getOwnPropertyDescriptors(Object(parameters.ssl)),
      shown: inspect(parameters, { depth: 5 }).replace(/checkServerIdentity: .*/g, ''),
    }
  } catch (error) {
    return { error: String(error) }
  }
}

/** Copies a value deeply, with a placeholder for functions. */
function copy(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, copy(one)]))
}

function comparable(seen: Seen): string {
  return inspect(seen, { depth: 8, showHidden: false }).replaceAll(
    /\[Function[^\]]*\]/g,
    '[Function]',
  )
}

for (const environment of ENVIRONMENTS) {
  test(`parameters are those of pg with ${JSON.stringify(environment)}`, () =>
    inEnvironment(environment, async () => {
      for (const config of CONFIGS) {
        const [expected, actual] = [see(Theirs, config), see(ConnectionParameters, config)]
        assert.equal(comparable(actual), comparable(expected), inspect(config))
      }
    }))
}

test('texts for libpq are those of pg', () =>
  inEnvironment({}, async () => {
    for (const config of [
      'postgres://user:secret@127.0.0.1:5433/database?application_name=a&sslmode=verify-full',
      'postgres://user:secret@localhost/database',
      { host: '/tmp', user: "o'brien\\", password: "p'w", client_encoding: 'LATIN1' },
      {
        host: '127.0.0.1',
        ssl: { sslmode: 'require', sslrootcert: "a'b" },
        replication: 'true',
        options: '-c a=b',
      },
      { host: '127.0.0.1', ssl: true, client_encoding: 'LATIN1', database: 'd' },
      { host: 'no.such.host.invalid' },
    ]) {
      const text = (Class: typeof ConnectionParameters): Promise<unknown[]> =>
        new Promise((resolve) =>
          new Class(config).getLibpqConnectionString((error, value) =>
            resolve([error && (error as NodeJS.ErrnoException).syscall, value]),
          ),
        )
      assert.deepEqual(await text(ConnectionParameters), await text(Theirs))
    }
  }))

test('passwords are not printed with parameters', () => {
  const parameters = new ConnectionParameters('postgres://user:hunter2@host/database')
  assert.equal(parameters.password, 'hunter2')
  assert.ok(!inspect(parameters).includes('hunter2'))
  assert.ok(!JSON.stringify(parameters).includes('hunter2'))
})

test('defaults are those of pg, by name, order and value', () => {
  assert.deepEqual(Object.keys(defaults), Object.keys(pg.defaults))
  assert.deepEqual(Object.entries(defaults), Object.entries(pg.defaults))
})

test('assigned defaults apply to parameters that are made later', () =>
  inEnvironment({}, async () => {
    const before = { host: defaults.host, application_name: defaults.application_name }
    const wanted = { host: 'elsewhere', application_name: 'mine' }
    try {
      Object.assign(defaults, wanted)
      const { host, application_name } = new ConnectionParameters({})
      assert.deepEqual({ host, application_name }, wanted)
    } finally {
      Object.assign(defaults, before)
    }
  }))

test('configurations with any fields give the same parameters as in pg', () => {
  const random = seeded()
  const fields = [
    'user',
    'database',
    'host',
    'port',
    'password',
    'ssl',
    'application_name',
    'connectionString',
    'keepAlive',
    'connectionTimeoutMillis',
    'statement_timeout',
    'sslnegotiation',
    'options',
    'replication',
    'binary',
  ]
  const values = [
    '',
    'x',
    '5',
    5,
    0,
    true,
    false,
    null,
    undefined,
    'postgres',
    'direct',
    '/tmp',
    'postgres://a:b@c/d?ssl=1',
    {},
  ]
  return inEnvironment({}, async () => {
    for (let i = 0; i < 2000; i++) {
      const config = Object.fromEntries(
        Array.from({ length: random.below(6) }, () => [
          fields[random.below(fields.length)] as string,
          values[random.below(values.length)],
        ]),
      )
      const [expected, actual] = [see(Theirs, config), see(ConnectionParameters, config)]
      assert.equal(
        comparable(actual),
        comparable(expected),
        `seed ${random.seed}: ${inspect(config)}`,
      )
    }
  })
})
