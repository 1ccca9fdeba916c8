import { ABI_VERSION, type Exports } from './exports'
import { moduleBytes } from './module'
import { textReader } from './text'

/**
 * The module and views of its memory. There is one for the whole process: connections have nothing
 * in common but the memory that they lie in.
 *
 * It is compiled when the first connection or pool asks for `engine`, so that programs which only
 * load this package, as tests and tools do, don't wait for it.
 *
 * Memory grows, and then all views are views of nothing. So they are looked up here after each call
 * that may allocate, and never kept. What returns an address returns it with a sign: beyond 2 GiB
 * it is one only behind `>>> 0`.
 */
class Memory {
  /** The memory, for texts. */
  buffer = Buffer.alloc(0)
  /** The same, for single bytes. */
  bytes = new Uint8Array(0)
  /** The same, for records. */
  words = new Uint32Array(0)

  /** The functions of the module. */
  get engine(): Exports {
    const engine = instantiate()
    // From here on a property like others, which costs nothing to read.
    Object.defineProperty(this, 'engine', { value: engine, enumerable: true })
    this.refresh()
    return engine
  }

  /** Sees that the views are of the memory as it is. */
  refresh(): void {
    const { buffer } = this.engine.memory
    if (this.bytes.buffer === buffer) return
    this.buffer = Buffer.from(buffer)
    this.bytes = new Uint8Array(buffer)
    this.words = new Uint32Array(buffer)
  }

  /** Bytes of the module that hold these, for the time of a call. */
  lend<T>(bytes: Uint8Array, use: (start: number) => T): T {
    const start = this.engine.onetrip_alloc(bytes.length) >>> 0
    this.refresh()
    this.bytes.set(bytes, start)
    try {
      return use(start)
    } finally {
      this.engine.onetrip_free(start, bytes.length)
    }
  }

  /** Writes a text as UTF-8, for which there is room, and returns its length in bytes. */
  writeText(text: string, at: number): number {
    const { length } = text
    if (length > SHORT) return this.writeByNode(text, at)
    const { bytes } = this
    for (let i = 0; i < length; i++) {
      const code = text.charCodeAt(i)
      if (code > 0x7f) return this.writeByNode(text, at)
      bytes[at + i] = code
    }
    return length
  }

  /** The same by Node, which writes nothing where it is left 2 GiB or more of room. */
  writeByNode(text: string, at: number): number {
    return this.buffer.utf8Write(text, at, 3 * text.length)
  }

  /** Reads UTF-8. */
  text(start: number, end: number): string {
    return readText(this.bytes, start, end - start)
  }

  /** Four bytes, the highest first, as PostgreSQL sends numbers. */
  int32(at: number): number {
    const b = this.bytes
    return (
      ((b[at] as number) << 24) |
      ((b[at + 1] as number) << 16) |
      ((b[at + 2] as number) << 8) |
      (b[at + 3] as number)
    )
  }

  /** Two bytes without a sign, the higher first. */
  uint16(at: number): number {
    return ((this.bytes[at] as number) << 8) | (this.bytes[at + 1] as number)
  }

  /** Writes four bytes, the highest first. */
  putInt32(at: number, value: number): void {
    const b = this.bytes
    b[at] = value >>> 24
    b[at + 1] = value >>> 16
    b[at + 2] = value >>> 8
    b[at + 3] = value
  }
}

/** Texts up to so many characters are copied here; a call into Node costs more than that. */
const SHORT = 24

export const memory = new Memory()

/** Reads UTF-8 from the memory, for those who have its bytes at hand. */
export const readText = textReader((_bytes, start, length) =>
  memory.buffer.utf8Slice(start, start + length),
)

function instantiate(): Exports {
  if (typeof WebAssembly === 'undefined') {
    throw new Error('onetrip needs WebAssembly, which this process was started without (--jitless)')
  }
  const module = new WebAssembly.Module(moduleBytes())
  const engine = new WebAssembly.Instance(module, {}).exports as unknown as Exports
  const version = engine.onetrip_abi_version()
  if (version !== ABI_VERSION) {
    throw new Error(`The module has version ${version} of the interface instead of ${ABI_VERSION}`)
  }
  return engine
}
