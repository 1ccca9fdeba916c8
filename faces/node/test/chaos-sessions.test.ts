// Ten seconds each of a mixture in which users leave state in their sessions, and connections end.
// The client's outcomes must be true, and no statement may run in the session of another user. See
// proof/chaos/SESSIONS.md.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { chaos } from './chaos/main'

const url = process.env['ONETRIP_TEST_POSTGRES'] ?? ''
const [pooler] = (process.env['ONETRIP_TEST_POOLERS'] ?? '').split(' ').filter((it) => it !== '')
const seconds = Number(process.env['ONETRIP_SECONDS'] ?? 10)
const seed = Number(process.env['ONETRIP_SEED'] ?? Date.now() % 2 ** 31)
if (pooler === undefined) console.log('skipped: no PgBouncer was found')

for (const face of ['modern', 'pg', 'pg-pipeline']) {
  const ways = [{}, ...(pooler === undefined ? [] : [{ pooler, shared: true }])]
  for (const way of ways) {
    const where = 'shared' in way ? ' behind a pooler in transaction mode' : ''
    test(`no statement runs in the session of another user${where}: ${face}`, { timeout: 600_000 }, async () => {
      const share = seconds / ways.length
      const report = await chaos({ face, connections: 5, seconds: share, seed, faults: true, url, ...way })
      console.log(report.setting, JSON.stringify(report.rows), `${report.faults} faults`)
      assert.deepEqual(report.wrong, [])
      assert.ok((report.rows['there'] ?? 0) > 0)
    })
  }
}
