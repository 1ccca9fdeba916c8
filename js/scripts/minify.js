'use strict'
// Less to read for a machine, and no less for a person who looks at a stack trace: blanks go, and
// variables within functions get short names. Functions, classes and methods keep theirs, private
// ones too: where all of a name is put back, nothing clashes that did not before.

const { transformSync } = require('esbuild')

function minify(text) {
  const options = { target: 'node20', platform: 'node', lineLimit: 100, legalComments: 'none' }
  const { code, map } = transformSync(text, { ...options, minify: true, sourcemap: 'external' })
  const kept = new Set(Array.from(text.matchAll(NAMED), ([, ...names]) => names.find(Boolean)))
  const { mappings, names } = JSON.parse(map)
  const lines = code.split('\n')
  let index = 0
  for (const [number, row] of mappings.split(';').entries()) {
    let line = lines[number] ?? ''
    let column = 0
    let shift = 0
    for (const segment of row === '' ? [] : row.split(',')) {
      const [skip, , , , step] = numbersOf(segment)
      column += skip
      if (step === undefined) continue
      index += step
      const name = names[index]
      if (!kept.has(name)) continue
      const at = column + shift
      const short = /^#?\w+/.exec(line.slice(at))[0]
      line = line.slice(0, at) + name + line.slice(at + short.length)
      shift += name.length - short.length
    }
    lines[number] = line
  }
  return lines.join('\n')
}

/**
 * The numbers of a segment of a source map: base 64, five bits a character, the sign in the lowest
 * bit.
 */
function numbersOf(segment) {
  const numbers = []
  let value = 0
  let shift = 0
  for (const character of segment) {
    const digit = DIGITS.indexOf(character)
    value |= (digit & 31) << shift
    shift += 5
    if (digit & 32) continue
    numbers.push(value & 1 ? -(value >>> 1) : value >>> 1)
    value = shift = 0
  }
  return numbers
}

/** A class, a function, a private method, or a private field that is a function. */
const NAMED =
  /\b(?:class|function\*?) (\w+)|^ +(?:async |static |get |set |\*)*(#\w+)(?:\(.*\) \{$| = .*=>)/gm

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

module.exports = { minify }
