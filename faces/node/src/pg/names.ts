/** A name that a query has for its text. */
export interface Named {
  readonly name: string
  readonly text: string
}

/** Names that stand for prepared statements of one connection, and their texts. */
export class Names {
  readonly #parsed: { [name: string]: string }
  /** Of those, what queries that run themselves have not prepared: the engine knows them. */
  readonly #own = new Set<string>()
  /** Of queries on their way, with how many these are. */
  readonly #asked = new Map<string, { text: string; queries: number }>()

  /** `parsed`: those that the server has. */
  constructor(parsed: { [name: string]: string }) {
    this.#parsed = parsed
  }

  /** What a name stands for, or will if all goes well. */
  textOf(name: string): string | undefined {
    return this.#parsed[name] ?? this.#asked.get(name)?.text
  }

  /** A query comes by this name. */
  asked({ name, text }: Named): void {
    const asked = this.#asked.get(name)
    if (this.textOf(name) === undefined) warnOfLength(name)
    if (asked === undefined) this.#asked.set(name, { text, queries: 1 })
    else if (asked.text === text) asked.queries++
  }

  /** The server has taken a text under this name. */
  parsed({ name, text }: Named): void {
    this.#parsed[name] ??= text
    this.#own.add(name)
  }

  /** The text of a name that a query that runs itself has prepared. */
  strangeTextOf(name: string): string | undefined {
    return this.#own.has(name) ? undefined : this.#parsed[name]
  }

  /** The engine prepares it from now on. */
  own(name: string): void {
    this.#own.add(name)
  }

  /** A query by this name is over: unless the server has its statement, the name is free. */
  over({ name, text }: Named): void {
    const asked = this.#asked.get(name)
    if (asked?.text === text && --asked.queries === 0) this.#asked.delete(name)
  }
}

/** What is longer the server cuts off, and two such names may be one. In the words of pg. */
export function warnOfLength(name: string): void {
  if (name.length <= LENGTH_MAX) return
  console.error('Warning! Postgres only supports 63 characters for query names.')
  console.error('You supplied %s (%s)', name, name.length)
  console.error('This can cause conflicts and silent errors executing queries')
}

const LENGTH_MAX = 63
