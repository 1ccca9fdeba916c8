'use strict'
// What the two packages say of themselves.

const { readFileSync } = require('node:fs')
const { resolve } = require('node:path')
const own = require(resolve(__dirname, '../package.json'))

/** The version of pg whose surface and behaviour these are, and of the pool that comes with it. */
const PG = '8.23'
const PG_POOL = '3.14'

/**
 * Instrumentation and ORMs look at the version of what they find as `pg` (`>=8.0.3 <9`), so that of
 * onetrip-pg begins as pg's does, and its last number is onetrip's version: 0.1.0 is 8.23.100,
 * 1.2.3 is 8.23.10203.
 */
function versionOn(base) {
  const [major, minor, patch] = own.version.split('.').map(Number)
  if (![major, minor, patch].every((it) => it >= 0 && it < 100))
    throw new Error(`version ${own.version}?`)
  return `${base}.${major * 10_000 + minor * 100 + patch}`
}

/** Where all of it is, as the crates say it. */
const [, repository] = readFileSync(resolve(__dirname, '../../../Cargo.toml'), 'utf8').match(
  /^repository = "(.*)"$/m,
)

const both = {
  repository: { type: 'git', url: `git+${repository}.git`, directory: 'faces/node' },
  license: own.license,
  type: 'commonjs',
  main: './lib/index.js',
  types: './lib/index.d.ts',
  engines: own.engines,
  files: ['lib', 'esm', 'THIRD-PARTY-LICENSES.txt'],
}

function onetrip(dependencies) {
  return {
    name: 'onetrip',
    version: own.version,
    description: own.description,
    keywords: ['postgres', 'postgresql', 'pg', 'redis', 'valkey', 'pipeline', 'wasm'],
    ...both,
    exports: {
      '.': entry('index', 'index'),
      './pg': entry('pg', 'pg'),
      './package.json': './package.json',
    },
    // For resolvers that do not look at exports.
    typesVersions: { '*': { pg: ['./lib/pg.d.ts'] } },
    dependencies: listed(dependencies),
  }
}

function onetripPg(dependencies) {
  return {
    name: 'onetrip-pg',
    version: versionOn(PG),
    description: 'onetrip under the name and the paths of pg: "pg": "npm:onetrip-pg"',
    keywords: ['postgres', 'postgresql', 'pg', 'pipeline', 'wasm'],
    ...both,
    exports: {
      '.': entry('index', 'index'),
      './package.json': './package.json',
      './lib/*': './lib/*.js',
      './lib/*.js': './lib/*.js',
    },
    dependencies: listed(dependencies),
  }
}

/** As if it had come from npm: instrumentation of pools looks for this name and at its version. */
function pgPool() {
  return {
    name: 'pg-pool',
    version: versionOn(PG_POOL),
    license: own.license,
    main: './index.js',
    private: true,
  }
}

function entry(esm, cjs) {
  return {
    import: { types: `./esm/${esm}.d.mts`, default: `./esm/${esm}.mjs` },
    default: { types: `./lib/${cjs}.d.ts`, default: `./lib/${cjs}.js` },
  }
}

function listed(names) {
  const missing = [...names].filter((name) => own.dependencies[name] === undefined)
  if (missing.length > 0) throw new Error(`not among the dependencies: ${missing.join(', ')}`)
  return Object.fromEntries([...names].sort().map((name) => [name, own.dependencies[name]]))
}

module.exports = { onetrip, onetripPg, pgPool }
