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
  const [primary, standby = ''] = await servers((stop) => t.after(stop), 1)
  return { primary, standby }
}

/** The URLs of a primary and of so many standbys. Without standbys before PostgreSQL 12. */
export async function servers(
  after: (stop: () => Promise<void>) => void,
  standbys: number,
): Promise<[primary: string, ...standbys: string[]]> {
  const program = process.env['ONETRIP_PRIVATE']
  if (!program) throw new Error('ONETRIP_PRIVATE is not set to a program: `make test` sets it')
  // The servers live until the standard input of `cat` is closed.
  const script = 'echo "$ONETRIP_TEST_POSTGRES"; echo "$ONETRIP_TEST_STANDBY"; exec cat'
  const flags = new Array<string>(standbys).fill('--standby')
  const started = spawn(program, [...flags, 'sh', '-c', script], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const ended = once(started, 'exit')
  after(async () => {
    started.stdin.end()
    await ended
  })
  const lines: string[] = []
  for await (const line of createInterface(started.stdout)) {
    if (lines.push(line) === 2) break
  }
  const [primary, others] = lines
  assert.ok(primary !== undefined && others !== undefined, `${program} has ended`)
  return [primary, ...others.split(' ').filter((url) => url !== '')]
}

/** Asks until the answer is true. The time of the test bounds it. */
export async function until(ask: () => Promise<boolean>): Promise<void> {
  while (!(await ask()));
}
