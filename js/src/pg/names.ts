/** Names that stand for prepared statements of one connection, and their texts. */
export class Names {
  readonly #parsed: { [name: string]: string }
  /** Of queries on their way, until the server has taken one. */
  readonly #asked = new Map<string, string>()

  constructor(parsed: { [name: string]: string }) {
    this.#parsed = parsed
  }

  /** What a name stands for, or will if all goes well. */
  textOf(name: string): string | undefined {
    return this.#parsed[name] ?? this.#asked.get(name)
  }

  /** A query comes by this name. */
  asked(name: string, text: string): void {
    if (this.textOf(name) === undefined) this.#asked.set(name, text)
  }

  /** The server has taken a text under this name. */
  parsed(name: string): void {
    const text = this.#asked.get(name)
    if (text === undefined) return
    this.#parsed[name] ??= text
    this.#asked.delete(name)
  }

  /** A query by this name failed: unless the server has a statement of that name, it is free. */
  failed(name: string): void {
    this.#asked.delete(name)
  }
}
