// Kysely takes a pool, and uses one method of each object that it gets from the pool.
import { Kysely, PostgresDialect, sql, Migrator, type ColumnType, type Generated, type Migration } from 'kysely'
import { Pool, type PoolConfig } from 'pg'

import { plain } from '../support/plain'
import type { Scenarios, Stage } from '../support/stage'

interface Tables {
  people: {
    id: Generated<number>
    email: string
    tags: string[] | null
    settings: ColumnType<unknown, string | null, string | null>
    seen_at: Date | null
    photo: Buffer | null
    balance: ColumnType<string | null, string | number | null>
    big: ColumnType<string | null, string | bigint | null>
    span: ColumnType<unknown, string | null>
  }
  items: { id: Generated<number>; person: number | null; title: string; price: number }
}

type Db = Kysely<Tables>

async function withKysely(
  { url }: Stage,
  run: (db: Db, pool: Pool) => Promise<void>,
  config: PoolConfig = {},
  cursor?: unknown,
): Promise<void> {
  const pool = new Pool({ connectionString: url, max: 5, ...config })
  const dialect = new PostgresDialect({ pool: pool as never, ...(cursor ? { cursor: cursor as never } : {}) })
  const db: Db = new Kysely({ dialect })
  try {
    await run(db, pool)
  } finally {
    await db.destroy()
  }
}

async function makeTables(db: Db): Promise<void> {
  await db.schema.dropTable('items').ifExists().execute()
  await db.schema.dropTable('people').ifExists().execute()
  await db.schema
    .createTable('people')
    .addColumn('id', 'serial', (column) => column.primaryKey())
    .addColumn('email', 'text', (column) => column.notNull().unique())
    .addColumn('tags', sql`text[]`)
    .addColumn('settings', 'jsonb')
    .addColumn('seen_at', 'timestamptz')
    .addColumn('photo', 'bytea')
    .addColumn('balance', 'numeric(20, 4)')
    .addColumn('big', 'bigint')
    .addColumn('span', sql`interval`)
    .execute()
  await db.schema
    .createTable('items')
    .addColumn('id', 'serial', (column) => column.primaryKey())
    .addColumn('person', 'integer', (column) => column.references('people.id').onDelete('cascade'))
    .addColumn('title', 'text', (column) => column.notNull())
    .addColumn('price', 'integer', (column) => column.notNull().check(sql`price > 0`))
    .execute()
}

const ANN = {
  email: 'ann@example.org',
  tags: ['a', 'b "quoted" \\', 'c,d', 'NULL', ''],
  settings: JSON.stringify({ theme: 'dark', list: [1, null, { x: 'ü' }] }),
  seen_at: new Date('2024-02-29T12:34:56.789Z'),
  photo: Buffer.from([0, 1, 2, 255, 92, 39]),
  balance: '12345678901234.5678',
  big: 9007199254740993n,
  span: '1 year 2 mons 3 days 04:05:06.789',
}

async function values(stage: Stage): Promise<void> {
  await withKysely(stage, async (db) => {
    await makeTables(db)
    const { settles } = stage
    const people = db.insertInto('people')
    await settles('insert', people.values(ANN).returningAll().executeTakeFirst())
    await settles('insert without returning', people.values({ email: 'bob' }).executeTakeFirst())
    await settles('several', people.values([{ email: 'c', big: '1' }, { email: 'd', balance: 1.5 }]).returning(['id', 'email']).execute())
    await settles('upsert', people.values({ email: 'bob', span: '-1 hour' }).onConflict((on) => on.column('email').doUpdateSet({ span: sql`excluded.span` })).returningAll().execute())
    await settles('ignored', people.values({ email: 'bob' }).onConflict((on) => on.doNothing()).executeTakeFirst())
    await settles('update', db.updateTable('people').set({ tags: [], seen_at: null }).where('email', '=', 'c').executeTakeFirst())
    await settles('update returning', db.updateTable('people').set({ tags: ['x'] }).where('id', '<', 3).returning('tags').execute())
    await settles('all', db.selectFrom('people').selectAll().orderBy('id').execute())
    await settles('nobody', db.selectFrom('people').selectAll().where('id', '=', 99).executeTakeFirst())
    await settles('nobody, thrown', db.selectFrom('people').selectAll().where('id', '=', 99).executeTakeFirstOrThrow())
    await settles('array', db.selectFrom('people').select('id').where('email', '=', sql<string>`any(${['c', 'd']})`).orderBy('id').execute())
    await settles('in', db.selectFrom('people').select('email').where('id', 'in', [1, 2]).orderBy('id').execute())
    await settles('json path', db.selectFrom('people').select((e) => e.ref('settings', '->>').key('theme' as never).as('theme')).where('id', '=', 1).execute())
    await settles('count', db.selectFrom('people').select((e) => [e.fn.countAll().as('n'), e.fn.max('balance').as('most')]).execute())
    await settles('delete', db.deleteFrom('people').where('email', '=', 'd').executeTakeFirst())
    await settles('delete returning', db.deleteFrom('people').where('email', '=', 'c').returning('email').execute())
    await settles('raw', sql`select ${1}::int as a, ${'two'}::text as b, ${null}::text as c, ${true}::bool as d`.execute(db))
    await settles('raw of no values', sql`select 1 as a, 1 as a`.execute(db))
    await settles('nothing', sql`set local x.y = 'z'`.execute(db))
  })
}

async function joins(stage: Stage): Promise<void> {
  await withKysely(stage, async (db) => {
    await makeTables(db)
    const { settles } = stage
    await db.insertInto('people').values([{ email: 'a' }, { email: 'b' }, { email: 'c' }]).execute()
    await db.insertInto('items').values([{ person: 1, title: 'x', price: 5 }, { person: 1, title: 'y', price: 6 }, { person: 2, title: 'z', price: 7 }]).execute()
    await settles('inner', db.selectFrom('people').innerJoin('items', 'items.person', 'people.id').select(['email', 'title', 'items.id as item']).orderBy('item').execute())
    await settles('left', db.selectFrom('people').leftJoin('items', 'items.person', 'people.id').select(['email', 'title']).orderBy('email').orderBy('title').execute())
    await settles('lateral', db.selectFrom('people').innerJoinLateral((e) => e.selectFrom('items').select('title').whereRef('person', '=', 'people.id').orderBy('price', 'desc').limit(1).as('best'), (on) => on.onTrue()).select(['email', 'best.title']).orderBy('email').execute())
    await settles('nested rows', db.selectFrom('people').select(['email', sql`(select coalesce(json_agg(i order by i.id), '[]') from items i where i.person = people.id)`.as('items')]).orderBy('email').execute())
    await settles('with', db.with('rich', (e) => e.selectFrom('items').where('price', '>', 5).selectAll()).selectFrom('rich').selectAll().orderBy('id').execute())
    await settles('union', db.selectFrom('people').select('email as name').union(db.selectFrom('items').select('title as name')).orderBy('name').execute())
    await settles('explain', db.selectFrom('people').selectAll().explain('json').then((plans) => plans.length))
    await settles('tables', db.introspection.getTables())
  })
}

async function transactions(stage: Stage): Promise<void> {
  await withKysely(stage, async (db) => {
    await makeTables(db)
    const { see, settles } = stage
    const insert = (on: Db, email: string): Promise<unknown> => on.insertInto('people').values({ email }).execute()
    const emails = async (): Promise<string[]> => (await db.selectFrom('people').select('email').orderBy('id').execute()).map(({ email }) => email)
    await settles('commit', db.transaction().execute(async (trx) => {
      await insert(trx, 'one')
      return trx.updateTable('people').set({ big: '5' }).where('email', '=', 'one').executeTakeFirst()
    }))
    await settles('rollback', db.transaction().execute(async (trx) => {
      await insert(trx, 'two')
      throw new Error('no')
    }))
    await settles('failed', db.transaction().execute(async (trx) => {
      await settles('unique', insert(trx, 'one'))
      await settles('aborted', insert(trx, 'three'))
    }))
    see('so far', await emails())
    await settles('level', db.transaction().setIsolationLevel('serializable').execute(async (trx) => (await sql`show transaction_isolation`.execute(trx)).rows))
    await settles('read only', db.transaction().setAccessMode('read only').execute((trx) => insert(trx, 'never')))
    await settles('empty', db.transaction().execute(async () => 'nothing'))
    const trx = await db.startTransaction().execute()
    await insert(trx, 'kept')
    const saved = await trx.savepoint('before').execute()
    await insert(saved, 'undone')
    await settles('in the savepoint', insert(saved, 'kept'))
    await (await saved.rollbackToSavepoint('before').execute()).releaseSavepoint('before').execute()
    await insert(trx, 'kept, too')
    await settles('committed', trx.commit().execute())
    see('is it', [trx.isCommitted, trx.isRolledBack])
    const gone = await db.startTransaction().execute()
    await insert(gone, 'gone')
    await settles('rolled back', gone.rollback().execute())
    await settles('late', insert(gone, 'late'))
    see('at last', await emails())
  })
}

async function errors(stage: Stage): Promise<void> {
  await withKysely(stage, async (db) => {
    await makeTables(db)
    const { settles } = stage
    await db.insertInto('people').values({ email: 'one' }).execute()
    await settles('unique', db.insertInto('people').values({ email: 'one' }).execute())
    await settles('not null', db.insertInto('people').values({ email: null as never }).execute())
    await settles('foreign key', db.insertInto('items').values({ person: 7, title: 'x', price: 1 }).execute())
    await settles('check', db.insertInto('items').values({ person: 1, title: 'x', price: -1 }).execute())
    await settles('no column', db.selectFrom('people').select('nothing' as never).execute())
    await settles('syntax', sql`selec 1`.execute(db))
    await settles('bad value', db.selectFrom('people').selectAll().where('id', '=', 'x' as never).execute())
    await settles('a circle', db.insertInto('people').values({ email: 'c', settings: circle() as never }).execute())
    await settles('a thousand', Promise.all(Array.from({ length: 40 }, (_, i) => sql`select ${i}::int / ${i % 4}::int as n`.execute(db).then(({ rows }) => rows, ({ code }) => code as string))))
    await settles('after all', db.selectFrom('people').select('email').execute())
  })
}

function circle(): object {
  const one: { self?: object } = {}
  one.self = one
  return one
}

async function pool(stage: Stage): Promise<void> {
  const { see, settles } = stage
  const made = new Set<unknown>()
  let removed = 0
  let allRemoved: Promise<void> | undefined
  await withKysely(stage, async (db, clients) => {
    clients.on('connect', (client) => made.add(client))
    allRemoved = new Promise((resolve) => clients.on('remove', () => ++removed === 5 && resolve()))
    const many = Array.from({ length: 200 }, (_, i) => sql<{ i: number; pid: number }>`select ${i}::int as i, pg_backend_pid() as pid`.execute(db))
    const results = await Promise.all(many)
    see('answers', results.every(({ rows }, i) => rows[0]?.i === i))
    see('on five', [new Set(results.map(({ rows }) => rows[0]?.pid)).size, made.size])
    see('counts', [clients.totalCount, clients.idleCount, clients.waitingCount])
    await settles('one connection', db.connection().execute(async (one) => {
      const pid = async (): Promise<unknown> => (await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(one)).rows[0]?.pid
      return (await pid()) === (await pid())
    }))
  })
  // pg says that a pool has ended before its clients have.
  await allRemoved
  see('removed', removed)
  let late: Db | undefined
  await withKysely(stage, async (db) => {
    late = db
    await sql`select 1`.execute(db)
  })
  await settles('after destroy', sql`select 1`.execute(late as Db))
}

async function migrations(stage: Stage): Promise<void> {
  const create = (name: string): Migration => ({
    up: (db) => db.schema.createTable(name).addColumn('id', 'integer').execute(),
    down: (db) => db.schema.dropTable(name).execute(),
  })
  const broken: Migration = { up: async (db) => void (await sql`select broken`.execute(db)) }
  const steps: { [name: string]: Migration } = { a: create('kysely_a'), b: create('kysely_b'), c: broken }
  await withKysely(stage, async (db) => {
    const { settles } = stage
    const migrator = new Migrator({ db, provider: { getMigrations: async () => steps } })
    await settles('up', migrator.migrateUp())
    await settles('latest fails at c, and b with it', migrator.migrateToLatest())
    await settles('known', migrator.getMigrations().then((known) => known.map(({ name, executedAt }) => [name, executedAt instanceof Date])))
    delete steps['c']
    await settles('latest', migrator.migrateToLatest())
    await settles('down', migrator.migrateDown())
    await settles('tables', db.introspection.getTables().then((tables) => tables.map(({ name }) => name).filter((name) => name.startsWith('kysely_'))))
  })
}

/** Two migrations at once: one waits for the other's lock. */
async function lockedMigrations(stage: Stage): Promise<void> {
  const slow: Migration = { up: async (db) => void (await sql`create table slow as select 1 as one from pg_sleep(0.1)`.execute(db)) }
  const provider = { getMigrations: async () => ({ slow }) }
  await withKysely(stage, async (db) => {
    const migrate = (): Promise<unknown> => new Migrator({ db, provider, migrationTableName: 'slow_migrations', migrationLockTableName: 'slow_lock' }).migrateToLatest()
    const both = await Promise.all([migrate(), migrate()])
    const done = both.map((result) => plain(result))
    stage.see('one of them did it', done.sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1)))
  })
}

async function streams(stage: Stage): Promise<void> {
  const Cursor: unknown = require('pg-cursor')
  await withKysely(stage, async (db) => {
    const { see, settles } = stage
    const series = sql<{ n: number }>`generate_series(1, 1000)`.as<'s'>('s')
    const read = async (size: number, expression = sql<number>`s`): Promise<number[]> => {
      const sums: [number, number] = [0, 0]
      for await (const { n } of db.selectFrom(series).select(expression.as('n')).stream(size)) {
        sums[0]++
        sums[1] += n
      }
      return sums
    }
    await settles('one by one', read(1))
    await settles('in parts', read(300))
    await settles('at once', read(5000))
    await settles('failing', read(100, sql<number>`1 / (500 - s)`))
    for await (const row of db.selectFrom(series).select(sql`s`.as('n')).stream(10)) {
      see('only the first', row)
      break
    }
    await settles('in a transaction', db.transaction().execute(async (trx) => {
      const rows: unknown[] = []
      for await (const row of trx.selectFrom(series).select(sql`s`.as('n')).limit(3).stream(2)) rows.push(row)
      return rows
    }))
    await settles('after all', sql`select 1 as one`.execute(db))
  }, { max: 1 }, Cursor)
}

/** The trips of a transaction. */
async function trips(stage: Stage): Promise<void> {
  const proxy = await stage.proxy()
  await withKysely({ ...stage, url: proxy.url }, async (db) => {
    await makeTables(db)
    const run = async (): Promise<number> => {
      proxy.restart()
      await db.transaction().execute(async (trx) => {
        const { id } = await trx.insertInto('people').values({ email: 'x' }).returning('id').executeTakeFirstOrThrow()
        await trx.updateTable('people').set({ email: `x${id}` }).where('id', '=', id).execute()
      })
      return proxy.trips
    }
    await run()
    stage.note('trips of a transaction', await run())
    proxy.restart()
    await db.transaction().execute(async () => {})
    stage.note('trips of an empty transaction', proxy.trips)
    stage.see('people', await db.selectFrom('people').select(['id', 'email']).orderBy('id').execute())
  })
}

const scenarios: Scenarios = {
  'values of every type go in and come out': values,
  'joins, subqueries and introspection': joins,
  'transactions, savepoints and what fails in them': transactions,
  'errors of the server': errors,
  'two hundred queries on five connections': pool,
  'migrations up and down': migrations,
  'of two migrations at once one waits': lockedMigrations,
  'rows as a stream': streams,
  'trips of a transaction': trips,
}
export = scenarios
