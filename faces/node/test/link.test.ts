import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { after, test } from 'node:test'

import { OUTCOMES } from '../src/engine/choices'
import { End, Flag } from '../src/engine/exports'
import { Link, type Owner, type Parameter, type Receiver } from '../src/engine/link'
import { memory } from '../src/engine/memory'

const url = new URL(process.env['ONETRIP_TEST_POSTGRES'] ?? '')

/** The answer to a request: the types of its messages, and the first values of its rows. */
class Answer implements Receiver {
  tags = ''
  values: string[] = []
  how = -1
  outcome: string | undefined
  error = ''
  readonly done: Promise<this>
  #resolve!: (answer: this) => void

  constructor() {
    this.done = new Promise((resolve) => (this.#resolve = resolve))
  }

  received(start: number, end: number): void {
    for (let at = start; at < end; at += 1 + memory.int32(at + 1)) {
      const tag = String.fromCharCode(memory.bytes[at] as number)
      if (tag !== 'Z') this.tags += tag
      if (tag === 'D') this.values.push(memory.text(at + 11, at + 11 + memory.int32(at + 7)))
    }
  }

  restarted(): void {
    this.tags = ''
    this.values = []
  }

  ended(how: number, outcome: number, start: number, end: number): void {
    this.how = how
    this.outcome = OUTCOMES[outcome]
    if (how === End.SERVER) this.error = memory.text(start, end)
    this.#resolve(this)
  }
}

class Quiet implements Owner {
  ready(): void {}
  notice(): void {}
  notification(): void {}
  parameterStatus(): void {}
  full(): void {}
  drained(): void {}
  cancel(): void {}
  astray(): void {}
  forgotten(): void {}
  closed(): void {}
}

const sockets: Socket[] = []
after(() => sockets.forEach((socket) => socket.destroy()))

async function open(extra: [string, string][] = []): Promise<{ link: Link; socket: Socket }> {
  const socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true })
  sockets.push(socket)
  await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject))
  const settings: [string, string][] = [
    ['user', decodeURIComponent(url.username)],
    ['password', decodeURIComponent(url.password)],
    ['database', url.pathname.slice(1)],
    ...extra,
  ]
  const link = new Link(socket, settings, new Quiet())
  socket.on('data', (chunk) => link.receive(chunk))
  socket.on('close', () => link.peerClosed())
  return { link, socket }
}

function submit(link: Link, text: string, parameters: Parameter[] = [], flags = 0): Answer {
  const answer = new Answer()
  assert.ok(link.submit(answer, flags, text, '', parameters, 0, 0) >= 0)
  return answer
}

test('each reply goes to its own request, in the order of the requests', async () => {
  const { link } = await open([['in_flight_max', '100']])
  const asked = Array.from({ length: 1000 }, (_, i) => submit(link, 'select $1::int', [String(i)]))
  const answers = await Promise.all(asked.map((answer) => answer.done))
  assert.deepEqual(
    answers.map((answer) => answer.values),
    answers.map((_, i) => [String(i)]),
  )
})

/** Counts the writes to a socket from here on. */
function countWrites(socket: Socket): () => number {
  let writes = 0
  const write = socket.write.bind(socket)
  socket.write = ((bytes: Uint8Array) => {
    writes++
    return write(bytes)
  }) as typeof socket.write
  return () => writes
}

test('the requests of one turn leave in one write', async () => {
  const { link, socket } = await open()
  await submit(link, 'select 1').done
  const writes = countWrites(socket)
  const asked = Array.from({ length: 50 }, () => submit(link, 'select 1'))
  assert.equal(writes(), 0)
  await Promise.all(asked.map((answer) => answer.done))
  assert.equal(writes(), 1)
})

test('a turn that submits much writes the first part before it ends', async () => {
  const { link, socket } = await open()
  await submit(link, 'select $1::text', ['']).done
  const writes = countWrites(socket)
  const value = 'x'.repeat(100)
  const asked = Array.from({ length: 300 }, () => submit(link, 'select $1::text', [value]))
  assert.ok(writes() > 1)
  const answers = await Promise.all(asked.map((answer) => answer.done))
  for (const { values } of answers) assert.deepEqual(values, [value])
})

test('the texts of statements that the server knows do not count for a write before a turn ends', async () => {
  const { link, socket } = await open()
  const text = `select 1 /* ${'long '.repeat(100)} */`
  // The engine decides at which use a text is prepared.
  for (let i = 0; i < 10; i++) await submit(link, text).done
  const writes = countWrites(socket)
  const asked = Array.from({ length: 50 }, () => submit(link, text))
  assert.equal(writes(), 0)
  await Promise.all(asked.map((answer) => answer.done))
})

test('texts and bytes of any length arrive as they were sent', async () => {
  const { link } = await open()
  for (const text of ['', 'é', '漢字', '𝄞', 'x'.repeat(23) + 'ü', 'ü'.repeat(100_000)]) {
    assert.deepEqual((await submit(link, 'select $1::text', [text]).done).values, [text])
  }
  const bytes = Buffer.from([0, 1, 255, 128])
  const asked = submit(link, "select encode($1::bytea, 'hex') || $2::text", [bytes, 'behind'])
  assert.deepEqual((await asked.done).values, ['0001ff80behind'])
  assert.equal((await submit(link, 'select $1::text is null', [null]).done).values[0], 't')
})

test('memory that grows under a request or a reply changes nothing', async () => {
  const { link } = await open()
  const before = memory.bytes.length
  const large = 'x'.repeat(8 << 20)
  const [first, second] = [submit(link, 'select $1::text', [large]), submit(link, "select 'behind'")]
  assert.equal((await first.done).values[0]?.length, large.length)
  assert.deepEqual((await second.done).values, ['behind'])
  assert.ok(memory.engine.memory.buffer.byteLength > before)
})

test('a request that fails leaves its neighbours alone', async () => {
  const { link } = await open()
  const asked = [submit(link, "select 'a'"), submit(link, 'select 1 / 0'), submit(link, "select 'b'")]
  const [a, failed, b] = await Promise.all(asked.map((answer) => answer.done))
  assert.deepEqual([a?.values, b?.values], [['a'], ['b']])
  assert.equal(failed?.outcome, 'Rejected')
  assert.match(failed?.error ?? '', /22012/)
})

test('a simple query has several results in its own place', async () => {
  const { link } = await open()
  const asked = submit(link, "select 'a'; select 'b'", [], Flag.SIMPLE)
  assert.deepEqual((await asked.done).values, ['a', 'b'])
})

test('a deadline ends a request while its neighbours go on', async () => {
  const { link } = await open()
  const late = new Answer()
  link.submit(late, 0, 'select pg_sleep(0.5)', '', [], 20, 0)
  const behind = submit(link, "select 'behind'")
  await late.done
  assert.deepEqual([late.how, late.outcome], [End.DEADLINE, 'Unknown'])
  assert.deepEqual((await behind.done).values, ['behind'])
})

test('a lost connection ends each request once', async () => {
  const { link, socket } = await open([['in_flight_max', '1']])
  await submit(link, 'select 1').done
  const sent = submit(link, 'select pg_sleep(100)')
  const queued = submit(link, 'select 1')
  setImmediate(() => socket.destroy())
  await Promise.all([sent.done, queued.done])
  assert.deepEqual([sent.outcome, queued.outcome], ['Unknown', 'NotSent'])
})
