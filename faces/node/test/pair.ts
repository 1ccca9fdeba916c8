import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { TestContext } from 'node:test'

/** The URLs of a primary and its standby, which belong to one test. */
export interface Pair {
  readonly primary: string
  /** Empty before PostgreSQL 12. */
  readonly standby: string
}

/** Starts both. They stop when the test ends, and also if this process ends before. */
export async function pair(t: TestContext): Promise<Pair> {
  const program = process.env['ONETRIP_PRIVATE']
  if (!program) throw new Error('ONETRIP_PRIVATE is not set to a program: `make test` sets it')
  // The servers live until the standard input of `cat` is closed.
  const script = 'echo "$ONETRIP_TEST_POSTGRES"; echo "$ONETRIP_TEST_STANDBY"; exec cat'
  const servers = spawn(program, ['--standby', 'sh', '-c', script], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const ended = once(servers, 'exit')
  t.after(async () => {
    servers.stdin.end()
    await ended
  })
  const urls: string[] = []
  for await (const line of createInterface(servers.stdout)) {
    if (urls.push(line) === 2) break
  }
  const [primary, standby] = urls
  assert.ok(primary !== undefined && standby !== undefined, `${program} has ended`)
  return { primary, standby }
}

/** Asks until the answer is true. The time of the test bounds it. */
export async function until(ask: () => Promise<boolean>): Promise<void> {
  while (!(await ask()));
}
