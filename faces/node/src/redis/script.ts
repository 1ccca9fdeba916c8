import { createHash } from 'node:crypto'

import type { ScriptText } from './call'
import type { Argument } from './encode'
import type { Key } from './commands'
import { misuse } from './error'
import type { Reply } from './reply'

/**
 * A Lua script. The first call on each connection sends its text, later calls its hash. If the
 * server has forgotten it, the client loads it and sends the call again, unless other commands were
 * sent behind the call; then the call fails with `NOSCRIPT`. Redis does not roll a script back, so
 * an error of a script has the outcome `Unknown`.
 */
export class Script<R = Reply> implements ScriptText {
  readonly text: string
  /** The SHA-1 of the text in hexadecimal digits: the server's name for the script. */
  readonly sha: string
  readonly #run: (script: Script<R>, args: Argument[]) => Promise<R>

  constructor(text: string, run: (script: Script<R>, args: Argument[]) => Promise<R>) {
    this.text = text
    this.sha = createHash('sha1').update(text).digest('hex')
    this.#run = run
  }

  /** Calls the script with these keys (`KEYS`) and arguments (`ARGV`). Resolves to its reply. */
  run(keys: readonly Key[] = [], args: readonly Argument[] = []): Promise<R> {
    return this.#run(this, scriptArguments(keys, args))
  }
}

/** The script of a call. JavaScript may pass anything. */
export function scriptOf<R>(given: Script<R>): Script<R> {
  if (typeof given?.text === 'string' && typeof given.sha === 'string') return given
  const what = typeof given === 'string' ? JSON.stringify(given) : typeof given
  throw misuse(
    'no_script',
    `call takes a script that script(text) has made, not ${what}: ` +
      'a command that is no method goes by command(name, ...arguments)',
  )
}

/** The arguments of EVAL behind the text or the hash. */
export function scriptArguments(keys: readonly Key[], args: readonly Argument[]): Argument[] {
  return [keys.length, ...keys, ...args]
}
