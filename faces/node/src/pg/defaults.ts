import { originalParsers, pgTypes, type Parser } from './types'

/**
 * The defaults of configurations. Fields may be assigned, and apply to clients that are made later.
 */
export interface Defaults {
  host: string
  user: string | undefined
  database: string | undefined
  password: string | null
  connectionString: string | undefined
  port: number
  /** Rows that pg fetches at a time; 0 for all. Here all are fetched. */
  rows: number
  binary: boolean
  /** Connections of a pool. */
  max: number
  idleTimeoutMillis: number
  client_encoding: string
  ssl: unknown
  sslnegotiation: string | undefined
  application_name: string | undefined
  fallback_application_name: string | undefined
  options: string | undefined
  /** Sends Dates as parameters in UTC, and not in local time with its offset. */
  parseInputDatesAsUTC: boolean
  /** In milliseconds, or false for no limit, as are the next three. */
  statement_timeout: number | false
  lock_timeout: number | false
  idle_in_transaction_session_timeout: number | false
  query_timeout: number | false
  connect_timeout: number
  keepalives: number
  keepalives_idle: number
  /** Decodes int8 and its arrays as numbers (true) or as strings (false), in the whole process. */
  set parseInt8(value: boolean)
}

/** Undefined if the environment can't be read, as in runtimes that need a permission for it. */
function systemUser(): string | undefined {
  try {
    return process.platform === 'win32' ? process.env['USERNAME'] : process.env['USER']
  } catch {
    return undefined
  }
}

const INT4 = 23
const INT4_ARRAY = 1007
const INT8 = 20
const INT8_ARRAY = 1016

const values: Omit<Defaults, 'parseInt8'> = {
  host: 'localhost',
  user: systemUser(),
  database: undefined,
  password: null,
  connectionString: undefined,
  port: 5432,
  rows: 0,
  binary: false,
  max: 10,
  idleTimeoutMillis: 30000,
  client_encoding: '',
  ssl: false,
  sslnegotiation: undefined,
  application_name: undefined,
  fallback_application_name: undefined,
  options: undefined,
  parseInputDatesAsUTC: false,
  statement_timeout: false,
  lock_timeout: false,
  idle_in_transaction_session_timeout: false,
  query_timeout: false,
  connect_timeout: 0,
  keepalives: 1,
  keepalives_idle: 0,
}

/** The defaults of this process. */
export const defaults: Defaults = Object.defineProperty(values, 'parseInt8', {
  configurable: true,
  enumerable: true,
  set(numbers: boolean) {
    const types = pgTypes()
    for (const [type, number] of [
      [INT8, INT4],
      [INT8_ARRAY, INT4_ARRAY],
    ] as const) {
      const parse = numbers ? types.getTypeParser(number, 'text') : originalParsers().get(type)
      types.setTypeParser(type, 'text', parse as Parser)
    }
  },
}) as Defaults
