/** The name of a query's prepared statement, and its text. */
export interface Named {
  readonly name: string
  readonly text: string
}

/** The names of the prepared statements of one connection, and their texts. */
export class Names {
  readonly #parsed: { [name: string]: string }
  /** The names that the engine has prepared, and not a query that runs itself. */
  readonly #own = new Set<string>()
  /** The names of queries that have not ended, with the number of those queries. */
  readonly #asked = new Map<string, { text: string; queries: number }>()

  /** `parsed`: the statements that the server has. */
  constructor(parsed: { [name: string]: string }) {
    this.#parsed = parsed
  }

  /** The text of a name, also if its query has not been answered. */
  textOf(name: string): string | undefined {
    return this.#parsed[name] ?? this.#asked.get(name)?.text
  }

  /** A query with this name was submitted. */
  asked({ name, text }: Named): void {
    const asked = this.#asked.get(name)
    if (this.textOf(name) === undefined) warnOfLength(name)
    if (asked === undefined) this.#asked.set(name, { text, queries: 1 })
    else if (asked.text === text) asked.queries++
  }

  /** The server has prepared the text under this name. */
  parsed({ name, text }: Named): void {
    this.#parsed[name] ??= text
    this.#own.add(name)
  }

  /** The text of a name that a query which runs itself has prepared. */
  strangeTextOf(name: string): string | undefined {
    return this.#own.has(name) ? undefined : this.#parsed[name]
  }

  /** From now on the engine prepares this name. */
  own(name: string): void {
    this.#own.add(name)
  }

  /**
   * A query with this name has ended. Unless the server has the statement, the name is free again.
   */
  over({ name, text }: Named): void {
    const asked = this.#asked.get(name)
    if (asked?.text === text && --asked.queries === 0) this.#asked.delete(name)
  }
}

/** Warns of a name that the server truncates, so that two names may be one. The texts are pg's. */
export function warnOfLength(name: string): void {
  if (name.length <= LENGTH_MAX) return
  console.error('Warning! Postgres only supports 63 characters for query names.')
  console.error('You supplied %s (%s)', name, name.length)
  console.error('This can cause conflicts and silent errors executing queries')
}

const LENGTH_MAX = 63
