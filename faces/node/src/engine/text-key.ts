import { Key } from './exports'
import { ENGINE_LOST, memory } from './memory'

/** No text is known: the statement is placed by the load of the connections only. */
export const UNTOLD = 0

/** The key of statements behind which nothing must be sent. */
export const ALONE = 1

/** The key of a pipeline whose first statement has this one. */
export function keyOfPipeline(first: number): number {
  return first > ALONE ? (first | Key.STAYS) >>> 0 : first
}

/**
 * The key of a text, by which a pool knows how long its statements take, and whether they may wait
 * for a lock. Digits and single-quoted strings are left out, so texts that differ only in these
 * have the same key.
 */
export function keyOf(text: string): number {
  const known = keys.get(text)
  if (known !== undefined) return known
  const key = hash(text)
  if (text.length <= LENGTH_MAX) {
    // The oldest key is forgotten. It costs only another look at the text.
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

function hash(text: string): number {
  // A failed module answers 0, which must not be remembered.
  if (memory.isLost) throw new Error(ENGINE_LOST)
  // An empty text has a key, too, and lent memory is not empty.
  const bytes = Buffer.from(text || ' ')
  const lent = (start: number): number =>
    memory.engine.onetrip_postgres_text_key(start, bytes.length)
  return memory.lend(bytes, lent) >>> 0
}

const keys = new Map<string, number>()

const KEPT_MAX = 1000
const LENGTH_MAX = 16_384
