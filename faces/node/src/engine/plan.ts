import { clock } from './clock'
import { Connect, type ConnectEvent, type ConnectFault, type Exports } from './exports'
import { memory, type Handle } from './memory'

/** What all attempts came to: the place of the error that counts, and the text of it. */
export interface Verdict {
  readonly error: number
  readonly text: string
  readonly isOfMany: boolean
}

/** Why a server will not do: a code, and what stands behind its name. */
export interface Refusal {
  readonly code: string
  readonly text: string
}

/** How a client comes to a server: what to do next. The sockets, TLS and the errors are the host's. */
export class Plan implements Handle {
  engine: Exports = memory.engine
  #address = 0
  readonly #lost: () => void

  /** `lost`: the module failed, and the plan with it. */
  constructor(settings: Iterable<readonly [string, string]>, lost: () => void) {
    let text = ''
    for (const [name, value] of settings) text += `${name}\0${value}\0`
    const bytes = Buffer.from(text)
    this.#lost = lost
    const make = (start: number): number =>
      this.engine.onetrip_connect_new(clock(), start, bytes.length, Math.random())
    this.#address = placed(() => memory.lend(bytes, make)) ?? 0
    memory.handles.add(this)
  }

  /** Whether there was memory for it, and it has not been freed. */
  get isThere(): boolean {
    return this.#address !== 0
  }

  evicted(): void {
    this.#lost()
  }

  /** What is next; of a plan that is not there, or lost with the module, that all has failed. */
  get action(): Connect {
    const action = this.isThere ? this.engine.onetrip_connect_action(this.#address) : 0
    return action === 0 ? Connect.FAILED : action
  }

  /** Whose name or address, by its place in the list. */
  get host(): number {
    return this.engine.onetrip_connect_host(this.#address)
  }

  /** Its place in what was found. */
  get address(): number {
    return this.engine.onetrip_connect_address(this.#address)
  }

  /** When the action is given up; infinity: never. */
  get until(): number {
    return this.engine.onetrip_connect_until(this.#address)
  }

  /** Goes on, unless the server will not do. */
  happened(what: ConnectEvent, a = 0): Refusal | undefined {
    if (!this.isThere) return undefined
    if (this.engine.onetrip_connect_happened(this.#address, clock(), what, a) !== 0) return undefined
    const [code, text] = this.#text().split('\0')
    return { code: code || 'connection_lost', text: text ?? '' }
  }

  failed(what: ConnectFault, text: string): void {
    if (!this.isThere) return
    const bytes = Buffer.from(text)
    const tell = (start: number, length: number): true => {
      this.engine.onetrip_connect_failed(this.#address, clock(), what, start, length)
      return true
    }
    // Without memory for its text it goes on all the same.
    placed(() => memory.lend(bytes, (start) => tell(start, bytes.length))) ?? tell(0, 0)
  }

  /** Once all has failed. */
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

  /** Gives the memory back. Nothing of it is called any more. */
  free(): void {
    memory.handles.delete(this)
    if (this.isThere) this.engine.onetrip_connect_free(this.#address)
    this.#address = 0
  }
}

/** What a call comes to; undefined if there is no memory for what is lent to it. */
function placed<T>(make: () => T): T | undefined {
  try {
    return make()
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}
