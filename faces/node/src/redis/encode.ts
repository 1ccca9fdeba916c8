import { isUint8Array } from 'node:util/types'

import { memory } from '../engine/memory'
import { misuse } from './error'

/**
 * An argument of a command. Strings are sent as UTF-8, bytes unchanged, and numbers in decimal.
 */
export type Argument = string | number | bigint | Uint8Array

/** The most bytes of the lines in front of the arguments, without the words of the name. */
const HEAD_MAX = 32

/** The most bytes of the line in front of an argument and of its line end. */
const LINES_MAX = 16

/** Up to this many characters, copying a text here costs less than a call into Node. */
const SHORT = 40

/** The longest argument that servers take by default (`proto-max-bulk-len`). */
const ARGUMENT_BYTES_MAX = 512 * 1024 * 1024

/** A command is written to the module's memory as a whole, and that has at most 4 GiB. */
export const COMMAND_BYTES_MAX = 0x7fff_ffff

/** The most arguments that servers before 7.0 take. */
const ARGUMENTS_MAX = 1024 * 1024

/** The words of a command's name, encoded, without the array length in front. */
export class Words {
  readonly bytes: Buffer
  readonly count: number
  /** The words with the array length in front, by the number of arguments that follow. */
  readonly #heads: Uint8Array[] = []

  constructor(name: string) {
    const words = name.split(' ')
    this.count = words.length
    this.bytes = Buffer.from(
      words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join(''),
    )
  }

  /** The bytes in front of this many arguments. */
  head(args: number): Uint8Array {
    const head = this.#heads[args]
    if (head !== undefined) return head
    const made = Buffer.concat([Buffer.from(`*${this.count + args}\r\n`), this.bytes])
    if (args < 16) this.#heads[args] = made
    return made
  }
}

/**
 * The most bytes that a command needs: UTF-8 takes at most three for each unit of UTF-16. Throws if
 * the command can't be sent.
 *
 * Here and below, the length of bytes is read as `byteLength`, never as `length`. If a variable's
 * `length` is that of a string in one branch and that of bytes in another, the optimizing compiler
 * of Node 20 (V8 11.3) may read it before both branches, even of a number, and the process ends
 * with a segmentation fault.
 */
export function sizeOf(words: Words, args: readonly Argument[], name: string): number {
  let size = HEAD_MAX + words.bytes.length
  for (let i = 0; i < args.length; i++) {
    const arg = args[i]
    if (typeof arg === 'string') size += LINES_MAX + 3 * arg.length
    else if (typeof arg === 'number') size += LINES_MAX + 32
    else if (isUint8Array(arg)) size += LINES_MAX + arg.byteLength
    else if (typeof arg === 'bigint') size += LINES_MAX + arg.toString().length
    else throw wrongArgument(arg, i, name)
  }
  if (size > COMMAND_BYTES_MAX) throw tooLarge(size, name)
  if (size > ARGUMENT_BYTES_MAX || args.length + words.count > ARGUMENTS_MAX) check(args, name)
  return size
}

function wrongArgument(arg: unknown, index: number, name: string): Error {
  const kind = arg === null ? 'null' : Array.isArray(arg) ? 'an array' : `of type ${typeof arg}`
  const message = `argument ${index + 1} of ${name} is ${kind}: use a string, a number, a bigint or bytes`
  return misuse('wrong_argument', message, name)
}

export function tooLarge(size: number, name: string): Error {
  const message = `the arguments of ${name} may take ${size} bytes, more than the ${COMMAND_BYTES_MAX} of one command`
  return misuse('command_too_large', message, name)
}

/** Refuses commands for which a server would close the connection. */
function check(args: readonly Argument[], name: string): void {
  if (args.length >= ARGUMENTS_MAX) {
    const message = `a command takes fewer than ${ARGUMENTS_MAX} arguments, and this one has ${args.length}`
    throw misuse('too_many_arguments', message, name)
  }
  for (const arg of args) {
    const len =
      typeof arg === 'string'
        ? Buffer.byteLength(arg)
        : isUint8Array(arg)
          ? arg.byteLength
          : 0
    if (len > ARGUMENT_BYTES_MAX) {
      const message = `an argument takes at most ${ARGUMENT_BYTES_MAX} bytes, and this one has ${len}`
      throw misuse('argument_too_large', message, name)
    }
  }
}

/** Writes a command at this address of the module, and returns where it ends. */
export function write(at: number, words: Words, args: readonly Argument[]): number {
  const { bytes } = memory
  const head = words.head(args.length)
  const { length } = head
  for (let i = 0; i < length; i++) bytes[at + i] = head[i] as number
  at += length
  for (let i = 0; i < args.length; i++) at = writeArgument(bytes, at, args[i] as Argument)
  return at
}

function writeArgument(bytes: Uint8Array, at: number, arg: Argument): number {
  if (typeof arg === 'string') return writeText(bytes, at, arg)
  if (typeof arg === 'number') return writeText(bytes, at, numeral(arg))
  if (typeof arg === 'bigint') return writeText(bytes, at, arg.toString())
  const { byteLength } = arg
  const body = writeLength(bytes, at, byteLength)
  bytes.set(arg, body)
  return writeEnd(bytes, body + byteLength)
}

/** A number in the form that Redis reads: whole numbers have no exponent. */
function numeral(value: number): string {
  if (Number.isInteger(value) && Math.abs(value) >= 1e21) return BigInt(value).toString()
  if (Number.isFinite(value)) return `${value}`
  return Number.isNaN(value) ? 'nan' : value > 0 ? 'inf' : '-inf'
}

function writeText(bytes: Uint8Array, at: number, text: string): number {
  const { length } = text
  if (length <= SHORT) {
    const body = writeLength(bytes, at, length)
    let i = 0
    for (; i < length; i++) {
      const code = text.charCodeAt(i)
      if (code > 0x7f) break
      bytes[body + i] = code
    }
    if (i === length) return writeEnd(bytes, body + length)
  }
  return writeLongText(bytes, at, text)
}

/**
 * Writes the text behind a length line for ASCII, and moves it if the real length needs another
 * line.
 */
function writeLongText(bytes: Uint8Array, at: number, text: string): number {
  const guess = writeLength(bytes, at, text.length)
  const len = memory.writeByNode(text, guess)
  if (len !== text.length) {
    const body = at + 3 + digits(len)
    if (body !== guess) bytes.copyWithin(body, guess, guess + len)
    writeLength(bytes, at, len)
    return writeEnd(bytes, body + len)
  }
  return writeEnd(bytes, guess + len)
}

function digits(value: number): number {
  let count = 1
  for (; value >= 10; count++) value = (value / 10) | 0
  return count
}

/** Writes the line in front of an argument. */
function writeLength(bytes: Uint8Array, at: number, len: number): number {
  bytes[at++] = 0x24
  if (len < 10) {
    bytes[at++] = 0x30 + len
  } else if (len < 100) {
    const tens = (len / 10) | 0
    bytes[at++] = 0x30 + tens
    bytes[at++] = 0x30 + len - 10 * tens
  } else {
    const end = at + digits(len)
    for (let i = end; i > at; len = (len / 10) | 0) bytes[--i] = 0x30 + (len % 10)
    at = end
  }
  return writeEnd(bytes, at)
}

function writeEnd(bytes: Uint8Array, at: number): number {
  bytes[at] = 0x0d
  bytes[at + 1] = 0x0a
  return at + 2
}
