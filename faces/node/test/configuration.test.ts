import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import { configOf } from '../src/redis/config'
import { root } from './package-project'

/** The page of all settings. Its keys of connection strings are compared by a test in Rust. */
const page = readFileSync(join(root, '../../docs/reference/configuration.md'), 'utf8')

/** The cells of a table, without its head. */
function rowsOf(header: string): string[][] {
  const [, table = ''] = page.split(`\n${header}`)
  const lines = table.split('\n').slice(2)
  const end = lines.findIndex((line) => !line.startsWith('|'))
  return lines.slice(0, end).map((line) => line.split('|').map((cell) => cell.trim()))
}

/** The code spans of a cell, up to the first dot. */
function keysIn(cell = ''): string[] {
  return Array.from(cell.matchAll(/`(\w+)[^`]*`/g), ([, key]) => key as string)
}

/** The keys of interfaces in a source file. */
function keysOf(file: string, names: readonly string[]): string[] {
  const source = readFileSync(join(root, 'src', file), 'utf8')
  return names.flatMap((name) => {
    const [, body = ''] = new RegExp(`^export interface ${name} [^{]*{\n([^]*?)^}$`, 'm').exec(source) ?? []
    const keys = Array.from(body.matchAll(/^  (\w+)\??:/gm), ([, key]) => key as string)
    assert.ok(keys.length > 0, `${name} has no keys`)
    return keys
  })
}

function same(documented: readonly string[], taken: readonly string[]): void {
  assert.deepEqual([...new Set(documented)].sort(), [...new Set(taken)].sort())
}

test('the page of settings has each key of the drop-in, and no other', () => {
  const documented = rowsOf('| keyword |').flatMap((cells) => keysIn(cells[5]?.split('(')[0]))
  same(documented, keysOf('pg/face-config.ts', ['ClientConfig', 'PoolConfig']))
})

test('the page of settings has each option of Redis with its default, and no other', () => {
  const rows = rowsOf('| key in a URL |')
  same(
    rows.flatMap((cells) => keysIn(cells[3])),
    keysOf('redis/config.ts', ['RedisOptions']),
  )
  const config = configOf() as unknown as Record<string, unknown>
  for (const [, , , option = '', , , other = ''] of rows) {
    const [key, hasOwn] = [keysIn(option)[0], option.includes('default')]
    const [default_] = keysIn(other)
    if (key !== undefined && default_ !== undefined && !hasOwn && key in config)
      assert.equal(Number(config[key]), Number(default_), key)
  }
})
