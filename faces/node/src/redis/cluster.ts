import { timeUntil } from '../engine/clock'
import { OUTCOMES, RECORD } from '../engine/choices'
import { ClusterFlag, ClusterWhy, type Exports, Kind, Unanswered } from '../engine/exports'
import { rethrow, safely } from '../engine/guard'
import { ENGINE_LOST, memory, NO_MEMORY, type Handle } from '../engine/memory'
import { Atomic } from './atomic'
import { type Call, Confirmation, type How } from './call'
import type { Config, Server } from './config'
import { type Core, Node } from './core'
import { Words, write } from './encode'
import { aborted, misuse, RedisError } from './error'
import { answer, Flight, type Tower } from './flight'
import { closedError } from './line'
import type { Lease } from './own'
import { Question } from './question'
import { bare, begin, next, position, skip } from './reply'
import { slotOf, specOf } from './spec'
import type { Shards, Subscriptions } from './subscriptions'

/** A command that was submitted, and its flights. */
interface Entry {
  readonly call: Call
  readonly own: boolean
  readonly flights: Flight[]
  /** The last reason why a node did not answer it. */
  lastError: RedisError | undefined
}

interface Member {
  readonly node: Node
  readonly server: Server
}

interface Waiter {
  resolve(): void
  reject(error: RedisError): void
}

/**
 * A cluster: the nodes, sockets and timers for the router in the module. The router decides where
 * commands go, what is sent again, how several replies become one, and when the topology is
 * queried. This class carries that out.
 */
export class Cluster implements Core, Handle, Shards, Tower {
  readonly config: Config
  /** Nothing is kept of a cluster's replies. */
  readonly cache = undefined
  engine!: Exports
  /** The address of the router in the module; 0 before the first use and after the end. */
  #address = 0
  /** The address of a buffer in the module for short commands. */
  #scratch = 0
  /**
   * The servers of the configuration. They are asked for the topology first, and carry the
   * subscriptions.
   */
  readonly #home: Node
  readonly #members = new Map<number, Member>()
  readonly #entries = new Map<number, Entry>()
  #token = 0
  #isSettling = false
  #timer: NodeJS.Timeout | undefined
  #armed = Infinity
  #isKnown = false
  /** Why the last query of the topology failed; undefined if it succeeded. */
  #noTopology: RedisError | undefined
  #waiting: Waiter[] = []
  #isClosed = false
  #closing: (() => void)[] = []

  constructor(config: Config) {
    // A cluster has only database 0.
    this.config = { ...config, database: 0 }
    this.#home = new Node(this.config, config.servers)
    this.#home.subscriptions.shards = this
  }

  get subscriptions(): Subscriptions {
    return this.#home.subscriptions
  }

  // --- callers ---

  send(call: Call): void {
    this.#submit(call, false)
  }

  sendOwn(call: Call): void {
    this.#submit(call, true)
  }

  #submit(call: Call, own: boolean): void {
    if (this.#isClosed) return call.reject(closedError())
    try {
      const size = call.size()
      this.#begin()
      const isShort = size <= SCRATCH
      const room = isShort ? this.#scratch : this.engine.onetrip_alloc(size) >>> 0
      if (room === 0) throw misuse('no_memory', NO_MEMORY, call.spec.name)
      memory.refresh()
      const len = written(call, room) - room
      const token = this.#tokenOf(call, own)
      if (call.how.signal !== undefined) call.takeBack = () => this.#giveUp(token)
      const flags = this.#flagsOf(call, own)
      const { engine } = this
      engine.onetrip_cluster_submit(this.#address, now(), token, flags, room, len, call.timeLeft)
      if (!isShort) engine.onetrip_free(room, size)
    } catch (error) {
      call.reject(error as RedisError)
    }
    this.#settle()
  }

  #tokenOf(call: Call, own: boolean): number {
    do this.#token = (this.#token + 1) >>> 0
    while (this.#entries.has(this.#token) || this.#token === AGAIN)
    this.#entries.set(this.#token, { call, own, flights: [], lastError: undefined })
    return this.#token
  }

  #flagsOf(call: Call, own: boolean): number {
    const { replicaReads, repeatReads } = this.config
    return (
      (call.mayRepeat(repeatReads) ? ClusterFlag.REPEATABLE : 0) |
      (replicaReads ? ClusterFlag.FROM_REPLICA : 0) |
      (own ? ClusterFlag.OWN : 0) |
      (isWhole(call) ? ClusterFlag.WHOLE : 0)
    )
  }

  #giveUp(token: number): boolean {
    for (const flight of this.#entries.get(token)?.flights ?? []) flight.giveUp()
    if (this.#address !== 0) this.engine.onetrip_cluster_give_up(this.#address, now(), token)
    this.#settle()
    return false
  }

  async subscribe(name: Buffer): Promise<unknown> {
    if (this.#isClosed) throw closedError()
    await this.#ready()
    if (this.#home.protocol === 2 || this.config.protocol === 2) throw needsResp3()
    return new Promise((resolve, reject) => {
      const call = new Confirmation(specOf('SSUBSCRIBE'), [name], HOW, resolve, reject)
      const token = this.#tokenOf(call, false)
      const { engine } = this
      memory.lend(name, (at) =>
        engine.onetrip_cluster_subscribe(this.#address, now(), token, at, name.length, 0),
      )
      this.#settle()
    })
  }

  unsubscribe(name: Buffer): void {
    if (this.#address === 0) return
    const { engine } = this
    memory.lend(name, (at) => engine.onetrip_cluster_unsubscribe(this.#address, at, name.length))
    this.#settle()
  }

  async borrow(key: string | Uint8Array | undefined): Promise<Lease> {
    if (this.#isClosed) throw closedError()
    await this.#ready()
    const slot = key === undefined ? NO_SLOT : slotOf(key)
    const number = this.engine.onetrip_cluster_node_at(this.#address, slot)
    const member = this.#members.get(number)
    if (member !== undefined) return member.node.borrow()
    const message = 'no node of the cluster has the hash slot of the key'
    throw new RedisError(message, 'unserved_slot', 'NotSent')
  }

  connect(): void {
    this.#begin()
    this.engine.onetrip_cluster_time(this.#address, now())
    this.#settle()
  }

  /** Resolves when a topology is known. */
  #ready(): Promise<void> {
    if (this.#isKnown) return Promise.resolve()
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject })
      this.connect()
    })
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const node of this.#nodes()) node.cutStill()
    if (this.#entries.size > 0) await new Promise<void>((resolve) => this.#closing.push(resolve))
    this.#free()
    const nodes = [this.#home, ...this.#nodes()]
    await Promise.all(nodes.map((node) => node.close()))
  }

  destroy(error: RedisError): void {
    this.#isClosed = true
    this.#noTopology = error
    for (const { reject } of this.#waiting.splice(0)) reject(error)
    if (this.#address !== 0) this.engine.onetrip_cluster_close(this.#address)
    this.#settle()
    for (const node of [this.#home, ...this.#nodes()]) node.destroy(error)
    this.#settle()
    this.#free()
    this.#failAll(error)
  }

  #nodes(): Node[] {
    return [...this.#members.values()].map(({ node }) => node)
  }

  // --- in the module ---

  #begin(): void {
    if (this.#address !== 0) return
    const { redirectsMax, waitTimeout } = this.config
    this.engine = memory.engine
    const made = this.engine.onetrip_cluster_new(redirectsMax, HELD_MAX, waitTimeout, Math.random())
    if (made === 0) throw misuse('no_memory', NO_MEMORY)
    this.#address = made
    this.#scratch = this.engine.onetrip_alloc(SCRATCH) >>> 0
    memory.handles.add(this)
  }

  #free(): void {
    if (this.#address === 0) return
    this.engine.onetrip_cluster_free(this.#address)
    if (this.#scratch !== 0) this.engine.onetrip_free(this.#scratch, SCRATCH)
    this.#forget()
  }

  #forget(): void {
    memory.handles.delete(this)
    clearTimeout(this.#timer)
    this.#address = 0
    this.#armed = Infinity
    this.#isKnown = false
  }

  /** The module failed, and the router is gone with it. */
  evicted(): void {
    const error = new RedisError(ENGINE_LOST, 'connection_lost', 'Unknown')
    const nodes = this.#nodes()
    this.#forget()
    this.#members.clear()
    this.#failAll(error)
    for (const { reject } of this.#waiting.splice(0)) safely(() => reject(error))
    for (const node of nodes) safely(() => node.destroy(error))
  }

  #failAll(error: RedisError): void {
    const entries = [...this.#entries.values()]
    this.#entries.clear()
    for (const { call, flights } of entries) {
      safely(() => call.fail(error, 'Unknown'))
      for (const flight of flights) safely(() => flight.abandon())
    }
    for (const resolve of this.#closing.splice(0)) resolve()
  }

  // --- flights ---

  encode(flight: number, at: number): number {
    if (this.#address === 0) return 0
    return this.engine.onetrip_cluster_write(this.#address, flight, at) >>> 0
  }

  replied(flight: Flight, start: number, len: number, isList: boolean): boolean {
    if (this.#address === 0) return false
    const { engine } = this
    const [list, { number }] = [isList ? 1 : 0, flight]
    const isFinal =
      engine.onetrip_cluster_replied(this.#address, now(), number, start, len, list) !== 0
    if (isFinal) this.#entries.delete(flight.token)
    this.#settle()
    return isFinal
  }

  unanswered(flight: Flight, why: number, outcome: number, error: RedisError | undefined): void {
    const entry = this.#entries.get(flight.token)
    if (entry !== undefined && error !== undefined) entry.lastError = error
    if (this.#address === 0) return
    this.engine.onetrip_cluster_unanswered(this.#address, now(), flight.number, why, outcome)
    this.#settle()
  }

  #send(token: number, number: number, to: number, isAsking: boolean): void {
    const entry = token === AGAIN ? resubscribing() : this.#entries.get(token)
    const node = this.#members.get(to)?.node
    if (entry === undefined || node === undefined) {
      const why = Unanswered.LOST
      this.engine.onetrip_cluster_unanswered(this.#address, now(), number, why, NOT_SENT)
      return
    }
    const flight = new Flight(this, token, number, entry.call, isAsking)
    entry.flights.push(flight)
    if (entry.own) node.sendOwn(flight)
    else node.send(flight)
  }

  // --- orders of the router ---

  /** Carries out the router's orders until there are none. */
  #settle(): void {
    if (this.#isSettling) return
    this.#isSettling = true
    while (this.#address !== 0 && this.#walk()) {
      // Carrying out an order may give rise to others.
    }
    this.#isSettling = false
    this.#arm()
    if (this.#entries.size === 0) for (const resolve of this.#closing.splice(0)) resolve()
  }

  #walk(): boolean {
    const { engine } = this
    const count = engine.onetrip_cluster_take(this.#address)
    if (count === 0) return false
    const first = engine.onetrip_cluster_completions(this.#address) >>> 2
    for (let i = 0; i < count && this.#address !== 0; i++) {
      try {
        this.#act(first + i * RECORD)
      } catch (error) {
        // An error of the user's code must not keep the other orders from being carried out.
        process.nextTick(rethrow, error)
      }
    }
    return true
  }

  #act(at: number): void {
    memory.refresh()
    const { words } = memory
    const kind = words[at] as number
    const token = words[at + 1] as number
    const a = words[at + 2] as number
    const b = words[at + 3] as number
    const start = words[at + 5] as number
    const end = start + (words[at + 4] as number)
    if (kind === Kind.CLUSTER_SEND) this.#send(token, a, b, false)
    else if (kind === Kind.CLUSTER_SEND_ASKING) this.#send(token, a, b, true)
    else if (kind === Kind.CLUSTER_ASK) this.#ask(this.#members.get(a))
    else if (kind === Kind.CLUSTER_OPEN) this.#open(a, memory.text(start, end), b)
    else if (kind === Kind.CLUSTER_CLOSE) this.#close(a)
    else if (kind === Kind.CLUSTER_UNSUBSCRIBE) this.#unsubscribe(a, bytesAt(start, end))
    else if (kind === Kind.CLUSTER_RESUBSCRIBED) this.subscriptions.resubscribed(bytesAt(start, end))
    else this.#finish(kind, token, a, b, start, end)
  }

  #open(number: number, host: string, port: number): void {
    const server = { host, port }
    const { engine } = this
    const told = (isConnected: number): void => {
      if (this.#address === 0) return
      engine.onetrip_cluster_connected(this.#address, now(), number, isConnected)
      this.#settle()
    }
    const purpose = { readonly: this.config.replicaReads, isNode: true }
    const node = new Node(this.config, [server], purpose, {
      connected: () => told(1),
      disconnected: () => told(0),
      push: (start, end) => {
        if (!this.#pushed(number, start, end)) this.subscriptions.push(start)
      },
    })
    this.#members.set(number, { node, server })
  }

  /** A node has sent a push. Returns whether it says that a channel was unsubscribed. */
  #pushed(number: number, start: number, end: number): boolean {
    if (this.#address === 0) return false
    const { engine } = this
    const isOne = engine.onetrip_cluster_pushed(this.#address, now(), number, start, end - start)
    if (isOne !== 0) this.#settle()
    return isOne !== 0
  }

  #unsubscribe(number: number, name: Buffer): void {
    const node = this.#members.get(number)?.node
    if (node === undefined || node.protocol === 0) return
    node.send(new Farewell(name, (start, end) => this.#pushed(number, start, end)))
  }

  #close(number: number): void {
    const member = this.#members.get(number)
    this.#members.delete(number)
    void member?.node.close(GONE)
  }

  #finish(kind: number, token: number, why: number, b: number, start: number, end: number): void {
    const entry = this.#entries.get(token)
    this.#entries.delete(token)
    if (entry === undefined) return
    const { call, flights, own } = entry
    if (kind === Kind.CLUSTER_REPLY) answered(call, start)
    else if (kind === Kind.CLUSTER_ERROR) failedBy(call, b, start)
    else this.#fail(entry, why, b, memory.text(start, end))
    // A connection of its own may stay blocked for ever.
    if (own) for (const flight of flights) flight.abandon()
  }

  #fail({ call, lastError }: Entry, why: number, number: number, text: string): void {
    const outcome = OUTCOMES[number] ?? 'Unknown'
    const { signal } = call.how
    const { name } = call.spec
    if (why === ClusterWhy.DEADLINE) return call.expire(outcome)
    if (why === ClusterWhy.GIVEN_UP && signal !== undefined)
      return call.reject(aborted(signal, outcome, name))
    const last = lastError ?? this.#noTopology
    const isOfNode = why === ClusterWhy.LOST || why === ClusterWhy.UNSERVED
    if (last !== undefined && (isOfNode || why === ClusterWhy.CLOSED))
      return call.fail(last, outcome)
    const code = CODES[why] ?? 'cluster'
    call.reject(new RedisError(`${text}${ADVICE[why] ?? ''}`, code, outcome, name))
  }

  // --- the topology ---

  #ask(member: Member | undefined): void {
    const node = member?.node ?? this.#home
    const told = (start: number, len: number): void => {
      const server = member?.server ?? node.server
      const [host, port] = 'host' in server ? [server.host, server.port] : ['127.0.0.1', 6379]
      if (!this.#told(start, len, host, port)) this.#untold(BAD_TOPOLOGY)
    }
    node.send(new Question(told, (error) => this.#untold(error)))
  }

  #told(start: number, len: number, host: string, port: number): boolean {
    if (this.#address === 0) return true
    const { engine } = this
    const name = Buffer.from(host)
    const isOne = memory.lend(name, (at) =>
      engine.onetrip_cluster_topology(this.#address, now(), start, len, at, name.length, port),
    )
    if (isOne === 0) return false
    this.#isKnown = true
    this.#noTopology = undefined
    this.#settle()
    for (const { resolve } of this.#waiting.splice(0)) resolve()
    return true
  }

  #untold(error: RedisError): void {
    this.#noTopology = error.with('NotSent', undefined)
    if (!this.#isKnown) for (const { reject } of this.#waiting.splice(0)) reject(this.#noTopology)
    if (this.#address === 0) return
    if (error !== BAD_TOPOLOGY)
      this.engine.onetrip_cluster_topology(this.#address, now(), 0, 0, 0, 0, 0)
    this.#settle()
  }

  // --- time ---

  #arm(): void {
    if (this.#address === 0) return
    const deadline = this.engine.onetrip_cluster_deadline(this.#address)
    if (deadline < this.#armed) {
      this.#armed = deadline
      clearTimeout(this.#timer)
      this.#timer = setTimeout(() => this.#tick(), timeUntil(deadline))
    }
    // Calls that wait and subscriptions keep the process alive. A later query of the topology does not.
    const { hasShards } = this.subscriptions
    if (this.#entries.size + this.#waiting.length > 0 || hasShards) this.#timer?.ref()
    else this.#timer?.unref()
  }

  #tick(): void {
    this.#armed = Infinity
    this.#timer = undefined
    if (this.#address === 0) return
    this.engine.onetrip_cluster_time(this.#address, now())
    this.#settle()
  }
}

/**
 * SUNSUBSCRIBE. Its confirmation may be of another channel, which the node has unsubscribed by
 * itself.
 */
class Farewell extends Confirmation {
  readonly #pushed: (start: number, end: number) => void

  constructor(name: Buffer, pushed: (start: number, end: number) => void) {
    super(specOf('SUNSUBSCRIBE'), [name], HOW, nothing, nothing)
    this.#pushed = pushed
  }

  override take(): void {
    const start = bare(position())
    const end = skip(start)
    this.#pushed(start, end)
    begin(start)
    super.take()
  }
}

/** The entry of a subscription that the router makes again; nobody waits for it. */
function resubscribing(): Entry {
  const call = new Confirmation(specOf('SSUBSCRIBE'), [''], HOW, nothing, nothing)
  return { call, own: false, flights: [], lastError: undefined }
}

function bytesAt(start: number, end: number): Buffer {
  return Buffer.from(memory.bytes.subarray(start, end))
}

function needsResp3(): RedisError {
  const message =
    'sharded channels of a cluster come by RESP3, which the server does not speak or the options forbid (protocol): subscribe to usual ones'
  return misuse('sharded_needs_resp3', message, 'SSUBSCRIBE')
}

const nothing = (_: unknown): void => {}

const HOW: How = { bytes: false, repeatable: false, alone: false, timeout: 0, signal: undefined }

const now = (): number => performance.now()

/** Whether the call is sent as it is written here; the router only uses its keys. */
function isWhole(call: Call): boolean {
  return call instanceof Atomic || call.script !== undefined
}

/** Writes a call for the router, which does not need the text of a script. */
function written(call: Call, at: number): number {
  if (call.script === undefined) return call.write(at)
  return write(at, EVAL, ['', ...call.args])
}

/** The reply of a call lies at `start`. An atomic list gets one only if it was refused. */
function answered(call: Call, start: number): void {
  if (call instanceof Atomic) return failedBy(call, 0, start)
  begin(start)
  answer(call)
}

/** An error of a server lies at `start`. */
function failedBy(call: Call, outcome: number, start: number): void {
  begin(start)
  const error = next(false, call.leaves, call.spec.name) as RedisError
  call.reject(error.with(OUTCOMES[outcome] ?? error.outcome, call.spec.name))
}

/** Commands that may wait for a node. The router takes some 300 bytes for each beside its own. */
const HELD_MAX = 1_000_000

const NO_SLOT = 0xffff

/** The token of subscriptions that the router makes again. */
const AGAIN = 0xffff_ffff

/** Bytes of the buffer for short commands. */
const SCRATCH = 16 * 1024

const NOT_SENT = OUTCOMES.indexOf('NotSent')

const EVAL = new Words('EVAL')

const CODES: { readonly [why: number]: string | undefined } = {
  [ClusterWhy.LOST]: 'connection_lost',
  [ClusterWhy.UNSERVED]: 'unserved_slot',
  [ClusterWhy.MISMATCH]: 'mismatch',
  [ClusterWhy.NO_MEMORY]: 'no_memory',
  [ClusterWhy.CLOSED]: 'closed',
  [ClusterWhy.CROSS_SLOT]: 'cross_slot',
  [ClusterWhy.KEYS_UNKNOWN]: 'keys_unknown',
  [ClusterWhy.NODE_BY_NODE]: 'node_by_node',
  [ClusterWhy.FULL]: 'queue_full',
}

const ADVICE: { readonly [why: number]: string | undefined } = {
  [ClusterWhy.KEYS_UNKNOWN]: ': send it on a session(key)',
  [ClusterWhy.NODE_BY_NODE]: ': send it on a session(key), with a key of that node',
}

const GONE = new RedisError('the node is no longer part of the cluster', 'node_gone', 'NotSent')

const BAD_TOPOLOGY = new RedisError(
  'the topology of the cluster can\'t be read',
  'bad_topology',
  'NotSent',
)
