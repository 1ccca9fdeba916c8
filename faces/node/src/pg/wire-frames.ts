/** Cuts what comes into messages. */
export class Messages {
  #bytes: Buffer = EMPTY
  #at = 0
  /** What came behind it, until it is needed: a long message is put together once. */
  #more: Buffer[] = []
  #moreLen = 0

  /** Messages are cut from a copy, since who gets them may keep them. */
  add(bytes: Buffer): void {
    const chunk = Buffer.from(bytes)
    if (this.#at === this.#bytes.length) {
      this.#bytes = chunk
      this.#at = 0
    } else {
      this.#more.push(chunk)
      this.#moreLen += chunk.length
    }
  }

  /** Bytes that no message was made of yet. */
  get length(): number {
    return this.#bytes.length - this.#at + this.#moreLen
  }

  /** The next message as a whole, its type and its length in front; undefined if it has not come. */
  next(): Buffer | undefined {
    if (!this.#has(HEADER)) return undefined
    const len = this.#bytes.readUInt32BE(this.#at + 1)
    if (len < 4 || len > LENGTH_MAX) throw new Error(NO_LENGTH)
    if (!this.#has(1 + len)) return undefined
    const start = this.#at
    this.#at += 1 + len
    return this.#bytes.subarray(start, this.#at)
  }

  /** All that is left, which is no longer here then. */
  take(): Buffer {
    const left = Buffer.concat([this.#bytes.subarray(this.#at), ...this.#more])
    this.#bytes = EMPTY
    this.#more = []
    this.#at = this.#moreLen = 0
    return left
  }

  /** Sees that so many bytes lie together, if they have come. */
  #has(len: number): boolean {
    const here = this.#bytes.length - this.#at
    if (here >= len) return true
    if (here + this.#moreLen < len) return false
    this.#bytes = this.take()
    return true
  }
}

const EMPTY = Buffer.alloc(0)

/** The type of a message and its length. */
const HEADER = 5

const LENGTH_MAX = 0x3fff_ffff

const NO_LENGTH = 'The server sent a message whose length can not be'
