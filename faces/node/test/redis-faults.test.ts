import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server as NetServer, type Socket } from 'node:net'
import { after, before, test } from 'node:test'

import { redis, RedisError } from '../src/redis'
import { type Server, startRedis, until } from './redis-server'

let server: Server
before(async () => {
  server = await startRedis()
})
after(() => server.stop())

/** A server that answers each chunk by a function of the test. It answers HELLO by itself. */
class Scripted {
  readonly sockets: Socket[] = []
  readonly chunks: string[] = []
  readonly #server: NetServer

  constructor(answer: (chunk: string, socket: Socket, count: number) => void) {
    this.#server = createServer({ noDelay: true }, (socket) => {
      this.sockets.push(socket)
      socket.on('error', () => {})
      socket.on('data', (bytes) => {
        let chunk = bytes.toString('latin1')
        if (chunk.includes('HELLO')) {
          socket.write(
            '%0\r\n+OK\r\n+PONG\r\n'.replace(chunk.includes('SELECT') ? '' : '+OK\r\n', ''),
          )
          chunk = chunk.slice(chunk.indexOf('PING\r\n') + 6)
          if (chunk === '') return
        }
        this.chunks.push(chunk)
        answer(chunk, socket, this.chunks.length)
      })
    })
  }

  async listen(): Promise<string> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    const address = this.#server.address()
    return `redis://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`
  }

  close(): void {
    this.#server.close()
    for (const socket of this.sockets) socket.destroy()
  }
}

test('calls of one turn leave in one write', async () => {
  const scripted = new Scripted((chunk, socket) => {
    socket.write('+OK\r\n'.repeat(chunk.split('*3\r\n').length - 1))
  })
  const client = redis(await scripted.listen())
  await client.set('a', 1)
  await Promise.all(Array.from({ length: 100 }, (_, i) => client.set('k', i)))
  assert.equal(scripted.chunks.length, 2)
  client.destroy()
  scripted.close()
})

test('a command sent to a server that ends is Unknown, and the next call finds another connection', async () => {
  const scripted = new Scripted((_, socket, count) => {
    if (count === 1) socket.write(':1\r\n')
    if (count === 1) socket.end()
    if (count > 1) socket.write(':7\r\n')
  })
  const client = redis(await scripted.listen())
  const [first, second] = await Promise.allSettled([client.incr('a'), client.incr('a')])
  assert.deepEqual(first, { status: 'fulfilled', value: 1 })
  assert.ok(second.status === 'rejected')
  const error = second.reason as RedisError
  assert.deepEqual(
    [error.outcome, error.code, error.command],
    ['Unknown', 'connection_lost', 'INCR'],
  )
  assert.equal(await client.incr('a'), 7)
  client.destroy()
  scripted.close()
})

test('a repeatable command is sent again if its connection was lost', async () => {
  const scripted = new Scripted((_, socket, count) => {
    if (count < 3) socket.destroy()
    else socket.write('$1\r\nx\r\n')
  })
  const url = await scripted.listen()
  const client = redis(url)
  assert.equal(await client.repeatable().get('a'), 'x')
  assert.equal(scripted.chunks.length, 3)
  client.destroy()
  scripted.close()
})

test('reads are repeated with repeatReads, and writes are not', async () => {
  const scripted = new Scripted((chunk, socket, count) => {
    if (count === 1 || chunk.includes('SET')) socket.destroy()
    else socket.write('$1\r\nx\r\n')
  })
  const client = redis({ url: await scripted.listen(), repeatReads: true })
  assert.equal(await client.get('a'), 'x')
  await assert.rejects(client.set('a', 1), { outcome: 'Unknown' })
  client.destroy()
  scripted.close()
})

test('without a server, calls fail in time, with the reason', async () => {
  const scripted = new Scripted(() => {})
  const url = await scripted.listen()
  scripted.close()
  const client = redis({ url, waitTimeout: 3000 })
  await assert.rejects(client.get('a'), (error: RedisError) => {
    assert.deepEqual([error.outcome, error.code], ['NotSent', 'connect_failed'])
    assert.match(error.message, /ECONNREFUSED/)
    return true
  })
  await client.close()
})

test('a wrong password fails calls at once', async () => {
  const locked = await startRedis(['--requirepass', 'secret'])
  const wrong = redis(locked.url.replace('//', '//:wrong@'))
  await assert.rejects(wrong.get('a'), { code: 'WRONGPASS', outcome: 'NotSent' })
  await wrong.close()
  const none = redis(locked.url)
  await assert.rejects(none.get('a'), { code: 'NOAUTH', outcome: 'NotSent' })
  await none.close()
  for (const protocol of [2, 3] as const) {
    await using right = redis({ url: locked.url, password: 'secret', protocol })
    assert.equal(await right.ping(), 'PONG')
  }
  await locked.stop()
})

test('a server that is not Redis is reported as such', async () => {
  const http = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', () => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'))
  })
  http.listen(0, '127.0.0.1')
  await once(http, 'listening')
  const client = redis({ port: (http.address() as { port: number }).port })
  await assert.rejects(client.get('a'), { code: 'not_redis', outcome: 'NotSent' })
  await client.close()
  http.close()
})

test('a deadline ends a call, and its late reply goes to nobody else', async () => {
  let late: Socket | undefined
  const scripted = new Scripted((_, socket, count) => {
    if (count === 1) socket.write('+PONG\r\n')
    else if (count === 2) late = socket
    else socket.write('$1\r\na\r\n$1\r\nb\r\n')
  })
  const client = redis(await scripted.listen())
  // Once it is connected, a call leaves before its deadline can pass.
  await client.ping()
  await assert.rejects(client.with({ timeout: 20 }).get('a'), {
    code: 'timeout',
    outcome: 'Unknown',
  })
  // It has left, and may still be on its way.
  while (late === undefined) await new Promise((resolve) => setImmediate(resolve))
  assert.equal(await client.get('b'), 'b')
  client.destroy()
  scripted.close()
})

test('a signal ends a call that was sent as Unknown, and one that waits as NotSent', async () => {
  const scripted = new Scripted((_, socket, count) => {
    if (count === 2) socket.write('$1\r\na\r\n$1\r\nb\r\n')
    else abort.abort(new Error('enough'))
  })
  const abort = new AbortController()
  const client = redis(await scripted.listen())
  await assert.rejects(client.with({ signal: abort.signal }).get('a'), {
    code: 'ABORT_ERR',
    outcome: 'Unknown',
  })
  assert.equal(await client.get('b'), 'b')
  await assert.rejects(client.with({ signal: abort.signal }).get('a'), {
    code: 'ABORT_ERR',
    outcome: 'NotSent',
  })
  client.destroy()
  scripted.close()
  const nowhere = redis({ port: 1, waitTimeout: 10_000 })
  const waiting = new AbortController()
  const call = nowhere.with({ signal: waiting.signal }).get('a')
  setImmediate(() => waiting.abort())
  await assert.rejects(call, { code: 'ABORT_ERR', outcome: 'NotSent' })
  nowhere.destroy()
})

test('the connection of a blocked call that is given up is closed', async () => {
  await using client = redis(server.url)
  const abort = new AbortController()
  const call = client.with({ signal: abort.signal }).blpop('nothing', 0)
  await until(async () => /cmd=blpop/.test(await client.command<string>('CLIENT LIST')))
  abort.abort()
  await assert.rejects(call, { code: 'ABORT_ERR', outcome: 'Unknown' })
  await until(async () => !/cmd=blpop/.test(await client.command<string>('CLIENT LIST')))
})

test('the connection of a blocked call whose deadline has passed is closed', async () => {
  await using client = redis(server.url)
  const late = { code: 'timeout', outcome: 'Unknown' }
  // A connection that waits for it: then it leaves before its deadline can pass.
  await client.rpush('something', 'x')
  await client.blpop('something', 0)
  await assert.rejects(client.with({ timeout: 50 }).blpop('nothing', 0), late)
  await until(async () => !/cmd=blpop/.test(await client.command<string>('CLIENT LIST')))
  const session = await client.session()
  const id = await session.command('CLIENT ID')
  await session.close()
  const again = await client.with({ timeout: 1000 }).session()
  assert.equal(await again.command('CLIENT ID'), id)
  await assert.rejects(again.blpop('nothing', 0), late)
  await again.close()
  await using other = await client.session()
  assert.notEqual(await other.command('CLIENT ID'), id)
})

test('replies that arrive in any pieces are the same', async () => {
  const reply =
    '*8\r\n$5\r\nhello\r\n:12\r\n*2\r\n+OK\r\n$-1\r\n,1.5\r\n#t\r\n(123456789012345678901\r\n%1\r\n+k\r\n~1\r\n:1\r\n=7\r\ntxt:a\r\n\r\n'
  const bytes = Buffer.from(reply)
  const expected = [
    'hello',
    12,
    ['OK', null],
    1.5,
    true,
    123456789012345678901n,
    { k: new Set([1]) },
    'a\r\n',
  ]
  let cut = 0
  const scripted = new Scripted((_, socket) => {
    socket.write(bytes.subarray(0, cut))
    setImmediate(() => socket.write(bytes.subarray(cut)))
  })
  await using client = redis(await scripted.listen())
  for (cut = 1; cut < bytes.length; cut++) {
    const got = (await client.command('X')) as unknown[]
    assert.deepEqual(JSON.stringify(got, show), JSON.stringify(expected, show), `cut at ${cut}`)
  }
  scripted.close()
})

const show = (_: string, value: unknown): unknown =>
  typeof value === 'bigint' ? `${value}` : value instanceof Set ? [...value] : value

test('a reply that breaks the protocol ends the connection, with that reason', async () => {
  const scripted = new Scripted((_, socket) => socket.write('hello\r\n'))
  const client = redis(await scripted.listen())
  await assert.rejects(client.get('a'), { code: 'protocol_violation', outcome: 'Unknown' })
  client.destroy()
  scripted.close()
})

test('commands beyond the window wait in order for room', async () => {
  await using client = redis({ url: server.url, inFlightBytesMax: 10_000, queueBytesMax: 10_000 })
  await client.del('full')
  const text = 'x'.repeat(1_000)
  const lengths = await Promise.all(
    Array.from({ length: 3_000 }, () => client.append('full', text)),
  )
  assert.deepEqual(
    lengths,
    Array.from({ length: 3_000 }, (_, i) => (i + 1) * 1_000),
  )
})

test('commands beyond waitingBytesMax are refused', async () => {
  await using client = redis({
    url: server.url,
    inFlightBytesMax: 1_000,
    queueBytesMax: 1_000,
    waitingBytesMax: 50_000,
  })
  await client.ping()
  const calls = Array.from({ length: 1_000 }, () => client.set('k', 'x'.repeat(1_000)))
  const results = await Promise.allSettled(calls)
  const refused = results.filter((result) => result.status === 'rejected')
  assert.ok(refused.length > 0 && refused.length < 1_000, `${refused.length}`)
  for (const { reason } of refused as PromiseRejectedResult[]) {
    assert.deepEqual(
      [(reason as RedisError).code, (reason as RedisError).outcome],
      ['queue_full', 'NotSent'],
    )
  }
})

test('a closed client answers its calls, and takes no new ones', async () => {
  const client = redis(server.url)
  const call = client.incr('closing')
  const closed = client.close()
  assert.equal(typeof (await call), 'number')
  await closed
  await assert.rejects(client.get('a'), { code: 'closed', outcome: 'NotSent' })
  await assert.rejects(client.blpop('a', 1), { code: 'closed', outcome: 'NotSent' })
  await client.close()
})

test('long values are sent and received among others', async () => {
  await using client = redis(server.url)
  const long = Buffer.alloc(8 * 1024 * 1024, 'y')
  const calls = Array.from({ length: 5 }, (_, i) => client.set(`long${i}`, long))
  const others = Array.from({ length: 100 }, () => client.incr('among'))
  await Promise.all(calls)
  assert.equal((await Promise.all(others)).length, 100)
  const back = await Promise.all(
    Array.from({ length: 5 }, (_, i) => client.buffers.get(`long${i}`)),
  )
  for (const value of back) assert.ok(value !== null && long.equals(value))
  assert.equal((await client.get('long0'))?.length, long.length)
})

test('a connection whose blocking command was answered is lent again', async () => {
  await using client = redis(server.url)
  const opened = async (): Promise<unknown> =>
    /total_connections_received:\d+/.exec(await client.command<string>('INFO', 'stats'))?.[0]
  await client.rpush('lent', 1, 2)
  assert.deepEqual(await client.blpop('lent', 0), ['lent', '1'])
  const before = await opened()
  assert.deepEqual(await client.blpop('lent', 0), ['lent', '2'])
  assert.equal(await opened(), before)
})
