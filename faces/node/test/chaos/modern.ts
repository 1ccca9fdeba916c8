// The modern face, in a mixture of all uses that docs/guide/node-modern.md allows.

import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'

import { postgres, type PostgresError, type Session } from '../../src/modern'
import type { Sql, Tx } from '../../src/modern/sql'
import type { Tag } from '../../src/modern/tag'
import type { Query } from '../../src/modern/query'
import type { Unit } from './ledger'
import type { Face, Stage } from './run'
import { anyState, type State } from './states'
import { SEEN } from './world'

interface Seen {
  n: number
  seen: string
}

/** Makes a template literal with this text. Only generated code can: `sql` takes nothing else. */
function template(text: string, ...names: string[]): (tag: unknown, ...values: unknown[]) => unknown {
  const escaped = text.replaceAll('\\', '\\\\').replaceAll('`', '\\`')
  return Function('tag', ...names, `return tag\`${escaped}\``) as (...given: unknown[]) => unknown
}

const LOOK = template(`select \${n}::int as n, ${SEEN} as seen`, 'n')
const INSERT = template(
  `insert into entry (n, own, fine, seen) select \${n}::bigint, \${own}::bool, \${fine}::bool, ${SEEN} returning n::int as n, seen`,
  'n',
  'own',
  'fine',
)
const SLOW = template(
  `insert into entry (n, fine, seen) select \${n}::bigint, pg_sleep(0.01) is not null, ${SEEN} returning n::int as n, seen`,
  'n',
)
const TWO = template(
  `insert into entry (n, seen) select n, ${SEEN} from generate_series(\${n}::bigint, \${m}::bigint) as n returning n::int as n, seen`,
  'n',
  'm',
)
const COUNTED = template(
  `insert into entry (n, counted, seen) select \${n}::bigint, true, ${SEEN} returning n::int as n, seen`,
  'n',
)

const look = (tag: Tag, n: number): Query<Seen> => LOOK(tag, n) as Query<Seen>
const insert = (tag: Tag, n: number, own = false, fine = true): Query<Seen> =>
  INSERT(tag, n, own, fine) as Query<Seen>
/** A statement with this text. Templates are cached, so there must be few texts. */
const said = (tag: Tag, text: string): Query<unknown> => template(text)(tag) as Query<unknown>

/** The number of rows that may only be in a temporary table. */
const NOWHERE = -(2 ** 30)

export class Modern implements Face {
  readonly #stage: Stage
  readonly #sql: Sql
  #listeners = 0

  constructor(stage: Stage) {
    this.#stage = stage
    this.#sql = postgres(stage.url, {
      applicationName: stage.name,
      connectionsMax: stage.setting.connections,
      waitTimeoutMs: 20_000,
    })
  }

  end(): Promise<void> {
    return this.#sql.end({ timeoutMs: 20_000 })
  }

  write(way: number): Promise<void> {
    const shared = this.#stage.setting.shared
    if (way < 5) return this.#looks()
    if (way < 9) return this.#inserts()
    if (way < 10) return this.#refused()
    if (way < 12) return this.#givenUp()
    if (way < 13) return this.#unreadable()
    if (way < 16) return this.#pipeline()
    if (way < 19) return this.#transaction()
    if (way < 21) return this.#savepoints()
    if (way < 23) return this.#counted()
    if (way < 25) return this.#copied()
    if (way < 27) return this.#streamed()
    if (way < 28) return this.#heard()
    if (shared) return this.#transaction()
    return way < 31 ? this.#lent() : this.#owned()
  }

  /** Checks that the reply is this statement's, and that it ran in a clean session. */
  #hold(what: string, n: number, row: Seen | undefined): void {
    const { ledger, world } = this.#stage
    if (row?.n !== n) ledger.wrong.push(`${what} got ${row?.n} for ${n}`)
    if (row?.seen !== world.clean) ledger.wrong.push(`${what} saw ${row?.seen}`)
  }

  /** Without faults, a read may fail only because it was never sent. */
  #bear(what: string, error: unknown): void {
    const { code, message } = error as PostgresError
    if (this.#stage.setting.faults || code === 'wait_timeout') return
    this.#stage.ledger.wrong.push(`${what} failed: ${code} ${message}`)
  }

  async #looks(): Promise<void> {
    const { below, ledger } = this.#stage
    const repeatable = below(3) === 0
    const asked = Array.from({ length: below(3) === 0 ? 20 : 1 }, async () => {
      const n = ledger.number()
      const query = look(this.#sql, n)
      try {
        this.#hold('a read', n, await (repeatable ? query.repeatable() : query).one())
      } catch (error) {
        this.#bear('a read', error)
      }
    })
    await Promise.all(asked)
  }

  /** Records the end of an insert that returns its row. */
  async #take(unit: Unit, rows: Promise<Seen>): Promise<void> {
    const held = rows.then((row) => this.#hold('an insert', unit.numbers[0] as number, row))
    await this.#stage.ledger.settle(unit, held)
  }

  async #inserts(): Promise<void> {
    const { below, ledger } = this.#stage
    const asked = Array.from({ length: below(4) === 0 ? 20 : 1 }, () => {
      const unit = ledger.begin('insert')
      return this.#take(unit, insert(this.#sql, unit.numbers[0] as number).one())
    })
    await Promise.all(asked)
  }

  #refused(): Promise<void> {
    const unit = this.#stage.ledger.begin('insert that is refused')
    return this.#take(unit, insert(this.#sql, unit.numbers[0] as number, false, false).one())
  }

  /** Ends a statement early, by a timeout or by a signal. */
  #givenUp(): Promise<void> {
    const { below, ledger } = this.#stage
    const unit = ledger.begin('insert that is given up')
    const n = unit.numbers[0] as number
    const query = (below(2) === 0 ? SLOW(this.#sql, n) : insert(this.#sql, n)) as Query<Seen>
    if (below(2) === 0) return this.#take(unit, query.timeout(1 + below(30)).one())
    const abort = new AbortController()
    if (below(3) === 0) abort.abort()
    else setTimeout(() => abort.abort(), below(20))
    return this.#take(unit, query.signal(abort.signal).one())
  }

  async #unreadable(): Promise<void> {
    const { ledger } = this.#stage
    const unit = ledger.begin('insert whose answer is two rows', 2)
    const [n, m] = unit.numbers
    const one = (TWO(this.#sql, n, m) as Query<Seen>).one()
    if (await ledger.settle(unit, one)) ledger.wrong.push('two rows were read as one')
  }

  async #pipeline(): Promise<void> {
    const { below, ledger } = this.#stage
    const unit = ledger.begin('pipeline', 2 + below(7))
    const bad = below(8) === 0 ? unit.numbers.at(-1) : undefined
    const made = unit.numbers.map((n) => insert(this.#sql, n, false, n !== bad))
    const sent = below(3) === 0 ? this.#sql.begin((tx) => tx.pipeline(this.#again(tx, unit, bad))) : this.#sql.pipeline(made)
    const held = sent.then((all) =>
      unit.numbers.forEach((n, at) => this.#hold('a pipeline', n, (all[at] as Seen[])[0])),
    )
    await ledger.settle(unit, held)
  }

  #again(tx: Tx, unit: Unit, bad: number | undefined): Query<Seen>[] {
    return unit.numbers.map((n) => insert(tx, n, false, n !== bad))
  }

  async #transaction(): Promise<void> {
    const { below, ledger } = this.#stage
    const unit = ledger.begin('transaction', 1 + below(4))
    const fine = below(8) > 0
    const undone = below(4) === 0
    const together = below(3) === 0
    const done = this.#sql.begin(async (tx) => {
      const made = unit.numbers.map((n, at) => insert(tx, n, false, fine || at > 0))
      if (together && !undone) return made
      for (const query of made) this.#hold('a transaction', unit.numbers[made.indexOf(query)] as number, await query.one())
      if (undone) throw new Undone('on purpose')
      return undefined
    })
    await this.#settleOrUndo(unit, done)
  }

  /** Checks that `begin` rejects with the error that its function threw, and rolls back. */
  async #settleOrUndo(unit: Unit, done: Promise<unknown>): Promise<void> {
    const { ledger } = this.#stage
    try {
      await done
      ledger.end(unit, 'there')
    } catch (error) {
      if (error instanceof Undone) return ledger.end(unit, 'absent')
      ledger.failed(unit, error)
      ledger.end(unit)
    }
  }

  async #savepoints(): Promise<void> {
    const { below, ledger } = this.#stage
    const unit = ledger.begin('transaction with savepoints', 2)
    const undone = ledger.begin('savepoint that is undone')
    const [first, second] = unit.numbers as [number, number]
    const fine = below(2) === 0
    const done = this.#sql.begin(async (tx) => {
      await tx.savepoint(async (outer) => {
        await insert(outer, first)
        const lost = outer.savepoint(async (inner) => {
          await insert(inner, undone.numbers[0] as number, false, fine)
          throw new Undone('on purpose')
        })
        await lost.catch(() => undefined)
      })
      this.#hold('a transaction', second, await insert(tx, second).one())
    })
    await this.#settleOrUndo(unit, done)
    ledger.end(undone, 'absent')
  }

  /** Increments counters that others increment in another order, for conflicts and deadlocks. */
  async #counted(): Promise<void> {
    const { below, ledger } = this.#stage
    const unit = ledger.begin('transaction that is run again')
    const n = unit.numbers[0] as number
    const ids = [below(4), below(4)]
    const isolation = below(2) === 0 ? ('serializable' as const) : undefined
    const done = this.#sql.begin({ retry: true, isolation }, async (tx) => {
      for (const id of ids) await tx`update public.counter set v = v + 1 where id = ${id}`
      return (COUNTED(tx, n) as Query<Seen>).one()
    })
    const held = done.then((row) => this.#hold('a transaction', n, row))
    await ledger.settle(unit, held)
  }

  async #copied(): Promise<void> {
    const { below, ledger, setting } = this.#stage
    if (setting.shared && setting.faults) return this.#inserts()
    const unit = ledger.begin('COPY', 1 + below(5))
    const copy = this.#sql.copyFrom`copy entry (n) from stdin`
    if (below(4) > 0 || setting.shared) {
      const fed = pipeline(Readable.from(unit.numbers.map((n) => `${n}\n`)), copy)
      await ledger.settle(unit, fed)
      return
    }
    copy.on('error', () => undefined)
    copy.write(`${unit.numbers[0]}\n`)
    await new Promise((resolve) => setTimeout(resolve, below(5)))
    const closed = new Promise((resolve) => copy.once('close', resolve))
    copy.destroy()
    await closed
    ledger.end(unit, 'absent')
  }

  /** Streams rows, to the end or not, or copies them. */
  async #streamed(): Promise<void> {
    const { below, ledger, setting, world } = this.#stage
    const n = ledger.number()
    try {
      if (below(3) === 0 && !setting.shared) {
        const copy = template(`copy (select ${n}, ${SEEN}) to stdout`)(this.#sql.copyTo) as Readable
        const text = (await copy.toArray()).map(String).join('')
        if (text !== `${n}\t${world.clean}\n`) ledger.wrong.push(`a COPY for ${n} saw ${text}`)
        return
      }
      const leave = below(2) === 0
      for await (const row of look(this.#sql, n)) {
        this.#hold('a stream', n, row)
        if (leave) break
      }
    } catch (error) {
      this.#bear('a stream', error)
    }
  }

  /** Waits for its own notification, or a gap. Few tasks do so, since each needs a connection. */
  async #heard(): Promise<void> {
    const { ledger, setting } = this.#stage
    if (setting.shared || this.#listeners >= 5) return this.#looks()
    this.#listeners++
    const n = ledger.number()
    const channel = `chaos_${n}`
    try {
      await using listener = this.#sql.listen(channel)
      await listener.ready
      await this.#sql`select pg_notify(${channel}, ${String(n)})`
      for await (const event of listener) {
        if (event.kind === 'notification' && event.payload !== String(n)) {
          ledger.wrong.push(`${channel} heard ${event.payload}`)
        }
        break
      }
    } catch (error) {
      this.#bear('a listener', error)
    } finally {
      this.#listeners--
    }
  }

  /** Leaves state on connections that are lent for a transaction, a stream or a COPY. */
  async #lent(): Promise<void> {
    const { below } = this.#stage
    const { name, text } = anyState(below)
    const sql = this.#sql
    try {
      switch (below(4)) {
        case 0:
          for await (const row of said(sql, `select n from public.chaos_view_${name}`)) String(row)
          return
        case 1:
          await (template(`copy (select n from public.chaos_view_${name}) to stdout`)(sql.copyTo) as Readable).toArray()
          return
        case 2:
          return await pipeline(Readable.from([`${name}\n`]), sql.copyFrom`copy public.chaos_trap (state) from stdin`)
        default: {
          const undone = below(3) === 0
          await sql.begin(async (tx) => {
            await said(tx, text)
            if (undone) throw new Undone('on purpose')
          })
        }
      }
    } catch {
      // The reply is not checked. The state that it leaves must reach no other user.
    }
  }

  /** Uses a session, and ends it in one of several ways. */
  async #owned(): Promise<void> {
    const { below, ledger } = this.#stage
    let session: Session
    try {
      session = await this.#sql.session()
    } catch (error) {
      return this.#bear('a session', error)
    }
    // The first statement may leave state, or look for state of others.
    if (below(3) === 0) {
      const n = ledger.number()
      try {
        this.#hold('a session', n, await look(session, n).one())
      } catch (error) {
        this.#bear('a session', error)
      }
    }
    const kept: State[] = []
    let known = true
    for (let count = 1 + below(3); count > 0; count--) {
      const state = anyState(below)
      kept.push(state)
      known = (await this.#keep(session, state)) && known
    }
    if (known && below(2) === 0) await this.#writeOwn(session, kept)
    await this.#leave(session)
  }

  /** Leaves a state in a session. Returns whether it is in force. */
  async #keep(session: Session, { name, text }: State): Promise<boolean> {
    const { below } = this.#stage
    try {
      switch (below(12)) {
        case 0:
          for await (const row of said(session, `select n from public.chaos_view_${name}`)) String(row)
          return false
        case 1:
          await pipeline(Readable.from([`${name}\n`]), session.copyFrom`copy public.chaos_trap (state) from stdin`)
          return false
        case 2:
          await session.begin(async (tx) => {
            await tx.savepoint((inner) => said(inner, text))
            if (below(2) === 0) throw new Undone('on purpose')
          })
          return false
        case 3:
          // The statement is not awaited.
          said(session, text).send().catch(() => undefined)
          return false
        default:
          await said(session, text)
          return true
      }
    } catch {
      return false
    }
  }

  /** Inserts as the owner of a session, whose state decides on the table. */
  async #writeOwn(session: Session, kept: readonly State[]): Promise<void> {
    const { ledger, stray } = this.#stage
    const has = (name: string): boolean => kept.some((state) => state.name === name)
    if (has('temp')) {
      await insert(session, NOWHERE, true).catch(() => undefined)
      return
    }
    const book = has('path') ? stray : ledger
    const unit = book.begin("insert of a session's owner")
    const [number] = unit.numbers as [number]
    const n = has('path') ? -1 - number : number
    const got = insert(session, n, true).one()
    await book.settle(
      unit,
      got.then((row) => {
        if (row.n !== n) ledger.wrong.push(`a session got ${row.n} for ${n}`)
      }),
    )
  }

  async #leave(session: Session): Promise<void> {
    const { below } = this.#stage
    const ignore = (query: Query<unknown>): void => void query.send().catch(() => undefined)
    switch (below(6)) {
      case 0:
        for (let count = 0; count < 3; count++) ignore(session`select 1`)
        break
      case 1:
        await session`select 1 / 0`.catch(() => undefined)
        break
      case 2:
        await session`select pg_sleep(0.02)`.timeout(3).catch(() => undefined)
        break
      case 3:
        try {
          for await (const row of session`select n from generate_series(1, 1000) as n`) {
            String(row)
            break
          }
        } catch {
          // The session may have been lost.
        }
        break
    }
    session.release()
  }
}

/** The error that a transaction's function throws to roll it back. */
class Undone extends Error {}
