import assert from 'node:assert/strict'
import { createServer, connect, type AddressInfo, type Server, type Socket } from 'node:net'
import { test } from 'node:test'

import { postgres, type PostgresError } from '../src/modern'
import { client, failure, url } from './modern/client'
import { listen as served, message, ready } from './pg-served'

/** Ends a server process. */
async function kill(pid: unknown): Promise<void> {
  const sql = client({ connectionsMax: 1 })
  await sql`select pg_terminate_backend(${pid as number}, 5000)`
}

/** A proxy that can be cut, and counts its connections. */
async function proxy(
  change = (bytes: Buffer): Buffer => bytes,
): Promise<{
  url: string
  cut: () => void
  server: Server
  opened: () => number
  close: () => void
}> {
  const target = new URL(url)
  const sockets = new Set<Socket>()
  let count = 0
  const server = createServer((near) => {
    count++
    const far = connect(Number(target.port || 5432), target.hostname)
    for (const socket of [near, far]) {
      sockets.add(socket)
      socket.on('error', () => undefined)
      socket.on('close', () => {
        near.destroy()
        far.destroy()
        sockets.delete(socket)
      })
    }
    near.on('data', (bytes: Buffer) => far.write(change(bytes)))
    far.pipe(near)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  const through = new URL(url)
  through.hostname = '127.0.0.1'
  through.port = String(port)
  through.searchParams.set('sslmode', 'disable')
  const cut = (): void => sockets.forEach((socket) => socket.destroy())
  return {
    url: through.href,
    cut,
    server,
    opened: () => count,
    close: () => {
      cut()
      server.close()
    },
  }
}

test(
  'a lost connection ends each of its statements once, and the next ones get another',
  { timeout: 600_000 },
  async () => {
    const sql = client({ connectionsMax: 1 })
    const pid = (await sql`select pg_backend_pid() as p`.one())['p']
    const running = [sql`select pg_sleep(100)`, sql`select 1`, sql`select 2`].map((query) =>
      failure(query),
    )
    await kill(pid)
    const errors = await Promise.all(running)
    for (const error of errors) {
      assert.deepEqual(
        [error.code, error.outcome, error.sqlstate],
        ['connection_lost', 'Unknown', '57P01'],
      )
      assert.match(error.message, /^the connection was lost: terminating connection/)
    }
    assert.notEqual((await sql`select pg_backend_pid() as p`.one())['p'], pid)
  },
)

test(
  'a statement of a transaction or session whose connection is gone is refused, and was not sent',
  { timeout: 600_000 },
  async () => {
    const sql = client({ connectionsMax: 1 })
    let end: PostgresError | undefined
    const over = failure(
      sql.begin(async (tx) => {
        const pid = (await tx`select pg_backend_pid() as p`.one())['p']
        await kill(pid)
        // The first one learns of the loss.
        await failure(tx`select 1`)
        end = await failure(tx`select 2`)
        throw end
      }),
    )
    const error = await over
    assert.equal(error, end)
    assert.deepEqual([error.code, error.outcome], ['connection_lost', 'Rejected'])
    const session = await sql.session()
    await kill((await session`select pg_backend_pid() as p`.one())['p'])
    await failure(session`select 1`)
    const listed = await failure(session.begin((tx) => [tx`select 1`]))
    assert.deepEqual([listed.code, listed.outcome], ['connection_lost', 'NotSent'])
    session.release()
    await sql.end()
  },
)

test('a COMMIT that nobody answered did not commit what had failed', { timeout: 600_000 }, async () => {
  for (const fails of [true, false]) {
    const way = await proxy((bytes) => {
      if (bytes.includes('COMMIT')) way.cut()
      return bytes
    })
    const sql = client({ url: way.url, connectionsMax: 1 })
    const error = await failure(
      sql.begin(async (tx) => {
        if (fails) assert.equal((await failure(tx`select 1 / 0`)).code, '22012')
        else await tx`select 1`
      }),
    )
    const known = fails ? 'Rejected' : 'Unknown'
    assert.deepEqual([error.code, error.outcome], ['connection_lost', known])
    await sql.end()
    way.close()
  }
})

test('an idle connection that is lost goes unnoticed', { timeout: 600_000 }, async () => {
  const sql = client({ connectionsMax: 1 })
  const pid = (await sql`select pg_backend_pid() as p`.one())['p']
  await kill(pid)
  // The server has ended; its farewell may not have been read yet.
  while (sql.stats.connections > 0) await new Promise((resolve) => setImmediate(resolve))
  assert.notEqual((await sql`select pg_backend_pid() as p`.one())['p'], pid)
})

test(
  'a repeatable statement is sent again when its connection is lost',
  { timeout: 600_000 },
  async () => {
    const way = await proxy()
    const sql = client({ url: way.url, connectionsMax: 1 })
    await sql`select 1`
    const slow = sql<{ n: number }>`select 1 as n, pg_sleep(0.5)`.repeatable().one()
    const other = failure(sql`select pg_sleep(0.5)`)
    await new Promise((resolve) => setImmediate(resolve))
    way.cut()
    assert.equal((await slow).n, 1)
    const error = await other
    assert.deepEqual([error.code, error.outcome], ['connection_lost', 'Unknown'])
    assert.equal(way.opened(), 2)
    await sql.end()
    way.close()
  },
)

test(
  'a repeatable statement that is never answered is Unknown, since it may have run',
  { timeout: 600_000 },
  async () => {
    const way = await proxy()
    const sql = client({ url: way.url, connectionsMax: 1, waitTimeoutMs: 3000 })
    await sql`select 1`
    const slow = failure(sql`select pg_sleep(100)`.repeatable())
    await new Promise((resolve) => setImmediate(resolve))
    way.cut()
    way.server.close()
    const error = await slow
    assert.equal(error.outcome, 'Unknown')
    await sql.end({ timeoutMs: 100 })
  },
)

test(
  'a repeatable statement behind one that made its connection unusable is not sent again',
  { timeout: 600_000 },
  async () => {
    const tag = (text: string): Buffer => message('C', Buffer.from(`${text}\0`))
    let statements = 0
    const port = await served((type, _, socket) => {
      if (type !== 'S') return
      statements++
      // The answer to the second claims an open transaction, and the third gets no answer.
      const end = statements === 2 ? message('Z', Buffer.from('T')) : ready()
      const answer = [message('1'), message('2'), message('n'), tag('SELECT 0'), end]
      if (statements !== 3) socket.write(Buffer.concat(answer))
    })
    const sql = client({ url: `postgres://me@127.0.0.1:${port}/d?sslmode=disable`, connectionsMax: 1 })
    await sql`select 1`
    const misuse = sql`select 2`.send()
    const behind = await failure(sql`select 3`.repeatable())
    assert.deepEqual([behind.code, behind.outcome], ['connection_lost', 'Unknown'])
    assert.match(behind.message, /began a transaction/)
    assert.equal((await misuse).length, 0)
    assert.equal(statements, 3)
  },
)

test(
  'a pipeline and a transaction that lose their connection fail with connection_lost',
  { timeout: 600_000 },
  async () => {
    const way = await proxy()
    const sql = client({ url: way.url, connectionsMax: 1 })
    await sql`select 1`
    const pipeline = failure(sql.pipeline([sql`select 1`, sql`select pg_sleep(100)`]))
    await new Promise((resolve) => setImmediate(resolve))
    way.cut()
    const first = await pipeline
    assert.deepEqual([first.code, first.outcome], ['connection_lost', 'Unknown'])
    const second = await failure(
      sql.begin(async (tx) => {
        await tx`select 1`
        const late = failure(tx`select pg_sleep(100)`)
        way.cut()
        assert.equal((await late).code, 'connection_lost')
        assert.equal((await failure(tx`select 1`)).outcome, 'NotSent')
      }),
    )
    assert.ok(['connection_lost', 'rolled_back'].includes(second.code), second.code)
    assert.equal((await sql`select 1`).count, 1)
    await sql.end()
    way.close()
  },
)

test(
  'a COMMIT that leaves with its BEGIN is Unknown if the answers to both are lost',
  { timeout: 600_000 },
  async () => {
    const way = await proxy()
    const sql = client({ url: way.url, connectionsMax: 1 })
    await sql`select 1`
    const all = failure(sql.begin((tx) => [tx`select 1`, tx`select pg_sleep(100)`]))
    await new Promise((resolve) => setImmediate(resolve))
    way.cut()
    const error = await all
    way.close()
    assert.deepEqual([error.code, error.outcome], ['connection_lost', 'Unknown'])
    assert.match(error.message, /^the connection was lost/)
    await sql.end()
  },
)

test(
  'if BEGIN fails, nothing of its transaction runs, whenever it was sent',
  { timeout: 600_000 },
  async () => {
    // A text of the same length that is not a statement.
    const way = await proxy((bytes) =>
      Buffer.from(bytes.toString('latin1').replace(/\0begin\0/gi, '\0nigeb\0'), 'latin1'),
    )
    const sql = client({ url: way.url, connectionsMax: 1 })
    const name = sql.id(`modern_begin_${process.pid}`)
    await sql`create table ${name} (n int)`
    const errors: string[] = []
    const error = await failure(
      sql.begin(async (tx) => {
        const first = [tx`insert into ${name} values (1)`, tx`insert into ${name} values (2)`].map(
          (it) => failure(it),
        )
        await Promise.resolve()
        const later = new Promise<void>((resolve) => setImmediate(resolve)).then(() =>
          failure(tx`insert into ${name} values (3)`),
        )
        for (const each of await Promise.all([...first, later]))
          errors.push(`${each.outcome} ${each.message}`)
        errors.push(
          (
            await failure(
              tx.savepoint(async (sp) => {
                await sp`insert into ${name} values (4)`
              }),
            )
          ).message,
        )
      }),
    )
    const why = 'BEGIN: syntax error at or near "nigeb" (42601)'
    assert.deepEqual(errors.slice(0, 2), [`Rejected ${why}`, `Rejected ${why}`])
    assert.match(errors[2] ?? '', /BEGIN: syntax error/)
    assert.equal(errors[3], why)
    assert.deepEqual([error.message, error.outcome], [why, 'Rejected'])
    const all = await failure(sql.begin((tx) => [tx`insert into ${name} values (5)`]))
    assert.deepEqual([all.message, all.outcome], [why, 'Rejected'])
    assert.equal((await sql`select from ${name}`).count, 0)
    await sql`drop table ${name}`
    await sql.end()
    way.close()
  },
)

test('if there is no server, statements that wait fail', { timeout: 600_000 }, async () => {
  const sql = client({ url: 'postgres://nobody@127.0.0.1:1/x', waitTimeoutMs: 3000 })
  const error = await failure(sql`select 1`)
  assert.deepEqual([error.code, error.outcome], ['connect_failed', 'NotSent'])
  assert.match(error.message, /127\.0\.0\.1:1 can't be reached: connect ECONNREFUSED/)
})

test('an error that retrying cannot mend fails statements at once', { timeout: 600_000 }, async () => {
  const unknown = new URL(url)
  unknown.pathname = '/no_such_database'
  const sql = client({ url: unknown.href })
  const errors = await Promise.all([
    failure(sql`select 1`),
    failure(sql.begin(async () => undefined)),
  ])
  for (const error of errors) assert.deepEqual([error.code, error.outcome], ['3D000', 'NotSent'])
  const second = client({ password: () => Promise.reject(new Error('vault is shut')) })
  assert.match((await failure(second`select 1`)).message, /vault is shut/)
})

test('if a host can’t be reached, the next one is tried', async () => {
  const { hostname, port } = new URL(url)
  const sql = client({ host: `127.0.0.1,${hostname}`, port: `1,${port}`, url })
  assert.equal((await sql`select 1`).count, 1)
})

test(
  'a statement that is late ends, and its neighbours are answered',
  { timeout: 600_000 },
  async () => {
    const sql = client({ connectionsMax: 1 })
    await sql`select 1`
    const late = failure(sql`select pg_sleep(100)`.timeout(50))
    const behind = sql`select 1 as n`
    const error = await late
    assert.deepEqual([error.code, error.outcome], ['timeout', 'Unknown'])
    assert.equal(error.message, 'the statement was not answered within 50 ms')
    assert.equal((await behind).count, 1)
  },
)

test('the error names the limit that was reached', { timeout: 600_000 }, async () => {
  const sql = client({ connectionsMax: 1, waitTimeoutMs: 8000 })
  const session = await sql.session()
  const hurried = Array.from({ length: 300 }, (_, i) => failure(sql`select 1`.timeout(1 + (i % 30))))
  for (const error of await Promise.all(hurried)) {
    assert.deepEqual([error.code, error.outcome], ['timeout', 'NotSent'])
  }
  session.release()
  const brief = client({ connectionsMax: 1, waitTimeoutMs: 3000 })
  const kept = await brief.session()
  const patient = Array.from({ length: 30 }, () => failure(brief`select 1`.timeout(60_000)))
  for (const error of await Promise.all(patient)) {
    assert.equal(error.code, 'wait_timeout')
    assert.match(error.message, /up to 1 \(connectionsMax\) .* at most 3000 ms \(waitTimeoutMs\)/)
  }
  kept.release()
  const away = client({ url: 'postgres://nobody@127.0.0.1:1/x', waitTimeoutMs: 8000 })
  const late = await failure(away`select 1`.timeout(3000))
  assert.equal(late.code, 'timeout')
  assert.match(late.message, /within 3000 ms; the last attempt .* failed: .*can't be reached/)
})

test(
  'all statements have the deadline of the settings, and one that waits for a connection was not sent',
  { timeout: 600_000 },
  async () => {
    const sql = client({ connectionsMax: 1, requestTimeoutMs: 100 })
    // Once it is connected, a statement leaves before its deadline can pass.
    await sql`select 1`.timeout(60_000)
    const error = await failure(sql`select pg_sleep(100)`)
    assert.equal(error.outcome, 'Unknown')
    const session = await sql.session()
    const waits = await failure(sql`select 1`)
    assert.deepEqual([waits.code, waits.outcome], ['timeout', 'NotSent'])
    session.release()
    assert.equal((await sql`select 1`.timeout(5000)).count, 1)
  },
)

test(
  'a signal cancels a statement at the server, or keeps it from being sent',
  { timeout: 600_000 },
  async () => {
    const sql = client({ connectionsMax: 1 })
    await sql`select 1`
    const stop = new AbortController()
    const running = failure(sql`select pg_sleep(100.25)`.signal(stop.signal))
    const behind = sql`select 1`
    const other = client()
    const sleeping = (): PromiseLike<{ count: number }> => other`
      select from pg_stat_activity where query = 'select pg_sleep(100.25)' and wait_event = 'PgSleep'`
    while ((await sleeping()).count === 0);
    stop.abort(new Error('enough'))
    const error = await running
    assert.deepEqual(
      [error.name, error.code, error.outcome],
      ['AbortError', 'ABORT_ERR', 'Rejected'],
    )
    assert.equal((error.cause as Error).message, 'enough')
    assert.equal((await behind).count, 1)
    const before = await failure(sql`select 1`.signal(AbortSignal.abort()))
    assert.deepEqual([before.code, before.outcome], ['ABORT_ERR', 'NotSent'])
  },
)

test('a deadline in a transaction fails the transaction', { timeout: 600_000 }, async () => {
  const sql = client({ connectionsMax: 1 })
  const error = await failure(
    sql.begin(async (tx) => {
      await tx`select 1`
      assert.equal((await failure(tx`select pg_sleep(100)`.timeout(50))).outcome, 'Unknown')
    }),
  )
  assert.equal(error.code, 'rolled_back')
  assert.equal((await sql`select 1`).count, 1)
})

test('an ended client refuses, and ends when all is answered', { timeout: 600_000 }, async () => {
  const sql = postgres({ url })
  const running = sql`select pg_sleep(0.2), 1 as n`.send()
  const first = sql.end()
  const error = await failure(sql`select 1`)
  assert.deepEqual([error.code, error.outcome], ['closed', 'NotSent'])
  assert.equal((await failure(sql.begin(async () => 1))).code, 'closed')
  await Promise.allSettled([running])
  await Promise.all([first, sql.end()])
  const never = postgres({ url })
  await never.end()
})

test('what was submitted before the end is served', { timeout: 600_000 }, async () => {
  // The very first statements, for which no connection is open yet.
  const cold = postgres({ url })
  const first = [cold`select 1 as n`.one(), cold`select 2 as n`.one()]
  const begun = cold.begin(async (tx) => (await tx`select 3 as n`.one()).n)
  const leased = cold.session().then(async (session) => {
    const { n } = await session`select 4 as n`.one()
    session.release()
    return n
  })
  const ended = cold.end()
  assert.equal((await failure(cold`select 1`)).code, 'closed')
  assert.deepEqual(await Promise.all(first), [{ n: 1 }, { n: 2 }])
  assert.deepEqual(await Promise.all([begun, leased]), [3, 4])
  await ended

  const warm = postgres({ url, connectionsMax: 2 })
  await warm`select 1`
  const numbers = Array.from({ length: 10 }, (_, n) => n)
  const slow = numbers.map((n) => warm`select pg_sleep(0.01), ${n}::int as n`.alone().one())
  const over = warm.end()
  assert.deepEqual(
    (await Promise.all(slow)).map(({ n }) => n),
    numbers,
  )
  await over
})

test('where no connection can be opened for them, they hear why, and the end is not put off', async () => {
  const server = createServer((socket) => socket.destroy())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const sql = postgres(`postgres://me@127.0.0.1:${port}/d?sslmode=disable`)
  const waiting = failure(sql`select 1`.send())
  await sql.end()
  server.close()
  const error = await waiting
  assert.deepEqual([error.code, error.outcome], ['connect_failed', 'NotSent'])
})

test('an end with a limit refuses those who wait', { timeout: 600_000 }, async () => {
  const sql = postgres({ url, connectionsMax: 1 })
  const session = await sql.session()
  const waiting = failure(sql`select 1`.send())
  const ending = sql.end({ timeoutMs: 50 })
  assert.equal(sql.stats.waiting, 1)
  await ending
  const error = await waiting
  assert.deepEqual([error.code, error.outcome], ['closed', 'NotSent'])
  session.release()
})

test('an end with a limit cuts what is left', { timeout: 600_000 }, async () => {
  const sql = postgres({ url })
  await sql`select 1`
  const running = failure(sql`select pg_sleep(100)`)
  await new Promise((resolve) => setImmediate(resolve))
  await sql.end({ timeoutMs: 50 })
  const error = await running
  assert.deepEqual([error.code, error.outcome], ['connection_lost', 'Unknown'])
})

test('a client is disposed of by its scope', async () => {
  let kept
  {
    await using sql = postgres({ url })
    kept = sql
    await using session = await sql.session()
    assert.equal((await session`select 1`).count, 1)
  }
  assert.equal((await failure(kept`select 1`)).code, 'closed')
})

test('notices are passed to onNotice', async () => {
  const notices: string[] = []
  const sql = client({ onNotice: ({ message }) => notices.push(message) })
  await sql`do $$ begin raise notice 'hello'; end $$`
  assert.deepEqual(notices, ['hello'])
})

test('a row that does not fit its columns ends the connection', { timeout: 600_000 }, async () => {
  let queries = 0
  const port = await served((tag, _, socket) => {
    // Only the first query is answered.
    if (tag === 'P') queries++
    if (tag !== 'S' || queries > 1) return
    const column = message('T', Buffer.from('0001610000000000000000000019ffffffffffff0000', 'hex'))
    const misfit = message('D', Buffer.from([0, 1, 0, 0, 0, 9, 0x78]))
    const complete = message('C', Buffer.from('SELECT 1\0'))
    const answer = [message('1'), message('2'), column, misfit, complete, ready()]
    socket.write(Buffer.concat(answer))
  })
  const sql = postgres(`postgres://me@127.0.0.1:${port}/d?sslmode=disable`, { connectionsMax: 1 })
  const errors = await Promise.all([failure(sql`select a`), failure(sql`select b`)])
  assert.deepEqual(
    errors.map(({ code, outcome }) => [code, outcome]),
    [
      ['conversion', 'Applied'],
      ['violation', 'Unknown'],
    ],
  )
  queries = 0
  const rows = (async () => {
    for await (const row of sql`select a`) assert.fail(`${JSON.stringify(row)} was read`)
  })()
  await assert.rejects(rows, { outcome: /Applied|Unknown/ })
  await sql.end()
})
