'use strict'
// Bundles the sources into a few files (see `chunks.js`), so that loading is one read. Their syntax is
// shortened, but names and lines stay: a stack trace names functions, and an uncaught error prints
// one line of them, so none is long.

const { createHash } = require('node:crypto')
const { brotliCompressSync, brotliDecompressSync, constants } = require('node:zlib')
const { mkdirSync, readFileSync, renameSync, writeFileSync } = require('node:fs')
const { join, relative, resolve, sep } = require('node:path')
const { build, transformSync } = require('esbuild')
const { ScriptTarget, createSourceFile } = require('typescript')
const { Crossings, chunkOf, isOfAll, moduleAt, namedClasses, source } = require('./chunks')

const root = resolve(__dirname, '..')

/**
 * Modules that are slow to load and that not every program needs. Each is loaded when one of its
 * functions is first called.
 */
const LAZY = [
  'node:crypto',
  'node:dns',
  'node:net',
  'node:os',
  'node:tls',
  'pg-connection-string',
]

const common = {
  absWorkingDir: root,
  bundle: true,
  charset: 'utf8',
  format: 'cjs',
  legalComments: 'none',
  logLevel: 'warning',
  metafile: true,
  lineLimit: 160,
  minifySyntax: true,
  packages: 'external',
  platform: 'node',
  target: 'node20',
  write: false,
}

/** The text of each file and the packages that it loads, by the names of `chunks.js`. */
async function bundle(chunks) {
  const crossings = new Crossings(chunks)
  const files = new Map()
  for (const chunk of chunks) {
    const built = await build({
      ...common,
      footer: { js: namesOf(namedClasses(chunk)) },
      stdin: {
        contents: crossings.entry(chunk),
        resolveDir: source,
        sourcefile: `exports-of-${chunk}.js`,
      },
      outfile: join(root, `lib/${chunk}.js`),
      plugins: [moduleElsewhere, lazily, acrossFiles(chunk, crossings)],
    })
    files.set(chunk, output(built))
  }
  return files
}

/**
 * The last lines of a file. Errors and objects are printed with the names of their classes, and a
 * bundler renames a class that refers to itself, or whose name is used twice.
 */
function namesOf(classes) {
  if (classes.length === 0) return ''
  return `for (const name of ${JSON.stringify(classes)})
  Object.defineProperty(module.exports[name], 'name', { value: name, configurable: true })
`
}

/** What is tried to compress a module: no parameters are the best for each. */
const TRIES = [0, 17].flatMap((block) => [8, 12, 15].map((distances) => [block, distances]))

/**
 * The module of the engine for one of the packages, compressed as far as possible. That takes half a
 * minute, so it is kept, by the bytes of the module. What is kept is read back, and so is used only
 * if it is that module.
 */
function compressedModule(name) {
  const bytes = readFileSync(join(root, `wasm/${name}.wasm`))
  const key = createHash('sha256').update(JSON.stringify([process.versions.brotli, TRIES]))
  const kept = join(root, 'node_modules/.cache/onetrip', key.update(bytes).digest('hex'))
  try {
    const compressed = readFileSync(kept)
    if (brotliDecompressSync(compressed).equals(bytes)) return compressed
  } catch {
    // There is none, or a part of one.
  }
  const all = TRIES.map(([block, distances]) => compress(bytes, block, distances))
  const best = all.reduce((best, it) => (it.length < best.length ? it : best))
  mkdirSync(resolve(kept, '..'), { recursive: true })
  writeFileSync(`${kept}.${process.pid}`, best)
  renameSync(`${kept}.${process.pid}`, kept)
  return best
}

function compress(bytes, block, distances) {
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: 11,
    [constants.BROTLI_PARAM_LGWIN]: 22,
    [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
    [constants.BROTLI_PARAM_LGBLOCK]: block,
    [constants.BROTLI_PARAM_NPOSTFIX]: 0,
    [constants.BROTLI_PARAM_NDIRECT]: distances,
  }
  return brotliCompressSync(bytes, { params })
}

/**
 * The compressed module as JavaScript. It is a third larger, but bundlers and servers need not handle
 * another file, and as much to download. It is one line, in which nothing is thrown.
 */
function moduleInside(compressed) {
  return `'use strict'
// The engine, compiled to WebAssembly and compressed; built of the sources in core/ and faces/abi/.
exports.moduleBytes = () =>
  ${builtin('node:zlib')}.brotliDecompressSync(Buffer.from(compressed, 'base64'))
const compressed = '${compressed.toString('base64')}'
${BUILTIN}`
}

function output({ outputFiles, metafile }) {
  const entry = Object.values(metafile.outputs).find((it) => it.entryPoint)
  const packages = new Set()
  for (const { path } of entry.imports) {
    if (!path.startsWith('node:') && !path.startsWith('.')) packages.add(path.split('/')[0])
  }
  return { text: loadable(bare(outputFiles[0].text)), packages }
}

/**
 * The text with what it loads of Node in a form that works in a bundle of any format. What esbuild
 * makes of `require` in a bundle that is an ES module fails for all modules of Node.
 */
function loadable(text) {
  const loads = /\brequire\("(node:[\w/]+)"\)/g
  return loads.test(text) ? text.replace(loads, (_, name) => builtin(name)) + BUILTIN : text
}

/** `require` stands there as bundlers look for it, and as instrumentation waits for it. */
function builtin(name) {
  return `ofNode("${name}", () => require("${name}"))`
}

const BUILTIN = `function ofNode(name, load) {
  try {
    return load()
  } catch (error) {
    const found = process.getBuiltinModule?.(name)
    if (!found) throw error
    return found
  }
}
`

/**
 * The text without comments, since declarations have the documentation and sources the reasons, and
 * without the spaces that JavaScript doesn't need, which are a thirtieth of what is downloaded. Names
 * and lines stay, for stack traces.
 */
function bare(text) {
  const code = text.replace(/^[ \t]*\/\*\*[^]*?\*\/[ \t]*\n|^[ \t]*\/\/.*\n/gm, '')
  const file = createSourceFile('it.js', code, ScriptTarget.Latest)
  let rest = ''
  const look = (node) => {
    const parts = node.getChildren(file)
    if (parts.length > 0) return parts.forEach(look)
    const token = node.getText(file)
    if (token === '') return
    rest += between(rest, code.slice(node.pos, node.getStart(file)), token) + token
  }
  look(file)
  rest += '\n'
  const minified = (it) => transformSync(it, { charset: 'utf8', minifyWhitespace: true }).code
  if (minified(rest) !== minified(text)) throw new Error('not only comments and spaces are gone')
  return rest
}

/** What has to stay of `space` between the text so far and the next token. */
function between(before, space, token) {
  if (/\S/.test(space)) return space
  const lines = space.replace(/[^\n]/g, '')
  return lines || !NEEDS_SPACE.test(before.at(-1) + token[0]) ? lines : ' '
}

/** Two characters that would be another token if they stood side by side. */
const NEEDS_SPACE = /[\w$/\u0080-\uffff]{2}|\+\+|--|\d\./

const moduleElsewhere = {
  name: 'module-elsewhere',
  setup(it) {
    it.onLoad({ filter: /engine\/module\.ts$/ }, () => ({
      contents: "export const moduleBytes = (): Uint8Array => require('./module.js').moduleBytes()",
      loader: 'ts',
    }))
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

/** Stand-ins for the functions and classes of a module. Other exports fail the build, not a program. */
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

/** Makes `instanceof` work with the stand-in of a class. */
const LAZY_CLASS = `function lazyClass(real) {
  const make = function (...given) { return new (real())(...given) }
  return Object.defineProperty(make, Symbol.hasInstance, { value: (it) => it instanceof real() })
}`

/** Replaces a source of another file by a stand-in that loads that file. */
function acrossFiles(chunk, crossings) {
  return {
    name: 'across-files',
    setup(it) {
      it.onResolve({ filter: /^\.\/\w+\.js$/ }, ({ kind, path }) =>
        kind === 'require-call' ? { path, external: true } : { path, namespace: 'loaded' },
      )
      it.onLoad({ filter: /./, namespace: 'loaded' }, ({ path }) => ({
        contents: `export const from = require('${path}')`,
      }))
      it.onResolve({ filter: /^\./ }, ({ path, resolveDir }) => {
        const file = relative(source, resolve(resolveDir, path))
        const module = moduleAt(file.split(sep).join('/'))
        const isHere = chunkOf(module) === chunk || isOfAll(module)
        return isHere ? undefined : { path: module, namespace: 'elsewhere' }
      })
      it.onLoad({ filter: /./, namespace: 'elsewhere' }, ({ path }) => ({
        contents: crossings.standIn(chunk, path),
      }))
    },
  }
}

module.exports = { bundle, compressedModule, moduleInside }
