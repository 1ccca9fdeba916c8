/** Keeps count of where messages end in bytes that somebody else reads. */
export class Boundaries {
  /** Bytes of the message that has begun, still to come. */
  #left = 0
  /** What came of a header that is not whole. */
  #head: number[] = []

  /** Whether what came ends with the end of a message. */
  get isBetween(): boolean {
    return this.#left === 0 && this.#head.length === 0
  }

  /** These bytes came. */
  pass(chunk: Uint8Array): void {
    const end = chunk.length
    let at = this.#left
    if (this.#head.length > 0) at = this.#passHead(chunk)
    while (at + HEADER <= end) {
      const len =
        ((chunk[at + 1] as number) << 24) |
        ((chunk[at + 2] as number) << 16) |
        ((chunk[at + 3] as number) << 8) |
        (chunk[at + 4] as number)
      // Who reads the bytes complains of a length that can't be.
      at += len > 4 ? 1 + len : HEADER
    }
    this.#left = at > end ? at - end : 0
    for (; at < end; at++) this.#head.push(chunk[at] as number)
  }

  /** The rest of a header; returns where its message ends, or the end of the bytes if it is still not whole. */
  #passHead(chunk: Uint8Array): number {
    const head = this.#head
    let at = 0
    while (head.length < HEADER && at < chunk.length) head.push(chunk[at++] as number)
    if (head.length < HEADER) return at
    this.#head = []
    const len = Buffer.from(head).readInt32BE(1)
    return len > 4 ? at + len - 4 : at
  }
}

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
