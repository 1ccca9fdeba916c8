import type { ConnectionParameters } from './parameters'
import type { Pipelining } from './pipeline'

/** What of a client's configuration the engine is told beside the parameters of the connection. */
export interface EngineOptions {
  pipelining: Pipelining
  /** Texts that come often are prepared. */
  autoPrepare: boolean
  /** A BEGIN leaves with the first statement behind it. */
  holdBegin: boolean
  scramMaxIterations: number
}

/** Parameters of the login by their names: those that the server knows as settings, and three of its own. */
export interface StartupConf {
  user: string | undefined
  database: string | undefined
  [parameter: string]: string | undefined
}

/**
 * The settings of the engine for one connection. `secure`: nobody else can read it. `binding`: what binds SCRAM to it, if
 * that is wanted.
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
    // As libpq and pg: who asks for it gets it.
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
  // A server that replicates knows no extended protocol.
  if (holdBegin && !parameters['replication']) settings.push(['hold_begin', '1'])
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined) settings.push([`parameter.${name}`, String(value)])
  }
  for (const [name, value] of settings) {
    if (value.includes('\0')) throw new Error(`The parameter ${name} has a zero byte in it`)
  }
  return settings
}

/** 0 is any number. */
function iterationsMax(iterations: number): string {
  const max = iterations === 0 ? UNLIMITED : Math.floor(iterations)
  return String(Math.min(Math.max(max, 1), UNLIMITED))
}

/** What a client tells the server at its login. */
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

/** Queries that may wait: pg has no limit, and a program that fills this one has none either. */
const QUEUE_MAX = 1_000_000

/** Bytes of them. */
const QUEUE_BYTES_MAX = 256 << 20

/** As long as TCP itself tries: pg waits for ever, and a server that is busy for long may not read. */
const STALL_TIMEOUT_MS = 900_000
