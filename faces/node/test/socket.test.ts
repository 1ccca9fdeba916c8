import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { test, type TestContext } from 'node:test'
import { setImmediate } from 'node:timers/promises'

import { InletSocket } from '../src/engine/socket'

/** A socket, and its other end, which sends. */
async function pair(
  t: TestContext,
  received: (chunk: Buffer) => void,
): Promise<{ near: InletSocket; far: Socket }> {
  const server = createServer({ noDelay: true })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const near = new InletSocket(received)
  near.connect((server.address() as AddressInfo).port, '127.0.0.1')
  const [far] = (await once(server, 'connection')) as [Socket]
  t.after(() => {
    near.destroy()
    far.destroy()
    server.close()
  })
  return { near, far }
}

/** A listener, and promises of the chunks that it gets. */
function inbox(): { received: (chunk: Buffer) => void; next: () => Promise<Buffer> } {
  const chunks: Buffer[] = []
  let wake: (() => void) | undefined
  return {
    received(chunk) {
      chunks.push(chunk)
      wake?.()
    },
    async next() {
      while (chunks.length === 0) await new Promise<void>((resolve) => (wake = resolve))
      return chunks.shift() as Buffer
    },
  }
}

test('the one listener of a socket gets the bytes in the read buffer', async (t) => {
  const { received, next } = inbox()
  const { near, far } = await pair(t, received)
  near.on('data', received)
  far.write('one')
  const one = await next()
  assert.equal(one.toString(), 'one')
  far.write('two')
  assert.equal((await next()).toString(), 'two')
  assert.equal(one.toString(), 'two')
})

test('another listener of a socket gets a copy', async (t) => {
  const { received, next } = inbox()
  const { near, far } = await pair(t, received)
  const kept: Buffer[] = []
  near.on('data', (chunk: Buffer) => kept.push(chunk))
  near.on('data', received)
  for (const text of ['one', 'two']) {
    far.write(text)
    assert.equal((await next()).toString(), text)
  }
  assert.deepEqual(kept.map(String), ['one', 'two'])
})

test('a listener that replaces the one of a socket may keep its chunks', async (t) => {
  const { received, next } = inbox()
  const { near, far } = await pair(t, () => assert.fail('the listener was removed'))
  near.on('data', received)
  far.write('one')
  const one = await next()
  far.write('two')
  await next()
  assert.equal(one.toString(), 'one')
})

test('a socket is read as a stream, and then by its listener again', async (t) => {
  const { received, next } = inbox()
  const { near, far } = await pair(t, received)
  near.on('data', received)
  far.write('listened to')
  assert.equal((await next()).toString(), 'listened to')
  near.off('data', received)
  near.pause()
  const readable = once(near, 'readable')
  far.write('read')
  await readable
  assert.equal(String(near.read()), 'read')
  near.on('data', received)
  // The socket knows only in the next tick that no one waits for `readable`.
  process.nextTick(() => near.resume())
  far.write('listened to again')
  assert.equal((await next()).toString(), 'listened to again')
})

test('a socket without a reader stops reading, and loses nothing', async (t) => {
  const { received, next } = inbox()
  const { near, far } = await pair(t, received)
  near.on('data', received)
  near.pause()
  const much = Buffer.alloc(4 << 20, 'much ')
  const written = new Promise<void>((resolve) => far.write(much, () => resolve()))
  while (near.readableLength < near.readableHighWaterMark) await setImmediate()
  near.resume()
  let rest = much.length
  while (rest > 0) {
    const chunk = await next()
    rest -= chunk.length
  }
  await written
  assert.equal(rest, 0)
})
