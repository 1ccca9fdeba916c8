import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'

// When Node 20 miscompiled `sizeOf`, one in five of these processes ended with a
// segmentation fault.
test('arguments of all kinds, in any order, are written as the protocol specifies', () => {
  for (let seed = 1; seed <= 20; seed++) {
    const { status, signal, stderr } = spawnSync(
      process.execPath,
      [join(__dirname, 'redis-encode-many.js'), `${seed}`],
      { encoding: 'utf8', timeout: 600_000 },
    )
    assert.deepEqual([status, signal], [0, null], `seed ${seed}: ${stderr}`)
  }
})
