import { after } from 'node:test'

import { postgres, type PostgresError } from '../../src/modern'
import type { Config } from '../../src/modern/config'
import type { Sql } from '../../src/modern/sql'

/** The server of the tests. */
export const url = process.env['ONETRIP_TEST_POSTGRES'] ?? ''

const open: Sql[] = []
after(() => Promise.all(open.map((sql) => sql.end({ timeoutMs: 5000 }))))

/** A client that is ended when the file's tests are over. */
export function client(config: Config = {}): Sql {
  const sql = postgres({ url, ...config })
  open.push(sql)
  return sql
}

/** The error that a promise ends with. */
export async function failure(promise: PromiseLike<unknown>): Promise<PostgresError> {
  try {
    await promise
  } catch (error) {
    return error as PostgresError
  }
  throw new Error('the promise did not reject')
}
