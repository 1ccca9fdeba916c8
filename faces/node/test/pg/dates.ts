import assert from 'node:assert/strict'

import { memory } from '../../src/engine/memory'
import { directOf } from '../../src/pg/scalars'
import { pgTypes } from '../../src/pg/types'
import { seeded } from './ask'

const parse = pgTypes().getTypeParser(1184)
const direct = directOf(parse)

/** Compares a date read from memory with that of the parser of pg-types. */
export function compareDate(text: string, hint = ''): void {
  assert.ok(direct)
  const bytes = Buffer.from(text)
  const actual = memory.lend(bytes, (start) => direct.read(memory.bytes, start, bytes.length))
  assert.ok(Object.is(plain(actual), plain(parse(text))), `${text}${hint}: ${plain(actual)}`)
}

function plain(value: unknown): unknown {
  return value instanceof Date ? `time ${value.getTime()}` : value
}

/** Compares dates of all forms, from a seed. */
export function compareDates(count: number): void {
  const { seed, below } = seeded()
  const digits = (value: number, length: number): string => String(value).padStart(length, '0')
  const one = (...choices: string[]): string => choices[below(choices.length)] as string
  const two = (limit: number): string => digits(below(limit), 2)
  for (let i = 0; i < count; i++) {
    const year = one(
      digits(below(10000), 4),
      digits(1900 + below(200), 4),
      digits(below(120), 4),
      String(below(300000)),
    )
    const month = below(50) === 0 ? two(20) : digits(1 + below(12), 2)
    const date = `${year}-${month}-${below(50) === 0 ? two(100) : digits(1 + below(31), 2)}`
    const fraction = one('', '', '.' + '0'.repeat(below(4)) + String(below(10 ** (1 + below(6)))))
    const time = ` ${two(25)}:${two(61)}:${two(61)}${fraction}`
    const offset = one(
      '',
      '+00',
      `+${two(16)}`,
      `-${two(16)}`,
      `+${two(16)}:${two(60)}`,
      `-${two(16)}:${two(60)}:${two(60)}`,
      'Z',
    )
    let text = `${date}${one('', time, time + offset, time + offset)}${one('', '', '', ' BC')}`
    if (below(10) === 0) {
      const at = below(text.length)
      text =
        text.slice(0, at) +
        one('', ':', '-', '+', ' ', '.', '0', '9', 'x') +
        text.slice(at + below(2))
    }
    compareDate(text, ` (ONETRIP_SEED=${seed} TZ=${process.env['TZ']})`)
  }
}

if (require.main === module && process.argv[2]) compareDates(Number(process.argv[2]))
