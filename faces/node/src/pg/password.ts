import { PasswordRequest } from '../engine/exports'
import type { ConnectionParameters, Password } from './parameters'
import { passwordOfFile } from './pgpass'
import { saslprep } from './saslprep'

/** Who has a password, or may look for one. */
export interface PasswordOwner {
  password: Password
  readonly connectionParameters: ConnectionParameters
}

/**
 * The password of a client whose server asks for it: the one that is given, what a function that is
 * given returns, or that of the file `.pgpass`. What was found is kept in its place, as pg does. Null
 * or undefined if there is none.
 *
 * It fails with what the function fails with, and if that returns something else than a text.
 */
export async function findPassword(owner: PasswordOwner): Promise<string | null | undefined> {
  const { password, connectionParameters: parameters } = owner
  if (typeof password === 'function') {
    const found: unknown = await (password as (of: ConnectionParameters) => unknown)(parameters)
    if (found !== undefined && typeof found !== 'string') {
      throw new TypeError('Password must be a string')
    }
    return (parameters.password = owner.password = found ?? null)
  }
  if (password !== null) return password
  const found = passwordOfFile(parameters)
  if (found !== undefined) parameters.password = owner.password = found
  return found
}

/** A password in the form in which a server that asks like this takes it. */
export function passwordFor(how: number, password: string | null | undefined): string {
  if (how !== PasswordRequest.SASL) {
    // As pg has it: the server says what is wrong with none.
    return String(password ?? '')
  }
  const wrong = 'SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a'
  if (typeof password !== 'string') throw new Error(`${wrong} string`)
  if (password === '') throw new Error(`${wrong} non-empty string`)
  return saslprep(password)
}
