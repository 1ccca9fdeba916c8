import { Call, type How } from './call'
import type { Argument } from './encode'
import { misuse, RedisError } from './error'
import type { Reply } from './reply'
import { isShared, specOf } from './spec'
import { misplaced } from './core'

/** How much of a stream of commands may be unanswered. */
export interface StreamOptions {
  /** Commands at most. Default 10,000. */
  readonly window?: number
  /** Bytes of commands at most. Default 4 MiB. */
  readonly windowBytes?: number
}

/** A command: its name and its arguments. */
export type CommandWords = readonly [name: string, ...args: Argument[]]

/** The connection on which the commands are sent. */
export interface Outlet {
  readonly connection: { readonly reason: RedisError | undefined; send(call: Call): boolean }
  release(spoiled: boolean): void
}

interface Slot {
  /** The command is known to leave its connection unchanged. */
  readonly isKnown: boolean
  readonly size: number
  readonly reply: Promise<Reply | RedisError>
}

/**
 * Sends the commands that an iterator yields, and yields the replies in order; an error is yielded
 * in its command's place. Commands are taken only as replies are read, so memory stays that of one
 * window.
 */
export async function* streamed(
  borrow: () => Promise<Outlet>,
  commands: Iterable<CommandWords> | AsyncIterable<CommandWords>,
  how: How,
  options: StreamOptions,
): AsyncGenerator<Reply | RedisError, void, undefined> {
  const { window = 10_000, windowBytes = 4 * 1024 * 1024 } = options
  const lease = await borrow()
  let isChanged = false
  const source =
    Symbol.asyncIterator in commands
      ? commands[Symbol.asyncIterator]()
      : commands[Symbol.iterator]()
  let slots: Slot[] = []
  let first = 0
  let bytes = 0
  let more = true
  try {
    for (;;) {
      while (
        more &&
        slots.length - first < window &&
        (bytes < windowBytes || first === slots.length)
      ) {
        const taken = source.next()
        const { value, done } = taken instanceof Promise ? await taken : taken
        if (done === true) {
          more = false
          break
        }
        const slot = send(lease, value, how)
        isChanged ||= !slot.isKnown
        bytes += slot.size
        slots.push(slot)
      }
      const slot = slots[first++]
      if (slot === undefined) return
      if (first > window) {
        slots = slots.slice(first)
        first = 0
      }
      const reply = await slot.reply
      bytes -= slot.size
      yield reply
    }
  } finally {
    await source.return?.()
    lease.release(isChanged || first < slots.length)
  }
}

function send({ connection }: Outlet, [name, ...args]: CommandWords, how: How): Slot {
  const spec = specOf(name)
  let isKnown = spec.isKnown
  let size = 0
  const reply = new Promise<Reply | RedisError>((resolve) => {
    const done = resolve as (value: unknown) => void
    const call = new Call(spec, args, how, undefined, done, done)
    try {
      const known = spec.with(args)
      isKnown = known.isKnown
      if (!isShared(known)) throw misplaced(spec.name, known)
      size = call.size()
      call.leaves = known.leaves
    } catch (error) {
      return call.reject(error as RedisError)
    }
    if (!connection.send(call)) {
      call.fail(
        connection.reason ?? misuse('queue_full', 'the connection takes no more'),
        'NotSent',
      )
    }
  })
  return { isKnown, size, reply }
}
