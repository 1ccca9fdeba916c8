import { type Outcome } from '../engine/choices'
import { Trait } from '../engine/exports'
import { traitsOf } from '../engine/traits'
import { BIND, PARSE, QUERY } from './wire-write'

/** Watches the messages of a query that runs itself, to say what an error means for its effect. */
export class Effect {
  /** Messages with a statement. With several, the error of one says nothing of the others. */
  #statements = 0
  #binds = 0
  /** The last message with a statement. */
  #statement: Buffer | undefined

  sent(message: Buffer): void {
    const type = message[0]
    if (type === BIND) this.#binds++
    if (type !== PARSE && type !== QUERY) return
    this.#statements++
    this.#statement = message
  }

  /**
   * The outcome of an error: the server undoes a failed statement, unless that commits by itself.
   */
  get ofError(): Outcome {
    const statement = this.#statement
    if (statement === undefined || this.#statements > 1 || this.#binds > 1) return 'Unknown'
    return leavesParts(textIn(statement)) ? 'Unknown' : 'Rejected'
  }
}

function textIn(message: Buffer): string {
  const start = message[0] === PARSE ? message.indexOf(0, HEADER) + 1 : HEADER
  return message.utf8Slice(start, message.indexOf(0, start))
}

function leavesParts(text: string): boolean {
  try {
    return (traitsOf(text) & PARTS) !== 0
  } catch {
    // The module has failed, or has no memory for the text.
    return true
  }
}

/** The bytes of a message's type and length. */
const HEADER = 5

const PARTS = Trait.CALL | Trait.ALONE | Trait.SEVERAL
