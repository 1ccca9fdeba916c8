import { memory } from '../engine/memory'
import type { DatabaseError, NoticeMessage } from './error'
import { readFields, type Field } from './fields'
import { readNotification, type NotificationMessage } from './messages'
import { databaseError, notice } from './report'

/** A message without content. */
export interface BareMessage {
  name:
    | 'parseComplete'
    | 'bindComplete'
    | 'closeComplete'
    | 'noData'
    | 'portalSuspended'
    | 'copyDone'
    | 'replicationStart'
    | 'emptyQuery'
  length: number
}

export interface RowDescriptionMessage {
  length: number
  fieldCount: number
  name: 'rowDescription'
  fields: Field[]
}

export interface DataRowMessage {
  length: number
  /** The values as texts; null for NULL. */
  fields: (string | null)[]
  name: 'dataRow'
  fieldCount: number
}

export interface CommandCompleteMessage {
  length: number
  text: string
  name: 'commandComplete'
}

export interface ReadyForQueryMessage {
  length: number
  /** `I`, `T` or `E`. */
  status: string
  name: 'readyForQuery'
}

export interface CopyResponseMessage {
  length: number
  name: 'copyInResponse' | 'copyOutResponse'
  binary: boolean
  columnTypes: number[]
}

export interface CopyDataMessage {
  length: number
  chunk: Buffer
  name: 'copyData'
}

export interface ParameterDescriptionMessage {
  length: number
  parameterCount: number
  name: 'parameterDescription'
  dataTypeIDs: number[]
}

export interface ParameterStatusMessage {
  length: number
  parameterName: string
  parameterValue: string
  name: 'parameterStatus'
}

/** A message of the server, as in `pg`. */
export type BackendMessage =
  | BareMessage
  | RowDescriptionMessage
  | DataRowMessage
  | CommandCompleteMessage
  | ReadyForQueryMessage
  | CopyResponseMessage
  | CopyDataMessage
  | ParameterDescriptionMessage
  | ParameterStatusMessage
  | NotificationMessage
  | NoticeMessage
  | DatabaseError

/** Reads a whole message with its type and length; undefined if the type is unknown. */
export function readMessage(bytes: Buffer): BackendMessage | undefined {
  const length = bytes.length - 1
  switch (bytes[0]) {
    case 0x44:
      return readDataRow(bytes, length)
    case 0x54:
      return inModule(bytes, (start) => {
        const fields = readFields(start)
        return { length, fieldCount: fields.length, name: 'rowDescription' as const, fields }
      })
    case 0x43:
      return { length, text: cstring(bytes, 5), name: 'commandComplete' }
    case 0x5a:
      return { length, status: String.fromCharCode(bytes.readUInt8(5)), name: 'readyForQuery' }
    case 0x47:
      return readCopyResponse(bytes, length, 'copyInResponse')
    case 0x48:
      return readCopyResponse(bytes, length, 'copyOutResponse')
    case 0x64:
      return { length, chunk: bytes.subarray(5), name: 'copyData' }
    case 0x74:
      return readParameterDescription(bytes, length)
    case 0x53:
      return readParameterStatus(bytes, length)
    case 0x41:
      return inModule(bytes, readNotification)
    case 0x4e:
      return inModule(bytes, notice)
    case 0x45:
      return inModule(bytes, databaseError)
    default:
      return readBare(bytes[0] as number, length)
  }
}

function readBare(type: number, length: number): BareMessage | undefined {
  const name = BARE[type]
  return name && { name, length }
}

function readDataRow(bytes: Buffer, length: number): DataRowMessage {
  const fieldCount = bytes.readUInt16BE(5)
  const fields = new Array<string | null>(fieldCount)
  let at = 7
  for (let i = 0; i < fieldCount; i++) {
    const len = bytes.readInt32BE(at)
    at += 4
    fields[i] = len < 0 ? null : bytes.utf8Slice(at, at + len)
    if (len > 0) at += len
  }
  return { length, fields, name: 'dataRow', fieldCount }
}

function readCopyResponse(
  bytes: Buffer,
  length: number,
  name: CopyResponseMessage['name'],
): CopyResponseMessage {
  const columns = { length: bytes.readUInt16BE(6) }
  const columnTypes = Array.from(columns, (_, i) => bytes.readInt16BE(8 + 2 * i))
  return { length, name, binary: bytes[5] !== 0, columnTypes }
}

function readParameterDescription(
  bytes: Buffer,
  length: number,
): ParameterDescriptionMessage {
  const parameterCount = bytes.readUInt16BE(5)
  const parameters = { length: parameterCount }
  const dataTypeIDs = Array.from(parameters, (_, i) => bytes.readUInt32BE(7 + 4 * i))
  return { length, parameterCount, name: 'parameterDescription', dataTypeIDs }
}

function readParameterStatus(bytes: Buffer, length: number): ParameterStatusMessage {
  const parameterName = cstring(bytes, 5)
  const parameterValue = cstring(bytes, 6 + Buffer.byteLength(parameterName))
  return { length, parameterName, parameterValue, name: 'parameterStatus' }
}

function cstring(bytes: Buffer, start: number): string {
  const zero = bytes.indexOf(0, start)
  return bytes.utf8Slice(start, zero < 0 ? bytes.length : zero)
}

/** Reads a rare message with the code that reads the memory of the module, from a copy there. */
function inModule<T>(bytes: Buffer, read: (start: number, end: number) => T): T {
  return memory.lend(bytes, (start) => read(start, start + bytes.length))
}

const BARE: { readonly [type: number]: BareMessage['name'] } = {
  0x31: 'parseComplete',
  0x32: 'bindComplete',
  0x33: 'closeComplete',
  0x6e: 'noData',
  0x73: 'portalSuspended',
  0x63: 'copyDone',
  0x57: 'replicationStart',
  0x49: 'emptyQuery',
}
