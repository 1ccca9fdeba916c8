import type { Call, Route } from './call'
import type { Config } from './config'
import type { Node } from './core'
import { RedisError } from './error'
import type { NodeMap } from './node-map'
import { readRedirect } from './topology'

/** What nodes answer that can't take a command for a while. */
const LATER = new Set(['TRYAGAIN', 'CLUSTERDOWN', 'MASTERDOWN', 'LOADING'])

/** What blocks is told so by a node that becomes a replica. By CLIENT UNBLOCK it is told otherwise. */
const DEMOTED = 'UNBLOCKED force'

/** Errors of this side behind which a command is tried on the node that has its slot by then. */
const ELSEWHERE = new Set([
  'connect_failed',
  'connect_timeout',
  'no_connection',
  'connection_ended',
  'node_gone',
  'stalled',
])

/** How often a command is sent that nodes can't take for a while. */
const ATTEMPTS_MAX = 20

/**
 * What is held back of a hash slot, so that it does not overtake what was sent to the node that had
 * it.
 */
interface Lane {
  /** What is unanswered there, or waits to be sent again. */
  before: number
  readonly held: Flight[]
}

/** A call, and how far it is. */
class Flight implements Route {
  readonly call: Call
  readonly slot: number
  readonly own: boolean
  /** When it was called; of what blocks, when it was last refused: it may have been blocked for long. */
  since = performance.now()
  readonly #lanes: Lanes
  node: Node | undefined
  redirects = 0
  attempts = 0
  /** The lane that waits for it. */
  blocks: Lane | undefined
  /** The topology that is needed to follow a redirect. */
  needs = 0

  constructor(lanes: Lanes, call: Call, slot: number, own: boolean) {
    this.#lanes = lanes
    this.call = call
    this.slot = slot
    this.own = own
  }

  landed(error: RedisError | undefined): boolean {
    return this.#lanes.landed(this, error)
  }
}

/**
 * Commands of one hash slot reach a node in the order in which they were called, as long as one
 * node has the slot. What a node refuses with a redirect is sent to the new one at once, in that
 * order; what comes later waits until nothing of the slot is unanswered at the old one.
 */
export class Lanes {
  readonly #config: Config
  readonly #map: NodeMap
  readonly #lanes = new Map<number, Lane>()
  /** By slot: what is unanswered. */
  readonly #flying = new Map<number, Set<Flight>>()
  /** What waits for a node to have its slot, or for a topology. */
  #grounded = new Set<Flight>()
  #timer: NodeJS.Timeout | undefined
  #empty: (() => void)[] = []

  constructor(config: Config, map: NodeMap) {
    this.#config = config
    this.#map = map
  }

  /** Sends a call to the node that has its slot, behind what was called before it. */
  send(call: Call, slot: number, own: boolean): void {
    const flight = new Flight(this, call, slot, own)
    call.route = flight
    // What blocks has no place in any order.
    const lane = own ? undefined : this.#lanes.get(slot)
    if (lane === undefined) return this.#depart(flight)
    lane.held.push(flight)
    call.takeBack = () => remove(lane.held, flight)
  }

  #depart(flight: Flight): void {
    const { call, slot } = flight
    if (call.settled) return this.#released(flight)
    const reads =
      this.#config.replicaReads && call.spec.readonly && !flight.own && flight.attempts === 0
    const node = reads ? this.#map.readerOf(slot) : this.#map.masterOf(slot)
    if (node === undefined) return this.#ground(flight, this.#map.version + 1)
    this.#fly(flight, node)
  }

  #fly(flight: Flight, node: Node): void {
    const { call, slot } = flight
    flight.node = node
    let flying = this.#flying.get(slot)
    if (flying === undefined) this.#flying.set(slot, (flying = new Set()))
    flying.add(flight)
    call.reset()
    if (flight.own) return node.sendOwn(call)
    node.send(call)
    // It has its place among those to that node, and what comes later goes behind it.
    this.#released(flight)
  }

  /** Not for callers: a call ended at its node. Whether it goes on. */
  landed(flight: Flight, error: RedisError | undefined): boolean {
    const flying = this.#flying.get(flight.slot)
    if (flying?.delete(flight) === true && flying.size === 0) this.#flying.delete(flight.slot)
    const goesOn = error !== undefined && this.#goesOn(flight, error)
    if (!goesOn) {
      this.#grounded.delete(flight)
      this.#released(flight)
    }
    this.#look()
    return goesOn
  }

  #goesOn(flight: Flight, error: RedisError): boolean {
    const { node } = flight
    if (node === undefined) return false
    if (error.outcome === 'NotSent' && ELSEWHERE.has(error.code)) return this.#later(flight)
    if (error.outcome !== 'Rejected') return false
    if (flight.own) flight.since = performance.now()
    if (LATER.has(error.code) || error.message.startsWith(DEMOTED)) return this.#later(flight)
    const redirect = readRedirect(error.message, this.#map.hostOf(node))
    if (redirect === undefined || redirect.slot !== flight.slot) return false
    if (++flight.redirects > this.#config.redirectsMax) return false
    const target = this.#map.at(redirect.address)
    this.#block(flight)
    if (redirect.moved) this.#map.want()
    if (target === undefined) {
      this.#ground(flight, this.#map.version + 1)
    } else if (!redirect.moved) {
      flight.call.asking = true
      this.#fly(flight, target)
    } else {
      // One that was sent before the slot moved can know less than we do.
      if (
        this.#map.masterOf(flight.slot) === node ||
        this.#map.masterOf(flight.slot) === undefined
      ) {
        this.#map.give(flight.slot, target)
      }
      this.#depart(flight)
    }
    return true
  }

  /** Sends it again after a pause, unless that was done often enough. */
  #later(flight: Flight): boolean {
    const { call } = flight
    if (
      flight.attempts >= ATTEMPTS_MAX ||
      performance.now() - flight.since > this.#config.waitTimeout
    )
      return false
    const pause = Math.min(10 * 2 ** flight.attempts++, 1_000) * (0.5 + Math.random() / 2)
    this.#map.want()
    this.#block(flight)
    const timer = setTimeout(() => {
      call.takeBack = undefined
      this.#grounded.delete(flight)
      this.#depart(flight)
    }, pause)
    this.#grounded.add(flight)
    flight.needs = Infinity
    call.takeBack = () => {
      clearTimeout(timer)
      return this.#grounded.delete(flight)
    }
    this.#arm()
    return true
  }

  /**
   * What comes later waits until this, and all that is unanswered of its slot, has arrived
   * somewhere.
   */
  #block(flight: Flight): void {
    if (flight.own) return
    const lane = this.#lanes.get(flight.slot) ?? { before: 0, held: [] }
    if (!this.#lanes.has(flight.slot)) {
      this.#lanes.set(flight.slot, lane)
      this.#arm()
      for (const other of this.#flying.get(flight.slot) ?? []) {
        if (other.own || other.blocks !== undefined) continue
        other.blocks = lane
        lane.before++
      }
    }
    if (flight.blocks !== undefined) return
    flight.blocks = lane
    lane.before++
  }

  /** It is where it belongs, or nowhere any more: what waited for it may leave. */
  #released(flight: Flight): void {
    const lane = flight.blocks
    flight.blocks = undefined
    if (lane === undefined || --lane.before > 0) return
    this.#lanes.delete(flight.slot)
    for (const held of lane.held.splice(0)) {
      held.call.takeBack = undefined
      if (held.call.settled) continue
      this.send(held.call, held.slot, false)
    }
  }

  // --- what waits for a topology ---

  #ground(flight: Flight, needs: number): void {
    const { call } = flight
    flight.needs = needs
    this.#block(flight)
    this.#grounded.add(flight)
    call.takeBack = () => this.#grounded.delete(flight)
    this.#map.want()
    if (!this.#map.isKnown)
      this.#map.ready().catch((error: RedisError) => this.#failGrounded(error))
    this.#arm()
  }

  #failGrounded(error: RedisError): void {
    for (const flight of [...this.#grounded])
      if (flight.needs < Infinity) flight.call.fail(error, 'NotSent')
  }

  /** The topology came, and these slots have another owner than before. */
  follow(changed: readonly number[]): void {
    for (const slot of changed) {
      // Sent to the node that had it, or waiting for it: what comes later is not to overtake that.
      const first = [...(this.#flying.get(slot) ?? [])].find(({ own }) => !own)
      if (first !== undefined) this.#block(first)
    }
    for (const flight of [...this.#grounded]) {
      if (flight.needs > this.#map.version || !this.#grounded.delete(flight)) continue
      flight.call.takeBack = undefined
      this.#depart(flight)
    }
  }

  #arm(): void {
    if (this.#timer !== undefined || this.#grounded.size + this.#lanes.size === 0) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#expire()
      this.#arm()
    }, 50)
  }

  #expire(): void {
    const now = performance.now()
    for (const { held } of this.#lanes.values()) {
      for (const { call } of [...held]) if (call.deadline <= now) call.expire('NotSent')
    }
    for (const flight of [...this.#grounded]) {
      const { call } = flight
      const outcome = flight.redirects + flight.attempts > 0 ? 'Rejected' : 'NotSent'
      if (call.deadline <= now) call.expire(outcome)
      else if (flight.needs < Infinity && now - flight.since > this.#config.waitTimeout) {
        const message = 'no node of the cluster took it in time'
        call.reject(new RedisError(message, 'unserved_slot', outcome, call.spec.name))
      }
    }
  }

  /** Resolves when nothing is on its way. */
  settled(): Promise<void> {
    return new Promise((resolve) => {
      this.#empty.push(resolve)
      this.#look()
    })
  }

  #look(): void {
    if (this.#empty.length === 0 || this.#flying.size + this.#grounded.size + this.#lanes.size > 0)
      return
    clearTimeout(this.#timer)
    for (const resolve of this.#empty.splice(0)) resolve()
  }

  /** Ends all that is not on its way. */
  fail(error: RedisError): void {
    for (const flight of [...this.#grounded]) flight.call.fail(error, 'NotSent')
    for (const lane of this.#lanes.values())
      for (const held of lane.held.splice(0)) held.call.fail(error, 'NotSent')
  }
}

function remove<T>(list: T[], item: T): boolean {
  const at = list.indexOf(item)
  if (at < 0) return false
  list.splice(at, 1)
  return true
}
