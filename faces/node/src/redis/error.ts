import type { Outcome } from '../engine/choices'

/** Why a command failed, and what is known of its effect. */
export class RedisError extends Error {
  override readonly name = 'RedisError'
  /**
   * The first word of a server's error, in capitals (`WRONGTYPE`, `ERR`, …), or a word in small
   * letters for an error of this side (`connection_lost`, `timeout`, `queue_full`, …).
   */
  readonly code: string
  /**
   * What is known of the effect. `NotSent`: no byte was sent. `Rejected`: the server answered that
   * the command has no effect. `Applied`: it took effect, and only reading the reply failed.
   * `Unknown`: it was sent, and may have run.
   */
  readonly outcome: Outcome
  /** The name of the command. */
  readonly command: string | undefined

  constructor(message: string, code: string, outcome: Outcome, command?: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
    this.outcome = outcome
    this.command = command
  }

  /** The same error for another command, or with another outcome. */
  with(outcome: Outcome, command: string | undefined): RedisError {
    return new RedisError(this.message, this.code, outcome, command, this.cause)
  }
}

/** The error of a call whose signal was aborted. */
export function aborted(signal: AbortSignal, outcome: Outcome, command: string): RedisError {
  const message = 'the operation was aborted'
  return new RedisError(message, 'ABORT_ERR', outcome, command, signal.reason)
}

/** An error of the caller, of which nothing was sent. */
export function misuse(code: string, message: string, command?: string): RedisError {
  return new RedisError(message, code, 'NotSent', command)
}

/** Makes an error of the text that a server sent. */
export function fromText(text: string, outcome: Outcome, command?: string): RedisError {
  const space = text.indexOf(' ')
  return new RedisError(text, space < 0 ? text : text.slice(0, space), outcome, command)
}
