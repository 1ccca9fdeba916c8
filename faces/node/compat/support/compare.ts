import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { test } from 'node:test'

import { ask } from './ask'
import type { Report, Reports } from './child'

const server = process.env['ONETRIP_TEST_POSTGRES'] ?? ''

/** Checks the notes of both drivers, which may differ. */
export type Judge = (ours: Report['notes'], theirs: Report['notes']) => void

/**
 * Runs the scenarios of a file with pg and with onetrip-pg, and demands that they see the same.
 * Each scenario is a test. `judges` check the notes of some.
 */
export function compare(name: string, judges: { readonly [scenario: string]: Judge } = {}): void {
  test(name, { timeout: 240_000 }, async (t) => {
    const [theirs, ours] = await Promise.all([perform('real', name), perform('ours', name)])
    await t.test('each process has loaded its driver', () => {
      assert.match(theirs.driver, /node_modules\/pg-real\//)
      assert.match(ours.driver, /node_modules\/pg\//)
    })
    for (const [at, their] of theirs.reports.entries()) {
      await t.test(their.scenario, () => {
        const our = ours.reports[at] as Report
        assert.equal(their.failure, undefined, 'with pg')
        assert.equal(our.failure, undefined, 'with onetrip-pg')
        assert.ok(their.seen.length > 0, 'the scenario recorded nothing')
        assertSame(our.seen, their.seen)
        judges[their.scenario]?.(our.notes, their.notes)
      })
    }
  })
}

/** Compares by label, so that a failure shows only the differences. The order of keys counts. */
function assertSame(ours: Report['seen'], theirs: Report['seen']): void {
  const [actual, expected] = [labelled(ours), labelled(theirs)]
  for (const [label, value] of expected) {
    if (JSON.stringify(actual.get(label)) !== JSON.stringify(value)) continue
    actual.delete(label)
    expected.delete(label)
  }
  assert.deepEqual(Object.fromEntries(actual), Object.fromEntries(expected))
  const text = (seen: Map<string, unknown>): string => JSON.stringify([...seen])
  assert.equal(text(actual), text(expected), 'the keys differ in their order')
}

/** The values by label. A label that is used again gets a number. */
function labelled(seen: Report['seen']): Map<string, unknown> {
  const values = new Map<string, unknown>()
  for (const [label, value] of seen) {
    let name = label
    for (let n = 2; values.has(name); n++) name = `${label} (${n})`
    values.set(name, value)
  }
  return values
}

async function perform(driver: 'real' | 'ours', name: string): Promise<Reports> {
  const file = join(__dirname, '..', 'scenarios', `${name}.js`)
  const child = fork(join(__dirname, 'child.js'), [driver, file, server], { stdio: 'inherit' })
  let reports: Reports | undefined
  child.on('message', (message) => (reports = message as Reports))
  // The process ends by itself, unless the driver leaves something open.
  const timer = setTimeout(() => child.kill(), 200_000)
  const [status] = (await once(child, 'exit')) as [number | null]
  clearTimeout(timer)
  assert.ok(reports, `the process with ${driver} reported nothing and ended with ${status}`)
  await ask(server, `drop database ${reports.database} with (force)`)
  assert.equal(status, 0, `the process with ${driver} did not end by itself`)
  return reports
}
