import { ABI_VERSION, Close, type Exports } from './exports'
import { guarded, isFailure, lifeless, safely } from './guard'
import { moduleBytes } from './module'
import { textReader } from './text'

/** Who has something in the module, and loses it when the module fails. */
export interface Handle {
  engine: Exports
  /** What it had is gone. It is told when nothing else runs, and a fresh instance of the module is there. */
  evicted(): void
}

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
 *
 * Once a function of it has failed, nothing that it holds can be trusted. From then on none does
 * anything, in the next tick all handles are told, and those who come later have a fresh instance.
 */
class Memory {
  /** The memory, for texts. */
  buffer = Buffer.alloc(0)
  /** The same, for single bytes. */
  bytes = new Uint8Array(0)
  /** The same, for records. */
  words = new Uint32Array(0)

  /** Who has something in it. */
  readonly handles = new Set<Handle>()
  /** It has failed, and handles have not been told. */
  isLost = false
  #module: WebAssembly.Module | undefined

  /** The functions of the module. */
  get engine(): Exports {
    return this.#begin()
  }

  /** From here on they are a property like others, which costs nothing to read. */
  #begin(): Exports {
    this.#module ??= compile()
    const { exports } = new WebAssembly.Instance(this.#module, {})
    this.#set(guarded(exports, (error) => this.failed(error)))
    checkVersion(this.engine)
    this.refresh()
    return this.engine
  }

  #set(value: Exports): void {
    const how = { value, enumerable: true, configurable: true, writable: true }
    Object.defineProperty(this, 'engine', how)
  }

  /** A function of the module has thrown this. What is no failure of the module is thrown again. */
  failed(error: unknown): void {
    if (!isFailure(error)) throw error
    if (this.isLost) return
    process.nextTick(() => this.#evict())
    this.isLost = true
    const engine = lifeless(this.engine)
    this.#set(engine)
    for (const handle of this.handles) handle.engine = engine
  }

  #evict(): void {
    const handles = [...this.handles]
    this.handles.clear()
    this.isLost = false
    try {
      this.#begin()
    } finally {
      for (const handle of handles) safely(() => handle.evicted())
    }
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
    if (start === 0 && bytes.length > 0 && !this.isLost) throw new RangeError(NO_MEMORY)
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
    // Node 22 and later refuse more room than there is.
    return this.buffer.utf8Write(text, at, Math.min(3 * text.length, this.buffer.length - at))
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

/** Why a connection ended, where no message of the server says it. */
export function reason(why: number, start: number, end: number): string {
  if (end > start) return memory.text(start, end)
  if (why === Close.STALLED) return 'the server took no bytes for too long'
  return why === Close.LOST ? ENGINE_LOST : NO_MEMORY
}

/** What is said where the module has no memory for something. */
export const NO_MEMORY =
  'there is no memory for it: the engine has 4 GiB for all connections of this process'

/** What is said of what the module took along when it failed. */
export const ENGINE_LOST =
  'the engine of this process failed, and all its connections were lost; new ones can be opened'

function compile(): WebAssembly.Module {
  if (typeof WebAssembly === 'undefined') {
    throw new Error('onetrip needs WebAssembly, which this process was started without (--jitless)')
  }
  return new WebAssembly.Module(moduleBytes())
}

function checkVersion(engine: Exports): void {
  const version = engine.onetrip_abi_version()
  if (version !== ABI_VERSION) {
    throw new Error(`The module has version ${version} of the interface instead of ${ABI_VERSION}`)
  }
}
