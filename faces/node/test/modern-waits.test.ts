// Nothing waits for itself: what would is an error at once, or goes on. Each limit is reached by a
// hang alone.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { test } from 'node:test'

import type { Session, Tx } from '../src/modern'
import type { Sql } from '../src/modern/sql'
import { client, failure } from './modern/client'

const limits = { timeout: 600_000 }

type Scope = Tx | Session

/** Both scopes that have a connection to themselves. */
async function inBoth(sql: Sql, run: (scope: Scope, name: string) => Promise<void>): Promise<void> {
  await sql.begin((tx) => run(tx, 'a transaction'))
  await using session = await sql.session()
  await run(session, 'a session')
}

let tables = 0

async function table(sql: Sql) {
  const name = sql.id(`modern_waits_${process.pid}_${++tables}`)
  await sql`create table ${name} (n int)`
  const count = async (): Promise<number> => (await sql`select from ${name}`).count ?? -1
  return { name, count, drop: () => sql`drop table ${name}` }
}

// --- COPY ---

test('a statement inside the source of a COPY of its own connection is an error at once', limits, async () => {
  const sql = client({ connectionsMax: 1 })
  const { name, drop } = await table(sql)
  await inBoth(sql, async (scope, what) => {
    const errors: unknown[] = []
    const source = async function* (): AsyncGenerator<string> {
      yield '1\n'
      for (const made of [scope`select 1`, scope`select 2`.send()])
        errors.push(await failure(made))
      errors.push(await failure(scope`select 3`.stream().next()))
      errors.push(await failure(pipeline(Readable.from(['3\n']), scope.copyFrom`copy ${name} from stdin`)))
      yield '2\n'
    }
    const into = scope.copyFrom`copy ${name} from stdin`
    await pipeline(Readable.from(source()), into)
    assert.equal(into.count, 2)
    for (const error of errors) {
      const { code, outcome, message } = error as { code: string; outcome: string; message: string }
      assert.deepEqual([code, outcome], ['copy_open', 'NotSent'], what)
      assert.match(message, /end its stream first/)
    }
    assert.equal(errors.length, 4)
    assert.equal((await scope`select from ${name}`).count !== 0, true)
  })
  await drop()
})

test('a source of a COPY that fails of such an error undoes the COPY', limits, async () => {
  const sql = client({ connectionsMax: 1 })
  const { name, count, drop } = await table(sql)
  const error = await failure(
    sql.begin(async (tx) => {
      const source = async function* (): AsyncGenerator<string> {
        yield '1\n'
        await tx`select 1`
      }
      await pipeline(Readable.from(source()), tx.copyFrom`copy ${name} from stdin`)
    }),
  )
  assert.deepEqual([error.code, error.outcome], ['copy_open', 'Rejected'])
  assert.equal(await count(), 0)
  await drop()
})

test('a statement inside the reader of a COPY out of its own connection is an error at once', limits, async () => {
  const sql = client({ connectionsMax: 1 })
  await inBoth(sql, async (scope, what) => {
    const out = scope.copyTo`copy (select repeat('x', 10000) from generate_series(1, 2000)) to stdout`
    const error = await failure(
      pipeline(
        out,
        new Writable({
          write: (_, __, done) => void scope`select 1`.then(() => done(), done),
        }),
      ),
    )
    assert.deepEqual([error.code, error.outcome], ['copy_open', 'NotSent'], what)
    assert.equal((await scope`select 1`).count, 1)
  })
})

test('a transaction whose function ends with an open COPY is rolled back, and says so', limits, async () => {
  const sql = client({ connectionsMax: 1 })
  const { name, count, drop } = await table(sql)
  const thrown = new Error('mine')
  const ends: ((into: Writable) => unknown)[] = [
    () => undefined,
    () => new Promise(setImmediate),
    () => {
      throw thrown
    },
    async (into) => {
      // The COPY has begun at the server.
      await new Promise((resolve) => into.write('2\n', resolve))
      await new Promise(setImmediate)
    },
  ]
  for (const end of ends) {
    let into: Writable | undefined
    let told: Promise<unknown[]> | undefined
    const error = await failure(
      sql.begin(async (tx) => {
        await tx`insert into ${name} values (7)`
        into = tx.copyFrom`copy ${name} from stdin`
        told = once(into, 'error').then(([error]) => [error.code, error.outcome])
        into.write('1\n')
        await end(into)
      }),
    )
    if (error !== (thrown as Error)) {
      assert.deepEqual([error.code, error.outcome], ['copy_open', 'Rejected'], String(end))
      assert.match(error.message, /the COPY was undone.*end its stream, and await that/)
    }
    assert.deepEqual(await told, ['copy_open', 'Rejected'])
    assert.equal(await count(), 0)
    assert.ok(into?.destroyed)
  }
  await drop()
})

test('a transaction waits for a COPY whose data has ended, and commits both', limits, async () => {
  const sql = client({ connectionsMax: 1 })
  const { name, count, drop } = await table(sql)
  let into: Writable | undefined
  await sql.begin(async (tx) => {
    await tx`insert into ${name} values (1)`
    into = tx.copyFrom`copy ${name} from stdin`
    into.end('2\n')
  })
  assert.equal(await count(), 2)
  assert.ok(into?.writableFinished)
  await sql.begin((tx) => void tx.copyFrom`copy ${name} from stdin`.end('3\n'))
  assert.equal(await count(), 3)
  const error = await failure(
    sql.begin((tx) => {
      const bad = tx.copyFrom`copy ${name} from stdin`
      bad.on('error', () => undefined)
      bad.end('x\n')
    }),
  )
  assert.deepEqual([error.code, error.sqlstate, error.outcome], ['rolled_back', '22P02', 'Rejected'])
  assert.equal(await count(), 3)
  await drop()
})

test('a savepoint whose function ends with an open COPY is undone, and the transaction goes on', limits, async () => {
  const sql = client({ connectionsMax: 1 })
  const { name, count, drop } = await table(sql)
  await sql.begin(async (tx) => {
    await tx`insert into ${name} values (1)`
    const error = await failure(
      tx.savepoint(async (sp) => {
        await sp`insert into ${name} values (2)`
        const into = sp.copyFrom`copy ${name} from stdin`
        into.on('error', () => undefined)
        into.write('3\n')
      }),
    )
    assert.deepEqual([error.code, error.outcome], ['copy_open', 'Rejected'])
    await tx`insert into ${name} values (4)`
  })
  assert.equal(await count(), 2)
  await drop()
})

test('a session that is released with an open COPY undoes it, and gives its connection back', limits, async () => {
  const sql = client({ connectionsMax: 1 })
  const { name, count, drop } = await table(sql)
  for (const hasBegun of [false, true]) {
    const session = await sql.session()
    const into = session.copyFrom`copy ${name} from stdin`
    const told = once(into, 'error')
    await new Promise((resolve) => into.write('1\n', resolve))
    if (hasBegun) await new Promise(setImmediate)
    session.release()
    const [error] = await told
    assert.deepEqual([error.code, error.outcome], ['copy_open', 'Rejected'])
    assert.equal(await count(), 0)
  }
  const session = await sql.session()
  session.copyFrom`copy ${name} from stdin`.end('1\n')
  session.release()
  assert.equal(await count(), 1)
  await drop()
})

// --- streams ---

/** Rows of some 20 MB, far more than waits for a reader, or a few. */
function rows(scope: Scope, isMany: boolean) {
  return scope<{ n: number }>`
    select n, repeat('x', 10000) as t from generate_series(1, ${isMany ? 2000 : 3}::int) n`
}

test('a statement inside the loop over a stream of its own connection is an error at once, however few rows', limits, async () => {
  const sql = client({ connectionsMax: 1 })
  for (const isMany of [true, false]) {
    await inBoth(sql, async (scope, what) => {
      let count = 0
      for await (const { n } of rows(scope, isMany)) {
        count++
        if (n > 3) continue
        const others = [
          scope`select 1`,
          scope`select 2`.stream().next(),
          pipeline(Readable.from(['1\n']), scope.copyFrom`copy nowhere from stdin`),
          'savepoint' in scope ? scope.savepoint(() => 1) : scope.begin(() => 1),
        ]
        for (const other of others) {
          const error = await failure(other)
          assert.deepEqual([error.code, error.outcome], ['stream_open', 'NotSent'], what)
        }
      }
      assert.equal(count, isMany ? 2000 : 3)
      assert.equal((await scope`select 1`).count, 1)
    })
  }
})

test('a loop that is left by such an error gives its connection back', limits, async () => {
  const sql = client({ connectionsMax: 1 })
  const error = await failure(
    sql.begin(async (tx) => {
      for await (const _ of rows(tx, true)) await tx`select 1`
    }),
  )
  assert.equal(error.code, 'stream_open')
  await using session = await sql.session()
  const loop = async (): Promise<void> => {
    for await (const _ of rows(session, true)) await session`select 1`
  }
  assert.equal((await failure(loop())).code, 'stream_open')
  assert.equal((await session`select 1`).count, 1)
})

test('streams of a pool, and statements on other connections, go on beside a stream', limits, async () => {
  const sql = client({ connectionsMax: 2 })
  let count = 0
  for await (const _ of rows(sql as unknown as Session, true)) count += (await sql`select 1`).count ?? 0
  assert.equal(count, 2000)
})

test('a transaction or savepoint that ends with a stream half read commits, and the stream says so', limits, async () => {
  const sql = client({ connectionsMax: 1 })
  const { name, count, drop } = await table(sql)
  const told = async (stream: { next(): Promise<unknown> }): Promise<void> => {
    const error = await failure(stream.next())
    assert.deepEqual([error.code, error.outcome], ['stream_open', 'Unknown'])
    assert.match(error.message, /ended before it was read to its end/)
    assert.deepEqual(await stream.next(), { value: undefined, done: true })
  }
  for (const isMany of [true, false]) {
    const before = await count()
    const stream = await sql.begin(async (tx) => {
      await tx`insert into ${name} values (1)`
      const inner = await tx.savepoint(async (sp) => {
        const stream = rows(sp, isMany).stream()
        await stream.next()
        return { stream }
      })
      await told(inner.stream)
      const outer = rows(tx, isMany).stream()
      await outer.next()
      return { outer }
    })
    await told(stream.outer)
    assert.equal(await count(), before + 1)
    let left: ReturnType<typeof rows> | undefined
    const thrown = new Error('mine')
    const failed = failure(
      sql.begin(async (tx) => {
        left = rows(tx, isMany)
        await left[Symbol.asyncIterator]().next()
        throw thrown
      }),
    )
    assert.equal(await failed, thrown)
    assert.equal(await count(), before + 1)
  }
  await drop()
})

test('a session that is released with a stream half read gives its connection back', limits, async () => {
  const sql = client({ connectionsMax: 1 })
  for (const isMany of [true, false]) {
    const session = await sql.session()
    const stream = rows(session, isMany).stream()
    await stream.next()
    const out = session.copyTo`copy (select 1) to stdout`
    out.on('error', () => undefined)
    session.release()
    assert.equal((await failure(stream.next())).code, 'stream_open')
    assert.equal((await sql`select 1`).count, 1)
  }
})

test('a COPY out that a transaction leaves half read ends with an error, and the transaction commits', limits, async () => {
  const sql = client({ connectionsMax: 1 })
  const { name, count, drop } = await table(sql)
  let told: Promise<unknown[]> | undefined
  await sql.begin(async (tx) => {
    await tx`insert into ${name} values (1)`
    const out = tx.copyTo`copy (select repeat('x', 10000) from generate_series(1, 2000)) to stdout`
    await once(out, 'readable')
    told = once(out, 'error')
  })
  const [error] = (await told) as [{ code: string; outcome: string }]
  assert.deepEqual([error.code, error.outcome], ['copy_open', 'Unknown'])
  assert.equal(await count(), 1)
  await drop()
})

// --- savepoints and transactions side by side ---

test('a second savepoint beside an open one is an error at once, and no acknowledged row is lost', limits, async () => {
  const sql = client({ connectionsMax: 1 })
  const { name, count, drop } = await table(sql)
  const thrown = new Error('mine')
  for (const failsFirst of [true, false]) {
    const before = await count()
    await sql.begin(async (tx) => {
      const ends = await Promise.allSettled([
        tx.savepoint(async (sp) => {
          await sp`insert into ${name} values (1)`
          if (failsFirst) throw thrown
        }),
        tx.savepoint(async (sp) => {
          await sp`insert into ${name} values (2)`
          if (!failsFirst) throw thrown
        }),
      ])
      const [first, second] = ends.map((it) => (it.status === 'rejected' ? it.reason : undefined))
      assert.equal(first, failsFirst ? thrown : undefined)
      assert.deepEqual([second?.code, second?.outcome], ['savepoint_open', 'NotSent'])
      await tx`insert into ${name} values (3)`
    })
    assert.equal(await count(), before + (failsFirst ? 1 : 2))
  }
  await drop()
})

test('a savepoint beside one whose function waits between its statements is an error at once', limits, async () => {
  const sql = client({ connectionsMax: 1 })
  const { name, count, drop } = await table(sql)
  await sql.begin(async (tx) => {
    let goOn: (() => void) | undefined
    const wait = new Promise<void>((resolve) => (goOn = resolve))
    const first = tx.savepoint(async (sp) => {
      await sp`insert into ${name} values (1)`
      await wait
      await sp.savepoint(async (inner) => inner`insert into ${name} values (2)`)
      await sp`insert into ${name} values (3)`
    })
    await new Promise(setImmediate)
    assert.equal((await failure(tx.savepoint(() => 1))).code, 'savepoint_open')
    assert.equal((await failure(tx`select 1`)).code, 'savepoint_open')
    goOn?.()
    await first
  })
  assert.equal(await count(), 3)
  await drop()
})

test('a savepoint whose function has not ended when its transaction does is undone, and says so', limits, async () => {
  const sql = client({ connectionsMax: 1 })
  const { name, count, drop } = await table(sql)
  let goOn: (() => void) | undefined
  const wait = new Promise<void>((resolve) => (goOn = resolve))
  let left: Promise<unknown> | undefined
  await sql.begin(async (tx) => {
    await tx`insert into ${name} values (1)`
    const inside = new Promise<void>((resolve) => {
      left = failure(
        tx.savepoint(async (sp) => {
          await sp`insert into ${name} values (2)`
          resolve()
          await wait
        }),
      )
    })
    await inside
  })
  goOn?.()
  assert.equal(((await left) as { code: string }).code, 'transaction_over')
  assert.equal(await count(), 1)
  await drop()
})

test('a second transaction of a session beside an open one is an error at once', limits, async () => {
  const sql = client({ connectionsMax: 1 })
  const { name, drop } = await table(sql)
  const session = await sql.session()
  const ends = await Promise.allSettled([
    session.begin((tx) => tx`insert into ${name} values (1)`),
    session.begin((tx) => tx`insert into ${name} values (2)`),
  ])
  const [first, second] = ends.map((it) => (it.status === 'rejected' ? it.reason : undefined))
  assert.deepEqual([first, second?.code, second?.outcome], [undefined, 'transaction_open', 'NotSent'])
  assert.equal((await session`select from ${name}`).count, 1)
  session.release()
  await drop()
})

test('a connection whose lifetime passes while it is busy is closed, and the next one serves', limits, async () => {
  const sql = client({ connectionsMax: 1, lifetimeMs: 1000 })
  const pids = await Promise.all(
    Array.from({ length: 3 }, async () => {
      const { pid } = await sql<{ pid: number }>`
        select pg_backend_pid() as pid, pg_sleep(0.4)::text`.one()
      return pid
    }),
  )
  const { pid } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.one()
  assert.ok(!pids.includes(pid))
  await sql.end()
})
