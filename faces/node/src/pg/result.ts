import type { Field } from './fields'
import { pgTypes, type Parser, type TypeSource } from './types'

/** A row: an object by the names of the columns, or an array. */
export type Row = { [name: string]: unknown } | unknown[]

/** The result of a statement. */
export class Result {
  /** The first word of the command tag: `SELECT`, `INSERT`, … */
  command: string | null
  /** The number of rows that were returned or changed; null if the server reports none. */
  rowCount: number | null
  oid: number | null
  rows: Row[]
  fields: Field[]
  _parsers: Parser[] | undefined
  _types: TypeSource | undefined
  RowCtor: null
  rowAsArray: boolean
  // An own property only if rows are arrays, and in front of the next one: as pg's results are
  // printed.
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

  /** Takes the command tag: a text, or a message that has it. */
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

  /** Sets the columns of the rows that follow. */
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

  /** Makes a row of texts, for queries that read messages themselves, such as cursors. */
  _parseRowAsArray(values: readonly (string | null)[]): unknown[] {
    const row = new Array<unknown>(values.length)
    for (let i = 0; i < values.length; i++) {
      const value = values[i] as string | null
      row[i] = value === null ? null : parserOf(this, i)(value)
    }
    return row
  }
}

// On the prototype, so that it is not printed with a result.
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

/** Defines a property named `__proto__`, since an assignment would set the prototype. */
function defineNull(row: object, name: string): void {
  const value = { configurable: true, enumerable: true, writable: true, value: null }
  Object.defineProperty(row, name, value)
}

function parserOf(result: Result, column: number): Parser {
  return (result._parsers as Parser[])[column] as Parser
}

/** A command tag: a command, and up to two numbers. */
const TAG = /^([A-Za-z]+)(?: (\d+))?(?: (\d+))?/
