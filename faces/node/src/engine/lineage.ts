import type { Link } from './link'
import { memory, type Handle } from './memory'
import type { Exports } from './exports'

/**
 * What one client has seen of servers, in the module: which of them are former primaries. All
 * connections of the client share it, so it lives as long as one of its users.
 */
export class Lineage implements Handle {
  engine: Exports = memory.engine
  #address = 0
  readonly #users = new Set<object>()
  /** The connections whose servers were asked which they are. */
  readonly #links = new Set<Link>()

  /** Its address in the module; 0 if there was no memory for it. */
  get address(): number {
    return this.#address
  }

  /** Keeps it until this user releases it. */
  hold(user: object): void {
    this.#users.add(user)
    if (this.#address === 0) this.#make()
  }

  release(user: object): void {
    this.#users.delete(user)
    if (this.#users.size > 0 || this.#address === 0) return
    memory.handles.delete(this)
    this.engine.onetrip_lineage_free(this.#address)
    this.#address = 0
  }

  /** The module failed, and what was seen is lost with it. */
  evicted(): void {
    this.#make()
  }

  #make(): void {
    this.engine = memory.engine
    this.#address = this.engine.onetrip_lineage_new() >>> 0
    memory.handles.add(this)
  }

  /** The server of a connection has said which it is: connections to former primaries end. */
  met(link: Link): void {
    this.#links.add(link)
    for (const other of [...this.#links]) other.compare(this)
  }

  /** A connection has ended. */
  left(link: Link): void {
    this.#links.delete(link)
  }
}
