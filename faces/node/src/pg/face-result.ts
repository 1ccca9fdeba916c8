import type { CustomTypesConfig } from './face-config'

/**
 * What is known of the effect of a request that failed: no byte of it was sent; the server answered
 * that it had none; it had its effect and only the answer could not be read; or nobody knows. The
 * list is complete, so a `switch` needs no default.
 */
export type Outcome = 'NotSent' | 'Rejected' | 'Applied' | 'Unknown'

/** An error of a query says what is known of its effect. */
export type QueryError = Error & { outcome?: Outcome }

/** A column of a result. */
export interface FieldDef {
  name: string
  /** 0 where it is no column of a table; so is `columnID`. */
  tableID: number
  columnID: number
  dataTypeID: number
  /** Negative for types of no fixed size. */
  dataTypeSize: number
  dataTypeModifier: number
  format: string
}

/** What came of a statement, but for the rows. */
export interface QueryResultBase {
  /** The first word of what the server reports: `SELECT`, `INSERT`, … */
  command: string
  /** Rows that were returned or changed; null where the server counts none. */
  rowCount: number | null
  oid: number
  fields: FieldDef[]
}

/** A row by the names of its columns. */
export interface QueryResultRow {
  [column: string]: any
}

/**
 * What came of a statement. A text of several statements without values gives an array of these.
 */
export interface QueryResult<R extends QueryResultRow = any> extends QueryResultBase {
  rows: R[]
}

/** The same with rows as arrays. */
export interface QueryArrayResult<R extends any[] = any[]> extends QueryResultBase {
  rows: R[]
}

/** A result that is filled row by row. */
export interface ResultBuilder<R extends QueryResultRow = any> extends QueryResult<R> {
  addRow(row: R): void
}

/** What NOTIFY says. */
export interface Notification {
  processId: number
  channel: string
  payload?: string | undefined
}

/** What the server says of an error or a notice. */
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

/** What the server says beside results. */
export interface NoticeMessage extends NoticeOrError {
  readonly name: 'notice'
  readonly length: number
}

/** An error that the server reported. */
export declare class DatabaseError extends Error implements NoticeOrError {
  constructor(message: string, length: number, name: string)
  readonly length: number
  /** `error`, as pg names the message. */
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
  /** What is known of the effect of the query that failed. Not there where there was no query. */
  outcome?: Outcome
}

/** What came of a statement, as `query` makes it. */
export declare class Result<R extends QueryResultRow = any> implements QueryResult<R> {
  constructor(rowMode?: string, types?: CustomTypesConfig)
  command: string
  rowCount: number | null
  oid: number
  fields: FieldDef[]
  rows: R[]
}
