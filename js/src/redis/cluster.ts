import { Request, Response } from '../engine/exports'
import { Atomic } from './atomic'
import type { Call } from './call'
import type { Config } from './config'
import { type Core, Node } from './core'
import type { Argument } from './encode'
import { misuse, RedisError } from './error'
import { combined, gather, split } from './gather'
import { Lanes } from './lanes'
import { closedError } from './line'
import type { Lease } from './own'
import type { Reply } from './reply'
import { slotOf, specOf } from './spec'
import type { Subscriptions } from './subscriptions'
import { NodeMap } from './node-map'

/**
 * Where commands of a cluster go: each to the node that has its keys, and in the order of the calls
 * for each hash slot.
 */
export class Cluster implements Core {
  readonly config: Config
  /**
   * The servers of the configuration: they are asked for the topology at first, and carry the
   * subscriptions.
   */
  readonly #home: Node
  readonly #map: NodeMap
  readonly #lanes: Lanes
  #isClosed = false

  constructor(config: Config) {
    // Databases other than the first are not for clusters.
    this.config = { ...config, database: 0 }
    this.#home = new Node(this.config, config.servers)
    this.#map = new NodeMap(this.config, this.#home, (changed) => this.#lanes.follow(changed))
    this.#lanes = new Lanes(this.config, this.#map)
  }

  get subscriptions(): Subscriptions {
    return this.#home.subscriptions
  }

  connect(): void {
    this.#map.want()
  }

  send(call: Call): void {
    this.#send(call, false)
  }

  sendOwn(call: Call): void {
    this.#send(call, true)
  }

  #send(call: Call, own: boolean): void {
    if (this.#isClosed) return call.reject(closedError())
    let slot: number | undefined
    try {
      slot = this.#slot(call)
    } catch (error) {
      return error === SPLIT ? this.#split(call) : call.reject(error as RedisError)
    }
    if (slot !== undefined) return this.#lanes.send(call, slot, own)
    this.#keyless(call, own)
  }

  /**
   * The one hash slot of all keys; undefined where there are none. Throws where they lie in
   * several.
   */
  #slot(call: Call): number | undefined {
    if (call instanceof Atomic) return slotOfAll(call)
    const { script, spec, args } = call
    const all: readonly Argument[] = script === undefined ? args : ['', ...args]
    const keys = spec.keys(all)
    if (keys === undefined || keys.other < 0) return keys?.slot
    if (spec.request === Request.MULTI_SHARD && spec.name !== 'MSETNX') throw SPLIT
    throw crossSlot([all[keys.first] as Argument, all[keys.other] as Argument], spec.name)
  }

  #split(call: Call): void {
    const { spec, args } = call
    const { parts, order } = split(spec.name, args)
    const combine = (replies: Reply[]): Reply =>
      spec.response === Response.USUAL
        ? order.map(([part, at]) => (replies[part] as Reply[])[at] as Reply)
        : combined(spec.name, spec.response, [], replies)
    gather(call, parts, (part, slot) => this.#lanes.send(part, slot, false), combine, false)
  }

  #keyless(call: Call, own: boolean): void {
    const { spec, args } = call
    const known = call instanceof Atomic || call.script !== undefined ? undefined : spec.with(args)
    if (known !== undefined && !known.keysKnown) {
      const message = `which arguments of ${spec.name} are keys is not known: take a session() for the key`
      return call.reject(misuse('keys_unknown', message, spec.name))
    }
    if (known?.request === Request.SPECIAL) {
      const message = `${spec.name} means something on one node only: take a session() for a key of that node`
      return call.reject(misuse('node_by_node', message, spec.name))
    }
    const all = known?.request === Request.ALL_NODES || known?.request === Request.ALL_SHARDS
    this.#map.ready().then(
      () => {
        if (call.settled) return
        if (all && known !== undefined) return this.#everywhere(call, known.request, known.response)
        this.#lanes.send(call, this.#map.anySlot(), own)
      },
      (error: RedisError) => call.fail(error, 'NotSent'),
    )
  }

  #everywhere(call: Call, request: number, response: number): void {
    const nodes = this.#map.all(request === Request.ALL_NODES)
    const names = nodes.map(({ id }) => id)
    gather(
      call,
      nodes.map(({ node }) => ({ to: node, args: call.args })),
      (part, node) => node.send(part),
      (replies) => combined(call.spec.name, response, names, replies),
      response === Response.ONE_SUCCEEDED,
    )
  }

  async borrow(key: string | Uint8Array | undefined): Promise<Lease> {
    if (this.#isClosed) throw closedError()
    await this.#map.ready()
    const slot = key === undefined ? this.#map.anySlot() : slotOf(key)
    const node = this.#map.masterOf(slot)
    if (node !== undefined) return node.borrow()
    throw new RedisError(
      'no node of the cluster has the hash slot of the key',
      'unserved_slot',
      'NotSent',
    )
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#lanes.settled()
    await this.#map.close()
  }

  destroy(error: RedisError): void {
    this.#isClosed = true
    this.#lanes.fail(error)
    this.#map.destroy(error)
  }
}

/** Not an error: the command is to be split by the hash slots of its keys. */
const SPLIT = Symbol('split')

function slotOfAll(call: Atomic): number | undefined {
  let first: [Argument, number] | undefined
  for (const { spec, args, script } of call.items) {
    const all: readonly Argument[] = script === undefined ? args : ['', ...args]
    const keys = specOf(script === undefined ? spec.name : 'EVAL').keys(all)
    if (keys === undefined) continue
    const key = all[keys.first] as Argument
    if (keys.other >= 0) throw crossSlot([key, all[keys.other] as Argument], spec.name)
    first ??= [key, keys.slot]
    if (first[1] !== keys.slot) throw crossSlot([first[0], key], spec.name)
  }
  return first?.[1]
}

function crossSlot(keys: readonly [Argument, Argument], name: string): RedisError {
  const [first, second] = keys.map((key) => `"${shown(key)}" (hash slot ${slotOf(key)})`)
  const message = `the keys ${first} and ${second} may lie on different nodes: a part in braces that both have, as in {user}.name, puts them into one slot`
  return misuse('cross_slot', message, name)
}

function shown(key: Argument): string {
  const text = key instanceof Uint8Array ? Buffer.from(key).toString('latin1') : `${key}`
  const short = text.length > 48 ? `${text.slice(0, 48)}…` : text
  return JSON.stringify(short).slice(1, -1)
}
