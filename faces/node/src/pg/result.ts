import type { Field } from './fields'
import { pgTypes, type Parser, type TypeSource } from './types'

/** A row: an object by the names of the columns, or an array. */
export type Row = { [name: string]: unknown } | unknown[]

/** What came of a statement. */
export class Result {
  /** The first word of what the server reports: `SELECT`, `INSERT`, … */
  command: string | null
  /** Rows that were returned or changed; null where the server counts none. */
  rowCount: number | null
  oid: number | null
  rows: Row[]
  fields: Field[]
  _parsers: Parser[] | undefined
  _types: TypeSource | undefined
  RowCtor: null
  rowAsArray: boolean
  // A property only where rows are arrays, and before the next: so it is seen where a result is printed.
  declare parseRow: (values: readonly (string | null)[]) => Row
  declare _prebuiltEmptyResultObject: { [name: string]: null } | null

  constructor(rowMode?: string, source?: TypeSource) {
    this.command = null
    this.rowCount = null
    this.oid = null
    this.rows = []
    this.fields = []
    this._parsers = undefined
    this._types = source
    this.RowCtor = null
    this.rowAsArray = rowMode === 'array'
    if (this.rowAsArray) this.parseRow = this._parseRowAsArray
    this._prebuiltEmptyResultObject = null
  }

  /** Takes what the server reports at the end of a statement: a text, or a message that has it. */
  addCommandComplete(tag: string | { text?: string; command?: string }): void {
    const text = typeof tag === 'string' ? tag : tag.text || tag.command
    const match = TAG.exec(String(text))
    if (!match) return
    const [, command, first, second] = match
    this.command = command as string
    if (second) {
      this.oid = parseInt(first as string, 10)
      this.rowCount = parseInt(second, 10)
    } else if (first) {
      this.rowCount = parseInt(first, 10)
    }
  }

  /** Rows that follow have these columns. */
  addFields(fields: Field[]): void {
    this.fields = fields
    if (fields.length > 0) this._parsers = new Array<Parser>(fields.length)
    const source = this._types || pgTypes()
    const row: { [name: string]: null } = {}
    for (let i = 0; i < fields.length; i++) {
      const { name, dataTypeID, format } = fields[i] as Field
      if (name === '__proto__') defineNull(row, name)
      else row[name] = null
      ;(this._parsers as Parser[])[i] = source.getTypeParser(dataTypeID, format || 'text')
    }
    this._prebuiltEmptyResultObject = row
  }

  addRow(row: Row): void {
    this.rows.push(row)
  }

  /** Makes a row of texts, for those who read messages themselves, as cursors do. */
  _parseRowAsArray(values: readonly (string | null)[]): unknown[] {
    const row = new Array<unknown>(values.length)
    for (let i = 0; i < values.length; i++) {
      const value = values[i] as string | null
      row[i] = value === null ? null : parserOf(this, i)(value)
    }
    return row
  }
}

// On the prototype, where it is not seen as a property of a result.
Object.defineProperty(Result.prototype, 'parseRow', {
  configurable: true,
  writable: true,
  value: function parseRow(this: Result, values: readonly (string | null)[]): Row {
    const row: { [name: string]: unknown } = { ...this._prebuiltEmptyResultObject }
    for (let i = 0; i < values.length; i++) {
      const { name, format } = this.fields[i] as Field
      const value = values[i] as string | null
      if (value === null) {
        row[name] = null
        continue
      }
      const raw = format === 'binary' ? (Buffer.from(value) as unknown as string) : value
      row[name] = parserOf(this, i)(raw)
    }
    return row
  },
})

/** A property like others, where to assign it would set the prototype. */
function defineNull(row: object, name: string): void {
  const value = { configurable: true, enumerable: true, writable: true, value: null }
  Object.defineProperty(row, name, value)
}

function parserOf(result: Result, column: number): Parser {
  return (result._parsers as Parser[])[column] as Parser
}

/** A command, and one or two numbers behind it. */
const TAG = /^([A-Za-z]+)(?: (\d+))?(?: (\d+))?/
