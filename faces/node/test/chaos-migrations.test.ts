// Kinds of DDL under running clients. No value may be stored or read otherwise than by a client
// that was started behind it. See proof/chaos/MIGRATIONS.md.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { migrations, type Setting } from './chaos/migrations/run'

// The real pg writes a Date in the zone of its process.
process.env['TZ'] = 'UTC'

const setting: Omit<Setting, 'face'> = {
  url: process.env['ONETRIP_TEST_POSTGRES'] ?? '',
  seed: Number(process.env['ONETRIP_SEED'] ?? Date.now() % 2 ** 31),
  rounds: 12,
  ...(process.env['ONETRIP_SECONDS'] === undefined ? {} : { seconds: Number(process.env['ONETRIP_SECONDS']) }),
  ...(process.env['ONETRIP_CASE'] === undefined ? {} : { only: process.env['ONETRIP_CASE'], rounds: Infinity }),
}

// The real pg shows that what is expected is what it does.
for (const face of ['modern', 'pg', 'pg-pipeline', 'real']) {
  test(`a migration changes no value in secret: ${face}`, { timeout: 600_000 }, async () => {
    console.log(`ONETRIP_SEED=${setting.seed}`)
    const report = await migrations({ ...setting, face })
    console.log(`${report.uses} uses, ${report.migrations} migrations, errors:`, report.errors)
    for (const it of report.skipped) console.log(`skipped: ${it}`)
    assert.deepEqual(report.wrong, [])
    assert.ok(report.uses > 0)
  })
}
