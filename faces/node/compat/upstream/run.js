'use strict'
// Runs the test files of node-postgres, each in a process of its own, and says which tests ended
// otherwise than is expected. `scripts/node-upstream` makes the folder that they are run in.
//
//   run.js FOLDER [--pipeline] [NAME...]
//
// With --pipeline every client and pool is made with `pipeline: true`. A NAME is a part of the path
// of a file.

const { spawn } = require('node:child_process')
const { readdirSync, existsSync } = require('node:fs')
const { join, relative } = require('node:path')
const differences = require('./differences')

/** How long a file may take. */
const FILE_MS = 120_000

const [folder, ...given] = process.argv.slice(2)
const isPipelined = given.includes('--pipeline')
const names = given.filter((it) => !it.startsWith('--'))

/** The files, by how they are run. */
const SUITES = [
  { runner: 'node', under: 'packages/pg/test/unit', ending: '-tests.js' },
  { runner: 'node', under: 'packages/pg/test/integration', ending: '-tests.js' },
  { runner: 'mocha', under: 'packages/pg-pool/test', ending: '.js' },
  { runner: 'mocha', under: 'packages/pg-cursor/test', ending: '.js' },
]

/** Not tests, though they are named as if. */
const HELPERS = ['packages/pg-pool/test/setup.js', 'packages/pg-pool/test/verify.js']

async function main() {
  const ended = []
  for (const { runner, file } of files()) ended.push(...(await (runner === 'mocha' ? mocha : suite)(file)))
  process.exitCode = report(ended)
}

function* files() {
  for (const { runner, under, ending } of SUITES) {
    for (const name of readdirSync(join(folder, under), { recursive: true }).sort()) {
      const file = `${under}/${name}`
      const isChosen = names.length === 0 || names.some((it) => file.includes(it))
      if (!file.endsWith(ending) || !isChosen || HELPERS.includes(file)) continue
      if (differences.inside.includes(relative('packages', file))) {
        console.log(`left out: ${relative('packages', file)}: it looks at pg's inside`)
      } else {
        yield { runner, file }
      }
    }
  }
}

/** Runs a program; resolves with what it printed and its exit status. */
function run(parameters) {
  return new Promise((resolve) => {
    const env = { ...process.env, ONETRIP_UPSTREAM_PIPELINE: isPipelined ? '1' : '' }
    const child = spawn(process.execPath, parameters, { cwd: folder, env, detached: true })
    let said = ''
    for (const it of [child.stdout, child.stderr]) it.on('data', (text) => (said += text))
    const late = setTimeout(() => process.kill(-child.pid, 'SIGKILL'), FILE_MS)
    child.on('close', (status) => {
      clearTimeout(late)
      resolve({ said, status })
    })
  })
}

/**
 * A file of pg: it prints each test and a mark behind it, and ends at the first that fails. A file
 * that has no tests with names is one.
 */
async function suite(file) {
  const { said, status } = await run(['-r', './support.js', file])
  const tests = Array.from(said.matchAll(/^ {2}(\S.*?) (?:(✔|FAILED!|\? - SKIPPED)$|(?=Message: |Error: |$))/gm), ([, name, mark]) => ({
    file,
    name,
    ended: mark === '✔' ? 'passed' : mark === '? - SKIPPED' ? 'skipped' : 'failed',
    said,
  }))
  if (tests.length === 0) return [{ file, name: '', ended: status === 0 ? 'passed' : 'failed', said }]
  if (status !== 0 && tests.every((it) => it.ended !== 'failed')) tests.at(-1).ended = 'failed'
  return tests
}

async function mocha(file) {
  const reporter = ['--reporter', 'json', '--timeout', '20000', '--exit']
  const { said } = await run(['node_modules/mocha/bin/mocha.js', '-r', './support.js', ...reporter, file])
  const begin = said.indexOf('{\n  "stats"')
  if (begin < 0) return [{ file, name: '', ended: 'failed', said }]
  const { passes, failures, pending } = JSON.parse(said.slice(begin, said.lastIndexOf('}') + 1))
  const of = (ended) => (it) => ({ file, name: it.fullTitle, ended, said: it.err.stack ?? it.err.message })
  return [
    ...passes.map(of('passed')),
    ...failures.map(of('failed')),
    ...pending.map(of('skipped')),
  ]
}

/** Prints what ended otherwise than expected, and the count; the exit status. */
function report(ended) {
  const known = { ...differences.always, ...(isPipelined ? differences.pipelined : {}) }
  const key = ({ file, name }) => relative('packages', file) + (name && `: ${name}`)
  const counts = { passed: 0, different: 0, skipped: 0, wrong: 0 }
  for (const it of ended) {
    const why = known[key(it)] ?? known[relative('packages', it.file)]
    if (it.ended === 'failed' && why) {
      counts.different++
      console.log(`differs: ${key(it)}: ${why}`)
    } else if (it.ended === 'failed') {
      counts.wrong++
      console.log(`FAILED: ${key(it)}\n${it.said}`)
    } else {
      counts[it.ended]++
    }
    if (process.env.ONETRIP_UPSTREAM_LIST) console.log(`${it.ended}: ${key(it)}`)
  }
  const { passed, different, skipped, wrong } = counts
  console.log(
    `node-postgres${isPipelined ? ', pipelined' : ''}: ${passed} of ${passed + different + wrong} passed, ` +
      `${different} differ as is known, ${skipped} are skipped there, ${wrong} failed`,
  )
  return wrong === 0 ? 0 : 1
}

if (!existsSync(join(folder, 'support.js'))) throw new Error(`no tests in ${folder}`)
void main()
