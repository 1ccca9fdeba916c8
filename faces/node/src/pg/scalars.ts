import { dateReader, readMoment } from './dates'
import { readText } from './text'
import { originalParsers, pgTypes, type Parser } from './types'

/** Reads a value: `length` bytes from `start`, of the memory with these `bytes`. */
export type Read = (bytes: Uint8Array, start: number, length: number) => unknown

/** A reader of values, and its letter in the key of a kind of rows. */
export interface Direct {
  readonly letter: string
  readonly read: Read
}

/**
 * A reader that returns the same values as a parser, without making a string first. Only the
 * parsers of pg-types have one. A parser that a user registers is always called.
 */
export function directOf(parse: Parser): Direct | undefined {
  return (direct ??= directParsers()).get(parse)
}

function readInteger(bytes: Uint8Array, start: number, length: number): number {
  const negative = bytes[start] === MINUS
  const end = start + length
  let at = negative ? start + 1 : start
  const digits = end - at
  if (digits < 1 || digits > EXACT_DIGITS) return parseInt(readText(bytes, start, length), 10)
  let number = 0
  for (; at < end; at++) {
    const digit = (bytes[at] as number) - ZERO
    if (digit >>> 0 > 9) return parseInt(readText(bytes, start, length), 10)
    number = number * 10 + digit
  }
  return negative ? -number : number
}

/** Reads digits with at most one point. The quotient of two exact numbers is correctly rounded. */
function readFloat(bytes: Uint8Array, start: number, length: number): number {
  const negative = bytes[start] === MINUS
  const end = start + length
  const first = negative ? start + 1 : start
  if (first >= end || end - first > EXACT_DIGITS) return parseFloat(readText(bytes, start, length))
  let number = 0
  let fraction = end
  for (let at = first; at < end; at++) {
    const digit = (bytes[at] as number) - ZERO
    if (digit >>> 0 <= 9) number = number * 10 + digit
    else if (digit === POINT - ZERO && fraction === end && at > first) fraction = at + 1
    else return parseFloat(readText(bytes, start, length))
  }
  if (fraction < end) number /= POWERS[end - fraction] as number
  return negative ? -number : number
}

function boolReader(parse: Parser): Read {
  return (bytes, start, length) => {
    if (length === 1) {
      if (bytes[start] === TRUE) return true
      if (bytes[start] === FALSE) return false
    }
    return parse(readText(bytes, start, length))
  }
}

const TEXT: Direct = { letter: 't', read: readText }

const MINUS = 0x2d
const POINT = 0x2e
const ZERO = 0x30
const FALSE = 0x66
const TRUE = 0x74

/**
 * Numbers of up to this many digits are exact in a double, and so are powers of ten up to this one.
 */
const EXACT_DIGITS = 15
const POWERS = Array.from({ length: EXACT_DIGITS + 1 }, (_, digits) => 10 ** digits)

let direct: ReadonlyMap<Parser, Direct> | undefined

/** The readers by parser. The parsers are pg-types' own, since users may have registered others. */
function directParsers(): ReadonlyMap<Parser, Direct> {
  const parsers = originalParsers()
  const of = (type: number): Parser => parsers.get(type) as Parser
  // One type stands for all that share a parser.
  return new Map<Parser, Direct>([
    [of(16), { letter: 'b', read: boolReader(of(16)) }],
    [of(20), TEXT],
    [of(23), { letter: 'i', read: readInteger }],
    [of(701), { letter: 'f', read: readFloat }],
    [of(1184), { letter: 'd', read: dateReader(of(1184)) }],
    [readMoment, { letter: 'd', read: dateReader(readMoment) }],
    // The parser of types without one: any type has it in a format that does not exist.
    [pgTypes().getTypeParser(0, 'none' as 'text'), TEXT],
  ])
}
