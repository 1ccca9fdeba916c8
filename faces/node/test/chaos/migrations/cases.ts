// The kinds of DDL of proof/chaos/migrations.json. proof/chaos/MIGRATIONS.md says what the fields are.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** A value by its kind: `{"int": 7}`. */
export type Given = null | Readonly<Record<string, unknown>>

export interface Statement {
  readonly name: string
  readonly text: string
  readonly parameters: readonly ('id' | 'value')[]
}

/** One kind of DDL, for a schema of its own. */
export interface Case {
  readonly name: string
  readonly extension?: string
  readonly setup: readonly string[]
  readonly migrate: readonly string[]
  /** What undoes it, if something does. */
  readonly back: readonly string[]
  /** What sessions of one client set, in place of a migration. */
  readonly sessions: readonly (readonly string[])[]
  /** Each of `sessions` needs those before it, in the same session. */
  readonly chained: boolean
  /** It changes no type, so no statement may fail for it. */
  readonly calm: boolean
  /** Rows that were written before are gone behind it. */
  readonly forgets: boolean
  readonly tables: readonly string[]
  readonly statements: readonly Statement[]
  readonly before: readonly Given[]
  readonly after: readonly Given[]
}

type Raw = Record<string, unknown> & { name: string; before: Given[]; after: Given[] }
type RawStatement = { text?: string; copy?: string; name?: string; parameters: ('id' | 'value')[] }

const FILE = join(__dirname, '../../../../../../proof/chaos/migrations.json')
const file = JSON.parse(readFileSync(FILE, 'utf8')) as {
  left: { statement?: string; case?: string; faces: string[] }[]
  statements: Record<string, RawStatement>
  cases: Raw[]
}

/** What is left, with a reason, is run only if `ONETRIP_LEFT` is set. */
const left = process.env['ONETRIP_LEFT'] === undefined ? file.left.filter((it) => it.faces.includes('node')) : []

const ALL = ['insert', 'returning', 'update', 'where', 'coalesce', 'star']

/** All cases, for a schema of this name. */
export function casesIn(schema: string): Case[] {
  const texts = (value: unknown): string[] => (value as string[] | undefined)?.map((it) => filled(it, schema)) ?? []
  const isLeft = (raw: Raw) => left.some((it) => it.case === raw.name && it.statement === undefined)
  return file.cases.filter((raw) => !isLeft(raw)).map((raw) => {
    const { setup, migrate, back } = typeof raw['was'] === 'string' ? altered(raw) : raw
    const names = (raw['tables'] as string[] | undefined) ?? ['t']
    return {
      name: raw.name,
      ...(raw['extension'] === undefined ? {} : { extension: String(raw['extension']) }),
      setup: texts(setup),
      migrate: texts(migrate),
      back: texts(back),
      sessions: ((raw['sessions'] as string[][] | undefined) ?? []).map(texts),
      chained: raw['chained'] === true,
      calm: raw['calm'] === true,
      forgets: raw['forgets'] === true,
      tables: names.map((it) => schema + (/^[_.]/.test(it) ? it : `.${it}`)),
      statements: statements(raw, schema),
      before: raw.before,
      after: raw.after,
    }
  })
}

/** The long form of a case that has `was` and `becomes`: a column of another type. */
function altered(raw: Raw): Record<string, unknown> {
  const { was, becomes, using, rows } = raw as unknown as { was: string; becomes: string; using?: string; rows: string[] }
  const filled = `insert into {s}.t (id, c) values ${rows.map((it, at) => `(${-at - 1}, ${it})`).join(', ')}`
  const by = using === undefined ? '' : ` using ${using}`
  return {
    setup: [`create table {s}.t (id int, c ${was})`, filled, 'insert into {s}.t (id, c) values (0, null)'],
    migrate: [`alter table {s}.t alter c type ${becomes}${by}`],
    back: [
      'update {s}.t set c = null',
      `alter table {s}.t alter c type ${was} using null::${was}`,
      'delete from {s}.t where id < 0',
      filled,
    ],
  }
}

function statements(raw: Raw, schema: string): Statement[] {
  const listed = (raw['statements'] as (string | RawStatement)[] | undefined) ?? ALL
  const isLeft = (name: string) => left.some((it) => it.statement === name && (it.case ?? raw.name) === raw.name)
  const all = listed.map((it) => (typeof it === 'string' ? { name: it, ...(file.statements[it] as RawStatement) } : it))
  return all.flatMap(({ name = '', text, parameters }) =>
    text === undefined || isLeft(name) ? [] : [{ name, text: filled(text, schema), parameters }],
  )
}

const filled = (text: string, schema: string): string => text.replaceAll('{s}', schema)
