import { memory } from '../engine/memory'
import { rowReader } from './decode'
import { Field, readFields } from './fields'
import { Result, type Row } from './result'
import type { Parser, TypeSource } from './types'

/** Makes a row of the DataRow at an address. */
export type RowReader = (at: number) => Row

/** The columns of a result, and how their rows are read. */
export class Columns {
  readonly fields: Field[]
  #asBinary: Columns | undefined
  #source: TypeSource | undefined
  #parsers: Parser[] = []
  /** What a result of these columns has of them. */
  #model: Result | undefined
  #objects: RowReader | undefined
  #arrays: RowReader | undefined

  constructor(fields: Field[]) {
    this.fields = fields
  }

  /** The same with values in binary form: a statement is described before that is asked for. */
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

  /** Gives a result these columns, and returns how its rows are read. */
  describe(result: Result, source: TypeSource): RowReader {
    const read = this.reader(source, result.rowAsArray)
    const model = (this.#model ??= this.#makeModel(source))
    // What a caller does to one result is not seen in the next.
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

  /** The reader is kept as long as the types of the columns have the same parsers. */
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

  /** Those of a statement of the engine. */
  of(statement: number): Columns | undefined {
    return this.#statements.get(statement)
  }

  /** Those that the RowDescription at this address describes; the statement, if it is not 0, has them from now on. */
  read(at: number, statement: number): Columns {
    const columns = this.#described(at)
    if (statement !== 0) this.#statements.set(statement, columns)
    return columns
  }

  /** Nothing names this statement any more. */
  forget(statement: number): void {
    this.#statements.delete(statement)
  }

  /** The same bytes mean the same columns. */
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

/** Descriptions that are kept, of so many bytes at most. */
const DESCRIPTIONS_MAX = 256
const DESCRIPTION_MAX = 4096
