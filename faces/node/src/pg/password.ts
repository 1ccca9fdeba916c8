import { PasswordRequest } from '../engine/choices'
import type { ConnectionParameters, Password } from './parameters'
import { passwordOfFile } from './pgpass'
import { saslprep } from './saslprep'

/** A client, which has a password or a way to find one. */
export interface PasswordOwner {
  password: Password
  readonly connectionParameters: ConnectionParameters
}

/**
 * The password for a server that asks for one: that of the configuration, the result of the
 * configuration's function, or that of the file `.pgpass`. It is stored in the client, as pg does.
 * Null or undefined if there is none.
 *
 * It rejects if the function fails, or returns a value that is not a string.
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

/** The password in the form for this request of the server. */
export function passwordFor(how: number, password: string | null | undefined): string {
  if (how !== PasswordRequest.SASL) {
    // Without a password pg sends an empty one, and the server refuses it.
    return String(password ?? '')
  }
  const wrong = 'SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a'
  if (typeof password !== 'string') throw new Error(`${wrong} string`)
  if (password === '') throw new Error(`${wrong} non-empty string`)
  return saslprep(password)
}
