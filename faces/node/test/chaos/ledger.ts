// The ledger: the rows that were written, the outcomes that the client reported, and the comparison
// with the table.

/** What the outcomes claim about rows: they are there, they are absent, or either. */
export type Claim = 'there' | 'absent' | 'either'

/** Rows that are committed together. */
export interface Unit {
  readonly what: string
  readonly numbers: readonly number[]
  readonly claims: Claim[]
  readonly said: string[]
  ended: boolean
}

/** An error with an outcome. */
interface Failure extends Error {
  readonly outcome?: string
  readonly code?: string
}

const CLAIMS: Record<string, Claim> = {
  NotSent: 'absent',
  Rejected: 'absent',
  Applied: 'there',
  Unknown: 'either',
}

export class Ledger {
  readonly units: Unit[] = []
  readonly wrong: string[] = []
  #next = 0

  begin(what: string, count = 1): Unit {
    const numbers = Array.from({ length: count }, () => this.#next++)
    const unit = { what, numbers, claims: [], said: [], ended: false }
    this.units.push(unit)
    return unit
  }

  /** The next number. Rows that are only read get one, too. */
  number(): number {
    return this.#next++
  }

  /** Records the outcome of a failure. */
  failed(unit: Unit, error: unknown): void {
    const { outcome, code, message } = error as Failure
    const claim = CLAIMS[outcome ?? '']
    if (claim === undefined) this.wrong.push(`${unit.what} failed without an outcome: ${code} ${message}`)
    unit.claims.push(claim ?? 'either')
    unit.said.push(`${outcome} ${code} ${message}`)
  }

  /** Awaits the result that says whether the rows are committed. */
  async settle(unit: Unit, result: PromiseLike<unknown>): Promise<boolean> {
    try {
      await result
      unit.claims.push('there')
      return true
    } catch (error) {
      this.failed(unit, error)
      return false
    } finally {
      unit.ended = true
    }
  }

  end(unit: Unit, ...claims: Claim[]): void {
    unit.claims.push(...claims)
    unit.ended = true
  }

  /** The differences from the table, which is given as the count of each number. */
  check(table: ReadonlyMap<number, number>): string[] {
    const wrong = [...this.wrong]
    const own = new Set<number>()
    for (const unit of this.units) {
      unit.numbers.forEach((n) => own.add(n))
      const why = wrongWith(unit, table)
      if (why) wrong.push(`${why}: ${JSON.stringify(unit)}`)
    }
    for (const n of table.keys()) if (!own.has(n)) wrong.push(`row ${n} was never written`)
    return wrong
  }

  /** The number of rows for each claim. */
  tally(): Record<string, number> {
    const tally: Record<string, number> = {}
    for (const { claims, numbers } of this.units) {
      const claim = claims.find((it) => it !== 'either') ?? 'either'
      tally[claim] = (tally[claim] ?? 0) + numbers.length
    }
    return tally
  }
}

function wrongWith(unit: Unit, table: ReadonlyMap<number, number>): string | undefined {
  const times = unit.numbers.map((n) => table.get(n) ?? 0)
  const there = times.filter((count) => count > 0).length
  if (!unit.ended || unit.claims.length === 0) return 'it never ended'
  if (times.some((count) => count > 1)) return 'a row is there more than once'
  if (there > 0 && there < times.length) return 'a part is there'
  if (there > 0 && unit.claims.includes('absent')) return 'it is there, and should not be'
  if (there === 0 && unit.claims.includes('there')) return 'it is lost'
  return undefined
}
