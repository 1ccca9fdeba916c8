import assert from 'node:assert/strict'
import { test } from 'node:test'

import { Messages } from '../src/pg/wire-frames'

test('messages are cut from chunks that end at any byte', () => {
  for (let size = 1; size < 40; size++) {
    const messages = Array.from({ length: 60 }, (_, i) => {
      const bytes = Buffer.alloc(5 + ((i * i) % 37), i)
      bytes.writeUInt32BE(bytes.length - 1, 1)
      return bytes
    })
    const all = Buffer.concat(messages)
    const cut = new Messages()
    const seen: Buffer[] = []
    for (let at = 0; at < all.length; at += size) {
      const chunk = all.subarray(at, at + size)
      cut.add(chunk)
      for (let it = cut.next(); it !== undefined; it = cut.next()) seen.push(it)
    }
    assert.deepEqual(seen, messages)
    assert.equal(cut.take().length, 0)
  }
})

test('bytes behind a message are returned unchanged, and impossible lengths are refused', () => {
  const messages = new Messages()
  messages.add(Buffer.from([1, 0, 0, 0, 4, 2, 0]))
  messages.add(Buffer.from([0, 0]))
  messages.add(Buffer.from([9]))
  assert.deepEqual(messages.next(), Buffer.from([1, 0, 0, 0, 4]))
  assert.equal(messages.next(), undefined)
  assert.deepEqual(messages.take(), Buffer.from([2, 0, 0, 0, 9]))
  for (const length of [0, 3, 0x4000_0000, 0xffff_ffff]) {
    const header = Buffer.alloc(5)
    header.writeUInt32BE(length, 1)
    const wrong = new Messages()
    wrong.add(header)
    assert.throws(() => wrong.next(), /an impossible length/)
  }
})
