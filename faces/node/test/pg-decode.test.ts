import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'

import { memory } from '../src/engine/memory'
import { knownKinds, rowReader } from '../src/pg/decode'
import { defaults } from '../src/pg/defaults'
import { Field, readFields } from '../src/pg/fields'
import { Result } from '../src/pg/result'
import { TypeOverrides, pgTypes, type Format, type Parser, type TypeSource } from '../src/pg/types'
import { pg, rowBody, seeded, withMessage } from './pg/ask'

const MODES = ['object', 'array'] as const
const types = pgTypes()

function fieldsOf(columns: readonly (readonly [string, number, Format?])[]): Field[] {
  return columns.map(([name, oid, format]) => new Field(name, 0, 0, oid, 4, -1, format ?? 'text'))
}

/** Three readers: a new one, one that has generated code, and one that was made after that. */
function readersOf(
  fields: readonly Field[],
  mode: 'object' | 'array' = 'object',
  source: TypeSource = types,
): ((at: number) => unknown)[] {
  const cold = rowReader(fields, source, mode)
  const warm = rowReader(fields.slice(), source, mode)
  const nulls = rowBody(fields.map(() => null))
  withMessage('D', nulls, (start) => {
    for (let i = 0; i < 20; i++) warm(start)
  })
  return [cold, warm, rowReader(fields.slice(), source, mode)]
}

/** Reads a row in all ways, which must agree. */
function readRow(
  fields: readonly Field[],
  values: readonly (string | Buffer | null)[],
  mode: 'object' | 'array' = 'object',
  source: TypeSource = types,
): unknown {
  // The first reader is used before code is generated for the kind.
  const cold = rowReader(fields, source, mode)
  const [first, ...others] = withMessage('D', rowBody(values), (start) => [
    cold(start),
    ...readersOf(fields, mode, source).map((read) => read(start)),
  ])
  for (const other of others) assert.deepStrictEqual(other, first)
  return first
}

// This test comes first, since the others add kinds of rows.
test('code is generated once for each kind of rows, and kept for a limited number of kinds', () => {
  const before = knownKinds()
  const fresh = (): Field[] =>
    fieldsOf([
      ['only in this test', 23],
      ['and this', 25],
    ])
  const parser = (): TypeSource => ({ getTypeParser: () => (text) => text })
  const fields = fresh()
  assert.equal(rowReader(fields, types, 'object'), rowReader(fields, types, 'object'))
  assert.notEqual(rowReader(fields, types, 'object'), rowReader(fields, types, 'array'))
  for (let i = 0; i < 10; i++) rowReader(fresh(), types, 'object')
  for (let i = 0; i < 10; i++) rowReader(fresh(), parser(), 'object')
  assert.equal(knownKinds(), before + 3)
  for (let i = 0; i < 2000; i++) rowReader(fieldsOf([[`column ${i}`, 23]]), types, 'object')
  assert.ok(knownKinds() <= 512)
})

test('rows have the same values, names and order as those of pg', () => {
  const random = seeded()
  const oids = [16, 20, 21, 23, 25, 26, 700, 701, 1043, 1082, 1114, 1184, 1700, 114, 17, 1007, 1186]
  const names = [
    'a',
    'b',
    '__proto__',
    'constructor',
    '1',
    '0',
    'é "quoted"',
    '\u2028',
    '',
    "'",
    '\\',
    '${x}',
    'toString',
  ]
  const texts = [
    '1',
    '-1',
    '0',
    '12.5',
    't',
    'f',
    'x',
    '',
    'NaN',
    '2020-01-02',
    '2020-01-02 03:04:05',
    '2020-01-02 03:04:05.6+07',
    '{1,2}',
    '99999999999999999999',
    '-',
    '.',
    '1.',
    '.5',
    '1.5.5',
    '-0',
    'é',
  ]
  const pick = <T>(list: readonly T[]): T => list[random.below(list.length)] as T
  for (let i = 0; i < 1000; i++) {
    const fields = fieldsOf(
      Array.from({ length: random.below(8) }, () => [pick(names), pick(oids)] as const),
    )
    const values = fields.map(() => (random.below(8) === 0 ? null : pick(texts)))
    for (const mode of MODES) {
      const theirs = new pg.Result(mode) as Result
      theirs.addFields(fields)
      const ours = new Result(mode)
      ours.addFields(fields)
      const [expected, actual, raw] = [
        () => theirs.parseRow(values),
        () => readRow(fields, values, mode),
        () => ours.parseRow(values),
      ].map(outcome)
      const hint = `seed ${random.seed}: ${JSON.stringify([fields.map((f) => [f.name, f.dataTypeID]), values])}`
      assert.deepStrictEqual(actual, expected, hint)
      assert.deepStrictEqual(raw, expected, hint)
      if (Array.isArray(expected))
        assert.deepEqual(Object.keys(actual as []), Object.keys(expected))
    }
  }
})

function outcome(read: () => unknown): unknown {
  try {
    const row = read()
    return Object.entries(row as object)
  } catch (error) {
    return String(error)
  }
}

test('an empty text is read without the bytes behind it', () => {
  const row = rowBody([''])
  const length = Buffer.from([0, 0, 0, 4 + row.length])
  const message = Buffer.concat([Buffer.from('D'), length, row, Buffer.from('-1')])
  for (const oid of [23, 701, 16, 25, 1184]) {
    const fields = fieldsOf([['a', oid]])
    const [value] = memory.lend(message, (start) =>
      rowReader(fields, types, 'array')(start),
    ) as unknown[]
    assert.deepStrictEqual(value, types.getTypeParser(oid)(''))
  }
})

test('names of columns are never run as code', () => {
  const fields = fieldsOf([
    ['__proto__', 25],
    ['constructor', 25],
    ['hasOwnProperty', 25],
  ])
  const row = readRow(fields, ['a', 'b', 'c']) as object
  assert.equal(Object.getPrototypeOf(row), Object.prototype)
  assert.deepEqual(Object.entries(row), [
    ['__proto__', 'a'],
    ['constructor', 'b'],
    ['hasOwnProperty', 'c'],
  ])
  const evil = "']: (globalThis.broken = 1), ['x"
  assert.deepEqual(readRow(fieldsOf([[evil, 23]]), ['1']), { [evil]: 1 })
  assert.equal('broken' in globalThis, false)
})

test('a parser that is registered for the process is used from then on', () => {
  const fields = fieldsOf([
    ['a', 23],
    ['b', 25],
  ])
  const [before, other] = [types.getTypeParser(23), types.getTypeParser(25)]
  try {
    assert.deepEqual(readRow(fields, ['1', 'x']), { a: 1, b: 'x' })
    types.setTypeParser(23, (text) => `int ${text}`)
    types.setTypeParser(25, 'text', (text) => text.length)
    assert.deepEqual(readRow(fields, ['1', 'xyz']), { a: 'int 1', b: 3 })
  } finally {
    types.setTypeParser(23, before)
    types.setTypeParser(25, other)
  }
  assert.deepEqual(readRow(fields, ['1', 'x']), { a: 1, b: 'x' })
})

test('defaults.parseInt8 makes numbers of int8 and back', () => {
  const fields = fieldsOf([
    ['a', 20],
    ['b', 1016],
  ])
  defaults.parseInt8 = true
  assert.deepEqual(readRow(fields, ['12', '{1,-2}']), { a: 12, b: [1, -2] })
  types.setTypeParser(20, BigInt)
  assert.deepEqual(readRow(fields, ['12', '{1,-2}']), { a: 12n, b: [1, -2] })
  defaults.parseInt8 = false
  assert.deepEqual(readRow(fields, ['12', '{1,-2}']), { a: '12', b: ['1', '-2'] })
})

test('parsers of a client and of a query come before those of the process', () => {
  const ours = new TypeOverrides()
  const theirs = new pg.TypeOverrides()
  for (const overrides of [ours, theirs]) {
    overrides.setTypeParser(23, (text) => Number(text) + 0.5)
    assert.deepEqual(
      readRow(
        fieldsOf([
          ['a', 23],
          ['b', 21],
        ]),
        ['1', '2'],
        'array',
        overrides,
      ),
      [1.5, 2],
    )
  }
  ours.setTypeParser(25, 'binary', (bytes) => (bytes as unknown as Buffer).toString('hex'))
  assert.deepEqual(
    readRow(fieldsOf([['a', 25, 'binary']]), [Buffer.from([255, 0])], 'object', ours),
    { a: 'ff00' },
  )
  assert.equal(ours.getTypeParser(25, 'text'), types.getTypeParser(25, 'text'))
  assert.equal(new TypeOverrides(ours).getTypeParser(23), ours.getTypeParser(23))
  assert.deepEqual(Object.keys(ours), Object.keys(theirs))
})

test('parsers get each value once, in order, and no NULL', () => {
  const heard: string[] = []
  const source: TypeSource = {
    getTypeParser: (oid, format) => {
      heard.push(`${oid} ${format}`)
      return (text) => void heard.push(`${oid} ${text}`)
    },
  }
  const fields = fieldsOf([
    ['a', 1],
    ['b', 2],
    ['a', 3],
  ])
  rowReader(fields, source, 'object')
  assert.deepEqual(heard, ['1 text', '2 text', '3 text'])
  for (const read of readersOf(fields, 'object', source)) {
    heard.length = 0
    withMessage('D', rowBody(['x', null, 'z']), (start) => read(start))
    assert.deepEqual(heard, ['1 x', '3 z'])
  }
})

test('an error of a parser is thrown', () => {
  const source: TypeSource = { getTypeParser: () => () => assert.fail('no') }
  for (const mode of MODES) {
    for (const read of readersOf(fieldsOf([['a', 1]]), mode, source)) {
      assert.throws(() => withMessage('D', rowBody(['x']), (start) => read(start)), /no/)
    }
  }
  assert.throws(() => readRow(fieldsOf([['a', 114]]), ['{']), SyntaxError)
})

test('a parser may let memory grow', () => {
  let room = 0
  const grow: Parser = (text) => {
    const before = memory.engine.memory.buffer
    room = memory.engine.onetrip_alloc(memory.bytes.length)
    memory.refresh()
    assert.notEqual(memory.engine.memory.buffer, before)
    memory.engine.onetrip_free(room, before.byteLength)
    return text
  }
  const source: TypeSource = {
    getTypeParser: (oid, format) => (oid === 1 ? grow : types.getTypeParser(oid, format)),
  }
  const fields = fieldsOf([
    ['a', 1],
    ['b', 23],
    ['c', 25],
  ])
  assert.deepEqual(readRow(fields, ['x', '7', 'long enough to be read by node'], 'array', source), [
    'x',
    7,
    'long enough to be read by node',
  ])
})

test('values stay as they are when the memory changes', () => {
  const fields = fieldsOf([
    ['a', 25],
    ['b', 17, 'binary'],
    ['c', 17],
  ])
  const keep: TypeSource = {
    getTypeParser: (oid, format) =>
      format === 'binary' ? (bytes) => bytes : types.getTypeParser(oid, format),
  }
  const row = withMessage(
    'D',
    rowBody(['x'.repeat(100), Buffer.from([1, 2]), '\\x0304']),
    (start, end) => {
      const read = rowReader(fields, keep, 'array')(start)
      memory.bytes.fill(0, start, end)
      return read
    },
  )
  assert.deepEqual(row, ['x'.repeat(100), Buffer.from([1, 2]), Buffer.from([3, 4])])
})

test('a row that has other columns than were described is refused', () => {
  const fields = fieldsOf([
    ['a', 23],
    ['b', 25],
  ])
  const long = rowBody(['1', 'x'])
  long.writeInt32BE(1 << 30, 2)
  const shifted = rowBody(['1', 'x'])
  shifted.writeInt32BE(2, 2)
  const bodies = [
    rowBody(['1']),
    rowBody(['1', 'x', 'y']),
    Buffer.concat([rowBody(['1', 'x']), Buffer.from([0])]),
    long,
    shifted,
  ]
  for (const body of bodies) {
    for (const mode of MODES) {
      for (const read of readersOf(fields, mode)) {
        assert.throws(() => withMessage('D', body, (start) => read(start)))
      }
    }
  }
})

test('a description that ends within a column is refused', () => {
  const whole = Buffer.concat([Buffer.from([0, 1]), Buffer.from('name\0'), Buffer.alloc(18, 255)])
  const [field] = withMessage('T', whole, (start) => readFields(start))
  assert.deepEqual(
    { ...field },
    {
      name: 'name',
      tableID: 4294967295,
      columnID: -1,
      dataTypeID: 4294967295,
      dataTypeSize: -1,
      dataTypeModifier: -1,
      format: 'binary',
    },
  )
  for (let length = 2; length < whole.length; length++) {
    assert.throws(() => withMessage('T', whole.subarray(0, length), (start) => readFields(start)))
  }
})

test('rows of very many columns are read', () => {
  const fields = fieldsOf(Array.from({ length: 1600 }, (_, i) => [`c${i}`, 23] as const))
  const values = fields.map((_, i) => String(i))
  assert.deepEqual(
    readRow(fields, values, 'array'),
    fields.map((_, i) => i),
  )
  assert.deepEqual(
    Object.keys(readRow(fields, values) as object),
    fields.map(({ name }) => name),
  )
})

test('rows are the same if the program may not generate code', async () => {
  const args = ['--disallow-code-generation-from-strings', join(__dirname, 'pg/no-code.js'), 'run']
  const { stdout } = await promisify(execFile)(process.execPath, args)
  assert.deepEqual(JSON.parse(stdout), ['id', '__proto__', 'at', 'text'])
})
