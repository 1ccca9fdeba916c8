import assert from 'node:assert/strict'
import { createServer, connect, type AddressInfo, type Socket } from 'node:net'
import { test } from 'node:test'

import {
  type Asked,
  type Came,
  type Case,
  casesOf,
  check,
  checkError,
  type ExpectedError,
  type Json,
  newTable,
  on,
  type Step,
} from './cases'

/** A statement that was sent. */
export interface Sent {
  readonly came: Promise<Came>
  cancel?(): void
}

export type Begin = NonNullable<Case['begin']>

/**
 * A place where statements run: a client, a session, a transaction. Missing methods are not
 * offered.
 */
export interface Place {
  ask(asked: Asked): Sent
  session?(run: (session: Place) => Promise<void>): Promise<void>
  /**
   * Commits when `run` returns, together with the statement that it returns; rolls back if it
   * throws.
   */
  begin?(options: Begin, run: (tx: Place) => Promise<Asked | undefined>): Promise<Came | undefined>
  savepoint?(run: (savepoint: Place) => Promise<void>): Promise<void>
  /** Runs statements as a pipeline: its end, and the result of each. */
  pipeline?(all: readonly Asked[]): { readonly end: Promise<unknown>; readonly each: () => readonly Promise<Came>[] }
  /**
   * Runs texts in a transaction, with `attemptsMax` attempts at most. `attempt` is called for each.
   */
  run?(attemptsMax: number, texts: readonly string[], attempt: () => void): Promise<unknown>
}

/** A face: its name in the cases, and its clients. */
export interface Face {
  readonly name: string
  connect(url: string, settings: Readonly<Record<string, Json>>): { readonly client: Place; end(): Promise<unknown> }
}

/** The files of cases, and how their cases become steps: in one way, or in several. */
const FILES: Readonly<Record<string, (it: Case) => readonly (readonly Step[])[]>> = {
  'postgres_statements.json': ({ statements }) => [statements, [{ session: [{ together: statements }] }]],
  'postgres_pipelines.json': ({ statements, error }) => [[{ pipeline: statements, ...(error && { error }) }]],
  'postgres_transactions.json': ({ begin = {}, statements, end = 'commit' }) => [
    [{ transaction: begin, steps: statements, end }],
  ],
  'postgres_policies/prepared.json': stepsOf,
  'postgres_policies/transactions.json': stepsOf,
  'postgres_policies/pipelines.json': stepsOf,
  'postgres_policies/sessions.json': stepsOf,
  'postgres_policies/outcomes.json': stepsOf,
  'postgres_policies/migrations.json': stepsOf,
}

function stepsOf({ steps = [] }: Case): readonly (readonly Step[])[] {
  return [steps]
}

const url = process.env['ONETRIP_TEST_POSTGRES'] ?? ''

/** Runs all cases for this face. `except`: files that do not apply to it. */
export function runCases(face: Face, except: readonly string[] = []): void {
  for (const [file, ways] of Object.entries(FILES)) {
    if (except.includes(file)) continue
    for (const it of casesOf(file)) {
      if (it.faces !== undefined && !it.faces.includes(face.name)) continue
      ways(it).forEach((steps, way) => {
        const name = `${it.name}${way > 0 ? ', together' : ''}, ${face.name}`
        test(name, { timeout: 600_000 }, () => new Run(face, it).all(steps))
      })
    }
  }
}

/** The error that undoes a transaction or a savepoint. */
const UNDONE = new Error('undone by the case')

/** One run of a case. */
class Run {
  readonly #face: Face
  readonly #case: Case
  readonly #table = newTable()
  #client!: Place
  #other!: Place
  #wire!: Wire

  constructor(face: Face, it: Case) {
    this.#face = face
    this.#case = it
  }

  async all(steps: readonly Step[]): Promise<void> {
    this.#wire = await Wire.to(url)
    const { settings = {}, setup = [], then = [] } = this.#case
    const under = this.#face.connect(this.#wire.url, settings)
    const other = this.#face.connect(url, {})
    this.#client = under.client
    try {
      await other.client.session?.(async (session) => {
        this.#other = session
        for (const text of setup) await session.ask(this.#on({ text })).came
        await this.#unlessItDiffers(this.#case, async () => {
          await this.#steps(this.#client, steps)
          for (const each of then) await this.#check(session, each)
        })
      })
    } finally {
      await Promise.all([under.end(), other.end()])
      await this.#wire.close()
    }
  }

  /** A case that is marked as different must fail here; otherwise the mark is out of date. */
  async #unlessItDiffers({ differs }: Pick<Step, 'differs'>, run: () => Promise<void>): Promise<void> {
    const why = differs?.[this.#face.name]
    if (why === undefined) return run()
    const failed = await run().then(
      () => false,
      () => true,
    )
    assert.ok(failed, `the case passes: remove its mark "differs" (${why})`)
  }

  async #steps(here: Place, steps: readonly Step[] = []): Promise<void> {
    for (const step of steps) await this.#unlessItDiffers(step, () => this.#step(here, step))
  }

  async #step(here: Place, step: Step): Promise<void> {
    if (step.text !== undefined) {
      const to = step.on === 'other' ? this.#other : step.on === 'client' ? this.#client : here
      await this.#check(to, step as Asked)
    } else if (step.session !== undefined) {
      const { session } = step
      await must(this.#client.session?.((it) => this.#steps(it, session)))
    } else if (step.transaction !== undefined) {
      await this.#transaction(here, step, step.transaction)
    } else if (step.savepoint !== undefined) {
      await this.#savepoint(here, step, step.savepoint)
    } else if (step.together !== undefined) {
      await this.#together(here, step.together)
    } else if (step.pipeline !== undefined) {
      await this.#pipeline(here, step, step.pipeline)
    } else if (step.run !== undefined) {
      await this.#run(here, step, step.run)
    } else if (step.trips !== undefined) {
      this.#wire.trips = 0
      await this.#steps(here, step.steps)
      assert.equal(this.#wire.trips, step.trips, 'trips')
    } else if (step.times !== undefined) {
      for (let i = 0; i < step.times; i++) await this.#steps(here, step.steps)
    } else {
      assert.fail(`unknown step ${JSON.stringify(step)}`)
    }
  }

  async #transaction(here: Place, { steps, end = 'commit' }: Step, options: Begin): Promise<void> {
    const last = typeof end === 'object' && 'with' in end ? this.#on(end.with) : undefined
    const done = must(
      here.begin?.(options, async (tx) => {
        await this.#steps(tx, steps)
        if (end === 'rollback' || end === 'drop') throw UNDONE
        return last
      }),
    )
    if (last !== undefined) await check(last, done as Promise<Came>)
    else await ends(done, end)
  }

  async #savepoint(here: Place, { end = 'release' }: Step, steps: readonly Step[]): Promise<void> {
    const done = must(
      here.savepoint?.(async (savepoint) => {
        await this.#steps(savepoint, steps)
        if (end === 'rollback' || end === 'drop') throw UNDONE
      }),
    )
    await ends(done, end)
  }

  async #together(here: Place, statements: readonly Asked[]): Promise<void> {
    const all = statements.map((it) => ({ asked: this.#on(it), sent: here.ask(this.#on(it)) }))
    const checks = all.map(({ asked, sent }) => check(asked, sent.came))
    const ended = Promise.allSettled(checks)
    for (const { asked, sent } of all) {
      if (asked.killed) await this.#onceItRuns(asked, 'select pg_terminate_backend(pid)')
      if (asked.cancelled) {
        await this.#onceItRuns(asked, 'select true')
        assert.ok(sent.cancel, 'this face cannot cancel a statement')
        sent.cancel()
      }
    }
    await ended
    await Promise.all(checks)
  }

  /** Runs a query about the server process that runs a statement, once the statement runs. */
  async #onceItRuns({ text }: Asked, what: string): Promise<void> {
    const sql = `${what} from pg_stat_activity where wait_event = 'PgSleep' and query = $1`
    for (;;) {
      const { rows } = await this.#other.ask({ text: sql, parameters: [text] }).came
      if (rows.length > 0) return
    }
  }

  async #pipeline(here: Place, { error }: Step, statements: readonly Asked[]): Promise<void> {
    const all = statements.map((it) => this.#on(it))
    assert.ok(here.pipeline, 'this place has no pipelines')
    const { end, each } = here.pipeline(all)
    await (error === undefined ? end : rejects(end, error))
    await Promise.all(each().map((came, i) => check(all[i] as Asked, came)))
  }

  async #run(here: Place, step: Step, texts: readonly string[]): Promise<void> {
    let attempts = 0
    const onTable = texts.map((text) => this.#on({ text }).text)
    const done = must(here.run?.(step.attempts_max ?? 10, onTable, () => void attempts++))
    await (step.error === undefined ? done : rejects(done, step.error))
    assert.equal(attempts, step.attempts, 'attempts')
  }

  #check(to: Place, asked: Asked): Promise<void> {
    const it = this.#on(asked)
    return check(it, to.ask(it).came)
  }

  #on(asked: Asked): Asked {
    return on(this.#table, asked)
  }
}

/** The call of a face that this step needs. */
function must<T>(promise: Promise<T> | undefined): Promise<T> {
  assert.ok(promise, 'the face has no call for it')
  return promise
}

/** Checks how a step ends. */
async function ends(done: Promise<unknown>, end: NonNullable<Step['end']>): Promise<void> {
  if (end === 'rollback' || end === 'drop') {
    const error: unknown = await done.then(
      () => undefined,
      (it: unknown) => it,
    )
    if (error !== UNDONE) throw error ?? new Error('the transaction was not undone')
  } else if (typeof end === 'object') {
    const expected = 'release' in end ? end.release : 'commit' in end ? end.commit : undefined
    await rejects(done, expected as ExpectedError)
  } else {
    await done
  }
}

async function rejects(done: Promise<unknown>, expected: ExpectedError): Promise<void> {
  const error: unknown = await done.then(
    () => assert.fail(`expected the error ${JSON.stringify(expected)}, and it succeeded`),
    (it: unknown) => it,
  )
  if (error instanceof assert.AssertionError) throw error
  checkError(error as Error, expected)
}

/** A proxy between a client and its server, which counts trips as the lab's proxy does. */
class Wire {
  trips = 0
  readonly url: string
  readonly #close: () => Promise<void>

  private constructor(port: number, close: () => Promise<void>) {
    const through = new URL(url)
    through.hostname = '127.0.0.1'
    through.port = String(port)
    this.url = through.href
    this.#close = close
  }

  static async to(target: string): Promise<Wire> {
    const { hostname, port } = new URL(target)
    const sockets = new Set<Socket>()
    const server = createServer((client) => {
      const upstream = connect(Number(port), hostname)
      let answered = true
      client.on('data', () => {
        if (answered) wire.trips++
        answered = false
      })
      client.pipe(upstream)
      // Without a delay an answer may arrive between two writes that belong to one trip.
      const later = (act: () => void): void => void setTimeout(act, DISTANCE_MS)
      upstream.on('data', (bytes: Buffer) =>
        later(() => {
          answered = true
          client.write(bytes)
        }),
      )
      upstream.on('end', () => later(() => client.end()))
      const end = (): void => [client, upstream].forEach((it) => it.destroy())
      for (const socket of [client, upstream]) {
        sockets.add(socket)
        socket.on('error', () => undefined)
      }
      client.on('close', end)
      upstream.on('close', () => later(end))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const wire = new Wire((server.address() as AddressInfo).port, async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    })
    return wire
  }

  close(): Promise<void> {
    return this.#close()
  }
}

/** The delay of answers, while trips are counted. */
const DISTANCE_MS = 10
