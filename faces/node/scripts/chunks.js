'use strict'
// Says which source is in which file of a package, and what these files import from one another.

const { existsSync, readFileSync } = require('node:fs')
const { join, posix } = require('node:path')
const { transformSync } = require('esbuild')

const source = join(__dirname, '../src')

/**
 * A program waits while its imports load, and most of the sources are not needed before there is a
 * client. So a file loads at once only the files in its `loads`. Any other file is loaded when one of
 * its functions is called, or an object of one of its classes is made.
 *
 * A source belongs to the first file that lists its name, or that of its folder. `exports` are for
 * packages, or for the printed names of classes: each is a name and its source, with the name there
 * if that differs.
 */
const CHUNKS = {
  core: {
    has: [
      'pg/client',
      'pg/connect',
      'pg/defaults',
      'pg/error',
      'pg/escape',
      'pg/hidden',
      'pg/life',
      'pg/module',
      'pg/pool',
      'pg/pool-config',
      'pg/prepare',
      'pg/query',
      'pg/result',
      'pg/types',
      'pg/wire-write',
    ],
    exports: {
      Client: 'pg/client',
      Connection: 'pg/connect',
      defaults: 'pg/defaults',
      PG: 'pg/module',
      Pool: 'pg/pool',
      Query: 'pg/query',
      Result: 'pg/result',
      TypeOverrides: 'pg/types',
      utils: 'pg/module',
    },
    loads: [],
  },
  engine: {
    has: ['engine/', 'pg/'],
    exports: { ConnectionParameters: 'pg/parameters' },
    loads: ['core'],
  },
  errors: {
    has: ['modern/error', 'modern/position', 'redis/error'],
    exports: {
      PostgresError: 'modern/error',
      Position: 'modern/position',
      RedisError: 'redis/error',
    },
    loads: [],
  },
  modern: {
    has: ['modern/'],
    exports: { postgres: 'modern/sql' },
    loads: ['core', 'engine', 'errors'],
  },
  redis: {
    has: ['redis/'],
    exports: {
      redis: 'redis/index',
      RedisClient: 'redis/client.Client',
      RedisSession: 'redis/session.Session',
      Subscription: 'redis/subscription',
    },
    loads: ['core', 'engine', 'errors'],
  },
}

/** Whether a source is put into each file that uses it: const enums, which leave no code behind. */
function isOfAll(module) {
  return module === 'engine/exports' || module === 'engine/choices'
}

/** The file that a source belongs to. */
function chunkOf(module) {
  const isIn = (it) => it === module || (it.endsWith('/') && module.startsWith(it))
  return Object.keys(CHUNKS).find((name) => CHUNKS[name].has.some(isIn))
}

/** The imports between the files of a package. */
class Crossings {
  /** By file: its exports, and for each the source and name behind it, as `source.name`. */
  #given = new Map()
  /** By file and source of another file: the names that it uses. */
  #taken = new Map()
  #seen = new Set()

  constructor(chunks) {
    for (const chunk of chunks) {
      const { exports } = CHUNKS[chunk]
      const whole = ([name, it]) => [name, it.includes('.') ? it : `${it}.${name}`]
      this.#given.set(chunk, new Map(Object.entries(exports).map(whole)))
    }
    for (const chunk of chunks)
      for (const it of [...this.#given.get(chunk).values()]) this.#visit(it.split('.')[0])
  }

  #visit(module) {
    if (this.#seen.has(module)) return
    this.#seen.add(module)
    for (const { from, names } of importsOf(module)) {
      if (isOfAll(from)) continue
      const here = chunkOf(module)
      if (here !== chunkOf(from)) {
        if (!names) throw new Error(`${module} imports all of ${from}, which is in another file: import names`)
        for (const it of names) this.#take(module, from, it)
      }
      this.#visit(from)
    }
  }

  #take(importer, module, name) {
    const [here, there] = [chunkOf(importer), chunkOf(module)]
    if (!isLoaded(here, there)) checkLate(importer, module, name)
    const key = `${here} ${module}`
    this.#taken.set(key, (this.#taken.get(key) ?? new Set()).add(name))
    if (this.#nameOf(module, name) !== undefined) return
    // If two sources export the same name, the name of the source is added.
    const given = this.#given.get(there)
    const free = given.has(name) ? `${module}_${name}`.replace(/\W/g, '_') : name
    given.set(free, `${module}.${name}`)
  }

  /** The name under which a file exports an export of one of its sources. */
  #nameOf(module, name) {
    const given = this.#given.get(chunkOf(module))
    for (const [it, what] of given) if (what === `${module}.${name}`) return it
    return undefined
  }

  /** The text of a module with all exports of a file. */
  entry(chunk) {
    const imports = []
    const fields = []
    for (const [name, what] of this.#given.get(chunk)) {
      const [module, theirs] = what.split('.')
      imports.push(`import { ${theirs} as it${imports.length} } from './${module}'`)
      fields.push(`  ${name}: it${fields.length},`)
    }
    return [...imports, 'module.exports = {', ...fields, '}'].join('\n')
  }

  /** The text of a stand-in for a source of another file. */
  standIn(chunk, module) {
    const there = chunkOf(module)
    const file = `./${there}.js`
    const names = [...this.#taken.get(`${chunk} ${module}`)].sort()
    const pairs = names.map((it) => [it, this.#nameOf(module, it)])
    if (isLoaded(chunk, there)) {
      const lines = pairs.map(([it, theirs]) => `export const ${it} = from.${theirs}`)
      return [`import { from } from '${file}'`, ...lines].join('\n')
    }
    // The first call replaces the stand-in by the real function, so later calls cost nothing more.
    const lines = pairs.map(([it, theirs]) => {
      const real = `(${it} = require('${file}').${theirs})(...given)`
      return isClass(module, it)
        ? `export let ${it} = function (...given) { return new ${real} }`
        : `export let ${it} = (...given) => ${real}`
    })
    return lines.join('\n')
  }
}

/** The classes that a file exports for packages, by their exported names. */
function namedClasses(chunk) {
  return Object.entries(CHUNKS[chunk].exports)
    .filter(([name, it]) => isClass(...(it.includes('.') ? it.split('.') : [it, name])))
    .map(([name]) => name)
}

function isLoaded(chunk, by) {
  return CHUNKS[chunk].loads.includes(by)
}

/** Fails the build where a program would fail when it runs. */
function checkLate(importer, module, name) {
  const isFunction = new RegExp(`^export (async )?function\\*? ${name}\\b`, 'm')
  const why = (it) => new Error(`${importer} imports ${name} of ${module} from a file that is loaded later: ${it}`)
  if (!isClass(module, name) && !isFunction.test(textOf(module)))
    throw why('it is neither a function nor a class')
  if (new RegExp(`\\b(?:extends|instanceof) ${name}\\b|[^.\\w'"]${name}\\.`).test(codeOf(importer)))
    throw why('a class of such a file can only be used by new')
}

function isClass(module, name) {
  return new RegExp(`^export (abstract )?class ${name}\\b`, 'm').test(textOf(module))
}

/** The sources that a source imports or exports from, with the names; no names for all of it. */
function importsOf(module) {
  const pattern = /^(?:import|export) (?:\*[^{}"]*|\{([^}]*)\}) from "(\.[^"]*)";$/gm
  return Array.from(codeOf(module).matchAll(pattern), ([, list, path]) => {
    const names = list?.split(',').map((it) => it.trim().split(' as ')[0])
    return { from: moduleAt(posix.join(posix.dirname(module), path)), names }
  })
}

/** The source that a path without an extension refers to. */
function moduleAt(path) {
  return existsSync(join(source, `${path}.ts`)) ? path : posix.join(path, 'index')
}

function textOf(module) {
  return readFileSync(join(source, `${module}.ts`), 'utf8')
}

/** The text of a source without types and the imports for them. */
function codeOf(module) {
  return transformSync(textOf(module), { loader: 'ts', target: 'node20' }).code
}

/**
 * A replacement for a source that only exports others' names: its names and its text. It loads errors
 * at once, and each function when it is called.
 */
function facade(module) {
  const names = importsOf(module).flatMap((it) => it.names.map((name) => [name, chunkOf(it.from)]))
  const lines = names.map(([name, chunk]) => {
    if (!(name in CHUNKS[chunk].exports)) throw new Error(`${chunk} does not export ${name}`)
    const real = `require('./${chunk}.js').${name}`
    return chunk === 'errors'
      ? `exports.${name} = ${real}`
      : `exports.${name} = function ${name}(...given) {\n  return ${real}(...given)\n}`
  })
  return { names: names.map(([name]) => name), text: `'use strict'\n${lines.join('\n')}\n` }
}

module.exports = { Crossings, chunkOf, facade, isOfAll, moduleAt, namedClasses, source }
