/** Cuts a stream of bytes into messages. */
export class Messages {
  #bytes: Buffer = EMPTY
  #at = 0
  /** The chunks behind `#bytes`. They are joined when needed, so a long message is copied once. */
  #more: Buffer[] = []
  #moreLen = 0

  /** Adds a copy of a chunk: messages are views of it, and their receivers may keep them. */
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

  /** The number of bytes that are not part of a returned message. */
  get length(): number {
    return this.#bytes.length - this.#at + this.#moreLen
  }

  /** The next whole message, with its type and length; undefined if it has not arrived. */
  next(): Buffer | undefined {
    if (!this.#has(HEADER)) return undefined
    const len = this.#bytes.readUInt32BE(this.#at + 1)
    if (len < 4 || len > LENGTH_MAX) throw new Error(NO_LENGTH)
    if (!this.#has(1 + len)) return undefined
    const start = this.#at
    this.#at += 1 + len
    return this.#bytes.subarray(start, this.#at)
  }

  /** Removes and returns all bytes that are left. */
  take(): Buffer {
    const left = Buffer.concat([this.#bytes.subarray(this.#at), ...this.#more])
    this.#bytes = EMPTY
    this.#more = []
    this.#at = this.#moreLen = 0
    return left
  }

  /** Joins chunks until `len` bytes lie together. Returns false if they have not arrived. */
  #has(len: number): boolean {
    const here = this.#bytes.length - this.#at
    if (here >= len) return true
    if (here + this.#moreLen < len) return false
    this.#bytes = this.take()
    return true
  }
}

const EMPTY = Buffer.alloc(0)

/** The bytes of a message's type and length. */
const HEADER = 5

const LENGTH_MAX = 0x3fff_ffff

const NO_LENGTH = 'The server sent a message with an impossible length'
