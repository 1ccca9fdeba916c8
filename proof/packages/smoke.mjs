// A user's program on the published packages. scripts/package runs it on private servers.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'

import { postgres, redis } from 'onetrip'
import dropIn from 'onetrip/pg'
import alias from 'pg'

const url = process.env.ONETRIP_TEST_POSTGRES

const sql = postgres(url)
const [[{ sum }], [{ name }]] = await Promise.all([
  sql`select 1 + ${2}::int as sum`,
  sql`select 'a' || ${'b'} as name`,
])
assert.deepEqual([sum, name], [3, 'ab'])
await assert.rejects(sql`select nothing`, { name: 'PostgresError', outcome: 'Rejected' })
await sql.end()
console.log('Node.js: PostgreSQL answers')

const require = createRequire(import.meta.url)
for (const [what, pg] of Object.entries({ 'onetrip/pg': dropIn, pg: alias })) {
  assert.equal(require(what), pg)
  const pool = new pg.Pool({ connectionString: url, max: 1 })
  const { rows } = await pool.query('select $1::int as it', [1])
  assert.deepEqual(rows, [{ it: 1 }])
  await pool.end()
  console.log(`Node.js: PostgreSQL answers through ${what}`)
}

if (process.env.ONETRIP_TEST_REDIS) {
  const cache = redis(process.env.ONETRIP_TEST_REDIS)
  await cache.set('smoke', 'on')
  assert.equal(await cache.get('smoke'), 'on')
  await cache.close()
  console.log('Node.js: Redis answers')
} else {
  console.log('skipped: Redis, since there is no server here')
}
