import { LEFT_TO_RIGHT, PROHIBITED, RIGHT_TO_LEFT, UNASSIGNED } from './saslprep-tables'

/**
 * Prepares a password for SCRAM (RFC 4013), as the server prepared the one that it stores.
 *
 * A password that the RFC prohibits is returned unchanged, as in libpq and in the server.
 */
export function saslprep(password: string): string {
  if (ASCII.test(password)) return password
  const mapped = password.replace(SPACES, ' ').replace(NOTHING, '').normalize('NFKC')
  if (mapped === '') return password
  let [first, last, right, left] = [false, false, false, false]
  for (const [index, character] of [...mapped].entries()) {
    const code = character.codePointAt(0) as number
    if (isIn(PROHIBITED, code) || isIn(UNASSIGNED, code)) return password
    last = isIn(RIGHT_TO_LEFT, code)
    if (index === 0) first = last
    right ||= last
    left ||= isIn(LEFT_TO_RIGHT, code)
  }
  // Prohibited: texts in both directions, and texts from right to left that begin or end otherwise.
  return right && (left || !first || !last) ? password : mapped
}

/** Printable ASCII. Control characters are prohibited. */
const ASCII = /^[ -~]*$/

/** Table C.1.2: spaces other than that of ASCII. */
const SPACES = /[\u00a0\u1680\u2000-\u200b\u202f\u205f\u3000]/g

/** Table B.1: characters that are mapped to nothing. */
const NOTHING = /\u00ad|\u034f|\u1806|[\u180b-\u180d]|[\u200b-\u200d]|\u2060|[\ufe00-\ufe0f]|\ufeff/g

/**
 * Whether a code point is in one of the ranges. They are unpacked each time, since passwords are
 * few.
 */
function isIn(ranges: string, code: number): boolean {
  const numbers = ranges.match(NUMBERS) ?? []
  const at = (i: number): number => parseInt((numbers[i] as string).replace(/\W/, ''), 36)
  let start = 0
  for (let i = 0; i < numbers.length; i += 2) {
    start += at(i)
    const end = start + at(i + 1)
    if (code <= end) return code >= start
    start = end
  }
  return false
}

const NUMBERS = /-..|\....|,....|./g
