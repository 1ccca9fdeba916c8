import type { Entry, Scanned, Scored } from './commands'
import { double, pairs, type Reply } from './reply'

// Conversions of replies, so that callers see the same with RESP2 and RESP3.

type Shaped = (reply: Reply, bytes: boolean) => unknown

export const bool: Shaped = (reply) => reply === 1 || reply === true

export const bools: Shaped = (reply) => (reply as Reply[]).map((item) => item === 1)

/** RESP2 sends floating-point numbers as strings. */
export const float: Shaped = (reply) => (reply === null ? null : number(reply))

const number = (reply: Reply): number => (typeof reply === 'number' ? reply : double(String(reply)))

/** RESP2 sends a set as an array. */
export const set: Shaped = (reply) => (reply instanceof Set ? reply : new Set(reply as Reply[]))

/** RESP2 sends a map as an array of keys and values by turns. */
export const map: Shaped = (reply, bytes) => {
  if (!Array.isArray(reply)) return reply
  return bytes ? entriesOf(reply) : pairs(reply)
}

function entriesOf(items: readonly Reply[]): Map<Reply, Reply> {
  const made = new Map<Reply, Reply>()
  for (let i = 0; i < items.length; i += 2) made.set(items[i] as Reply, items[i + 1] as Reply)
  return made
}

/** Members with scores: pairs in RESP3, one list by turns in RESP2. */
export const scored: Shaped = (reply) => {
  const items = reply as Reply[]
  const made: Scored<Reply>[] = []
  if (Array.isArray(items[0])) {
    for (const [value, score] of items as Reply[][])
      made.push({ value: value as Reply, score: number(score as Reply) })
  } else {
    for (let i = 0; i < items.length; i += 2) {
      made.push({ value: items[i] as Reply, score: number(items[i + 1] as Reply) })
    }
  }
  return made
}

export const scan: Shaped = (reply) => scanned(reply, (items) => items)

export const scanPairs: Shaped = (reply, bytes) => scanned(reply, (items) => map(items, bytes))

function scanned(reply: Reply, shape: (items: Reply[]) => unknown): Scanned<unknown> {
  const [cursor, items] = reply as [Reply, Reply[]]
  return { cursor: String(cursor), items: shape(items) }
}

/** Entries of a stream. A deleted entry has no fields. */
export const entries: Shaped = (reply, bytes) =>
  (reply as Reply[][]).map((entry) => entryOf(entry, bytes))

function entryOf([id, fields]: readonly Reply[], bytes: boolean): Entry<unknown> {
  const shaped = map((fields ?? []) as Reply[], bytes)
  return { id: String(id), fields: shaped as { [field: string]: unknown } }
}

/** Entries by stream: a map in RESP3, pairs in RESP2. */
export const streams: Shaped = (reply, bytes) => {
  if (reply === null) return null
  const made = bytes
    ? new Map<Reply, unknown>()
    : (Object.create(null) as { [stream: string]: unknown })
  for (const [stream, list] of listOf(reply)) {
    const shaped = entries(list, bytes)
    if (made instanceof Map) made.set(stream, shaped)
    else made[String(stream)] = shaped
  }
  return made
}

function listOf(reply: Reply): [Reply, Reply][] {
  if (Array.isArray(reply)) return reply as [Reply, Reply][]
  if (reply instanceof Map) return [...reply]
  return Object.entries(reply as { [key: string]: Reply })
}
