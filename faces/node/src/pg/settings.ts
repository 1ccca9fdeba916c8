import type { ConnectionParameters } from './parameters'
import type { Pipelining } from './pipeline'

/** The options of a client that the engine gets beside the connection parameters. */
export interface EngineOptions {
  pipelining: Pipelining
  /** Texts that are used often are prepared. */
  autoPrepare: boolean
  /** BEGIN is sent with the first statement. */
  holdBegin: boolean
  scramMaxIterations: number
}

/** The parameters of the startup message: user, database, replication, options, and settings. */
export interface StartupConf {
  user: string | undefined
  database: string | undefined
  [parameter: string]: string | undefined
}

/**
 * The settings of the engine for one connection. `secure`: the connection is encrypted. `binding`:
 * the channel binding of SCRAM, if it is enabled.
 */
export function engineSettings(
  startup: StartupConf,
  secure: boolean,
  binding: string | undefined,
  { pipelining, autoPrepare, holdBegin, scramMaxIterations }: EngineOptions,
): [string, string][] {
  const { user, database, ...parameters } = startup
  const settings: [string, string][] = [
    ['user', user ?? ''],
    ['secure_channel', secure ? '1' : '0'],
    ['ask_password', '1'],
    // As in libpq and pg, any server that asks for the password in clear text gets it.
    ['allow_cleartext', '1'],
    ['scram_iterations_max', iterationsMax(scramMaxIterations)],
    ['in_flight_max', String(pipelining.window)],
    ['queue_max', String(QUEUE_MAX)],
    ['queue_bytes_max', String(QUEUE_BYTES_MAX)],
    ['stall_timeout_ms', String(STALL_TIMEOUT_MS)],
  ]
  if (database) settings.push(['database', database])
  if (binding !== undefined) settings.push(['channel_binding', binding])
  if (!autoPrepare) settings.push(['prepare_threshold', '0'])
  // A replication connection has no extended protocol.
  if (holdBegin && !parameters['replication']) settings.push(['hold_begin', '1'])
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined) settings.push([`parameter.${name}`, String(value)])
  }
  for (const [name, value] of settings) {
    if (value.includes('\0')) throw new Error(`The setting ${name} has a zero byte in it`)
  }
  return settings
}

/** 0 stands for any number. */
function iterationsMax(iterations: number): string {
  const max = iterations === 0 ? UNLIMITED : Math.floor(iterations)
  return String(Math.min(Math.max(max, 1), UNLIMITED))
}

/** The parameters of a client's startup message. */
export function startupConf(parameters: ConnectionParameters): StartupConf {
  const { user, database } = parameters
  const startup: StartupConf = { user, database }
  const name = parameters.application_name || parameters.fallback_application_name
  if (name) startup['application_name'] = name
  if (parameters.replication) startup['replication'] = String(parameters.replication)
  for (const timeout of TIMEOUTS) {
    if (parameters[timeout]) startup[timeout] = String(parseInt(String(parameters[timeout]), 10))
  }
  if (parameters.options) startup['options'] = parameters.options
  return startup
}

const TIMEOUTS = [
  'statement_timeout',
  'lock_timeout',
  'idle_in_transaction_session_timeout',
] as const

/** The largest number that the engine takes. */
const UNLIMITED = 0xffff_ffff

/** The most queries that wait. pg has no limit; only a runaway program reaches this one. */
const QUEUE_MAX = 1_000_000

/** The most bytes of queries that wait. */
const QUEUE_BYTES_MAX = 256 << 20

/**
 * About as long as TCP itself retries. pg waits for ever, since a busy server may not read for
 * long.
 */
const STALL_TIMEOUT_MS = 900_000
