// What a server reports: errors and notices, as they lie in the module's memory.

import { memory } from '../engine/memory'
import { DatabaseError, NoticeMessage } from './error'
import { readText } from './text'

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
