// A program of redis-encode.test.ts: `node redis-encode-many.js SEED` writes commands of arguments
// of all kinds and ends with an error on the first that differs from what stands in the
// specification (https://redis.io/docs/latest/develop/reference/protocol-spec/, "Arrays", "Bulk
// strings").
import assert from 'node:assert/strict'

import { memory } from '../src/engine/memory'
import { type Argument, sizeOf, write } from '../src/redis/encode'
import { specOf } from '../src/redis/spec'
import { belowOf } from './random'

const random = belowOf(Number(process.argv[2]))

const kinds: (() => Argument)[] = [
  () => `key:${random(100)}`,
  () => random(1000),
  () => Buffer.from('x'.repeat(random(50))),
  () => new Uint8Array(random(9)),
  () => BigInt(random(100)),
  () => 'x'.repeat(random(60)),
  () => `ü${random(9)}`,
  () => random(1 << 20) / 1024,
]

function expected(words: readonly Argument[]): Buffer {
  const parts = words.map((word) => (word instanceof Uint8Array ? word : Buffer.from(`${word}`)))
  return Buffer.concat([
    Buffer.from(`*${parts.length}\r\n`),
    ...parts.flatMap((part) => [Buffer.from(`$${part.length}\r\n`), part, Buffer.from('\r\n')]),
  ])
}

const names = ['RPUSH', 'MGET', 'SET', 'GET', 'EVALSHA']
// The compiler optimizes again whenever it sees new kinds of arguments.
for (let phase = 0; phase < 12; phase++) {
  const some = Array.from({ length: 1 + random(4) }, () => kinds[random(kinds.length)])
  const times = 200 + random(3000)
  for (let i = 0; i < times; i++) {
    const name = names[random(names.length)] as string
    const spec = specOf(name)
    const args = Array.from({ length: 1 + random(3) }, () =>
      (some[random(some.length)] as () => Argument)(),
    )
    const size = sizeOf(spec.words, args, name)
    const at = memory.engine.onetrip_alloc(size) >>> 0
    memory.refresh()
    const end = write(at, spec.words, args)
    const right = expected([name, ...args]).equals(memory.bytes.subarray(at, end))
    memory.engine.onetrip_free(at, size)
    assert.ok(right, `${name} ${args.join(' ')}`)
  }
}
