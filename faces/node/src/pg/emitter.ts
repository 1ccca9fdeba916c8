import type { EventEmitter } from 'node:events'

import { memory } from '../engine/memory'
import type { Connection } from './connect'
import { readNotification } from './messages'
import { notice } from './report'
import { guarded } from './request'

/** The client whose listeners are told. */
interface Listened extends EventEmitter {
  readonly pipeline: boolean
}

/** Emits the messages that belong to no query on the client. */
export abstract class Emitter<Client extends Listened> {
  protected readonly connection: Connection

  protected constructor(connection: Connection) {
    this.connection = connection
  }

  protected abstract get client(): Client

  emit(name: 'notice' | 'notification', message: object): void {
    this.client.emit(name, message)
  }

  notice(start: number, end: number): void {
    guarded((message) => this.client.emit('notice', message), notice(start, end))
  }

  notification(start: number, end: number): void {
    const message = readNotification(start, end)
    guarded(() => this.client.emit('notification', message))
  }

  parameterStatus(start: number, end: number): void {
    const [name, value] = memory.text(start + 5, end - 1).split('\0')
    this.parameter(name ?? '', value ?? '')
  }

  /** Whether a tap emits the messages on the connection already. */
  protected abstract get isTapped(): boolean

  protected parameter(parameterName: string, parameterValue: string): void {
    if (this.isTapped) return
    const length = 6 + Buffer.byteLength(parameterName) + Buffer.byteLength(parameterValue)
    const message = { length, parameterName, parameterValue, name: 'parameterStatus' }
    guarded(() => this.connection.emit('parameterStatus', message))
  }

  full(): void {
    if (this.client.pipeline) guarded(() => this.client.emit('pipelineFull'))
  }

  drained(): void {
    if (this.client.pipeline) guarded(() => this.client.emit('pipelineDrain'))
  }
}
