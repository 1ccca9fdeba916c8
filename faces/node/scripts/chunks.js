'use strict'
// Which source is in which file of a package, and what these files take of one another.

const { existsSync, readFileSync } = require('node:fs')
const { join, posix } = require('node:path')
const { transformSync } = require('esbuild')

const source = join(__dirname, '../src')

/**
 * A program waits for what it imports, and most of what is here is not needed before there is a
 * client. So a file loads at once only those that it `loads`; what its sources use of another one
 * is there when a function of that is called, or an object of a class of it is made.
 *
 * A source is in the first file that has its name, or that of its folder. `exports` are for
 * packages, or for the names by which classes are printed: a name, and of which source it is, by
 * what name there if that is another one.
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
    has: ['modern/error', 'redis/error'],
    exports: { PostgresError: 'modern/error', RedisError: 'redis/error' },
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

/** Whether a source is in each file that uses it: of these numbers there is nothing left when they stand where they are used. */
function isOfAll(module) {
  return module === 'engine/exports'
}

/** The file that a source is in. */
function chunkOf(module) {
  const isIn = (it) => it === module || (it.endsWith('/') && module.startsWith(it))
  return Object.keys(CHUNKS).find((name) => CHUNKS[name].has.some(isIn))
}

/** What the files of a package take of one another. */
class Crossings {
  /** By file: what it exports, and what of its sources that is, as `source.name`. */
  #given = new Map()
  /** By file and source of another one: the names that it uses of that. */
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
        if (!names) throw new Error(`${module} takes all of ${from}, which is in another file`)
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
    // Where two sources export the same name, that of the source is in it.
    const given = this.#given.get(there)
    const free = given.has(name) ? `${module}_${name}`.replace(/\W/g, '_') : name
    given.set(free, `${module}.${name}`)
  }

  /** By what name a file exports what is exported by a source in it. */
  #nameOf(module, name) {
    const given = this.#given.get(chunkOf(module))
    for (const [it, what] of given) if (what === `${module}.${name}`) return it
    return undefined
  }

  /** The text of a module that is all that a file has to export. */
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

  /** The text of what stands in a file for a source of another one. */
  standIn(chunk, module) {
    const there = chunkOf(module)
    const file = `./${there}.js`
    const names = [...this.#taken.get(`${chunk} ${module}`)].sort()
    const pairs = names.map((it) => [it, this.#nameOf(module, it)])
    if (isLoaded(chunk, there)) {
      const lines = pairs.map(([it, theirs]) => `export const ${it} = from.${theirs}`)
      return [`import { from } from '${file}'`, ...lines].join('\n')
    }
    // From the first call on it is the real one, which costs no more than if it were here.
    const lines = pairs.map(([it, theirs]) => {
      const real = `(${it} = require('${file}').${theirs})(...given)`
      return isClass(module, it)
        ? `export let ${it} = function (...given) { return new ${real} }`
        : `export let ${it} = (...given) => ${real}`
    })
    return lines.join('\n')
  }
}

/** The classes that a file exports for packages, by the names that it gives them. */
function namedClasses(chunk) {
  return Object.entries(CHUNKS[chunk].exports)
    .filter(([name, it]) => isClass(...(it.includes('.') ? it.split('.') : [it, name])))
    .map(([name]) => name)
}

function isLoaded(chunk, by) {
  return CHUNKS[chunk].loads.includes(by)
}

/** What a program would notice when it runs is found here. */
function checkLate(importer, module, name) {
  const isFunction = new RegExp(`^export (async )?function\\*? ${name}\\b`, 'm')
  const why = (it) => new Error(`${importer} takes ${name} of ${module} late: ${it}`)
  if (!isClass(module, name) && !isFunction.test(textOf(module)))
    throw why('it is neither a function nor a class')
  if (new RegExp(`\\b(?:extends|instanceof) ${name}\\b|[^.\\w'"]${name}\\.`).test(codeOf(importer)))
    throw why('nothing of a class, nor the class itself, is there before an object is made of it')
}

function isClass(module, name) {
  return new RegExp(`^export (abstract )?class ${name}\\b`, 'm').test(textOf(module))
}

/** Sources that a source imports or exports from, and by what names; none for all of it. */
function importsOf(module) {
  const pattern = /^(?:import|export) (?:\*[^{}"]*|\{([^}]*)\}) from "(\.[^"]*)";$/gm
  return Array.from(codeOf(module).matchAll(pattern), ([, list, path]) => {
    const names = list?.split(',').map((it) => it.trim().split(' as ')[0])
    return { from: moduleAt(posix.join(posix.dirname(module), path)), names }
  })
}

/** The name of the source that is meant by a path without an ending. */
function moduleAt(path) {
  return existsSync(join(source, `${path}.ts`)) ? path : posix.join(path, 'index')
}

function textOf(module) {
  return readFileSync(join(source, `${module}.ts`), 'utf8')
}

/** Without types, and what is imported for them. */
function codeOf(module) {
  return transformSync(textOf(module), { loader: 'ts', target: 'node20' }).code
}

/**
 * What takes the place of a source that only exports what others do: its names, and its text, in
 * which errors are loaded at once, and a function when it is called.
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
