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

/** What `require('pg/lib/utils')` gives, which cursors and ORMs use. */
export const utils = {
  // Of one parameter, so that it may be given to `map`.
  prepareValue: (value: unknown): ReturnType<typeof prepareValue> => prepareValue(value),
  normalizeQueryConfig,
  escapeIdentifier,
  escapeLiteral,
}

/**
 * What `require('pg')` gives: an object of these fields, in this order. All may be assigned, and
 * instrumentation does.
 *
 * The classes are given to it, since they may be others by then: whoever loads `pg/lib/client.js`
 * or `pg-pool` first can have them changed.
 */
export class PG {
  defaults = defaults
  Client: typeof Client
  Query: typeof Query
  Pool: typeof Pool
  _pools: unknown[] = []
  Connection = Connection
  /** Here is its place among the fields; it is loaded when it is first looked at. */
  types = undefined as unknown as Types
  DatabaseError = DatabaseError
  TypeOverrides = TypeOverrides
  escapeIdentifier = escapeIdentifier
  escapeLiteral = escapeLiteral
  Result = Result
  utils = utils
  /**
   * There is no client over libpq. pg says so by null, too, where the package `pg-native` is
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
