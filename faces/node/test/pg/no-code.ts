import assert from 'node:assert/strict'

import { rowReader } from '../../src/pg/decode'
import { Field } from '../../src/pg/fields'
import { pgTypes } from '../../src/pg/types'
import { rowBody, withMessage } from './ask'

// A program that is run without the right to generate code.
if (process.argv[2] === 'run') {
  assert.throws(() => new Function('return 1'), EvalError)
  const names = ['id', '__proto__', 'id', 'at', 'text']
  const oids = [23, 25, 701, 1184, 25]
  const fields = names.map((name, i) => new Field(name, 0, 0, oids[i] as number, 4, -1, 'text'))
  const body = rowBody([
    '12',
    'x',
    '1.5',
    '2020-01-01 00:00:00.5+00',
    'a longer text with an é in it',
  ])
  const read = (mode: 'object' | 'array'): unknown =>
    withMessage('D', body, (start) => rowReader(fields, pgTypes(), mode)(start))
  const at = new Date('2020-01-01T00:00:00.5Z')
  const text = 'a longer text with an é in it'
  assert.deepStrictEqual(read('array'), [12, 'x', 1.5, at, text])
  assert.deepStrictEqual(read('object'), { ['__proto__']: 'x', id: 1.5, at, text })
  console.log(JSON.stringify(Object.keys(read('object') as object)))
}
