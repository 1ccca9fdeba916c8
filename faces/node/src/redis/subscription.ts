import type { Family, Reader, Subscriptions } from './subscriptions'

/** A message that was published. */
export interface Message<T = string> {
  /** The channel that it was published on. */
  readonly channel: string
  /** The pattern that matched the channel, where the subscription is by pattern. */
  readonly pattern: string | undefined
  /** What was published. */
  readonly payload: T
}

/** Messages that wait for their reader. */
const MESSAGES_MAX = 1024

/**
 * Messages published on channels, one after the other: `for await (const message of subscription)`.
 * Leaving the loop ends it.
 *
 * Redis keeps no message for anybody: what is published while no connection is subscribed is lost.
 * After a lost connection its channels are subscribed again by themselves, and `reconnects` counts
 * how often messages may have been missed so. Up to 1,024 messages wait for a reader that is slow;
 * then the oldest go, and `dropped` counts them.
 */
export class Subscription<T = string> implements AsyncIterableIterator<Message<T>>, Reader {
  /** How many messages were dropped, since they were not read in time. */
  dropped = 0
  /** How often messages may have been missed, since the connection was lost. */
  reconnects = 0
  readonly #hub: Subscriptions
  readonly #bytes: boolean
  readonly #names = new Map<string, [Family, Buffer]>()
  #messages: Message<T>[] = []
  #first = 0
  #waiting: ((result: IteratorResult<Message<T>>) => void)[] = []
  #isOver = false

  /** Not for callers: `client.subscribe` makes one. */
  constructor(hub: Subscriptions, bytes: boolean) {
    this.#hub = hub
    this.#bytes = bytes
  }

  /**
   * Adds channels. Resolves when the server has confirmed them: from then on no message is missed.
   */
  subscribe(...channels: (string | Uint8Array)[]): Promise<void> {
    return this.#add('channel', channels)
  }

  /** The same for channels that match patterns, as in `news.*`. */
  psubscribe(...patterns: (string | Uint8Array)[]): Promise<void> {
    return this.#add('pattern', patterns)
  }

  /** The same for sharded channels, whose messages stay with the node of their hash slot. */
  ssubscribe(...channels: (string | Uint8Array)[]): Promise<void> {
    return this.#add('shard', channels)
  }

  /**
   * Ends the subscription to these channels or patterns, by whichever of the above they were added.
   */
  unsubscribe(...channels: (string | Uint8Array)[]): void {
    const names = new Set(channels.map((channel) => Buffer.from(channel).toString('latin1')))
    for (const [id, [family, name]] of this.#names) {
      if (!names.has(name.toString('latin1'))) continue
      this.#names.delete(id)
      this.#hub.remove(this, family, [name])
    }
  }

  async #add(family: Family, channels: readonly (string | Uint8Array)[]): Promise<void> {
    const names = channels.map((channel) => Buffer.from(channel))
    const fresh = names.filter((name) => !this.#names.has(`${family}:${name.toString('latin1')}`))
    await this.#hub.add(this, family, fresh)
    for (const name of fresh)
      this.#names.set(`${family}:${name.toString('latin1')}`, [family, name])
  }

  /** The next message; done when it was ended, or its client closed. */
  next(): Promise<IteratorResult<Message<T>>> {
    const message = this.#messages[this.#first]
    if (message !== undefined) {
      if (++this.#first * 2 >= this.#messages.length) {
        this.#messages = this.#messages.slice(this.#first)
        this.#first = 0
      }
      return Promise.resolve({ value: message, done: false })
    }
    if (this.#isOver) return Promise.resolve({ value: undefined, done: true })
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  /** Ends it. */
  return(): Promise<IteratorResult<Message<T>>> {
    for (const [family, name] of this.#names.values()) this.#hub.remove(this, family, [name])
    this.#names.clear()
    this.end()
    this.#messages = []
    return Promise.resolve({ value: undefined, done: true })
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return()
  }

  /** Not for callers: a message came. */
  take(channel: Buffer, pattern: Buffer | undefined, payload: Buffer): void {
    if (this.#isOver) return
    const value = {
      channel: channel.toString(),
      pattern: pattern?.toString(),
      payload: (this.#bytes ? payload : payload.toString()) as T,
    }
    const waiting = this.#waiting.shift()
    if (waiting !== undefined) return waiting({ value, done: false })
    this.#messages.push(value)
    if (this.#messages.length - this.#first <= MESSAGES_MAX) return
    this.#first++
    this.dropped++
    if (this.#first > MESSAGES_MAX) {
      this.#messages = this.#messages.slice(this.#first)
      this.#first = 0
    }
  }

  /** Not for callers: the connection was lost. */
  lost(): void {
    this.reconnects++
  }

  /** Not for callers: no more messages come. */
  end(): void {
    this.#isOver = true
    this.#hub.forget(this)
    for (const resolve of this.#waiting.splice(0)) resolve({ value: undefined, done: true })
  }
}
