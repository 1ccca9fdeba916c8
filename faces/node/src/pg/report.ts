// Reads errors and notices of a server from the module's memory.

import { memory } from '../engine/memory'
import { DatabaseError, NoticeMessage } from './error'
import { readText } from './text'

/** Reads the ErrorResponse that lies in memory from `start`, its type, to `end`. */
export function databaseError(start: number, end: number): DatabaseError {
  const parts = readParts(start, end)
  const error = new DatabaseError(parts.get('M'), memory.int32(start + 1), 'error')
  return describe(error, parts)
}

/** Reads the NoticeResponse that lies in memory from `start`, its type, to `end`. */
export function notice(start: number, end: number): NoticeMessage {
  const parts = readParts(start, end)
  return describe(new NoticeMessage(memory.int32(start + 1), parts.get('M')), parts)
}

/**
 * Reads the fields: each is a letter and a text that ends with a zero byte. A zero ends the list.
 */
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

function describe<T extends DatabaseError | NoticeMessage>(to: T, parts: Map<string, string>): T {
  const fields = to as unknown as { [name: string]: string | undefined }
  for (const [name, letter] of FIELDS) fields[name] = parts.get(letter)
  return to
}

/** The fields in the order in which they are printed. */
const FIELDS = [
  ['severity', 'S'],
  ['code', 'C'],
  ['detail', 'D'],
  ['hint', 'H'],
  ['position', 'P'],
  ['internalPosition', 'p'],
  ['internalQuery', 'q'],
  ['where', 'W'],
  ['schema', 's'],
  ['table', 't'],
  ['column', 'c'],
  ['dataType', 'd'],
  ['constraint', 'n'],
  ['file', 'F'],
  ['line', 'L'],
  ['routine', 'R'],
] as const
