/** Reads UTF-8 from the memory, whose bytes are given too: `length` bytes from `start`. */
export type ReadText = (bytes: Uint8Array, start: number, length: number) => string

/** Texts longer than this are read by Node. Each length up to here has its own piece of code. */
const SHORT = 24

/**
 * Makes a reader: short texts of ASCII are made of their characters at once, which takes a third of
 * the time of a call into Node. That needs a place in the program for each length; where programs
 * may not make code, Node does it all, as it does for texts that are longer or not ASCII.
 */
export function textReader(byNode: ReadText): ReadText {
  let code = 'switch (length) { case 0: return "";\n'
  for (let length = 1; length <= SHORT; length++) {
    const names = Array.from({ length }, (_, i) => `c${i}`)
    const reads = names.map((name, i) => `${name} = bytes[start + ${i}]`)
    code += `case ${length}: { const ${reads.join(', ')};
      if ((${names.join(' | ')}) < 128) return characters(${names.join(', ')}); break }\n`
  }
  code += '} return byNode(bytes, start, length)'
  try {
    const make = new Function(
      'characters',
      'byNode',
      `return (bytes, start, length) => { ${code} }`,
    )
    return make(String.fromCharCode, byNode) as ReadText
  } catch {
    return byNode
  }
}
