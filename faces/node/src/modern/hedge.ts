import { Flag } from '../engine/exports'
import type { Connection } from './connection'
import { Statement } from './statement'

/**
 * A read that is sent a second time while its first answer may still come. The first good answer wins; of the other
 * nobody hears.
 */
export class Hedge extends Statement {
  readonly #first: Statement

  constructor(first: Statement) {
    super(first.scope, first.template, first.given)
    this.#first = first
    this.text = first.text
    this.parameters = first.parameters
    this.traits = first.traits
    this.key = first.key
    this.asArrays = first.asArrays
    this.isSent = true
    first.second = this
  }

  override _run(connection: Connection): void {
    this._sendOn(connection, Flag.REPEATABLE)
  }

  override finish(): void {
    if (this.isOver) return
    const first = this.#first
    // It may wait to be sent again, since its connection was lost.
    first.scope._takeBack(first)
    first.rows = this.rows
    first.finish()
  }

  /** The first answer tells what there is to tell. */
  override fail(): void {
    this.isOver = true
  }
}
