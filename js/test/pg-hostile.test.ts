import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'

const limits = { timeout: 30_000 }

/** Runs a program that might never end, or run out of memory. */
function run(program: string): string {
  const child = spawnSync(process.execPath, ['-e', program], { timeout: 20_000, encoding: 'utf8' })
  assert.equal(child.signal, null, `it did not end: ${child.stderr}`)
  return child.stdout + child.stderr
}

test('what comes behind a login and has no length stops no process', limits, () => {
  const module = JSON.stringify(join(__dirname, '../src/pg/messages'))
  const ready = '0x5a, 0, 0, 0, 5, 0x49'
  const out = run(`
    const { secretKeyIn } = require(${module})
    console.log(secretKeyIn(Buffer.from([${ready}, 0x58, 255, 255, 255, 255, ...Buffer.alloc(20)])))
    console.log(secretKeyIn(Buffer.from([${ready}, 0x4b, 0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 2])))`)
  assert.equal(out, 'null\n2\n')
})
