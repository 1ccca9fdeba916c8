// Methods of Buffer that Node has always had and that its types leave out: they take numbers in place of options.
interface Buffer {
  utf8Slice(start: number, end: number): string
  latin1Slice(start: number, end: number): string
  utf8Write(text: string, at: number, max: number): number
}

// What is used of WebAssembly; its types are part of a browser's and not of Node's.
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
