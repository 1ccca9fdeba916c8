import assert from 'node:assert/strict'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { after, test } from 'node:test'

import { Client, DatabaseError } from '../src/pg'
import { bothAlone, connected, login, settled, url, type Side } from './pg-both'
import { bothPools, turn } from './pg-pools'
import { Cursor } from './pg-submit-kit'

const servers: Server[] = []
const sockets = new Set<Socket>()
after(() => {
  for (const socket of sockets) socket.destroy()
  for (const server of servers) server.close()
})

/** A server on this machine; returns its port. */
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

interface Inside {
  _clients: Client[]
  _idle: unknown[]
}

bothPools('the clients of a pool are there as soon as they are asked for', async (side) => {
  const pool = side.pool({ max: 2 })
  const inside = pool as unknown as Inside
  const seen: unknown[] = [inside._clients.length]
  const asked = []
  for (let i = 0; i < 4; i++) {
    asked.push(pool.query('select $1::int i', [i]))
    seen.push(inside._clients.length, pool.totalCount, pool.waitingCount)
  }
  const [first] = inside._clients
  for (const result of await Promise.all(asked)) seen.push((result as { rows: unknown }).rows)
  // The first client may have served all queries before the second was connected.
  while (pool.idleCount < 2) await turn()
  const client = await pool.connect()
  seen.push(inside._clients.includes(client), inside._clients[0] === first, inside._idle.length)
  client.release()
  return seen
})

bothPools('who looks at the clients of a pool has nobody served', async (side) => {
  const pool = side.pool({ max: 1 })
  await pool.query('select 1')
  const order: string[] = []
  const served = new Promise<void>((resolve) => {
    pool.connect((_error, _client, release) => {
      order.push('served')
      release()
      resolve()
    })
  })
  order.push(`looked at ${(pool as unknown as Inside)._clients.length}`)
  await served
  return order
})

/** The output of `console.error` while `run` runs. */
async function printed(run: () => Promise<unknown>): Promise<unknown[][]> {
  const lines: unknown[][] = []
  const { error } = console
  console.error = (...line: unknown[]) => lines.push(line)
  try {
    await run()
  } finally {
    console.error = error
  }
  return lines
}

bothAlone('names that the server would cut off are warned of, once for each', async (side: Side) => {
  const client = await connected({}, side)
  const [long, fits] = ['x'.repeat(64), 'y'.repeat(63)]
  return printed(async () => {
    for (const name of [long, fits, long]) await client.query({ name, text: 'select 1 a' })
    const cursor = client.query(new Cursor('select 1'))
    await cursor.read(1)
    await cursor.close()
    client.connection.on('error', () => {})
  })
})

const NOT_POSTGRES: readonly [string, Buffer][] = [
  // The greeting of MySQL: the length of a packet and its number, and the version.
  ['a MySQL', Buffer.concat([Buffer.from([0x4a, 0, 0, 0, 10]), Buffer.from('8.0.36\0aaaaaaaa'.repeat(5))])],
  ['a message of no known type', Buffer.from([0x4a, 0, 0, 0, 8, 1, 2, 3, 4])],
  ['one behind what it does know', Buffer.from([0x4e, 0, 0, 0, 5, 0, 0x7a, 0, 0, 0, 4])],
]

for (const [name, bytes] of NOT_POSTGRES) {
  bothAlone(`a server that is none is named by what it says first: ${name}`, async (side) => {
    const port = await listen((socket) => void socket.write(bytes))
    const client = new side.Client({ ...login, host: '127.0.0.1', port })
    client.on('error', () => {})
    const error = await settled(client.connect())
    client.connection.stream.destroy()
    return error
  })
}

test('the cause of that error says what is wrong', async () => {
  const port = await listen((socket) => void socket.write(Buffer.from([0x4a, 0, 0, 0, 10, ...Buffer.alloc(60)])))
  const error = (await settled(new Client({ ...login, host: '127.0.0.1', port }).connect())) as Error
  assert.ok(error instanceof DatabaseError)
  assert.match(String(error.cause), /does not speak PostgreSQL's protocol/)
})

test('a server that speaks HTTP is recognized', async () => {
  const port = await listen((socket) => void socket.write('HTTP/1.1 400 Bad Request\r\n\r\n'))
  const error = await settled(new Client({ ...login, host: '127.0.0.1', port }).connect())
  assert.match(String(error), /does not speak PostgreSQL's protocol/)
})

bothAlone('SCRAM needs a password', async (side) => {
  const { username, hostname, port } = new URL(url)
  const config = { host: hostname, port: Number(port), user: username, database: 'postgres', password: () => '' }
  const seen: unknown[] = []
  const client = new side.Client(config)
  client.connection.once('authenticationSASL', () => seen.push('asked'))
  seen.push(await settled(client.connect()))
  client.connection.stream.destroy()
  return seen
})
