// Sequelize makes a client of its own for each connection of its own pool, sets parsers by `types`, reads the fields of errors, and
// sends several statements as one text.
import { DataTypes, type Model, type ModelStatic, Op, QueryTypes, Sequelize, Transaction, type Options } from 'sequelize'

import type { Scenarios, Stage } from '../support/stage'

interface Tables {
  db: Sequelize
  people: ModelStatic<Model>
  items: ModelStatic<Model>
}

async function withSequelize({ url }: Stage, run: (tables: Tables) => Promise<void>, options: Options = {}): Promise<void> {
  const db = new Sequelize(url, { dialect: 'postgres', logging: false, pool: { max: 4 }, ...options })
  const people = db.define('person', {
    email: { type: DataTypes.TEXT, unique: true, allowNull: false },
    tags: DataTypes.ARRAY(DataTypes.TEXT),
    settings: DataTypes.JSONB,
    seenAt: DataTypes.DATE,
    born: DataTypes.DATEONLY,
    photo: DataTypes.BLOB,
    balance: DataTypes.DECIMAL(20, 4),
    big: DataTypes.BIGINT,
    ratio: DataTypes.DOUBLE,
    kind: { type: DataTypes.ENUM('new', 'old'), defaultValue: 'new' },
    kinds: DataTypes.ARRAY(DataTypes.ENUM('a', 'b')),
    token: DataTypes.UUID,
    range: DataTypes.RANGE(DataTypes.INTEGER),
    during: DataTypes.RANGE(DataTypes.DATE),
    place: DataTypes.INET,
    version: { type: DataTypes.INTEGER, defaultValue: 0 },
  }, { timestamps: false })
  const items = db.define('item', { title: DataTypes.TEXT, price: DataTypes.INTEGER }, { timestamps: false })
  people.hasMany(items, { as: 'items', onDelete: 'cascade' })
  items.belongsTo(people)
  try {
    await db.sync({ force: true })
    await run({ db, people, items })
  } finally {
    await db.close()
  }
}

const ANN = {
  email: 'ann@example.org',
  tags: ['a', 'b "quoted" \\', 'c,d', 'NULL', ''],
  settings: { theme: 'dark', list: [1, null, { x: 'ü' }] },
  seenAt: new Date('2024-02-29T12:34:56.789Z'),
  born: '1999-12-31',
  photo: Buffer.from([0, 1, 2, 255, 92, 39]),
  balance: '12345678901234.5678',
  big: '9007199254740993',
  ratio: 0.1,
  kinds: ['b', 'a'],
  token: '00000000-0000-4000-8000-000000000001',
  range: [1, 5],
  during: [new Date('2024-01-01T00:00:00Z'), new Date('2024-01-02T00:00:00Z')],
  place: '192.168.0.1/24',
}

const json = (value: unknown): unknown => (value as Model | null)?.toJSON() ?? null
const all = (values: readonly Model[]): unknown[] => values.map(json)

async function values(stage: Stage): Promise<void> {
  await withSequelize(stage, async ({ db, people }) => {
    const { see, settles } = stage
    see('created', json(await people.create(ANN)))
    see('found', json(await people.findOne({ where: { email: ANN.email } })))
    see('raw', await people.findAll({ raw: true }))
    await settles('bulk', people.bulkCreate([{ email: 'b', ratio: Infinity }, { email: 'c', tags: [] }], { returning: true }).then(all))
    await settles('update', people.update({ tags: ['x'] }, { where: { email: 'b' }, returning: true }).then(([count, rows]) => [count, all(rows)]))
    await settles('upsert', people.upsert({ email: 'c', version: 5 }, { conflictFields: ['email'] }).then(([row, made]) => [json(row), made]))
    await settles('increment', people.increment('version', { by: 2, where: { email: 'c' } }))
    await settles('count', people.count({ where: { kind: 'new' } }))
    await settles('sum', people.sum('version'))
    await settles('max', people.max('big'))
    await settles('where', people.findAll({ attributes: ['email'], where: { [Op.or]: [{ tags: { [Op.contains]: ['x'] } }, { settings: { theme: 'dark' } }] }, order: ['id'] }).then(all))
    await settles('in a range', people.findAll({ attributes: ['email'], where: { range: { [Op.contains]: 3 } } }).then(all))
    await settles('or created', people.findOrCreate({ where: { email: 'd' }, defaults: { version: 9 } }).then(([row, made]) => [json(row), made]))
    await settles('found again', people.findOrCreate({ where: { email: 'd' } }).then(([row, made]) => [json(row), made]))
    await settles('destroy', people.destroy({ where: { email: ['b', 'd'] } }))
    await settles('select', db.query('select :a::int as a, array[1, 2] as b, null as c', { replacements: { a: 1 }, type: QueryTypes.SELECT }))
    await settles('bind', db.query('select $1::text as a, $2::jsonb as b', { bind: ['x', '{"y": 1}'] }))
    await settles('several statements', db.query('select 1 as a; select 2 as b'))
    await settles('raw update', db.query('update people set version = 1', { type: QueryTypes.UPDATE }))
    await settles('version of the server', db.databaseVersion().then((version) => /^\d+/.test(version)))
  })
}

async function relations(stage: Stage): Promise<void> {
  await withSequelize(stage, async ({ people, items }) => {
    const { see, settles } = stage
    for (const email of ['a', 'b', 'c']) {
      const person = await people.create({ email })
      const made = email === 'c' ? [] : [{ title: 'x', price: 5 }, { title: `y of ${email}`, price: 6 }]
      await items.bulkCreate(made.map((item) => ({ ...item, personId: person.get('id') })))
    }
    see('made together', json(await people.create({ email: 'd', items: [{ title: 'z', price: 7 }] }, { include: 'items' })))
    see('all', all(await people.findAll({ attributes: ['id', 'email'], include: 'items', order: ['id', ['items', 'id', 'asc']] })))
    await settles('joined', items.findAndCountAll({ include: { model: people, where: { email: 'b' }, attributes: ['email'] }, order: ['id'] }).then(({ count, rows }) => [count, all(rows)]))
    await settles('limited', people.findAll({ attributes: ['email'], include: { association: 'items', where: { price: 6 } }, order: ['id'], limit: 1 }).then(all))
    await settles('grouped', items.findAll({ attributes: ['price', [Sequelize.fn('count', Sequelize.col('id')), 'n']], group: ['price'], order: ['price'], raw: true }))
    await people.destroy({ where: { email: 'a' } })
    await settles('left', items.count())
  })
}

async function transactions(stage: Stage): Promise<void> {
  await withSequelize(stage, async ({ db, people }) => {
    const { see, settles } = stage
    const emails = async (): Promise<unknown> => (await people.findAll({ attributes: ['email'], order: ['email'], raw: true }))
    await settles('commit', db.transaction(async (transaction) => {
      await people.create({ email: 'a' }, { transaction })
      return people.count({ transaction })
    }))
    await settles('rollback', db.transaction(async (transaction) => {
      await people.create({ email: 'b' }, { transaction })
      throw new Error('mine')
    }))
    await settles('failed', db.transaction(async (transaction) => {
      await people.create({ email: 'a' }, { transaction }).catch(() => {})
      await people.create({ email: 'c' }, { transaction })
    }))
    await settles('nested', db.transaction(async (outer) => {
      await people.create({ email: 'd' }, { transaction: outer })
      await db.transaction({ transaction: outer }, async (transaction) => {
        await people.create({ email: 'e' }, { transaction })
        throw new Error('inner')
      }).catch(() => {})
      await people.create({ email: 'f' }, { transaction: outer })
    }))
    await settles('options', db.transaction({ isolationLevel: Transaction.ISOLATION_LEVELS.SERIALIZABLE, readOnly: true }, async (transaction) => {
      return db.query('show transaction_isolation', { transaction, type: QueryTypes.SELECT })
    }))
    await settles('a lock', db.transaction(async (transaction) => {
      const row = await people.findOne({ where: { email: 'a' }, lock: transaction.LOCK.UPDATE, skipLocked: true, transaction })
      return json(row)
    }))
    const unmanaged = await db.transaction()
    await people.create({ email: 'g' }, { transaction: unmanaged })
    see('not yet', await emails())
    await unmanaged.commit()
    see('emails', await emails())
    // Each transaction has a number of its own.
    await settles('after its end', people.create({ email: 'h' }, { transaction: unmanaged }).catch(({ message }: Error) => message.replace(/\(.*?\)/, '')))
  })
}

/** Sequelize reads codes, details, tables and constraints. */
async function errors(stage: Stage): Promise<void> {
  await withSequelize(stage, async ({ db, people, items }) => {
    const { settles } = stage
    await people.create({ email: 'a' })
    await settles('unique', people.create({ email: 'a' }))
    await settles('foreign key', items.create({ title: 'x', personId: 77 }))
    await settles('not null', db.query('insert into people (email) values (null)'))
    await settles('check by validation', people.create({}))
    await settles('an enum', db.query("insert into people (email, kind) values ('x', 'other')"))
    await settles('too long a number', people.create({ email: 'n', balance: '1e30' }))
    await settles('no table', db.query('select * from nowhere'))
    await settles('no column', people.findAll({ where: Sequelize.literal('nothing = 1') }))
    await settles('syntax', db.query('selec'))
    await settles('bulk', people.bulkCreate([{ email: 'b' }, { email: 'a' }]))
    await settles('unharmed', people.count())
  })
  const wrong = new URL(stage.url)
  wrong.pathname = '/not_there'
  const nowhere = new Sequelize(wrong.href, { dialect: 'postgres', logging: false })
  await stage.settles('no database', nowhere.authenticate())
  await nowhere.close()
  const closed = new Sequelize('postgres://postgres@127.0.0.1:1/x', { dialect: 'postgres', logging: false })
  await stage.settles('no server', closed.authenticate())
  await closed.close()
}

async function manyAtOnce(stage: Stage): Promise<void> {
  await withSequelize(stage, async ({ db, people }) => {
    const { see } = stage
    await Promise.all(Array.from({ length: 60 }, (_, i) => people.create({ email: `${i}`, version: i })))
    const found = await Promise.all(Array.from({ length: 60 }, (_, i) => people.findOne({ where: { email: `${i}` } })))
    see('each its own', found.map((it) => it?.get('version')))
    await Promise.all(Array.from({ length: 20 }, () => db.transaction(async (transaction) => {
      const row = await people.findOne({ where: { email: '0' }, lock: true, transaction })
      await row?.increment('version', { transaction })
    })))
    see('counted', (await people.findOne({ where: { email: '0' } }))?.get('version'))
  }, { pool: { max: 8 } })
}

/** Connections are checked before they are used, and one that was lost is replaced. */
async function lostConnection(stage: Stage): Promise<void> {
  await withSequelize(stage, async ({ db }) => {
    const { settles } = stage
    await settles('a lost one', db.query('select pg_terminate_backend(pg_backend_pid())'))
    await settles('and the next', db.query('select 1 as one', { type: QueryTypes.SELECT }))
  }, { pool: { max: 1 } })
}

async function migrations(stage: Stage): Promise<void> {
  await withSequelize(stage, async ({ db }) => {
    const { settles } = stage
    const tables = db.getQueryInterface()
    await tables.createTable('made', { id: { type: DataTypes.INTEGER, primaryKey: true, autoIncrement: true }, name: { type: DataTypes.STRING(20), defaultValue: 'x' } })
    await tables.addColumn('made', 'more', { type: DataTypes.ENUM('p', 'q') })
    await tables.addIndex('made', ['name'], { name: 'by_name', unique: true })
    await settles('described', tables.describeTable('made'))
    await settles('indexes', tables.showIndex('made'))
    await tables.changeColumn('made', 'more', { type: DataTypes.ENUM('p', 'q', 'r') })
    await tables.renameColumn('made', 'more', 'other')
    await settles('inserted', tables.bulkInsert('made', [{ name: 'a', other: 'r' }, { name: 'b', other: 'p' }]))
    await settles('keys', tables.getForeignKeyReferencesForTable('items').then((keys) => Object.keys(keys).length))
    // The server lists them in no order.
    await settles('tables', tables.showAllTables().then((all) => all.map((it) => JSON.stringify(it)).sort()))
    await tables.dropTable('made')
  })
}

async function trips(stage: Stage): Promise<void> {
  const proxy = await stage.proxy()
  await withSequelize({ ...stage, url: proxy.url }, async ({ db, people }) => {
    await db.authenticate()
    proxy.restart()
    await db.transaction(async (transaction) => {
      await people.create({ email: 'a' }, { transaction })
      await people.update({ version: 1 }, { where: { email: 'a' }, transaction })
    })
    stage.note('trips of a transaction', proxy.trips)
    stage.see('connections', proxy.connections)
  }, { pool: { max: 1 } })
}

const scenarios: Scenarios = {
  'values go both ways': values,
  'relations': relations,
  'transactions': transactions,
  'errors': errors,
  'many at once': manyAtOnce,
  'a lost connection': lostConnection,
  'tables are made and changed': migrations,
  'trips of a transaction': trips,
}
export = scenarios
