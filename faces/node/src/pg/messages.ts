import { memory } from '../engine/memory'

/** A notification of NOTIFY. */
export class NotificationMessage {
  readonly name = 'notification'
  constructor(
    readonly length: number,
    readonly processId: number,
    readonly channel: string,
    readonly payload: string,
  ) {}
}

/** Reads the NotificationResponse that lies in memory from `start`, its type, to `end`. */
export function readNotification(start: number, end: number): NotificationMessage {
  const zero = memory.bytes.indexOf(0, start + 9)
  return new NotificationMessage(
    memory.int32(start + 1),
    memory.int32(start + 5),
    memory.text(start + 9, zero),
    memory.text(zero + 1, end - 1),
  )
}

/**
 * The type and the length of the first message that no PostgreSQL server sends, as pg would read
 * the bytes of another service, such as MySQL. Undefined if there is none.
 */
export function strangeMessage(bytes: Buffer): { type: number; length: number } | undefined {
  for (let at = 0; at < bytes.length; ) {
    const type = bytes[at] as number
    const length = at + 5 <= bytes.length ? bytes.readUInt32BE(at + 1) : 0
    if (!KNOWN.includes(String.fromCharCode(type))) return { type, length }
    if (length < 4) return undefined
    at += 1 + length
  }
  return undefined
}

/** The secret key of a BackendKeyData. pg shows it, and the engine does not hand it out. */
export function secretKeyIn(messages: Buffer): number | null {
  for (let at = 0; at + 13 <= messages.length; ) {
    if (messages[at] === BACKEND_KEY_DATA) return messages.readInt32BE(at + 9)
    const len = messages.readInt32BE(at + 1)
    // The bytes may be anything. With a length below 4 the loop might not end.
    if (len < 4) return null
    at += 1 + len
  }
  return null
}

/** The text of a login that failed: pg's text, if pg has one for it. */
export function pgText(text: string): string {
  for (const [ours, theirs] of WORDS) if (ours.test(text)) return text.replace(ours, theirs)
  return text
}

const WORDS: readonly (readonly [RegExp, string])[] = [
  [
    /^.* demands (\d+) SCRAM iterations, more than the allowed (\d+) .*$/,
    'SASL: SCRAM-SERVER-FIRST-MESSAGE: iteration count $1 exceeds scramMaxIterations of $2',
  ],
  [
    /^.* SCRAM nonce does not extend the client's$/,
    'SASL: SCRAM-SERVER-FIRST-MESSAGE: server nonce does not start with client nonce',
  ],
  [
    /^the server could not prove .*$/,
    'SASL: SCRAM-SERVER-FINAL-MESSAGE: server signature does not match',
  ],
  [
    /^the server offers no supported SASL mechanism .*$/,
    'SASL: Only mechanism(s) SCRAM-SHA-256 are supported',
  ],
]

const BACKEND_KEY_DATA = 0x4b

/** The types of messages that pg knows. */
const KNOWN = '123ACDEGHIKNRSTWZcdnst'
