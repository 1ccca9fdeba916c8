import type TextParsers = require('pg-types/lib/textParsers')

/** Converts a value of the server: its text, or the bytes of the binary format. */
export type Parser = (value: string) => unknown

export type Format = 'text' | 'binary'

/** Looks up the parser of a type: `types`, a `TypeOverrides`, or the `types` of a query. */
export interface TypeSource {
  getTypeParser(oid: number, format?: Format): Parser
}

/** The exports of the package `pg-types`. */
export interface Types extends TypeSource {
  /** Registers a parser for the whole process. The default format is `text`. */
  setTypeParser(oid: number, parse: Parser): void
  setTypeParser(oid: number, format: Format, parse: Parser): void
  /** Reads the text form of an array. Without `transform` its elements are strings. */
  readonly arrayParser: {
    create<T = string>(source: string, transform?: (element: string) => T): { parse(): unknown[] }
  }
  /** The OIDs of built-in types, by their names in capitals. */
  readonly builtins: { readonly [name: string]: number }
}

/**
 * The exports of the package `pg-types`. It is the same object, so parsers that are registered here
 * apply to everything in the process that uses that package, and the reverse. It is loaded at its
 * first use, since loading it takes as long as all the rest.
 */
export function pgTypes(): Types {
  return (loaded ??= require('pg-types') as Types)
}

let loaded: Types | undefined

/** The text parsers of `pg-types` itself, whatever users have registered. */
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

/** The parsers of one client: its own, and for all other types those of its source. */
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
