import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'

import { connected, settled } from './pg-both'

const limits = { timeout: 600_000 }

/** Runs a program that might not end, or run out of memory. */
function run(program: string): string {
  const child = spawnSync(process.execPath, ['-e', program], { timeout: 600_000, encoding: 'utf8' })
  assert.equal(child.signal, null, `the program did not end: ${child.stderr}`)
  return child.stdout + child.stderr
}

test('bytes behind a login with a wrong length do not hang the process', limits, () => {
  const module = JSON.stringify(join(__dirname, '../src/pg/messages'))
  const ready = '0x5a, 0, 0, 0, 5, 0x49'
  const out = run(`
    const { secretKeyIn } = require(${module})
    console.log(secretKeyIn(Buffer.from([${ready}, 0x58, 255, 255, 255, 255, ...Buffer.alloc(20)])))
    console.log(secretKeyIn(Buffer.from([${ready}, 0x4b, 0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 2])))`)
  assert.equal(out, 'null\n2\n')
})

test('a lookup of parsers that throws fails its own query, and no other', limits, async () => {
  const client = await connected({ pipeline: true })
  let fails = false
  const types = {
    getTypeParser: () => {
      if (fails) throw new Error('no parsers today')
      return (text: unknown) => text
    },
  }
  const query = { text: 'select $1::text as a', values: ['1'], types }
  // From the fifth use on it is prepared, and its columns are known before the reply arrives.
  for (let i = 0; i < 7; i++) await client.query(query)
  fails = true
  const own = settled(client.query(query))
  const others = [client.query('select $1::text as a', ['2']), client.query('select 3 as a')]
  assert.match(String(await own), /no parsers today/)
  const rows = (await Promise.all(others)).map((result) => ('rows' in result ? result.rows : []))
  assert.deepEqual(rows, [[{ a: '2' }], [{ a: 3 }]])
  await client.end()
})

test('a query larger than the server takes is refused, and its neighbours go on', limits, async () => {
  const client = await connected({ pipeline: true })
  // Its estimated size is more than 4 GiB, which would be small if cut to 32 bits.
  const text = 'x'.repeat(95_450_000)
  const large = settled(client.query('select 1', new Array(15).fill(text)))
  const other = client.query('select 42 as a')
  assert.match(String(await large), /too large/)
  const result = await other
  assert.deepEqual('rows' in result && result.rows, [{ a: 42 }])
  await client.end()
})
