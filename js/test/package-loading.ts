import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { test } from 'node:test'
import { TLSSocket } from 'node:tls'

import type { Project } from './package-project'
import { failure, message } from './pg-served'
import { cert, key } from './pg-tls-files'

const LIMIT = { timeout: 120_000 }

/** Tests that what is loaded late is what it stands for. */
export function loading(project: Project): void {
  test('a login over TLS is bound to it where that is wanted', LIMIT, async (context) => {
    const chosen: string[] = []
    const server = createServer((socket) => void offerBinding(socket, chosen)).listen(0, '127.0.0.1')
    context.after(() => server.close())
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const said = await project.run(
      'binding.js',
      `const { Client } = require('pg')
      const ssl = { ca: ${JSON.stringify(cert)} }
      const client = new Client({ host: 'localhost', port: ${port}, user: 'me', password: 'p', ssl, enableChannelBinding: true })
      client.connect().catch(({ message }) => console.log(JSON.stringify(message)))`,
    )
    assert.deepEqual([said, chosen], ['no', ['SCRAM-SHA-256-PLUS']])
  })
}

/** Offers to bind a login to TLS, notes what was chosen of it, and refuses. */
async function offerBinding(socket: Socket, chosen: string[]): Promise<void> {
  socket.on('error', () => {})
  await once(socket, 'data')
  socket.write('S')
  const secure = new TLSSocket(socket, { isServer: true, cert, key })
  await once(secure, 'data')
  const offer = Buffer.from('\0\0\0\x0aSCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0')
  secure.write(message('R', offer))
  const [answer] = (await once(secure, 'data')) as [Buffer]
  chosen.push(answer.subarray(5, answer.indexOf(0, 5)).toString())
  secure.end(failure('28P01', 'no', 'FATAL'))
}
