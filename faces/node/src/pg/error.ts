import type { Outcome } from '../engine/choices'
import { hide } from './hidden'

/** An error that the server reported. Its fields are strings, as the server sent them. */
export class DatabaseError extends Error {
  declare length: number
  declare severity: string | undefined
  /** The SQLSTATE. */
  declare code: string | undefined
  declare detail: string | undefined
  declare hint: string | undefined
  declare position: string | undefined
  declare internalPosition: string | undefined
  declare internalQuery: string | undefined
  declare where: string | undefined
  declare schema: string | undefined
  declare table: string | undefined
  declare column: string | undefined
  declare dataType: string | undefined
  declare constraint: string | undefined
  declare file: string | undefined
  declare line: string | undefined
  declare routine: string | undefined
  /** What is known of the effect of the request that failed; absent if no request failed. */
  declare outcome?: Outcome

  constructor(message: string | undefined, length: number, name: string) {
    super(message)
    this.length = length
    this.name = name
  }
}

/**
 * Sets the outcome of an error. It is not enumerable, so that errors are printed, copied and
 * compared like those of pg.
 */
export function tellOutcome(error: Error, outcome: Outcome): void {
  // The parser of a user may throw a frozen error.
  if (Object.isExtensible(error)) hide(error, 'outcome', outcome)
}

/** Sets the outcome `NotSent`, unless the error has an outcome. */
export function tellUnsent<E>(error: E): E {
  if (error instanceof Error && (error as { outcome?: Outcome }).outcome === undefined) {
    tellOutcome(error, 'NotSent')
  }
  return error
}

/** A message that the server sends beside its results. It has the fields of an error. */
export class NoticeMessage {
  readonly name = 'notice'
  declare severity: string | undefined
  declare code: string | undefined
  declare detail: string | undefined
  declare hint: string | undefined
  declare position: string | undefined
  declare internalPosition: string | undefined
  declare internalQuery: string | undefined
  declare where: string | undefined
  declare schema: string | undefined
  declare table: string | undefined
  declare column: string | undefined
  declare dataType: string | undefined
  declare constraint: string | undefined
  declare file: string | undefined
  declare line: string | undefined
  declare routine: string | undefined

  constructor(
    readonly length: number,
    readonly message: string | undefined,
  ) {}
}
