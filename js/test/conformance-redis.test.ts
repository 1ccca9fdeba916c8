import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'

import { redis, RedisError } from '../src/redis'
import { casesOf, type Json } from './conformance/cases'
import { type Server, startRedis } from './redis-server'

interface Command {
  readonly command: readonly (string | { readonly base64: string })[]
  readonly reply?: Json
  readonly error?: string
  readonly outcome?: string
}

interface RedisCase {
  readonly name: string
  readonly how: readonly string[]
  readonly commands: readonly Command[]
  readonly refused?: boolean
  readonly then?: readonly Command[]
}

describe('commands of Redis', () => {
  let server: Server
  let client: ReturnType<typeof redis>
  before(async () => {
    server = await startRedis()
    client = redis(server.url)
  })
  after(async () => {
    await client.close()
    await server.stop()
  })

  const partsOf = ({ command }: Command, key: string): [string, ...(string | Buffer)[]] => {
    const [name, ...args] = command.map((it) =>
      typeof it === 'string' ? it.replaceAll('{k}', key) : Buffer.from(it.base64, 'base64'),
    )
    return [name as string, ...args]
  }

  const oneByOne = async (commands: readonly Command[] = [], key: string): Promise<void> => {
    for (const each of commands) {
      const reply = await client.buffers.command(...partsOf(each, key)).catch((error: unknown) => error)
      check(each, reply)
    }
  }

  let keys = 0
  for (const it of casesOf<RedisCase>('redis_commands.json')) {
    for (const how of it.how) {
      test(`${it.name}, ${how}`, async () => {
        const key = `{conformance:${++keys}}`
        if (how === 'one by one') {
          await oneByOne(it.commands, key)
        } else {
          const { buffers } = client
          const list = how === 'atomic' ? buffers.atomic() : buffers.pipeline()
          for (const each of it.commands) list.command(...partsOf(each, key))
          const replies = list.run() as Promise<readonly unknown[]>
          if (it.refused) {
            await assert.rejects(replies, { outcome: 'Rejected' })
          } else {
            for (const [i, reply] of (await replies).entries()) check(it.commands[i] as Command, reply)
          }
        }
        await oneByOne(it.then, key)
      })
    }
  }
})

function check({ command, reply, error, outcome }: Command, came: unknown): void {
  const name = String(command[0])
  if (error === undefined) return assert.deepEqual(jsonOf(came, reply ?? null), reply, name)
  assert.ok(came instanceof RedisError, name)
  assert.equal(came.code, error, name)
  if (outcome !== undefined) assert.equal(came.outcome, outcome, name)
}

/** A reply as the cases write it. `like` tells what JavaScript has no other type for: simple strings. */
function jsonOf(value: unknown, like: Json): unknown {
  if (Buffer.isBuffer(value)) return textOf(value, like)
  if (typeof value === 'string') return textOf(Buffer.from(value), like)
  if (Array.isArray(value)) return value.map((it) => jsonOf(it, null))
  if (value instanceof Set) {
    const wanted = (like as { set?: Json[] } | null)?.set ?? []
    const items = [...value].map((it) => jsonOf(it, null) as Json)
    return { set: items.sort((a, b) => wanted.indexOf(a) - wanted.indexOf(b)) }
  }
  if (value instanceof Map) {
    return { map: Object.fromEntries([...value].map(([key, it]) => [String(key), jsonOf(it, null)])) }
  }
  return value
}

function textOf(bytes: Buffer, like: Json): Json {
  const text = bytes.toString()
  if (typeof like === 'object' && like !== null && !Array.isArray(like)) {
    if (like['ok'] === true && text === 'OK') return { ok: true }
    if (like['pong'] === true && text === 'PONG') return { pong: true }
  }
  return text.includes('\ufffd') ? { base64: bytes.toString('base64') } : text
}
