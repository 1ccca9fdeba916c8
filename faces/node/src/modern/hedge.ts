import { Flag } from '../engine/exports'
import type { Connection } from './connection'
import { Statement } from './statement'

/**
 * The second attempt of a hedged read, sent while the first may still be answered. The first answer
 * that succeeds wins, and the other is ignored.
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
    // If its connection was lost, the first attempt may wait to be sent again.
    first.scope._takeBack(first)
    first.rows = this.rows
    first.finish()
  }

  /** A failure of the second attempt is ignored: the first attempt reports its own end. */
  override fail(): void {
    this.isOver = true
  }
}
