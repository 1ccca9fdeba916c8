import assert from 'node:assert/strict'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect as connectTcp, createServer, Socket, type AddressInfo, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { TLSSocket } from 'node:tls'

import { Client, type ClientConfig, type Result, type Results } from '../src/pg'
import { bothAlone, event, longQuery, settled, url, login } from './pg-both'
import { cert, key } from './pg-tls-files'

const real = new URL(url)
const first = (results: Results): unknown => Object.values((results as Result).rows[0] ?? {})[0]

const servers: Server[] = []
const sockets = new Set<Socket>()
after(() => {
  for (const socket of sockets) socket.destroy()
  for (const server of servers) server.close()
})

function keep<S extends Socket>(socket: S): S {
  sockets.add(socket)
  socket.on('error', () => {})
  return socket
}

/** A server on this machine; returns its port. */
async function listen(serve: (socket: Socket) => void): Promise<number> {
  const server = createServer((socket) => serve(keep(socket)))
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

/** The real server behind TLS. `answer`: the reply to the request for TLS; none for direct TLS. */
function secured(answer?: string, protocols = ['postgresql']): Promise<number> {
  const secure = (socket: Socket): void => {
    const inner = keep(new TLSSocket(socket, { isServer: true, cert, key, ALPNProtocols: protocols }))
    const server = keep(connectTcp(Number(real.port), real.hostname))
    inner.pipe(server)
    server.pipe(inner)
    inner.on('close', () => server.destroy())
  }
  return listen((socket) => {
    if (answer === undefined) return secure(socket)
    socket.once('data', (request) => {
      assert.equal(request.toString('hex'), '0000000804d2162f')
      socket.write(answer)
      if (answer === 'S') secure(socket)
    })
  })
}

function at(port: number, more: ClientConfig = {}): ClientConfig {
  return { host: 'localhost', port, ...login, ...more }
}

/** The result of a query on this client. */
async function ask(client: Client): Promise<unknown> {
  try {
    await client.connect()
    return first(await client.query('select $1::int + 1 a', [1]))
  } catch (error) {
    return error
  } finally {
    await client.end()
  }
}

const SECURE: readonly [string, ClientConfig][] = [
  ['an authority of ours', { ssl: { ca: cert } }],
  ['no verification', { ssl: { rejectUnauthorized: false } }],
  ['a certificate that nobody signed', { ssl: true }],
  ['the name of another', { ssl: { ca: cert, servername: 'elsewhere' } }],
]

for (const [name, config] of SECURE) {
  bothAlone(`TLS with ${name}`, async (side) => {
    const found = await ask(new side.Client(at(await secured('S'), config)))
    return found instanceof Error ? (found as { code?: string }).code : found
  })
}

bothAlone('TLS by a connection string, and to an address', async (side) => {
  const base = `postgres://postgres@127.0.0.1:${await secured('S')}/postgres`
  const byAddress = new side.Client({ ...at(await secured('S')), host: '127.0.0.1', ssl: { ca: cert } })
  return [await ask(new side.Client(`${base}?sslmode=no-verify`)), await ask(byAddress)]
})

bothAlone('TLS from the first byte', async (side) => {
  const port = await secured()
  const client = new side.Client(at(port, { ssl: { ca: cert }, sslnegotiation: 'direct' }))
  return [await ask(client), (client.connection.stream as TLSSocket).alpnProtocol]
})

test('direct TLS needs the ALPN protocol postgresql', async () => {
  const port = await secured(undefined, ['h2'])
  const config = at(port, { ssl: { ca: cert }, sslnegotiation: 'direct' })
  assert.ok((await ask(new Client(config))) instanceof Error)
})

for (const [name, answer] of [['no', 'N'], ['an error', 'E'], ['bytes before the handshake', 'Sx']] as const) {
  bothAlone(`a server that answers the request for TLS by ${name}`, async (side) => {
    const client = new side.Client(at(await secured(answer), { ssl: true }))
    return settled(client.connect())
  })
}

test('nothing is sent if TLS is refused', async () => {
  let sent = ''
  const closed: Promise<void>[] = []
  const port = await listen((socket) => {
    closed.push(new Promise((resolve) => socket.on('close', () => resolve())))
    socket.on('data', (chunk) => {
      sent += chunk.toString('hex')
      socket.write('N')
    })
  })
  const refused = await settled(new Client(at(port, { ssl: true, password: 'secret' })).connect())
  assert.match(String(refused), /does not support SSL/)
  await closed[0]
  assert.equal(sent, '0000000804d2162f')
})

test('a cancel is sent over TLS if the client uses TLS', async () => {
  const client = new Client(at(await secured('S'), { ssl: { ca: cert } }))
  await client.connect()
  const controller = new AbortController()
  const text = await longQuery(client)
  client.once('notice', () => controller.abort())
  const slow = settled(client.query({ text, signal: controller.signal }))
  assert.equal(((await slow) as { outcome?: string }).outcome, 'Rejected')
  await client.end()
})

bothAlone('a stream may be made by a function', async (side) => {
  const seen: unknown[] = []
  const stream = (options: { ssl: unknown; keepAlive: boolean }): Socket => {
    seen.push([options.ssl, options.keepAlive])
    return new Socket()
  }
  return [await ask(new side.Client({ connectionString: url, stream, keepAlive: true })), seen]
})

bothAlone('a host that begins with a slash is the directory of a socket', async (side) => {
  const client = new side.Client({ host: '/no/such', port: 7777, user: 'postgres' })
  return settled(client.connect())
})

test('a Unix socket leads to the server', async (t) => {
  const lookup = new Client(url)
  await lookup.connect()
  const [host] = String(first(await lookup.query('show unix_socket_directories'))).split(', ')
  await lookup.end()
  if (!host) return t.skip('skipped: the server has no Unix socket')
  assert.equal(await ask(new Client(at(Number(real.port), { host }))), 2)
})

/** A server that asks for the password in clear text, and returns it in an error. */
function curious(): Promise<number> {
  return listen((socket) => {
    socket.once('data', () => {
      socket.write(Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 3]))
      socket.once('data', (chunk) => {
        const message = `SFATAL\0VFATAL\0C28P01\0Mgot ${chunk.subarray(5, -1).toString()}\0\0`
        const head = Buffer.from([0x45, 0, 0, 0, message.length + 4])
        socket.end(Buffer.concat([head, Buffer.from(message)]))
      })
    })
  })
}

bothAlone('a password may come of a function', async (side) => {
  const port = await curious()
  const connect = (password: unknown): Promise<unknown> =>
    settled(new side.Client(at(port, { password })).connect())
  const fails = () => Promise.reject(new Error('no password today'))
  const asked = (parameters: { user: string }): string => `of ${parameters.user}`
  return [
    await connect('plain'),
    await connect(asked),
    await connect(async () => 'later'),
    await connect(fails),
    await connect(() => 5),
  ]
})

bothAlone('a password may stand in a file', async (side) => {
  const port = await curious()
  const directory = mkdtempSync(join(tmpdir(), 'onetrip-pgpass-'))
  const file = join(directory, 'pgpass')
  const lines = ['# all', `other:${port}:*:*:no`, `localhost:${port}:*:postgres:it\\:s \\\\ here`]
  const seen: unknown[] = []
  process.env['PGPASSFILE'] = file
  for (const text of [lines.join('\n'), '*:1:*:*:no\n*:*:*:*:any']) {
    writeFileSync(file, text)
    chmodSync(file, 0o600)
    seen.push(await settled(new side.Client(at(port)).connect()))
  }
  delete process.env['PGPASSFILE']
  rmSync(directory, { recursive: true })
  return seen
})

bothAlone('settings of a configuration reach the server', async (side) => {
  const client = new side.Client({
    connectionString: url,
    application_name: 'of a test',
    statement_timeout: 12345,
    lock_timeout: 2345,
    idle_in_transaction_session_timeout: 34567,
    options: '-c search_path=pg_catalog',
  })
  await client.connect()
  const seen = []
  for (const name of ['application_name', 'statement_timeout', 'lock_timeout', 'search_path']) {
    seen.push(first(await client.query(`show ${name}`)))
  }
  await client.end()
  return seen
})

bothAlone('the fields that others read', async (side) => {
  const client = new side.Client({ connectionString: url, ssl: false })
  const { user, database, port, host, processID, secretKey, ssl, pipeline, binary, _ending, _queryable } = client
  await client.connect()
  const known = [typeof client.processID, typeof client.secretKey, client.readyForQuery, client.hasExecuted, client._connected]
  await client.end()
  const parameters = { ...client.connectionParameters }
  return [user, database, port, host, processID, secretKey, ssl, pipeline, binary, _ending, _queryable, known, parameters]
})

test('a connection that is not referenced lets the process end', async () => {
  const client = new Client(url)
  await client.connect()
  client.unref()
  assert.equal(client.connection.stream.listenerCount('data'), 1)
  client.ref()
  const ended = event(client, 'end')
  await client.end()
  await ended
})

test('a zero byte in a parameter of the connection is refused', async () => {
  const error = await settled(new Client({ connectionString: url, application_name: 'a\0b' }).connect())
  assert.match(String(error), /zero byte/)
})
