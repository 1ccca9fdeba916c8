import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { test } from 'node:test'

import type { PostgresError } from '../src/modern'
import type { Query } from '../src/modern/query'
import type { Tx } from '../src/modern/sql'
import { client, failure } from './modern/client'

let tables = 0

/** Makes a table, with a function that counts its rows. */
async function table(sql = client()) {
  const name = sql.id(`modern_tx_${process.pid}_${++tables}`)
  await sql`create table ${name} (n int primary key)`
  const count = async (): Promise<number> =>
    Number((await sql<{ n: bigint }>`select count(*) as n from ${name}`.one()).n)
  return { sql, name, count, drop: () => sql`drop table ${name}` }
}

test('a pipeline takes effect as a whole, and returns the result of each', async () => {
  const { sql, name, count, drop } = await table()
  const [a, b] = await sql.pipeline([
    sql`insert into ${name} values (1), (2)`,
    sql<{ n: number }>`select n from ${name} order by n`,
  ])
  assert.equal(a.count, 2)
  assert.deepEqual(
    b.map((row) => row.n),
    [1, 2],
  )
  const made = await sql.pipeline(async (p) => [
    p`insert into ${name} values (${3})`,
    p`select count(*)::int as c from ${name}`,
  ])
  assert.deepEqual(made[1][0], { c: 3 })
  assert.equal(await count(), 3)
  assert.deepEqual(await sql.pipeline([]), [])
  await drop()
})

test('a pipeline that fails has no effect, and its error has the index of the statement', async () => {
  const { sql, name, count, drop } = await table()
  const statements = [
    sql`insert into ${name} values (1)`,
    sql`select 1 / 0`,
    sql`insert into ${name} values (2)`,
  ]
  const error = await failure(sql.pipeline(statements))
  assert.equal(error.message, 'statement 2 of the pipeline: division by zero (22012)')
  assert.deepEqual([error.code, error.statement, error.outcome], ['22012', 1, 'Rejected'])
  const each = await Promise.all(statements.map(failure))
  assert.deepEqual(
    each.map(({ code, outcome }) => [code, outcome]),
    [
      ['rolled_back', 'Rejected'],
      ['22012', 'Rejected'],
      ['aborted', 'Rejected'],
    ],
  )
  assert.equal(await count(), 0)
  await drop()
})

test('a pipeline whose sync point fails has no effect', async () => {
  const sql = client()
  const name = sql.id(`modern_deferred_${process.pid}`)
  await sql`create table ${name} (n int primary key deferrable initially deferred)`
  const error = await failure(
    sql.pipeline([sql`insert into ${name} values (1)`, sql`insert into ${name} values (1)`]),
  )
  assert.deepEqual([error.code, error.outcome], ['23505', 'Rejected'])
  assert.equal((await sql`select from ${name}`).count, 0)
  await sql`drop table ${name}`
})

test('a pipeline refuses statements that cannot be part of it', async () => {
  const sql = client()
  const alone = await failure(sql.pipeline([sql`select 1`, sql`vacuum`]))
  assert.deepEqual([alone.code, alone.outcome, alone.statement], ['stand_alone', 'NotSent', 1])
  assert.equal((await failure(sql.pipeline([sql`do $$begin end$$`]))).code, 'call')
  assert.equal((await failure(sql.pipeline([sql`select 1`.repeatable()]))).code, 'pipeline_option')
  assert.equal((await failure(sql.pipeline([1 as never]))).code, 'not_statements')
  assert.equal((await failure(sql.pipeline([sql`select ${undefined as never}`]))).statement, 0)
  const inside = await failure(sql.pipeline(async (p) => [await p`select 1`] as never))
  assert.equal(inside.code, 'pipeline_open')
})

test(
  'a pipeline may be longer than the window, and no longer than the queue',
  { timeout: 600_000 },
  async () => {
    const sql = client({ inFlightMax: 16 })
    const results = await sql.pipeline(
      Array.from({ length: 5000 }, (_, n) => sql<{ n: number }>`select ${n}::int as n`),
    )
    assert.equal(
      results.every((rows, n) => rows[0]?.n === n),
      true,
    )
    const error = await failure(sql.pipeline(Array.from({ length: 16_384 }, () => sql`select 1`)))
    assert.deepEqual([error.code, error.outcome], ['pipeline_too_long', 'NotSent'])
  },
)

test('a transaction is committed when its function returns, and its value comes back', async () => {
  const { sql, name, count, drop } = await table()
  const value = await sql.begin(async (tx) => {
    await tx`insert into ${name} values (1)`
    const [row] = await tx<{ n: number }>`select n from ${name}`
    return row?.n
  })
  assert.deepEqual([value, await count()], [1, 1])
  assert.equal(await sql.begin(async () => 'nothing sent'), 'nothing sent')
  await drop()
})

test('an error of the function rolls the transaction back, and begin rejects with it', async () => {
  const { sql, name, count, drop } = await table()
  const thrown = new Error('mine')
  const error = await failure(
    sql.begin(async (tx) => {
      await tx`insert into ${name} values (1)`
      throw thrown
    }),
  )
  assert.equal(error, thrown)
  assert.equal(
    await failure(
      sql.begin(() => {
        throw thrown
      }),
    ),
    thrown,
  )
  assert.equal(await count(), 0)
  assert.equal(sql.stats.idle, sql.stats.connections)
  await drop()
})

test('statements that are returned leave in one trip with BEGIN and COMMIT', async () => {
  const { sql, name, count, drop } = await table()
  const [a, b] = await sql.begin((tx) => [
    tx`insert into ${name} values (1)`,
    tx<{ n: number }>`select n from ${name}`,
  ])
  assert.deepEqual([a.count, b[0]?.n, await count()], [1, 1, 1])
  const error = await failure(
    sql.begin((tx) => [tx`insert into ${name} values (2)`, tx`insert into ${name} values (1)`]),
  )
  assert.deepEqual([error.code, error.outcome, await count()], ['23505', 'Rejected', 1])
  await drop()
})

test('a transaction that goes on after a failure is not committed, and begin rejects', async () => {
  const { sql, name, count, drop } = await table()
  const error = await failure(
    sql.begin(async (tx) => {
      await tx`insert into ${name} values (1)`
      await failure(tx`select 1 / 0`)
      assert.equal((await failure(tx`select 1`)).code, '25P02')
    }),
  )
  assert.deepEqual(
    [error.code, error.sqlstate, error.outcome],
    ['rolled_back', '22012', 'Rejected'],
  )
  assert.equal(await count(), 0)
  await drop()
})

test('if BEGIN is refused, no statement of its transaction runs', async () => {
  const { sql, name, count, drop } = await table()
  // Any server refuses an isolation level that does not exist.
  const bad = { isolation: 'chaos' } as never
  assert.equal(
    (await failure(sql.begin(bad, async (tx) => tx`insert into ${name} values (1)`))).code,
    'isolation',
  )
  assert.equal(await count(), 0)
  assert.equal(sql.stats.idle, sql.stats.connections)
  await drop()
})

test('options set the modes of a transaction', async () => {
  const sql = client()
  const [level, readOnly] = await sql.begin(
    { isolation: 'serializable', readOnly: true, deferrable: true },
    async (tx) =>
      [
        (
          await tx.pipeline([
            tx<{ t: string }>`select current_setting('transaction_isolation') as t`,
          ])
        )[0][0]?.t,
        (await tx`show transaction_read_only`.one())['transaction_read_only'],
      ] as const,
  )
  assert.deepEqual([level, readOnly], ['serializable', 'on'])
  assert.equal(
    (
      await failure(
        sql.begin({ readOnly: true }, async (tx) => {
          await tx`create table modern_no (n int)`
        }),
      )
    ).code,
    '25006',
  )
})

test('statements of one transaction that are not awaited run in their order', async () => {
  const { sql, name, drop } = await table()
  const rows = await sql.begin(async (tx) => {
    const inserts = Array.from({ length: 100 }, (_, n) => tx`insert into ${name} values (${n})`)
    await Promise.all(inserts)
    return tx<{ n: number }>`select count(*)::int as n from ${name}`.one()
  })
  assert.equal(rows.n, 100)
  const error = await failure(
    sql.begin(async (tx) => {
      await Promise.all([tx`select 1 / 0`, tx`insert into ${name} values (1000)`])
    }),
  )
  assert.equal(error.code, '22012')
  await drop()
})

test('transaction control as text is refused in a transaction, and its statements after its end', async () => {
  const sql = client()
  let late: (() => PromiseLike<unknown>) | undefined
  const left = await failure(
    sql.begin(async (tx) => {
      assert.equal((await failure(tx`commit`)).code, 'transaction_open')
      late = () => tx`select 1`
    }),
  )
  assert.deepEqual([left.code, left.outcome], ['rolled_back', 'NotSent'])
  assert.equal((await failure((late as () => PromiseLike<unknown>)())).code, 'transaction_over')
})

test('a savepoint that fails is undone alone', async () => {
  const { sql, name, count, drop } = await table()
  await sql.begin(async (tx) => {
    await tx`insert into ${name} values (1)`
    const error = await failure(
      tx.savepoint(async (sp) => {
        await sp`insert into ${name} values (2)`
        await sp`insert into ${name} values (1)`
      }),
    )
    assert.equal(error.code, '23505')
    await tx.savepoint(async (sp) => {
      await sp`insert into ${name} values (3)`
      await failure(
        sp.savepoint(async (inner) => {
          await inner`select 1 / 0`
        }),
      )
      await sp`insert into ${name} values (4)`
      assert.equal((await failure(tx`select 1`)).code, 'savepoint_open')
    })
    await tx.savepoint(async () => undefined)
  })
  assert.equal(await count(), 3)
  await drop()
})

test('a savepoint in which a failure was caught is undone, and rejects', async () => {
  const { sql, name, count, drop } = await table()
  await sql.begin(async (tx) => {
    const error = await failure(
      tx.savepoint(async (sp) => {
        await sp`insert into ${name} values (1)`
        await failure(sp`select 1 / 0`)
      }),
    )
    assert.equal(error.code, 'rolled_back')
    await tx`insert into ${name} values (2)`
  })
  assert.equal(await count(), 1)
  await drop()
})

test(
  'a transaction with a conflict is run again if retry is set',
  { timeout: 600_000 },
  async () => {
    const { sql, name, drop } = await table()
    await sql`insert into ${name} values (1), (2)`
    let runs = 0
    let bothRead: (() => void) | undefined
    const meet = new Promise<void>((resolve) => (bothRead = resolve))
    let readers = 0
    const skew = (own: number) =>
      sql.begin({ isolation: 'serializable', retry: true }, async (tx) => {
        runs++
        await tx`select sum(n) from ${name}`
        if (++readers === 2) bothRead?.()
        await meet
        await tx`update ${name} set n = n + ${own * 100} where n % 2 = ${own % 2}`
      })
    await Promise.all([skew(1), skew(2)])
    assert.ok(runs >= 3, `${runs} runs`)
    await drop()
  },
)

test('the server’s error decides whether a transaction is run again, not the error of its function', async () => {
  const sql = client()
  const thrown = Object.assign(new Error('mine'), { sqlstate: '40001' })
  for (const [conflicts, expected] of [
    [true, 3],
    [false, 1],
  ] as const) {
    let attempts = 0
    const error = await failure(
      sql.begin({ retry: { attemptsMax: 3 } }, async (tx) => {
        attempts++
        if (conflicts) await failure(tx`do $$ begin raise exception 'x' using errcode = '40001'; end $$`)
        throw thrown
      }),
    )
    assert.deepEqual([error, attempts], [thrown, expected])
  }
})

test('statements behind BEGIN do not wait for its answer, and do not run if it is refused', async () => {
  const { sql, name, count, drop } = await table()
  const session = await sql.session()
  await session`begin`
  await session`select 1`
  const error = await failure(
    session.begin({ isolation: 'serializable' }, async (tx) => {
      const first = failure(tx`insert into ${name} values (1)`)
      // A new turn, before the answer: the next statements are another segment.
      await new Promise(setImmediate)
      const second = failure(tx`insert into ${name} values (2)`)
      const errors = [await first, await second, await failure(tx`insert into ${name} values (3)`)]
      assert.deepEqual(
        errors.map(({ sqlstate, outcome }) => [sqlstate, outcome]),
        [
          ['25001', 'Rejected'],
          // The session's own transaction has failed.
          ['25P02', 'Rejected'],
          ['25001', 'NotSent'],
        ],
      )
      assert.match(errors[0]?.message ?? '', /^BEGIN: /)
      assert.match(errors[2]?.message ?? '', /^BEGIN: /)
    }),
  )
  assert.deepEqual([error.sqlstate, error.outcome], ['25001', 'Rejected'])
  await session`rollback`
  session.release()
  assert.equal(await count(), 0)
  await drop()
})

test('a last statement whose value cannot be read is committed, and ends as Applied', async () => {
  const sql = client({ types: { int4: () => assert.fail('mine') } })
  const error = await failure(sql.begin((tx) => [tx`select 1::int4 as n`]))
  assert.deepEqual([error.code, error.outcome], ['conversion', 'Applied'])
})

test('a savepoint whose function is not awaited is undone with the savepoint around it', async () => {
  const { sql, name, count, drop } = await table()
  await sql.begin(async (tx) => {
    await tx`insert into ${name} values (1)`
    await tx.savepoint(async (outer) => {
      const left = outer.savepoint(async (inner) => {
        await inner`insert into ${name} values (2)`
        await new Promise((resolve) => setTimeout(resolve, 50))
        await inner`insert into ${name} values (3)`
      })
      left.catch(() => undefined)
      await new Promise((resolve) => setTimeout(resolve, 20))
    })
    await tx`insert into ${name} values (4)`
  })
  assert.equal(await count(), 2)
  await drop()
})

test('a session keeps its state, and the next user finds none of it', async () => {
  const sql = client({ connectionsMax: 1 })
  const session = await sql.session()
  await session`create temp table modern_mine (n int)`
  await session`set statement_timeout to 12345`
  await session.begin(async (tx) => {
    await tx`insert into modern_mine values (1)`
    assert.equal((await failure(session`select 1`)).code, 'transaction_open')
  })
  assert.equal((await session`select from modern_mine`).count, 1)
  const pid = (await session`select pg_backend_pid() as p`.one())['p']
  await session`begin`
  session.release()
  assert.equal((await failure(session`select 1`)).code, 'session_over')
  const [after, gone] = await Promise.all([
    sql`select pg_backend_pid() as p, current_setting('statement_timeout') as t`.one(),
    failure(sql`select from modern_mine`),
  ])
  assert.deepEqual([after['p'], after['t'], gone.code], [pid, '0', '42P01'])
})

test('DISCARD is refused on a shared connection, which goes on', async () => {
  const sql = client({ connectionsMax: 1 })
  const first = await sql`select pg_backend_pid() as p`.one()
    await failure(sql`discard plans`)
  assert.equal((await sql`select pg_backend_pid() as p`.one())['p'], first['p'])
})

test('what leaves begin was rolled back, and its error says so although its statement ran', async () => {
  const { sql, name, count, drop } = await table(client({ resultBytesMax: 1000 }))
  const ways: ((tx: Tx) => PromiseLike<unknown>)[] = [
    (tx) => tx`insert into ${name} values (1), (2) returning n`.one(),
    (tx) => tx`insert into ${name} select generate_series(1, 500) returning n`,
  ]
  for (const way of ways) {
    let inside: string | undefined
    const run = async (tx: Tx): Promise<unknown> => {
      const error = await failure(way(tx))
      inside = error.outcome
      throw error
    }
    assert.equal((await failure(sql.begin(run))).outcome, 'Rejected')
    assert.equal(inside, 'Applied')
    assert.equal(await count(), 0)
    // A savepoint is a whole, too; what is caught behind it does not hinder the transaction.
    await sql.begin(async (tx) => {
      assert.equal((await failure(tx.savepoint(run))).outcome, 'Rejected')
      await tx`insert into ${name} values (0)`
    })
    assert.equal(await count(), 1)
    await sql`delete from ${name}`
  }
  await drop()
})

test('a statement elsewhere that took effect leaves begin as Unknown', async () => {
  const { sql, name, count, drop } = await table()
  for (const other of [client(), sql]) {
    const run = async (tx: Tx): Promise<unknown> => {
      await tx`insert into ${name} values (1)`
      return other`insert into ${name} values (2), (3) returning n`.one()
    }
    for (const way of [run, (tx: Tx) => tx.savepoint(run)]) {
      const error = await failure(sql.begin(way))
      assert.deepEqual([error.code, error.outcome], ['too_many_rows', 'Unknown'])
      // What the other did, and nothing of the transaction.
      assert.equal(await count(), 2)
      await sql`delete from ${name}`
    }
  }
  await drop()
})

test('what cannot be read hides nothing of what undid it', async () => {
  const { sql, name, count, drop } = await table(client({ resultBytesMax: 1000 }))
  await sql`alter table ${name} add m int unique deferrable initially deferred`
  const unread = (): Query<unknown> =>
    sql`insert into ${name} select i, i from generate_series(1, 500) i returning n`
  const twice = (): Query<unknown> => sql`insert into ${name} values (501, 1)`
  const fails = (): Query<unknown> => sql`select 1 / 0`
  for (const [second, code] of [
    [fails, '22012'],
    [twice, '23505'],
  ] as const) {
    const members = [unread(), second()]
    const whole = await failure(sql.pipeline(members))
    assert.deepEqual([whole.code, whole.outcome], [code, 'Rejected'])
    const first = await failure(members[0] as Query<unknown>)
    assert.deepEqual([first.code, first.outcome], ['rolled_back', 'Rejected'])
  }
  const last = (tx: Tx): readonly [Query<unknown>, Query<unknown>] => [
    tx`insert into ${name} values (501, 1)`,
    tx`insert into ${name} select i, i from generate_series(1, 500) i returning n`,
  ]
  const error = await failure(sql.begin((tx) => last(tx)))
  assert.deepEqual([error.code, error.outcome], ['23505', 'Rejected'])
  assert.equal(await count(), 0)
  await drop()
})

test('a pipeline and a full queue wait for each other, and harm nobody', async () => {
  // All is sent in one turn, so the queue has 16 MiB before anything is answered.
  const sql = client({ connectionsMax: 1 })
  const large = 'x'.repeat(1 << 20)
  const length = (value: string): Query<{ n: number }> => sql`select length(${value}::text) as n`
  const pid = (await sql`select pg_backend_pid() as p`.one())['p']
  await length('x')
  for (const [value, times] of [
    ['x', 3],
    [large, 20],
  ] as const) {
    const many = (): Promise<{ n: number }>[] =>
      Array.from({ length: 20 }, () => length(large).one())
    const before = many()
    const pipeline = sql.pipeline(Array.from({ length: times }, () => length(value)))
    const neighbours = await Promise.all([...before, ...many()])
    assert.ok(neighbours.every(({ n }) => n === large.length))
    assert.ok((await pipeline).every(([row]) => (row as { n: number }).n === value.length))
  }
  assert.equal((await sql`select pg_backend_pid() as p`.one())['p'], pid)
})

test('a statement that would run outside of its transaction is refused', async () => {
  const sql = client()
  const other = client()
  await sql`drop table if exists modern_outside`
  await sql`create table modern_outside (n int)`
  const stray = (tag: typeof sql) => tag`insert into modern_outside values (1)`
  for (const refused of [
    () => sql.begin(() => [stray(sql)]),
    () => sql.begin((tx) => [tx`select 1`, stray(sql)]),
    () => sql.begin((tx) => [stray(other), tx`select 1`]),
    () => sql.begin((tx) => tx.pipeline([stray(sql)])),
    () => sql.begin((tx) => sql.pipeline([tx`insert into modern_outside values (1)`])),
    () => sql.begin((tx) => tx.savepoint(() => [stray(sql)])),
  ]) {
    const { code, outcome } = await failure(refused())
    assert.deepEqual([code, outcome], ['wrong_place', 'NotSent'])
  }
  assert.deepEqual([...(await sql`select n from modern_outside`)], [])
  await sql`drop table modern_outside`
})

test('statements that the function of a savepoint returns are sent in it', async () => {
  const sql = client()
  await sql`drop table if exists modern_returned`
  await sql`create table modern_returned (n int)`
  const results = await sql.begin((tx) =>
    tx.savepoint((inner) => [
      inner`insert into modern_returned values (1)`,
      inner<{ n: number }>`select n from modern_returned`,
    ]),
  )
  assert.deepEqual([...results[1]], [{ n: 1 }])
  assert.deepEqual([...(await sql`select n from modern_returned`)], [{ n: 1 }])
  await sql`drop table modern_returned`
})

test('a transaction is not committed without a statement that its function returned', async () => {
  const sql = client()
  await sql`drop table if exists modern_whole`
  await sql`create table modern_whole (n int)`
  const error = await failure(
    sql.begin((tx) => [tx`insert into modern_whole values (1)`, tx`vacuum modern_whole`]),
  )
  assert.notEqual(error.outcome, 'Applied')
  assert.deepEqual([...(await sql`select n from modern_whole`)], [])
  await sql`drop table modern_whole`
})

test('a transaction is not committed without a statement that was given up before it was sent', async () => {
  const { sql, name, count, drop } = await table()
  const aborted = AbortSignal.abort()
  const given = (tx: Tx) => failure(tx`insert into ${name} values (1)`.signal(aborted))
  const together = (tx: Tx) => Promise.all([given(tx), tx`insert into ${name} values (2)`])
  const apart = async (tx: Tx) => {
    await given(tx)
    await tx`insert into ${name} values (2)`
  }
  for (const way of [together, apart]) {
    const error = await failure(sql.begin(async (tx) => void (await way(tx))))
    assert.deepEqual([error.code, error.outcome], ['rolled_back', 'Rejected'])
    assert.equal(await count(), 0)
  }
  await drop()
})

test('what was not sent itself leaves a transaction as rejected, of which a part was sent', async () => {
  const sql = client()
  const ways: Record<string, (tx: Tx) => Promise<unknown>> = {
    aborted: async (tx) => tx`select 2`.signal(AbortSignal.abort()),
    parameter: async (tx) => tx`select ${Symbol('x') as never}`,
    refused: async (tx) => tx`commit`,
    elsewhere: async () => sql`set search_path = public`,
  }
  for (const [name, way] of Object.entries(ways)) {
    for (const sends of [true, false]) {
      const error = await failure(
        sql.begin(async (tx) => {
          if (sends) await tx`select 1`
          await way(tx)
        }),
      )
      assert.equal(error.outcome, sends ? 'Rejected' : 'NotSent', name)
    }
  }
  const savepoint = await failure(
    sql.begin(async (tx) => {
      await tx`select 1`
      const inner = (sends: boolean): Promise<unknown> =>
        tx.savepoint(async (sp) => {
          if (sends) await sp`select 1`
          await sp`commit`
        })
      assert.equal((await failure(inner(false))).outcome, 'NotSent')
      const error = await failure(inner(true))
      assert.equal(error.outcome, 'Rejected')
      throw error
    }),
  )
  assert.equal(savepoint.outcome, 'Rejected')
})

test('what was not sent since the connection was lost leaves a transaction as rejected', async () => {
  const sql = client()
  const error = await failure(
    sql.begin(async (tx) => {
      await failure(tx`select pg_terminate_backend(pg_backend_pid())`)
      const late = await failure(tx`select 2`)
      assert.deepEqual([late.code, late.outcome], ['connection_lost', 'NotSent'])
      throw late
    }),
  )
  assert.deepEqual([error.code, error.outcome], ['connection_lost', 'Rejected'])
})

test('a savepoint whose connection was lost says what of it was sent, and so does what is around it', async () => {
  const sql = client()
  const kill = (tx: Tx): Promise<unknown> =>
    failure(tx`select pg_terminate_backend(pg_backend_pid())`)
  const said: string[] = []
  const told = async (leaves: Promise<unknown>): Promise<void> => {
    said.push((await failure(leaves)).outcome)
  }
  const whole = (work: (tx: Tx) => Promise<unknown>): Promise<void> =>
    told(
      sql.begin(async (tx) => {
        await tx`select 1`
        await work(tx)
        await tx`select 9`
      }),
    )
  // In the savepoint, in front of it, and in one that is in another.
  await whole((tx) =>
    told(
      tx.savepoint(async (sp) => {
        await sp`select 1`
        await kill(sp)
        await sp`select 2`
      }),
    ),
  )
  await whole(async (tx) => {
    await kill(tx)
    await told(tx.savepoint((sp) => sp`select 1`))
  })
  await whole((tx) =>
    told(
      tx.savepoint(async (sp) => {
        await sp`select 1`
        await kill(sp)
        await told(sp.savepoint((inner) => inner`select 2`))
        await sp`select 3`
      }),
    ),
  )
  // The end of the savepoint is the first to fail; or it never ends.
  await whole((tx) =>
    told(
      tx.savepoint(async (sp) => {
        await kill(sp)
      }),
    ),
  )
  await whole(async (tx) => {
    await kill(tx)
    void tx.savepoint(() => new Promise(() => {}))
    throw await failure(sql`select $1`)
  })
  assert.deepEqual(said.slice(0, 2), ['Rejected', 'Rejected'])
  assert.deepEqual(said.slice(2, 4), ['NotSent', 'Rejected'])
  assert.deepEqual(said.slice(4, 7), ['NotSent', 'Rejected', 'Rejected'])
  assert.deepEqual(said.slice(7), ['Rejected', 'Rejected', 'Rejected'])
})

test('a savepoint is not kept without a statement that was given up before it was sent', async () => {
  const { sql, name, count, drop } = await table()
  await sql.begin(async (tx) => {
    await tx`insert into ${name} values (1)`
    const kept = await failure(
      tx.savepoint(async (sp) => {
        await sp`insert into ${name} values (2)`
        await failure(sp`insert into ${name} values (3)`.signal(AbortSignal.abort()))
      }),
    )
    assert.deepEqual([kept.code, kept.outcome], ['rolled_back', 'Rejected'])
  })
  assert.equal(await count(), 1)
  await drop()
})

test('a transaction is not committed without statements that found the queue full', async () => {
  const { name, count, drop } = await table()
  const sql = client({ connectionsMax: 1, inFlightMax: 1, queueMax: 8 })
  const many = (tx: Tx) => Array.from({ length: 100 }, (_, n) => tx`insert into ${name} values (${n})`)
  const ways: ((tx: Tx) => Promise<unknown>)[] = [
    (tx) => Promise.allSettled(many(tx)),
    (tx) => Promise.all(many(tx)),
    // Nothing of it is awaited within.
    async (tx) => void many(tx).forEach((one) => void one.then(undefined, () => undefined)),
  ]
  for (const way of ways) {
    const error = await failure(sql.begin(async (tx) => void (await way(tx))))
    assert.ok(['rolled_back', 'queue_full'].includes(String(error.code)), String(error))
    assert.equal(error.outcome, 'Rejected')
    assert.equal(await count(), 0)
  }
  const returned = await failure(sql.begin((tx) => many(tx)))
  assert.equal(returned.outcome, 'Rejected')
  assert.equal(await count(), 0)
  await drop()
})

test('the error of a stream or a COPY leaves a transaction as Rejected', async () => {
  const sql = client({ connectionsMax: 2 })
  const table = `ended_${process.pid}`
  await sql`create table ${sql.id(table)} (id int, ended bool default pg_terminate_backend(pg_backend_pid()))`
  const inside: Record<string, (tx: Tx) => Promise<unknown>> = {
    async stream(tx) {
      for await (const row of tx`select pg_terminate_backend(pg_backend_pid())`) void row
    },
    async copyTo(tx) {
      for await (const part of tx.copyTo`copy (select pg_terminate_backend(pg_backend_pid())) to stdout`) void part
    },
    copyFrom: (tx) => pipeline(Readable.from(['1\n']), tx.copyFrom`copy ${tx.id(table)} (id) from stdin`),
  }
  for (const [name, work] of Object.entries(inside)) {
    let own: string | undefined
    const left = await failure(
      sql.begin(async (tx) => {
        await tx`create temp table t ()`
        await work(tx).catch((error: PostgresError) => {
          own = error.outcome
          throw error
        })
      }),
    )
    assert.deepEqual([name, own, left.outcome], [name, 'Unknown', 'Rejected'])
  }
  await sql`drop table ${sql.id(table)}`
})

test('a ROLLBACK behind a late statement that goes on is not waited for without end', async () => {
  const sql = client({ connectionsMax: 1, cancelOnTimeout: false })
  const other = client()
  let pid: unknown
  const error = await failure(
    sql.begin(async (tx) => {
      pid = (await tx`select pg_backend_pid() as p`.one())['p']
      await tx`select pg_sleep(3600)`.timeout(20)
    }),
  )
  assert.deepEqual([error.code, error.outcome], ['timeout', 'Rejected'])
  // The server goes on with it, as was wanted, on a connection that is nobody's: nobody can commit
  // that.
  const still = await other`select from pg_stat_activity where pid = ${pid as number} and state = 'active'`
  assert.equal(still.count, 1)
  assert.equal((await sql`select 1 as n`.one())['n'], 1)
  await other`select pg_terminate_backend(${pid as number})`
})
