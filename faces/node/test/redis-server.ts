import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import type { Client } from '../src/redis'

/** A Redis server of a test's own. */
export interface Server {
  readonly port: number
  readonly socket: string
  readonly url: string
  stop(): Promise<void>
}

/** A port that nobody has: this one, or any. 0 if there is none. */
async function freePort(wanted = 0): Promise<number> {
  const server = createServer()
  const listens = new Promise<boolean>((resolve) => {
    server.on('error', () => resolve(false))
    server.listen(wanted, '127.0.0.1', () => resolve(true))
  })
  if (!(await listens)) return 0
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  return typeof address === 'object' && address !== null ? address.port : 0
}

/** What is added to the port of a cluster's node for its bus (CLUSTER_PORT_INCR in cluster.h). */
const BUS = 10_000

/** A port for a node of a cluster, whose bus has one as well. */
async function freePorts(): Promise<number> {
  for (;;) {
    const port = await freePort()
    if (port + BUS < 65_536 && (await freePort(port + BUS)) !== 0) return port
  }
}

/** Makes a server end with the process that started it, however that ends. */
const MORTAL = existsSync('/usr/bin/setpriv') ? ['/usr/bin/setpriv', '--pdeathsig', 'KILL'] : []

const UNSAVED = ['--save', '', '--appendonly', 'no']

/** Starts a server. The caller stops it. */
export async function startRedis(settings: string[] = [], fixed?: number): Promise<Server> {
  const isNode = settings.includes('--cluster-enabled')
  const port = fixed ?? (await (isNode ? freePorts() : freePort()))
  const folder = mkdtempSync(join(tmpdir(), 'onetrip-redis-'))
  const socket = join(folder, 's')
  const program = process.env['ONETRIP_REDIS_SERVER']
  if (!program) throw new Error('ONETRIP_REDIS_SERVER is not set to a program: `make test` sets it')
  const options = ['--bind', '127.0.0.1', '--port', `${port}`, '--unixsocket', socket, '--dir', folder]
  const [first, ...rest] = [...MORTAL, program, ...options, ...UNSAVED, ...settings] as [string]
  // With the standard error of the tests, a reader of their output would wait for the server.
  const process_ = spawn(first, rest, { stdio: ['ignore', 'pipe', 'pipe'] })
  process_.stderr.pipe(process.stderr, { end: false })
  await new Promise<void>((resolve, reject) => {
    let said = ''
    process_.on('error', reject)
    process_.on('exit', () => reject(new Error(`redis-server has ended: ${said}`)))
    process_.stdout.on('data', (chunk: Buffer) => {
      said += chunk.toString()
      if (/ready to accept connections/i.test(said)) resolve()
    })
  })
  let stopped: Promise<void> | undefined
  const stop = (): Promise<void> =>
    (stopped ??= new Promise((resolve) => {
      process_.removeAllListeners('exit')
      process_.once('exit', () => {
        rmSync(folder, { recursive: true, force: true })
        resolve()
      })
      process_.kill('SIGKILL')
    }))

  return { port, socket, url: `redis://127.0.0.1:${port}`, stop }
}

/** Whether the server lacks a command of this name. If so, it must have refused one. */
export async function lacks(client: Client, name: string): Promise<boolean> {
  const [described] = await client.command<[unknown]>('COMMAND INFO', name)
  if (described !== null) return false
  const refused = { outcome: 'Rejected', message: /unknown command/ }
  await assert.rejects(client.command(name, 'key', 'value'), refused)
  return true
}

/** Repeats until the condition holds, for half a minute at most. */
export async function until(holds: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + 30_000
  while (performance.now() < end) if (await holds()) return
  assert.fail('the condition never held')
}
