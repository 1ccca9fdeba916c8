import { ABI_VERSION, Close, type Exports } from './exports'
import { guarded, isFailure, lifeless, safely } from './guard'
import { moduleBytes } from './module'
import { textReader } from './text'

/** The owner of an object in the module, which is lost when the module fails. */
export interface Handle {
  engine: Exports
  /**
   * Its object is lost. Called in a tick of its own, when there is a fresh instance of the module.
   */
  evicted(): void
}

/**
 * The module and the views of its memory. One instance serves the whole process; its connections
 * share nothing but the memory.
 *
 * It is compiled when the first connection or pool uses `engine`, so that programs which only load
 * this package, as tests and tools do, don't pay for it.
 *
 * When the memory grows, all views of it become empty. So they are made anew after each call that
 * may allocate, looked up here, and never kept. What is called `OFTEN` leaves that to its callers. Functions return addresses as signed numbers: above 2 GiB an
 * address is right only after `>>> 0`.
 *
 * Once a function of the module has failed, nothing in it can be trusted. From then on its
 * functions do nothing, all handles are told in the next tick, and later users get a fresh
 * instance.
 */
class Memory {
  /** The memory as a Buffer, for texts. */
  buffer = Buffer.alloc(0)
  /** The memory as bytes. */
  bytes = new Uint8Array(0)
  /** The memory as words, for completions. */
  words = new Uint32Array(0)

  /** The owners of objects in it. */
  readonly handles = new Set<Handle>()
  /** The module has failed, and the handles have not been told. */
  isLost = false
  #module: WebAssembly.Module | undefined

  /** The functions of the module. */
  get engine(): Exports {
    return this.#begin()
  }

  /**
   * Makes an instance. Its functions replace the getter `engine`, so reading them costs nothing.
   */
  #begin(): Exports {
    this.#module ??= compile()
    const { exports } = new WebAssembly.Instance(this.#module, {})
    const lost = (error: unknown): void => this.failed(error)
    this.#set(guarded(exports, lost, () => this.refresh()))
    checkVersion(this.engine)
    this.refresh()
    return this.engine
  }

  #set(value: Exports): void {
    const how = { value, enumerable: true, configurable: true, writable: true }
    Object.defineProperty(this, 'engine', how)
  }

  /**
   * A function of the module has thrown this. An error that is not the module's is thrown again.
   */
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

  /** Makes the views anew if the memory has grown. */
  refresh(): void {
    const { buffer } = this.engine.memory
    if (this.bytes.buffer === buffer) return
    this.buffer = Buffer.from(buffer)
    this.bytes = new Uint8Array(buffer)
    this.words = new Uint32Array(buffer)
  }

  /** Copies bytes into the module for the time of a call, and calls `use` with their address. */
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

  /** Writes a text as UTF-8 where there is room for it, and returns its length in bytes. */
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

  /** The same by Node. It is given as much room as needed: with 2 GiB or more it writes nothing. */
  writeByNode(text: string, at: number): number {
    // Node 22 and later throw if the room reaches beyond the buffer.
    return this.buffer.utf8Write(text, at, Math.min(3 * text.length, this.buffer.length - at))
  }

  /** Reads UTF-8. */
  text(start: number, end: number): string {
    return readText(this.bytes, start, end - start)
  }

  /** Reads a signed number of four bytes in network order. */
  int32(at: number): number {
    const b = this.bytes
    return (
      ((b[at] as number) << 24) |
      ((b[at + 1] as number) << 16) |
      ((b[at + 2] as number) << 8) |
      (b[at + 3] as number)
    )
  }

  /** Reads an unsigned number of two bytes in network order. */
  uint16(at: number): number {
    return ((this.bytes[at] as number) << 8) | (this.bytes[at + 1] as number)
  }

  /** Writes a number of four bytes in network order. */
  putInt32(at: number, value: number): void {
    const b = this.bytes
    b[at] = value >>> 24
    b[at + 1] = value >>> 16
    b[at + 2] = value >>> 8
    b[at + 3] = value
  }
}

/** Up to this many characters, copying a text here costs less than a call into Node. */
const SHORT = 24

export const memory = new Memory()

/** Reads UTF-8 from the memory, for callers that have looked its bytes up. */
export const readText = textReader((_bytes, start, length) =>
  memory.buffer.utf8Slice(start, start + length),
)

/** Why a connection ended: the engine's text, or ours where the engine gave none. */
export function reason(why: number, start: number, end: number): string {
  if (end > start) return memory.text(start, end)
  if (why === Close.STALLED) return 'the server took no bytes for too long'
  return why === Close.LOST ? ENGINE_LOST : NO_MEMORY
}

/** The error text when the module has no memory left. */
export const NO_MEMORY =
  'there is no memory for it: the engine has 4 GiB for all connections of this process'

/** The error text of requests that were lost when the module failed. */
export const ENGINE_LOST =
  'the engine of this process failed, and all its connections were lost; new ones can be opened'

function compile(): WebAssembly.Module {
  if (typeof WebAssembly === 'undefined') {
    throw new Error('onetrip needs WebAssembly: start the process without --jitless')
  }
  return new WebAssembly.Module(moduleBytes())
}

function checkVersion(engine: Exports): void {
  const version = engine.onetrip_abi_version()
  if (version !== ABI_VERSION) {
    const found = `onetrip.wasm has ABI version ${version}, not ${ABI_VERSION}`
    throw new Error(`${found}: install the package again`)
  }
}
