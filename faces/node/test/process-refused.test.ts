import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { join } from 'node:path'
import { after, test } from 'node:test'

import { failure } from './pg-served'

const limits = { timeout: 600_000 }
const sockets = new Set<Socket>()
after(() => sockets.forEach((socket) => socket.destroy()))

/** A server that answers the first bytes with `answer`, and never closes a socket. */
async function holding(answer: string | Buffer): Promise<number> {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.once('data', () => socket.write(answer))
  })
  server.unref()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

/** Runs a program that must end by itself, and returns its output. */
function run(face: string, program: string): Promise<string> {
  const module = JSON.stringify(join(__dirname, '../src', face))
  const child = spawn(process.execPath, ['-e', `const it = require(${module}); ${program}`], {
    timeout: 300_000,
  })
  let said = ''
  child.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()))
  return new Promise((resolve) => {
    child.on('close', (_, signal) => resolve(signal === null ? said : `it did not end: ${said}`))
  })
}

const say = '.catch((error) => console.log(error.message))'
const NO = failure('28000', 'not you', 'FATAL')

test('a server that refuses a login and holds the socket does not hold the process', limits, async () => {
  const port = await holding(NO)
  const config = `{ host: '127.0.0.1', port: ${port}, user: 'me' }`
  assert.equal(await run('pg', `new it.Client(${config}).connect()${say}`), 'not you\n')
  assert.equal(await run('pg', `new it.Pool(${config}).query('')${say}`), 'not you\n')
  const url = `'postgres://me@127.0.0.1:${port}/d?sslmode=disable'`
  assert.equal(await run('modern', `it.postgres(${url})\`select\`${say}`), 'not you (28000)\n')
})

test('a server that refuses TLS and holds the socket does not hold the process', limits, async () => {
  for (const [answer, why, ours] of [
    ['N', 'The server does not support SSL connections', ' has no TLS: .*'],
    [NO, 'There was an error establishing an SSL connection', ': the server answered .* with an error, .*'],
  ] as const) {
    const port = await holding(answer)
    const config = `{ host: '127.0.0.1', port: ${port}, user: 'me', ssl: true }`
    assert.equal(await run('pg', `new it.Client(${config}).connect()${say}`), `${why}\n`)
    const url = `'postgres://me@127.0.0.1:${port}/d?sslmode=require&wait_timeout_ms=3000'`
    assert.match(await run('modern', `it.postgres(${url})\`select\`${say}`), new RegExp(`^127[0-9.:]*${ours}\n$`))
  }
})

test('a password function that fails ends the connection, whatever the server does', limits, async () => {
  const port = await holding(Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 3]))
  const password = `() => Promise.reject(new Error('vault is shut'))`
  const config = `{ host: '127.0.0.1', port: ${port}, user: 'me', password: ${password} }`
  assert.equal(await run('pg', `new it.Client(${config}).connect()${say}`), 'vault is shut\n')
})

test('a Redis that refuses a login and holds the socket does not hold the process', limits, async () => {
  const port = await holding('-WRONGPASS not you\r\n'.repeat(4))
  const said = await run('redis', `it.redis('redis://:x@127.0.0.1:${port}').get('k')${say}`)
  assert.match(said, /^127.*WRONGPASS not you\n$/)
})
