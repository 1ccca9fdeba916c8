import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import type { Project } from './package-project'

const LIMIT = { timeout: 600_000 }
const url = JSON.stringify(process.env['ONETRIP_TEST_POSTGRES'] ?? '')

/** The longest line of a file: an uncaught error prints one whole line. */
const LINE_MAX = 250

/**
 * Programs that end with an error, in a callback or in our code, and the functions in its stack.
 */
const PROGRAMS: { [what: string]: [program: string, seen: string[]] } = {
  "a callback of pg's": [
    `const { Client } = require('pg')
    const client = new Client(${url})
    client.connect().then(() => client.query('select 1', function mine() { throw new Error('no') }))`,
    ['mine', 'Request.succeed', 'Link.receive'],
  ],
  'the drop-in': [
    `const { Client } = require('onetrip/pg')
    new Client({ host: '127.0.0.1', sslnegotiation: 'never' })`,
    ['new ConnectionParameters', 'new Client'],
  ],
  'a statement of a template': [
    `require('onetrip').postgres(${url})\`select \${Symbol()}\`.then()`,
    ['encode', 'TaggedStatement.then'],
  ],
  'a command of Redis': [
    "require('onetrip').redis('redis://127.0.0.1:1').get(Symbol())",
    ['wrongArgument', 'Node.send'],
  ],
}

/** Tests that the published files are readable at the lines that an error points to. */
export function stacks(project: Project, installed: { [name: string]: string }): void {
  for (const [index, [what, [program, functions]]] of Object.entries(PROGRAMS).entries()) {
    test(`an uncaught error in ${what} names functions and lines`, LIMIT, async () => {
      const file = project.write(`stack-${index}.js`, program)
      const { stderr } = await project.node([file]).then(
        () => assert.fail('the error did not end the program'),
        (error: { stderr: string }) => error,
      )
      assert.ok(stderr.length < 4_000, `${stderr.length} characters`)
      const frames = [...stderr.matchAll(FRAME)].map(({ groups }) => groups ?? {})
      const ours = frames.filter(({ file }) => file?.includes('node_modules'))
      assert.ok(ours.length > 1, stderr)
      for (const { line } of ours) assert.ok(Number(line) > 1, stderr)
      const names = frames.map(({ name }) => name)
      for (const name of functions) assert.ok(names.includes(name), `${name}: ${stderr}`)
    })
  }

  for (const name of Object.keys(installed)) {
    test(`no file of the package ${name} has a line of more than ${LINE_MAX} characters`, () => {
      const folder = installed[name] as string
      const files = readdirSync(folder, { recursive: true }) as string[]
      const texts = files.filter((file) => /\.(m?js|d\.m?ts|json)$/.test(file))
      assert.ok(texts.length > 10)
      for (const file of texts) {
        // Nothing is thrown in the line with the engine, and breaks within it cost a kilobyte.
        const isEngine = (line: string): boolean => /^const compressed = '[\w+/=]+'$/.test(line)
        const all = readFileSync(join(folder, file), 'utf8').split('\n')
        const lines = all.filter((line) => !isEngine(line))
        const longest = Math.max(...lines.map((line) => line.length))
        assert.ok(longest <= LINE_MAX, `${file}: ${longest}`)
      }
    })
  }
}

/** A stack frame in a file. Frames in Node have no slash in front. */
const FRAME = /^ +at (?:(?<name>[^/\n]+) \()?(?<file>\/[^\n]+):(?<line>\d+):\d+\)?$/gm
