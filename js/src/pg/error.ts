import type { Outcome } from '../engine/exports'
import { memory } from '../engine/memory'
import { readText } from './text'

/** An error that the server reported, with what it said about it. All are texts, as they came. */
export class DatabaseError extends Error {
  declare length: number
  declare severity: string | undefined
  /** The SQLSTATE. */
  declare code: string | undefined
  declare detail: string | undefined
  declare hint: string | undefined
  declare position: string | undefined
  declare internalPosition: string | undefined
  declare internalQuery: string | undefined
  declare where: string | undefined
  declare schema: string | undefined
  declare table: string | undefined
  declare column: string | undefined
  declare dataType: string | undefined
  declare constraint: string | undefined
  declare file: string | undefined
  declare line: string | undefined
  declare routine: string | undefined
  /** What is known of the effect of the request that failed; not enumerable. Not there where there was no request. */
  declare outcome?: Outcome

  constructor(message: string | undefined, length: number, name: string) {
    super(message)
    this.length = length
    this.name = name
  }
}

/**
 * Says what is known of the effect of the request that failed. It is not enumerable, so that errors are printed, copied and
 * compared as those of pg.
 */
export function tellOutcome(error: Error, outcome: Outcome): void {
  // Parsers of values may throw errors that are frozen.
  if (!Object.isExtensible(error)) return
  Object.defineProperty(error, 'outcome', {
    configurable: true,
    enumerable: false,
    writable: true,
    value: outcome,
  })
}

/** What the server says beside results: the fields of an error, in an object that is none. */
export class NoticeMessage {
  readonly name = 'notice'
  declare severity: string | undefined
  declare code: string | undefined
  declare detail: string | undefined
  declare hint: string | undefined
  declare position: string | undefined
  declare internalPosition: string | undefined
  declare internalQuery: string | undefined
  declare where: string | undefined
  declare schema: string | undefined
  declare table: string | undefined
  declare column: string | undefined
  declare dataType: string | undefined
  declare constraint: string | undefined
  declare file: string | undefined
  declare line: string | undefined
  declare routine: string | undefined

  constructor(
    readonly length: number,
    readonly message: string | undefined,
  ) {}
}

/** The error of an ErrorResponse that lies in memory from `start`, its type, to `end`. */
export function databaseError(start: number, end: number): DatabaseError {
  const parts = readParts(start, end)
  const error = new DatabaseError(parts.get('M'), memory.int32(start + 1), 'error')
  return describe(error, parts)
}

/** The notice of a NoticeResponse that lies in memory from `start`, its type, to `end`. */
export function notice(start: number, end: number): NoticeMessage {
  const parts = readParts(start, end)
  return describe(new NoticeMessage(memory.int32(start + 1), parts.get('M')), parts)
}

/** Texts behind the letter that says what they are; a zero ends the list. */
function readParts(start: number, end: number): Map<string, string> {
  const { bytes } = memory
  const parts = new Map<string, string>()
  let at = start + 5
  while (at < end && bytes[at] !== 0) {
    const zero = bytes.indexOf(0, at + 1)
    const stop = zero < 0 || zero > end ? end : zero
    parts.set(String.fromCharCode(bytes[at] as number), readText(bytes, at + 1, stop - at - 1))
    at = stop + 1
  }
  return parts
}

/** In this order the fields are seen where an error is printed or copied. */
function describe<T extends DatabaseError | NoticeMessage>(to: T, parts: Map<string, string>): T {
  to.severity = parts.get('S')
  to.code = parts.get('C')
  to.detail = parts.get('D')
  to.hint = parts.get('H')
  to.position = parts.get('P')
  to.internalPosition = parts.get('p')
  to.internalQuery = parts.get('q')
  to.where = parts.get('W')
  to.schema = parts.get('s')
  to.table = parts.get('t')
  to.column = parts.get('c')
  to.dataType = parts.get('d')
  to.constraint = parts.get('n')
  to.file = parts.get('F')
  to.line = parts.get('L')
  to.routine = parts.get('R')
  return to
}
