import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { after } from 'node:test'
import { TLSSocket } from 'node:tls'

import type { ClientConfig } from '../src/pg'
import { login, url } from './pg-both'
import { cert, key } from './pg-tls-files'

const real = new URL(url)
const open: { destroy?(): void; close?(): void }[] = []
after(() => {
  for (const it of open) {
    it.destroy?.()
    it.close?.()
  }
})

function keep<T extends Socket>(socket: T): T {
  open.push(socket)
  socket.on('error', () => {})
  return socket
}

/** A server on this machine; returns its port. */
export async function listen(serve: (socket: Socket) => void): Promise<number> {
  const server = createServer((socket) => serve(keep(socket)))
  open.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

function server(): Socket {
  return keep(connect(Number(real.port), real.hostname))
}

/** A configuration for the real server over TLS, by a proxy. */
export async function secured(): Promise<ClientConfig> {
  const port = await listen((socket) => {
    socket.once('data', () => {
      socket.write('S')
      const inner = keep(new TLSSocket(socket, { isServer: true, cert, key }))
      const outer = server()
      inner.pipe(outer)
      outer.pipe(inner)
      inner.on('close', () => outer.destroy())
    })
  })
  return { connectionString: '', host: 'localhost', port, ...login, ssl: { ca: cert } }
}

/** A configuration for the real server through a proxy that sees its chunks. */
export async function through(pass: (chunk: Buffer, to: Socket) => void): Promise<ClientConfig> {
  const port = await listen((socket) => {
    const outer = server()
    socket.pipe(outer)
    outer.on('data', (chunk) => pass(chunk, socket))
    socket.on('close', () => outer.destroy())
    outer.on('close', () => socket.destroy())
  })
  return { connectionString: '', host: '127.0.0.1', port, ...login }
}
