import { deprecate } from 'node:util'
import { isDate } from 'node:util/types'

import type { Parameter } from '../engine/link'
import { defaults } from './defaults'

/**
 * Converts a value to a parameter: a text, bytes, or NULL.
 *
 * Dates become texts in local time with its offset, or in UTC if `defaults.parseInputDatesAsUTC` is
 * true. Arrays become array literals. An object with a method `toPostgres` becomes the result of
 * that method, and any other object JSON.
 */
export function prepareValue(value: unknown): Parameter {
  if (typeof value === 'string') return value
  if (typeof value === 'number') return String(value)
  return prepare(value) ?? null
}

type Callback = (error: Error | null, result?: unknown) => void

/** The configuration of a query as one object. The caller's object is not changed. */
export function normalizeQueryConfig<T extends object>(
  config: string | T | null | undefined,
  values?: unknown,
  callback?: Callback,
): T & { text?: string; values?: unknown; callback?: Callback } {
  const copy = (typeof config === 'string' ? { text: config } : copyOf(config)) as T & {
    text?: string
    values?: unknown
    callback?: Callback
  }
  if (typeof values === 'function') copy.callback = values as Callback
  else if (values) copy.values = values
  if (callback) copy.callback = callback
  return copy
}

/** Copies an object with its prototype and its accessors. */
function copyOf<T extends object>(config: T | null | undefined): T | null | undefined {
  if (config === null || config === undefined) return config
  const descriptors = Object.getOwnPropertyDescriptors(config)
  return Object.defineProperties(Object.create(Object.getPrototypeOf(config)), descriptors) as T
}

/** The JSON of some values is undefined, and `toPostgres` may return null. */
type Prepared = string | Buffer | null | undefined

interface Convertible {
  toPostgres(prepare: (value: unknown) => Prepared): unknown
}

/** `seen`: the objects whose `toPostgres` led to this value. */
function prepare(value: unknown, seen?: Convertible[]): Prepared {
  if (value === null || value === undefined) return null
  if (typeof value !== 'object') return (value as { toString(): string }).toString()
  if (value instanceof Buffer) return value
  if (ArrayBuffer.isView(value)) {
    return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  }
  if (isDate(value)) return prepareDate(value)
  if (Array.isArray(value)) return prepareArray(value)
  if (!isConvertible(value)) return JSON.stringify(value) as string | undefined
  if (seen?.includes(value)) {
    throw new Error(`circular reference detected while preparing "${value}" for query`)
  }
  const all = [...(seen ?? []), value]
  return prepare(value.toPostgres(prepare), all)
}

function isConvertible(value: object): value is Convertible {
  return typeof (value as Partial<Convertible>).toPostgres === 'function'
}

/** An array literal. Elements are separated by commas, as for all types but `box`. */
function prepareArray(values: readonly unknown[]): string {
  let literal = '{'
  for (let i = 0; i < values.length; i++) {
    if (i > 0) literal += ','
    literal += prepareElement(values[i])
  }
  return literal + '}'
}

function prepareElement(value: unknown): string {
  if (value === null || value === undefined) return 'NULL'
  if (Array.isArray(value)) return prepareArray(value)
  if (ArrayBuffer.isView(value)) {
    const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength)
    return `\\\\x${bytes.toString('hex')}`
  }
  const text = prepare(value)
  if (typeof text === 'string' && !text.includes('"') && !text.includes('\\')) return `"${text}"`
  // An object whose `toPostgres` returns bytes or null throws here.
  return `"${(text as string).replace(/[\\"]/g, '\\$&')}"`
}

function prepareDate(date: Date): string {
  if (Number.isNaN(date.getTime())) warnOfInvalidDate()
  return defaults.parseInputDatesAsUTC ? utcText(date) : localText(date)
}

function localText(date: Date): string {
  const minutes = -date.getTimezoneOffset()
  const away = Math.abs(minutes)
  const offset = `${minutes < 0 ? '-' : '+'}${pad(Math.floor(away / 60))}:${pad(away % 60)}`
  const time = `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`
  const rest = `${pad(date.getMonth() + 1)}-${pad(date.getDate())}T${time}`
  return withYear(date.getFullYear(), `${rest}.${pad(date.getMilliseconds(), 3)}${offset}`)
}

function utcText(date: Date): string {
  const time = `${pad(date.getUTCHours())}:${pad(date.getUTCMinutes())}:${pad(date.getUTCSeconds())}`
  const rest = `${pad(date.getUTCMonth() + 1)}-${pad(date.getUTCDate())}T${time}`
  return withYear(date.getUTCFullYear(), `${rest}.${pad(date.getUTCMilliseconds(), 3)}+00:00`)
}

/** The year 0 of JavaScript is 1 BC. */
function withYear(year: number, rest: string): string {
  return year < 1 ? `${pad(Math.abs(year) + 1, 4)}-${rest} BC` : `${pad(year, 4)}-${rest}`
}

function pad(value: number, digits = 2): string {
  return String(value).padStart(digits, '0')
}

const warnOfInvalidDate = deprecate(
  () => {},
  'An invalid Date was sent to PostgreSQL as a parameter. Check dates before sending them.',
  'PG_INVALID_DATE',
)
