import { readMoment } from '../pg/dates'
import { originalParsers, pgTypes, type Format, type Parser, type TypeSource } from '../pg/types'

/** Decodes a value from its text form, in which the server sends it. */
export type Decode = (text: string) => unknown

/**
 * Functions that decode values, by the name of a built-in type or by the OID of any type. They
 * replace the defaults.
 */
export type Types = { readonly [type: string | number]: Decode }

/**
 * The functions that decode values. The defaults lose nothing but the microseconds of
 * `timestamptz`. Types without a default are strings, and so are the elements of their arrays.
 */
export class Values implements TypeSource {
  readonly #byNumber: Map<number, Parser>

  constructor(given: Types = {}) {
    this.#byNumber = new Map(DEFAULTS)
    for (const [type, decode] of Object.entries(given)) this.#register(type, decode)
    for (const [element, array] of Object.values(BUILT_IN)) {
      if (!this.#byNumber.has(array))
        this.#byNumber.set(array, parserOf(array, this.#byNumber.get(element)))
    }
  }

  getTypeParser(type: number, _format?: Format): Parser {
    return this.#byNumber.get(type) ?? TEXT
  }

  #register(type: string, decode: Decode): void {
    if (typeof decode !== 'function')
      throw new TypeError(`types: ${type} needs a function`)
    const number = /^[0-9]+$/.test(type) ? Number(type) : BUILT_IN[type]?.[0]
    if (number === undefined) {
      throw new TypeError(`types: ${type} is not a built-in type: use its OID`)
    }
    this.#byNumber.set(number, decode)
  }
}

function parserOf(array: number, element: Parser | undefined): Parser {
  return array === BUILT_IN.box?.[1] ? boxesParser(element) : arrayParser(element)
}

function arrayParser(element: Parser | undefined): Parser {
  const { arrayParser: parser } = pgTypes()
  return (text) => parser.create(text, element).parse()
}

/** `{(1,1),(0,0);(3,3),(2,2)}`: the elements of the type with another separator have commas. */
function boxesParser(element: Parser | undefined): Parser {
  const parse = arrayParser(element)
  return (text) => parse(text.replace(/\([^;{}]*\)/g, '"$&"').replaceAll(';', ','))
}

/** The parsers of `pg-types`. The reader knows them, and decodes these types without a string. */
const ORIGINAL = originalParsers()

/** Returns the text unchanged. */
const TEXT = pgTypes().getTypeParser(0, 'none' as 'text')

const INTEGER = ORIGINAL.get(23) as Parser
const FLOAT = ORIGINAL.get(701) as Parser
const parseJson: Parser = (text) => JSON.parse(text) as unknown

const DEFAULTS: readonly (readonly [number, Parser])[] = [
  [16, ORIGINAL.get(16) as Parser],
  [17, ORIGINAL.get(17) as Parser],
  [20, BigInt],
  [21, INTEGER],
  [23, INTEGER],
  [26, INTEGER],
  [700, FLOAT],
  [701, FLOAT],
  [114, parseJson],
  [3802, parseJson],
  [1184, readMoment],
]

/** The OIDs of built-in types and of their arrays (src/include/catalog/pg_type.dat). */
const BUILT_IN: { readonly [name: string]: readonly [type: number, array: number] } = {
  bool: [16, 1000],
  bytea: [17, 1001],
  char: [18, 1002],
  name: [19, 1003],
  int8: [20, 1016],
  int2: [21, 1005],
  int4: [23, 1007],
  text: [25, 1009],
  oid: [26, 1028],
  json: [114, 199],
  xml: [142, 143],
  point: [600, 1017],
  lseg: [601, 1018],
  path: [602, 1019],
  box: [603, 1020],
  polygon: [604, 1027],
  line: [628, 629],
  cidr: [650, 651],
  float4: [700, 1021],
  float8: [701, 1022],
  circle: [718, 719],
  money: [790, 791],
  macaddr: [829, 1040],
  inet: [869, 1041],
  bpchar: [1042, 1014],
  varchar: [1043, 1015],
  date: [1082, 1182],
  time: [1083, 1183],
  timestamp: [1114, 1115],
  timestamptz: [1184, 1185],
  interval: [1186, 1187],
  timetz: [1266, 1270],
  bit: [1560, 1561],
  varbit: [1562, 1563],
  numeric: [1700, 1231],
  uuid: [2950, 2951],
  jsonb: [3802, 3807],
  int4range: [3904, 3905],
  numrange: [3906, 3907],
  tsrange: [3908, 3909],
  tstzrange: [3910, 3911],
  daterange: [3912, 3913],
  int8range: [3926, 3927],
}
