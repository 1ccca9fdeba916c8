import { Role } from '../engine/exports'
import { Atomic } from './atomic'
import type { Cache } from './cache'
import type { Call } from './call'
import type { Config } from './config'
import { type Core, Node } from './core'
import type { RedisError } from './error'
import type { Lease } from './own'
import { Sentinels } from './sentinels'
import type { Subscriptions } from './subscriptions'

/** The master that Sentinels name, and a replica for reads if the settings ask for one. */
export class Followed implements Core {
  readonly config: Config
  readonly cache: Cache | undefined
  readonly subscriptions: Subscriptions
  readonly #sentinels: Sentinels
  readonly #master: Node
  readonly #replica: Node | undefined

  constructor(config: Config) {
    this.config = config
    this.#sentinels = new Sentinels(config)
    this.#master = this.#node(config, Role.MASTER)
    const isRead = config.sentinel?.reads !== 'master'
    // What is kept is of the master.
    this.#replica = isRead ? this.#node({ ...config, cache: 0 }, Role.REPLICA) : undefined
    this.cache = this.#master.cache
    this.subscriptions = this.#master.subscriptions
  }

  #node(config: Config, role: Role): Node {
    return new Node(config, config.servers, { seating: { sentinels: this.#sentinels, role } })
  }

  send(call: Call): void {
    const replica = this.#replica
    if (replica === undefined || call.isForMaster || !isAlone(call)) return this.#master.send(call)
    // `prefer_replica` uses one while a connection to it stands, so one is always wanted.
    replica.connect()
    const isRead = this.#sentinels.isForReplica(call.spec.readonly)
    ;(isRead ? replica : this.#master).send(call)
  }

  sendOwn(call: Call): void {
    this.#master.sendOwn(call)
  }

  borrow(): Promise<Lease> {
    return this.#master.borrow()
  }

  connect(): void {
    this.#master.connect()
  }

  async close(): Promise<void> {
    await Promise.all([this.#master.close(), this.#replica?.close()])
    this.#sentinels.close()
  }

  destroy(error: RedisError): void {
    this.#master.destroy(error)
    this.#replica?.destroy(error)
    this.#sentinels.close()
  }
}

function isAlone(call: Call): boolean {
  return call.script === undefined && !(call instanceof Atomic)
}
