import assert from 'node:assert/strict'
import { createHash, createHmac, pbkdf2Sync } from 'node:crypto'
import { test } from 'node:test'

import { type Result } from '../src/pg'
import { saslprep } from '../src/pg/saslprep'
import { connected } from './pg-both'

test('examples of RFC 4013', () => {
  assert.equal(saslprep('I\u00adX'), 'IX')
  assert.equal(saslprep('user'), 'user')
  assert.equal(saslprep('USER'), 'USER')
  assert.equal(saslprep('\u00aa'), 'a')
  assert.equal(saslprep('\u2168'), 'IX')
})

test('a prohibited password is not changed', () => {
  for (const password of ['\u0007\u2168', '\u0627\u0031\u2168', '\u2168\ue000', '\u2168\u{1f600}', '\u00ad']) {
    assert.equal(saslprep(password), password)
  }
})

test('passwords are prepared as the server prepares them', async () => {
  const client = await connected()
  const passwords = ['plain', 'pä\u00a0ss', 'ﬁ', 'I\u00adX', '①', '\u0627\u0031', '\u0627\u0031\u0628', 'ﬁ\u{1f600}', 'ﬁ\u200b', '\u2168\t', 'e\u0301', '가', 'ﬁ\u0221', 'א\u2168ב', '\u00adx\ufeff']
  await client.query('begin')
  for (const [index, password] of passwords.entries()) {
    const role = `saslprep_${index}`
    await client.query(`create role ${role} password ${client.escapeLiteral(password)}`)
    const found = await client.query('select rolpassword from pg_authid where rolname = $1', [role])
    const [row] = (found as Result).rows as { rolpassword: string }[]
    assert.equal(isOf(saslprep(password), row?.rolpassword ?? ''), true, JSON.stringify(password))
  }
  await client.query('rollback')
})

/** Whether a verifier (RFC 5803) fits a password. */
function isOf(password: string, verifier: string): boolean {
  const [, iterations = '', salt = '', stored] = /^SCRAM-SHA-256\$(\d+):(.*)\$(.*):/.exec(verifier) ?? []
  const salted = pbkdf2Sync(password, Buffer.from(salt, 'base64'), Number(iterations), 32, 'sha256')
  const key = createHmac('sha256', salted).update('Client Key').digest()
  return createHash('sha256').update(key).digest('base64') === stored
}
