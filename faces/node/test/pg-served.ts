import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { after } from 'node:test'

import { Client, type ClientConfig } from '../src/pg'

const servers = new Set<Server>()
const sockets = new Set<Socket>()
after(() => {
  for (const socket of sockets) socket.destroy()
  for (const server of servers) server.close()
})

/** The code of a CancelRequest, in place of the protocol version. */
const CANCEL = 80877102

/** A message of a server. */
export function message(tag: string, body: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.from([tag.charCodeAt(0), 0, 0, 0, 0])
  head.writeInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}

export function failure(code: string, text: string, severity = 'ERROR'): Buffer {
  return message('E', Buffer.from(`S${severity}\0V${severity}\0C${code}\0M${text}\0\0`))
}

/** ReadyForQuery. */
export const ready = (status = 'I'): Buffer => message('Z', Buffer.from(status))

/** AuthenticationOk and ReadyForQuery. */
export const WELCOME = Buffer.concat([message('R', Buffer.alloc(4)), message('K', Buffer.alloc(8)), ready()])

/**
 * Listens for clients, and answers the messages behind the first one of each. `serve` gets whole
 * messages: the letter (or `cancel`) and the bytes behind the length.
 */
export async function listen(
  serve: (tag: string, body: Buffer, socket: Socket) => void,
  welcome: Buffer | (() => Buffer) = WELCOME,
): Promise<number> {
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    let rest = Buffer.alloc(0)
    let isFirst = true
    socket.on('data', (chunk) => {
      rest = Buffer.concat([rest, chunk])
      for (;;) {
        const start = isFirst ? 0 : 1
        if (rest.length < start + 4) return
        const end = start + rest.readInt32BE(start)
        if (rest.length < end) return
        if (isFirst && rest.readInt32BE(4) === CANCEL) serve('cancel', rest.subarray(8, end), socket)
        else if (isFirst) socket.write(typeof welcome === 'function' ? welcome() : welcome)
        else serve(String.fromCharCode(rest[0] as number), rest.subarray(5, end), socket)
        isFirst = false
        rest = rest.subarray(end)
      }
    })
  })
  servers.add(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

/** A client of a server that refuses BEGIN, and notes statements in place of running them. */
export async function served(config: ClientConfig): Promise<{ client: Client; ran: string[] }> {
  const ran: string[] = []
  let text = ''
  let skips = false
  const port = await listen((tag, body, socket) => {
    const answer = tag === 'S' ? ready() : skips ? Buffer.alloc(0) : answerTo(tag, body)
    skips = tag !== 'S' && (skips || (answer[0] === 0x45 && tag !== 'Q'))
    socket.write(answer)
  })
  const answerTo = (tag: string, body: Buffer): Buffer => {
    if (tag === 'P') text = body.toString('latin1', 1, body.indexOf(0, 1))
    if (tag === 'P') return message('1')
    if (tag === 'B') return message('2')
    if (tag === 'D') return body.length > 2 ? failure('34000', 'no such portal') : message('n')
    if (tag === 'E') return run(text)
    if (tag === 'Q') {
      const answers = body.toString('latin1', 0, body.length - 1).split('; ').map(run)
      return Buffer.concat([...answers, ready()])
    }
    return Buffer.alloc(0)
  }
  const run = (statement: string): Buffer => {
    if (statement === 'begin') return failure('25006', 'cannot begin')
    ran.push(statement)
    return message('C', Buffer.from(`${statement.split(' ')[0]?.toUpperCase()}\0`))
  }
  const client = new Client({ host: '127.0.0.1', port, user: 'me', database: 'd', ...config })
  await client.connect()
  return { client, ran }
}
