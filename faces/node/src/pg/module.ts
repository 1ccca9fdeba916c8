import { Client } from './client'
import { Connection } from './connect'
import { defaults } from './defaults'
import { DatabaseError } from './error'
import { escapeIdentifier, escapeLiteral } from './escape'
import { Pool, type PoolConfig } from './pool'
import { normalizeQueryConfig, prepareValue } from './prepare'
import { Query } from './query'
import { Result } from './result'
import { TypeOverrides, pgTypes, type Types } from './types'

/** The exports of `pg/lib/utils`, which cursors and ORMs use. */
export const utils = {
  // With a single parameter, so that it can be passed to `map`.
  prepareValue: (value: unknown): ReturnType<typeof prepareValue> => prepareValue(value),
  normalizeQueryConfig,
  escapeIdentifier,
  escapeLiteral,
}

/**
 * The exports of `pg`: an object with these fields, in this order. All can be assigned, which
 * instrumentation does.
 *
 * The classes are parameters, since they may have been replaced by then: code that loads
 * `pg/lib/client.js` or `pg-pool` first may change them.
 */
export class PG {
  defaults = defaults
  Client: typeof Client
  Query: typeof Query
  Pool: typeof Pool
  _pools: unknown[] = []
  Connection = Connection
  /** Reserves its place among the fields. A getter loads it when it is first read. */
  types = undefined as unknown as Types
  DatabaseError = DatabaseError
  TypeOverrides = TypeOverrides
  escapeIdentifier = escapeIdentifier
  escapeLiteral = escapeLiteral
  Result = Result
  utils = utils
  /**
   * Null, since there is no client over libpq. In pg it is null if the package `pg-native` is
   * missing.
   */
  declare readonly native: null

  constructor(ClientClass: typeof Client, PoolClass: typeof Pool) {
    this.Client = ClientClass
    this.Query = ClientClass.Query
    class BoundPool extends PoolClass {
      constructor(options?: PoolConfig | null) {
        super(options, ClientClass)
      }
    }
    this.Pool = BoundPool
    Object.defineProperty(this, 'types', {
      get: pgTypes,
      set: (value) => Object.defineProperty(this, 'types', { value, writable: true }),
    })
    Object.defineProperty(this, 'native', { configurable: true, enumerable: false, value: null })
  }
}
