import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'

import { defaults } from '../src/pg/defaults'
import { escapeIdentifier, escapeLiteral } from '../src/pg/escape'
import { normalizeQueryConfig, prepareValue } from '../src/pg/prepare'
import { pg } from './pg/ask'
import { prepareMany, same } from './pg/prepared'

test('values of all kinds are prepared as pg prepares them', () => prepareMany(20_000))

class Money {
  constructor(readonly amount: number) {}
  toPostgres(prepare: (value: unknown) => unknown): unknown {
    return prepare([this.amount, new Date(0)])
  }
}

test('particular values are prepared as pg prepares them', () => {
  const date = new Date(2020, 1, 29, 12, 34, 56, 7)
  const circle: { toPostgres(): unknown } = { toPostgres: () => circle }
  const bytes = new Uint8Array([1, 2, 3, 255]).subarray(1)
  const typed = new Float64Array([1.5])
  for (const value of [
    null,
    undefined,
    '',
    'text',
    'é\u0000',
    0,
    -0,
    1.5,
    1e21,
    NaN,
    -Infinity,
    12n,
    true,
    false,
    Symbol('s'),
    () => 1,
    date,
    [],
    [[]],
    [
      [1, [2]],
      [null, undefined],
    ],
    ['a"b\\c', '{}', 'NULL', ''],
    [true, 12n, date, { a: 1 }, new Money(5)],
    [Buffer.from([1, 255])],
    [bytes],
    [typed],
    [new DataView(typed.buffer)],
    Buffer.from('x'),
    bytes,
    typed,
    new DataView(typed.buffer, 2, 3),
    typed.buffer,
    new SharedArrayBuffer(2),
    {},
    { a: undefined, b: [1], c: date },
    { toJSON: () => 'json' },
    { toJSON: () => undefined },
    Object.create(null),
    new Map([[1, 2]]),
    new String('s'),
    new Number(1),
    new Boolean(true),
    new Error('e'),
    /x/,
    new Money(1),
    [new Money(1)],
    { toPostgres: () => null },
    { toPostgres: () => undefined },
    { toPostgres: () => ({ a: 1 }) },
    { toPostgres: () => new Money(2) },
    { toPostgres: () => Buffer.from('b') },
    { toPostgres: 1 },
    circle,
    { toPostgres: () => ({ toPostgres: () => circle }) },
    {
      toPostgres: () => {
        throw new Error('mine')
      },
    },
    new Date(NaN),
    new Date(-62167219200000),
    new Date(-1e14),
    new Date(8.64e15),
    new Date(-8.64e15),
    new (class extends Date {})(5),
    new (class extends Array<number> {})(1, 2),
  ]) {
    same(value)
  }
  assert.throws(() => prepareValue(circle), /circular reference detected while preparing/)
  const odd = [{ toPostgres: () => Buffer.from('b') }]
  for (const value of [odd, [{ toPostgres: () => null }], [{ toJSON: () => undefined }]]) {
    assert.throws(() => prepareValue(value), TypeError)
    assert.throws(() => pg.utils.prepareValue(value), TypeError)
  }
})

test('bytes of a value are sent without a copy', () => {
  const buffer = Buffer.from('x')
  assert.equal(prepareValue(buffer), buffer)
  const bytes = new Uint8Array([1, 2])
  assert.equal((prepareValue(bytes) as Uint8Array).buffer, bytes.buffer)
})

test('dates are prepared in UTC if the defaults say so', () => {
  for (const setting of [true, false]) {
    defaults.parseInputDatesAsUTC = pg.defaults['parseInputDatesAsUTC'] = setting
    try {
      for (const time of [0, 1e12 + 7, -62167219200001, -1e14, NaN]) same(new Date(time))
      prepareMany(1000)
    } finally {
      defaults.parseInputDatesAsUTC = pg.defaults['parseInputDatesAsUTC'] = false
    }
  }
})

for (const zone of ['America/St_Johns', 'Africa/Monrovia', 'Asia/Kolkata']) {
  test(`values are prepared as pg prepares them in the time zone ${zone}`, async () => {
    const env = { ...process.env, TZ: zone }
    await promisify(execFile)(process.execPath, [join(__dirname, 'pg/prepared.js'), '5000'], {
      env,
    })
  })
}

test('queries are normalized as by pg, without changing the caller’s object', () => {
  const done = (): void => {}
  class Config {
    text = 'select 1'
    get name(): string {
      return 'named'
    }
  }
  const config = { text: 'select 2', values: [1] }
  const all: [unknown, unknown?, unknown?][] = [
    ['select 1'],
    ['select 1', [1]],
    ['select 1', done],
    ['select 1', [1], done],
    ['select 1', null, done],
    [config],
    [config, [2]],
    [config, done],
    [config, [2], done],
    [new Config()],
    [new Config(), [3]],
  ]
  for (const [first, second, third] of all) {
    const expected = pg.utils.normalizeQueryConfig(first, second, third)
    const actual = normalizeQueryConfig(first as object, second, third as undefined)
    assert.deepStrictEqual(actual, expected)
    assert.deepEqual(
      Object.getOwnPropertyDescriptors(actual),
      Object.getOwnPropertyDescriptors(expected),
    )
    assert.notEqual(actual, first)
  }
  assert.deepEqual(config, { text: 'select 2', values: [1] })
})

test('names and literals are quoted as pg quotes them', () => {
  const texts = [
    '',
    'a',
    'A b',
    '"',
    '""x"',
    "'",
    "''",
    '\\',
    "\\'",
    'é',
    '$&',
    'a\'b\\c"d',
    '\n',
    '${x}',
  ]
  for (const text of texts) {
    assert.equal(escapeIdentifier(text), pg.escapeIdentifier(text))
    assert.equal(escapeLiteral(text), pg.escapeLiteral(text))
  }
  for (const value of [null, undefined, 1, {}, ['a']]) {
    assert.equal(escapeLiteral(value), pg.escapeLiteral(value))
  }
})
