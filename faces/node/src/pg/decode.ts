import type { Field } from './fields'
import { Recent } from '../engine/recent'
import type { Row } from './result'
import { generate, interpret, type Bind } from './readers'
import { directOf, type Direct } from './scalars'
import type { Parser, TypeSource } from './types'

export type RowMode = 'object' | 'array'

/** Reads the DataRow whose first byte, the type of the message, is at this address. */
export type RowReader = (at: number) => Row

/**
 * How a column is read: from memory, or by a parser that gets its text or, in binary form, its
 * bytes.
 */
export interface Column {
  readonly name: string
  readonly direct: Direct | undefined
  readonly parse: Parser
  readonly binary: boolean
}

/**
 * Makes a reader of rows with these columns. It uses the parsers of `types`, or `parsers` if they
 * were looked up already. If several columns have the same name, the last one has it in a row.
 *
 * The reader may be called at any time, also after the memory has grown. It throws the errors of
 * parsers, and an error for a row with other columns. The same array of fields with the same
 * parsers gets the same reader.
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
    // Names have no zero bytes, since they are sent as C strings.
    key += `\0${binary ? 'B' : (direct?.letter ?? 'P')}${name}`
    return { name, direct, parse, binary }
  })
  if (columns.length > GENERATED_COLUMNS_MAX) return interpret(columns, mode)
  const kind = kindOf(key)
  return kind.bind ? kind.bind(columns) : patient(kind, columns, mode)
}

/** Generates code only after some rows of the kind: most kinds occur once, with a single row. */
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

/** The last reader of an array of fields. A statement that runs again has the same array. */
interface LastReader {
  readonly mode: RowMode
  readonly parsers: readonly Parser[]
  readonly read: RowReader
}

/**
 * Rows whose columns have the same names and are read in the same ways. The parsers themselves
 * don't count, since some users make new ones for each query.
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

/** Generating code takes as long as reading some hundred rows without it. */
const ROWS_BEFORE_CODE = 16

/**
 * The kinds whose code is kept, some kilobytes each. If more are in use, code is generated again.
 */
const KINDS_MAX = 512
const kinds = new Recent<string, Kind>(KINDS_MAX)

/**
 * The arrays of fields whose last reader is kept. For others, a lookup takes about a microsecond.
 */
const LAST_READERS_MAX = 512
const lastReaders = new Recent<readonly Field[], LastReader>(LAST_READERS_MAX)

/** Wider rows are read without code, which takes some 20 µs to generate for each column. */
const GENERATED_COLUMNS_MAX = 256

/** The number of kinds of rows that are kept. */
export function knownKinds(): number {
  return kinds.size
}
