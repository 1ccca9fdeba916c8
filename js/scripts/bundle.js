'use strict'
// The sources as a few files: what a program loads is one read. They are minified, and maps lead to
// the sources. In the drop-in functions and classes keep their names, since others look at these and
// stack traces read well; of the other faces, for which there is no room with all, what is exported.

const { brotliCompressSync, constants } = require('node:zlib')
const { existsSync, readFileSync } = require('node:fs')
const { dirname, join, relative, resolve } = require('node:path')
const { build } = require('esbuild')

const root = resolve(__dirname, '..')
const source = join(root, 'src')

/**
 * These take long to load, and not every program needs them: each is loaded when a function of it
 * is called first.
 */
const LAZY = ['node:crypto', 'node:dns', 'node:os', 'node:tls', 'pg-connection-string']

const common = {
  absWorkingDir: root,
  bundle: true,
  charset: 'utf8',
  format: 'cjs',
  keepNames: true,
  legalComments: 'none',
  logLevel: 'warning',
  metafile: true,
  minify: true,
  packages: 'external',
  platform: 'node',
  sourcemap: 'external',
  target: 'node20',
  write: false,
}

/**
 * The engine and the drop-in, as one file that has what `src/pg` exports.
 *
 * `shared`: modules that other bundles use too, with the names that they export. Each is a field of
 * what is exported, so that there is one of it for the whole process.
 */
async function bundleCore(shared) {
  const lines = ["export * from './pg'"]
  for (const [file, { field }] of shared) lines.push(`export * as ${field} from './${file}'`)
  const stdin = {
    contents: lines.join('\n'),
    resolveDir: source,
    sourcefile: 'core.ts',
    loader: 'ts',
  }
  const outfile = join(root, 'lib/core.js')
  return output(await build({ ...common, stdin, outfile, plugins: [moduleElsewhere, lazily] }))
}

/** The other faces, which take the engine and what else they use of the core from there. */
async function bundleFaces(entry, shared) {
  return output(
    await build({
      ...common,
      keepNames: false,
      footer: { js: NAMES_OF_EXPORTS },
      entryPoints: [entry],
      outfile: join(root, 'lib/index.js'),
      plugins: [lazily, fromCore(shared)],
    }),
  )
}

/** Run at the end of a bundle. Errors and objects are printed with the names of their classes. */
const NAMES_OF_EXPORTS =
  "for(const[name,value]of Object.entries(module.exports))Object.defineProperty(value,'name',{value:name,configurable:true});"

/** The modules of engine/ and pg/ that the files behind an entry import, with what they export. */
async function sharedWith(entry) {
  const shared = new Map()
  const found = {
    name: 'found',
    setup(it) {
      it.onResolve({ filter: /^\./ }, (args) => {
        const file = fileOf(args)
        if (!isOfCore(file)) return undefined
        const name = relative(source, file).replace(/\.ts$/, '')
        shared.set(name, { field: name.replace(/\W/g, '_'), file })
        return { path: file, external: true }
      })
    },
  }
  await build({ ...common, sourcemap: false, entryPoints: [entry], plugins: [found] })
  for (const it of shared.values()) it.names = await exportsOf(it.file)
  return new Map([...shared].sort(([a], [b]) => (a < b ? -1 : 1)))
}

async function exportsOf(file) {
  const { metafile } = await build({
    ...common,
    sourcemap: false,
    format: 'esm',
    entryPoints: [file],
    outfile: 'x.js',
  })
  return metafile.outputs['x.js'].exports
}

/** The module of the engine, as small as it gets, for a file beside the others. */
function compressedModule() {
  const bytes = readFileSync(join(root, 'wasm/onetrip.wasm'))
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: 11,
    [constants.BROTLI_PARAM_LGWIN]: 22,
    [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
  }
  return brotliCompressSync(bytes, { params })
}

/**
 * The same as JavaScript: a third larger, but no bundler and no server has to know of one more
 * file.
 */
function moduleInside(compressed) {
  return `'use strict'
// The engine, compiled to WebAssembly and compressed; built of the sources in crates/.
exports.moduleBytes = () =>
  require('node:zlib').brotliDecompressSync(Buffer.from(compressed, 'base64'))
const compressed =
  '${compressed.toString('base64')}'
`
}

/** What reads it from the file beside this one. */
function moduleBeside(name) {
  return `'use strict'
// The engine, compiled to WebAssembly and compressed, is in a file of its own.
const { readFileSync } = require('node:fs')
const { join } = require('node:path')
exports.moduleBytes = () => {
  let bytes
  try {
    bytes = readFileSync(join(__dirname, '${name}'))
  } catch (cause) {
    const hint = 'a bundler has to leave this package out of its bundle, or to copy that file'
    throw new Error(\`onetrip does not find \${join(__dirname, '${name}')}: \${hint}\`, { cause })
  }
  return require('node:zlib').brotliDecompressSync(bytes)
}
`
}

function output({ outputFiles, metafile }) {
  const entry = Object.values(metafile.outputs).find((it) => it.entryPoint)
  const packages = new Set()
  for (const { path } of entry.imports) {
    if (!path.startsWith('node:') && !path.startsWith('.')) packages.add(path.split('/')[0])
  }
  const [text, map] = ['.js', '.js.map'].map(
    (end) => outputFiles.find((it) => it.path.endsWith(end)).text,
  )
  return { text, map, packages, exports: entry.exports }
}

const moduleElsewhere = {
  name: 'module-elsewhere',
  setup(it) {
    it.onLoad({ filter: /engine\/module\.ts$/ }, () => ({
      contents: "export const moduleBytes = (): Uint8Array => require('./module.js').moduleBytes()",
      loader: 'ts',
    }))
    it.onResolve({ filter: /^\.\/module\.js$/ }, ({ kind, path }) =>
      kind === 'require-call' ? { path, external: true } : undefined,
    )
  },
}

const lazily = {
  name: 'lazily',
  setup(it) {
    it.onResolve({ filter: new RegExp(`^(${LAZY.join('|')})$`) }, ({ path, namespace }) =>
      namespace === 'lazily' ? { path, external: true } : { path, namespace: 'lazily' },
    )
    it.onLoad({ filter: /./, namespace: 'lazily' }, ({ path }) => ({
      contents: lazyFunctions(path),
    }))
  },
}

/** What is neither function nor class is missing here: then a build fails, and not a program. */
function lazyFunctions(id) {
  const lines = ["'use strict'"]
  for (const [name, value] of Object.entries(require(id))) {
    if (typeof value !== 'function' || !/^\w+$/.test(name)) continue
    const real = `require('${id}').${name}`
    const make = /^[A-Z]/.test(name)
      ? `/* @__PURE__ */ lazyClass(() => ${real})`
      : `(...given) => ${real}(...given)`
    lines.push(`export const ${name} = ${make}`)
  }
  return [...lines, LAZY_CLASS].join('\n')
}

/** An object that is one of the class is one of what stands for it. */
const LAZY_CLASS = `function lazyClass(real) {
  const make = function (...given) { return new (real())(...given) }
  return Object.defineProperty(make, Symbol.hasInstance, { value: (it) => it instanceof real() })
}`

function fromCore(shared) {
  return {
    name: 'from-core',
    setup(it) {
      it.onResolve({ filter: /^\.\/core\.js$/, namespace: 'core' }, ({ path }) => ({
        path,
        external: true,
      }))
      it.onResolve({ filter: /^\./ }, (args) => {
        const file = fileOf(args)
        if (!isOfCore(file)) return undefined
        return { path: relative(source, file).replace(/\.ts$/, ''), namespace: 'core' }
      })
      it.onLoad({ filter: /./, namespace: 'core' }, ({ path }) => {
        const { field, names } = shared.get(path)
        const list = names.map((name) => `export const ${name} = from.${name}`)
        return { contents: [`const from = require('./core.js').${field}`, ...list].join('\n') }
      })
    },
  }
}

function fileOf({ path, importer, resolveDir }) {
  const base = resolve(resolveDir || dirname(importer), path)
  return [`${base}.ts`, join(base, 'index.ts')].find(existsSync) ?? base
}

function isOfCore(file) {
  return /^(engine|pg)\//.test(relative(source, file))
}

module.exports = {
  bundleCore,
  bundleFaces,
  compressedModule,
  exportsOf,
  moduleBeside,
  moduleInside,
  sharedWith,
}
