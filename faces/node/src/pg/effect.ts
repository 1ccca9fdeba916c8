import { Trait, type Outcome } from '../engine/exports'
import { traitsOf } from '../engine/traits'
import { BIND, PARSE, QUERY } from './wire-write'

/** What a query that runs itself has the server do, and so what an error of the server says of its effect. */
export class Effect {
  /** Messages that bring a statement: what one of several failed with says nothing of the others. */
  #statements = 0
  #binds = 0
  /** The last of them. */
  #statement: Buffer | undefined

  sent(message: Buffer): void {
    const type = message[0]
    if (type === BIND) this.#binds++
    if (type !== PARSE && type !== QUERY) return
    this.#statements++
    this.#statement = message
  }

  /** The server undoes a statement that fails, unless that commits parts of its work by itself. */
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
    // There is no engine, or no memory for the text.
    return true
  }
}

/** A type and a length. */
const HEADER = 5

const PARTS = Trait.CALL | Trait.ALONE | Trait.SEVERAL
