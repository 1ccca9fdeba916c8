// The table of settings, whose expectations the tests of the Python package hold against libpq.
import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'

import { Settings } from '../src/modern/config'
import type { Name } from '../src/modern/keywords'
import { root } from './package-project'

interface Server {
  readonly host: string
  readonly port: string
  readonly password: string | null
  readonly hostaddr?: string
}

interface Case {
  readonly name: string
  readonly text: string
  readonly environment?: Readonly<Record<string, string>>
  readonly files?: Readonly<Record<string, string>>
  readonly modes?: Readonly<Record<string, string>>
  readonly servers?: readonly Server[]
  readonly settings?: Readonly<Record<string, string>>
  readonly error?: { readonly ours: string }
  readonly refused?: { readonly faces?: readonly string[]; readonly says: string }
}

const table = readFileSync(join(root, '../../proof/conformance/postgres_settings.json'), 'utf8')
const { cases } = JSON.parse(table) as { cases: Case[] }

const before = { ...process.env }
let home = ''

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'onetrip-settings-'))
  for (const name of Object.keys(process.env)) if (name.startsWith('PG')) delete process.env[name]
  process.env['HOME'] = home
})
afterEach(() => {
  rmSync(home, { recursive: true })
  for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name]
  Object.assign(process.env, before)
})

function prepare({ files = {}, modes = {}, environment = {} }: Case): void {
  for (const [name, text] of Object.entries(files)) {
    const file = join(home, name)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
    chmodSync(file, 0o600)
  }
  for (const [name, mode] of Object.entries(modes)) chmodSync(join(home, name), parseInt(mode, 8))
  Object.assign(process.env, environment)
}

/** What has to be said, if it has to be refused. */
function refusal({ text, error, refused }: Case): string | undefined {
  if (!text.startsWith('postgres://')) return 'a connection string begins with postgres://'
  const isRefused = refused !== undefined && (refused.faces ?? ['node']).includes('node')
  return isRefused ? refused.says : error?.ours
}

test('there are cases', () => assert.ok(cases.length > 100))

for (const one of cases) {
  test(`libpq: ${one.name}`, async () => {
    const filled = JSON.stringify(one)
      .replaceAll('{home}', home)
      .replaceAll('{p1}', '6001')
      .replaceAll('{p2}', '6002')
    const it = JSON.parse(filled) as Case
    prepare(it)
    const says = refusal(it)
    if (says !== undefined) {
      assert.throws(
        () => new Settings(it.text),
        ({ message }: Error) => message.includes(says) && !message.includes('\n'),
      )
      return
    }
    const settings = new Settings(it.text)
    if (it.servers !== undefined) {
      const found = settings.endpoints.map(async (endpoint) => {
        const { host, port, address } = endpoint
        const password = (await settings.password(endpoint)) ?? null
        return { host, port: String(port), password, ...(address && { hostaddr: address }) }
      })
      assert.deepEqual(await Promise.all(found), it.servers)
    }
    const own = { user: settings.user, dbname: settings.dbname, ...Object.fromEntries(settings.ofPlan()) }
    for (const [name, text] of Object.entries(it.settings ?? {}))
      assert.equal((own as Record<string, string>)[name] ?? settings.said(name as Name), text, name)
  })
}

for (const [variable, text, harmless] of [
  ['PGREQUIREAUTH', 'scram-sha-256', ''],
  ['PGMINPROTOCOLVERSION', '3.2', '3.0'],
  ['PGREQUIREPEER', 'postgres', ''],
] as const) {
  test(`${variable}, which is not carried out, is refused and not ignored`, () => {
    process.env[variable] = harmless
    new Settings('postgres://h')
    process.env[variable] = text
    assert.throws(
      () => new Settings('postgres://h'),
      new RegExp(`the environment variable ${variable} asks for .*: unset it`),
    )
  })
}
