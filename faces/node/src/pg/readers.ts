import { memory } from '../engine/memory'
import type { Column, RowMode, RowReader } from './decode'
import { readText } from './text'
import type { Parser } from './types'

/** Makes a reader of the parsers of columns whose names and ways to be read the code was made for. */
export type Bind = (columns: readonly Column[]) => RowReader

/** Code for rows of these columns; undefined where programs may not make code. */
export function generate(columns: readonly Column[], mode: RowMode): Bind | undefined {
  if (!allowed) return undefined
  const reads = columns.map(({ direct }) => direct?.read)
  const names = ['memory', 'int32', 'misfit', 'copy', 'text', 'reads']
  const make = new Function(...names, source(columns, mode))
  return make(memory, int32, misfit, copy, readText, reads) as Bind
}

/** Whether programs may make code, which those who run them can forbid. */
const allowed = mayMakeCode()

function mayMakeCode(): boolean {
  try {
    return new Function('return true')() as boolean
  } catch {
    return false
  }
}

/** Reads with a loop over the columns. */
export function interpret(columns: readonly Column[], mode: RowMode): RowReader {
  // With properties of its own, so that a column named `__proto__` is one like the others.
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

/** The code of a function that gets columns and returns a reader. */
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

/** Reads a column into a variable. What a parser calls may let memory grow, and then `bytes` is a view of nothing. */
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
 * Names stand as JSON, which is JavaScript too. Only `{ "__proto__": … }` would set the prototype: as a computed key it is a
 * property like others. (As computed keys all would be, but objects of a hundred are then fifty times slower to make.)
 * Each has the place of its first column and the value of its last.
 */
function objectSource(columns: readonly Column[]): string {
  const last = new Map(columns.map(({ name }, i) => [name, i]))
  const properties = [...last].map(([name, i]) =>
    name === '__proto__' ? `['__proto__']: value${i}` : `${JSON.stringify(name)}: value${i}`,
  )
  return `{ ${properties.join(', ')} }`
}

/** Bytes that stay when the memory changes; a parser of the binary format takes them where others take a text. */
function copy(bytes: Uint8Array, start: number, length: number): Parameters<Parser>[0] {
  const copied: unknown = Buffer.from(bytes.subarray(start, start + length))
  return copied as string
}

/** A row breaks the protocol, so that nothing else that came over its connection can be trusted. */
export class Misfit extends Error {}

function misfit(): never {
  throw new Misfit('A row has other columns than were described')
}

/** What is before the values: the type of the message, its length, and how many there are. */
const HEADER = 7
