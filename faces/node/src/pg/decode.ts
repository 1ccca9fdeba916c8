import type { Field } from './fields'
import { Recent } from '../engine/recent'
import type { Row } from './result'
import { generate, interpret, type Bind } from './readers'
import { directOf, type Direct } from './scalars'
import type { Parser, TypeSource } from './types'

export type RowMode = 'object' | 'array'

/** Makes a row of the DataRow whose first byte, the type of the message, is at this address. */
export type RowReader = (at: number) => Row

/** How a column becomes a value: read from memory, or by a parser that gets its text or, if it is binary, its bytes. */
export interface Column {
  readonly name: string
  readonly direct: Direct | undefined
  readonly parse: Parser
  readonly binary: boolean
}

/**
 * A reader of rows with these columns, whose values are those of the parsers of `types`, or of `parsers` where they
 * were looked up already. A name that several columns have stands for the last of them.
 *
 * It reads the memory as it is when it is called, and may be called at any time. It throws what a parser throws, and
 * an error for a row that has other columns. Asked again with the same array of fields and the same parsers, it is the same.
 */
export function rowReader(
  fields: readonly Field[],
  types: TypeSource,
  mode: RowMode,
  parsers?: readonly Parser[],
): RowReader {
  const known = lastReaders.get(fields)
  let same = known?.mode === mode
  const found = new Array<Parser>(fields.length)
  for (let i = 0; i < fields.length; i++) {
    const { dataTypeID, format } = fields[i] as Field
    const parse = parsers?.[i] ?? types.getTypeParser(dataTypeID, format)
    if (parse !== known?.parsers[i]) same = false
    found[i] = parse
  }
  if (same && known) return known.read
  const read = makeReader(fields, found, mode)
  lastReaders.set(fields, { mode, parsers: found, read })
  return read
}

function makeReader(
  fields: readonly Field[],
  parsers: readonly Parser[],
  mode: RowMode,
): RowReader {
  let key: string = mode
  const columns = fields.map(({ name, format }, i) => {
    const parse = parsers[i] as Parser
    const binary = format === 'binary'
    const direct = binary ? undefined : directOf(parse)
    // A name has no zero byte in it: it came as a C string.
    key += `\0${binary ? 'B' : (direct?.letter ?? 'P')}${name}`
    return { name, direct, parse, binary }
  })
  if (columns.length > GENERATED_COLUMNS_MAX) return interpret(columns, mode)
  const kind = kindOf(key)
  return kind.bind ? kind.bind(columns) : patient(kind, columns, mode)
}

/** Makes code once there have been some rows of the kind: many kinds come once, and then with one row. */
function patient(kind: Kind, columns: readonly Column[], mode: RowMode): RowReader {
  const interpreted = interpret(columns, mode)
  let read: RowReader | undefined
  return (at) => {
    if (read !== undefined) return read(at)
    if (kind.rows++ < ROWS_BEFORE_CODE) return interpreted(at)
    kind.bind ??= generate(columns, mode)
    read = kind.bind ? kind.bind(columns) : interpreted
    return read(at)
  }
}

/** What the same array of fields was read by before: a statement that is run again has the same. */
interface LastReader {
  readonly mode: RowMode
  readonly parsers: readonly Parser[]
  readonly read: RowReader
}

/**
 * All rows of the same names and ways to be read. The parsers themselves don't count, since some users make new ones
 * for each query.
 */
interface Kind {
  /** Rows that were read before there was code for them. */
  rows: number
  bind: Bind | undefined
}

function kindOf(key: string): Kind {
  let kind = kinds.get(key)
  if (kind === undefined) {
    kind = { rows: 0, bind: undefined }
    kinds.set(key, kind)
  }
  return kind
}

/** To make code takes as long as to read some hundred rows without it. */
const ROWS_BEFORE_CODE = 16

/** Kinds that code is kept for, some kilobytes each. With more in turn, code is made anew. */
const KINDS_MAX = 512
const kinds = new Recent<string, Kind>(KINDS_MAX)

/** Arrays of fields whose last reader is known. To find the kind of others takes about a microsecond. */
const LAST_READERS_MAX = 512
const lastReaders = new Recent<readonly Field[], LastReader>(LAST_READERS_MAX)

/** Rows of more columns are read without code: to make it takes some 20 µs for each column, and such rows are few. */
const GENERATED_COLUMNS_MAX = 256

/** How many kinds of rows are known. */
export function knownKinds(): number {
  return kinds.size
}
