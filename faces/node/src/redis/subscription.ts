import type { Family, Reader, Subscriptions } from './subscriptions'

/** A message that was published. */
export interface Message<T = string> {
  /** The channel that it was published on. */
  readonly channel: string
  /** The pattern that matched the channel; undefined if the subscription is by name. */
  readonly pattern: string | undefined
  /** The message itself. */
  readonly payload: T
}

/** Messages that wait for the reader at most. */
const MESSAGES_MAX = 1024

/**
 * The messages published on channels: `for await (const message of subscription)`. It ends when the
 * loop is left, with `return`, or when its client is closed.
 *
 * Redis does not keep messages: those that are published while the connection is lost are missed.
 * The client subscribes again by itself, and `reconnects` counts how often messages may have been
 * missed. Up to 1,024 messages wait for the reader. When more come, the oldest are dropped, and
 * `dropped` counts them.
 */
export class Subscription<T = string> implements AsyncIterableIterator<Message<T>>, Reader {
  /** How many messages were dropped because they were not read in time. */
  dropped = 0
  /** How often the connection was lost, so that messages may have been missed. */
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
   * Adds channels. Resolves when the server has confirmed them; messages that are published after
   * that are received.
   */
  subscribe(...channels: (string | Uint8Array)[]): Promise<void> {
    return this.#add('channel', channels)
  }

  /** Adds the channels that match patterns, such as `news.*`. Resolves as `subscribe` does. */
  psubscribe(...patterns: (string | Uint8Array)[]): Promise<void> {
    return this.#add('pattern', patterns)
  }

  /** Adds sharded channels, whose messages stay on the node of their hash slot. */
  ssubscribe(...channels: (string | Uint8Array)[]): Promise<void> {
    return this.#add('shard', channels)
  }

  /**
   * Removes channels or patterns, by whichever method they were added.
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

  /** Resolves to the next message. It is done when the subscription or its client was ended. */
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

  /** Ends the subscription. Messages that were not read are discarded. */
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

  /** Not for callers: a message arrived. */
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
