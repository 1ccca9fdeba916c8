import { Recent } from '../pg/recent'
import { misuse, type PostgresError } from './error'

/** What the text of a statement shows about it: bits. */
export const Trait = {
  /** Begins, ends or divides a transaction. */
  CONTROL: 1,
  /** Control that leaves the transaction open: SAVEPOINT, RELEASE, ROLLBACK TO, SET TRANSACTION. */
  SAVEPOINT: 2,
  /** Ends with its transaction: SET LOCAL, SET CONSTRAINTS. */
  LOCAL: 4,
  /** Makes, uses or drops something that lives in the session. */
  SESSION: 8,
  /** Commits by itself and can't be part of a transaction. */
  ALONE: 16,
  /** COPY FROM STDIN or TO STDOUT. */
  COPY: 32,
  /** CALL or DO: it may commit in between. */
  CALL: 64,
  /** More than one statement. */
  SEVERAL: 128,
} as const

/** Where a statement is about to go. */
export type Place = 'shared' | 'pipeline' | 'session' | 'transaction' | 'copy'

/**
 * Reads a text. What is in quotes and comments is not looked at; what the server would refuse may
 * be anything.
 */
export function traitsOf(text: string): number {
  let traits = known.get(text)
  if (traits === undefined) {
    traits = classify(text)
    known.set(text, traits)
  }
  return traits
}

/** Why a statement with these traits is not sent there. */
export function refusal(traits: number, place: Place): PostgresError | undefined {
  if (traits === 0) return undefined
  const has = (bit: number): boolean => (traits & bit) !== 0
  if (has(Trait.SEVERAL)) return misuse('several', SEVERAL)
  const shared = place === 'shared' || place === 'pipeline'
  if (has(Trait.COPY)) return place === 'copy' ? undefined : misuse('copy', COPY)
  if (has(Trait.CONTROL) && shared) return misuse('transaction_control', CONTROL)
  if (has(Trait.CONTROL) && place === 'transaction' && !has(Trait.SAVEPOINT)) {
    return misuse('transaction_open', OPEN)
  }
  if (has(Trait.SESSION) && shared) return misuse('session_state', SESSION)
  if (has(Trait.LOCAL) && place === 'shared') return misuse('transaction_local', LOCAL)
  if (place !== 'pipeline') return undefined
  if (has(Trait.ALONE)) return misuse('stand_alone', ALONE)
  return has(Trait.CALL) ? misuse('call', CALL) : undefined
}

const CONTROL =
  "transaction control on a shared connection would put others' statements into this transaction: use sql.begin or sql.session"
const OPEN = 'the transaction ends with its function: return or throw'
const SESSION =
  'this statement changes or uses session state, which a shared connection can’t keep for one caller: use sql.session'
const LOCAL =
  'SET LOCAL and SET CONSTRAINTS end with their transaction, which here is this one statement: use sql.begin or sql.pipeline'
const ALONE = 'this statement commits by itself and can’t be part of a pipeline: send it alone'
const CALL =
  'CALL and DO may commit what came before them and can’t be part of a pipeline: send it alone'
const SEVERAL = 'this text holds several statements, and a template is one: send them as a pipeline'
const COPY =
  'COPY FROM STDIN and TO STDOUT take the connection over: use sql.copyFrom and sql.copyTo'

function classify(given: string): number {
  const shown = given.replace(HIDDEN, hide).trim().toLowerCase()
  const text = shown.replace(BEFORE, '')
  const word = /^[a-z]+/.exec(text)?.[0] ?? ''
  const traits = HEADS[word] ?? 0
  const several = hasSeveral(shown) ? Trait.SEVERAL : 0
  return (typeof traits === 'number' ? traits : traits(text)) | anywhere(text, word) | several
}

/** Semicolons in parentheses (CREATE RULE) and behind BEGIN ATOMIC part nothing. */
function hasSeveral(text: string): boolean {
  const first = /^[;\s]*/.exec(text)?.[0].length ?? 0
  for (let at = text.indexOf(';', first); at >= 0; at = text.indexOf(';', at + 1)) {
    let depth = 0
    for (let i = first; i < at; i++) depth += text[i] === '(' ? 1 : text[i] === ')' ? -1 : 0
    if (depth > 0 || /\bbegin\s+atomic\b/.test(text.slice(0, at))) continue
    if (/[^;\s]/.test(text.slice(at))) return true
  }
  return false
}

/** Comments, strings, names in quotes, and strings in dollars. */
const HIDDEN =
  /--[^\r\n]*|\/\*[\s\S]*?\*\/|\be'(?:[^'\\]|\\[\s\S]|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$([A-Za-z_]\w*)?\$[\s\S]*?\$\1\$/gi

function hide(hidden: string): string {
  if (hidden.startsWith('"')) return /^"pg_temp/i.test(hidden) ? hidden.slice(1, -1) : '"x"'
  return hidden.startsWith('-') || hidden.startsWith('/') ? ' ' : "''"
}

/** What EXPLAIN stands before may run. */
const BEFORE = /^(?:[;(\s]|explain\b\s*(?:\([^)]*\)|(?:analyze|verbose)\b|\s)*)+/

const HEADS: { readonly [word: string]: number | ((text: string) => number) | undefined } = {
  __proto__: null as never,
  begin: Trait.CONTROL,
  start: Trait.CONTROL,
  abort: Trait.CONTROL,
  end: Trait.CONTROL,
  savepoint: Trait.CONTROL | Trait.SAVEPOINT,
  release: Trait.CONTROL | Trait.SAVEPOINT,
  commit: (text) => (/^commit\s+prepared\b/.test(text) ? Trait.ALONE : Trait.CONTROL),
  rollback: (text) => {
    if (/^rollback\s+prepared\b/.test(text)) return Trait.ALONE
    const to = /^rollback\s+(?:(?:work|transaction)\s+)?to\b/.test(text)
    return to ? Trait.CONTROL | Trait.SAVEPOINT : Trait.CONTROL
  },
  prepare: (text) => (/^prepare\s+transaction\b/.test(text) ? Trait.CONTROL : Trait.SESSION),
  set: (text) => {
    if (/^set\s+transaction\b/.test(text)) return Trait.CONTROL | Trait.SAVEPOINT
    if (/^set\s+(?:session|local)\s+transaction\b/.test(text)) return Trait.CONTROL
    return /^set\s+(?:constraints|local)\b/.test(text) ? Trait.LOCAL : Trait.SESSION
  },
  discard: (text) => (/^discard\s+all\b/.test(text) ? Trait.SESSION | Trait.ALONE : Trait.SESSION),
  reset: Trait.SESSION,
  listen: Trait.SESSION,
  unlisten: Trait.SESSION,
  declare: Trait.SESSION,
  fetch: Trait.SESSION,
  move: Trait.SESSION,
  close: Trait.SESSION,
  execute: Trait.SESSION,
  deallocate: Trait.SESSION,
  load: Trait.SESSION,
  lock: Trait.SESSION,
  call: Trait.CALL,
  do: Trait.CALL,
  vacuum: Trait.ALONE,
  copy: (text) => (/\b(?:stdin|stdout)\b/.test(text) ? Trait.COPY : 0),
  create: (text) => {
    if (/^create\s+(?:(?:local|global)\s+)?temp(?:orary)?\b/.test(text)) return Trait.SESSION
    if (/^create\s+or\s+replace\s+temp(?:orary)?\b/.test(text)) return Trait.SESSION
    return /^create\s+(?:database|tablespace|subscription|(?:unique\s+)?index\s+concurrently)\b/.test(
      text,
    )
      ? Trait.ALONE
      : 0
  },
  drop: (text) =>
    /^drop\s+(?:database|tablespace|subscription|index\s+concurrently)\b/.test(text)
      ? Trait.ALONE
      : 0,
  alter: (text) =>
    /^alter\s+(?:system|subscription)\b|^alter\s+database\b.*\bset\s+tablespace\b|\bdetach\s+partition\b.*\bconcurrently\b/s.test(
      text,
    )
      ? Trait.ALONE
      : 0,
  reindex: (text) =>
    /\bconcurrently\b|\b(?:schema|database|system)\b/.test(text) ? Trait.ALONE : 0,
  cluster: (text) => (/^cluster\s*(?:verbose\s*)?;?$/.test(text) ? Trait.ALONE : 0),
}

/** What counts wherever it stands: temporary tables, and locks of the session. */
function anywhere(text: string, word: string): number {
  if (/\bpg_temp(?:_\d+)?\s*\./.test(text)) return Trait.SESSION
  // What CREATE FUNCTION holds does not run.
  if (word === 'create' && !/^create\s+(?:unlogged\s+)?(?:table|materialized)\b/.test(text))
    return 0
  if (/\bpg_(?:try_)?advisory_(?:lock|unlock)(?:_shared|_all)?\s*\(/.test(text))
    return Trait.SESSION
  return /\binto\s+(?:local\s+|global\s+)?temp(?:orary)?\b/.test(text) ? Trait.SESSION : 0
}

/** Texts whose traits are remembered. */
const KNOWN_MAX = 1024
const known = new Recent<string, number>(KNOWN_MAX)
