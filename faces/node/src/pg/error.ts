import type { Outcome } from '../engine/exports'
import { hide } from './hidden'

/** An error that the server reported, with what it said about it. All are texts, as they came. */
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
  /** What is known of the effect of the request that failed; not enumerable. Not there where there was no request. */
  declare outcome?: Outcome

  constructor(message: string | undefined, length: number, name: string) {
    super(message)
    this.length = length
    this.name = name
  }
}

/**
 * Says what is known of the effect of the request that failed. It is not enumerable, so that errors are printed, copied and
 * compared as those of pg.
 */
export function tellOutcome(error: Error, outcome: Outcome): void {
  // Parsers of values may throw errors that are frozen.
  if (Object.isExtensible(error)) hide(error, 'outcome', outcome)
}

/** Says that nothing was sent of what was asked for, where nobody has said more. */
export function tellUnsent<E>(error: E): E {
  if (error instanceof Error && (error as { outcome?: Outcome }).outcome === undefined) {
    tellOutcome(error, 'NotSent')
  }
  return error
}

/** What the server says beside results: the fields of an error, in an object that is none. */
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
