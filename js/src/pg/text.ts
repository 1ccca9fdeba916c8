import { memory } from '../engine/memory'

/** Reads UTF-8 from the memory, whose bytes are given too: `length` bytes from `start`. */
export type ReadText = (bytes: Uint8Array, start: number, length: number) => string

/** Texts longer than this are read by Node. Each length up to here has its own piece of code. */
const SHORT = 24

/**
 * Short texts of ASCII are made of their characters at once, which takes a third of the time of a call into Node. That needs a
 * place in the program for each length; where programs may not make code, Node does it all.
 */
export const readText: ReadText = generate() ?? slice

function slice(_bytes: Uint8Array, start: number, length: number): string {
  return memory.buffer.utf8Slice(start, start + length)
}

function generate(): ReadText | undefined {
  let code = 'switch (length) { case 0: return "";\n'
  for (let length = 1; length <= SHORT; length++) {
    const names = Array.from({ length }, (_, i) => `c${i}`)
    const reads = names.map((name, i) => `${name} = bytes[start + ${i}]`)
    code += `case ${length}: { const ${reads.join(', ')};
      if ((${names.join(' | ')}) < 128) return characters(${names.join(', ')}); break }\n`
  }
  code += '} return slice(bytes, start, length)'
  try {
    const make = new Function('characters', 'slice', `return (bytes, start, length) => { ${code} }`)
    return make(String.fromCharCode, slice) as ReadText
  } catch {
    return undefined
  }
}
