import type { Item } from './atomic'
import type { How, Shape } from './call'
import type { Commands, InBytes, Key } from './commands'
import type { Argument } from './encode'
import type { RedisError } from './error'
import type { Reply } from './reply'
import { type Script, scriptArguments, scriptOf } from './script'
import { addCommands, type Sender } from './sender'
import { type Spec, specOf } from './spec'

/** Sends the commands of lists. */
export interface Runner {
  /** Sends each command for itself. */
  _run(items: readonly Item[], how: How): Promise<unknown[]>
  /** Sends all commands as one transaction. */
  _runAtomic(items: readonly Item[], how: How): Promise<unknown[]>
}

/** The replies in order; a command that failed has its error in its place. */
export type Results<T extends readonly unknown[]> = { [I in keyof T]: T[I] | RedisError }

type Chain<T extends unknown[], B extends boolean> = {
  [K in keyof Commands]: (
    ...args: Parameters<Commands[K]>
  ) => List<[...T, B extends true ? InBytes<ReturnType<Commands[K]>> : ReturnType<Commands[K]>], B>
}

/**
 * A list of commands, which are sent together when `run` is called. Each command stands for itself:
 * an error is the result of its command, and concerns no other. `atomic` makes the list one
 * transaction.
 */
export interface List<T extends unknown[] = [], B extends boolean = false> extends Chain<T, B> {}

export class List<T extends unknown[] = [], B extends boolean = false> implements Sender {
  readonly #runner: Runner
  readonly #how: How
  readonly #items: Item[] = []
  #isAtomic: boolean

  constructor(runner: Runner, how: How, isAtomic: boolean) {
    this.#runner = runner
    this.#how = how
    this.#isAtomic = isAtomic
  }

  /** Adds any command, by its name. */
  command<R = Reply>(name: string, ...args: Argument[]): List<[...T, R], B> {
    return this._send(specOf(name), args, undefined) as unknown as List<[...T, R], B>
  }

  /** Adds a call of a script. */
  call<R = Reply>(
    script: Script<R>,
    keys: readonly Key[] = [],
    args: readonly Argument[] = [],
  ): List<[...T, R], B> {
    this.#items.push({
      spec: specOf('EVAL'),
      args: scriptArguments(keys, args),
      shape: undefined,
      script: scriptOf(script),
    })
    return this as unknown as List<[...T, R], B>
  }

  /**
   * Makes the list one transaction: MULTI, the commands and EXEC, in one trip. No command of
   * another client runs in between. If the server refuses a command before EXEC, none runs, and
   * `run` rejects. A command that fails while it runs has its error in its place, and the others
   * take effect.
   */
  atomic(): this {
    this.#isAtomic = true
    return this
  }

  /** The number of commands. */
  get length(): number {
    return this.#items.length
  }

  /**
   * Sends the commands, which leave in one write. Resolves to the replies when all have arrived.
   * The list is empty after that.
   */
  run(): Promise<Results<T>> {
    const items = this.#items.splice(0)
    if (items.length === 0) return Promise.resolve([] as unknown as Results<T>)
    const { _run, _runAtomic } = this.#runner
    const run = this.#isAtomic ? _runAtomic : _run
    return run.call(this.#runner, items, this.#how) as Promise<Results<T>>
  }

  /** Not for callers. */
  _send(spec: Spec, args: readonly Argument[], shape: Shape | undefined): this {
    this.#items.push({ spec, args, shape, script: undefined })
    return this
  }
}

addCommands(List)
