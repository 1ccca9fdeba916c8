import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'

import { transform } from 'esbuild'

import { Client } from '../src/pg'
import { compile, Project, pack, root } from './package-project'
import { type Server, startRedis } from './redis-server'

/**
 * Runs the examples of the users' pages as they are: each is a module in a project that has the
 * packages. An example without an import goes on with the client of its page's first example.
 */
const FILES = [
  'README.md',
  '../../README.md',
  '../../docs/guide/node.md',
  '../../docs/guide/node-pg.md',
  '../../docs/guide/node-modern.md',
  '../../docs/guide/node-redis.md',
  '../../docs/concepts/outcomes.md',
  '../../docs/concepts/slow-neighbours.md',
]

const LIMIT = { timeout: 600_000 }
const url = process.env['ONETRIP_TEST_POSTGRES'] ?? ''
/** The tables of the examples, in a schema of their own. */
const schema = `docs_${process.pid}`
const TABLES = `
  create schema ${schema};
  set search_path = ${schema};
  create table item (id int primary key, name text, price numeric);
  create table account (id int primary key, balance int);
  create table event (id int primary key, kind text);
  create table users (id int); create table orders (id int);
  insert into item values (1, 'nail', 0.10), (2, 'screw', 0.20), (7, 'hammer', 12);
  insert into item values (3, 'nut', 0.30);
  insert into account values (1, 100), (2, 100);
  insert into event select generate_series(1, 1000)`

const project = new Project()
const environment: { [name: string]: string } = {}
let server: Server | undefined

before(async () => {
  const client = new Client(url)
  await client.connect()
  await client.query(TABLES)
  await client.end()
  const options = encodeURIComponent(`-c search_path=${schema}`)
  environment['DATABASE_URL'] = `${url}${url.includes('?') ? '&' : '?'}options=${options}`
  if (process.env['ONETRIP_REDIS_SERVER']) server = await startRedis()
  environment['REDIS_URL'] = server?.url ?? ''
  project.write('items.csv', '8,saw,15\n')
  const tarballs = await pack(project)
  await project.install(tarballs['onetrip'] as string, 'onetrip')
  await project.install(tarballs['onetrip-pg'] as string, 'pg')
})

after(async () => {
  await server?.stop()
  const client = new Client(url)
  await client.connect()
  await client.query(`drop schema ${schema} cascade`)
  await client.end()
})

for (const file of FILES) {
  const examples = examplesOf(readFileSync(join(root, file), 'utf8'))
  for (const { heading, language, code, runs } of examples) {
    if (!runs) {
      test(`the fragment in ${file} under "${heading}" parses`, async () => {
        await runnable(code, language)
      })
      continue
    }
    test(`the example of ${file} under "${heading}" runs`, LIMIT, async (context) => {
      if (code.includes('redis(') && environment['REDIS_URL'] === '')
        return context.skip('no redis-server here')
      const name = `example-${file.replace(/\W/g, '-')}-${heading.replace(/\W/g, '-')}`
      const module = /^import /m.test(code)
      const path = project.write(`${name}${module ? '.mjs' : '.cjs'}`, await runnable(code, language))
      const printed = await project.node([path], environment)
      for (const expected of expectedOf(code))
        assert.ok(printed.includes(expected), `${expected}: ${printed}`)
    })
  }

  const typed = examples.filter(({ language }) => language === 'ts')
  if (typed.length === 0) continue
  test(`the examples of ${file} compile where TypeScript is strict`, LIMIT, async () => {
    const name = `strict-${file.replace(/\W/g, '-')}`
    const files = typed.map(({ code }, i) => project.write(`${name}-${i}.mts`, code))
    assert.equal(await compile(project, ['--module', 'nodenext', ...files]), '')
  })
}

/** Removes the types and nothing else: code that Node can't run a reader can't run either. */
async function runnable(code: string, language: string): Promise<string> {
  const parsed = await transform(code, { loader: language as 'js' | 'ts', target: 'esnext' })
  return language === 'js' ? code : parsed.code
}

interface Example {
  heading: string
  language: string
  code: string
  /** Whether it is a whole program. */
  runs: boolean
}

/** The code blocks of a page with their headings. A block marked `no-run` is a fragment. */
function examplesOf(text: string): Example[] {
  const examples: Example[] = []
  let heading = ''
  let opening = ''
  let closing = ''
  for (const [, title, language = '', mark, block = ''] of text.matchAll(
    /^#+ (.*)$|^```(\w+)(.*)\n([^]*?)^```$/gm,
  )) {
    if (title !== undefined) heading = title
    if (title !== undefined || !/^[jt]s$/.test(language)) continue
    if (opening === '') {
      opening = linesOf(block, /^(?:import .*|const \w+ = (?:postgres|redis)\(.*)\n/gm)
      closing = linesOf(block, /^await \w+\.(?:end|close)\(\)\n/gm)
    }
    const isWhole = /^import |require\(/m.test(block)
    const code = isWhole ? block : opening + block + closing
    examples.push({ heading, language, code, runs: mark?.trim() !== 'no-run' })
  }
  return examples
}

function linesOf(block: string, pattern: RegExp): string {
  return (block.match(pattern) ?? []).join('')
}

/** The expected output: the comments behind each `console.log`. */
function expectedOf(code: string): string[] {
  return Array.from(
    code.matchAll(/console\.log\(.*\) *\}?\)? *\/\/ (.*)$/gm),
    ([, text]) => text as string,
  ).flatMap((text) => text.split(', '))
}
