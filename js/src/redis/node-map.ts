import { Call } from './call'
import type { Config } from './config'
import { Node } from './core'
import { RedisError } from './error'
import type { Reply } from './reply'
import { specOf } from './spec'
import { type Address, idOf, readTopology, type Shard, SLOTS } from './topology'

/** A node, and by which name it is known. */
export interface Member {
  readonly id: string
  readonly address: Address
  readonly node: Node
}

/** How long a node may take to say what the cluster looks like. */
const ASK_TIMEOUT = 5_000

/** Between two questions lies a pause that differs from client to client. */
const PAUSE = 100

const NOBODY = -1

/**
 * Which nodes a cluster has, and whose each hash slot is. It is asked for when it is needed, and
 * never twice at a time.
 */
export class NodeMap {
  readonly #config: Config
  readonly #home: Node
  readonly #changed: (slots: readonly number[]) => void
  readonly #masters = new Map<string, Member>()
  readonly #replicas = new Map<string, Member>()
  /** By slot: the number of its shard. */
  readonly #owners = new Int32Array(SLOTS).fill(NOBODY)
  /** Masters by number, which a topology gives anew. */
  #shards: { master: Member; replicas: Member[] }[] = []
  #isAsking = false
  #isWanted = false
  #askedAt = -Infinity
  #timer: NodeJS.Timeout | undefined
  #turn = 0
  #known = false
  #isClosed = false
  /** How many topologies came. */
  version = 0
  #waiting: { resolve: () => void; reject: (error: RedisError) => void }[] = []

  constructor(config: Config, home: Node, changed: (slots: readonly number[]) => void) {
    this.#config = config
    this.#home = home
    this.#changed = changed
  }

  /** Resolves when a topology is known. */
  ready(): Promise<void> {
    if (this.#known) return Promise.resolve()
    this.want()
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }))
  }

  get isKnown(): boolean {
    return this.#known
  }

  /** The node that takes writes for a slot. */
  masterOf(slot: number): Node | undefined {
    return this.#shards[this.#owners[slot] ?? NOBODY]?.master.node
  }

  /** One that may be read from for it, in turn; the master where there is no other. */
  readerOf(slot: number): Node | undefined {
    const shard = this.#shards[this.#owners[slot] ?? NOBODY]
    if (shard === undefined || shard.replicas.length === 0) return shard?.master.node
    return shard.replicas[this.#turn++ % shard.replicas.length]?.node
  }

  /** A slot that somebody has, for what may go to any node. */
  anySlot(): number {
    const slot = Math.floor(Math.random() * SLOTS)
    return this.#owners[slot] === NOBODY
      ? Math.max(
          this.#owners.findIndex((owner) => owner !== NOBODY),
          0,
        )
      : slot
  }

  /** The node at an address; a replica may have become a master. */
  at(address: Address): Node | undefined {
    const id = idOf(address)
    const master = this.#masters.get(id)
    if (master !== undefined || !this.#replicas.has(id)) return master?.node
    return this.#member(this.#masters, address, false).node
  }

  /** The host of a node, for what it says relative to that. */
  hostOf(node: Node): string {
    for (const member of [...this.#masters.values(), ...this.#replicas.values()]) {
      if (member.node === node) return member.address.host
    }
    return ''
  }

  /** A slot belongs to another node from now on: that has said so. */
  give(slot: number, node: Node): void {
    const number = this.#shards.findIndex(({ master }) => master.node === node)
    if (number >= 0) this.#owners[slot] = number
    else {
      const master = [...this.#masters.values()].find((member) => member.node === node)
      if (master !== undefined) this.#owners[slot] = this.#shards.push({ master, replicas: [] }) - 1
    }
  }

  /** All masters that have slots, and where it is said their replicas. */
  all(replicas: boolean): Member[] {
    const shards = [...new Set(this.#owners)].flatMap((number) => this.#shards[number] ?? [])
    return shards.flatMap(({ master, replicas: others }) =>
      replicas ? [master, ...others] : [master],
    )
  }

  // --- asking ---

  /** Has the topology asked for, after a pause if that was just done. */
  want(): void {
    if (this.#isClosed || this.#timer !== undefined) return
    if (this.#isAsking) {
      this.#isWanted = true
      return
    }
    const due = this.#askedAt + PAUSE * (1 + Math.random())
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined
        this.#ask()
      },
      Math.max(0, due - performance.now()),
    )
  }

  #ask(): void {
    const nodes = [...this.#masters.values()].filter(({ node }) => node.line.current !== undefined)
    const member = nodes[this.#turn++ % Math.max(nodes.length, 1)]
    const node = member?.node ?? this.#home
    this.#isAsking = true
    this.#askedAt = performance.now()
    const how = { bytes: false, repeatable: true, timeout: ASK_TIMEOUT, signal: undefined }
    const answered = (reply: unknown): void => this.#answered(node, member?.address, reply as Reply)
    node.send(
      new Call(specOf('CLUSTER SLOTS'), [], how, undefined, answered, (error) =>
        this.#failed(error),
      ),
    )
  }

  #answered(node: Node, address: Address | undefined, reply: Reply): void {
    const server = node.line.current?.server
    const asked =
      address?.host ?? (server !== undefined && 'host' in server ? server.host : '127.0.0.1')
    let shards: Shard[]
    try {
      shards = readTopology(reply, asked)
    } catch (cause) {
      const message = `the topology of the cluster can't be read: ${(cause as Error).message}`
      return this.#failed(new RedisError(message, 'bad_topology', 'NotSent', undefined, cause))
    }
    this.#isAsking = false
    this.#known = true
    this.version++
    this.#changed(this.#apply(shards))
    for (const { resolve } of this.#waiting.splice(0)) resolve()
    if (this.#isWanted) {
      this.#isWanted = false
      this.want()
    }
  }

  #failed(error: RedisError): void {
    this.#isAsking = this.#isWanted = false
    if (this.#isClosed) return
    if (this.#known) return this.want()
    for (const { reject } of this.#waiting.splice(0)) reject(error.with('NotSent', undefined))
  }

  /** Takes a topology over. Returns the slots that have another owner. */
  #apply(shards: readonly Shard[]): number[] {
    const changed: number[] = []
    const owners = new Int32Array(SLOTS).fill(NOBODY)
    const used = new Set<string>()
    const fresh = new Map<Member, { number: number; replicas: Member[] }>()
    for (const { first, last, master, replicas } of shards) {
      const member = this.#member(this.#masters, master, false)
      used.add(member.id)
      const others = replicas.map((replica) => this.#member(this.#replicas, replica, true))
      others.forEach(({ id }) => used.add(id))
      const number = fresh.get(member)?.number ?? fresh.size
      fresh.set(member, { number, replicas: others })
      owners.fill(number, first, last + 1)
    }
    const shardsNow = [...fresh].map(([master, it]) => ({ master, replicas: it.replicas }))
    for (let slot = 0; slot < SLOTS; slot++) {
      const master = this.#shards[this.#owners[slot] ?? NOBODY]?.master
      if (master !== shardsNow[owners[slot] ?? NOBODY]?.master) changed.push(slot)
    }
    this.#owners.set(owners)
    this.#shards = shardsNow
    this.#drop(used)
    return changed
  }

  /**
   * Closes nodes that are part of the cluster no more, when they have answered. What waits for them
   * goes elsewhere.
   */
  #drop(used: ReadonlySet<string>): void {
    for (const members of [this.#masters, this.#replicas]) {
      for (const [id, { node }] of members) {
        if (used.has(id)) continue
        members.delete(id)
        for (const call of node.line.takeWaiting()) call.fail(GONE, 'NotSent')
        void node.close(GONE)
      }
    }
  }

  #member(members: Map<string, Member>, address: Address, isReplica: boolean): Member {
    const id = idOf(address)
    const known = members.get(id)
    if (known !== undefined) return known
    const node = new Node(this.#config, [address], isReplica, () => this.want())
    const member = { id, address, node }
    members.set(id, member)
    return member
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    const members = [...this.#masters.values(), ...this.#replicas.values()]
    await Promise.all([this.#home.close(), ...members.map(({ node }) => node.close())])
  }

  destroy(error: RedisError): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
    for (const { reject } of this.#waiting.splice(0)) reject(error)
    this.#home.destroy(error)
    for (const { node } of [...this.#masters.values(), ...this.#replicas.values()])
      node.destroy(error)
  }
}

const GONE = new RedisError('the node is no longer part of the cluster', 'node_gone', 'NotSent')
