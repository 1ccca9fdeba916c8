// What nobody can reach any more gives its connection back, with a warning.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import { type Client, redis } from '../src/redis'
import { collectedUntil, warnings } from './collected'
import { type Server, startRedis } from './redis-server'

const limits = { timeout: 600_000 }

let server: Server
after(() => server.stop())
before(async () => {
  server = await startRedis()
})

/** Ways to leave something that holds a connection; each returns nothing that reaches it. */
const ways: [string, RegExp, (client: Client) => Promise<unknown>][] = [
  ['a session', /^A session of Redis was closed/, async (client) => void (await client.session())],
  [
    'a session that watches a key',
    /^A session of Redis was closed/,
    async (client) => void (await (await client.session()).watch('watched')),
  ],
  [
    'a stream half read',
    /^A stream of Redis commands was ended/,
    async (client) => void (await client.stream([['PING'], ['PING']]).next()),
  ],
]

for (const [name, warning, leave] of ways) {
  test(`${name} that nobody can reach gives its connection back`, limits, async () => {
    const client = redis({ url: server.url, connectionsMax: 1, waitTimeout: 60_000 })
    await leave(client)
    await collectedUntil(() => warnings.length > 0)
    for (const said of warnings.splice(0)) assert.match(said, warning)
    const session = await client.session()
    assert.equal(await session.watch('watched'), 'OK')
    await session.close()
    await client.close()
  })
}

test('a call that is under way keeps its session', limits, async () => {
  const client = redis({ url: server.url, connectionsMax: 2 })
  const popped = (await client.session()).command('BLPOP', 'abandoned', 0)
  const list = (await client.session()).atomic().incr('atomic')
  let rounds = 0
  await collectedUntil(() => ++rounds > 20)
  await client.rpush('abandoned', 'x')
  assert.deepEqual(await popped, ['abandoned', 'x'])
  assert.deepEqual(await list.run(), [1])
  await client.destroy()
  warnings.length = 0
})
