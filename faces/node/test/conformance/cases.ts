import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The content of the files of cases, whose form proof/conformance/README.md describes. */
export type Json = string | number | boolean | null | Json[] | { readonly [key: string]: Json }

export interface ExpectedError {
  /** The code of an error that is not the server's. */
  readonly code?: string
  readonly sqlstate?: string
  readonly message?: string
  /** The beginning of the message. */
  readonly says?: string
  readonly outcome: string
}

export interface Asked {
  readonly text: string
  readonly parameters?: readonly Json[]
  readonly columns?: readonly string[]
  readonly rows?: readonly (readonly Json[])[]
  readonly count?: number
  readonly error?: ExpectedError
  readonly timeout_ms?: number
  readonly repeatable?: boolean
  readonly cancelled?: boolean
  readonly killed?: boolean
}

/** One step of a case: a statement, or a list of steps. */
export interface Step extends Partial<Asked> {
  readonly on?: 'client' | 'other'
  readonly session?: readonly Step[]
  readonly transaction?: { readonly isolation?: string; readonly read_only?: boolean }
  readonly savepoint?: readonly Step[]
  readonly steps?: readonly Step[]
  readonly end?:
    | 'commit'
    | 'rollback'
    | 'release'
    | 'drop'
    | { readonly commit: ExpectedError }
    | { readonly release: ExpectedError }
    | { readonly with: Asked }
  readonly pipeline?: readonly Asked[]
  readonly together?: readonly Asked[]
  readonly run?: readonly string[]
  readonly attempts?: number
  readonly attempts_max?: number
  readonly trips?: number
  readonly times?: number
  readonly differs?: Readonly<Record<string, string>>
}

export interface Case {
  readonly name: string
  readonly faces?: readonly string[]
  readonly differs?: Readonly<Record<string, string>>
  readonly settings?: Readonly<Record<string, Json>>
  readonly steps?: readonly Step[]
  readonly setup?: readonly string[]
  readonly statements: readonly Asked[]
  readonly then?: readonly Asked[]
  readonly error?: ExpectedError
  readonly begin?: { readonly isolation?: string; readonly read_only?: boolean }
  readonly end?: Step['end']
  readonly type?: string
  readonly texts?: readonly string[]
  readonly reads?: readonly Json[]
  readonly drop?: string
}

/** The result of a statement. */
export interface Came {
  readonly columns: readonly string[]
  readonly rows: readonly (readonly unknown[])[]
  readonly count: number | null
}

/** The compiled tests lie one directory deeper than the sources. */
const FOLDER = join(__dirname, '../../../../../proof/conformance')

/** The cases of a file, at least one. */
export function casesOf<T = Case>(file: string): readonly T[] {
  const { cases } = JSON.parse(readFileSync(join(FOLDER, file), 'utf8')) as { cases: T[] }
  assert.ok(cases.length > 0, `${file} has no cases`)
  return cases
}

let tables = 0

/** A unique name for a table. */
export function newTable(): string {
  return `conformance_${process.pid}_${Date.now().toString(36)}_${++tables}`
}

/** The statement with the name of this table put in. */
export function on(table: string, asked: Asked): Asked {
  const text = asked.text.replaceAll('{t}', table).replace('{spaces}', ' '.repeat(20_000))
  return { ...asked, text }
}

/** Checks the result or the error of a statement. */
export async function check(asked: Asked, came: PromiseLike<Came>): Promise<void> {
  if (asked.error !== undefined) {
    await assert.rejects(Promise.resolve(came), (error: Error) => checkError(error, asked.error as ExpectedError), asked.text)
    return
  }
  assert.ok(asked.rows !== undefined || asked.count !== undefined, `the case expects neither rows nor a count of ${asked.text}`)
  const { columns, rows, count } = await came
  if (asked.columns !== undefined) assert.deepEqual(columns, asked.columns, asked.text)
  if (asked.rows !== undefined) assert.deepEqual(rows.map(plain), asked.rows, asked.text)
  if (asked.count !== undefined) assert.equal(count ?? 0, asked.count, asked.text)
}

export function checkError(
  error: Error & { code?: string; sqlstate?: string; outcome?: string },
  expected: ExpectedError,
): boolean {
  const { code, sqlstate, message, says, outcome } = expected
  if (outcome === 'any') assert.match(String(error.outcome), /^(NotSent|Rejected|Applied|Unknown)$/)
  else assert.equal(error.outcome, outcome, error.message)
  if (code !== undefined) assert.equal(error.code, code, error.message)
  if (sqlstate !== undefined) assert.equal(error.sqlstate ?? error.code, sqlstate, error.message)
  if (message !== undefined) assert.ok(error.message.includes(message), error.message)
  if (says !== undefined) assert.ok(error.message.startsWith(says), error.message)
  return true
}

/** Converts values for comparison. Numbers that a double cannot hold stay as they are. */
function plain(row: readonly unknown[]): unknown[] {
  return row.map((value) => {
    const isText = typeof value === 'string' && /^-?\d+$/.test(value)
    return typeof value === 'bigint' || isText ? Number(value) : value
  })
}
