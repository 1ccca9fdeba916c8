import assert from 'node:assert/strict'
import { createServer, connect, type AddressInfo, type Server, type Socket } from 'node:net'
import { after, test } from 'node:test'

import {
  Client,
  Query,
  type ClientConfig,
  type QueryConfig,
  type QueryError,
  type Result,
} from '../src/pg'
import type { TypeSource } from '../src/pg/types'
import { both, bothAlone, connected, event, longQuery, settled, url, login } from './pg-both'
import { listen as served, message } from './pg-served'

const LIMIT = { timeout: 600_000 }

const servers: Server[] = []
const sockets = new Set<Socket>()
after(() => {
  for (const socket of sockets) socket.destroy()
  for (const server of servers) server.close()
})

/** A server of our own; returns its port. */
async function listen(serve: (socket: Socket) => void): Promise<number> {
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    serve(socket)
  })
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

/** A configuration that leads to another server than the real one. */
function at(port: number, more: ClientConfig = {}): ClientConfig {
  return { host: '127.0.0.1', port, ...login, ...more }
}

const real = new URL(url)

/** A proxy. `cut(after)` cuts the line after this many more bytes of the server. */
async function proxy(): Promise<{ port: number; cut: (after: number) => void }> {
  let left = Infinity
  const port = await listen((client) => {
    const server = connect(Number(real.port), real.hostname)
    sockets.add(server)
    server.on('error', () => {})
    client.pipe(server)
    server.on('data', (chunk) => {
      client.write(chunk.subarray(0, Math.min(left, chunk.length)))
      left -= chunk.length
      if (left <= 0) client.destroy()
    })
    client.on('close', () => server.destroy())
    server.on('close', () => client.destroy())
  })
  return { port, cut: (after) => (left = after) }
}

async function kill(client: Client): Promise<void> {
  const killer = await connected()
  await killer.query('select pg_terminate_backend($1)', [client.processID])
}

bothAlone('a connection that the server ends while a query runs fails the query', async (side) => {
  const client = await connected({}, side)
  const lost = event(client, 'error')
  // pg may emit another error, for the closed socket.
  client.on('error', () => {})
  const ended = event(client, 'end')
  const running = settled(client.query('select pg_sleep(100)'))
  const queued = settled(client.query('select 1'))
  await kill(client)
  const seen = [await running, await queued, await lost, await ended]
  return [...seen, await settled(client.query('select 2')), client._ending, client._queryable]
})

bothAlone('a connection that the server ends while it is idle emits errors', async (side) => {
  const client = await connected({}, side)
  const errors: unknown[] = []
  client.on('error', (error) => errors.push(error))
  const ended = event(client, 'end')
  await kill(client)
  await ended
  return [errors, await settled(client.query('select 2')), await client.end()]
})

test('a connection that is lost without a listener fails later queries, and does not end the process', LIMIT, async () => {
  const client = await connected()
  const warned = event(process, 'warning')
  await kill(client)
  assert.match(String(await warned), /is lost: terminating connection/)
  const error = (await settled(client.query('select 1'))) as QueryError
  assert.match(error.message, /not queryable/)
  assert.equal((error.cause as { code?: string }).code, '57P01')
  assert.equal(error.outcome, 'NotSent')
})

for (const pipeline of [false, true]) {
  for (const after of [0, 1, 5, 30, 61, 2000]) {
    test(`a line cut ${after} bytes into a reply settles each query once, pipeline: ${pipeline}`, LIMIT, async () => {
      const { port, cut } = await proxy()
      const client = new Client(at(port, { pipeline }))
      await client.connect()
      await client.query('select 1')
      client.on('error', () => {})
      const ended = event(client, 'end')
      let settlements = 0
      const asked = Array.from({ length: 5 }, (_, i) => {
        const text = i === 0 ? "select repeat('x', 3000) a" : 'select 1'
        return settled(client.query(text, i === 1 ? [] : undefined)).finally(() => settlements++)
      })
      client.query('select 1', () => settlements++)
      cut(after)
      const errors = (await Promise.all(asked)) as QueryError[]
      await ended
      assert.equal(settlements, 6)
      for (const error of errors) assert.equal(error.message, 'Connection terminated unexpectedly')
      assert.equal(errors[0]?.outcome, 'Unknown')
      assert.equal(errors[4]?.outcome, pipeline ? 'Unknown' : 'NotSent')
    })
  }
}

const NONSENSE: { readonly [name: string]: Buffer } = {
  text: Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n'),
  zeros: Buffer.alloc(100),
  'an unknown message': Buffer.from([0x7a, 0, 0, 0, 4]),
  'a length without end': Buffer.from([0x52, 0x7f, 0xff, 0xff, 0xff, 0]),
  'a reply to nothing': Buffer.from([0x32, 0, 0, 0, 4, 0x33, 0, 0, 0, 4]),
}

for (const [name, bytes] of Object.entries(NONSENSE)) {
  test(`a server that answers the login by ${name} fails it`, LIMIT, async () => {
    const port = await listen((socket) => socket.once('data', () => socket.write(bytes)))
    const client = new Client(at(port))
    const early = settled(client.query('select 1'))
    const ended = event(client, 'end')
    const error = await settled(client.connect())
    assert.ok(error instanceof Error)
    assert.equal(((await early) as QueryError).outcome, 'NotSent')
    await ended
    assert.match(String(await settled(client.query('select 1'))), /connection error/)
  })
}

/** AuthenticationOk and ReadyForQuery. */
const WELCOME = Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 0, 0x5a, 0, 0, 0, 5, 0x49])

for (const [name, bytes] of Object.entries(NONSENSE)) {
  test(`a server that answers a query by ${name} loses the connection`, LIMIT, async () => {
    const port = await listen((socket) => {
      socket.once('data', () => {
        socket.write(WELCOME)
        socket.once('data', () => socket.write(bytes))
      })
    })
    const client = new Client(at(port))
    await client.connect()
    const [lost, ended] = [event(client, 'error'), event(client, 'end')]
    const asked = [client.query('select 1'), client.query('select 2')].map(settled)
    const [head, queued] = (await Promise.all(asked)) as QueryError[]
    assert.deepEqual([head?.outcome, queued?.outcome], ['Unknown', 'NotSent'])
    assert.ok((await lost) instanceof Error)
    await ended
  })
}

bothAlone('a server that is not there, and one that says nothing', async (side) => {
  const nobody = await listen(() => {})
  servers.at(-1)?.close()
  const refused = (await settled(new side.Client(at(nobody)).connect())) as { code?: string }
  const silent = await listen(() => {})
  const mute = new side.Client(at(silent, { connectionTimeoutMillis: 50 }))
  const gone = await listen((socket) => socket.once('data', () => socket.end()))
  return [refused.code, await settled(mute.connect()), await settled(new side.Client(at(gone)).connect())]
})

bothAlone('a login that the server refuses has the error of the server', async (side) => {
  const server = { host: real.hostname, port: Number(real.port) }
  const logIn = (config: ClientConfig): Promise<unknown> =>
    settled(new side.Client({ ...server, user: 'postgres', database: 'postgres', ...config }).connect())
  const seen = [await logIn({ database: 'no such' }), await logIn({ user: 'nobody at all' })]
  seen.push(await logIn({ options: '-c no_such_setting=1' }))
  return seen
})

both('a query that takes too long fails, and the next runs', async (client) => {
  const slow = settled(client.query({ text: 'select pg_sleep(0.3)', query_timeout: 30 }))
  const next = client.query('select 1 a')
  return [await slow, await next]
})

both('a query that waits too long fails', async (client) => {
  const slow = client.query('select pg_sleep(0.3)')
  const waits = settled(client.query({ text: 'select 2', query_timeout: 30 }))
  return [await waits, await slow, await client.query('select 3 a')]
}, { query_timeout: 5000 })

test('a timeout leaves neighbours in the pipeline alone', LIMIT, async () => {
  const client = await connected({ pipeline: true })
  const slow = settled(client.query({ text: 'select pg_sleep(0.3)', query_timeout: 30 }))
  const next = client.query('select 1 a')
  const error = (await slow) as QueryError
  assert.deepEqual([error.message, error.outcome], ['Query read timeout', 'Unknown'])
  assert.deepEqual(((await next) as Result).rows, [{ a: 1 }])
})

test('a signal cancels what the server runs, and only that', LIMIT, async () => {
  const client = await connected()
  const controller = new AbortController()
  const slow = settled(client.query({ text: await longQuery(client), signal: controller.signal }))
  const next = client.query('select 1 a')
  await event(client, 'notice')
  controller.abort(new Error('enough'))
  const error = (await slow) as QueryError & { code?: string }
  assert.deepEqual([error.name, error.code, error.outcome], ['AbortError', 'ABORT_ERR', 'Rejected'])
  assert.equal((error.cause as { code?: string }).code, '57014')
  assert.deepEqual(((await next) as Result).rows, [{ a: 1 }])
})

test('a cancel that comes before the query has begun is sent again', LIMIT, async () => {
  let held: (() => void) | undefined
  const line = await listen((client) => {
    const server = connect(Number(real.port), real.hostname)
    sockets.add(server)
    server.on('error', () => {})
    server.pipe(client)
    client.on('data', (chunk) => {
      if (chunk.includes('pg_sleep')) held = () => void server.write(chunk)
      else server.write(chunk)
    })
    client.on('end', () => server.end())
    // The first cancel is over when its connection closes. Only then does the query begin.
    server.on('close', () => {
      held?.()
      held = undefined
    })
  })
  const client = new Client(at(line))
  await client.connect()
  const controller = new AbortController()
  const slow = settled(client.query({ text: 'select pg_sleep(100)', signal: controller.signal }))
  const next = client.query('select 1 a')
  setImmediate(() => controller.abort())
  const error = (await slow) as QueryError
  assert.deepEqual([error.name, error.outcome], ['AbortError', 'Rejected'])
  assert.deepEqual(((await next) as Result).rows, [{ a: 1 }])
  await client.end()
})

test('a server that ignores cancels is asked several times, and then the caller waits no longer', LIMIT, async () => {
  let cancels = 0
  const port = await served((tag, _, socket) => {
    if (tag !== 'cancel') return
    cancels++
    socket.end()
  })
  const client = new Client(at(port))
  client.on('error', () => {})
  await client.connect()
  const controller = new AbortController()
  const stuck = settled(client.query({ text: 'select 1', signal: controller.signal }))
  const behind = settled(client.query('select 2'))
  setImmediate(() => controller.abort())
  const error = (await stuck) as QueryError
  assert.deepEqual([error.name, error.outcome, cancels], ['AbortError', 'Unknown', 3])
  await client.end()
  assert.equal(((await behind) as QueryError).outcome, 'NotSent')
})

test('a signal withdraws a query that was not sent', LIMIT, async () => {
  const client = new Client(url)
  const signal = AbortSignal.abort()
  const never = (await settled(client.query({ text: 'select 1', signal }))) as QueryError
  assert.deepEqual([never.name, never.outcome], ['AbortError', 'NotSent'])
  const controller = new AbortController()
  const early = settled(client.query({ text: 'select 1', signal: controller.signal }))
  controller.abort()
  assert.equal(((await early) as QueryError).outcome, 'NotSent')
  await client.connect()
  const slow = client.query('select pg_sleep(0.1)')
  const other = new AbortController()
  const queued = settled(client.query({ text: 'select 1', signal: other.signal }))
  other.abort()
  assert.deepEqual([((await queued) as QueryError).outcome], ['NotSent'])
  await slow
  await client.end()
})

test('a signal frees its caller if a cancel could hit a neighbour', LIMIT, async () => {
  const client = await connected({ pipeline: true })
  const controller = new AbortController()
  const slow = settled(client.query({ text: 'select pg_sleep(0.3)', signal: controller.signal }))
  const next = client.query("insert into pg_temp.never_there select 1")
  setImmediate(() => controller.abort())
  const error = (await slow) as QueryError
  assert.deepEqual([error.name, error.outcome], ['AbortError', 'Unknown'])
  assert.equal(((await settled(next)) as { code?: string }).code, '42P01')
})

test('a signal after the end of its query changes nothing', LIMIT, async () => {
  const client = await connected()
  const controller = new AbortController()
  const result = (await client.query({ text: 'select 1 a', signal: controller.signal })) as Result
  controller.abort()
  assert.deepEqual(result.rows, [{ a: 1 }])
  await client.query('select 1')
})

test('cancel ends a Query, sent or queued', LIMIT, async () => {
  const client = await connected()
  const text = await longQuery(client)
  const runs = event(client, 'notice')
  const running = client.query(new Query(text))
  const queued = client.query(new Query('select 1'))
  const errors = [event(running, 'error'), event(queued, 'error')]
  await runs
  new Client(url).cancel(client, queued)
  new Client(url).cancel(client, running)
  const [first, second] = (await Promise.all(errors)) as (QueryError & { code?: string })[]
  assert.deepEqual([first?.code, first?.outcome], ['57014', 'Rejected'])
  assert.deepEqual([second?.message, second?.outcome], ['Query was cancelled', 'NotSent'])
  assert.deepEqual(((await client.query('select 2 a')) as Result).rows, [{ a: 2 }])
})

const THROWS = { getTypeParser: () => (): never => { throw new Error('unreadable') } }

for (const pipeline of [false, true]) {
  test(`each failure has the right outcome, once, pipeline: ${pipeline}`, LIMIT, async () => {
    const { port, cut } = await proxy()
    const client = new Client(at(port, { pipeline, pipelineMaxQueries: 4 }))
    client.on('error', () => {})
    await client.connect()
    let settlements = 0
    const outcome = async (config: string | QueryConfig): Promise<unknown> => {
      const error = await settled(client.query(config).finally(() => settlements++))
      return error instanceof Error ? (error as QueryError).outcome : 'none'
    }
    const known = await Promise.all([
      outcome('select 1/0'),
      outcome({ text: 'select 1 a', types: THROWS as unknown as TypeSource }),
      outcome({ text: 'select $1::int a', values: [1], types: THROWS as unknown as TypeSource }),
      outcome('select 1; select 1/0'),
      outcome('call no_such()'),
      outcome('select \0'),
      outcome({ text: 'select 1', values: 5 }),
      outcome('select 1'),
    ])
    const expected = ['Rejected', 'Applied', 'Applied', 'Unknown', 'Unknown', 'NotSent', 'NotSent', 'none']
    assert.deepEqual(known, expected)
    // All but the first wait; in a pipeline, all but four.
    const texts = ["select repeat('x', 3000)", ...Array.from({ length: 6 }, () => 'select 1')]
    const lost = texts.map(outcome)
    const ended = event(client, 'end')
    cut(61)
    const sent = pipeline ? 4 : 1
    assert.deepEqual(await Promise.all(lost), texts.map((_, i) => (i < sent ? 'Unknown' : 'NotSent')))
    await ended
    assert.equal(await outcome('select 1'), 'NotSent')
    assert.equal(settlements, known.length + texts.length + 1)
  })

  test(`a cancelled query leaves its neighbours alone, pipeline: ${pipeline}`, LIMIT, async () => {
    const client = await connected({ pipeline })
    const other = new Client(url)
    await client.query('create temp table kept (a int)')
    for (let round = 0; round < 20; round++) {
      const victim = new Query({ text: 'select pg_sleep(0.002)', query_timeout: round % 3 === 0 ? 1 : undefined })
      const over = Promise.race([event(victim, 'end'), event(victim, 'error')])
      client.query(victim)
      const kept = client.query('insert into kept values ($1)', [round])
      // At once, while the query is in flight, or when it may have ended.
      if (round % 2 === 0) other.cancel(client, victim)
      else setImmediate(() => other.cancel(client, victim))
      await Promise.all([over, kept])
    }
    const { rows } = (await client.query('select count(*)::int from kept')) as Result
    assert.deepEqual(rows, [{ count: 20 }])
  })
}

for (const pipeline of [false, true]) {
  test(`a transaction on a line that is cut is stored or not, as its outcomes say, pipeline: ${pipeline}`, LIMIT, async () => {
    const table = `onetrip_cut_${process.pid}_${pipeline}`
    const keeper = await connected()
    await keeper.query(`create table ${table} (a int)`)
    try {
      for (let after = 0; after < 140; after += 5) {
        const { port, cut } = await proxy()
        const client = new Client(at(port, { pipeline }))
        client.on('error', () => {})
        await client.connect()
        const ended = event(client, 'end')
        cut(after)
        const texts = ['begin', `insert into ${table} values (${after})`, 'select 1; select 2', 'commit']
        const settlements = await Promise.all(texts.map((text) => settled(client.query(text))))
        await Promise.race([ended, client.end()])
        const outcomes = settlements.map((it) => (it instanceof Error ? (it as QueryError).outcome : 'done'))
        const { rows } = (await keeper.query(`select a from ${table} where a = ${after}`)) as Result
        const commit = outcomes[3]
        if (commit === 'done') assert.equal(rows.length, 1, String(outcomes))
        else if (commit !== 'Unknown') assert.equal(rows.length, 0, String(outcomes))
        // If a query was not sent, those behind it were not sent either.
        assert.deepEqual(outcomes.lastIndexOf('done') < outcomes.indexOf('NotSent') || !outcomes.includes('NotSent'), true)
      }
    } finally {
      await keeper.query(`drop table ${table}`)
    }
  })
}

/** Rows of one text column. The last has a value that reaches beyond its end. */
const A_ROW = message('D', Buffer.from([0, 1, 0, 0, 0, 1, 0x78]))
const A_MISFIT = message('D', Buffer.from([0, 1, 0, 0, 0, 9, 0x78]))
const A_COLUMN = message('T', Buffer.from('0001610000000000000000000019ffffffffffff0000', 'hex'))

for (const pipeline of [false, true]) {
  test(`a row that does not fit its columns ends the connection, pipeline: ${pipeline}`, LIMIT, async () => {
    let queries = 0
    const port = await served((tag, _, socket) => {
      // Only the first query is answered.
      if (tag === 'P') queries++
      if (tag !== 'S' || queries > 1) return
      const complete = message('C', Buffer.from('SELECT 2\0'))
      const answer = [message('1'), message('2'), A_COLUMN, A_ROW, A_MISFIT, complete, message('Z', Buffer.from('I'))]
      socket.write(Buffer.concat(answer))
    })
    const client = new Client(at(port, { pipeline }))
    const lost = event(client, 'error')
    await client.connect()
    const parsed: unknown[] = []
    const types = { getTypeParser: () => (text: string) => parsed.push(text) }
    const query = { text: 'select a', values: ['x'], types: types as unknown as TypeSource }
    const [first, second] = await Promise.all([query, query].map((it) => settled(client.query(it))))
    assert.equal((first as QueryError).outcome, 'Applied')
    assert.match((first as Error).message, /other columns than were described/)
    assert.equal((second as QueryError).outcome, pipeline ? 'Unknown' : 'NotSent')
    assert.match(String(await lost), /malformed reply/)
    assert.deepEqual(parsed, ['x'], 'a parser got bytes from behind the row')
  })
}

test('a server that reports settings without end loses the connection', LIMIT, async () => {
  let told = 0
  const port = await served((tag, _, socket) => {
    if (tag !== 'Q') return
    const settings = Array.from({ length: 20_000 }, (_, i) => message('S', Buffer.from(`s${i}\0x\0`)))
    socket.write(Buffer.concat(settings))
  })
  const client = new Client(at(port))
  client.on('error', () => {})
  client.connection.on('parameterStatus', () => told++)
  await client.connect()
  const error = (await settled(client.query('select 1'))) as QueryError
  assert.deepEqual([error.outcome, error.message], ['Unknown', 'more settings than a server has'])
  assert.ok(told < 1000, `${told} settings were emitted`)
})
