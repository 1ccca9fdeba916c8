import { memory } from '../engine/memory'
import { rowReader } from './decode'
import { Field, readFields } from './fields'
import { Result, type Row } from './result'
import type { Parser, TypeSource } from './types'

/** Reads the DataRow at an address. */
export type RowReader = (at: number) => Row

/** The columns of a result, and the readers of its rows. */
export class Columns {
  readonly fields: Field[]
  #asBinary: Columns | undefined
  #source: TypeSource | undefined
  #parsers: Parser[] = []
  /** The fields and parsers that every result of these columns gets. */
  #model: Result | undefined
  #objects: RowReader | undefined
  #arrays: RowReader | undefined

  constructor(fields: Field[]) {
    this.fields = fields
  }

  /** The same columns in binary form. A statement is described before its formats are chosen. */
  get asBinary(): Columns {
    this.#asBinary ??= new Columns(
      this.fields.map(
        (it) =>
          new Field(
            it.name,
            it.tableID,
            it.columnID,
            it.dataTypeID,
            it.dataTypeSize,
            it.dataTypeModifier,
            'binary',
          ),
      ),
    )
    return this.#asBinary
  }

  /** Gives a result these columns, and returns the reader of its rows. */
  describe(result: Result, source: TypeSource): RowReader {
    const read = this.reader(source, result.rowAsArray)
    const model = (this.#model ??= this.#makeModel(source))
    // A copy, since callers may change the fields of a result.
    result.fields = model.fields.slice()
    result._parsers = model._parsers
    result._prebuiltEmptyResultObject = model._prebuiltEmptyResultObject
    return read
  }

  #makeModel(source: TypeSource): Result {
    const model = new Result(undefined, source)
    model.addFields(this.fields)
    return model
  }

  /** The reader of rows. It is kept as long as the source has the same parsers for the columns. */
  reader(source: TypeSource, asArray: boolean): RowReader {
    if (!this.#isCurrent(source)) this.#take(source)
    return asArray
      ? (this.#arrays ??= rowReader(this.fields, source, 'array'))
      : (this.#objects ??= rowReader(this.fields, source, 'object'))
  }

  #isCurrent(source: TypeSource): boolean {
    if (this.#source !== source) return false
    const { fields } = this
    for (let i = 0; i < fields.length; i++) {
      const { dataTypeID, format } = fields[i] as Field
      if (source.getTypeParser(dataTypeID, format) !== this.#parsers[i]) return false
    }
    return true
  }

  #take(source: TypeSource): void {
    this.#source = source
    this.#model = undefined
    this.#parsers = this.fields.map((it) => source.getTypeParser(it.dataTypeID, it.format))
    this.#objects = undefined
    this.#arrays = undefined
  }
}

/** The columns that one connection has seen. */
export class ColumnsCache {
  readonly #statements = new Map<number, Columns>()
  readonly #descriptions = new Map<string, Columns>()

  /** The columns of a statement, by the engine's number for it. */
  of(statement: number): Columns | undefined {
    return this.#statements.get(statement)
  }

  /**
   * The columns of the RowDescription at this address. They are kept for `statement`, unless it is
   * 0.
   */
  read(at: number, statement: number): Columns {
    const columns = this.#described(at)
    if (statement !== 0) this.#statements.set(statement, columns)
    return columns
  }

  /** The engine has forgotten this statement. */
  forget(statement: number): void {
    this.#statements.delete(statement)
  }

  /** Columns by the bytes of their description. */
  #described(at: number): Columns {
    const len = memory.int32(at + 1)
    if (len > DESCRIPTION_MAX) return new Columns(readFields(at))
    const key = memory.buffer.latin1Slice(at + 5, at + 1 + len)
    let columns = this.#descriptions.get(key)
    if (columns === undefined) {
      columns = new Columns(readFields(at))
      if (this.#descriptions.size >= DESCRIPTIONS_MAX) this.#descriptions.clear()
      this.#descriptions.set(key, columns)
    }
    return columns
  }
}

/** The number of descriptions that are kept, and the bytes of one at most. */
const DESCRIPTIONS_MAX = 256
const DESCRIPTION_MAX = 4096
