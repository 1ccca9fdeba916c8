import { createHash } from 'node:crypto'

import type { ScriptText } from './call'
import type { Argument } from './encode'
import type { Key } from './commands'
import type { Reply } from './reply'

/**
 * A Lua script. It is sent as a text the first time on each connection, and by its hash from then
 * on. If the server has forgotten it, it is loaded and called again by itself, unless something was
 * sent behind it; an error that comes from within a script leaves what it wrote before, so its
 * outcome is `Unknown`.
 */
export class Script<R = Reply> implements ScriptText {
  readonly text: string
  /** The SHA-1 of the text in hexadecimal digits, by which the server knows it. */
  readonly sha: string
  readonly #run: (script: Script<R>, args: Argument[]) => Promise<R>

  constructor(text: string, run: (script: Script<R>, args: Argument[]) => Promise<R>) {
    this.text = text
    this.sha = createHash('sha1').update(text).digest('hex')
    this.#run = run
  }

  /** Calls it with these keys and arguments: `KEYS` and `ARGV` in the script. */
  run(keys: readonly Key[] = [], args: readonly Argument[] = []): Promise<R> {
    return this.#run(this, scriptArguments(keys, args))
  }
}

/** What stands behind the text or the hash. */
export function scriptArguments(keys: readonly Key[], args: readonly Argument[]): Argument[] {
  return [keys.length, ...keys, ...args]
}
