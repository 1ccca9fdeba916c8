import { Call, Confirmation, type How } from './call'
import type { Config, Server } from './config'
import type { Connection } from './connection'
import { closedError, Line } from './line'
import { begin, next } from './reply'
import type { Seating } from './sentinels'
import { specOf } from './spec'

/** The three kinds of subscriptions: by name, by pattern, and to sharded channels. */
export type Family = 'channel' | 'pattern' | 'shard'

/** A reader of messages. */
export interface Reader {
  take(channel: Buffer, pattern: Buffer | undefined, payload: Buffer): void
  /** The connection was lost. */
  lost(): void
  /** No more messages come. */
  end(): void
}

/** Sharded channels of a cluster, each at the node that has its hash slot. */
export interface Shards {
  /** Subscribes to a channel, until it is unsubscribed, also if this fails. */
  subscribe(name: Buffer): Promise<unknown>
  unsubscribe(name: Buffer): void
}

const HOW: How = { bytes: false, repeatable: false, alone: false, timeout: 0, signal: undefined }

const VERBS = {
  channel: ['SUBSCRIBE', 'UNSUBSCRIBE'],
  pattern: ['PSUBSCRIBE', 'PUNSUBSCRIBE'],
  shard: ['SSUBSCRIBE', 'SUNSUBSCRIBE'],
} as const

/** A channel and its readers. */
interface Channel {
  readonly family: Family
  readonly name: Buffer
  readonly readers: Set<Reader>
}

/**
 * The subscriptions of a client. With RESP3 they are on the shared connection, with RESP2 on a
 * connection of their own.
 */
export class Subscriptions {
  readonly #config: Config
  readonly #servers: readonly Server[]
  readonly #shared: Line
  readonly #seating: Seating | undefined
  /** In a cluster, who subscribes to sharded channels. */
  shards: Shards | undefined
  #own: Line | undefined
  readonly #channels = new Map<string, Channel>()
  readonly #readers = new Set<Reader>()
  #isClosed = false

  constructor(config: Config, servers: readonly Server[], shared: Line, seating?: Seating) {
    this.#seating = seating
    this.#config = config
    this.#servers = servers
    this.#shared = shared
  }

  /** Whether the shared connection is needed for them. */
  get onShared(): boolean {
    return this.#own === undefined && this.#isWanted()
  }

  /** Whether sharded channels are read. */
  get hasShards(): boolean {
    return [...this.#channels.values()].some(({ family }) => family === 'shard')
  }

  /** Whether this connection, or that for subscriptions alone, is needed for a channel. */
  #isWanted(): boolean {
    return [...this.#channels.values()].some(({ family }) => !this.#isElsewhere(family))
  }

  /** Whether channels are subscribed on other connections, which are seen to elsewhere. */
  #isElsewhere(family: Family): boolean {
    return family === 'shard' && this.shards !== undefined
  }

  /** Adds channels to a subscription. Resolves when the server has confirmed them. */
  async add(reader: Reader, family: Family, names: readonly Buffer[]): Promise<void> {
    if (this.#isClosed) throw closedError()
    if (names.length === 0) return
    const { shards } = this
    const isSharded = family === 'shard' && shards !== undefined
    const line = isSharded ? undefined : await this.#line()
    const fresh: Buffer[] = []
    for (const name of names) {
      const id = idOf(family, name)
      const channel = this.#channels.get(id) ?? { family, name, readers: new Set() }
      if (channel.readers.size === 0) fresh.push(name)
      channel.readers.add(reader)
      this.#channels.set(id, channel)
    }
    this.#readers.add(reader)
    if (this.#isClosed) reader.end()
    try {
      // Another reader's subscription may not be confirmed yet. In a cluster each asks for itself.
      if (isSharded) await Promise.all(names.map((name) => shards.subscribe(name)))
      else if (line !== undefined && fresh.length > 0)
        await this.#confirmed(line, VERBS[family][0], fresh)
    } catch (error) {
      for (const name of names)
        if (this.#leave(reader, family, name) && isSharded) shards.unsubscribe(name)
      throw error
    }
  }

  /** Removes a reader from channels. Channels without readers are unsubscribed. */
  remove(reader: Reader, family: Family, names: readonly Buffer[]): void {
    const gone = names.filter((name) => this.#leave(reader, family, name))
    const { shards } = this
    if (family === 'shard' && shards !== undefined) return gone.forEach((it) => shards.unsubscribe(it))
    const line = this.#own ?? this.#shared
    if (gone.length === 0 || line.current === undefined) return
    this.#confirmed(line, VERBS[family][1], gone).catch(() => {})
  }

  /** Forgets a reader that has ended. */
  forget(reader: Reader): void {
    this.#readers.delete(reader)
  }

  /** Removes a reader from a channel. Returns whether it was the last one. */
  #leave(reader: Reader, family: Family, name: Buffer): boolean {
    const id = idOf(family, name)
    const channel = this.#channels.get(id)
    if (channel === undefined || !channel.readers.delete(reader) || channel.readers.size > 0)
      return false
    return this.#channels.delete(id)
  }

  /** The line to subscribe on. It depends on the protocol, which is known after a login. */
  async #line(): Promise<Line> {
    if (this.#own !== undefined) return this.#own
    if (this.#shared.current === undefined) await this.#settled()
    return this.#shared.current?.protocol === 2 ? this.#apart() : this.#shared
  }

  /**
   * The line that is only for subscriptions. Once made it is used for good, even if a later server
   * speaks RESP3: a channel subscribed on both lines would deliver twice.
   */
  #apart(): Line {
    return (this.#own ??= new Line(
      this.#config,
      this.#servers,
      { subscriber: true, seating: this.#seating },
      {
        connected: (connection) => this.#resubscribe(connection),
        push: (_, start) => this.push(start),
        disconnected: () => this.disconnected(),
        needed: () => this.#isWanted(),
      },
    ))
  }

  #settled(): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#shared.send(new Call(specOf('PING'), [], HOW, undefined, resolve, reject))
    })
  }

  #confirmed(line: Line, verb: string, names: readonly Buffer[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      line.send(new Confirmation(specOf(verb), names, HOW, resolve, reject))
    })
  }

  connected(connection: Connection): void {
    if (this.#own !== undefined) return
    if (connection.protocol !== 2) this.#resubscribe(connection)
    // The server before this one spoke RESP3.
    else if (this.#isWanted()) this.#apart().want()
  }

  #resubscribe(connection: Connection): void {
    for (const family of Object.keys(VERBS) as Family[]) {
      if (this.#isElsewhere(family)) continue
      const names: Buffer[] = []
      for (const channel of this.#channels.values())
        if (channel.family === family) names.push(channel.name)
      // Each has its own command: a server may refuse one, such as a sharded channel of another
      // node.
      for (const name of names) {
        connection.send(new Confirmation(specOf(VERBS[family][0]), [name], HOW, nothing, nothing))
      }
    }
  }

  disconnected(): void {
    const here = [...this.#channels.values()].filter(({ family }) => !this.#isElsewhere(family))
    const readers = new Set(here.flatMap((channel) => [...channel.readers]))
    for (const reader of readers) reader.lost()
  }

  /** A sharded channel of a cluster was subscribed again. */
  resubscribed(name: Buffer): void {
    for (const reader of this.#channels.get(idOf('shard', name))?.readers ?? []) reader.lost()
  }

  /** A push arrived. */
  push(start: number): void {
    begin(start)
    const items = next(true, false, 'SUBSCRIBE')
    // Pushes that are not messages are ignored.
    if (!Array.isArray(items) || !items.every(Buffer.isBuffer)) return
    const [kind, ...rest] = items
    const word = String(kind)
    if (word === 'message') this.#message('channel', rest[0], rest[0], rest[1])
    else if (word === 'pmessage') this.#message('pattern', rest[0], rest[1], rest[2])
    else if (word === 'smessage') this.#message('shard', rest[0], rest[0], rest[1])
  }

  #message(
    family: Family,
    by: Buffer | undefined,
    channel: Buffer | undefined,
    payload: Buffer | undefined,
  ): void {
    if (by === undefined || channel === undefined || payload === undefined) return
    const readers = this.#channels.get(idOf(family, by))?.readers
    for (const reader of readers ?? [])
      reader.take(channel, family === 'pattern' ? by : undefined, payload)
  }

  close(): void {
    this.#isClosed = true
    void this.#own?.close()
    for (const reader of [...this.#readers]) reader.end()
  }
}

const nothing = (_: unknown): void => {}

function idOf(family: Family, name: Buffer): string {
  return `${family}:${name.toString('latin1')}`
}
