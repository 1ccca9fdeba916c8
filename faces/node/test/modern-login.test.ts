import assert from 'node:assert/strict'
import { connect, createServer, type AddressInfo } from 'node:net'
import { test } from 'node:test'

import { client, failure, url } from './modern/client'
import { failure as fatal, listen, message, ready, WELCOME } from './pg-served'

const limits = { timeout: 600_000 }

/** A server that refuses the first login with this error, takes all others, and counts them. */
async function refusing(code: string, text: string): Promise<{ url: string; came: () => number }> {
  let came = 0
  const port = await listen(
    (tag, _, socket) => {
      if (tag === 'S') socket.write(Buffer.concat([...ANSWER, ready()]))
    },
    () => (came++ === 0 ? fatal(code, text, 'FATAL') : WELCOME),
  )
  return { url: `postgres://me@127.0.0.1:${port}/d?sslmode=disable`, came: () => came }
}

const ANSWER = [message('1'), message('2'), message('n'), message('C', Buffer.from('SELECT 0\0'))]

test('a setting that the server refuses is reported at once', limits, async () => {
  for (const options of ['-c nonsense=1', '-c work_mem=much', '-c session_preload_libraries=none']) {
    const error = await failure(client({ options })`select 1`)
    assert.equal(error.outcome, 'NotSent')
    assert.match(error.message, /nonsense|work_mem|none/)
  }
})

test('a refusal that retrying cannot mend is reported at once, and not tried again', limits, async () => {
  for (const [code, text] of [
    ['28000', 'no entry in pg_hba.conf'],
    ['42704', 'unrecognized configuration parameter "nonsense"'],
    ['22023', 'invalid value for parameter "work_mem"'],
    ['55000', 'the database takes no connections'],
    ['58P01', 'could not access file "nonsense"'],
    ['0A000', 'unsupported frontend protocol'],
    ['08P01', 'unsupported startup parameter: nonsense'],
    ['08P01', 'bouncer config error'],
  ] as const) {
    const server = await refusing(code, text)
    const sql = client({ url: server.url })
    const error = await failure(sql`select 1`)
    assert.deepEqual([error.code, error.outcome, error.message], [code, 'NotSent', `${text} (${code})`])
    assert.equal(server.came(), 1)
  }
})

test('a temporary refusal is tried again, and not reported', limits, async () => {
  for (const [code, text] of [
    ['57P03', 'the database system is starting up'],
    ['57P01', 'terminating connection due to administrator command'],
    ['53300', 'sorry, too many clients already'],
    ['08P01', 'no more connections allowed (max_client_conn)'],
    ['08P01', 'server login has been failing, try again later (server_login_retry)'],
    ['58030', 'could not read file'],
    ['XX000', 'could not fork'],
  ] as const) {
    const server = await refusing(code, text)
    const sql = client({ url: server.url })
    assert.equal((await sql`select`).count, 0)
    assert.equal(server.came(), 2)
  }
})

test('a server that does not answer in time has a code of its own', limits, async () => {
  // In the second round the server sends a part of its answer.
  for (const welcome of [Buffer.alloc(0), WELCOME.subarray(0, 9)]) {
    const port = await listen(() => undefined, welcome)
    const sql = client({
      url: `postgres://me@127.0.0.1:${port}/d?sslmode=disable`,
      connectTimeout: 1,
      waitTimeoutMs: 1500,
    })
    const error = await failure(sql`select 1`)
    assert.deepEqual([error.code, error.outcome], ['connect_timeout', 'NotSent'])
    assert.equal(
      error.message,
      `127.0.0.1:${port} did not answer within 1 s (connect_timeout)`,
    )
  }
})

test('a connection that ends during the login fails with connect_failed', limits, async () => {
  const server = createServer((socket) => socket.once('data', () => socket.end()))
  server.unref()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const sql = client({ url, host: '127.0.0.1', port, sslmode: 'disable', waitTimeoutMs: 3000 })
  const error = await failure(sql`select 1`)
  assert.deepEqual([error.code, error.outcome], ['connect_failed', 'NotSent'])
})

for (const [name, said] of [
  ['before the server has said anything', ''],
  ['amid the first message', '520000000800'],
  ['once it was accepted', '520000000800000000'],
] as const) {
  test(`a login that is cut ${name} is tried again for those who wait`, limits, async (t) => {
    const { hostname, port } = new URL(url)
    let count = 0
    const server = createServer((near) => {
      near.on('error', () => undefined)
      if (count++ === 0) {
        near.once('data', () => near.end(Buffer.from(said, 'hex')))
        return
      }
      const far = connect(Number(port || 5432), hostname).on('error', () => undefined)
      near.pipe(far).pipe(near)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    t.after(() => server.close())
    const own = (server.address() as AddressInfo).port
    const sql = client({ url, host: '127.0.0.1', port: own, sslmode: 'disable' })
    assert.equal((await sql`select 1 as n`.one())['n'], 1)
    assert.equal(count, 2)
    await sql.end()
  })
}
