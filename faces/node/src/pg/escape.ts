/** Quotes a name, so that it stands for itself in a statement. */
export function escapeIdentifier(name: string): string {
  return `"${name.replace(/"/g, '""')}"`
}

/**
 * Quotes a text as a literal. What is no text gives an empty one.
 *
 * With a backslash in it, it becomes an escape string behind a blank, which reads the same however
 * `standard_conforming_strings` is set.
 */
export function escapeLiteral(text: unknown): string {
  if (typeof text !== 'string') return "''"
  const quoted = `'${text.replace(/['\\]/g, '$&$&')}'`
  return text.includes('\\') ? ` E${quoted}` : quoted
}
