import type { Server } from './config'
import { nameOf } from './open'
import type { Reply } from './reply'

/** How many hash slots a cluster has. */
export const SLOTS = 16_384

/** How many nodes it can have: with as many shards as there can be, each has a replica. Redis advises against more than 1,000. */
const NODES_MAX = 2 * SLOTS

/** A node of a cluster. */
export type Address = Server & { readonly host: string; readonly port: number }

/** A range of hash slots, the node that takes writes for it, and those that may be read from. */
export interface Shard {
  readonly first: number
  readonly last: number
  readonly master: Address
  readonly replicas: readonly Address[]
}

/** A name or an address as redirects and topologies have them, and nothing else. */
const HOST = /^[A-Za-z0-9._:%-]{1,253}$/

/**
 * Reads an address; one without a host is at the host that answered. Undefined where it can't be
 * one.
 */
export function addressOf(host: string, port: number, asked: string): Address | undefined {
  const bare = host.replace(/^\[(.*)\]$/, '$1')
  const name = bare === '' || bare === '?' ? asked : bare
  if (!HOST.test(name) || !Number.isInteger(port) || port < 1 || port > 65535) return undefined
  return { host: name, port }
}

/** The name by which a node is known here. */
export function idOf(address: Address): string {
  return nameOf(address)
}

/**
 * Reads what a node answers to CLUSTER SLOTS. Names of users, passwords and of certificates are the
 * client's settings: nothing of them is taken from it. Throws where it is anything else than slots
 * with their nodes.
 */
export function readTopology(reply: Reply, asked: string): Shard[] {
  if (!Array.isArray(reply)) throw new Error('an answer to CLUSTER SLOTS is no list')
  const taken = new Uint8Array(SLOTS)
  const names = new Set<string>()
  return reply.map((range) => {
    const [first, last, ...nodes] = (Array.isArray(range) ? range : []) as [
      number,
      number,
      ...Reply[],
    ]
    const fits =
      Number.isInteger(first) &&
      Number.isInteger(last) &&
      first >= 0 &&
      first <= last &&
      last < SLOTS
    if (!fits) throw new Error('a cluster has a slot that there is not')
    for (let slot = first; slot <= last; slot++) {
      if (taken[slot] === 1) throw new Error('a slot of a cluster belongs to two shards')
      taken[slot] = 1
    }
    const [master, ...replicas] = nodes.map((node) => readNode(node, asked))
    if (master === undefined) throw new Error('an answer to CLUSTER SLOTS lacks a node')
    for (const node of [master, ...replicas]) names.add(idOf(node))
    if (names.size > NODES_MAX) throw new Error('a cluster has more nodes than it can')
    return { first, last, master, replicas }
  })
}

/** Host, port, and since 4.0 its id, and since 7.0 other names. */
function readNode(node: Reply, asked: string): Address {
  const [host, port, , other] = (Array.isArray(node) ? node : []) as [Reply, Reply, Reply, Reply]
  const named = typeof host === 'string' ? host : ''
  const ip = named === '?' ? ipOf(other) : ''
  const address = addressOf(ip === '' ? named : ip, Number(port), asked)
  if (address === undefined) throw new Error('a node of a cluster has no address')
  return address
}

/** The address of a node that was not told its name. */
function ipOf(other: Reply): string {
  if (Array.isArray(other)) {
    const at = other.indexOf('ip')
    return at < 0 ? '' : String(other[at + 1])
  }
  const ip =
    typeof other === 'object' && other !== null ? (other as { ip?: unknown }).ip : undefined
  return typeof ip === 'string' ? ip : ''
}

/** Where a cluster sends a command that came to the wrong node. */
export interface Redirect {
  /** From now on; otherwise only this command, behind ASKING. */
  readonly moved: boolean
  readonly slot: number
  readonly address: Address
}

/**
 * Reads the text of an error, as the node that sent it meant it. Undefined for everything that is
 * not exactly a redirect.
 */
export function readRedirect(text: string, asked: string): Redirect | undefined {
  const [, kind, slot, host, port] = /^(MOVED|ASK) (\d{1,5}) (\S*):(\d{1,5})$/.exec(text) ?? []
  if (kind === undefined || Number(slot) >= SLOTS) return undefined
  const address = addressOf(host ?? '', Number(port), asked)
  return address === undefined
    ? undefined
    : { moved: kind === 'MOVED', slot: Number(slot), address }
}
