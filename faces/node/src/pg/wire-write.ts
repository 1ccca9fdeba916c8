import { warnOfLength } from './names'

/** The parts of a Bind. */
export interface BindConfig {
  portal?: string | undefined
  statement?: string | undefined
  /** Strings, bytes in binary form, or null. */
  values?: readonly unknown[] | null | undefined
  /** Asks for results in binary form. */
  binary?: boolean | undefined
  /** Converts each value before it is sent. */
  valueMapper?: ((value: unknown, index: number) => unknown) | undefined
}

/** The parts of a Parse. */
export interface ParseConfig {
  text: string
  name?: string | undefined
  /** The OIDs of the parameters' types. */
  types?: readonly number[] | null | undefined
}

/** The parts of an Execute. `rows`: the most rows; 0 for all. */
export interface ExecuteConfig {
  portal?: string | undefined
  rows?: number | undefined
}

/** A portal (`P`) or a prepared statement (`S`), by name. */
export interface Named {
  type: string
  name?: string | undefined
}

/** A simple query. */
export function query(text: string): Buffer {
  return message(QUERY, [cstring(text)])
}

export function parse({ text, name, types }: ParseConfig): Buffer {
  if (name) warnOfLength(name)
  const oids = Buffer.allocUnsafe(2 + 4 * (types?.length ?? 0))
  oids.writeUInt16BE(types?.length ?? 0)
  types?.forEach((oid, i) => oids.writeUInt32BE(oid >>> 0, 2 + 4 * i))
  return message(PARSE, [cstring(name || ''), cstring(text), oids])
}

export function bind({ portal, statement, values, binary, valueMapper }: BindConfig): Buffer {
  const given = values ?? []
  if (given.length > 0xffff) throw new Error('A query has more than 65,535 values')
  const formats = Buffer.alloc(2 + 2 * given.length)
  formats.writeUInt16BE(given.length)
  const parts = [cstring(portal || ''), cstring(statement || ''), formats, uint16(given.length)]
  given.forEach((value, i) => {
    const mapped = valueMapper ? valueMapper(value, i) : value
    if (mapped === null || mapped === undefined) return parts.push(NULL)
    if (mapped instanceof Uint8Array) formats[2 + 2 * i + 1] = 1
    const bytes = mapped instanceof Uint8Array ? mapped : Buffer.from(textOf(mapped))
    return parts.push(uint32(bytes.length), bytes as Buffer)
  })
  // One format for all result columns.
  parts.push(Buffer.from([0, 1, 0, binary ? 1 : 0]))
  return message(BIND, parts)
}

export function execute(config?: ExecuteConfig | null): Buffer {
  return message(EXECUTE, [cstring(config?.portal || ''), uint32(config?.rows || 0)])
}

export function describe(what: Named): Buffer {
  return message(DESCRIBE, [cstring(`${what.type}${what.name || ''}`)])
}

export function close(what: Named): Buffer {
  return message(CLOSE, [cstring(`${what.type}${what.name || ''}`)])
}

export function copyData(chunk: Uint8Array): Buffer {
  return message(COPY_DATA, [chunk])
}

export function copyFail(why: string): Buffer {
  return message(COPY_FAIL, [cstring(why)])
}

/** A message without content. */
export function bare(type: number): Buffer {
  return Buffer.from([type, 0, 0, 0, 4])
}

function message(type: number, parts: readonly Uint8Array[]): Buffer {
  let len = 4
  for (const part of parts) len += part.length
  if (len > LENGTH_MAX) throw new Error('A message is too large')
  const bytes = Buffer.allocUnsafe(1 + len)
  bytes[0] = type
  bytes.writeUInt32BE(len, 1)
  let at = 5
  for (const part of parts) {
    bytes.set(part, at)
    at += part.length
  }
  return bytes
}

/** A C string. A zero byte within the text would end it early, and the rest would be misread. */
function cstring(text: string): Buffer {
  const bytes = Buffer.from(textOf(text) + '\0')
  if (bytes.indexOf(0) < bytes.length - 1) {
    throw new Error('A query has a zero byte in its text or in a name')
  }
  return bytes
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  throw new TypeError(`A query needs a string here, not a value of type ${typeof value}`)
}

function uint16(value: number): Buffer {
  return Buffer.from([value >>> 8, value])
}

function uint32(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4)
  bytes.writeUInt32BE(value)
  return bytes
}

export const QUERY = 0x51
export const SYNC = 0x53
export const PARSE = 0x50
export const BIND = 0x42
export const EXECUTE = 0x45
export const DESCRIBE = 0x44
export const CLOSE = 0x43
export const FLUSH = 0x48
export const COPY_DATA = 0x64
export const COPY_DONE = 0x63
export const COPY_FAIL = 0x66
export const TERMINATE = 0x58

/** The length of a NULL. */
const NULL = Buffer.from([0xff, 0xff, 0xff, 0xff])

/** The longest message that servers take (MaxAllocSize in src/include/utils/memutils.h). */
const LENGTH_MAX = 0x3fff_ffff
