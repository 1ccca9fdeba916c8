import type { Field } from '../pg/fields'

/** A column of a result. */
export interface Column {
  readonly name: string
  /** The OID of its type. */
  readonly type: number
  /** The OID of the table that it is a column of; 0 if it is computed. */
  readonly table: number
}

/** The rows of a result: an array, with the columns, the count and the command. */
export class Rows<Row> extends Array<Row> {
  #fields: readonly Field[] = NONE
  #columns: readonly Column[] | undefined
  /** The command tag; undefined for that of a SELECT. */
  #tag: string | undefined

  /** Methods such as `map` return ordinary arrays. */
  static override get [Symbol.species](): ArrayConstructor {
    return Array
  }

  get columns(): readonly Column[] {
    this.#columns ??= this.#fields.map(({ name, dataTypeID: type, tableID: table }) => ({
      name,
      type,
      table,
    }))
    return this.#columns
  }

  /**
   * How many rows were inserted, updated, deleted, merged, copied or returned; 0 for other
   * commands.
   */
  get count(): number {
    if (this.#tag === undefined) return this.length
    // That of SHOW or EXPLAIN does not count what it returns.
    return Number(/ ([0-9]+)$/.exec(this.#tag)?.[1] ?? this.length)
  }

  /**
   * The command that the server ran: `SELECT`, `INSERT`, `CREATE TABLE` and so on; an empty text for
   * a text without one.
   */
  get command(): string {
    return this.#tag?.replace(/[ 0-9]+$/, '') ?? 'SELECT'
  }

  _describe(fields: readonly Field[]): void {
    this.#fields = fields
  }

  _complete(tag: string): void {
    this.#tag = tag
  }
}

const NONE: readonly Field[] = []
