import { onLoan, type Loan } from '../engine/abandoned'
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
  isKnown: boolean
  size: number
  /** Its reply, once it has come. */
  reply: Reply | RedisError | undefined
  hasCome: boolean
}

type Commands = Iterable<CommandWords> | AsyncIterable<CommandWords>

/**
 * Sends the commands that an iterator yields, and yields the replies in order; an error is yielded
 * in its command's place. Commands are taken only as replies are read, so memory stays that of one
 * window.
 */
export function streamed(
  borrow: () => Promise<Outlet>,
  commands: Commands,
  how: How,
  options: StreamOptions,
): AsyncGenerator<Reply | RedisError, void, undefined> {
  const line = new Window(how, options)
  const replies = run(line, borrow, commands)
  onLoan(replies, line)
  return replies
}

async function* run(
  line: Window,
  borrow: () => Promise<Outlet>,
  commands: Commands,
): AsyncGenerator<Reply | RedisError, void, undefined> {
  line.outlet = await borrow()
  const source = new Source(commands, () => line.wake())
  try {
    for (;;) {
      while (line.hasRoom) {
        const command = source.take()
        if (command === undefined) break
        line.send(command)
      }
      const slot = line.first
      if (slot?.hasCome === true) {
        const reply = line.shift()
        // Behind the last reply its reader may ask for no other.
        if (source.isOver && line.first === undefined) line.release()
        yield reply
      }
      else if (slot === undefined && source.isOver) return
      // A source may wait for a reply before it goes on, so replies don't wait for it.
      else await line.woken()
    }
  } finally {
    line.release()
    await source.leave()
  }
}

/** The commands that are to be sent. */
class Source {
  readonly #commands: Iterator<CommandWords> | AsyncIterator<CommandWords>
  readonly #wake: () => void
  #taken: IteratorResult<CommandWords> | undefined
  #fault: { readonly error: unknown } | undefined
  #isAsked = false
  isOver = false

  constructor(commands: Commands, wake: () => void) {
    this.#commands =
      Symbol.asyncIterator in commands
        ? commands[Symbol.asyncIterator]()
        : commands[Symbol.iterator]()
    this.#wake = wake
  }

  /** The next command; undefined if there is none yet, or none any more. */
  take(): CommandWords | undefined {
    if (this.#fault !== undefined) throw this.#fault.error
    if (this.isOver) return undefined
    if (this.#taken === undefined && !this.#isAsked) this.#ask()
    const taken = this.#taken
    this.#taken = undefined
    if (taken === undefined) return undefined
    if (taken.done === true) this.isOver = true
    return taken.done === true ? undefined : checked(taken.value)
  }

  #ask(): void {
    const next = this.#commands.next()
    if (!(next instanceof Promise)) return void (this.#taken = next)
    this.#isAsked = true
    const come = (): void => {
      this.#isAsked = false
      this.#wake()
    }
    next.then(
      (taken) => ((this.#taken = taken), come()),
      (error: unknown) => ((this.#fault = { error }), come()),
    )
  }

  /** Takes no more. A source that waits just now is not waited for: it may wait for a reply. */
  async leave(): Promise<void> {
    const left = this.#commands.return?.()
    if (!this.#isAsked) await left
    else Promise.resolve(left).catch(() => undefined)
  }
}

/** Throws where it is no command, as `[]` is none. */
function checked(command: CommandWords): CommandWords {
  if (Array.isArray(command) && typeof command[0] === 'string') return command
  throw misuse('wrong_argument', 'stream: a command is an array that begins with its name')
}

/** The commands that were sent and whose replies were not read, on a connection of their own. */
class Window implements Loan {
  outlet: Outlet | undefined
  readonly #how: How
  readonly #most: number
  readonly #bytesMost: number
  #slots: Slot[] = []
  #first = 0
  #bytes = 0
  #isChanged = false
  #wake: (() => void) | undefined

  constructor(how: How, { window = 10_000, windowBytes = 4 * 1024 * 1024 }: StreamOptions) {
    for (const [name, value] of Object.entries({ window, windowBytes }))
      if (!Number.isInteger(value) || value < 1)
        throw misuse('wrong_argument', `stream: ${name} is a whole number of at least 1, not ${value}`)
    this.#how = how
    this.#most = window
    this.#bytesMost = windowBytes
  }

  get #length(): number {
    return this.#slots.length - this.#first
  }

  get hasRoom(): boolean {
    return this.#length < this.#most && (this.#bytes < this.#bytesMost || this.#length === 0)
  }

  get first(): Slot | undefined {
    return this.#slots[this.#first]
  }

  /** Takes the first reply. */
  shift(): Reply | RedisError {
    const slot = this.#slots[this.#first++] as Slot
    if (this.#first > this.#most) {
      this.#slots = this.#slots.slice(this.#first)
      this.#first = 0
    }
    this.#bytes -= slot.size
    return slot.reply as Reply | RedisError
  }

  woken(): Promise<void> {
    return new Promise((resolve) => (this.#wake = resolve))
  }

  wake(): void {
    this.#wake?.()
    this.#wake = undefined
  }

  release(): void {
    const { outlet } = this
    this.outlet = undefined
    outlet?.release(this.#isChanged || this.#length > 0)
  }

  abandoned(): string | undefined {
    if (this.outlet === undefined) return undefined
    this.release()
    return 'A stream of Redis commands was ended: it was neither read to its end nor left, and nobody can reach it any more.'
  }

  send([name, ...args]: CommandWords): void {
    const spec = specOf(name)
    const slot: Slot = { isKnown: spec.isKnown, size: 0, reply: undefined, hasCome: false }
    this.#slots.push(slot)
    const done = (reply: unknown): void => {
      slot.reply = reply as Reply | RedisError
      slot.hasCome = true
      if (slot === this.first) this.wake()
    }
    const call = new Call(spec, args, this.#how, undefined, done, done)
    this.#submit(call, slot)
    this.#isChanged ||= !slot.isKnown
    this.#bytes += slot.size
  }

  #submit(call: Call, slot: Slot): void {
    const { spec, args } = call
    const connection = this.outlet?.connection
    try {
      const known = spec.with(args)
      slot.isKnown = known.isKnown
      if (!isShared(known)) throw misplaced(spec.name, known)
      slot.size = call.size()
      call.leaves = known.leaves
    } catch (error) {
      return call.reject(error as RedisError)
    }
    if (connection?.send(call) === true) return
    call.fail(
      connection?.reason ?? misuse('queue_full', 'the connection takes no more'),
      'NotSent',
    )
  }
}
