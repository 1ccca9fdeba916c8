import type { CustomTypesConfig } from './face-config'

/**
 * What is known of the effect of a request that failed. `NotSent`: no byte of it was sent.
 * `Rejected`: the server answered that it has no effect. `Applied`: it took effect, and only
 * reading the answer failed. `Unknown`: it was sent, and may have run. The list is complete, so a
 * `switch` needs no default.
 */
export type Outcome = 'NotSent' | 'Rejected' | 'Applied' | 'Unknown'

/** An error of a query, with its outcome, and the code that the server or Node gave it. */
export type QueryError = Error & { outcome?: Outcome; code?: string }

/** A column of a result. */
export interface FieldDef {
  name: string
  /** The OID of its table. 0 if it is not a column of a table; `columnID` is 0 as well then. */
  tableID: number
  columnID: number
  dataTypeID: number
  /** Negative for types of variable size. */
  dataTypeSize: number
  dataTypeModifier: number
  format: string
}

/** The result of a statement without the rows. */
export interface QueryResultBase {
  /** The first word of the command tag: `SELECT`, `INSERT`, … */
  command: string
  /** The number of rows that were returned or changed; null if the server reports none. */
  rowCount: number | null
  oid: number
  fields: FieldDef[]
}

/** A row by the names of its columns. */
export interface QueryResultRow {
  [column: string]: any
}

/**
 * The result of a statement. A text with several statements gives an array of results.
 */
export interface QueryResult<R extends QueryResultRow = any> extends QueryResultBase {
  rows: R[]
}

/** The result of a statement with rows as arrays. */
export interface QueryArrayResult<R extends any[] = any[]> extends QueryResultBase {
  rows: R[]
}

/** A result that is filled row by row. */
export interface ResultBuilder<R extends QueryResultRow = any> extends QueryResult<R> {
  addRow(row: R): void
}

/** A notification of NOTIFY. */
export interface Notification {
  processId: number
  channel: string
  payload?: string | undefined
}

/** The fields of an error or a notice of the server. */
export interface NoticeOrError {
  message: string | undefined
  severity: string | undefined
  /** The SQLSTATE. */
  code: string | undefined
  detail: string | undefined
  hint: string | undefined
  position: string | undefined
  internalPosition: string | undefined
  internalQuery: string | undefined
  where: string | undefined
  schema: string | undefined
  table: string | undefined
  column: string | undefined
  dataType: string | undefined
  constraint: string | undefined
  file: string | undefined
  line: string | undefined
  routine: string | undefined
}

/** A message that the server sends beside its results: a warning, or a RAISE NOTICE. */
export interface NoticeMessage extends NoticeOrError {
  readonly name: 'notice'
  readonly length: number
}

/** An error that the server reported. */
export declare class DatabaseError extends Error implements NoticeOrError {
  constructor(message: string, length: number, name: string)
  readonly length: number
  /** `error`, as in pg. */
  readonly name: string
  severity: string | undefined
  code: string | undefined
  detail: string | undefined
  hint: string | undefined
  position: string | undefined
  internalPosition: string | undefined
  internalQuery: string | undefined
  where: string | undefined
  schema: string | undefined
  table: string | undefined
  column: string | undefined
  dataType: string | undefined
  constraint: string | undefined
  file: string | undefined
  line: string | undefined
  routine: string | undefined
  /** What is known of the effect of the query that failed; absent if no query failed. */
  outcome?: Outcome
}

/** The class of results. */
export declare class Result<R extends QueryResultRow = any> implements QueryResult<R> {
  constructor(rowMode?: string, types?: CustomTypesConfig)
  command: string
  rowCount: number | null
  oid: number
  fields: FieldDef[]
  rows: R[]
}
