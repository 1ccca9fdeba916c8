// Drizzle sends each query with its own `types` and with rows as arrays. Prepared queries have names.
import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { and, asc, avg, count, desc, eq, gt, inArray, relations, sql, TransactionRollbackError } from 'drizzle-orm'
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres'
import { migrate } from 'drizzle-orm/node-postgres/migrator'
import { bigint, bigserial, boolean, customType, date, doublePrecision, integer, interval, jsonb, numeric, pgTable, point, serial, text, time, timestamp, unique, uuid, type AnyPgColumn } from 'drizzle-orm/pg-core'
import { Client, Pool, type PoolConfig } from 'pg'

import type { Scenarios, Stage } from '../support/stage'

const bytea = customType<{ data: Buffer }>({ dataType: () => 'bytea' })

const people = pgTable('people', {
  id: serial('id').primaryKey(),
  email: text('email').notNull().unique(),
  boss: integer('boss').references((): AnyPgColumn => people.id),
  tags: text('tags').array(),
  matrix: integer('matrix').array().array(),
  settings: jsonb('settings'),
  seenAt: timestamp('seen_at', { withTimezone: true }),
  seenText: timestamp('seen_text', { mode: 'string' }),
  photo: bytea('photo'),
  balance: numeric('balance', { precision: 20, scale: 4 }),
  big: bigint('big', { mode: 'bigint' }),
  small: bigint('small', { mode: 'number' }),
  active: boolean('active').default(true),
  born: date('born'),
  bornDate: date('born_date', { mode: 'date' }),
  at: time('at'),
  span: interval('span'),
  token: uuid('token'),
  ratio: doublePrecision('ratio'),
  place: point('place'),
})

const items = pgTable(
  'items',
  {
    id: bigserial('id', { mode: 'number' }).primaryKey(),
    person: integer('person').references(() => people.id, { onDelete: 'cascade' }),
    title: text('title').notNull(),
    price: integer('price').notNull(),
  },
  (table) => [unique('items_of_person').on(table.person, table.title)],
)

const peopleRelations = relations(people, ({ one, many }) => ({
  items: many(items),
  boss: one(people, { fields: [people.boss], references: [people.id] }),
}))
const itemsRelations = relations(items, ({ one }) => ({ person: one(people, { fields: [items.person], references: [people.id] }) }))

const schema = { people, items, peopleRelations, itemsRelations }

type Db = NodePgDatabase<typeof schema>

const TABLES = `
  drop table if exists items; drop table if exists people;
  create table people (
    id serial primary key, email text not null unique, boss integer references people, tags text[], matrix integer[][],
    settings jsonb, seen_at timestamptz, seen_text timestamp, photo bytea, balance numeric(20, 4), big bigint, small bigint,
    active boolean default true, born date, born_date date, at time, span interval, token uuid, ratio double precision,
    place point
  );
  create table items (
    id bigserial primary key, person integer references people on delete cascade, title text not null,
    price integer not null check (price > 0), constraint items_of_person unique (person, title)
  )`

async function withDrizzle(
  { url }: Stage,
  run: (db: Db, pool: Pool) => Promise<void>,
  config: PoolConfig = {},
): Promise<void> {
  const pool = new Pool({ connectionString: url, max: 5, ...config })
  try {
    await pool.query(TABLES)
    await run(drizzle(pool as never, { schema }), pool)
  } finally {
    await pool.end()
  }
}

const ANN = {
  email: 'ann@example.org',
  tags: ['a', 'b "quoted" \\', 'c,d', 'NULL', ''],
  matrix: [[1, 2], [3, 4]],
  settings: { theme: 'dark', list: [1, null, { x: 'ü' }] },
  seenAt: new Date('2024-02-29T12:34:56.789Z'),
  seenText: '2024-02-29 12:34:56.789012',
  photo: Buffer.from([0, 1, 2, 255, 92, 39]),
  balance: '12345678901234.5678',
  big: 9007199254740993n,
  small: -5,
  born: '1999-12-31',
  bornDate: new Date('1999-12-31T00:00:00Z'),
  at: '23:59:59.5',
  span: '1 year 2 mons 3 days 04:05:06.789',
  token: '00000000-0000-4000-8000-000000000001',
  ratio: 0.1,
  place: [1.5, -2] as [number, number],
}

async function values(stage: Stage): Promise<void> {
  await withDrizzle(stage, async (db) => {
    const { settles } = stage
    await settles('insert', db.insert(people).values(ANN).returning())
    await settles('insert without returning', db.insert(people).values({ email: 'bob', active: null }))
    await settles('several', db.insert(people).values([{ email: 'c', big: 1n }, { email: 'd', balance: '1.5' }]).returning({ id: people.id, email: people.email }))
    await settles('upsert', db.insert(people).values({ email: 'bob', ratio: 7 }).onConflictDoUpdate({ target: people.email, set: { ratio: sql`excluded.ratio` } }).returning())
    await settles('ignored', db.insert(people).values({ email: 'bob' }).onConflictDoNothing())
    await settles('update', db.update(people).set({ tags: [], settings: null, seenAt: null }).where(eq(people.email, 'c')))
    await settles('update returning', db.update(people).set({ ratio: Infinity, settings: [1, 'two', null] }).where(gt(people.id, 2)).returning({ ratio: people.ratio, settings: people.settings }))
    await settles('all', db.select().from(people).orderBy(asc(people.id)))
    await settles('nobody', db.select().from(people).where(eq(people.id, 99)))
    await settles('in', db.select({ email: people.email }).from(people).where(inArray(people.id, [1, 2])).orderBy(people.id))
    await settles('count', db.select({ n: count(), mean: avg(people.small) }).from(people))
    await settles('$count', db.$count(people, gt(people.id, 2)))
    await settles('delete', db.delete(people).where(eq(people.email, 'd')).returning({ email: people.email }))
    await settles('execute', db.execute(sql`select ${1}::int as a, ${'two'}::text as b, ${null}::text as c, now() is not null as d, date '2020-02-02' as day, ${1} in ${[1, 2]} as listed`))
    await settles('execute with rows', db.execute(sql`select timestamptz '2020-02-02 00:00+00' at time zone 'UTC' as at, interval '1 day' as span, array[date '2020-02-02'] as days, 1 as a, 2 as a`))
    await settles('execute a text', db.execute('select 1 as one'))
  })
}

async function joins(stage: Stage): Promise<void> {
  await withDrizzle(stage, async (db) => {
    const { settles } = stage
    await db.insert(people).values([{ email: 'a' }, { email: 'b', boss: 1 }, { email: 'c', boss: 1 }])
    await db.insert(items).values([{ person: 1, title: 'x', price: 5 }, { person: 1, title: 'y', price: 6 }, { person: 2, title: 'z', price: 7 }])
    await settles('left', db.select().from(people).leftJoin(items, eq(items.person, people.id)).orderBy(people.id, items.id))
    await settles('inner', db.select({ email: people.email, item: { title: items.title, price: items.price } }).from(people).innerJoin(items, and(eq(items.person, people.id), gt(items.price, 5))).orderBy(desc(items.price)))
    await settles('relations', db.query.people.findMany({ with: { items: { orderBy: items.id }, boss: { columns: { email: true } } }, columns: { id: true, email: true }, orderBy: people.id }))
    await settles('first', db.query.items.findFirst({ with: { person: true }, where: eq(items.title, 'z') }))
    const rich = db.$with('rich').as(db.select().from(items).where(gt(items.price, 5)))
    await settles('with', db.with(rich).select().from(rich).orderBy(rich.id))
    const byName = db.select({ title: items.title }).from(items).where(eq(items.price, sql.placeholder('price'))).prepare('by_price')
    await settles('prepared', byName.execute({ price: 5 }))
    await settles('prepared, again', byName.execute({ price: 7 }))
    await settles('prepared, many at once', Promise.all(Array.from({ length: 50 }, (_, i) => byName.execute({ price: i % 10 }))))
  })
}

async function transactions(stage: Stage): Promise<void> {
  await withDrizzle(stage, async (db) => {
    const { see, settles } = stage
    const emails = async (): Promise<string[]> => (await db.select({ email: people.email }).from(people).orderBy(people.id)).map(({ email }) => email)
    await settles('commit', db.transaction(async (tx) => {
      await tx.insert(people).values({ email: 'one' })
      return tx.update(people).set({ small: 5 }).where(eq(people.email, 'one')).returning({ small: people.small })
    }))
    await settles('rollback by an error', db.transaction(async (tx) => {
      await tx.insert(people).values({ email: 'two' })
      throw new Error('no')
    }))
    await settles('rollback', db.transaction(async (tx) => {
      await tx.insert(people).values({ email: 'three' })
      tx.rollback()
    }).catch((error) => error instanceof TransactionRollbackError))
    await settles('nested', db.transaction(async (tx) => {
      await tx.insert(people).values({ email: 'outer' })
      await settles('inner fails', tx.transaction(async (inner) => {
        await inner.insert(people).values({ email: 'inner' })
        await inner.insert(people).values({ email: 'one' })
      }))
      await settles('inner', tx.transaction(async (inner) => {
        await settles('deeper', inner.transaction((deep) => deep.insert(people).values({ email: 'deep' })))
      }))
      return tx.select({ email: people.email }).from(people).orderBy(people.id)
    }))
    await settles('failed', db.transaction(async (tx) => {
      await settles('unique', tx.insert(people).values({ email: 'one' }))
      await settles('aborted', tx.select().from(people))
    }))
    await settles('settings', db.transaction((tx) => tx.execute(sql`show transaction_isolation`).then(({ rows }) => rows), { isolationLevel: 'repeatable read', accessMode: 'read only', deferrable: true }))
    await settles('read only', db.transaction((tx) => tx.insert(people).values({ email: 'x' }), { accessMode: 'read only' }))
    await settles('empty', db.transaction(async () => 'nothing'))
    await settles('at once', Promise.all(Array.from({ length: 20 }, (_, i) => db.transaction(async (tx) => {
      await tx.insert(people).values({ email: `many ${i}` })
      if (i % 3 === 0) throw new Error(`${i}`)
      return i
    }).catch((error: Error) => error.message))))
    see('at last', (await emails()).sort())
  })
}

async function errors(stage: Stage): Promise<void> {
  await withDrizzle(stage, async (db) => {
    const { settles } = stage
    await db.insert(people).values({ email: 'one' })
    await settles('unique', db.insert(people).values({ email: 'one' }))
    await settles('foreign key', db.insert(items).values({ person: 7, title: 'x', price: 1 }))
    await settles('check', db.insert(items).values({ person: 1, title: 'x', price: -1 }))
    await settles('not null', db.insert(people).values({ email: null as never }))
    await settles('syntax', db.execute(sql`selec 1`))
    await settles('bad value', db.select().from(people).where(eq(people.id, 'x' as never)))
    await settles('overflow', db.insert(people).values({ email: 'y', boss: 2 ** 40 }))
    const wrong = db.execute(sql`select 1 / ${0}::int`)
    await settles('at run time', wrong)
    const gone = db.select().from(sql`nowhere`.as('n') as never).prepare('gone')
    await settles('prepared, failing', gone.execute().then(() => 'came', (error: { cause: unknown }) => error.cause))
    await settles('prepared, failing again', gone.execute().then(() => 'came', (error: { cause: unknown }) => error.cause))
    await settles('after all', db.select({ email: people.email }).from(people))
  }, { max: 1 })
}

async function pool(stage: Stage): Promise<void> {
  await withDrizzle(stage, async (db, clients) => {
    const { see } = stage
    const many = Array.from({ length: 200 }, (_, i) => db.execute<{ i: number }>(sql`select ${i}::int as i`))
    const answered = (await Promise.all(many)) as { rows: { i: number }[] }[]
    see('answers', answered.every(({ rows }, i) => rows[0]?.i === i))
    see('counts', [clients.totalCount, clients.idleCount, clients.waitingCount])
    const client = new Client(stage.url)
    await client.connect()
    const single = drizzle(client as never)
    see('on one client', await Promise.all(Array.from({ length: 20 }, (_, i) => single.execute(sql`select ${i}::int as i`).then(({ rows }) => rows))))
    see('transaction on a client', await single.transaction((tx) => tx.execute(sql`select 1 as one`)))
    await client.end()
  })
  await stage.settles('made by drizzle', (async () => {
    const own = drizzle({ connection: { connectionString: stage.url, max: 2 } })
    const { rows } = await own.execute(sql`select 1 as one`)
    await own.$client.end()
    return rows
  })())
}

async function migrations(stage: Stage): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'compat-drizzle-'))
  try {
    mkdirSync(join(folder, 'meta'))
    const entries = ['0000_one', '0001_two'].map((tag, idx) => ({ idx, version: '7', when: 1700000000000 + idx, tag, breakpoints: true }))
    writeFileSync(join(folder, 'meta', '_journal.json'), JSON.stringify({ version: '7', dialect: 'postgresql', entries }))
    writeFileSync(join(folder, '0000_one.sql'), 'create table migrated_one (id int);\n--> statement-breakpoint\ncreate index on migrated_one (id);')
    writeFileSync(join(folder, '0001_two.sql'), 'create table migrated_two (id int);\n--> statement-breakpoint\nselect broken;')
    await withDrizzle(stage, async (db) => {
      const { settles } = stage
      const tables = (): PromiseLike<unknown> => db.execute(sql`select tablename from pg_tables where tablename like 'migrated%' order by 1`).then(({ rows }) => rows)
      await settles('fails in the second', migrate(db, { migrationsFolder: folder }))
      await settles('none', tables())
      writeFileSync(join(folder, '0001_two.sql'), 'create table migrated_two (id int); create table migrated_three (id int)')
      await settles('all', migrate(db, { migrationsFolder: folder }))
      await settles('again', migrate(db, { migrationsFolder: folder }))
      await settles('tables', tables())
    })
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** The trips of a transaction. */
async function trips(stage: Stage): Promise<void> {
  const proxy = await stage.proxy()
  await withDrizzle({ ...stage, url: proxy.url }, async (db) => {
    const run = async (): Promise<number> => {
      proxy.restart()
      await db.transaction(async (tx) => {
        const [row] = await tx.insert(people).values({ email: 'x' }).returning({ id: people.id })
        await tx.update(people).set({ email: `x${row?.id}` }).where(eq(people.id, row?.id ?? 0))
      })
      return proxy.trips
    }
    await run()
    stage.note('trips of a transaction', await run())
    proxy.restart()
    await db.transaction(async () => {})
    stage.note('trips of an empty transaction', proxy.trips)
    proxy.restart()
    await db.transaction(async (tx) => void (await tx.transaction((inner) => inner.select().from(people)))).catch(() => {})
    stage.note('trips of a nested transaction', proxy.trips)
    stage.see('people', await db.select({ email: people.email }).from(people).orderBy(people.id))
  })
}

const scenarios: Scenarios = {
  'values of every type go in and come out': values,
  'joins, relations and prepared statements': joins,
  'transactions, nested ones and what fails in them': transactions,
  'errors of the server': errors,
  'two hundred queries on five connections, and on one': pool,
  'migrations from a folder': migrations,
  'trips of a transaction': trips,
}
export = scenarios
