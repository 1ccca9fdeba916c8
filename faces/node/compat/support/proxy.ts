import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'

/**
 * A proxy that counts the trips to a server: the writes of a client that follow bytes which the server
 * has delivered since its last write.
 */
export class CountingProxy {
  /** Trips of all connections since the last `restart`. */
  trips = 0
  /** Connections since the last `restart`. */
  connections = 0
  readonly #sockets = new Set<Socket>()

  private constructor(
    readonly url: string,
    private readonly server: Server,
  ) {}

  static async start(target: string): Promise<CountingProxy> {
    const server = createServer({ noDelay: true })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const url = new URL(target)
    const { hostname, port } = url
    url.hostname = '127.0.0.1'
    url.port = String((server.address() as AddressInfo).port)
    const proxy = new CountingProxy(url.href, server)
    server.on('connection', (client) => proxy.#serve(client, hostname, Number(port || 5432)))
    return proxy
  }

  restart(): void {
    this.trips = 0
    this.connections = 0
  }

  async stop(): Promise<void> {
    this.server.close()
    for (const socket of this.#sockets) socket.destroy()
    await once(this.server, 'close')
  }

  #serve(client: Socket, host: string, port: number): void {
    const server = connect({ host, port, noDelay: true })
    this.connections++
    // The first write of a client is a trip, too.
    let heard = true
    client.on('data', (bytes) => {
      if (heard) this.trips++
      heard = false
      server.write(bytes)
    })
    server.on('data', (bytes) => {
      heard = true
      client.write(bytes)
    })
    this.#join(client, server)
    this.#join(server, client)
  }

  #join(one: Socket, other: Socket): void {
    this.#sockets.add(one)
    one.on('end', () => other.end())
    one.on('error', () => other.destroy())
    one.on('close', () => {
      this.#sockets.delete(one)
      other.destroy()
    })
  }
}
