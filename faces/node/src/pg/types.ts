import type TextParsers = require('pg-types/lib/textParsers')

/** Makes a JavaScript value of what the server sent: a text, or the bytes of the binary format. */
export type Parser = (value: string) => unknown

export type Format = 'text' | 'binary'

/** Who knows a parser for each type: `types`, a `TypeOverrides`, or the `types` of a query. */
export interface TypeSource {
  getTypeParser(oid: number, format?: Format): Parser
}

/** What the package `pg-types` exports. */
export interface Types extends TypeSource {
  /** Registers a parser for the whole process. The format is `text` unless it is said. */
  setTypeParser(oid: number, parse: Parser): void
  setTypeParser(oid: number, format: Format, parse: Parser): void
  /** Reads the text form of an array. Without a function, elements stay texts. */
  readonly arrayParser: {
    create<T = string>(source: string, transform?: (element: string) => T): { parse(): unknown[] }
  }
  /** The numbers of PostgreSQL's own types, by their names in capitals. */
  readonly builtins: { readonly [name: string]: number }
}

/**
 * The parsers of the package `pg-types`, the very object: what is registered here holds for everything
 * in the process that uses that package, and the reverse. It is loaded when it is first asked for,
 * since that takes as long as all the rest.
 */
export function pgTypes(): Types {
  return (loaded ??= require('pg-types') as Types)
}

let loaded: Types | undefined

/** Its parsers of texts as it makes them, whatever is registered by now. */
export function originalParsers(): ReadonlyMap<number, Parser> {
  if (originals === undefined) {
    originals = new Map<number, Parser>()
    const { init } = require('pg-types/lib/textParsers') as typeof TextParsers
    init((type, parse) => originals?.set(type, parse))
  }
  return originals
}

let originals: Map<number, Parser> | undefined

/** Parsers by the number of their type. */
type Parsers = { [oid: number]: Parser }

/** Parsers of one client: its own, and those of its source for all other types. */
export class TypeOverrides implements TypeSource {
  _types: TypeSource
  text: Parsers
  binary: Parsers

  constructor(source?: TypeSource | null) {
    this._types = source || pgTypes()
    this.text = {}
    this.binary = {}
  }

  getOverrides(format: Format): Parsers {
    switch (format) {
      case 'text':
        return this.text
      case 'binary':
        return this.binary
      default:
        return {}
    }
  }

  setTypeParser(oid: number, parse: Parser): void
  setTypeParser(oid: number, format: Format, parse: Parser): void
  setTypeParser(oid: number, format: Format | Parser, parse?: Parser): void {
    if (typeof format === 'function') this.getOverrides('text')[oid] = format
    else this.getOverrides(format)[oid] = parse as Parser
  }

  getTypeParser(oid: number, format?: Format): Parser {
    const wanted = format || 'text'
    return this.getOverrides(wanted)[oid] || this._types.getTypeParser(oid, wanted)
  }
}
