/**
 * A cache: at most `limit` values are kept, and at least the `limit / 2` that were used last.
 * Values that have not been used for long are forgotten.
 */
export class Recent<K, V> {
  #young = new Map<K, V>()
  #old = new Map<K, V>()
  readonly #half: number

  constructor(limit: number) {
    this.#half = limit / 2
  }

  /** The value. Reading it counts as a use. */
  get(key: K): V | undefined {
    const young = this.#young.get(key)
    if (young !== undefined) return young
    const old = this.#old.get(key)
    if (old !== undefined) this.set(key, old)
    return old
  }

  set(key: K, value: V): void {
    this.#old.delete(key)
    this.#young.set(key, value)
    if (this.#young.size < this.#half) return
    this.#old = this.#young
    this.#young = new Map()
  }

  get size(): number {
    return this.#young.size + this.#old.size
  }
}
