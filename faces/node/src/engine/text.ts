/** Reads UTF-8: `length` bytes from `start`, of the memory with these `bytes`. */
export type ReadText = (bytes: Uint8Array, start: number, length: number) => string

/** Longer texts are read by Node. Each length up to this one has code of its own. */
const SHORT = 24

/**
 * Makes a reader of texts. Short ASCII texts are made by one call of `String.fromCharCode`, which
 * takes a third of the time of a call into Node. That needs generated code for each length. Node
 * reads all other texts, and all texts if the program may not generate code.
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
