import { memory } from '../engine/memory'
import type { Column, RowMode, RowReader } from './decode'
import { readText } from './text'
import type { Parser } from './types'

/** Makes a reader for columns of the kind that the code was generated for, with their parsers. */
export type Bind = (columns: readonly Column[]) => RowReader

/** Generates code for rows of these columns; undefined if the program may not generate code. */
export function generate(columns: readonly Column[], mode: RowMode): Bind | undefined {
  if (!allowed) return undefined
  const reads = columns.map(({ direct }) => direct?.read)
  const names = ['memory', 'int32', 'misfit', 'copy', 'text', 'reads']
  const make = new Function(...names, source(columns, mode))
  return make(memory, int32, misfit, copy, readText, reads) as Bind
}

/** Whether the program may generate code (`--disallow-code-generation-from-strings` forbids it). */
const allowed = mayMakeCode()

function mayMakeCode(): boolean {
  try {
    return new Function('return true')() as boolean
  } catch {
    return false
  }
}

/** Makes a reader that loops over the columns. */
export function interpret(columns: readonly Column[], mode: RowMode): RowReader {
  // `fromEntries` makes own properties, so a column named `__proto__` is like any other.
  const empty = Object.fromEntries(columns.map(({ name }) => [name, null]))
  return (at) => {
    const end = at + 1 + memory.int32(at + 1)
    if (memory.uint16(at + 5) !== columns.length) misfit()
    const values = new Array<unknown>(columns.length)
    let start = at + HEADER
    for (let i = 0; i < columns.length; i++) {
      const length = memory.int32(start)
      start += 4
      if (length < -1 || length > end - start) misfit()
      values[i] = length < 0 ? null : valueOf(columns[i] as Column, start, length)
      if (length > 0) start += length
    }
    if (start !== end) misfit()
    if (mode === 'array') return values
    const row: { [name: string]: unknown } = { ...empty }
    for (let i = 0; i < columns.length; i++) row[(columns[i] as Column).name] = values[i]
    return row
  }
}

function valueOf({ direct, parse, binary }: Column, start: number, length: number): unknown {
  const { bytes } = memory
  if (direct) return direct.read(bytes, start, length)
  return parse(binary ? copy(bytes, start, length) : readText(bytes, start, length))
}

/** The source of a function that takes columns and returns a reader. */
function source(columns: readonly Column[], mode: RowMode): string {
  const reads = columns.map(({ direct }, i) => (direct ? `const read${i} = reads[${i}]` : ''))
  const parsers = columns.map(({ direct }, i) =>
    direct ? '' : `const parse${i} = columns[${i}].parse`,
  )
  return `'use strict'
${reads.join('\n')}
return (columns) => {
${parsers.join('\n')}
return (at) => {
let bytes = memory.bytes
const end = at + 1 + int32(bytes, at + 1)
if ((bytes[at + 5] << 8 | bytes[at + 6]) !== ${columns.length}) misfit()
let start = at + ${HEADER}
let length = 0
${columns.map(valueSource).join('\n')}
if (start !== end) misfit()
return ${mode === 'array' ? arraySource(columns) : objectSource(columns)}
}
}`
}

/** The source that reads a column. A parser may make the memory grow, so `bytes` is read again. */
function valueSource({ direct, binary }: Column, i: number): string {
  const raw = `${binary ? 'copy' : 'text'}(bytes, start, length)`
  const value = direct
    ? `value${i} = read${i}(bytes, start, length)`
    : `value${i} = parse${i}(${raw}); bytes = memory.bytes`
  return `length = int32(bytes, start); start += 4; let value${i} = null
if (length < -1 || length > end - start) misfit()
if (length >= 0) { ${value}; start += length }`
}

function int32(bytes: Uint8Array, at: number): number {
  return (
    ((bytes[at] as number) << 24) |
    ((bytes[at + 1] as number) << 16) |
    ((bytes[at + 2] as number) << 8) |
    (bytes[at + 3] as number)
  )
}

function arraySource(columns: readonly Column[]): string {
  return `[${columns.map((_, i) => `value${i}`).join(', ')}]`
}

/**
 * The source of a row as an object. Names are written as JSON, which is JavaScript too. Only
 * `"__proto__"` is written as a computed key, since it would set the prototype otherwise. (With
 * computed keys for all, objects of a hundred columns are fifty times slower to make.) If several
 * columns have one name, it has the place of the first and the value of the last.
 */
function objectSource(columns: readonly Column[]): string {
  const last = new Map(columns.map(({ name }, i) => [name, i]))
  const properties = [...last].map(([name, i]) =>
    name === '__proto__' ? `['__proto__']: value${i}` : `${JSON.stringify(name)}: value${i}`,
  )
  return `{ ${properties.join(', ')} }`
}

/** Copies bytes out of the memory, for a parser of the binary format. */
function copy(bytes: Uint8Array, start: number, length: number): Parameters<Parser>[0] {
  const copied: unknown = Buffer.from(bytes.subarray(start, start + length))
  return copied as string
}

/** A row that breaks the protocol. Nothing else on its connection can be trusted after it. */
export class Misfit extends Error {}

function misfit(): never {
  throw new Misfit('A row has other columns than were described')
}

/** The bytes before the values: the type of the message, its length, and the number of values. */
const HEADER = 7
