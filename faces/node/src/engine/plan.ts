import { clock } from './clock'
import { Connect, type ConnectEvent, type ConnectFault, type Exports } from './exports'
import type { Lineage } from './lineage'
import type { Link } from './link'
import { memory, type Handle } from './memory'

/** The end of a plan that failed: the index of the error that counts, and the text to show. */
export interface Verdict {
  readonly error: number
  readonly text: string
  readonly isOfMany: boolean
}

/** Why a server is refused: a code, and the text that follows its name. */
export interface Refusal {
  readonly code: string
  readonly text: string
}

/** The connect plan: it says what to do next. The host has the sockets, TLS and the errors. */
export class Plan implements Handle {
  engine: Exports = memory.engine
  #address = 0
  readonly #lineage: Lineage
  readonly #lost: () => void

  /**
   * `lineage`: what its client has seen of servers. `lost` is called if the module fails, and the
   * plan with it.
   */
  constructor(
    settings: Iterable<readonly [string, string]>,
    lineage: Lineage,
    lost: () => void,
  ) {
    let text = ''
    for (const [name, value] of settings) text += `${name}\0${value}\0`
    const bytes = Buffer.from(text)
    this.#lineage = lineage
    this.#lost = lost
    memory.handles.add(this)
    const { address } = lineage
    if (address === 0) return
    const make = (start: number): number =>
      this.engine.onetrip_connect_new(clock(), start, bytes.length, Math.random(), address)
    this.#address = placed(() => memory.lend(bytes, make)) ?? 0
  }

  /** Whether the plan exists: there was memory for it, and it has not been freed. */
  get isThere(): boolean {
    return this.#address !== 0
  }

  evicted(): void {
    this.#lost()
  }

  /** The next action. A plan that does not exist has failed. */
  get action(): Connect {
    const action = this.isThere ? this.engine.onetrip_connect_action(this.#address) : 0
    return action === 0 ? Connect.FAILED : action
  }

  /** The index of the host that the action is for. */
  get host(): number {
    return this.engine.onetrip_connect_host(this.#address)
  }

  /** The index of the address among those that the lookup found. */
  get address(): number {
    return this.engine.onetrip_connect_address(this.#address)
  }

  /** When the action is given up; infinity for never. */
  get until(): number {
    return this.engine.onetrip_connect_until(this.#address)
  }

  /** The action succeeded. Returns a refusal if the server can't be used. */
  happened(what: ConnectEvent, a = 0): Refusal | undefined {
    return this.#judge(() => this.engine.onetrip_connect_happened(this.#address, clock(), what, a))
  }

  /** The login on this connection is over. Returns a refusal as above. */
  loggedIn(link: Link): Refusal | undefined {
    const tell = this.engine.onetrip_connect_logged_in
    return this.#judge(() => tell(this.#address, link.address, this.#lineage.address))
  }

  /** The server of this connection was asked which it is. Returns a refusal as above. */
  identified(link: Link): Refusal | undefined {
    const tell = this.engine.onetrip_connect_identified
    return this.#judge(() => tell(this.#address, link.address, this.#lineage.address))
  }

  #judge(tell: () => number): Refusal | undefined {
    if (!this.isThere || tell() !== 0) return undefined
    const [code, text] = this.#text().split('\0')
    return { code: code || 'connection_lost', text: text ?? '' }
  }

  /** The action failed. */
  failed(what: ConnectFault, text: string): void {
    if (!this.isThere) return
    const bytes = Buffer.from(text)
    const tell = (start: number, length: number): true => {
      const { address } = this.#lineage
      this.engine.onetrip_connect_failed(this.#address, clock(), what, start, length, address)
      return true
    }
    // If there is no memory for the text, the plan goes on without it.
    placed(() => memory.lend(bytes, (start) => tell(start, bytes.length))) ?? tell(0, 0)
  }

  /** The verdict, once the plan has failed. */
  verdict(): Verdict | undefined {
    const verdict = !this.isThere ? -1 : this.engine.onetrip_connect_verdict(this.#address)
    if (verdict < 0) return undefined
    return { error: verdict >> 1, text: this.#text(), isOfMany: (verdict & 1) !== 0 }
  }

  #text(): string {
    const start = this.engine.onetrip_connect_text(this.#address) >>> 0
    const length = this.engine.onetrip_connect_said(this.#address)
    memory.refresh()
    return memory.text(start, start + length)
  }

  /** Frees the plan. It must not be used after that. */
  free(): void {
    memory.handles.delete(this)
    if (this.isThere) this.engine.onetrip_connect_free(this.#address)
    this.#address = 0
  }
}

/** The result of a call; undefined if the module has no memory for its arguments. */
function placed<T>(make: () => T): T | undefined {
  try {
    return make()
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}
