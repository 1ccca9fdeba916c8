import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'

const MODULE = JSON.stringify(join(__dirname, '../src/engine/memory'))

function run(program: string): string {
  const text = `const { memory } = require(${MODULE})
    const { engine } = memory
    ${program}`
  const child = spawnSync(process.execPath, ['-e', text], { timeout: 600_000, encoding: 'utf8' })
  return child.stdout + child.stderr
}

const limits = { timeout: 600_000 }

test('texts are written whole in a memory that has grown beyond 2 GiB', limits, () => {
  const out = run(`
    const start = engine.onetrip_alloc(1000) >>> 0
    engine.memory.grow(40_000)
    memory.refresh()
    const text = 'é' + 'x'.repeat(40)
    const length = memory.writeText(text, start)
    console.log(length, memory.text(start, start + length) === text)`)
  assert.equal(out, '42 true\n')
})

test('bytes above 2 GiB of the memory are lent like others', limits, () => {
  const out = run(`
    engine.onetrip_alloc(1_100_000_000)
    engine.onetrip_alloc(1_000_000_000)
    while (engine.onetrip_alloc(1 << 20) >>> 0 < 2 ** 31);
    const given = Buffer.alloc(2 << 20, 'x')
    memory.lend(given, (start) => {
      console.log(start >= 2 ** 31, given.equals(memory.bytes.subarray(start, start + given.length)))
    })`)
  assert.equal(out, 'true true\n')
})
