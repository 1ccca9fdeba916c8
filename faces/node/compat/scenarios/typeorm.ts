// TypeORM takes `Pool` and `defaults` of pg, lends clients with callbacks of three arguments and reads raw results.
import 'reflect-metadata'

import { Column, CreateDateColumn, DataSource, Entity, EntitySchema, JoinTable, ManyToMany, ManyToOne, OneToMany, OptimisticLockVersionMismatchError, PrimaryGeneratedColumn, Unique, VersionColumn, type DataSourceOptions, type MigrationInterface, type QueryRunner } from 'typeorm'

import type { Scenarios, Stage } from '../support/stage'

@Entity('people')
class Person {
  @PrimaryGeneratedColumn() id!: number
  @Column('text', { unique: true }) email!: string
  @Column('text', { array: true, nullable: true }) tags!: string[] | null
  @Column('simple-array', { nullable: true }) simple!: string[] | null
  @Column('jsonb', { nullable: true }) settings!: unknown
  @Column('timestamptz', { nullable: true }) seenAt!: Date | null
  @Column('bytea', { nullable: true }) photo!: Buffer | null
  @Column('numeric', { precision: 20, scale: 4, nullable: true }) balance!: string | null
  @Column('bigint', { nullable: true }) big!: string | null
  @Column('enum', { enum: ['new', 'old'], default: 'new' }) kind!: string
  @Column('enum', { enum: ['a', 'b', 'c'], array: true, nullable: true }) kinds!: string[] | null
  @Column('date', { nullable: true }) born!: string | null
  @Column('interval', { nullable: true }) span!: unknown
  @Column('point', { nullable: true }) place!: unknown
  @Column('uuid', { nullable: true }) token!: string | null
  @Column('int', { array: true, nullable: true }) numbers!: number[] | null
  @Column('int4range', { nullable: true }) range!: string | null
  @Column('double precision', { nullable: true }) ratio!: number | null
  @VersionColumn() version!: number
  @CreateDateColumn() createdAt!: Date
  @OneToMany(() => Item, (item) => item.person, { cascade: true }) items!: Item[]
  @ManyToMany(() => Group, (group) => group.people, { cascade: true }) @JoinTable() groups!: Group[]
}

@Entity('items')
@Unique('item_of_person', ['person', 'title'])
class Item {
  @PrimaryGeneratedColumn('increment', { type: 'bigint' }) id!: string
  @Column('text') title!: string
  @Column('int') price!: number
  @ManyToOne(() => Person, (person) => person.items, { onDelete: 'CASCADE' }) person!: Person
}

@Entity('groups')
class Group {
  @PrimaryGeneratedColumn('uuid') id!: string
  @Column('text') name!: string
  @ManyToMany(() => Person, (person) => person.groups) people!: Person[]
}

async function withTypeOrm(
  { url }: Stage,
  run: (db: DataSource) => Promise<void>,
  options: Partial<DataSourceOptions> = {},
): Promise<void> {
  const settings = { type: 'postgres', url, entities: [Person, Item, Group], synchronize: true, dropSchema: true, poolSize: 5, logging: false }
  const db = new DataSource({ ...settings, ...options } as DataSourceOptions)
  await db.initialize()
  try {
    await run(db)
  } finally {
    await db.destroy()
  }
}

const ANN = {
  email: 'ann@example.org',
  tags: ['a', 'b "quoted" \\', 'c,d', 'NULL', ''],
  simple: ['x', 'y'],
  settings: { theme: 'dark', list: [1, null, { x: 'ü' }] },
  seenAt: new Date('2024-02-29T12:34:56.789Z'),
  photo: Buffer.from([0, 1, 2, 255, 92, 39]),
  balance: '12345678901234.5678',
  big: '9007199254740993',
  kinds: ['a', 'c'],
  born: '1999-12-31',
  span: '1 year 2 mons 3 days 04:05:06.789',
  place: '(1.5,-2)',
  token: '00000000-0000-4000-8000-000000000001',
  numbers: [3, 1, 2],
  range: '[1,5)',
  ratio: 0.1,
}

/** Times of creation differ. */
function untimed(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value, (key, part: unknown) => (key === 'createdAt' ? typeof part : part)))
}

async function values(stage: Stage): Promise<void> {
  await withTypeOrm(stage, async (db) => {
    const { see, settles } = stage
    const people = db.getRepository(Person)
    const ann = await people.save(people.create(ANN))
    see('saved', untimed(ann))
    const found = await people.findOneByOrFail({ email: ANN.email })
    see('found', { ...found, createdAt: found.createdAt instanceof Date })
    await settles('insert', people.insert([{ email: 'b' }, { email: 'c', ratio: Infinity }]).then(({ identifiers }) => identifiers))
    await settles('update', people.update({ email: 'b' }, { tags: [], settings: [1] }))
    await settles('upsert', people.upsert({ email: 'b', ratio: 3 }, ['email']).then(({ identifiers }) => identifiers))
    await settles('increment', people.increment({ email: 'b' }, 'ratio', 2))
    await settles('count', people.countBy({ kind: 'new' }))
    await settles('sum', people.sum('id', { email: 'b' }))
    await settles('delete', people.delete({ email: 'c' }))
    await settles('exists', people.existsBy({ email: 'c' }))
    await settles('query', db.query('select $1::int as a, $2::text[] as b', [1, ['x', 'y']]))
    await settles('query of several statements', db.query('select 1 as a; select 2 as b'))
    await settles('query that inserts', db.query("insert into groups (name) values ('raw')"))
    await settles('query that updates', db.query("update groups set name = 'raw'"))
    await settles('raw results', db.createQueryRunner().query('select 1 as one', [], true).then(({ raw, records, affected }) => ({ raw: raw as unknown, records, affected })))
    await settles('template', db.sql`select ${5}::int as five`)
    await settles('builder', people.createQueryBuilder('p').select(['p.id', 'p.email']).where('p.id in (:...ids)', { ids: [1, 2] }).orderBy('p.id').getMany())
    await settles('raw and entities', people.createQueryBuilder('p').select('p.id').addSelect('length(p.email)', 'n').orderBy('p.id').getRawAndEntities())
    await settles('returning', db.createQueryBuilder().insert().into(Group).values({ id: ANN.token, name: 'g' }).returning(['name']).execute().then(({ raw }) => raw as unknown))
  })
}

async function relations(stage: Stage): Promise<void> {
  await withTypeOrm(stage, async (db) => {
    const { see, settles } = stage
    const people = db.getRepository(Person)
    for (const email of ['a', 'b', 'c']) {
      const items = email === 'c' ? [] : [{ title: 'x', price: 5 }, { title: `y of ${email}`, price: 6 }]
      await people.save(people.create({ email, items, groups: email === 'a' ? [{ name: 'g' }] : [] }))
    }
    const all = await people.find({ relations: { items: true, groups: true }, order: { id: 'ASC', items: { id: 'ASC' } } })
    see('all', all.map(({ id, email, items, groups }) => ({ id, email, items, groups: groups.map(({ name }) => name) })))
    await settles('where', people.find({ select: { id: true, email: true }, where: { items: { price: 6 } }, order: { id: 'ASC' } }))
    await settles('by relation', db.getRepository(Item).find({ select: { id: true, title: true, person: { email: true } }, relations: { person: true }, order: { id: 'ASC' } }))
    await settles('and count', people.findAndCount({ select: { id: true }, take: 2, skip: 1, order: { id: 'ASC' } }))
    await settles('joined', people.createQueryBuilder('p').leftJoinAndSelect('p.items', 'i', 'i.price > :price', { price: 5 }).select(['p.id', 'i.title']).orderBy('p.id').getMany())
    await settles('subquery', people.createQueryBuilder('p').select('p.email').where((q) => `p.id in ${q.subQuery().select('i.personId').from(Item, 'i').where('i.price = 6').getQuery()}`).orderBy('p.id').getMany())
    await people.remove(await people.findOneByOrFail({ email: 'a' }))
    await settles('left', db.getRepository(Item).count())
  })
}

async function transactions(stage: Stage): Promise<void> {
  await withTypeOrm(stage, async (db) => {
    const { see, settles } = stage
    const emails = async (): Promise<string[]> => (await db.getRepository(Person).find({ order: { email: 'ASC' } })).map(({ email }) => email)
    await settles('commit', db.transaction(async (manager) => {
      await manager.insert(Person, { email: 'one' })
      return manager.update(Person, { email: 'one' }, { ratio: 5 })
    }))
    await settles('rollback', db.transaction(async (manager) => {
      await manager.insert(Person, { email: 'two' })
      throw new Error('no')
    }))
    await settles('nested', db.transaction(async (manager) => {
      await manager.insert(Person, { email: 'outer' })
      await settles('inner fails', manager.transaction(async (inner) => {
        await inner.insert(Person, { email: 'inner' })
        await inner.insert(Person, { email: 'one' })
      }))
      await settles('inner', manager.transaction((inner) => inner.insert(Person, { email: 'deep' }).then(() => 'kept')))
    }))
    await settles('level', db.transaction('SERIALIZABLE', (manager) => manager.query('show transaction_isolation')))
    await settles('empty', db.transaction(async () => 'nothing'))
    const runner = db.createQueryRunner()
    await runner.connect()
    await runner.startTransaction()
    see('active', runner.isTransactionActive)
    await runner.manager.insert(Person, { email: 'by hand' })
    await settles('unique', runner.manager.insert(Person, { email: 'one' }))
    await settles('aborted', runner.query('select 1'))
    await runner.rollbackTransaction()
    await settles('twice', runner.rollbackTransaction())
    await runner.release()
    await settles('released', runner.query('select 1'))
    await settles('locks', db.transaction((manager) => manager.findOne(Person, { select: { email: true }, where: { email: 'one' }, lock: { mode: 'pessimistic_write' } })))
    await settles('versions', db.manager.findOne(Person, { where: { email: 'one' }, lock: { mode: 'optimistic', version: 7 } }).catch((error) => error instanceof OptimisticLockVersionMismatchError))
    see('at last', await emails())
  })
}

async function errors(stage: Stage): Promise<void> {
  await withTypeOrm(stage, async (db) => {
    const { settles } = stage
    await db.manager.insert(Person, { email: 'one' })
    await settles('unique', db.manager.insert(Person, { email: 'one' }))
    await settles('unique by save', db.manager.save(db.manager.create(Person, { email: 'one' })))
    await settles('of two', db.manager.insert(Item, [{ title: 'x', price: 1, person: { id: 1 } }, { title: 'x', price: 1, person: { id: 1 } }]))
    await settles('foreign key', db.manager.insert(Item, { title: 'x', price: 1, person: { id: 99 } }))
    await settles('not null', db.query('insert into groups (id, name) values ($1, null)', [ANN.token]))
    await settles('bad value', db.manager.findOneBy(Person, { token: 'x' }))
    await settles('syntax', db.query('selec 1'))
    await settles('enum', db.manager.insert(Person, { email: 'two', kind: 'wrong' }))
    await settles('after all', db.manager.count(Person))
  })
  await stage.settles('no database', withTypeOrm({ ...stage, url: `${stage.url}_not` }, async () => {}))
  await stage.settles('nobody there', withTypeOrm({ ...stage, url: 'postgres://x@127.0.0.1:1/x' }, async () => {}))
}

async function pool(stage: Stage): Promise<void> {
  await withTypeOrm(stage, async (db) => {
    const { see, settles } = stage
    const many = Array.from({ length: 200 }, (_, i) => db.query<{ i: number; pid: number }[]>('select $1::int as i, pg_backend_pid() as pid', [i]))
    const results = await Promise.all(many)
    see('answers', results.every((rows, i) => rows[0]?.i === i))
    see('on five', new Set(results.map((rows) => rows[0]?.pid)).size <= 5)
    await settles('replication slave', db.createQueryRunner('slave').query('select 1 as one'))
  })
  await withTypeOrm(stage, async (db) => {
    stage.see('integers', await db.query('select 9007199254740991::bigint as big, count(*) from people'))
  }, { parseInt8: true } as Partial<DataSourceOptions>)
  await withTypeOrm(stage, async (db) => {
    stage.see('and as before', await db.query('select 1::bigint as big'))
  }, { parseInt8: false, applicationName: 'orm', extra: { statement_timeout: 5000 } } as Partial<DataSourceOptions>)
}

class First implements MigrationInterface {
  name = 'First1700000000001'
  async up(runner: QueryRunner): Promise<void> {
    await runner.query('create table migrated_one (id int)')
  }
  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop table migrated_one')
  }
}

class Second implements MigrationInterface {
  name = 'Second1700000000002'
  static isBroken = true
  async up(runner: QueryRunner): Promise<void> {
    await runner.query('create table migrated_two (id int)')
    if (Second.isBroken) await runner.query('select broken')
  }
  async down(runner: QueryRunner): Promise<void> {
    await runner.query('drop table migrated_two')
  }
}

async function migrations(stage: Stage): Promise<void> {
  const options: Partial<DataSourceOptions> = { synchronize: false, migrations: [First, Second] }
  await withTypeOrm(stage, async (db) => {
    const { settles } = stage
    const tables = (): Promise<unknown> => db.query("select tablename from pg_tables where tablename like 'migrated%' order by 1")
    const run = (how: 'all' | 'each' | 'none'): Promise<string[]> => db.runMigrations({ transaction: how }).then((done) => done.map(({ name }) => name))
    await settles('fails in the second, undone with the first', run('all'))
    await settles('none', tables())
    await settles('each by itself', run('each'))
    await settles('one', tables())
    await settles('to do', db.showMigrations())
    Second.isBroken = false
    await settles('then', run('none'))
    await settles('two', tables())
    await settles('undone', db.undoLastMigration())
    await settles('one is left', tables())
  }, options)
  Second.isBroken = true
}

/** Makes the schema match the classes, and lists the statements that it would run. */
async function synchronizing(stage: Stage): Promise<void> {
  const more = new EntitySchema<{ id: number; name: string }>({
    name: 'more',
    columns: { id: { type: 'int', primary: true, generated: true }, name: { type: 'varchar', length: 20, nullable: true } },
    indices: [{ columns: ['name'] }],
  })
  await withTypeOrm(stage, async (db) => {
    stage.see('queries to come', (await db.driver.createSchemaBuilder().log()).upQueries.map(({ query }) => query))
  })
  await withTypeOrm(stage, async (db) => {
    await stage.settles('nothing there', db.query('select count(*)::int from information_schema.tables where table_schema = $1', ['public']))
    stage.see('queries to come', (await db.driver.createSchemaBuilder().log()).upQueries.map(({ query }) => query))
    await db.synchronize()
    stage.see('and then', (await db.driver.createSchemaBuilder().log()).upQueries.map(({ query }) => query))
  }, { entities: [Person, Item, Group, more], synchronize: false })
}

async function streams(stage: Stage): Promise<void> {
  await withTypeOrm(stage, async (db) => {
    const { settles } = stage
    await db.query("insert into people (email, version) select 'p' || i, 1 from generate_series(1, 500) i")
    const read = async (alias: string): Promise<unknown> => {
      const emails: string[] = []
      for await (const row of await db.getRepository(Person).createQueryBuilder(alias).orderBy(`${alias}.id`).stream()) {
        emails.push((row as { [name: string]: string })[`${alias}_email`] as string)
      }
      return [emails.length, emails[0], emails.at(-1)]
    }
    await settles('all', read('p'))
    await settles('again', read('q'))
    await settles('after all', db.query('select 1 as one'))
  })
}

/** The trips of a transaction. */
async function trips(stage: Stage): Promise<void> {
  const proxy = await stage.proxy()
  await withTypeOrm({ ...stage, url: proxy.url }, async (db) => {
    const run = async (): Promise<number> => {
      proxy.restart()
      await db.transaction(async (manager) => {
        await manager.query("insert into groups (name) values ('g')")
        await manager.query("update groups set name = 'h'")
      })
      return proxy.trips
    }
    await run()
    stage.note('trips of a transaction', await run())
    proxy.restart()
    await db.transaction(async () => {})
    stage.note('trips of an empty transaction', proxy.trips)
    stage.see('groups', await db.query('select name from groups'))
  })
}

const scenarios: Scenarios = {
  'values of every type go in and come out': values,
  'relations of entities': relations,
  'transactions, nested ones and what fails in them': transactions,
  'errors of the server and of connecting': errors,
  'two hundred queries on five connections': pool,
  'migrations, together and each by itself': migrations,
  'a schema brought up to date': synchronizing,
  'rows as a stream': streams,
  'trips of a transaction': trips,
}
export = scenarios
