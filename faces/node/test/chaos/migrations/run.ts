// Migrations under running clients: kinds of DDL happen between their statements, and every value
// that is stored or read is compared with what the real pg does behind the same migration.
// proof/chaos/MIGRATIONS.md says what is checked. As a program, `node run.js '{"face": "pg", …}'`
// prints its report.

import { belowOf } from '../../random'
import { Book, type Report } from './book'
import { casesIn, type Case } from './cases'
import { Modern, PgShaped, type Subject } from './clients'
import { Databases } from './databases'
import { Migration, type Oracle, type Stage } from './migration'
import { Sessions } from './sessions'

export interface Setting {
  /** The client: `modern`, `pg`, or `pg-pipeline`. */
  readonly face: string
  readonly url: string
  readonly seed: number
  /** How long it goes on. */
  readonly seconds?: number
  /** How many cases come, if it is not said how long. */
  readonly rounds?: number
  /** Part of the names of the cases that come. */
  readonly only?: string
}

let runs = 0

export async function migrations(setting: Setting): Promise<Report> {
  const databases = await Databases.make(setting.url, `migrations_${process.pid}_${++runs}`)
  const book = new Book()
  const below = belowOf(setting.seed)
  const until = Date.now() + (setting.seconds ?? 0) * 1000
  let rounds = 0
  const isOver = (): boolean =>
    setting.seconds === undefined ? rounds >= (setting.rounds ?? Infinity) && rounds > 0 : Date.now() > until
  do {
    for (const at of shuffled(casesIn('').length, below)) {
      const schema = `m${++rounds}`
      const found = casesIn(schema)[at] as Case
      if (found.name.includes(setting.only ?? '')) await one(setting, found, schema, databases, book, below)
      if (isOver()) break
    }
  } while (setting.seconds !== undefined && !isOver())
  await databases.end()
  return book.report()
}

function shuffled(count: number, below: (limit: number) => number): number[] {
  const order = Array.from({ length: count }, (_, at) => at)
  for (let at = count - 1; at > 0; at--) {
    const other = below(at + 1)
    ;[order[at], order[other]] = [order[other] as number, order[at] as number]
  }
  return order
}

async function one(
  { face }: Setting,
  found: Case,
  schema: string,
  databases: Databases,
  book: Book,
  below: (limit: number) => number,
): Promise<void> {
  const connections = [1, 3][below(2)] as number
  book.where = `${found.name}, ${connections} connections`
  if (found.extension !== undefined && !(await databases.extension(found.extension))) {
    book.skipped.add(`${found.name}: the server has no ${found.extension}`)
    return
  }
  const client = clientOf(face, databases.url('ours'), connections)
  const real = (count: number): Oracle => ({ kind: 'real', subject: new PgShaped('real', databases.url('real'), count) })
  const fresh = (): Oracle[] =>
    face === 'modern'
      ? [{ kind: 'fresh', subject: new Modern(databases.url('fresh'), 1) }, real(1)]
      : [real(1)]
  const stage: Stage = { found, connections, client, fresh, databases, below, book }
  try {
    await databases.script([`create schema ${schema}`, ...found.setup])
    await (found.sessions.length > 0 ? new Sessions(stage).run() : new Migration(stage).run())
  } catch (error) {
    book.wrong(`the run itself failed: ${(error as Error).stack}`)
  }
  await client.end()
}

function clientOf(face: string, url: string, connections: number): Subject {
  return face === 'modern' ? new Modern(url, connections) : new PgShaped(face as 'pg' | 'pg-pipeline', url, connections)
}

if (require.main === module) {
  process.env['TZ'] = 'UTC'
  const url = process.env['ONETRIP_TEST_POSTGRES'] ?? ''
  const told = JSON.parse(process.argv[2] ?? '{}') as Partial<Setting>
  const setting: Setting = { face: 'pg', url, seed: Date.now() % 2 ** 31, ...told }
  console.log(`seed ${setting.seed}`)
  void migrations(setting).then((report) => console.log(JSON.stringify(report, undefined, 1)))
}
