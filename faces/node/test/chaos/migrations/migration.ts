// One case whose DDL another session runs.

import { ended, said, type Book, type End, type Failure } from './book'
import type { Case, Given } from './cases'
import type { Subject, Use } from './clients'
import type { Databases, Kind, Stored } from './databases'

/** A client that knows nothing from before the last migration. */
export interface Oracle {
  readonly kind: Kind
  readonly subject: Subject
}

export interface Stage {
  readonly found: Case
  readonly connections: number
  readonly client: Subject
  /**
   * Makes the clients that this one is held against. What it reads is compared with the first,
   * what it stores with all.
   */
  readonly fresh: () => Oracle[]
  readonly databases: Databases
  readonly below: (limit: number) => number
  readonly book: Book
}

/** Tasks that run statements while a migration happens. */
const TASKS = 3
/** The number before those of the rows whose uses are compared one by one. */
const FIRST = 10_000
/** The first number of the rows that the tasks write. */
const TRAFFIC = 1_000_000
/** How often a text is used on each connection before the migration. */
const USES = 7

/** An error, and when its uses began and ended. */
interface Cost {
  readonly error: Failure
  readonly began: number
  readonly ended: number
}

/** A use at a time of which it is only known in which phases it may have been. */
interface Passed {
  readonly uses: readonly Use[]
  readonly way: string
  readonly from: number
  readonly to: number
  readonly began: number
  readonly ended: number
  readonly end: End
}

const keyOf = ({ statement, given }: Use): string => `${statement.name} ${JSON.stringify(given)}`

export class Migration {
  readonly #stage: Stage
  /** What each use came to at each oracle. By phase: one before the first migration, one behind each. */
  readonly #expected: Map<string, Map<Kind, End>>[] = []
  #phase = 0
  /** Whether a migration has begun of which it is not known whether it has ended. */
  #underway = false
  #nextId = TRAFFIC
  #passed: Passed[] = []
  /** What a migration cost so far. */
  #errors: Cost[] = []
  /** Counts what begins and ends. */
  #moment = 0

  constructor(stage: Stage) {
    this.#stage = stage
  }

  async run(): Promise<void> {
    const { found, below, databases, book, client } = this.#stage
    await this.#compare()
    await this.#warm()
    const before = await databases.connections()
    const phases = found.back.length > 0 ? 1 + below(3) : 1
    while (this.#phase < phases) {
      await this.#migrate(this.#phase % 2 === 0 ? found.migrate : found.back)
      await this.#compare()
    }
    const after = await databases.connections()
    const lost = before.filter((it) => !after.includes(it)).length - client.dropped
    if (lost > 0) book.wrong(`${lost} connections were lost`)
  }

  /** Uses every text on every connection, so often that it is prepared there. */
  async #warm(): Promise<void> {
    const { connections, client } = this.#stage
    for (const way of ['transaction', 'plain', ...(client.ways.includes('named') ? ['named'] : [])]) {
      for (let times = 0; times < USES; times++) {
        const each = Array.from({ length: connections }, () => this.#each())
        if (way === 'transaction') {
          await Promise.all(each.map((uses) => this.#pass(uses, way, () => client.run(way, uses))))
        } else {
          const all = each.flat().map((use) => [use])
          await Promise.all(all.map((uses) => this.#pass(uses, way, () => client.run(way, uses))))
        }
      }
    }
  }

  /** One use of each text, of values from before. */
  #each(): Use[] {
    const { found, below } = this.#stage
    return found.statements.map((statement) => {
      const given = found.before[below(found.before.length)] as Given
      return { statement, given, id: this.#nextId++ }
    })
  }

  async #pass(uses: readonly Use[], way: string, run: () => Promise<string[]>): Promise<void> {
    const [from, began] = [this.#phase, ++this.#moment]
    const end = await ended(run())
    const to = this.#phase + Number(this.#underway)
    this.#passed.push({ uses, way, from, to, began, ended: ++this.#moment, end })
  }

  /** Makes a migration while statements run. */
  async #migrate(texts: readonly string[]): Promise<void> {
    const { below, databases, found, book, client } = this.#stage
    let [going, done] = [true, 0]
    const behind = this.#phase + 1
    // Until it is made, only values come that it can take along.
    const givens = (): Given[] => {
      const all = this.#phase === behind && behind % 2 === 1
      return all ? [...found.before, ...found.after] : [...found.before]
    }
    const task = async (): Promise<void> => {
      while (going) {
        const way = client.ways[below(client.ways.length)] as string
        const count = isSingle(way) ? 1 : 1 + below(3)
        const uses = Array.from({ length: count }, () => this.#any(givens()))
        await this.#pass(uses, way, () => client.run(way, uses))
        done++
      }
    }
    const tasks = Array.from({ length: TASKS }, task)
    const more = async (count: number): Promise<void> => {
      const goal = done + count
      while (done < goal) await new Promise((resolve) => setImmediate(resolve))
    }
    await more(below(12))
    this.#underway = true
    if (below(4) === 0) await this.#migrateItself(texts)
    else await databases.migrate('ours', texts)
    this.#phase++
    this.#underway = false
    book.migrations++
    await more(TASKS + below(12))
    going = false
    await Promise.all(tasks)
    await databases.migrate('real', texts)
    await databases.migrate('fresh', texts)
  }

  #any(givens: readonly Given[]): Use {
    const { found, below } = this.#stage
    const statement = found.statements[below(found.statements.length)] as Use['statement']
    return { statement, given: givens[below(givens.length)] as Given, id: this.#nextId++ }
  }

  /** The client makes the migration in a session of its own. */
  async #migrateItself(texts: readonly string[]): Promise<void> {
    await this.#stage.client.session(async (_, set) => {
      for (let tries = 0; ; tries++) {
        try {
          await set('begin')
          for (const text of texts) await set(text)
          await set('commit')
          return
        } catch (error) {
          await set('rollback')
          if ((error as Failure).code !== '40P01' || tries > 20) throw error
        }
      }
    })
  }

  /** Runs every use here and at the oracles, and compares all that was done since the last time. */
  async #compare(): Promise<void> {
    const { found, databases, fresh } = this.#stage
    const all = this.#phase % 2 === 1 ? [...found.before, ...found.after] : found.before
    const givens = all.filter((it, at) => all.findIndex((other) => isSame(it, other)) === at)
    let id = FIRST + 1000 * this.#phase
    const uses = found.statements.flatMap((statement) => {
      const each = statement.parameters.includes('value') ? givens : [null]
      return each.map((given) => ({ statement, given, id: ++id }))
    })
    const oracles = fresh()
    const expected = new Map<string, Map<Kind, End>>()
    this.#expected.push(expected)
    for (const use of uses) {
      const ends = new Map<Kind, End>()
      for (const { kind, subject } of oracles) ends.set(kind, await ended(subject.run('plain', [use])))
      expected.set(keyOf(use), ends)
    }
    await Promise.all(oracles.map(({ subject }) => subject.end()))
    const judge = (oracles[0] as Oracle).kind
    const missing = await this.#same(uses, judge)
    const stored = new Map<Kind, Stored>()
    for (const kind of ['ours' as const, ...oracles.map((it) => it.kind)]) {
      stored.set(kind, await databases.stored(kind, found.tables))
    }
    this.#sameStored(uses.filter((it) => !missing.has(it)), oracles, stored)
    this.#judgePassed(judge, stored)
    this.#judgeErrors()
  }

  /** Runs every use here, and compares it with its oracle. Returns those that were given up. */
  async #same(uses: readonly Use[], judge: Kind): Promise<Set<Use>> {
    const { client, below } = this.#stage
    const missing = new Set<Use>()
    const expected = (use: Use): End => this.#end(this.#phase, use, judge) as End
    let at = 0
    while (at < uses.length) {
      const way = client.ways[below(client.ways.length)] as string
      let unit = uses.slice(at, at + (isSingle(way) ? 1 : 1 + below(3)))
      // One that fails would undo its neighbours.
      if (unit.some((use) => 'error' in expected(use))) unit = unit.slice(0, 1)
      at += unit.length
      if (!(await this.#sameUnit(way, unit, unit.map(expected)))) for (const use of unit) missing.add(use)
    }
    return missing
  }

  async #sameUnit(way: string, unit: readonly Use[], expected: readonly End[]): Promise<boolean> {
    const { client, connections, book } = this.#stage
    const what = (at: number): string => `phase ${this.#phase}, ${way}, ${keyOf(unit[at] as Use)}`
    for (let tries = 0; ; tries++) {
      book.uses += unit.length
      const began = ++this.#moment
      const end = await ended(client.run(way, unit))
      const wanted = expected[0] as End
      if ('rows' in end) {
        expected.forEach((it, at) => {
          const got = end.rows[at]
          const same = 'rows' in it && it.rows[0] === got
          const kind = 'error' in it ? 'taken' : 'differs'
          if (!same) book.wrong(`${kind}: ${what(at)}: ${got} and not ${said(it)}`)
        })
        return true
      }
      if ('error' in wanted && wanted.error.code === end.error.code) return false
      if (tries > connections) {
        const kind = 'error' in wanted ? 'fails otherwise' : 'fails again and again'
        book.wrong(`${kind}: ${what(0)}: ${said(end)} and not ${expected.map(said).join(' ')}`)
        return false
      }
      this.#errors.push({ error: end.error, began, ended: ++this.#moment })
    }
  }

  #end(phase: number, use: Use, kind: Kind): End | undefined {
    const given = use.statement.parameters.includes('value') ? use.given : null
    return this.#expected[phase]?.get(keyOf({ ...use, given }))?.get(kind)
  }

  #sameStored(uses: readonly Use[], oracles: readonly Oracle[], stored: Map<Kind, Stored>): void {
    const { book } = this.#stage
    for (const { kind } of oracles) {
      for (const use of uses) {
        const end = this.#end(this.#phase, use, kind)
        if (end === undefined || 'error' in end) continue
        const [ours, theirs] = [stored.get('ours'), stored.get(kind)].map((it) => it?.get(use.id)?.join(' '))
        if (ours !== theirs) {
          book.wrong(`stored: phase ${this.#phase}, ${keyOf(use)}: ${ours} and not ${theirs} (${kind})`)
        }
      }
    }
  }

  /** What ran beside a migration has to be as on one of its two sides. */
  #judgePassed(judge: Kind, stored: Map<Kind, Stored>): void {
    const { book, found } = this.#stage
    const theirs = this.#storedBy(stored.get(judge) as Stored)
    for (const { uses, way, from, to, began, ended, end } of this.#passed) {
      book.uses += uses.length
      const phases = from === to ? [from] : [from, to]
      const mayFail = uses.some((use) => phases.some((it) => 'error' in (this.#end(it, use, judge) ?? {})))
      if ('error' in end) {
        if (!mayFail && end.error.code !== '40P01') this.#errors.push({ error: end.error, began, ended })
      }
      uses.forEach((use, at) => {
        const what = `phases ${phases.join(' and ')}, ${way}, ${keyOf(use)}`
        const row = stored.get('ours')?.get(use.id)?.join(' ')
        if ('error' in end) {
          if (row !== undefined) book.wrong(`stored: ${what}: ${row} in spite of ${said(end)}`)
          return
        }
        const wanted = phases.map((it) => this.#end(it, use, judge))
        if (!wanted.some((it) => it !== undefined && 'rows' in it && it.rows[0] === end.rows[at])) {
          const isTaken = wanted.every((it) => it !== undefined && 'error' in it)
          const kind = isTaken ? 'taken' : 'differs'
          book.wrong(`${kind}: ${what}: ${end.rows[at]} and not ${wanted.map(said).join(' or ')}`)
        }
        const rows = phases.map((it) => theirs.get(`${it} ${keyOf(use)}`))
        if (!rows.includes(row) && !(row === undefined && found.forgets)) {
          book.wrong(`stored: ${what}: ${row} and not ${rows.join(' or ')}`)
        }
      })
    }
    this.#passed = []
  }

  /** What an oracle's uses have stored, by phase and use. */
  #storedBy(stored: Stored): Map<string, string> {
    const all = new Map<string, string>()
    this.#expected.forEach((uses, phase) => {
      let id = FIRST + 1000 * phase
      for (const key of uses.keys()) {
        const row = stored.get(++id)?.join(' ')
        if (row !== undefined) all.set(`${phase} ${key}`, row)
      }
    })
    return all
  }

  /** One error at most for each connection and migration. */
  #judgeErrors(): void {
    const { found, connections, book } = this.#stage
    const budget = this.#phase === 0 || found.calm ? 0 : connections
    for (const { error } of this.#errors) book.cost(error)
    // Those that were in flight with the first one can't have known.
    const first = Math.min(...this.#errors.map((it) => it.ended))
    const behind = this.#errors.filter(({ began }) => began > first).length
    if (Math.min(this.#errors.length, 1 + behind) > budget) {
      const all = this.#errors.map(({ error }) => said({ error })).join('; ')
      const count = `${this.#errors.length} for ${connections} connections, ${behind} sent behind the first`
      book.wrong(`errors: phase ${this.#phase}: ${count}: ${all}`)
    }
    this.#errors = []
  }
}

const isSame = (one: Given, other: Given): boolean => JSON.stringify(one) === JSON.stringify(other)

function isSingle(way: string): boolean {
  return ['plain', 'lent', 'named', 'streamed'].includes(way)
}
