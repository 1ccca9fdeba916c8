import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'

import type { Pool, PoolClient } from '../src/pg'
import { settled, url } from './pg-both'
import { bothPools, counts, Diary, events, silentServer, turn } from './pg-pools'

bothPools('a pool has the same options, fields and counts', async (side) => {
  const pool = new side.Pool({ max: 3, password: 'secret', ssl: { key: 'private' }, host: 'nowhere' })
  const options = Object.entries(pool.options)
  const { key } = pool.options.ssl as { key: string }
  const seen = [options, pool.options.password, key, JSON.stringify(pool.options)]
  const named = [
    pool.ending,
    pool.ended,
    pool.Promise === Promise,
    typeof pool.log,
    pool instanceof EventEmitter,
    pool.Client === side.Client,
    pool._clients,
    pool._idle,
    pool._pendingQueue,
    pool._isFull(),
    pool._isAboveMin(),
  ]
  await pool.end()
  return [seen, named, counts(pool), pool.ended]
})

bothPools('defaults of the options are the same', async (side) => {
  const pools = [
    new side.Pool(),
    new side.Pool(null as never),
    new side.Pool({ poolSize: 4 }),
    new side.Pool({ max: 0, idleTimeoutMillis: 0 }),
    new side.Pool({ idleTimeoutMillis: null }),
  ]
  await Promise.all(pools.map((it) => it.end()))
  return pools.map((it) => it.options)
})

bothPools('a pool is made with new only', async (side) => {
  const make = side.Pool as unknown as () => Pool
  try {
    make()
    return 'made'
  } catch (error) {
    return (error as Error).constructor.name
  }
})

bothPools('counts at each point are the same', async (side) => {
  const pool = side.pool({ max: 2 })
  const seen: unknown[] = []
  const look = (): unknown => seen.push(counts(pool))
  const asked = [pool.connect(), pool.connect(), pool.connect(), pool.connect()]
  look()
  await turn()
  look()
  const [first, second] = (await Promise.all(asked.slice(0, 2))) as [PoolClient, PoolClient]
  look()
  first.release()
  look()
  const third = (await asked[2]) as PoolClient
  look()
  third.release()
  const fourth = (await asked[3]) as PoolClient
  second.release()
  look()
  fourth.release()
  look()
  const again = pool.connect()
  look()
  ;(await again).release()
  look()
  await pool.query('select 1')
  look()
  const ends = pool.end()
  look()
  await ends
  look()
  return seen
})

bothPools('events come in the same order with the same arguments', async (side) => {
  const pool = side.pool({ max: 2 })
  const diary = new Diary(pool)
  pool.on('connect', (client: PoolClient) => diary.note(`with ${typeof client.query}`))
  await pool.query('select 1')
  diary.note('queried')
  const [one, two] = await Promise.all([pool.connect(), pool.connect()])
  diary.note('lent')
  one?.release()
  diary.note('back')
  const closed = events(pool, 'remove')
  two?.release(new Error('mine'))
  await closed
  diary.note('closed')
  const third = await pool.connect()
  const again = events(pool, 'remove')
  third.release(true)
  await again
  return diary.lines
})

bothPools('callbacks get the same arguments in the same order', async (side) => {
  const pool = side.pool({ max: 1 })
  const diary = new Diary(pool)
  await new Promise<void>((resolve) => {
    pool.connect((error, client, release) => {
      diary.note(`lent ${error} ${client?.constructor.name} ${release === client?.release}`)
      pool.query('select 1 as a', (failure?: Error, result?: unknown) => {
        diary.note(`queried ${failure} ${JSON.stringify((result as { rows: unknown }).rows)}`)
        pool.query('select $1::int as a', [7], (late, other) => {
          diary.note(`queried ${late} ${JSON.stringify((other as { rows: unknown }).rows)}`)
          resolve()
        })
      })
      release()
      diary.note('released')
    })
    diary.note('asked')
  })
  return diary.lines
})

bothPools('wrong use has the same errors', async (side) => {
  const pool = side.pool({ max: 1 })
  const seen: unknown[] = []
  const client = await pool.connect()
  client.release()
  try {
    client.release()
  } catch (error) {
    seen.push(error)
  }
  seen.push(await settled(pool.query(null as never)))
  seen.push(await settled(pool.query(undefined as never)))
  seen.push(await settled(pool.query('select 1', 'no array' as never)))
  seen.push(await settled(pool.query({ text: undefined })))
  await new Promise<void>((resolve) => {
    const returned = pool.query(((error: Error) => {
      seen.push(error)
      resolve()
    }) as never)
    seen.push(returned)
  })
  await pool.end()
  seen.push(await settled(pool.connect()), await settled(pool.query('select 1')))
  seen.push(await settled(pool.end()))
  const told: unknown[] = []
  pool.connect((error) => told.push(error))
  pool.query('select 1', (error?: Error) => told.push(error))
  pool.end((error) => told.push(error))
  await turn()
  return [seen, told, pool.ended]
})

bothPools('a query has the same results and errors in each way of asking', async (side) => {
  const pool = side.pool({ max: 2 })
  const seen = [
    await pool.query('select 1 as a, null as b'),
    await pool.query('select $1::text as a', ['x']),
    await pool.query({ text: 'select $1::text as a', values: ['y'], rowMode: 'array' }),
    await pool.query({ name: 'named', text: 'select $1::int as a', values: [3] }),
    await pool.query('select 1 as a; select 2 as b'),
    await pool.query(''),
    await settled(pool.query('select 1/0')),
    await settled(pool.query('selec')),
    await settled(pool.query('select $1::int', ['no number'])),
    await settled(pool.query('copy (select 1) to nowhere')),
  ]
  return [seen, pool.waitingCount]
})

bothPools('a configuration with a callback of its own is told by the promise', async (side) => {
  const pool = side.pool({ max: 1 })
  let isCalled = false
  const callback = (): void => void (isCalled = true)
  const result = await pool.query({ text: 'select 1 as a', callback })
  return [result, isCalled]
})

bothPools('a Query emits its rows and its end, and the promise has the result', async (side) => {
  const pool = side.pool({ max: 1 })
  const query = new side.Client.Query('select generate_series(1, 3) as n')
  const told: unknown[] = []
  query.on('row', (row: unknown) => told.push(row))
  query.on('end', (result: unknown) => told.push(result))
  const result = await pool.query(query)
  await turn()
  const seen = [told, result, counts(pool)]
  return [...seen, await settled(pool.query(new side.Client.Query('select 1/0')))]
})

bothPools('a Query with a callback of its own calls that', async (side) => {
  const pool = side.pool({ max: 2 })
  const ask = (text: string): Promise<unknown[]> =>
    new Promise((resolve) => {
      const callback = (...args: unknown[]): void => resolve(args)
      void pool.query(new side.Client.Query({ text, callback }))
    })
  const results = [await ask('select 1 as a'), await ask('select 1/0')]
  if (side.name === 'onetrip') assert.deepEqual(counts(pool), [1, 1, 0, 0])
  // With pg the clients are never given back.
  else for (const client of pool._clients) pool._remove(client)
  return results
})

bothPools('clients are used from the one that came back last', async (side) => {
  const pool = side.pool({ max: 3 })
  const lent = await Promise.all([pool.connect(), pool.connect(), pool.connect()])
  const order = [1, 2, 0].map((at) => lent[at] as PoolClient)
  for (const client of order) client.release()
  const again = [await pool.connect(), await pool.connect(), await pool.connect()]
  const seen = again.map((client) => order.indexOf(client))
  for (const client of again) client.release()
  return seen
})

bothPools('a client that was lent maxUses times is closed', async (side) => {
  const pool = side.pool({ max: 1, maxUses: 3 })
  const diary = new Diary(pool)
  const seen: unknown[] = []
  for (let i = 0; i < 7; i++) {
    const closes = i % 3 === 2 ? events(pool, 'remove') : undefined
    const client = await pool.connect()
    client.release()
    await closes
    seen.push(counts(pool), client._poolUseCount)
  }
  return [diary.lines, seen]
})

bothPools('idle clients are closed after their time, but for the minimum', async (side) => {
  const pool = side.pool({ max: 4, min: 2, idleTimeoutMillis: 30 })
  const removed = events(pool, 'remove', 2)
  const before = counts(pool)
  const lent = await Promise.all([1, 2, 3, 4].map(() => pool.connect()))
  for (const client of lent) client.release()
  await removed
  await new Promise((resolve) => setTimeout(resolve, 80))
  return [before, counts(pool)]
})

bothPools('clients that are past their lifetime are closed when they come back', async (side) => {
  const pool = side.pool({ max: 2, maxLifetimeSeconds: 0.2 })
  const [lent, idle] = (await Promise.all([pool.connect(), pool.connect()])) as [PoolClient, PoolClient]
  const removed = events(pool, 'remove')
  idle.release()
  await removed
  // The other client expires at about the same time.
  while (pool.expiredCount === 0) await new Promise(setImmediate)
  const seen = [counts(pool)]
  const rest = events(pool, 'remove')
  lent.release()
  await rest
  seen.push(counts(pool))
  return seen
})

bothPools('who waits too long in line is refused in the same way', async (side) => {
  const pool = side.pool({ max: 1, connectionTimeoutMillis: 2000 })
  const client = await pool.connect()
  const waits = [pool.connect(), pool.query('select 1')]
  const before = counts(pool)
  const errors = await Promise.all(waits.map(settled))
  const after = counts(pool)
  client.release()
  return [before, errors, after, await pool.query('select 2 as a')]
})

bothPools('a server that does not answer is told of in the same way', async (side) => {
  const server = await silentServer()
  const pool = new side.Pool({ host: '127.0.0.1', port: server.port, user: 'me', max: 1, connectionTimeoutMillis: 80 })
  const diary = new Diary(pool)
  const asked = [pool.connect(), pool.query('select 1'), pool.connect()]
  const before = counts(pool)
  const errors = await Promise.all(asked.map(settled))
  const causes = errors.map((it) => ((it as Error).cause as Error | undefined)?.message)
  server.close()
  await pool.end()
  return [before, errors.map(String), causes, diary.lines]
})

bothPools('a server that is not there fails each caller, and the pool is empty', async (side) => {
  const pool = new side.Pool({ host: '127.0.0.1', port: 1, user: 'me', max: 2 })
  const diary = new Diary(pool)
  const asked = [1, 2, 3, 4, 5].map((i) => (i % 2 ? pool.connect() : pool.query('select 1')))
  const errors = await Promise.all(asked.map(settled))
  return [errors.map(String), counts(pool), diary.lines]
})

bothPools('a server that comes back serves at once who was not refused', async (side) => {
  const address = new URL(url)
  const isMeant = { user: address.username, password: address.password, database: 'postgres', max: 1 }
  const log = (message: unknown): void => {
    if (message === 'client failed to connect') pool.options.port = Number(address.port)
  }
  const pool: Pool = new side.Pool({ host: '127.0.0.1', port: 1, ...isMeant, log })
  const first = pool.query('select 1 as a')
  const second = pool.query('select 2 as a')
  const failed = await settled(first)
  return [String(failed), await settled(second).then((it) => (it as { rows?: unknown }).rows ?? String(it))]
})

bothPools('onConnect is awaited, and its error fails the caller', async (side) => {
  const seen: unknown[] = []
  const pool = side.pool({
    max: 1,
    onConnect: async (client) => {
      seen.push(counts(pool))
      await client.query("set application_name = 'greeted'")
    },
  })
  const diary = new Diary(pool)
  seen.push((await pool.query('show application_name')) as unknown)
  const broken = side.pool({ max: 1, onConnect: () => Promise.reject(new Error('not today')) })
  const other = new Diary(broken)
  seen.push(await settled(broken.connect()), await settled(broken.query('select 1')))
  const thrown = side.pool({
    max: 1,
    onConnect: () => {
      throw new Error('not ever')
    },
  })
  seen.push(await settled(thrown.connect()), counts(broken), counts(thrown))
  return [seen, diary.lines, other.lines]
})

bothPools('verify is asked once for each client when it is lent first', async (side) => {
  const seen: unknown[] = []
  const pool = side.pool({
    max: 1,
    verify: (client, done) => {
      seen.push(`verify ${typeof client.query}`)
      done()
    },
  })
  const diary = new Diary(pool)
  await pool.query('select 1')
  ;(await pool.connect()).release()
  const broken = side.pool({ max: 1, verify: (_, done) => done(new Error('unfit')) })
  const other = new Diary(broken)
  const removed = events(broken, 'remove', 2)
  seen.push(await settled(broken.connect()), await settled(broken.query('select 1')))
  await removed
  // The order of the ends depends on the network.
  return [seen, diary.lines, other.lines.sort(), counts(broken)]
})

bothPools('an idle client that fails is told of by the pool', async (side) => {
  const pool = side.pool({ max: 2 })
  const diary = new Diary(pool)
  const victim = await pool.connect()
  victim.release()
  const told = new Promise<Error & { client?: unknown }>((resolve) => pool.once('error', resolve))
  const removed = events(pool, 'remove')
  await side.pool({ max: 1 }).query('select pg_terminate_backend($1)', [victim.processID])
  const error = await told
  await removed
  assert.equal(error.client, victim)
  const { client: _, ...fields } = error
  return [error.message, Object.keys(fields), diary.lines, counts(pool)]
})

bothPools('a client that fails while it is lent tells who has it, and goes when it comes back', async (side) => {
  const pool = side.pool({ max: 1 })
  const diary = new Diary(pool)
  const client = await pool.connect()
  const told = new Promise((resolve) => client.once('error', resolve))
  const ended = new Promise((resolve) => client.once('end', resolve))
  // pg may emit the error twice.
  client.on('error', () => undefined)
  await side.pool({ max: 1 }).query('select pg_terminate_backend($1)', [client.processID])
  await told
  await ended
  const removed = events(pool, 'remove')
  client.release()
  await removed
  return [diary.lines, counts(pool), (await pool.query('select 1 as a')) as unknown]
})

bothPools('a query whose client is lost fails, and no more', async (side) => {
  const pool = side.pool({ max: 1 })
  const diary = new Diary(pool)
  const removed = events(pool, 'remove')
  const failed = await settled(pool.query('select pg_terminate_backend(pg_backend_pid())'))
  await removed
  return [(failed as { code?: string }).code, (failed as Error).message, diary.lines.length, counts(pool)]
})

bothPools('a pool that ends waits for clients that are lent', async (side) => {
  const pool = side.pool({ max: 2 })
  const diary = new Diary(pool)
  const client = await pool.connect()
  const ends = pool.end().then(() => diary.note('ended'))
  diary.note(`${pool.ending} ${pool.ended}`)
  const { rows } = (await client.query('select 1 as a')) as unknown as { rows: unknown }
  client.release()
  await ends
  return [rows, diary.lines, pool.ended, counts(pool)]
})

bothPools('a pool that ends serves for whom a client is being connected', async (side) => {
  const pool = side.pool({ max: 1 })
  const query = pool.query('select 1 as a')
  const ends = pool.end()
  const result = await query
  await ends
  return [result, counts(pool)]
})

bothPools('what a client is in when it comes back is what the next one finds', async (side) => {
  const pool = side.pool({ max: 1 })
  const client = await pool.connect()
  await client.query('begin')
  await client.query("set local application_name = 'within'")
  client.release()
  const found = await pool.query('show application_name')
  await pool.query('rollback')
  return found
})

bothPools('a promise class is used that is given', async (side) => {
  class Mine<T> extends Promise<T> {}
  const pool = side.pool({ max: 1, Promise: Mine as never })
  const made = [pool.connect(), pool.query('select 1'), pool.query('select 1')]
  ;((await made[0]) as PoolClient).release()
  await Promise.all(made)
  const ends = pool.end()
  await ends
  return [...made, ends, pool.end().catch(() => 0)].map((it) => it instanceof Mine)
})

bothPools('log is told of what happens', async (side) => {
  const told: string[] = []
  const pool = side.pool({ max: 1, log: (...message: unknown[]) => told.push(String(message[0])) })
  await pool.query('select 1')
  await pool.end()
  return [...new Set(told)].filter((it) => !/^(pulse queue|no queued|checking)/.test(it))
})

for (const gives of [undefined, 'first', 'second'] as const) {
  const what = gives === undefined ? 'nobody gives back' : `the ${gives} to fail gives back`
  bothPools(`the order in which the loss of a client is told that ${what}`, async (side) => {
    const pool = side.pool({ max: 1 }).on('error', () => {})
    const told: unknown[] = []
    const [client, done] = await new Promise<[PoolClient, (error?: Error) => void]>((resolve) => {
      pool.connect((_, it, release) => resolve([it as PoolClient, release]))
    })
    client.on('error', (error: Error) => told.push(['error', error.message]))
    const ended = new Promise((resolve) => client.once('end', resolve))
    const texts = ['select pg_terminate_backend(pg_backend_pid())', 'select 1', 'select 2']
    const answers = texts.map((text, at) => new Promise<void>((resolve) => {
      client.query(text, (error: Error) => {
        told.push([at, error.message])
        if (gives !== undefined && at === ['first', 'second'].indexOf(gives)) done(error)
        resolve()
      })
    }))
    await Promise.all([...answers, ended])
    if (gives === undefined) done(new Error('lost'))
    return told
  })
}

bothPools('a client of another class that can not connect is an error of its caller', async (side) => {
  class Foreign extends EventEmitter {
    connect(callback: (error: Error) => void): void {
      process.nextTick(callback, new Error('no way'))
    }
  }
  const seen: unknown[] = []
  for (const pipeline of [false, true]) {
    const pool = side.pool({ Client: Foreign as never, pipeline })
    seen.push(await settled(pool.connect()), await settled(pool.query('select 1')), counts(pool))
  }
  return seen
})
