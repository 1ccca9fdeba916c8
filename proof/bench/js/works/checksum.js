// The same number for the same values, whether a client has a bigint as text or as BigInt.
'use strict'

function text(value) {
  return value instanceof Date ? value.toISOString() : String(value)
}

/** Of a row with the columns of the table. */
function row({ id, big, name, at, ok, price }) {
  let sum = 0
  for (const value of [id, big, name, at, ok, price]) {
    for (const char of text(value)) sum = (Math.imul(sum, 31) + char.charCodeAt(0)) | 0
  }
  return sum >>> 0
}

function rows(all) {
  let sum = 0
  for (const it of all) sum = (sum + row(it)) % 0x1_0000_0000
  return sum
}

module.exports = { row, rows }
