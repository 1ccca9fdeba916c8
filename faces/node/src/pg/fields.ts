import { memory } from '../engine/memory'
import { readText } from './text'
import type { Format } from './types'

/** A column of a result, as the server describes it. */
export class Field {
  /**
   * `tableID` and `columnID` are 0 if it is not a column of a table. `dataTypeSize` is negative for
   * types of variable size.
   */
  constructor(
    readonly name: string,
    readonly tableID: number,
    readonly columnID: number,
    readonly dataTypeID: number,
    readonly dataTypeSize: number,
    readonly dataTypeModifier: number,
    readonly format: Format,
  ) {}
}

/** Reads a RowDescription whose first byte, the type of the message, is at this address. */
export function readFields(at: number): Field[] {
  const { bytes } = memory
  const end = at + 1 + memory.int32(at + 1)
  const fields = new Array<Field>(memory.uint16(at + 5))
  let start = at + 7
  for (let i = 0; i < fields.length; i++) {
    const zero = bytes.indexOf(0, start)
    if (zero < 0 || zero + FIXED > end) throw new Error('A RowDescription ends within a column')
    fields[i] = new Field(
      readText(bytes, start, zero - start),
      memory.int32(zero + 1) >>> 0,
      int16(zero + 5),
      memory.int32(zero + 7) >>> 0,
      int16(zero + 11),
      memory.int32(zero + 13),
      memory.uint16(zero + 17) === 0 ? 'text' : 'binary',
    )
    start = zero + FIXED
  }
  return fields
}

/** The bytes of the zero that ends a name and of the numbers behind it. */
const FIXED = 19

function int16(at: number): number {
  return (memory.uint16(at) << 16) >> 16
}
