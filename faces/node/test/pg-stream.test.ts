import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { test } from 'node:test'

import { Client } from '../src/pg'
import type { Results } from '../src/pg/request'
import { message, ready, WELCOME } from './pg-served'

const limits = { timeout: 600_000 }

/** A stream to a server in this process. After `late` writes it answers before `write` returns. */
class Near extends Duplex {
  readonly #late: number
  #writes = 0
  #rest = Buffer.alloc(0)

  constructor(late: number) {
    super()
    this.#late = late
  }

  connect(): void {
    process.nextTick(() => this.emit('connect'))
  }

  setNoDelay(): void {}

  override _read(): void {}

  override _write(chunk: Buffer, _: BufferEncoding, written: () => void): void {
    const isFirst = this.#writes++ === 0
    this.#rest = Buffer.concat([this.#rest, chunk])
    const answer = isFirst ? this.#welcome() : Buffer.concat([...this.#answers()])
    if (this.#writes > this.#late) this.push(answer)
    else setImmediate(() => this.push(answer))
    written()
  }

  #welcome(): Buffer {
    this.#rest = this.#rest.subarray(this.#rest.readInt32BE(0))
    return WELCOME
  }

  *#answers(): Generator<Buffer> {
    while (this.#rest.length >= 5) {
      const end = 1 + this.#rest.readInt32BE(1)
      if (this.#rest.length < end) return
      yield answer(this.#rest.toString('utf8', 5, end - 1))
      this.#rest = this.#rest.subarray(end)
    }
  }
}

function answer(text: string): Buffer {
  const column = Buffer.from(`\0\x01n\0${'\0'.repeat(9)}\x19${'\xff'.repeat(6)}\0\0`, 'latin1')
  const row = value(text.split(' ')[1] ?? '')
  return Buffer.concat([message('T', column), message('D', row), message('C', Buffer.from('SELECT 1\0')), ready()])
}

function value(text: string): Buffer {
  return Buffer.from(`\0\x01\0\0\0${String.fromCharCode(text.length)}${text}`, 'latin1')
}

for (const [late, when] of [[0, 'in the same call'], [2, 'in the same call after a while']] as const) {
  test(`a stream that answers ${when} gets all, and each query its rows in its order`, limits, async () => {
    const stream = new Near(late) as unknown as Socket
    const client = new Client({ stream, pipeline: true, user: 'me' })
    client.on('error', () => {})
    const answered: number[] = []
    let asked = 0
    const ask = (then: () => void): void => {
      const n = asked++
      // Several of these are written before the end of the turn.
      client.query(`select ${n} ${' '.repeat(200)}`, (error: Error | null, results?: Results) => {
        assert.ifError(error)
        assert.deepEqual(rows(results), [{ n: `${n}` }])
        answered.push(n)
        then()
      })
    }
    await client.connect()
    const more = (): void => {
      for (let i = 0; i < 60; i++) ask(() => {})
    }
    for (let i = 0; i < 30; i++) ask(more)
    while (answered.length < 30 * 61) await new Promise((resolve) => setImmediate(resolve))
    assert.deepEqual(answered, Array.from({ length: asked }, (_, i) => i))
    stream.destroy()
  })
}

function rows(results: Results | undefined): unknown {
  return results !== undefined && 'rows' in results && results.rows
}
