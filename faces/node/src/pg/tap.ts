import type { Connection } from './connect'
import { DatabaseError } from './error'
import { guarded } from './request'
import { Messages } from './wire-frames'
import { readLogin } from './wire-login'
import { readMessage, type BackendMessage } from './wire-read'

/** Where the bytes of a server go. */
export interface TapOwner {
  /** Whether what came last ended with a message. */
  readonly isBetween: boolean
  /** Whether they go to who tells of them himself. */
  readonly isLent: boolean
  give(bytes: Buffer): void
}

/**
 * Tells those who listen to a connection what the server says, under the names that pg has for its
 * messages. As long as somebody does, messages go their way one by one, so that each is told behind
 * what comes of it; otherwise this does nothing.
 */
export class Tap {
  /** It sees each message. */
  isOn = false
  /** It has seen all that came. */
  isComplete = true
  readonly #connection: Connection
  readonly #owner: TapOwner
  #messages = new Messages()

  constructor(connection: Connection, owner: TapOwner) {
    this.#connection = connection
    this.#owner = owner
  }

  /** Others read what comes now. */
  stop(): void {
    this.isOn = false
  }

  /** False where nobody listens, or what came begins within a message: it goes its way as it is. */
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

  /** What there is of a message goes its way at once, and is kept until it is whole. */
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
      // The engine says so, too.
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

/** Undefined where it can't be read: who it is for finds out. */
function readable(bytes: Buffer): Announced | undefined {
  try {
    return readMessage(bytes) ?? readLogin(bytes)
  } catch {
    return undefined
  }
}

type Announced = BackendMessage | NonNullable<ReturnType<typeof readLogin>>

/** Tells a message: as `message` before anything comes of it, and by its name behind that. */
export function announce(connection: Connection, message: Announced, effect: () => void): void {
  if (connection.listenerCount('message') > 0) guarded(() => connection.emit('message', message))
  effect()
  const name = message instanceof DatabaseError ? 'errorMessage' : message.name
  if (connection.listenerCount(name) > 0) guarded(() => connection.emit(name, message))
}
