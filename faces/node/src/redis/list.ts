import type { Item } from './atomic'
import type { How, Shape } from './call'
import type { Commands, InBytes, Key } from './commands'
import type { Argument } from './encode'
import type { RedisError } from './error'
import type { Reply } from './reply'
import { type Script, scriptArguments } from './script'
import { addCommands, type Sender } from './sender'
import { type Spec, specOf } from './spec'

/** Who sends lists. */
export interface Runner {
  /** Each command for itself. */
  _run(items: readonly Item[], how: How): Promise<unknown[]>
  /** All of them as one. */
  _runAtomic(items: readonly Item[], how: How): Promise<unknown[]>
}

/** Replies in order, or the error of a command in its place. */
export type Results<T extends readonly unknown[]> = { [I in keyof T]: T[I] | RedisError }

type Chain<T extends unknown[], B extends boolean> = {
  [K in keyof Commands]: (
    ...args: Parameters<Commands[K]>
  ) => List<[...T, B extends true ? InBytes<ReturnType<Commands[K]>> : ReturnType<Commands[K]>], B>
}

/**
 * Commands that are sent together, when `run` is called. Each is for itself: an error is the result
 * of its command and concerns no other. `atomic` has them run as a whole.
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

  /** Any command, by its name. */
  command<R = Reply>(name: string, ...args: Argument[]): List<[...T, R], B> {
    return this._send(specOf(name), args, undefined) as unknown as List<[...T, R], B>
  }

  /** Calls a script. */
  call<R = Reply>(
    script: Script<R>,
    keys: readonly Key[] = [],
    args: readonly Argument[] = [],
  ): List<[...T, R], B> {
    this.#items.push({
      spec: specOf('EVAL'),
      args: scriptArguments(keys, args),
      shape: undefined,
      script,
    })
    return this as unknown as List<[...T, R], B>
  }

  /**
   * Has them run one behind the other with nobody's between: MULTI and EXEC in one flight. If the
   * server refuses one of them before it begins, none runs; one that fails while it runs is an
   * error of its own, and the others take effect.
   */
  atomic(): this {
    this.#isAtomic = true
    return this
  }

  /** How many commands it has. */
  get length(): number {
    return this.#items.length
  }

  /** Sends all of it now. Resolves when all are answered. */
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
