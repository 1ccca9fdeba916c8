// Methods of Buffer that Node has always had, and that its types leave out. They take plain
// numbers.
interface Buffer {
  utf8Slice(start: number, end: number): string
  latin1Slice(start: number, end: number): string
  utf8Write(text: string, at: number, max: number): number
}

// The parts of WebAssembly that are used here. TypeScript has their types only in its library
// `dom`.
declare namespace WebAssembly {
  class Module {
    constructor(bytes: Uint8Array)
  }
  class RuntimeError extends Error {}
  class Instance {
    constructor(module: Module, imports: object)
    readonly exports: object
  }
  interface Memory {
    readonly buffer: ArrayBuffer
    grow(pages: number): number
  }
}
