import { Flag } from '../engine/exports'
import { memory } from '../engine/memory'
import type { Connection } from './connection'
import type { Scope } from './scope'
import { Statement } from './statement'
import { Template } from './template'
import { Watch } from './watch'

/** A question of this client's own, whose row the module reads. */
export class Question extends Statement {
  #row: Buffer | undefined

  constructor(scope: Scope, template: Template, timeoutMs: number) {
    super(scope, template, [])
    this.watch = new Watch()
    this.watch.timeoutMs = timeoutMs
  }

  /** Resolves to the message with its row. */
  async answer(): Promise<Buffer | undefined> {
    await this.settled()
    return this.#row
  }

  override _run(connection: Connection): void {
    if (this._sendOn(connection, Flag.UNPREPARED)) connection.questions++
  }

  override ended(how: number, outcome: number, start: number, end: number): void {
    if (this.connection !== undefined) this.connection.questions--
    super.ended(how, outcome, start, end)
  }

  override unsent(start: number, end: number): boolean {
    const { connection } = this
    const goesOn = super.unsent(start, end)
    if (goesOn && connection !== undefined) connection.questions--
    return goesOn
  }

  override received(start: number, end: number): void {
    for (let at = start; at < end; ) {
      const next = at + 1 + memory.int32(at + 1)
      if (memory.bytes[at] === DATA_ROW) this.#row = Buffer.from(memory.bytes.slice(at, next))
      at = next
    }
  }

  override restarted(): void {
    this.#row = undefined
  }
}

const DATA_ROW = 0x44
