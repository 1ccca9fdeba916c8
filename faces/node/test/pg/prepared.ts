import assert from 'node:assert/strict'
import { inspect } from 'node:util'

import { prepareValue } from '../../src/pg/prepare'
import { pg, seeded } from './ask'

/** The prepared value, or the error. pg also sends NULL for undefined. */
function outcome(prepare: () => unknown): unknown {
  try {
    return prepare() ?? null
  } catch (error) {
    return String(error)
  }
}

export function same(value: unknown, hint = ''): void {
  const expected = outcome(() => pg.utils.prepareValue(value))
  const actual = outcome(() => prepareValue(value))
  assert.deepStrictEqual(actual, expected, `${inspect(value)}${hint}`)
}

/** Compares the prepared values of all kinds of values, from a seed. */
export function prepareMany(count: number): void {
  const { seed, below } = seeded()
  const text = (): string =>
    Array.from({ length: below(6) }, () => 'ab"\\{},\' é𝄞\n'[below(14)]).join('')
  const time = (): Date => new Date((below(2 ** 31) - 2 ** 30) * 10 ** below(6) + below(1000))
  const make = (depth: number): unknown => {
    switch (below(depth > 3 ? 8 : 11)) {
      case 0:
        return text()
      case 1:
        return (below(2000) - 1000) / 10 ** below(5)
      case 2:
        return below(2) === 0 ? null : undefined
      case 3:
        return below(2) === 0
      case 4:
        return BigInt(below(2 ** 31))
      case 5:
        return time()
      case 6:
        return Buffer.from(text())
      case 7:
        return new Uint16Array(below(3))
      case 8:
        return Array.from({ length: below(4) }, () => make(depth + 1))
      case 9:
        return { a: text(), b: below(5), c: time() }
      default: {
        // An object that becomes bytes or NULL throws in an array, with pg's internal message.
        const inner = depth === 0 ? make(depth + 1) : text()
        return { toPostgres: () => inner }
      }
    }
  }
  for (let i = 0; i < count; i++) same(make(0), ` (ONETRIP_SEED=${seed} TZ=${process.env['TZ']})`)
}

if (require.main === module && process.argv[2]) prepareMany(Number(process.argv[2]))
