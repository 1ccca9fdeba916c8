'use strict'
// The sources as a few files (`chunks.js` says which): what a program loads is one read. They are not
// minified: a stack trace names functions and lines, and an uncaught error prints one line of them.

const { brotliCompressSync, constants } = require('node:zlib')
const { readFileSync } = require('node:fs')
const { join, relative, resolve, sep } = require('node:path')
const { build } = require('esbuild')
const { Crossings, chunkOf, isOfAll, moduleAt, namedClasses, source } = require('./chunks')

const root = resolve(__dirname, '..')

/**
 * These take long to load, and not every program needs them: each is loaded when a function of it
 * is called first.
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
  packages: 'external',
  platform: 'node',
  target: 'node20',
  write: false,
}

/** The text of files and what packages each loads; by the names of `chunks.js`. */
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
 * The end of a file. Errors and objects are printed with the names of their classes, and a bundler
 * renames a class that uses itself, or of whose name there is another one.
 */
function namesOf(classes) {
  if (classes.length === 0) return ''
  return `for (const name of ${JSON.stringify(classes)})
  Object.defineProperty(module.exports[name], 'name', { value: name, configurable: true })
`
}

/** The module of the engine, as small as it gets, for a file beside the others. */
function compressedModule() {
  const bytes = readFileSync(join(root, 'wasm/onetrip.wasm'))
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: 11,
    [constants.BROTLI_PARAM_LGWIN]: 22,
    [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
    // Found by trying.
    [constants.BROTLI_PARAM_LGBLOCK]: 16,
    [constants.BROTLI_PARAM_NPOSTFIX]: 0,
    [constants.BROTLI_PARAM_NDIRECT]: 9,
  }
  return brotliCompressSync(bytes, { params })
}

/**
 * The same as JavaScript: a third larger, but no bundler and no server has to know of one more
 * file.
 */
function moduleInside(compressed) {
  return `'use strict'
// The engine, compiled to WebAssembly and compressed; built of the sources in core/ and faces/abi/.
exports.moduleBytes = () =>
  require('node:zlib').brotliDecompressSync(Buffer.from(compressed, 'base64'))
const compressed = \`
${compressed
  .toString('base64')
  .match(/.{1,100}/g)
  .join('\n')}
\`
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
  return { text: outputFiles[0].text, packages }
}

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

/** A source of another file is not taken in: something stands for it that knows that file. */
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

module.exports = { bundle, compressedModule, moduleBeside, moduleInside }
