import { readText } from './text'
import { originalParsers, type Parser } from './types'

/** Reads a `timestamptz`, or throws: pg's parser makes null of what it can't read. */
export const readMoment: Parser = (text) => {
  const parse = originalParsers().get(1184) as Parser
  const moment = parse(text)
  if (moment !== null) return moment
  throw new Error(`${text} is no timestamptz in ISO style: let DateStyle begin with ISO`)
}

/**
 * A reader of `date`, `timestamp` and `timestamptz` in ISO style, for the years 100 to 9999. It
 * returns the same value as `parse`, which reads the texts of any other form.
 */
export function dateReader(
  parse: Parser,
): (bytes: Uint8Array, start: number, length: number) => unknown {
  return (bytes, start, length) =>
    readDate(bytes, start, start + length) ?? parse(readText(bytes, start, length))
}

function readDate(bytes: Uint8Array, start: number, end: number): Date | undefined {
  if (end - start < DATE || bytes[start + 4] !== MINUS || bytes[start + 7] !== MINUS) return
  const year = two(bytes, start) * 100 + two(bytes, start + 2)
  const month = two(bytes, start + 5)
  const day = two(bytes, start + 8)
  if (year < 100 || month < 1 || month > 12 || day < 0) return
  let at = start + DATE
  if (at === end) return new Date(year, month - 1, day)

  if (end - at < TIME || bytes[at] !== BLANK) return
  if (bytes[at + 3] !== COLON || bytes[at + 6] !== COLON) return
  const hour = two(bytes, at + 1)
  const minute = two(bytes, at + 4)
  const second = two(bytes, at + 7)
  if (hour < 0 || minute < 0 || second < 0) return
  at += TIME

  let milliseconds = 0
  if (bytes[at] === POINT && at < end) {
    const first = ++at
    let digits = 0
    for (; at < end; at++) {
      const digit = (bytes[at] as number) - ZERO
      if (digit >>> 0 > 9) break
      digits = digits * 10 + digit
    }
    if (at === first || at - first > FRACTION_MAX) return
    // Truncated as `parse` does, although the product may lie just below the exact number.
    milliseconds = Math.trunc(1000 * (digits / 10 ** (at - first)))
  }
  if (at === end) return new Date(year, month - 1, day, hour, minute, second, milliseconds)

  const offset = readOffset(bytes, at, end)
  if (offset === undefined) return
  const minutes = (daysSinceEpoch(year, month, day) * 24 + hour) * 60 + minute
  return new Date((minutes * 60 + second - offset) * 1000 + milliseconds)
}

/** Reads an offset such as `+01`, `-03:30` or `+00:19:32`, in seconds. */
function readOffset(bytes: Uint8Array, start: number, end: number): number | undefined {
  const sign = bytes[start]
  if (sign !== PLUS && sign !== MINUS) return
  let seconds = two(bytes, start + 1) * 3600
  let at = start + 3
  for (let unit = 60; at < end && unit >= 1; unit /= 60) {
    if (bytes[at] !== COLON) return
    seconds += two(bytes, at + 1) * unit
    at += 3
  }
  if (at !== end || seconds < 0) return
  return sign === PLUS ? seconds : -seconds
}

/**
 * Reads two digits. If they are not digits, the result is so low that all sums with it are
 * negative.
 */
function two(bytes: Uint8Array, at: number): number {
  const tens = (bytes[at] as number) - ZERO
  const ones = (bytes[at + 1] as number) - ZERO
  return tens >>> 0 > 9 || ones >>> 0 > 9 ? NO_NUMBER : tens * 10 + ones
}

/**
 * Days in the proleptic Gregorian calendar. Years begin in March, so the leap day is their last
 * day.
 */
function daysSinceEpoch(year: number, month: number, day: number): number {
  const shifted = month > 2 ? year : year - 1
  const months = month > 2 ? month - 3 : month + 9
  const leapDays = ((shifted / 4) | 0) - ((shifted / 100) | 0) + ((shifted / 400) | 0)
  return shifted * 365 + leapDays + (((153 * months + 2) / 5) | 0) + day - DAYS_BEFORE_1970
}

const MINUS = 0x2d
const PLUS = 0x2b
const POINT = 0x2e
const ZERO = 0x30
const COLON = 0x3a
const BLANK = 0x20

const NO_NUMBER = -1_000_000

/** The lengths of `2000-01-02` and of ` 03:04:05`. */
const DATE = 10
const TIME = 9
/** The most digits behind the point that the server sends. */
const FRACTION_MAX = 6
/** Days before 1970-01-01, counted from 1 for the first of March of the year 0. */
const DAYS_BEFORE_1970 = 719469
