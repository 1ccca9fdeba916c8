import assert from 'node:assert/strict'
import { test } from 'node:test'

import type { Project } from './package-project'

const url = JSON.stringify(process.env['ONETRIP_TEST_POSTGRES'] ?? '')
const LIMIT = { timeout: 600_000 }

/**
 * Hooks the loading of files, as instrumentation does: `on(name,
 * change)`, where the name is that of a package, for its exports, or that of a package and the
 * path of a file in it.
 */
const HOOKS = `
  const { Module } = require('node:module')
  const path = require('node:path')
  const hooks = new Map()
  const on = (name, change) => hooks.set(name, change)
  const seen = []
  const done = new Set()
  const original = Module.prototype.require
  Module.prototype.require = function (id) {
    const exported = original.apply(this, arguments)
    const file = Module._resolveFilename(id, this)
    const parts = file.split(path.sep)
    const at = parts.lastIndexOf('node_modules')
    if (at < 0 || done.has(file)) return exported
    done.add(file)
    const name = parts[at + 1]
    const folder = parts.slice(0, at + 2).join(path.sep)
    const main = require.resolve(name, { paths: [folder] }) === file
    const full = main ? name : [name, ...parts.slice(at + 2)].join('/')
    const { version } = JSON.parse(require('node:fs').readFileSync(folder + '/package.json'))
    if (hooks.has(full)) {
      seen.push([full, version.split('.').slice(0, 2).join('.')])
      hooks.get(full)(exported)
    }
    return exported
  }
  const calls = []
  const wrap = (object, name, label) => {
    const inner = object[name]
    object[name] = function (...given) { calls.push(label); return inner.apply(this, given) }
  }`

/** A program that is not aware of the instrumentation. */
const PROGRAM = `
  async function run() {
    const client = new pg.Client(${url})
    await client.connect()
    await client.query('select 1')
    await client.end()
    calls.push('|')
    const pool = new pg.Pool({ connectionString: ${url}, max: 1 })
    const lent = await pool.connect()
    await lent.query('select 2')
    lent.release()
    calls.push('|')
    await pool.query('select $1::int', [3])
    await new Promise((resolve, reject) => pool.query('select 4', (error) => error ? reject(error) : resolve()))
    await pool.end()
    console.log(JSON.stringify({ seen, calls }))
  }
  run()`

/** The ways to instrument. */
const WAYS: { [who: string]: string } = {
  'the files of pg and the package pg-pool': `
    on('pg/lib/client.js', (Client) => { wrap(Client.prototype, 'query', 'query'); wrap(Client.prototype, 'connect', 'connect') })
    on('pg-pool', (Pool) => wrap(Pool.prototype, 'connect', 'pool.connect'))`,
  'the prototypes of what pg exports': `
    on('pg', (pg) => {
      wrap(pg.Client.prototype, 'query', 'query')
      wrap(pg.Pool.prototype, 'query', 'pool.query')
      wrap(pg.Pool.prototype, 'connect', 'pool.connect')
    })`,
}

/** Tests that patches of pg are called as with pg. */
export function instrumented(project: Project): void {
  for (const [index, [who, hooks]] of Object.entries(WAYS).entries()) {
    test(`instrumentation of ${who} sees the same calls as on pg`, LIMIT, async () => {
      const program = (pg: string): string =>
        `${HOOKS}\n${hooks}\nconst pg = require(${pg})\n${PROGRAM}`
      const ours = await project.run(`hooks-${index}.js`, program("'pg'"))
      const real = JSON.stringify(require.resolve('pg'))
      const theirs = await project.run(`hooks-${index}-pg.js`, program(real))
      assert.deepEqual(ours, theirs)
    })
  }

  test(
    'a class that replaces the one in a file is exported',
    LIMIT,
    async () => {
      const seen = await project.run(
        'replaced.js',
        `const file = require.resolve('pg/lib/client')
      class Mine extends require(file) {}
      require.cache[file].exports = Mine
      const pg = require('pg')
      const pool = new pg.Pool({ connectionString: ${url}, max: 1 })
      pool.connect().then(async (client) => {
        const isMine = client instanceof Mine
        client.release()
        await pool.end()
        console.log(JSON.stringify([pg.Client === Mine, isMine]))
      })`,
      )
      assert.deepEqual(seen, [true, true])
    },
  )
}
