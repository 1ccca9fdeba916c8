/** Quotes a name as an identifier. */
export function escapeIdentifier(name: string): string {
  return `"${name.replace(/"/g, '""')}"`
}

/**
 * Quotes a text as a literal. Any value that is not a string gives an empty literal.
 *
 * A text with a backslash becomes an escape string (` E'…'`), which means the same whatever
 * `standard_conforming_strings` is.
 */
export function escapeLiteral(text: unknown): string {
  if (typeof text !== 'string') return "''"
  const quoted = `'${text.replace(/['\\]/g, '$&$&')}'`
  return text.includes('\\') ? ` E${quoted}` : quoted
}
