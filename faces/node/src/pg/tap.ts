import type { Connection } from './connect'
import { DatabaseError } from './error'
import { guarded } from './request'
import { Messages } from './wire-frames'
import { readLogin } from './wire-login'
import { readMessage, type BackendMessage } from './wire-read'

/** The receiver of a server's bytes behind the tap. */
export interface TapOwner {
  /** Whether the bytes so far end with a whole message. */
  readonly isBetween: boolean
  /** Whether the bytes go to a conversation, which emits the messages itself. */
  readonly isLent: boolean
  give(bytes: Buffer): void
}

/**
 * Emits the server's messages on a connection, under the names that pg has for them. While there
 * are listeners, messages are passed on one by one, so that each is emitted after its effect.
 * Without listeners the tap does nothing.
 */
export class Tap {
  /** It reads each message. */
  isOn = false
  /** It has read all bytes so far. */
  isComplete = true
  readonly #connection: Connection
  readonly #owner: TapOwner
  #messages = new Messages()

  constructor(connection: Connection, owner: TapOwner) {
    this.#connection = connection
    this.#owner = owner
  }

  /** Other code reads the bytes from now on. */
  stop(): void {
    this.isOn = false
  }

  /** Returns false if there are no listeners, or the chunk begins within a message. */
  takes(chunk: Buffer): boolean {
    if (!this.#connection.isHeard) this.isOn = false
    else if (!this.isOn && this.#owner.isBetween) {
      this.isOn = true
      this.#messages = new Messages()
    }
    if (this.isOn) this.#take(chunk)
    else this.isComplete = false
    return this.isOn
  }

  /** Passes the parts of a message on at once, and emits it when it is complete. */
  #take(chunk: Buffer): void {
    const messages = this.#messages
    let given = messages.length
    messages.add(chunk)
    try {
      for (let message = messages.next(); message; message = messages.next()) {
        this.#tell(message, message.subarray(given))
        given = 0
      }
    } catch {
      // The engine finds the same fault, and reports it.
      this.isOn = false
    }
    const left = Math.min(messages.length, chunk.length)
    if (left > 0) this.#owner.give(chunk.subarray(chunk.length - left))
  }

  #tell(bytes: Buffer, rest: Buffer): void {
    const owner = this.#owner
    const message = owner.isLent ? undefined : readable(bytes)
    const give = (): void => owner.give(rest)
    if (message === undefined) give()
    else announce(this.#connection, message, give)
  }
}

/** Reads a message; undefined if it is malformed, which its receiver reports. */
function readable(bytes: Buffer): Announced | undefined {
  try {
    return readMessage(bytes) ?? readLogin(bytes)
  } catch {
    return undefined
  }
}

type Announced = BackendMessage | NonNullable<ReturnType<typeof readLogin>>

/** Emits a message: as `message` before its effect, and under its name after that. */
export function announce(connection: Connection, message: Announced, effect: () => void): void {
  if (connection.listenerCount('message') > 0) guarded(() => connection.emit('message', message))
  effect()
  const name = message instanceof DatabaseError ? 'errorMessage' : message.name
  if (connection.listenerCount(name) > 0) guarded(() => connection.emit(name, message))
}
