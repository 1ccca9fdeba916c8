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

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  return typeof address === 'object' && address !== null ? address.port : 0
}

/** Makes a server end with the process that started it, however that ends. */
const MORTAL = existsSync('/usr/bin/setpriv') ? ['/usr/bin/setpriv', '--pdeathsig', 'KILL'] : []

const UNSAVED = ['--save', '', '--appendonly', 'no']

/** Starts a server. The caller stops it. */
export async function startRedis(settings: string[] = [], fixed?: number): Promise<Server> {
  const port = fixed ?? (await freePort())
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
