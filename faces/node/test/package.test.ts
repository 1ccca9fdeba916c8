import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { before, test } from 'node:test'

import { build as bundle } from 'esbuild'

import { instrumented } from './package-hooks'
import { loading } from './package-loading'
import { Project, pack, root } from './package-project'
import { stacks } from './package-stacks'
import { surfaces } from './package-surface'
import { typed } from './package-types'

/** The URL of the server, for programs in the project. */
const url = JSON.stringify(process.env['ONETRIP_TEST_POSTGRES'] ?? '')
const project = new Project()
/** Where the packages are installed: onetrip by its name, onetrip-pg by that of pg. */
const installed = { onetrip: '', pg: '' }

/** The sizes of the tarballs. */
const packed = { onetrip: 0, pg: 0 }

/** Also in proof/bench/src/rows/node/package.rs, beside the sizes of other packages. */
const PACKED_MAX = { onetrip: 365_000, pg: 200_000 }

before(async () => {
  const tarballs = await pack(project)
  installed.onetrip = await project.install(tarballs['onetrip'] as string, 'onetrip')
  installed.pg = await project.install(tarballs['onetrip-pg'] as string, 'pg')
  packed.onetrip = statSync(tarballs['onetrip'] as string).size
  packed.pg = statSync(tarballs['onetrip-pg'] as string).size
})

const LIMIT = { timeout: 600_000 }

interface Manifest {
  [key: string]: unknown
  version: string
  scripts?: object
  dependencies: { [name: string]: string }
}

function manifestOf(name: 'onetrip' | 'pg'): Manifest {
  return JSON.parse(readFileSync(join(installed[name], 'package.json'), 'utf8')) as Manifest
}

function filesOf(name: 'onetrip' | 'pg'): string[] {
  return (readdirSync(installed[name], { recursive: true }) as string[]).filter((file) =>
    statSync(join(installed[name], file)).isFile(),
  )
}

// --- what is in them ---

for (const name of ['onetrip', 'pg'] as const) {
  test(`the package ${name} takes at most ${PACKED_MAX[name]} bytes to download`, () => {
    assert.ok(packed[name] <= PACKED_MAX[name], `${packed[name]} bytes`)
  })

  test(`the package ${name} installs nothing but files, with their license`, LIMIT, () => {
    const files = filesOf(name)
    const { scripts, engines, license, gypfile } = manifestOf(name)
    assert.deepEqual([scripts, gypfile], [undefined, undefined])
    assert.deepEqual([engines, license], [{ node: '>=20' }, 'MIT'])
    for (const file of ['LICENSE', 'README.md', 'THIRD-PARTY-LICENSES.txt'])
      assert.ok(files.includes(file), file)
    assert.deepEqual(
      files.filter((file) => /\.(node|gyp|ts)$/.test(file) && !/\.d\.m?ts$/.test(file)),
      [],
    )
  })

  test(`every path that the package ${name} exports is there`, LIMIT, () => {
    const paths = JSON.stringify(manifestOf(name)['exports']).match(/\.\/(lib|esm)\/[\w.]+/g) ?? []
    assert.ok(paths.length > 3)
    for (const path of paths) assert.ok(statSync(join(installed[name], path)).isFile(), path)
  })
}

test('the version of onetrip-pg begins with that of pg, for code that checks it', LIMIT, async () => {
  const { version } = manifestOf('pg')
  const real = require('pg/package.json') as Manifest
  assert.deepEqual(version.split('.').slice(0, 2), real.version.split('.').slice(0, 2))
  assert.ok(Number(version.split('.')[2]) >= 100)
  assert.equal(
    await project.run(
      'version.js',
      "console.log(JSON.stringify(require('pg/package.json').version))",
    ),
    version,
  )
})

for (const [line, name] of (['onetrip', 'pg'] as const).entries()) {
  test(`the module in the package ${name} is the committed one`, LIMIT, async () => {
    const text = `const { moduleBytes } = require('./node_modules/${name}/lib/module')\n`
    const hash = "require('crypto').createHash('sha256').update(moduleBytes()).digest('hex')"
    const [, ...committed] = readFileSync(
      join(root, 'wasm/onetrip.wasm.origin'),
      'utf8',
    ).split('\n')
    assert.equal(
      await project.run('module.js', `${text}console.log(JSON.stringify(${hash}))`),
      committed[line],
    )
  })
}

// --- the paths by which it is loaded ---

test(
  'what pg exports is exported in the same order, and its classes have the same names',
  LIMIT,
  async () => {
    const look = `
    const names = Object.keys(pg).map((key) => [key, typeof pg[key], pg[key].name])
    const classes = ['Client', 'Pool', 'Query', 'Connection', 'Result', 'TypeOverrides', 'DatabaseError']
    console.log(JSON.stringify([names, classes.map((key) => pg[key].name), pg.native, Object.keys(pg.utils),
      Object.keys(pg.defaults), Object.getOwnPropertyDescriptor(pg, 'Client')?.writable]))`
    const ours = await project.run('names.js', `const pg = require('pg')${look}`)
    const theirs = await project.run(
      'names-pg.js',
      `const pg = require(${JSON.stringify(require.resolve('pg'))})${look}`,
    )
    assert.deepEqual(ours, theirs)
  },
)

test(
  'the files of pg that others load exist, and are the exports of the package',
  LIMIT,
  async () => {
    const seen = await project.run(
      'paths.js',
      `const pg = require('pg')
    const same = []
    for (const [path, value] of [
      ['pg/lib', pg], ['pg/lib/index.js', pg], ['pg/lib/client', pg.Client], ['pg/lib/client.js', pg.Client],
      ['pg/lib/query.js', pg.Query], ['pg/lib/result.js', pg.Result], ['pg/lib/defaults.js', pg.defaults],
      ['pg/lib/utils.js', pg.utils], ['pg/lib/connection.js', pg.Connection],
      ['pg/lib/type-overrides.js', pg.TypeOverrides],
    ]) {
      try { same.push([path, require(path) === value]) } catch (error) { same.push([path, error.code]) }
    }
    same.push(['parameters', new pg.Client().connectionParameters instanceof require('pg/lib/connection-parameters')])
    same.push(['types', pg.types === require('pg-types')])
    for (const path of ['pg/lib/native', 'pg/lib/native/client.js']) {
      try { require(path) } catch (error) { same.push([path, error.code]) }
    }
    console.log(JSON.stringify(same.filter(([, it]) => it !== true)))`,
    )
    assert.deepEqual(seen, [
      // pg does not have it either.
      ['pg/lib', 'ERR_PACKAGE_PATH_NOT_EXPORTED'],
      ['pg/lib/native', 'MODULE_NOT_FOUND'],
      ['pg/lib/native/client.js', 'MODULE_NOT_FOUND'],
    ])
  },
)

for (const name of ['pg', 'onetrip/pg']) {
  test(`a module imports from ${name} the same as a script requires`, LIMIT, async () => {
    const theirs = `import * as all from ${JSON.stringify(join(root, 'node_modules/pg/esm/index.mjs'))}`
    const keys = await project.run(
      'keys.mjs',
      `${theirs}\nconsole.log(JSON.stringify(Object.keys(all)))`,
    )
    const names = JSON.stringify((keys as string[]).filter((it) => it !== 'default' && it !== 'types'))
    const seen = await project.run(
      'import.mjs',
      `import { createRequire } from 'node:module'
      import pg, * as all from '${name}'
      const required = createRequire(import.meta.url)('${name}')
      const wrong = ${names}.filter((name) => !all[name] || all[name] !== required[name])
      const client = new pg.Client(${url})
      await client.connect()
      const { rows } = await client.query('select $1::int as it', [1])
      await client.end()
      console.log(JSON.stringify([pg === required, wrong, rows]))`,
    )
    assert.deepEqual(seen, [true, [], [{ it: 1 }]])
  })
}

test('a cursor from npm finds the files of pg that it loads', LIMIT, async () => {
  // Its own folder has the real pg beside it, so the text is loaded as if it were
  // here.
  const text = readFileSync(require.resolve('pg-cursor'), 'utf8')
  project.write('cursor.js', text)
  assert.equal(
    await project.run('cursors.js', "console.log(JSON.stringify(require('./cursor.js').name))"),
    'Cursor',
  )
})

test('a missing dependency is named when it is needed', LIMIT, async () => {
  const text =
    "try { require('onetrip/lib/core') } catch (error) { console.log(JSON.stringify(error.code)) }"
  assert.equal(await project.run('inside.js', text), 'ERR_PACKAGE_PATH_NOT_EXPORTED')
})

// --- bundles, and errors of loading ---

const DROP_IN = `
  const one = (value) => \`\${value}!\`
  const client = new pg.Client(${url})
  types.setTypeParser(23, one)
  const pool = new pg.Pool({ connectionString: ${url}, max: 1, pipeline: true })
  client.connect().then(() => client.query('select 1 as one')).then(async ({ rows }) => {
    await client.end()
    const error = await pool.query('select nothing').catch((error) => error)
    await pool.end()
    console.log(JSON.stringify([rows, error instanceof pg.DatabaseError]))
  })`

/** What is bundled, and what it prints. Redis is asked where there is none: it says so. */
const BUNDLED: { [what: string]: { text: string; prints: unknown } } = {
  'a script with the drop-in': {
    text: `const pg = require('pg')\nconst { types } = pg${DROP_IN}`,
    prints: [[{ one: '1!' }], true],
  },
  'a module with the drop-in': {
    text: `import pg, { types } from 'pg'${DROP_IN}`,
    prints: [[{ one: '1!' }], true],
  },
  'a module with all faces': {
    text: `import { postgres, redis, RedisError } from 'onetrip'
      import pg from 'onetrip/pg'
      const sql = postgres(${url})
      const pool = new pg.Pool({ connectionString: ${url} })
      const error = redis('redis://127.0.0.1:1').get('key').catch((error) => error)
      Promise.all([sql\`select 1 as one\`, pool.query('select 2 as two'), error])
        .then(async ([one, { rows }, error]) => {
          await Promise.all([sql.end(), pool.end()])
          console.log(JSON.stringify([one, rows, error instanceof RedisError]))
        })`,
    prints: [[{ one: 1 }], [{ two: 2 }], true],
  },
}

for (const [what, { text, prints }] of Object.entries(BUNDLED)) {
  for (const format of ['cjs', 'esm'] as const) {
    test(`${what} runs without the package in a bundle of the format ${format}`, LIMIT, async () => {
      const name = `bundled-${what.replaceAll(' ', '-')}.${format === 'esm' ? 'mjs' : 'cjs'}`
      const ending = text.startsWith('import') ? 'mjs' : 'cjs'
      const outfile = join(mkdtempSync(join(tmpdir(), 'onetrip-bundle-')), name)
      const entry = project.write(`to-bundle-${format}.${ending}`, text)
      try {
        await bundle({ entryPoints: [entry], bundle: true, format, platform: 'node', outfile })
        assert.deepEqual(JSON.parse(await project.node([outfile])), prints)
      } finally {
        rmSync(dirname(outfile), { recursive: true })
      }
    })
  }
}

test(
  'without WebAssembly the drop-in loads, and making a client fails with the reason',
  LIMIT,
  async () => {
    const file = project.write(
      'jitless.js',
      "try { new (require('pg').Pool)() } catch ({ message }) { console.log(message) }",
    )
    assert.match(await project.node(['--jitless', file]), /needs WebAssembly/)
  },
)

instrumented(project)
loading(project)
stacks(project, installed)
surfaces(installed)
typed(project)
