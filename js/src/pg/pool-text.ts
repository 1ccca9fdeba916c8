import { Recent } from './recent'

/**
 * Whether a text may run on a connection that carries the queries of others at the same time: one statement that is complete
 * in itself. It errs to no: BEGIN, SET, LISTEN, COPY and all that is not known here gets a client of its own, as do texts
 * that may be several statements or that name what a session keeps.
 */
export function isShareable(text: string): boolean {
  if (text.length > LONG) return judge(text)
  const known = seen.get(text)
  if (known !== undefined) return known
  const judged = judge(text)
  seen.set(text, judged)
  return judged
}

function judge(text: string): boolean {
  COMPLETE.lastIndex = firstWord(text)
  return COMPLETE.test(text) && isSingle(text) && !LASTS_IN_SESSION.test(text)
}

/** Where it begins, behind blanks, parentheses and comments. */
function firstWord(text: string): number {
  let at = 0
  while (at < text.length) {
    if (text.charCodeAt(at) <= BLANK || text[at] === '(') at++
    else if (text.startsWith('--', at)) at = behind(text, LINE_END, at)
    else if (text.startsWith('/*', at)) at = behind(text, COMMENT_END, at + 2)
    else break
  }
  return at
}

function behind(text: string, end: RegExp, from: number): number {
  end.lastIndex = from
  return end.test(text) ? end.lastIndex : text.length
}

/** A semicolon in a literal counts too: such a text only misses the company. */
function isSingle(text: string): boolean {
  const semicolon = text.indexOf(';')
  if (semicolon >= 0 && /[^;\s]/.test(text.slice(semicolon))) return false
  // Comments nest in SQL, which is not looked at above.
  const comment = text.indexOf('/*')
  return comment < 0 || !text.includes('/*', comment + 2)
}

const COMPLETE = /(?:select|insert|update|delete|merge|with|values|table|show|explain)\b/iy

const BLANK = 0x20
const LINE_END = /[\n\r]/g
const COMMENT_END = /\*\//g

/** Locks of the session (not those of a transaction, with `_xact_`), its settings and its tables. */
const LASTS_IN_SESSION = /advisory_(?:un)?lock|set_config|pg_temp|\b(?:into|create)\s+(?:local\s+|global\s+)?temp/i

/** Longer texts are rarely the same twice, and are not kept. */
const LONG = 2_000

const seen = new Recent<string, boolean>(1_000)
