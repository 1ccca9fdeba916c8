import { OUTCOMES } from '../engine/choices'
import { memory } from '../engine/memory'
import { fromText, RedisError } from './error'

/**
 * A reply. Strings are strings, or `Buffer` on a client of `buffers`. Integers are numbers, or
 * bigints if a number cannot hold them; big numbers are bigints. Sets are `Set`. Maps are objects
 * without a prototype, or `Map` on a client of `buffers`. An error inside an array is an item.
 */
export type Reply =
  | string
  | Buffer
  | number
  | bigint
  | boolean
  | null
  | RedisError
  | Reply[]
  | Set<Reply>
  | Map<Reply, Reply>
  | { [key: string]: Reply }

const CR = 0x0d
const STREAMED = -2

/** Longer strings are read by Node. For short ones a call into Node costs more. */
const SHORT = 24

/** The address of the next value. */
let at = 0
/** Whether strings are read as bytes. */
let asBytes = false
/** Whether the command may have had effects before an error. */
let leaves = false
/** The name of the command. */
let command = ''

/** Sets the address from which replies are read. */
export function begin(start: number): void {
  at = start
}

/** The address of the next reply. */
export function position(): number {
  return at
}

/**
 * Reads the next reply, as that of the command `name`. `mayLeave`: the command may have had effects
 * before an error. An error is returned, not thrown.
 */
export function next(bytes: boolean, mayLeave: boolean, name: string): Reply {
  asBytes = bytes
  leaves = mayLeave
  command = name
  return value()
}

/**
 * Reads the head of an array and returns the number of items, which are read next. Undefined, and
 * nothing is read, if the next value is not an array.
 */
export function arrayOf(): number | undefined {
  const { bytes } = memory
  if (bytes[at] !== 0x2a || bytes[at + 1] === 0x2d || bytes[at + 1] === 0x3f) return undefined
  return length(bytes)
}

function value(): Reply {
  const { bytes } = memory
  switch (bytes[at]) {
    case 0x24: // $
      return bulk(bytes)
    case 0x2b: // +
      return line(bytes)
    case 0x3a: // :
      return integer(bytes)
    case 0x2a: // *
      return array(bytes)
    case 0x2d: // -
      return error(bytes)
    default:
      return rare(bytes)
  }
}

function rare(bytes: Uint8Array): Reply {
  switch (bytes[at]) {
    case 0x5f: // _
      at += 3
      return null
    case 0x25: // %
      return asBytes ? entries(bytes) : object(bytes)
    case 0x7e: // ~
      return new Set(array(bytes))
    case 0x3e: // >
      return array(bytes)
    case 0x2c: // ,
      return double(line(bytes))
    case 0x23: // #
      at += 4
      return bytes[at - 3] === 0x74
    case 0x28: // (
      return BigInt(line(bytes))
    case 0x3d: // =
      return verbatim(bytes)
    case 0x21: // !
      return error(bytes)
    case 0x7c: // |
      attributes(bytes)
      return value()
    default:
      throw new Error(`a value of an unknown type (${bytes[at]})`)
  }
}

/** Reads a length: -1 for a null, `STREAMED` if the server does not know it in advance. */
function length(bytes: Uint8Array): number {
  let i = at + 1
  let byte = bytes[i] as number
  if (byte === 0x3f) {
    at = i + 3
    return STREAMED
  }
  if (byte === 0x2d) {
    at = i + 4
    return -1
  }
  let len = 0
  for (; byte !== CR; byte = bytes[++i] as number) len = len * 10 + (byte - 0x30)
  at = i + 2
  return len
}

function bulk(bytes: Uint8Array): string | Buffer | null {
  const len = length(bytes)
  if (len >= 0) {
    const start = at
    at = start + len + 2
    return string(bytes, start, start + len)
  }
  return len === -1 ? null : chunks(bytes)
}

function string(bytes: Uint8Array, start: number, end: number): string | Buffer {
  if (asBytes) return Buffer.from(bytes.subarray(start, end))
  if (end - start > SHORT) return memory.buffer.utf8Slice(start, end)
  return memory.text(start, end)
}

/** Reads a streamed string. The protocol allows them, but servers don't send them. */
function chunks(bytes: Uint8Array): string | Buffer {
  const parts: Buffer[] = []
  for (let len = length(bytes); len > 0; len = length(bytes)) {
    parts.push(Buffer.from(bytes.subarray(at, at + len)))
    at += len + 2
  }
  const whole = Buffer.concat(parts)
  return asBytes ? whole : whole.toString()
}

function line(bytes: Uint8Array): string {
  const start = at + 1
  if (bytes[start] === 0x4f && bytes[start + 1] === 0x4b && bytes[start + 2] === CR) {
    at = start + 4
    return 'OK'
  }
  let end = start
  // A line ends with CR LF. A CR or an LF alone is part of the line.
  while (bytes[end] !== CR || bytes[end + 1] !== 0x0a) {
    if (end >= bytes.length) throw new Error('a line without an end')
    end++
  }
  at = end + 2
  return memory.text(start, end)
}

function integer(bytes: Uint8Array): number | bigint {
  const start = at + 1
  let i = start
  const negative = bytes[i] === 0x2d
  if (negative || bytes[i] === 0x2b) i++
  let number = 0
  for (let byte = bytes[i] as number; byte !== CR; byte = bytes[++i] as number) {
    number = number * 10 + (byte - 0x30)
  }
  at = i + 2
  if (number > Number.MAX_SAFE_INTEGER) return BigInt(memory.text(start, i))
  return negative ? -number : number
}

function array(bytes: Uint8Array): Reply[] | never {
  const len = length(bytes)
  // RESP2 sends a null array as `*-1`.
  if (len === -1) return null as never
  if (len === STREAMED) return streamed(bytes)
  const items: Reply[] = []
  for (let i = 0; i < len; i++) items.push(value())
  return items
}

function streamed(bytes: Uint8Array): Reply[] {
  const items: Reply[] = []
  while (bytes[at] !== 0x2e) items.push(value())
  at += 3
  return items
}

/** Reads a map as a list of keys and values by turns. */
function flat(bytes: Uint8Array): Reply[] {
  const len = length(bytes)
  if (len === STREAMED) return streamed(bytes)
  const items: Reply[] = []
  for (let i = 0; i < 2 * len; i++) items.push(value())
  return items
}

function entries(bytes: Uint8Array): Map<Reply, Reply> {
  const items = flat(bytes)
  const map = new Map<Reply, Reply>()
  for (let i = 0; i < items.length; i += 2) map.set(items[i] as Reply, items[i + 1] as Reply)
  return map
}

function object(bytes: Uint8Array): { [key: string]: Reply } {
  return pairs(flat(bytes))
}

/** Makes an object of keys and values by turns. Keys are converted to strings. */
export function pairs(items: readonly Reply[]): { [key: string]: Reply } {
  const made = Object.create(null) as { [key: string]: Reply }
  for (let i = 0; i < items.length; i += 2) made[String(items[i])] = items[i + 1] as Reply
  return made
}

/** Parses a floating-point number in the form in which servers write it. */
export function double(text: string): number {
  if (text === 'inf' || text === '+inf') return Infinity
  if (text === '-inf') return -Infinity
  return Number(text)
}

function verbatim(bytes: Uint8Array): string | Buffer {
  const len = length(bytes)
  const start = at
  at = start + len + 2
  // Three letters and a colon in front say the format.
  return string(bytes, start + 4, start + len)
}

function error(bytes: Uint8Array): RedisError {
  const start = at
  let text: string
  if (bytes[at] === 0x21) {
    const len = length(bytes)
    text = memory.text(at, at + len)
    at += len + 2
  } else {
    text = line(bytes)
  }
  const outcome = memory.engine.onetrip_redis_outcome(start, at - start, leaves ? 1 : 0)
  return fromText(text, OUTCOMES[outcome] ?? 'Unknown', command)
}

/** Passes over the attributes in front of a value. */
function attributes(bytes: Uint8Array): void {
  flat(bytes)
}

/** The address of the reply behind its attributes, if it has any. */
export function bare(start: number): number {
  at = start
  const { bytes } = memory
  while (bytes[at] === 0x7c) attributes(bytes)
  return at
}

/** Whether the reply at this address is an error. */
export function isError(start: number): boolean {
  const kind = memory.bytes[start]
  return kind === 0x2d || kind === 0x21
}

/** Passes over the reply that begins here, and returns where it ends. */
export function skip(start: number): number {
  at = start
  let due = 1
  const { bytes } = memory
  for (; due > 0; due--) {
    const kind = bytes[at] as number
    if (kind === 0x24 || kind === 0x3d || kind === 0x21) {
      const len = length(bytes)
      if (len === STREAMED) chunks(bytes)
      else if (len >= 0) at += len + 2
    } else if (kind === 0x2a || kind === 0x7e || kind === 0x3e) {
      due += Math.max(0, length(bytes))
    } else if (kind === 0x25) {
      due += 2 * length(bytes)
    } else if (kind === 0x7c) {
      due += 2 * length(bytes) + 1
    } else {
      line(bytes)
    }
  }
  return at
}
