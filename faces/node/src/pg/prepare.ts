import { deprecate } from 'node:util'
import { isDate } from 'node:util/types'

import type { Parameter } from '../engine/link'
import { defaults } from './defaults'

/**
 * Makes of a value what is sent as a parameter: a text, bytes, or NULL.
 *
 * Dates become texts in local time with its offset, or in UTC if `defaults.parseInputDatesAsUTC` says so; arrays become
 * array literals; objects with a method `toPostgres` what that returns, and other objects JSON.
 */
export function prepareValue(value: unknown): Parameter {
  if (typeof value === 'string') return value
  if (typeof value === 'number') return String(value)
  return prepare(value) ?? null
}

type Callback = (error: Error | null, result?: unknown) => void

/** A query as an object, and what was given beside it; the caller's object stays as it is. */
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

/** With its prototype and its accessors. */
function copyOf<T extends object>(config: T | null | undefined): T | null | undefined {
  if (config === null || config === undefined) return config
  const descriptors = Object.getOwnPropertyDescriptors(config)
  return Object.defineProperties(Object.create(Object.getPrototypeOf(config)), descriptors) as T
}

/** JSON of some values is undefined, and what an object returns for itself may be null. */
type Prepared = string | Buffer | null | undefined

interface Convertible {
  toPostgres(prepare: (value: unknown) => Prepared): unknown
}

/** `seen`: objects that this value stands for already. */
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

/** A literal with commas, which all types but `box` separate elements by. */
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
  // An object that stands for bytes or NULL has no place in an array, and throws here.
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

/** The year 0 of JavaScript is the year 1 before Christ. */
function withYear(year: number, rest: string): string {
  return year < 1 ? `${pad(Math.abs(year) + 1, 4)}-${rest} BC` : `${pad(year, 4)}-${rest}`
}

function pad(value: number, digits = 2): string {
  return String(value).padStart(digits, '0')
}

const warnOfInvalidDate = deprecate(
  () => {},
  'An invalid date was sent to PostgreSQL as a parameter. See that dates are valid.',
  'PG_INVALID_DATE',
)
