// One case in which sessions of the client itself change what its texts mean.

import { ended, said, type End } from './book'
import type { Case, Given } from './cases'
import type { Subject, Use } from './clients'
import type { Kind } from './databases'
import type { Stage } from './migration'

const USES = 7

/** A use in a session, and what it came to. */
interface Done {
  readonly step: number
  readonly use: Use
  readonly end: End
}

export class Sessions {
  readonly #stage: Stage

  constructor(stage: Stage) {
    this.#stage = stage
  }

  async run(): Promise<void> {
    const { found, connections, databases, book, client } = this.#stage
    await Promise.all(Array.from({ length: connections }, () => this.#warm()))
    const before = await databases.connections()
    // In one session, one setting after the other, and then the first again.
    const steps = [...found.sessions.keys(), ...(found.chained ? [] : [0])]
    await this.#same(await this.#oracles(steps, 10_000), await inOne(client, found, steps, 10_000))
    if (!found.chained) {
      const ours = await inSeveral(client, found, connections > 1, 50_000)
      await this.#same(await this.#oracles([...found.sessions.keys()], 50_000), ours)
    }
    const after = await databases.connections()
    const lost = before.filter((it) => !after.includes(it)).length - client.dropped
    if (lost > 0) book.wrong(`${lost} connections were lost`)
  }

  /** What the steps come to where a new client makes each of them. */
  async #oracles(steps: readonly number[], first: number): Promise<Map<Kind, Done[]>> {
    const all = new Map<Kind, Done[]>()
    for (const at of steps.keys()) {
      for (const { kind, subject } of this.#stage.fresh()) {
        const done = await atLast(subject, this.#stage.found, steps.slice(0, at + 1), first + 1000 * at)
        all.set(kind, [...(all.get(kind) ?? []), ...done])
        await subject.end()
      }
    }
    return all
  }

  /** Uses every text under the first setting. */
  async #warm(): Promise<void> {
    const { found, client, below, book } = this.#stage
    await client.session(async (run, set) => {
      for (const text of found.sessions[0] ?? []) await set(text)
      for (let times = 0; times < USES; times++) {
        for (const statement of found.statements) {
          const given = found.before[below(found.before.length)] as Given
          const end = await ended(run({ statement, given, id: 1 }).then((it) => [it]))
          if ('error' in end) book.wrong(`${statement.name} fails before anything has changed: ${said(end)}`)
        }
      }
    })
  }

  async #same(oracles: Map<Kind, Done[]>, ours: readonly Done[]): Promise<void> {
    const { book, databases, found } = this.#stage
    book.uses += ours.length
    book.migrations++
    const [judge] = oracles.values()
    const gone = new Set<number>()
    ours.forEach(({ step, use, end }, at) => {
      const wanted = judge?.[at]?.end
      const what = `step ${step}, ${use.statement.name} ${JSON.stringify(use.given)}: ${said(end)} and not ${said(wanted)}`
      if (wanted !== undefined && 'error' in wanted && 'error' in end && end.error.code === wanted.error.code) return
      if ('error' in end) {
        gone.add(use.id)
        book.cost(end.error)
        book.wrong(`errors: ${what}`)
      } else if (said(end) !== said(wanted)) {
        book.wrong(`${wanted !== undefined && 'error' in wanted ? 'taken' : 'differs'}: ${what}`)
      }
    })
    const here = await databases.stored('ours', found.tables)
    for (const [kind, done] of oracles) {
      const there = await databases.stored(kind, found.tables)
      for (const { use, step, end } of done) {
        const [mine, theirs] = [here, there].map((it) => it.get(use.id)?.join(' '))
        if (!gone.has(use.id) && 'rows' in end && mine !== theirs) {
          const what = `step ${step}, ${use.statement.name} ${JSON.stringify(use.given)}`
          book.wrong(`stored: ${what}: ${mine} and not ${theirs} (${kind})`)
        }
      }
    }
  }
}

function usesOf(found: Case, first: number): Use[] {
  let id = first
  return found.statements.flatMap((statement) =>
    [...found.before, ...found.after].map((given) => ({ statement, given, id: ++id })),
  )
}

/** Makes all settings, and then the uses of the last one. */
async function atLast(on: Subject, found: Case, steps: readonly number[], first: number): Promise<Done[]> {
  const done: Done[] = []
  await on.session(async (run, set) => {
    const step = steps.at(-1) as number
    for (const earlier of steps.slice(0, -1)) {
      // What they have altered is altered.
      for (const text of found.sessions[earlier] ?? []) if (!text.startsWith('alter')) await set(text)
    }
    for (const text of found.sessions[step] ?? []) await set(text)
    for (const use of usesOf(found, first)) {
      done.push({ step, use, end: await ended(run(use).then((it) => [it])) })
    }
  })
  return done
}

async function inOne(on: Subject, found: Case, steps: readonly number[], first: number): Promise<Done[]> {
  const done: Done[] = []
  await on.session(async (run, set) => {
    for (const [at, step] of steps.entries()) {
      for (const text of found.sessions[step] ?? []) await set(text)
      for (const use of usesOf(found, first + 1000 * at)) {
        done.push({ step, use, end: await ended(run(use).then((it) => [it])) })
      }
    }
  })
  return done
}

/** In sessions of their own, at the same time if there are connections for it. */
async function inSeveral(on: Subject, found: Case, together: boolean, first: number): Promise<Done[]> {
  const all = found.sessions.map((texts, step) => async (): Promise<Done[]> => {
    const done: Done[] = []
    await on.session(async (run, set) => {
      for (const text of texts) await set(text)
      for (const use of usesOf(found, first + 1000 * step)) {
        done.push({ step, use, end: await ended(run(use).then((it) => [it])) })
      }
    })
    return done
  })
  if (together) return (await Promise.all(all.map((it) => it()))).flat()
  const done: Done[] = []
  for (const it of all) done.push(...(await it()))
  return done
}
