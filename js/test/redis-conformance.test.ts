import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'

import { type Client, redis, RedisError } from '../src/redis'
import { type Server, startRedis } from './redis-server'

type Json = null | number | string | boolean | Json[] | { [key: string]: Json }
type Text = string | { base64: string }

interface Asked {
  readonly command: readonly Text[]
  readonly reply?: Json
  readonly error?: string
  readonly outcome?: string
}

interface Case {
  readonly name: string
  readonly how: readonly string[]
  readonly commands: readonly Asked[]
  readonly refused?: boolean
  readonly then?: readonly Asked[]
}

const file = join(__dirname, '../../../conformance/redis_commands.json')
const { cases } = JSON.parse(readFileSync(file, 'utf8')) as { cases: Case[] }

let server: Server
before(async () => {
  server = await startRedis()
})
after(() => server.stop())

/**
 * A reply as the cases write it. `like` tells a set from a list, as RESP2 doesn't, and gives a set
 * its order.
 */
function jsonOf(reply: unknown, like: Json | undefined): Json {
  if (reply === 'OK') return { ok: true }
  if (reply === 'PONG') return { pong: true }
  if (Buffer.isBuffer(reply)) {
    const text = reply.toString()
    return Buffer.from(text).equals(reply) ? text : { base64: reply.toString('base64') }
  }
  const wanted = typeof like === 'object' && like !== null && !Array.isArray(like) ? like : {}
  if (reply instanceof Map || (Array.isArray(reply) && 'map' in wanted)) {
    const pairs =
      reply instanceof Map
        ? [...reply]
        : reply.flatMap((key, i) => (i % 2 === 0 ? [[key, reply[i + 1]]] : []))
    return {
      map: Object.fromEntries(pairs.map(([key, value]) => [String(key), jsonOf(value, null)])),
    }
  }
  if (Array.isArray(wanted['set']) && (reply instanceof Set || Array.isArray(reply))) {
    const order = wanted['set']
    const items = [...reply].map((item) => jsonOf(item, null))
    return { set: items.sort((one, other) => order.indexOf(one) - order.indexOf(other)) }
  }
  if (Array.isArray(reply)) return reply.map((item) => jsonOf(item, null))
  return reply as Json
}

function check({ command, reply, error, outcome }: Asked, came: unknown): void {
  const name = String(command[0])
  if (came instanceof RedisError) {
    assert.equal(came.code, error, `${name}: ${came.message}`)
    if (outcome !== undefined) assert.equal(came.outcome, outcome, name)
  } else {
    assert.equal(error, undefined, `${name} did not fail`)
    assert.deepEqual(jsonOf(came, reply), reply, name)
  }
}

function argument(text: Text, key: string): string | Buffer {
  return typeof text === 'string' ? text.replaceAll('{k}', key) : Buffer.from(text.base64, 'base64')
}

async function run(
  client: Client<true>,
  how: string,
  all: readonly Asked[],
  refused: boolean,
  key: string,
): Promise<void> {
  const words = all.map(({ command }) => command.map((text) => argument(text, key)))
  if (how === 'one by one') {
    for (const [i, [name, ...args]] of words.entries()) {
      check(
        all[i] as Asked,
        await client.command(String(name), ...args).catch((error: unknown) => error),
      )
    }
    return
  }
  const list = how === 'atomic' ? client.atomic() : client.pipeline()
  for (const [name, ...args] of words) list.command(String(name), ...args)
  if (refused) return assert.rejects(list.run(), { outcome: 'Rejected' })
  const replies = (await list.run()) as unknown[]
  all.forEach((asked, i) => check(asked, replies[i]))
}

for (const protocol of [3, 2] as const) {
  for (const { name, how, commands, refused = false, then = [] } of cases) {
    for (const way of how) {
      test(`${name}: ${way}, RESP${protocol}`, async () => {
        await using client = redis({ url: server.url, protocol })
        const key = `{${name}:${way}:${protocol}}`
        await run(client.buffers, way, commands, refused, key)
        await run(client.buffers, 'one by one', then, false, key)
      })
    }
  }
}
