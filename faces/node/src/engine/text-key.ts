/** No text is known: the statement is placed by the load of the connections only. */
export const UNTOLD = 0

/** The key of statements behind which nothing must be sent. */
export const ALONE = 1

/**
 * The key of a text, by which a pool remembers how long the text takes. Digits and single-quoted
 * strings are left out, so texts that differ only in these have the same key.
 */
export function keyOf(text: string): number {
  const known = keys.get(text)
  if (known !== undefined) return known
  const key = hash(text)
  if (text.length <= LENGTH_MAX) {
    // The oldest key is forgotten. It costs only another hash.
    if (keys.size >= KEPT_MAX) for (const [oldest] of keys) if (keys.delete(oldest)) break
    keys.set(text, key)
  }
  return key
}

/** A text of this key; undefined if none is remembered. */
export function textOf(key: number): string | undefined {
  for (const [text, its] of keys) if (its === key) return text
  return undefined
}

/** FNV-1a. After a collision the pool expects a wrong duration, which does no other harm. */
function hash(text: string): number {
  let hash = 0x811c9dc5
  let isQuoted = false
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (unit === QUOTE) isQuoted = !isQuoted
    if (isQuoted || unit === QUOTE || (unit >= DIGIT_0 && unit <= DIGIT_9)) continue
    hash = Math.imul(hash ^ unit, 0x01000193)
  }
  return Math.max(hash >>> 0, ALONE + 1)
}

const keys = new Map<string, number>()

const KEPT_MAX = 1000
const LENGTH_MAX = 16_384

const QUOTE = 0x27
const DIGIT_0 = 0x30
const DIGIT_9 = 0x39
