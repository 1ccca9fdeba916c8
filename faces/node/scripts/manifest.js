'use strict'
// The manifests of the two packages.

const { readFileSync } = require('node:fs')
const { resolve } = require('node:path')
const own = require(resolve(__dirname, '../package.json'))

/** The version of pg whose interface and behaviour the drop-in has, and of pg's pool. */
const PG = '8.23'
const PG_POOL = '3.14'

/**
 * Instrumentation and ORMs check the version of the package `pg` (`>=8.0.3 <9`). So the version of
 * onetrip-pg begins with pg's, and its last number is onetrip's version: 0.1.0 is 8.23.100,
 * 1.2.3 is 8.23.10203.
 */
function versionOn(base) {
  const [major, minor, patch] = own.version.split('.').map(Number)
  if (![major, minor, patch].every((it) => it >= 0 && it < 100))
    throw new Error(`version ${own.version} does not fit: it needs three numbers below 100`)
  return `${base}.${major * 10_000 + minor * 100 + patch}`
}

/** The repository, as in the crates. */
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
    // For resolvers that ignore `exports`.
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

/** The manifest of a package `pg-pool`: instrumentation looks for its name and version. */
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
  if (missing.length > 0) throw new Error(`package.json lacks the dependencies ${missing.join(', ')}`)
  return Object.fromEntries([...names].sort().map((name) => [name, own.dependencies[name]]))
}

module.exports = { onetrip, onetripPg, pgPool }
