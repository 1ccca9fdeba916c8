import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'

import { compareDate, compareDates } from './pg/dates'

test('dates of all forms are the same as those of pg', () => compareDates(50_000))

test('dates at the limits are the same as those of pg', () => {
  for (const text of [
    'infinity',
    '-infinity',
    'Infinity',
    '',
    '-',
    '2020',
    '2020-01',
    '2020-01-0',
    '2020-01-01 ',
    '2020-01-01T00:00:00',
    '2020-01-01 00:00',
    '2020-01-01 00:00:00.',
    '2020-01-01 00:00:00.+00',
    '2020-01-01 00:00:00.1234567',
    '2020-01-01 00:00:00.12345678901234567890',
    '2020-01-01 00:00:00+',
    '2020-01-01 00:00:00+1',
    '2020-01-01 00:00:00+01:',
    '2020-01-01 00:00:00+01:3',
    '2020-01-01 00:00:00+0130',
    '2020-01-01 00:00:00+01:30:15',
    '2020-01-01 00:00:00+01:30:15:10',
    '2020-01-01 00:00:00-00:00:01',
    '2020-01-01 00:00:00 Europe/Berlin',
    '01/02/2020',
    '02.01.2020 03:04:05 CET',
    'Wed Jan 01 00:00:00 2020 UTC',
    '275760-09-13 00:00:00+00',
    '275760-09-13 00:00:00.001+00',
    '1969-12-31 23:59:59.999+00',
    '0100-01-01 00:00:00+00',
    '0099-12-31 23:59:59.999+00',
    '0000-01-01',
    '2020-02-30',
    '2020-13-01',
    '2020-00-01',
    '2020-01-00',
    '2020-01-01 24:00:00',
    '2020-01-01 23:59:60',
  ]) {
    compareDate(text)
  }
})

test('fractions of a second are truncated as by pg', () => {
  for (let i = 0; i < 1000; i++) {
    const fraction = String(i).padStart(3, '0')
    compareDate(`2020-01-01 00:00:00.${fraction}+00`)
    compareDate(`2020-01-01 00:00:00.${fraction}999`)
    compareDate(`1960-01-01 00:00:00.${fraction.replace(/0+$/, '') || '0'}`)
  }
})

const ZONES = [
  'UTC',
  'Europe/Berlin',
  'America/New_York',
  'Asia/Kolkata',
  'Australia/Lord_Howe',
  'Africa/Monrovia',
  'America/St_Johns',
  'Pacific/Apia',
  'Pacific/Kiritimati',
]

for (const zone of ZONES) {
  test(`dates are the same as those of pg in the time zone ${zone}`, async () => {
    const env = { ...process.env, TZ: zone }
    await promisify(execFile)(process.execPath, [join(__dirname, 'pg/dates.js'), '10000'], { env })
  })
}
