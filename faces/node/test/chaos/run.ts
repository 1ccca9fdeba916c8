// A program that uses a client: many tasks write numbered rows while connections are ended and cut.
// The outcomes are compared with the table. Each kind of client has a file of its own.

import { connect, createServer, type Server, type Socket } from 'node:net'

import { belowOf } from '../random'
import { Ledger } from './ledger'
import { World, inDatabase } from './world'

export interface Setting {
  /** The client: `modern`, `pg`, or `pg-pipeline`. */
  readonly face: string
  /** Connections of its pool. */
  readonly connections: number
  readonly seconds: number
  readonly seed: number
  /** Whether connections are ended and cut. */
  readonly faults: boolean
  /** The server. */
  readonly url: string
  /** A pooler in front of it, and whether it shares its connections. */
  readonly pooler?: string
  readonly shared?: boolean
}

/** What a face has to do. */
export interface Stage {
  readonly url: string
  readonly name: string
  readonly setting: Setting
  readonly world: World
  readonly ledger: Ledger
  /** The ledger of the rows that are meant for the other schema. */
  readonly stray: Ledger
  readonly below: (limit: number) => number
}

export interface Face {
  /** Does one operation. Failures are recorded, not thrown. */
  write(way: number): Promise<void>
  /** Ends the client, and all its connections. */
  end(): Promise<void>
}

export interface Report {
  readonly setting: string
  readonly rows: Record<string, number>
  readonly faults: number
  readonly wrong: readonly string[]
}

const TASKS = 500
const WAYS = 40
/** How long one operation may take: several waits for a connection in a row. */
const PATIENCE_MS = 150_000

let runs = 0

/** `begun` is called when the server may be restarted. */
export async function run(
  setting: Setting,
  make: (stage: Stage) => Face,
  begun = (): void => undefined,
): Promise<Report> {
  const database = `chaos_${setting.face.replace('-', '_')}_${process.pid}_${++runs}`
  const world = await World.make(setting.url, database)
  const line = await Line.to(inDatabase(setting.pooler ?? setting.url, database))
  const name = `chaos ${setting.face}`
  const [ledger, stray] = [new Ledger(), new Ledger()]
  const below = belowOf(setting.seed)
  const face = make({ url: line.url, name, setting, world, ledger, stray, below })
  begun()
  const until = Date.now() + setting.seconds * 1000
  const faults = setting.faults ? strike(world, line, name, until, below) : 0
  const tasks = Array.from({ length: TASKS }, () => task(face, ledger, until, below))
  await Promise.all(tasks)
  await limited(face.end(), 'the end', ledger)
  const left = await isGone(line)
  const wrong = [...(left > 0 ? [`${left} connections are left`] : []), ...(await held(world, ledger, stray))]
  line.close()
  return { setting: settingText(setting), rows: ledger.tally(), faults: await faults, wrong }
}

function settingText(setting: Setting): string {
  const { face, connections, faults, pooler, shared, seed } = setting
  const way = pooler === undefined ? 'directly' : shared ? 'transaction mode' : 'session mode'
  return `${face}, ${connections} connections, ${way}, ${faults ? 'faults' : 'no faults'}, seed ${seed}`
}

async function task(face: Face, ledger: Ledger, until: number, below: (limit: number) => number): Promise<void> {
  while (Date.now() < until) {
    const way = below(WAYS)
    await limited(face.write(way), `way ${way}`, ledger)
    // After an immediate failure, others get their turn.
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** Records work that does not end in time. */
async function limited(work: Promise<void>, what: string, ledger: Ledger): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(() => {
      ledger.wrong.push(`${what} does not end`)
      resolve()
    }, PATIENCE_MS)
  })
  const noted = work.catch((error: unknown) => {
    ledger.wrong.push(`${what} threw ${(error as Error).stack}`)
  })
  await Promise.race([noted, late])
  clearTimeout(timer)
}

/** Ends and cuts connections until the run is over. */
async function strike(
  world: World,
  line: Line,
  name: string,
  until: number,
  below: (limit: number) => number,
): Promise<number> {
  let count = 0
  while (Date.now() < until) {
    await new Promise((resolve) => setTimeout(resolve, 30 + below(270)))
    count++
    if (below(3) > 0) await world.end(name)
    else line.cut(below(4) === 0 ? undefined : below(1 << 20))
  }
  return count
}

async function isGone(line: Line): Promise<number> {
  for (let tries = 0; line.count > 0 && tries < 600; tries++) {
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  return line.count
}

/** Compares the outcomes with the tables. */
async function held(world: World, ledger: Ledger, stray: Ledger): Promise<string[]> {
  // The server runs the last statement of a lost session to its end.
  const busy = `select count(*)::text as text from pg_locks where relation = 'public.entry'::regclass
    and pid <> pg_backend_pid()`
  for (let tries = 0; (await world.texts(busy))[0] !== '0'; tries++) {
    if (tries > 300) return ['somebody still writes']
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  const wrong = ledger.check(await world.table('public.entry'))
  const strayed = [...(await world.table('stray.entry'))].map(([n, count]): [number, number] => [-n - 1, count])
  wrong.push(...stray.check(new Map(strayed)).map((it) => `in the other schema, ${it}`))
  const clean = world.clean.replaceAll("'", "''")
  const saw = `select format('row %s saw %s', n, seen) as text from public.entry
    where not own and seen <> '${clean}' limit 20`
  const counted = `select format('%s counted, %s rows', sum(v), (select count(*) from public.entry where counted)) as text
    from public.counter having sum(v) <> 2 * (select count(*) from public.entry where counted)`
  return [...wrong, ...(await world.texts(saw)), ...(await world.texts(counted))]
}

/** A proxy whose connections can be cut. */
class Line {
  readonly url: string
  readonly #server: Server
  readonly #pairs: Set<Socket>

  private constructor(url: string, server: Server, pairs: Set<Socket>) {
    this.url = url
    this.#server = server
    this.#pairs = pairs
  }

  static async to(url: string): Promise<Line> {
    const target = new URL(url)
    const [port, host] = [Number(target.port), target.hostname]
    const pairs = new Set<Socket>()
    const server = createServer((near) => {
      const far = connect(port, host)
      pairs.add(near)
      near.setNoDelay()
      far.setNoDelay()
      const end = (): void => {
        near.destroy()
        far.destroy()
        pairs.delete(near)
      }
      for (const socket of [near, far]) socket.on('error', end).on('close', end)
      near.pipe(far)
      far.pipe(near)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    target.port = String((server.address() as { port: number }).port)
    target.hostname = '127.0.0.1'
    target.searchParams.set('sslmode', 'disable')
    return new Line(target.href, server, pairs)
  }

  /** Cuts one connection, or all. */
  cut(victim: number | undefined): void {
    const all = [...this.#pairs]
    const chosen = victim === undefined ? all : all.slice(victim % Math.max(all.length, 1)).slice(0, 1)
    chosen.forEach((socket) => socket.resetAndDestroy())
  }

  get count(): number {
    return this.#pairs.size
  }

  close(): void {
    this.cut(undefined)
    this.#server.close()
  }
}
