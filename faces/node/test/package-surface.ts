import assert from 'node:assert/strict'
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import * as ts from 'typescript'

import { root } from './package-project'

/** The folder of the lists. */
const LISTS = join(root, '../../docs/reference/public-api')

/** The list of a package's declarations, by the name under which it is installed here. */
const FILES: { [name: string]: string } = { onetrip: 'npm-onetrip.txt', pg: 'npm-onetrip-pg.txt' }

/**
 * Tests that a package declares what is listed, so that a change is deliberate and seen. With
 * `ONETRIP_WRITE=1` in the environment the lists are written anew.
 */
export function surfaces(installed: { [name: string]: string }): void {
  for (const [name, file] of Object.entries(FILES)) {
    test(`the package ${name} declares what ${file} lists`, () => {
      const list = HEAD + declarationsIn(installed[name] as string)
      const path = join(LISTS, file)
      if (process.env['ONETRIP_WRITE']) return writeFileSync(path, list)
      const hint = 'run the test again with ONETRIP_WRITE=1 if this is meant'
      assert.deepEqual(list.split('\n'), readFileSync(path, 'utf8').split('\n'), hint)
    })
  }
}

const HEAD = `// What the package declares for TypeScript, without comments, file by file. Do not edit: with
// ONETRIP_WRITE=1 in its environment faces/node/test/package.test.ts writes it.
`

function declarationsIn(folder: string): string {
  const files = (readdirSync(folder, { recursive: true }) as string[])
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => /\.d\.m?ts$/.test(file) && !file.includes('node_modules/'))
  const printer = ts.createPrinter({ removeComments: true })
  const texts = files.sort().map((file) => {
    const text = readFileSync(join(folder, file), 'utf8')
    const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest)
    return `\n// --- ${file}\n\n${printer.printFile(source)}`
  })
  return texts.join('')
}
