// Ten seconds each of a mixture in which users leave something in their sessions, with connections that end: what the
// client says is true, and nobody works in a session of somebody else. proof/chaos/SESSIONS.md has all of it.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { chaos } from './chaos/main'

const url = process.env['ONETRIP_TEST_POSTGRES'] ?? ''
const [pooler] = (process.env['ONETRIP_TEST_POOLERS'] ?? '').split(' ').filter((it) => it !== '')
const seconds = Number(process.env['ONETRIP_SECONDS'] ?? 10)
const seed = Number(process.env['ONETRIP_SEED'] ?? Date.now() % 2 ** 31)
if (pooler === undefined) console.log('skipped: there is no PgBouncer here')

for (const face of ['modern', 'pg', 'pg-pipeline']) {
  const ways = [{}, ...(pooler === undefined ? [] : [{ pooler, shared: true }])]
  for (const way of ways) {
    const where = 'shared' in way ? ' behind a pooler in transaction mode' : ''
    test(`nobody works in a session of somebody else${where}: ${face}`, { timeout: 300_000 }, async () => {
      const share = seconds / ways.length
      const report = await chaos({ face, connections: 5, seconds: share, seed, faults: true, url, ...way })
      console.log(report.setting, JSON.stringify(report.rows), `${report.faults} faults`)
      assert.deepEqual(report.wrong, [])
      assert.ok((report.rows['there'] ?? 0) > 0)
    })
  }
}
