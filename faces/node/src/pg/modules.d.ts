// The parsers of pg-types as they are before anybody registers others; its types leave this file out.
declare module 'pg-types/lib/textParsers' {
  const parsers: {
    init(register: (oid: number, parse: (value: string) => unknown) => void): void
  }
  export = parsers
}
