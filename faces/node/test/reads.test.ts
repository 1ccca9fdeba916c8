// Reads on replicas, on a real primary and two standbys: which server serves them, and that they
// show what was written.
import assert from 'node:assert/strict'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { after, before, test } from 'node:test'

import { Position, type Reads } from '../src/modern'
import type { Config } from '../src/modern/config'
import type { Sql } from '../src/modern/sql'
import { client, failure } from './modern/client'
import { servers, until } from './pair'

const limits = { timeout: 600_000 }

let primary = ''
let standbys: string[] = []
let isOld = false
let operator: Sql
let direct: Sql[] = []

let stop: () => Promise<void>
after(() => stop())

before(async () => {
  ;[primary, ...standbys] = await servers((it) => (stop = it), 2)
  operator = client({ url: primary })
  direct = standbys.map((url) => client({ url }))
  const { version } = await operator<{ version: string }>`
    select current_setting('server_version_num') as version`.one()
  isOld = Number(version) < 140_000
  await operator`create table t (n int)`
  await operator`insert into t values (0)`
}, limits)

/** A test on servers that say what they are. */
function onReplicas(name: string, run: () => Promise<void>): void {
  test(name, limits, async (t) => {
    if (isOld) t.diagnostic('not tested: standbys say what they are from PostgreSQL 14 on')
    else await run()
  })
}

const portOf = (url: string): number => Number(new URL(url).port)

/** A client of the primary and these other servers. */
function of(others: readonly number[], config: Config): Sql {
  const { host } = new URL(primary)
  const hosts = [host, ...others.map((port) => `127.0.0.1:${port}`)]
  return client({ url: primary.replace(host, hosts.join()), ...config })
}

/** A client of all, once it has served reads on both standbys. */
async function ready(config: Config): Promise<Sql> {
  const sql = of(standbys.map(portOf), config)
  const seen = new Set<number>()
  await until(async () => {
    const { port } = await sql.reads().stale()<{ port: number }>`select inet_server_port() as port`.one()
    if (port !== portOf(primary)) seen.add(port)
    return seen.size === standbys.length
  })
  return sql
}

/** It takes no parameters. */
const DELAYS = {
  '0': (sql: Sql) => sql`alter system set recovery_min_apply_delay = '0'`,
  '10ms': (sql: Sql) => sql`alter system set recovery_min_apply_delay = '10ms'`,
  '1s': (sql: Sql) => sql`alter system set recovery_min_apply_delay = '1s'`,
} as const
type Delay = keyof typeof DELAYS

/** Lets both standbys apply this late. */
async function delayed(delay: Delay): Promise<void> {
  for (const sql of direct) {
    await DELAYS[delay](sql)
    await sql`select pg_reload_conf()`
    await until(async () => {
      const row = await sql`select current_setting('recovery_min_apply_delay') = ${delay} as done`.one()
      return row['done'] === true
    })
  }
}

interface Newest {
  readonly n: number
  readonly port: number
}

const newest = (sql: Reads): Promise<Newest> =>
  sql<Newest>`select max(n) as n, inet_server_port() as port from t`.one()

/** Each way to raise `n` by one. */
const WAYS: Readonly<Record<string, (sql: Sql) => Promise<unknown>>> = {
  'a statement': async (sql) => sql`update t set n = n + 1`,
  'a function': async (sql) => sql`select step()`,
  'a transaction': (sql) => sql.begin(async (tx) => void (await tx`update t set n = n + 1`)),
  'statements that leave with COMMIT': (sql) => sql.begin((tx) => [tx`update t set n = n + 1`]),
  'a pipeline': (sql) => sql.pipeline([sql`select 1`, sql`update t set n = n + 1`]),
  'a COPY': async (sql) => {
    const { n } = await operator<{ n: number }>`select max(n) as n from t`.one()
    await pipeline(Readable.from([`${n + 1}\n`]), sql.copyFrom`copy t from stdin`)
  },
  'a session': async (sql) => {
    await using session = await sql.session()
    await session`update t set n = n + 1`
  },
  'a transaction of a session': async (sql) => {
    await using session = await sql.session()
    await session.begin(async (tx) => void (await tx`update t set n = n + 1`))
  },
}

onReplicas('reads show the own writes of every way, however late the replicas are', async () => {
  await operator`
    create function step() returns int language sql as 'update t set n = n + 1 returning n'`
  for (const delay of Object.keys(DELAYS) as Delay[]) {
    await delayed(delay)
    const sql = await ready({ reads: 'prefer_replica' })
    const reads = sql.reads()
    const { n: first } = await operator<{ n: number }>`select max(n) as n from t`.one()
    let [wanted, position] = [first, await sql.position()]
    for (let round = 0; round < 5; round++) {
      for (const [name, write] of Object.entries(WAYS)) {
        await write(sql)
        const { n } = await newest(reads)
        assert.equal(n, ++wanted, `${name}, with a delay of ${delay}`)
        position = await sql.position()
      }
    }
    // The replicas serve them once they are there.
    await until(async () => {
      const { n, port } = await newest(reads.after(position))
      assert.equal(n, wanted)
      return port !== portOf(primary)
    })
    await sql.end()
  }
  await delayed('0')
})

onReplicas('many callers at once see their own writes', async () => {
  await delayed('10ms')
  const sql = await ready({ reads: 'prefer_replica' })
  await operator`create table mine (id int primary key, n int)`
  await operator`insert into mine select id, 0 from generate_series(1, 20) id`
  const caller = async (id: number): Promise<void> => {
    for (let n = 1; n <= 30; n++) {
      await sql`update mine set n = ${n} where id = ${id}`
      const row = await sql.reads()`select n from mine where id = ${id}`.one()
      assert.deepEqual(row, { n }, `of caller ${id}`)
    }
  }
  await Promise.all(Array.from({ length: 20 }, (_, i) => caller(i + 1)))
  await delayed('0')
})

onReplicas('stats say where reads went and how each replica stands', async () => {
  await delayed('0')
  const sql = await ready({ reads: 'prefer_replica' })
  const before = sql.stats
  const ports: number[] = []
  for (let i = 0; i < 40; i++) ports.push((await newest(sql.reads().stale())).port)
  const after = sql.stats
  const onPrimary = ports.filter((port) => port === portOf(primary)).length
  assert.equal(after.reads.onPrimary - before.reads.onPrimary, onPrimary)
  assert.equal(after.reads.onReplicas - before.reads.onReplicas, ports.length - onPrimary)
  assert.equal(after.replicas.length, 3)
  for (const [at, { server, serves, reads, pool, lagMs }] of after.replicas.entries()) {
    const port = Number(server.split(':')[1])
    const isPrimary = port === portOf(primary)
    assert.equal(serves, !isPrimary)
    assert.ok(pool.connections > 0 || isPrimary)
    const served = isPrimary ? 0 : ports.filter((one) => one === port).length
    assert.equal(reads - (before.replicas[at]?.reads ?? 0), served, server)
    assert.ok(isPrimary || lagMs === undefined || lagMs >= 0)
  }
  await delayed('1s')
  // Where the position of a write is not known yet, its read goes to the primary without a guard.
  while (sql.stats.reads.behind === after.reads.behind) {
    await sql`update t set n = n + 1`
    assert.equal((await newest(sql.reads())).port, portOf(primary))
  }
  const { reads, replicas } = sql.stats
  assert.ok(reads.onPrimary > after.reads.onPrimary)
  const behind = replicas.reduce((all, one) => all + one.behind, 0)
  assert.equal(reads.behind, behind)
  await sql.end()
  await delayed('0')
  const alone = client({ url: primary })
  await alone.reads()`select 1`
  const { reads: none, replicas: nobody } = alone.stats
  assert.deepEqual([none, nobody], [{ onPrimary: 0, onReplicas: 0, behind: 0 }, []])
  await alone.end()
})

onReplicas('a position is a token for another client, and waits for its replica', async () => {
  await delayed('10ms')
  const writer = await ready({ reads: 'prefer_replica' })
  const reader = await ready({ reads: 'replica' })
  for (let i = 0; i < 20; i++) {
    const { n } = await writer<{ n: number }>`update t set n = n + 1 returning n`.first() as { n: number }
    const token = JSON.parse(JSON.stringify({ at: await writer.position() })) as { at: string }
    const read = await newest(reader.reads().after(Position.parse(token.at)))
    assert.ok(read.n >= n, `a stale read: ${read.n} and not ${n}`)
    assert.notEqual(read.port, portOf(primary), 'only replicas may serve it')
    const patient = await newest(writer.reads().orWait(10_000))
    assert.ok(patient.n >= n && patient.port !== portOf(primary), 'it waits for a replica')
  }
  await delayed('0')
})

onReplicas('stale reads are the replicas’ to serve, by turns, and the rest goes to the primary', async () => {
  const sql = await ready({ reads: 'prefer_replica' })
  const ports = new Map<number, number>()
  for (let i = 0; i < 100; i++) {
    const { port } = await newest(sql.reads().stale())
    ports.set(port, (ports.get(port) ?? 0) + 1)
  }
  assert.deepEqual([...ports.keys()].sort(), standbys.map(portOf).sort())
  const { port } = await sql<{ port: number }>`select inet_server_port() as port`.one()
  assert.equal(port, portOf(primary))
})

onReplicas('what is no read is refused, and so are options that are not for reads', async () => {
  const sql = await ready({ reads: 'prefer_replica' })
  const reads = sql.reads()
  for (const query of [
    reads`update t set n = 1`,
    reads`with gone as (delete from t returning n) select * from gone`,
    reads`select n from t for update`,
    reads`create table u ()`,
  ]) {
    const { code, outcome } = await failure(query)
    assert.deepEqual([code, outcome], ['not_a_read', 'NotSent'])
  }
  assert.throws(() => reads`select 1`.repeatable(), { code: 'repeatable' })
  assert.throws(() => reads`select 1`.stream(), { code: 'pipeline_open' })
  assert.throws(() => reads.after('1-1-1' as unknown as Position), { code: 'position' })
  const { code } = await failure(reads`select nothing`)
  assert.equal(code, '42703', 'an error of the server is the caller’s')
  const late = await failure(reads.stale()`select pg_sleep(5)`.timeout(3000))
  assert.deepEqual([late.code, late.outcome], ['timeout', 'Unknown'])
})

/** A port that leads to a server until it is cut. */
async function relay(to: number): Promise<{ port: number; cut(): void; mend(): Promise<void>; close(): void }> {
  const open = new Set<Socket>()
  const server = createServer((socket) => {
    const far = connect(to, '127.0.0.1')
    for (const [one, other] of [[socket, far], [far, socket]] as const) {
      open.add(one)
      one.on('error', () => {}).on('close', () => (open.delete(one), other.destroy()))
      one.pipe(other)
    }
  })
  const listen = (port: number): Promise<void> =>
    new Promise((resolve) => server.listen(port, '127.0.0.1', resolve))
  await listen(0)
  const { port } = server.address() as AddressInfo
  const close = (): void => {
    server.close()
    for (const socket of open) socket.destroy()
  }
  return { port, cut: close, mend: () => listen(port), close }
}

onReplicas('prefer_replica reads on the primary while replicas are down, and on them again', async () => {
  const relays = await Promise.all(standbys.map((url) => relay(portOf(url))))
  try {
    const sql = of(relays.map(({ port }) => port), { reads: 'prefer_replica' })
    for (let round = 0; round < 2; round++) {
      await until(async () => (await newest(sql.reads().stale())).port !== portOf(primary))
      relays.forEach((it) => it.cut())
      let served = 0
      await until(async () => {
        // A read that was in flight on a replica may be lost with it.
        const port = await newest(sql.reads().stale()).then((it) => it.port, () => 0)
        return (served = port === portOf(primary) ? served + 1 : 0) >= 3
      })
      await Promise.all(relays.map((it) => it.mend()))
    }
    await sql.end()
  } finally {
    relays.forEach((it) => it.close())
  }
})

onReplicas('a read that only replicas may serve fails in time where there is none', async () => {
  const sql = client({ url: primary, reads: 'replica', waitTimeoutMs: 3000 })
  for (const reads of [sql.reads(), sql.reads().stale(), sql.reads().orWait(50)]) {
    const { code, outcome } = await failure(reads`select 1`)
    assert.deepEqual([code, outcome], ['no_replica', 'NotSent'])
  }
  await sql.end()
})

onReplicas('without the setting reads go to the primary, and positions are asked for', async () => {
  const sql = client({ url: primary })
  assert.equal((await newest(sql.reads())).port, portOf(primary))
  const [first, second] = [await sql.position(), (await sql`update t set n = n + 1`, await sql.position())]
  assert.equal(first.max(second), second)
  assert.equal(second.max(first), second)
  assert.equal(String(Position.parse(String(second))), String(second))
  for (const text of ['', '1-2', 'x-1-1', '1-1-1', `${second} `, String(second).slice(0, -1)]) {
    assert.throws(() => Position.parse(text), TypeError)
  }
  const { code } = await failure((direct[0] as Sql).position())
  assert.equal(code, 'no_position')
})

onReplicas('a client that ends while it reads answers all, and lets go of everything', async () => {
  const sql = await ready({ reads: 'prefer_replica' })
  const reading = Array.from({ length: 50 }, () => newest(sql.reads()))
  await sql.end()
  assert.equal((await Promise.allSettled(reading)).filter(({ status }) => status === 'fulfilled').length, 50)
  const { code } = await failure(sql.reads()`select 1`)
  assert.equal(code, 'closed')
})

/** It comes last: behind it the standby is none any more. */
onReplicas('a promoted replica serves no reads, and a promotion that reads have met moves the writes', async () => {
  const sql = await ready({ reads: 'prefer_replica', connectionsMax: 2 })
  const [promoted, other] = standbys.map(portOf)
  /** Writes, and says where. */
  const written = async (): Promise<unknown> =>
    (await sql`update t set n = n returning inet_server_port() as port`.first())?.['port']
  await (direct[0] as Sql)`select pg_promote()`
  await until(async () => {
    await newest(sql.reads().stale()).catch(() => {})
    return written().then((port) => port === promoted, () => false)
  })
  for (let i = 0; i < 50; i++) {
    assert.equal(await written(), promoted, 'a write went to the former primary')
    assert.ok([promoted, other].includes((await newest(sql.reads().stale())).port))
  }
})
