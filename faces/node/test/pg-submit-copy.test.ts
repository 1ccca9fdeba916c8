import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Readable, Writable, type Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

import { Pool, type Client, type Result } from '../src/pg'
import { both, bothAlone, connected, settled, url } from './pg-both'
import { behind, closed, copy, Cursor, noted } from './pg-submit-kit'
import { secured } from './pg-submit-servers'

const theirs = require('pg') as { Pool: typeof Pool }

const TABLE = 'create temp table t (a int, b text)'
const FROM = 'copy pg_temp.t from stdin'
const TO = 'copy (select * from pg_temp.t order by a) to stdout'

/** Lines of the table. */
function* lines(count: number): Generator<string> {
  for (let i = 0; i < count; i++) yield `${i}\tline ${i} with ü and \\\\\n`
}

async function all(stream: Readable): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of stream) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

both('a hundred thousand rows go in and come out as the same bytes', async (client) => {
  await client.query(TABLE)
  const given = [...lines(100_000)].join('')
  const into = client.query(copy.from(FROM))
  const bytes = Buffer.from(given)
  // Chunks end at any byte.
  const chunks: Buffer[] = []
  for (let at = 0; at < bytes.length; at += 10_007) chunks.push(bytes.subarray(at, at + 10_007))
  await pipeline(Readable.from(chunks), into)
  const out = client.query(copy.to(TO))
  const got = await all(out)
  return [into.rowCount, got.equals(bytes), out.rowCount, await behind(client)]
})

both('copies one behind the other, and queries between them', async (client) => {
  await client.query(TABLE)
  const first = client.query(copy.from(FROM))
  const count = client.query('select count(*) from t')
  const second = client.query(copy.from(FROM))
  const out = client.query(copy.to(TO))
  const binary = client.query(copy.to('copy (select 1::int, null::text) to stdout (format binary)'))
  const cursor = client.query(new Cursor('select a from t order by a'))
  first.end('1\ta\n')
  second.write('2\tb\n')
  second.end('3\tc\n')
  const seen = [(await all(out)).toString(), await all(binary), await cursor.read(10)]
  return [await count, seen, first.rowCount, second.rowCount, await behind(client)]
})

both('copies in a transaction are part of it', async (client) => {
  await client.query(TABLE)
  await client.query('begin')
  await pipeline(Readable.from(lines(10)), client.query(copy.from(FROM)))
  const status = client.getTransactionStatus()
  const inside = await client.query('select count(*) from t')
  await client.query('rollback')
  return [status, inside, (await all(client.query(copy.to(TO)))).length, await behind(client)]
})

both('a copy of bad data fails, and those behind it go on', async (client) => {
  await client.query(TABLE)
  const into = client.query(copy.from(FROM))
  const error = once(into, 'error')
  const later = client.query('select count(*) from t')
  into.write('1\tgood\n')
  into.write('bad\tbad\n')
  into.end('2\tgood\n')
  return [await error, await later, await behind(client)]
})

both('a copy of bad data fails while much is on its way', async (client) => {
  await client.query(TABLE)
  const bad = Readable.from((function* () {
    yield* lines(500)
    yield 'x\ty\n'
    yield* lines(10_000)
  })())
  const error = await settled(pipeline(bad, client.query(copy.from(FROM))))
  return [error, await client.query('select count(*) from t'), await behind(client)]
})

both('a copy whose text is wrong fails, in and out, in a transaction and in a failed one', async (client) => {
  const seen: unknown[] = []
  for (const text of ['copy nothing from stdin', 'copy nothing to stdout', 'nonsense']) {
    seen.push(await settled(pipeline(Readable.from(lines(3)), client.query(copy.from(text)))))
    const out = client.query(copy.to(text))
    out.resume()
    seen.push(await once(out, 'error'), await behind(client))
  }
  await client.query('begin')
  seen.push(await settled(pipeline(Readable.from(lines(3)), client.query(copy.from('copy nothing from stdin')))))
  const inFailed = client.query(copy.to('copy (select 1) to stdout'))
  inFailed.resume()
  seen.push(await once(inFailed, 'error'), client.getTransactionStatus())
  await client.query('rollback')
  return [seen, await behind(client)]
})

both('a copy fails in the middle of what comes out', async (client) => {
  const out = client.query(copy.to('copy (select 1 / (5000 - i) from generate_series(1, 10000) i) to stdout'))
  out.resume()
  return [await once(out, 'error'), await behind(client)]
})

both('a copy into the server is destroyed', async (client) => {
  await client.query(TABLE)
  const seen: unknown[] = []
  for (const why of [undefined, new Error('enough')]) {
    const into = client.query(copy.from(FROM))
    const error = closed(into)
    await new Promise((resolve) => into.write('1\ta\n', resolve))
    into.destroy(why)
    seen.push(await error, await client.query('select count(*) from t'))
  }
  const atOnce = client.query(copy.from(FROM))
  const error = closed(atOnce)
  atOnce.destroy()
  return [seen, await error, await behind(client)]
})

both('notices and notifications come between what is copied in', async (client) => {
  await client.query(`${TABLE};
    create function pg_temp.say() returns trigger language plpgsql as
      $$ begin raise notice 'a is %', new.a; perform pg_notify('copy', new.a::text); return new; end $$;
    create trigger say before insert on pg_temp.t for each row execute function pg_temp.say()`)
  await client.query('listen copy')
  const seen = noted(client, 'notice', 'notification')
  await pipeline(Readable.from(lines(3)), client.query(copy.from(FROM)))
  await behind(client)
  const own = ['processId', 'where', 'length']
  return JSON.parse(JSON.stringify(seen, (key, it: unknown) => (own.includes(key) ? 0 : it)))
})

bothAlone('clients of a pool copy', async (side) => {
  const pool = new (side.name === 'pg' ? theirs.Pool : Pool)({ connectionString: url, max: 1 })
  const texts: string[] = []
  for (let i = 0; i < 3; i++) {
    const client = await pool.connect()
    await client.query('create temp table if not exists t (a int, b text)')
    await pipeline(Readable.from(lines(2)), client.query(copy.from(FROM)))
    texts.push((await all(client.query(copy.to(TO)))).toString())
    client.release()
  }
  await pool.end()
  return texts
})

bothAlone('a copy goes both ways', async (side) => {
  const client: Client = await connected({ replication: 'database' }, side)
  const system = (await client.query('IDENTIFY_SYSTEM')) as Result
  const { xlogpos } = system.rows[0] as unknown as { xlogpos: string }
  const text = `START_REPLICATION PHYSICAL ${xlogpos}`
  const both = client.query(copy.both(text, { alignOnCopyDataFrame: true })) as Duplex
  // A keepalive message, and the answer to it.
  const status = Buffer.alloc(34)
  status.write('r')
  status[33] = 1
  both.write(status)
  const [answer] = (await once(both, 'data')) as [Buffer]
  both.resume()
  both.end()
  await closed(both)
  const kind = answer.toString('latin1', 0, 1)
  const after = (await client.query('IDENTIFY_SYSTEM')) as Result
  return ['k', 'w'].includes(kind) && after.rowCount
})

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/** A stream that makes its bytes when they are read, and calls `watch` for each MiB or so. */
function much(chunks: number, watch: () => void): Readable {
  const line = `${'1'.padStart(9, '0')}\t${'x'.repeat(1013)}\n`
  const chunk = Buffer.from(line.repeat(64))
  return Readable.from((function* () {
    for (let i = 0; i < chunks; i++) {
      if (i % 16 === 0) watch()
      yield chunk
    }
  })())
}

for (const [name, transport] of [['', false], [' over TLS', true]] as const) {
  test(`a hundred megabytes go in and out in bounded memory${name}`, { timeout: 600_000 }, async () => {
    const client = await connected(transport ? await secured() : {})
    await client.query("create temp table t (a int, b text); alter table t alter b set storage external")
    const chunks = 1600
    let peak = 0
    const watch = (): void => {
      // Collect garbage, which some versions of Node keep for long.
      collect()
      const { arrayBuffers, external } = process.memoryUsage()
      peak = Math.max(peak, arrayBuffers, external)
    }
    collect()
    const start = process.memoryUsage().external
    await pipeline(much(chunks, watch), client.query(copy.from(FROM)))
    let length = 0
    let watched = 0
    const slow = new Writable({
      highWaterMark: 1 << 16,
      write(chunk: Buffer, _encoding, done): void {
        length += chunk.length
        if (length - watched >= 1 << 20) {
          watched = length
          watch()
        }
        setImmediate(done)
      },
    })
    await pipeline(client.query(copy.to('copy pg_temp.t to stdout')), slow)
    assert.equal(length, chunks * 64 * (1 + 1 + 1013 + 1))
    assert.ok(length >= 100 * 1024 * 1024 * 0.99)
    assert.ok(peak - start < 24 << 20, `${(peak - start) >> 20} MiB more`)
    await behind(client)
  })
}
