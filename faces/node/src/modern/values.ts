import { isAnyArrayBuffer, isDate, isUint8Array } from 'node:util/types'

import type { Parameter } from '../engine/link'
import { misuse } from './error'

/** A value that is sent as JSON: made by `sql.json`. */
export class Json {
  readonly text: string

  constructor(value: unknown) {
    this.text = jsonOf(value)
  }
}

function jsonOf(value: unknown): string {
  let text: string | undefined
  try {
    text = JSON.stringify(value) as string | undefined
  } catch (error) {
    // A circle, a bigint, or what a `toJSON` throws. The message has several lines.
    const why = String((error as Error | undefined)?.message).split('\n', 1)[0] as string
    const failed = misuse('unencodable_parameter', `sql.json: the value has no JSON form: ${why}`)
    failed.cause = error
    throw failed
  }
  if (text !== undefined) return text
  throw misuse('unencodable_parameter', `sql.json: a ${typeof value} has no JSON form`)
}

/** A value in a template. */
export type Value =
  | string
  | number
  | bigint
  | boolean
  | null
  | Date
  | Uint8Array
  | ArrayBuffer
  | Json
  | readonly Value[]

/**
 * Encodes a value as a parameter. `which` is its number from 1, for the error, and `behind` what the
 * statement has behind it.
 */
export function encode(value: unknown, which: number, behind = ''): Parameter {
  switch (typeof value) {
    case 'string':
      return value
    case 'number':
      return numberText(value)
    case 'bigint':
    case 'boolean':
      return String(value)
    case 'object':
      if (value === null) return null
      if (Array.isArray(value) && AS_BOXES.test(behind)) return arrayText(value, String(which), ';')
      return encodeObject(value, String(which))
    default:
      throw unencodable(String(which), `is ${what(value)}`)
  }
}

/** `String(-0)` is `0`, without the sign. */
function numberText(value: number): string {
  return Object.is(value, -0) ? '-0' : String(value)
}

function encodeObject(value: object, which: string): Parameter {
  // `instanceof` would miss those of another realm, as they are under Jest.
  if (isUint8Array(value)) return value
  if (Array.isArray(value)) return arrayText(value, which)
  if (isDate(value)) return dateText(value, which)
  if (value instanceof Json) return value.text
  if (isAnyArrayBuffer(value)) return new Uint8Array(value)
  throw unencodable(which, `is ${what(value)}: use sql.json(…) to send it as JSON`)
}

/**
 * A cast of the parameter to `box[]`. Only the server knows the types of parameters, and `box` is
 * the only type with another separator (typdelim in src/include/catalog/pg_type.dat).
 */
const AS_BOXES = /^\s*(?:::|as\s)\s*(?:pg_catalog\s*\.\s*)?(?:(?:box|"box")\s*(?:\[|array\b)|_box\b|"_box")/i

/** An array literal. */
function arrayText(values: readonly unknown[], which: string, separator = ','): string {
  if (which.length > WHICH_MAX)
    throw unencodable(which.slice(0, which.indexOf('[')), 'is an array that contains itself or is too deep')
  let text = '{'
  for (let i = 0; i < values.length; i++) {
    if (i > 0) text += separator
    text += elementText(values[i], `${which}[${i}]`, separator)
  }
  return text + '}'
}

/**
 * How long the name of an element may be: a hundred levels and more. An array of PostgreSQL has 6
 * dimensions at most, but the text of a deeper one may be asked for.
 */
const WHICH_MAX = 1000

function elementText(value: unknown, which: string, separator: string): string {
  switch (typeof value) {
    case 'string':
      return quoted(value)
    case 'number':
      return numberText(value)
    case 'bigint':
    case 'boolean':
      return String(value)
    case 'object': {
      if (value === null) return 'NULL'
      if (Array.isArray(value)) return arrayText(value, which, separator)
      const element = encodeObject(value, which)
      if (typeof element === 'string') return quoted(element)
      return `"\\\\x${Buffer.from(element as Uint8Array).toString('hex')}"`
    }
    default:
      throw unencodable(which, `is ${what(value)}`)
  }
}

function quoted(text: string): string {
  return `"${/["\\]/.test(text) ? text.replace(/["\\]/g, '\\$&') : text}"`
}

/** The date in UTC, in a form that the server takes for every year that a Date can hold. */
function dateText(date: Date, which: string): string {
  if (Number.isNaN(date.getTime())) throw unencodable(which, 'is an invalid Date')
  const text = date.toISOString()
  const year = date.getUTCFullYear()
  if (year > 0 && year <= 9999) return text
  const rest = text.slice(text.indexOf('-', 1))
  // The year 0 of JavaScript is the year 1 before Christ.
  if (year <= 0) return `${String(1 - year).padStart(4, '0')}${rest} BC`
  return `${year}${rest}`
}

function unencodable(which: string, why: string): Error {
  return misuse('unencodable_parameter', `parameter ${which} ${why}`)
}

/** The kind of a value, since an error must not show the value. */
function what(value: unknown): string {
  if (value === undefined) return 'undefined (use null for NULL)'
  if (typeof value !== 'object' || value === null) return `a ${typeof value}`
  const name = (value.constructor as { name?: string } | undefined)?.name
  return name === undefined || name === '' || name === 'Object' ? 'an object' : `a ${name}`
}
