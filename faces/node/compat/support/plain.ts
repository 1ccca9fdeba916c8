// Converts the values that a program saw to JSON, to be compared in another process. Types, classes and
// the order of keys are kept. Values that differ from run to run are left out.

/** A JSON value. */
export type Plain = null | boolean | number | string | Plain[] | { [key: string]: Plain }

/** Converts a value to JSON. A value without a JSON form is an object with one key that begins with `$`. */
export function plain(value: unknown): Plain {
  switch (typeof value) {
    case 'undefined':
      return { $undefined: true }
    case 'number':
      return Number.isFinite(value) && !Object.is(value, -0) ? value : { $number: Object.is(value, -0) ? '-0' : `${value}` }
    case 'bigint':
      return { $bigint: `${value}` }
    case 'function':
      return { $function: value.name }
    case 'symbol':
      return { $symbol: String(value) }
    case 'object':
      return value === null ? null : plainObject(value)
    default:
      return value as string | boolean
  }
}

function plainObject(value: object): Plain {
  if (value instanceof Date) return { $date: Number.isNaN(value.getTime()) ? 'invalid' : value.toISOString() }
  if (Buffer.isBuffer(value)) return { $buffer: value.toString('hex') }
  if (value instanceof Error) return plainError(value)
  if (Array.isArray(value)) return value.map(plain)
  if (value instanceof Map) return { $map: [...value].map(plain) }
  if (value instanceof Set) return { $set: [...value].map(plain) }
  const prototype: unknown = Object.getPrototypeOf(value)
  const fields = plainFields(value)
  if (prototype === Object.prototype) return fields
  if (prototype === null) return { $class: null, ...fields }
  return { $class: value.constructor.name, ...fields }
}

function plainFields(value: object): { [key: string]: Plain } {
  const fields: { [key: string]: Plain } = {}
  for (const [key, part] of Object.entries(value)) {
    if (key.startsWith('_')) continue
    // Each driver has tables of its own, whose OIDs differ.
    const known = key === 'tableID' && typeof part === 'number' ? part > 0 : part
    Object.defineProperty(fields, key, { value: plain(known), enumerable: true, configurable: true })
  }
  return fields
}

/** The printed fields of an error, without its stack. */
function plainError(error: Error): Plain {
  const cause = error.cause === undefined ? {} : { cause: plain(error.cause) }
  return { $error: error.constructor.name, name: error.name, message: error.message, ...plainFields(error), ...cause }
}
