import type pgpass = require('pgpass')

import type { ConnectionParameters, Password } from './parameters'

/**
 * The password to log in with: the one that is given, what a function that is given returns, or that of the
 * file `.pgpass` (or `PGPASSFILE`) for this host, port, database and user. Null if there is none.
 *
 * It fails with what the function fails with, and if that returns something else than a text.
 */
export async function findPassword(
  given: Password,
  parameters: ConnectionParameters,
): Promise<string | null> {
  if (typeof given === 'string') return given
  if (typeof given !== 'function') return given === null ? passwordOfFile(parameters) : null
  const password: unknown = await given(parameters)
  if (password === undefined) return null
  if (typeof password !== 'string') throw new TypeError('Password must be a string')
  return password
}

function passwordOfFile({
  host,
  port,
  database,
  user,
}: ConnectionParameters): Promise<string | null> {
  // Only for those who have no password is it loaded.
  const find = require('pgpass') as typeof pgpass
  return new Promise((resolve) => {
    const connection = { host, port, ...(database && { database }), ...(user && { user }) }
    find(connection, (password) => resolve(password ?? null))
  })
}
