// The parsers of pg-types before others are registered. Its types leave this file out.
declare module 'pg-types/lib/textParsers' {
  const parsers: {
    init(register: (oid: number, parse: (value: string) => unknown) => void): void
  }
  export = parsers
}
