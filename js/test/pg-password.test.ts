import assert from 'node:assert/strict'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'

import { ConnectionParameters, type ConnectionConfig } from '../src/pg/parameters'
import { findPassword } from '../src/pg/password'

const directory = mkdtempSync(join(tmpdir(), 'onetrip-pgpass-'))
const file = join(directory, 'pgpass')
const environment = { ...process.env }

before(() => {
  writeFileSync(file, 'other:*:*:*:no\nhost:5433:database:user:se\\:cret\n*:*:*:someone:theirs\n')
  chmodSync(file, 0o600)
  process.env['PGPASSFILE'] = file
  delete process.env['PGPASSWORD']
})
after(() => {
  rmSync(directory, { recursive: true })
  delete process.env['PGPASSFILE']
  Object.assign(process.env, environment)
})

function find(config: ConnectionConfig | string): Promise<string | null> {
  const parameters = new ConnectionParameters(config)
  return findPassword(parameters.password, parameters)
}

test('a password that is given is used', async () => {
  assert.equal(await find('postgres://user:given@host:5433/database'), 'given')
})

test('a function is asked for the password, with the parameters', async () => {
  const password = (parameters: ConnectionParameters): string => `of ${parameters.user}`
  assert.equal(await find({ user: 'a', password }), 'of a')
  assert.equal(await find({ password: async () => 'later' }), 'later')
  assert.equal(await find({ password: () => undefined }), null)
  await assert.rejects(find({ password: () => 5 }), /Password must be a string/)
  await assert.rejects(find({ password: () => Promise.reject(new Error('mine')) }), /mine/)
})

test('without one, that of the password file is used', async () => {
  assert.equal(await find('postgres://user@host:5433/database'), 'se:cret')
  assert.equal(await find('postgres://someone@anywhere/any'), 'theirs')
  assert.equal(await find('postgres://nobody@host:5433/database'), null)
})

test('a password file that is not there is none', async () => {
  process.env['PGPASSFILE'] = join(directory, 'missing')
  assert.equal(await find('postgres://someone@anywhere/any'), null)
})
