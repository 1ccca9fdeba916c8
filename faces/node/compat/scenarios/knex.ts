// Knex has a pool of its own. Of pg it uses `Client`, its callbacks and its events.
import { Readable } from 'node:stream'

import { knex, type Knex } from 'knex'

import type { Scenarios, Stage } from '../support/stage'

const AT_MOST_FIVE = { min: 0, max: 5 }
const QUIET = { warn: (): void => {}, error: (): void => {} }

async function withKnex(
  { url }: Stage,
  run: (db: Knex) => Promise<void>,
  config: Partial<Knex.Config> = {},
): Promise<void> {
  const db = knex({ client: 'pg', connection: url, pool: AT_MOST_FIVE, log: QUIET, ...config })
  try {
    await run(db)
  } finally {
    await db.destroy()
  }
}

async function makeShop(db: Knex): Promise<void> {
  await db.schema.dropTableIfExists('knex_items')
  await db.schema.dropTableIfExists('knex_people')
  await db.schema.createTable('knex_people', (table) => {
    table.increments('id')
    table.string('email').notNullable().unique()
    table.specificType('tags', 'text[]')
    table.jsonb('settings')
    table.timestamp('seen_at')
    table.binary('photo')
    table.decimal('balance', 20, 4)
    table.bigInteger('big')
    table.uuid('token')
    table.date('born')
    table.boolean('active').defaultTo(true)
    table.double('ratio')
    table.specificType('numbers', 'int[][]')
    table.specificType('span', 'interval')
  })
  await db.schema.createTable('knex_items', (table) => {
    table.increments('id')
    table.integer('person').references('knex_people.id').onDelete('cascade')
    table.string('title').notNullable()
    table.integer('price').checkPositive()
  })
}

const ANN = {
  email: 'ann@example.org',
  tags: ['a', 'b "quoted"', 'c,d', 'NULL', ''],
  settings: JSON.stringify({ theme: 'dark', nested: [1, null, { x: 'ü' }] }),
  seen_at: new Date('2024-02-29T12:34:56.789Z'),
  photo: Buffer.from([0, 1, 2, 255, 92, 39]),
  balance: '12345678901234.5678',
  big: '9007199254740993',
  token: '00000000-0000-4000-8000-000000000001',
  born: '1999-12-31',
  ratio: 0.1,
  numbers: [[1, 2], [3, 4]],
  span: '1 day 02:03:04.5',
}

/** Rows of every type go in and come out */
async function values(stage: Stage): Promise<void> {
  await withKnex(stage, async (db) => {
    await makeShop(db)
    const { settles } = stage
    await settles('insert', db('knex_people').insert(ANN).returning('*'))
    await settles('nulls', db('knex_people').insert({ email: 'bob@example.org', active: false }).returning('*'))
    await settles('several', db('knex_items').insert([{ person: 1, title: 'one', price: 1 }, { person: 1, title: 'two', price: 2 }]).returning(['id', 'title']))
    await settles('insert without returning', db('knex_items').insert({ person: 2, title: 'three', price: 3 }))
    await settles('update', db('knex_people').where({ id: 2 }).update({ balance: 5, tags: [] }))
    await settles('increment', db('knex_items').where('price', '>', 1).increment('price', 10))
    await settles('upsert', db('knex_people').insert({ email: 'bob@example.org', ratio: Infinity }).onConflict('email').merge().returning('*'))
    await settles('all', db('knex_people').orderBy('id'))
    await settles('first', db('knex_people').first('id', 'email').orderBy('id', 'desc'))
    await settles('nobody', db('knex_people').where('id', 99).first())
    await settles('pluck', db('knex_items').pluck('title').orderBy('id'))
    await settles('count', db('knex_items').count('* as n').sum({ total: 'price' }).avg({ mean: 'price' }))
    await settles('delete', db('knex_items').where({ title: 'three' }).del())
    await settles('raw', db.raw('select ?::int as a, ?::text as b, :c: as c from (select 1 as x) t'.replace(':c:', "'c'"), [1, 'two']))
    await settles('raw of several statements', db.raw('select 1 as a; select 2 as b'))
    await settles('named', db.raw('select :a::int as a, :b::text as b', { a: 7, b: null }))
  })
}

async function joins(stage: Stage): Promise<void> {
  await withKnex(stage, async (db) => {
    await makeShop(db)
    const { settles } = stage
    await db('knex_people').insert([{ email: 'a' }, { email: 'b' }, { email: 'c' }])
    await db('knex_items').insert([{ person: 1, title: 'x', price: 5 }, { person: 1, title: 'y', price: 6 }, { person: 2, title: 'z', price: 7 }])
    await settles('join', db('knex_people as p').join('knex_items as i', 'i.person', 'p.id').select('p.email', 'i.title', 'p.id', 'i.id').orderBy('i.id'))
    await settles('left join', db('knex_people as p').leftJoin('knex_items as i', 'i.person', 'p.id').orderBy(['p.id', 'i.id']).options({ rowMode: 'array' }))
    await settles('group', db('knex_items').select('person').count('* as n').groupBy('person').having(db.raw('count(*)'), '>', 1))
    await settles('with', db.with('rich', db('knex_items').where('price', '>', 5)).select('*').from('rich').orderBy('id'))
    await settles('union', db('knex_people').select('email as name').union(db('knex_items').select('title as name')).orderBy('name'))
    await settles('window', db('knex_items').select('title').rowNumber('n', 'price').orderBy('title'))
    await settles('exists', db('knex_people').whereExists(db('knex_items').whereRaw('person = knex_people.id')).orderBy('id').select('id'))
    await settles('in', db('knex_people').whereIn('id', [1, 3]).orderBy('id').select('id'))
    await settles('json', db('knex_people').select(db.raw('json_agg(email order by email) as emails')).first())
  })
}

async function transactions(stage: Stage): Promise<void> {
  await withKnex(stage, async (db) => {
    await makeShop(db)
    const { see, settles } = stage
    const emails = (): Promise<string[]> => db('knex_people').orderBy('id').pluck('email')
    await settles('commit', db.transaction(async (trx) => {
      await trx('knex_people').insert({ email: 'one' })
      return trx('knex_people').where({ email: 'one' }).update({ ratio: 1 })
    }))
    await settles('rollback', db.transaction(async (trx) => {
      await trx('knex_people').insert({ email: 'two' })
      throw new Error('no')
    }))
    see('after rollback', await emails())
    await settles('nested', db.transaction(async (trx) => {
      await trx('knex_people').insert({ email: 'outer' })
      await settles('inner', trx.transaction(async (inner) => {
        await inner('knex_people').insert({ email: 'inner' })
        throw new Error('inner only')
      }))
      await settles('inner again', trx.transaction(async (inner) => {
        await inner('knex_people').insert({ email: 'inner again' })
        await settles('deeper', inner.transaction((deep) => deep('knex_people').insert({ email: 'one' })))
        return 'kept'
      }))
      return 'done'
    }))
    see('after nested', await emails())
    await settles('failed statement', db.transaction(async (trx) => {
      await settles('unique', trx('knex_people').insert({ email: 'one' }))
      await settles('aborted', trx('knex_people').select(1 as never))
    }))
    const trx = await db.transaction()
    await trx('knex_people').insert({ email: 'by hand' })
    see('completed', trx.isCompleted())
    await settles('rolled back', trx.rollback())
    see('completed then', trx.isCompleted())
    const levelled = await db.transaction(undefined, { isolationLevel: 'serializable' })
    await settles('level', levelled.raw('show transaction_isolation').then(({ rows }) => rows))
    await levelled.commit()
    const readOnly = await db.transaction(undefined, { readOnly: true })
    await settles('read only', readOnly('knex_people').insert({ email: 'never' }))
    await settles('rolled back', readOnly.rollback(new Error('mine')))
    await settles('empty', db.transaction(async () => 5))
    see('at last', await emails())
  })
}

async function errors(stage: Stage): Promise<void> {
  await withKnex(stage, async (db) => {
    await makeShop(db)
    const { settles } = stage
    await db('knex_people').insert({ email: 'one' })
    await settles('unique', db('knex_people').insert({ email: 'one' }))
    await settles('not null', db('knex_people').insert({ ratio: 1 } as never))
    await settles('foreign key', db('knex_items').insert({ person: 77, title: 'x' }))
    await settles('check', db('knex_items').insert({ person: 1, title: 'x', price: -1 }))
    await settles('no column', db('knex_people').select('nothing'))
    await settles('no table', db('knex_nothing'))
    await settles('syntax', db.raw('selec 1'))
    await settles('bad value', db('knex_people').where({ id: 'x' }))
    await settles('too many values', db.raw('select ?::int', [1, 2] as never).then((r: unknown) => r))
    await settles('timeout', db.raw('select pg_sleep(60)').timeout(100))
    await settles('timeout with cancel', db.raw('select pg_sleep(60)').timeout(100, { cancel: true }))
    await settles('after all', db('knex_people').pluck('email'))
  })
}

async function streams(stage: Stage): Promise<void> {
  await withKnex(stage, async (db) => {
    const { see, settles } = stage
    const series = (): Knex.QueryBuilder => db.select('n').from(db.raw('generate_series(1, 1000) as n'))
    const read = async (stream: Readable): Promise<number[]> => {
      const sums = [0, 0]
      for await (const row of stream) {
        sums[0]!++
        sums[1]! += (row as { n: number }).n
      }
      return sums
    }
    await settles('all', read(series().stream()))
    await settles('in small parts', read(series().stream({ highWaterMark: 7 })))
    await settles('failing', read(db.select(db.raw('1 / (500 - n) as n')).from(db.raw('generate_series(1, 1000) as n')).stream()))
    const broken = series().stream()
    for await (const row of broken) {
      see('first', row)
      break
    }
    await settles('in a transaction', db.transaction(async (trx) => read(series().transacting(trx).stream())))
    await settles('after all', db.raw('select 1 as one').then(({ rows }) => rows))
  })
}

/** A connection of knex's pool. */
type Connection = NodeJS.EventEmitter & {
  query(text: string, done: (error?: Error) => void): void
  processID: number
}

async function poolOfMany(stage: Stage): Promise<void> {
  const opened: Connection[] = []
  const greet = (connection: Connection, done: (error?: Error, connection?: Connection) => void): void => {
    opened.push(connection)
    connection.query("set application_name = 'knex'", (error) => done(error, connection))
  }
  await withKnex(stage, async (db) => {
    const { see, settles } = stage
    const queries = Array.from({ length: 200 }, (_, i) => db.raw('select ?::int as i, pg_backend_pid() as pid', [i]))
    const results = await Promise.all(queries)
    see('answers', results.every(({ rows }, i) => rows[0].i === i))
    see('on five', new Set(results.map(({ rows }) => rows[0].pid)).size <= 5 && opened.length <= 5)
    see('all given back', [db.client.pool.numUsed(), db.client.pool.numPendingAcquires()])
    await settles('named', db.raw('show application_name').then(({ rows }) => rows))
    // A connection that is lost while it is idle is replaced.
    const [lost] = opened as [Connection]
    const ended = new Promise((resolve) => lost.once('end', resolve))
    await db.raw('select pg_terminate_backend(?::int)', [lost.processID]).catch(() => {})
    await ended
    const again = Array.from({ length: 20 }, (_, i) => db.raw('select ?::int as i', [i]))
    see('again', (await Promise.all(again)).every(({ rows }, i) => rows[0].i === i))
  }, { pool: { ...AT_MOST_FIVE, afterCreate: greet } })
}

/** Only the few queries on a connection that the server is just ending fail. */
async function lostConnection(stage: Stage): Promise<void> {
  for (let round = 0; round < 5; round++) {
    await withKnex(stage, async (db) => {
      const pids = await Promise.all(Array.from({ length: 20 }, () => db.raw('select pg_backend_pid() as pid')))
      const { pid } = pids[0].rows[0] as { pid: number }
      await db.raw('select pg_terminate_backend(?::int) where ?::int <> pg_backend_pid()', [pid, pid])
      const queries = Array.from({ length: 20 }, () => db.raw('select 1'))
      const lost = (await Promise.allSettled(queries)).filter(({ status }) => status === 'rejected')
      stage.see('at most three fail', lost.length <= 3)
      stage.note(`lost in round ${round}`, lost.length)
    })
  }
}

async function migrations(stage: Stage): Promise<void> {
  const migrationSource = {
    getMigrations: async () => ['one', 'two', 'three'],
    getMigrationName: (name: string) => name,
    getMigration: async (name: string) => ({
      up: async (db: Knex) => {
        if (name === 'three') await db.raw('select broken')
        await db.schema.createTable(`knex_migrated_${name}`, (table) => table.increments())
      },
      down: (db: Knex) => db.schema.dropTable(`knex_migrated_${name}`),
    }),
  }
  await withKnex(stage, async (db) => {
    const { settles } = stage
    await settles('up', db.migrate.up())
    await settles('latest fails at three', db.migrate.latest())
    await settles('version', db.migrate.currentVersion())
    await settles('tables', db('information_schema.tables').where('table_name', 'like', 'knex_migrated%').pluck('table_name'))
    await settles('has table', db.schema.hasTable('knex_migrated_one'))
    await settles('columns', db('knex_migrated_one').columnInfo())
    await settles('list', db.migrate.list())
    await settles('rollback', db.migrate.rollback(undefined, true))
    await settles('has it still', db.schema.hasTable('knex_migrated_one'))
  }, { migrations: { migrationSource } })
}

async function batches(stage: Stage): Promise<void> {
  await withKnex(stage, async (db) => {
    await makeShop(db)
    const { settles } = stage
    const rows = Array.from({ length: 500 }, (_, i) => ({ email: `${i}`, big: String(i), tags: [String(i)] }))
    await settles('in chunks', db.batchInsert('knex_people', rows, 100).returning('*').then((made) => made.length))
    await settles('a chunk that fails', db.batchInsert('knex_people', [{ email: 'new' }, { email: '7' }], 1))
    await settles('count', db('knex_people').count().first())
    
  })
}

/** Knex with clients from a pool of pg. */
async function withPool(stage: Stage): Promise<void> {
  const { see, settles } = stage
  const events: string[] = []
  await withKnex(stage, async (db) => {
    db.on('query-response', (rows: unknown) => events.push(Array.isArray(rows) ? JSON.stringify(rows) : typeof rows))
    db.on('query-error', (error: Error) => events.push(error.message))
    await settles('one', db.select(db.raw('1 as one')))
    await settles('none', db.raw('select'))
    await settles('wrong', db.raw('wrong'))
  }, { searchPath: ['public', 'pg_temp'] as never })
  see('events', events)
}

async function noDatabase(stage: Stage): Promise<void> {
  await withKnex(stage, (db) => stage.settles('query', db.raw('select 1')), { connection: `${stage.url}_not` })
  await withKnex(stage, (db) => stage.settles('pool', db.transaction(async () => 1)), { connection: { host: '127.0.0.1', port: 1 } })
}

const scenarios: Scenarios = {
  'values of every type go in and come out': values,
  'joins, groups and subqueries': joins,
  'transactions, savepoints and what fails in them': transactions,
  'errors of the server and of time': errors,
  'rows as a stream': streams,
  'two hundred queries on five connections': poolOfMany,
  'few meet a connection that is just lost': lostConnection,
  'migrations up and down': migrations,
  'inserts in chunks': batches,
  'a database that is not there': noDatabase,
  'events of queries, and a search path': withPool,
}
export = scenarios
