import assert from 'node:assert/strict'
import { createServer, type AddressInfo } from 'node:net'
import { test } from 'node:test'

import { redis } from '../src/redis'

const HELLO = '%3\r\n+server\r\n+redis\r\n+proto\r\n:3\r\n+version\r\n+7.0.0\r\n'

test('a push that is not a message is ignored, and replies behind it reach their callers', { timeout: 600_000 }, async () => {
  const server = createServer((socket) => {
    socket.once('data', (login: Buffer) => {
      const commands = login.toString('latin1').match(/\*\d+\r\n/g) ?? []
      socket.write(HELLO + '+OK\r\n'.repeat(commands.length - 1))
      socket.on('data', () => socket.write('>3\r\n$7\r\nmessage\r\n:5\r\n:6\r\n$1\r\na\r\n$1\r\nb\r\n'))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const client = redis({ url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}` })
  try {
    assert.deepEqual(await Promise.all([client.get('x'), client.get('y')]), ['a', 'b'])
  } finally {
    client.destroy()
    server.close()
  }
})
