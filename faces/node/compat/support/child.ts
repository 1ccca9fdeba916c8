// Runs the scenarios of one file with one driver, as a process of its own:
//
//   child.js real|ours FILE URL
//
// With `real`, `require('pg')` gives the real pg everywhere. The child sends its reports to the parent.
import Module from 'node:module'
import { basename } from 'node:path'

import { ask } from './ask'
import { plain, type Plain } from './plain'
import { CountingProxy } from './proxy'
import type { Scenario, Scenarios, Stage } from './stage'

/** The report of one scenario to the parent. */
export interface Report {
  scenario: string
  seen: [label: string, value: Plain][]
  notes: { [label: string]: Plain }
  failure?: string
}

/** The reports of a file. */
export interface Reports {
  /** The file that `require('pg')` led to. */
  driver: string
  /** The database of the file. The parent drops it after the process has ended and all is closed. */
  database: string
  reports: Report[]
}

const [, , driver, file = '', server = ''] = process.argv
const LIMIT_MS = 30_000

/** The parts of Node's loader that are used here, and that its types leave out. */
interface Loader {
  _resolveFilename(this: unknown, request: string, ...rest: unknown[]): string
}

if (driver === 'real') {
  const loader = Module as unknown as Loader
  const resolve = loader._resolveFilename
  loader._resolveFilename = function (request, ...rest): string {
    const real = request === 'pg' || request.startsWith('pg/') ? request.replace('pg', 'pg-real') : request
    return resolve.call(this, real, ...rest)
  }
}

void main()

async function main(): Promise<void> {
  const name = `compat_${basename(file).replace(/\W.*/, '')}_${String(process.pid).padStart(8, '0')}`
  const url = new URL(server)
  url.pathname = `/${name}`
  await ask(server, `create database ${name}`)
  // Loaded only now, after the loader has been switched.
  const scenarios = require(file) as Scenarios
  const reports: Report[] = []
  for (const [scenario, run] of Object.entries(scenarios)) {
    reports.push(await perform(scenario, run, url.href, name))
  }
  const all: Reports = { driver: require.resolve('pg'), database: name, reports }
  process.send?.(all, () => process.disconnect())
}

async function perform(scenario: string, run: Scenario, url: string, name: string): Promise<Report> {
  const report: Report = { scenario, seen: [], notes: {} }
  const proxies: CountingProxy[] = []
  // Messages may have the name of the database, which differs.
  const recorded = (value: unknown): Plain => JSON.parse(JSON.stringify(plain(value)).replaceAll(name, 'DATABASE')) as Plain
  const see = (label: string, value: unknown): void => void report.seen.push([label, recorded(value)])
  const stage: Stage = {
    url,
    see,
    settles: async (label, promise) => {
      try {
        see(label, ['resolved', await promise])
      } catch (error) {
        see(label, ['rejected', error])
      }
    },
    note: (label, value) => void (report.notes[label] = recorded(value)),
    proxy: async () => {
      const proxy = await CountingProxy.start(url)
      proxies.push(proxy)
      return proxy
    },
  }
  const stray = (error: unknown): void => see('uncaught', error)
  process.on('uncaughtException', stray).on('unhandledRejection', stray)
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${LIMIT_MS} ms`)), LIMIT_MS)
  })
  try {
    await Promise.race([run(stage), late])
  } catch (error) {
    report.failure = error instanceof Error ? `${error.stack}` : String(error)
  }
  clearTimeout(timer)
  await Promise.all(proxies.map((proxy) => proxy.stop()))
  process.off('uncaughtException', stray).off('unhandledRejection', stray)
  return report
}
