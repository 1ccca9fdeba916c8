// Calls into the module, and bytes that are copied to and from its memory, for each operation.
// Counted from outside, at what the package calls, so that it counts any version of it.
'use strict'

let calls = 0
let copied = 0
let memory

const { Instance } = WebAssembly

/** An instance whose functions count. */
WebAssembly.Instance = function (module, imports) {
  const { exports } = new Instance(module, imports)
  memory = exports.memory
  const counted = {}
  for (const [name, it] of Object.entries(exports)) {
    counted[name] = typeof it === 'function' ? (...args) => (calls++, it(...args)) : it
  }
  return { exports: counted }
}

const isModules = (it) => memory !== undefined && it?.buffer === memory.buffer

/** Counts what `size` says, where a function's owner or its argument is the module's memory. */
function count(owner, name, size) {
  const original = owner[name]
  if (original === undefined) return
  owner[name] = function (...args) {
    const result = original.apply(this, args)
    if (isModules(this) || isModules(args[0])) copied += size(result, args)
    return result
  }
}

const TYPED = Object.getPrototypeOf(Uint8Array.prototype)
count(TYPED, 'set', (_, [from]) => from.length * (from.BYTES_PER_ELEMENT ?? 1))
count(TYPED, 'slice', (result) => result.byteLength)
count(TYPED, 'copyWithin', (_, [, start, end]) => end - start)
for (const name of ['utf8Write', 'latin1Write', 'copy', 'write']) {
  count(Buffer.prototype, name, (result) => result)
}
for (const name of ['utf8Slice', 'latin1Slice', 'toString']) {
  count(Buffer.prototype, name, (result) => result.length)
}
count(Buffer, 'from', (result, [from]) => (from instanceof ArrayBuffer ? 0 : result.length))

const { driver } = require('./drivers')
const works = require('./works')

async function main() {
  const [name, work, inFlight, operations] = process.argv.slice(2)
  const round = { inFlight: Number(inFlight), operations: Number(operations), first: 0 }
  const client = await driver(name).open(process.env.ONETRIP_BENCH_URL, {
    connections: 1,
    pipeline: true,
    named: false,
  })
  // Statements are prepared, and buffers have grown.
  await works[work].run(client, { ...round, operations: 1_000 })
  const before = [calls, copied]
  await works[work].run(client, round)
  const counts = [calls - before[0], copied - before[1]]
  console.log(JSON.stringify(counts.map((it) => it / round.operations)))
  await client.close()
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
