import { memory } from '../engine/memory'

/** What NOTIFY says. */
export class NotificationMessage {
  readonly name = 'notification'
  constructor(
    readonly length: number,
    readonly processId: number,
    readonly channel: string,
    readonly payload: string,
  ) {}
}

/** The NotificationResponse that lies in memory from `start`, its type, to `end`. */
export function readNotification(start: number, end: number): NotificationMessage {
  const zero = memory.bytes.indexOf(0, start + 9)
  return new NotificationMessage(
    memory.int32(start + 1),
    memory.int32(start + 5),
    memory.text(start + 9, zero),
    memory.text(zero + 1, end - 1),
  )
}

/** The key of a BackendKeyData; the engine keeps it to itself, and pg shows it. */
export function secretKeyIn(messages: Buffer): number | null {
  for (let at = 0; at + 13 <= messages.length; at += 1 + messages.readInt32BE(at + 1)) {
    if (messages[at] === BACKEND_KEY_DATA) return messages.readInt32BE(at + 9)
  }
  return null
}

/** The words of pg where there is a word of pg's. */
export function pgText(text: string): string {
  return text.startsWith('the server asks for a password and none')
    ? 'SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string'
    : text
}

const BACKEND_KEY_DATA = 0x4b
