/** Nothing is said about a statement: it is placed by what else is on the connections. */
export const UNTOLD = 0

/** Nothing is to go behind it. */
export const ALONE = 1

/**
 * A number that is the same for the same text, by which a pool knows how long it takes. Digits and what stands between
 * single quotes don't count, so texts that differ only in the numbers and strings written into them are one.
 */
export function keyOf(text: string): number {
  const known = keys.get(text)
  if (known !== undefined) return known
  const key = hash(text)
  if (text.length <= LENGTH_MAX) {
    // The oldest goes. A text that is not kept is only looked at again.
    if (keys.size >= KEPT_MAX) for (const [oldest] of keys) if (keys.delete(oldest)) break
    keys.set(text, key)
  }
  return key
}

/** A text of this key; undefined if it was not kept. */
export function textOf(key: number): string | undefined {
  for (const [text, its] of keys) if (its === key) return text
  return undefined
}

/** FNV-1a: a collision costs a wrong guess. */
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
