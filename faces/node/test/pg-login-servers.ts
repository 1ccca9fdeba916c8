import { createHash, createHmac, pbkdf2Sync } from 'node:crypto'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { after } from 'node:test'
import { TLSSocket } from 'node:tls'

import { failure, message, ready } from './pg-served'
import * as ours from './pg-tls-files'

const servers: Server[] = []
const sockets = new Set<Socket>()
after(() => {
  for (const socket of sockets) socket.destroy()
  for (const server of servers) server.close()
})

/** Returns the next message of a client. The first one has no type. */
export type Next = () => Promise<Buffer>

/** How a server leads a login. `secure`: TLS has begun. */
export type Lead = (next: Next, write: (reply: Buffer) => void, secure: boolean) => Promise<void>

/** The address of a server, and its answer to a request for TLS. */
export interface Place {
  readonly host?: string
  readonly hasTls?: boolean
  readonly files?: { readonly cert: string; readonly key: string }
}

/** A server that leads one login, with or without TLS; returns its port. */
export async function login(
  lead: Lead,
  { host = '127.0.0.1', hasTls = true, files = ours }: Place = {},
): Promise<number> {
  const talk = (socket: Socket, secure: boolean): void => {
    let rest = Buffer.alloc(0)
    let wake = (): void => {}
    const next = async (): Promise<Buffer> => {
      for (;;) {
        const start = rest[0] === 0 ? 0 : 1
        const end = rest.length < start + 4 ? Infinity : start + rest.readInt32BE(start)
        if (rest.length >= end) {
          const body = rest.subarray(start + 4, end)
          rest = rest.subarray(end)
          return body
        }
        await new Promise<void>((resolve) => (wake = resolve))
      }
    }
    socket.on('data', (chunk) => {
      rest = Buffer.concat([rest, chunk])
      wake()
    })
    void lead(next, (reply) => void socket.write(reply), secure)
  }
  const secured = (socket: Socket): void => {
    const { cert, key } = files
    const inner = new TLSSocket(socket, { isServer: true, cert, key, ALPNProtocols: ['postgresql'] })
    inner.on('error', () => {})
    talk(inner, true)
  }
  const serve = (socket: Socket, first: Buffer): void => {
    const asks = first.readInt32BE(4) === SSL_REQUEST
    if (asks && hasTls) {
      socket.write('S')
      return secured(socket)
    }
    if (asks) {
      socket.once('data', (then: Buffer) => serve(socket, then))
      return void socket.write('N')
    }
    if (first[0] === HANDSHAKE) secured(socket)
    else talk(socket, false)
    socket.unshift(first)
  }
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.once('data', (first: Buffer) => serve(socket, first))
  })
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  return (server.address() as AddressInfo).port
}

/** The code of an SSLRequest, in place of the protocol version. */
const SSL_REQUEST = 80877103

/** The first byte of a TLS handshake. */
const HANDSHAKE = 0x16

/** A request for authentication. */
export const ask = (code: number, more: Buffer | string = ''): Buffer => {
  return message('R', Buffer.concat([Buffer.from([0, 0, 0, code]), Buffer.from(more)]))
}

/** AuthenticationOk and ReadyForQuery. */
export const WELCOME = Buffer.concat([ask(0), ready()])

export const CLEARTEXT = ask(3)
export const MD5 = ask(5, 'salt')

/**
 * Leads a login by SCRAM. Notes the chosen mechanism and the channel binding, and accepts if the
 * proof is right.
 */
export async function scram(
  next: Next,
  write: (reply: Buffer) => void,
  seen: unknown[],
  password: string,
  mechanisms: readonly string[],
  iterations = 4096,
): Promise<boolean> {
  await next()
  write(ask(10, `${mechanisms.join('\0')}\0\0`))
  const initial = await next()
  const [mechanism = ''] = initial.toString().split('\0')
  const first = initial.subarray(mechanism.length + 5).toString()
  const [, header = '', bare = ''] = /^([^,]*,[^,]*,)(.*)$/.exec(first) ?? []
  const salt = Buffer.from('saltsaltsalt')
  const serverFirst = `${bare.slice(bare.indexOf('r='))}more,s=${salt.toString('base64')},i=${iterations}`
  write(ask(11, serverFirst))
  const final = (await next()).toString()
  const [withoutProof = '', proof = ''] = final.split(',p=')
  const hash = (text: Buffer): Buffer => createHash('sha256').update(text).digest()
  const mac = (of: Buffer, text: string): Buffer => createHmac('sha256', of).update(text).digest()
  const salted = pbkdf2Sync(password, salt, iterations, 32, 'sha256')
  const clientKey = mac(salted, 'Client Key')
  const auth = `${bare},${serverFirst},${withoutProof}`
  const signature = mac(hash(clientKey), auth)
  const right = clientKey.map((byte, i) => byte ^ (signature[i] as number))
  seen.push(mechanism, header, /c=([^,]*)/.exec(final)?.[1])
  if (proof !== Buffer.from(right).toString('base64')) {
    write(failure('28P01', 'wrong', 'FATAL'))
    return false
  }
  write(ask(12, `v=${mac(mac(salted, 'Server Key'), auth).toString('base64')}`))
  write(WELCOME)
  return true
}
