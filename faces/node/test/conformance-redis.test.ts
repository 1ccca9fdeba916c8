import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'

import { redis, RedisError, type Client, type Session, type Subscription } from '../src/redis'
import { casesOf, type Json } from './conformance/cases'
import { lacks, type Server, startRedis } from './redis-server'

type At = Client | Session

interface Command {
  readonly command: readonly (string | { readonly base64: string })[]
  readonly script?: string
  readonly keys?: readonly string[]
  readonly args?: readonly string[]
  /** The code of an error that is not the server's. */
  readonly code?: string
  readonly reply?: Json
  readonly error?: string
  readonly outcome?: string
}

interface RedisCase {
  readonly name: string
  /** A command that some servers lack. */
  readonly needs?: string
  readonly how: readonly string[]
  readonly commands: readonly Command[]
  readonly refused?: boolean
  readonly then?: readonly Command[]
}

/** One step of a case: a command, the call of a script, or a list of steps. */
interface Step extends Partial<Command> {
  readonly on?: 'other'
  readonly session?: readonly Step[]
  readonly watch?: readonly string[]
  readonly pipeline?: readonly Command[]
  readonly atomic?: readonly Command[]
  readonly together?: readonly Command[]
  readonly meanwhile?: readonly Step[]
  readonly refused?: { readonly code?: string; readonly outcome: string }
  readonly subscribe?: readonly string[]
  readonly steps?: readonly Step[]
  readonly hear?: readonly string[]
  readonly reconnects?: number
  readonly until?: Command & { readonly on?: 'other' }
  readonly differs?: Readonly<Record<string, string>>
}

interface Policy {
  readonly name: string
  readonly steps: readonly Step[]
  readonly differs?: Readonly<Record<string, string>>
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
  for (const it of casesOf<Policy>('redis_policies.json')) {
    test(it.name, { timeout: 600_000 }, () => new Run(server.url, `{conformance:${++keys}}`).all(it))
  }

  for (const it of casesOf<RedisCase>('redis_commands.json')) {
    for (const how of it.how) {
      test(`${it.name}, ${how}`, async () => {
        if (it.needs !== undefined && (await lacks(client, it.needs))) return
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

/** One run of a policy case. */
class Run {
  readonly #client: Client
  readonly #other: Client
  readonly #key: string
  #heard: Subscription | undefined

  constructor(url: string, key: string) {
    this.#client = redis(url)
    this.#other = redis(url)
    this.#key = key
  }

  async all({ steps, differs }: Policy): Promise<void> {
    try {
      await unlessItDiffers(differs, () => this.#steps(this.#client, steps))
    } finally {
      this.#client.destroy()
      this.#other.destroy()
    }
  }

  async #steps(at: At, steps: readonly Step[] = []): Promise<void> {
    for (const step of steps) {
      await unlessItDiffers(step.differs, () => this.#step(step.on === 'other' ? this.#other : at, step))
    }
  }

  async #step(at: At, step: Step): Promise<void> {
    if (step.command !== undefined || step.script !== undefined) {
      check(this.#on(step as Command), await this.#send(at, step as Command))
    } else if (step.session !== undefined) {
      const session = await this.#client.session()
      await this.#steps(session, step.session)
      await session.close()
    } else if (step.pipeline !== undefined) {
      await this.#list(at.pipeline(), step.pipeline, step)
    } else if (step.atomic !== undefined) {
      await this.#list(at.atomic(), step.atomic, step)
    } else if (step.together !== undefined) {
      const replies = step.together.map((it) => this.#send(at, it))
      await this.#steps(at, step.meanwhile)
      for (const [i, reply] of (await Promise.all(replies)).entries()) check(this.#on(step.together[i] as Command), reply)
    } else {
      await this.#wait(at, step)
    }
  }

  /** Runs steps that watch, or that wait for other steps. */
  async #wait(at: At, step: Step): Promise<void> {
    const { watch, subscribe, hear, reconnects, until } = this.#on(step)
    if (watch !== undefined) {
      await (at as Session).watch(...watch)
    } else if (subscribe !== undefined) {
      this.#heard = await this.#client.subscribe(...subscribe)
      await this.#steps(at, step.steps)
      await this.#heard.return()
    } else if (hear !== undefined) {
      const { value } = (await this.#heard?.next()) as { value: { channel: string; payload: string } }
      assert.deepEqual([value.channel, value.payload], hear)
    } else if (reconnects !== undefined) {
      assert.equal(this.#heard?.reconnects, reconnects)
    } else {
      assert.ok(until, `unknown step ${JSON.stringify(step)}`)
      const { reply = null } = until
      const to = until.on === 'other' ? this.#other : at
      while (!isDeepStrictEqual(jsonOf(await this.#send(to, until), reply), reply));
    }
  }

  #send(at: At, given: Command): Promise<unknown> {
    const { command, script, keys = [], args = [] } = this.#on(given)
    if (script !== undefined) return at.script(script).run(keys, args).catch(same)
    const [name, ...rest] = command as [string]
    return at.command(name, ...rest).catch(same)
  }

  async #list(list: ReturnType<Client['pipeline']>, commands: readonly Command[], { refused }: Step): Promise<void> {
    for (const given of commands) {
      const { command, script, keys = [], args = [] } = this.#on(given)
      if (script !== undefined) {
        list.call(this.#client.script(script), keys, args)
      } else {
        const [name, ...rest] = command as [string]
        list.command(name, ...rest)
      }
    }
    const replies = list.run() as Promise<readonly unknown[]>
    if (refused !== undefined) return assert.rejects(replies, refused)
    for (const [i, reply] of (await replies).entries()) check(this.#on(commands[i] as Command), reply)
  }

  #on<T>(given: T): T {
    return JSON.parse(JSON.stringify(given).replaceAll('{k}', this.#key)) as T
  }
}

const same = (error: unknown): unknown => error

/** A case that is marked as different must fail here; otherwise the mark is out of date. */
async function unlessItDiffers(differs: Step['differs'], run: () => Promise<void>): Promise<void> {
  const why = differs?.['node']
  if (why === undefined) return run()
  await assert.rejects(run(), `the case passes: remove its mark "differs" (${why})`)
}

function check({ command, reply, error, outcome, code }: Command, came: unknown): void {
  const name = command === undefined ? 'a script' : String(command[0])
  const fails = (error !== undefined && error !== null) || outcome !== undefined
  if (!fails) {
    if (came instanceof Error) throw came
    return reply === 'any' ? undefined : assert.deepEqual(jsonOf(came, reply ?? null), reply, name)
  }
  assert.ok(came instanceof RedisError, name)
  if (typeof (code ?? error) === 'string') assert.equal(came.code, code ?? error, name)
  if (outcome !== undefined) assert.equal(came.outcome, outcome, name)
}

/**
 * A reply in the form of the cases. `like` tells simple strings from others: JavaScript has one
 * type.
 */
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
