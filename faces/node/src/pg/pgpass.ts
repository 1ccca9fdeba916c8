import { readFileSync, statSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

import type { ConnectionParameters } from './parameters'

/**
 * The password for this connection in the file `.pgpass`, or in that of `PGPASSFILE`; undefined if
 * it has none. As in libpq, a file that others can access is not used.
 */
export function passwordOfFile(
  parameters: Pick<ConnectionParameters, 'host' | 'port' | 'database' | 'user'>,
): string | undefined {
  const { env } = process
  if (env['PGPASSWORD'] !== undefined) return undefined
  const file = env['PGPASSFILE'] || defaultFile()
  let text: string
  try {
    const { mode } = statSync(file)
    if (process.platform !== 'win32' && (mode & OTHERS) !== 0) {
      process.emitWarning(`${file} is not used, since others can access it: chmod 600 the file`)
      return undefined
    }
    text = readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
  const { host, port, database, user } = parameters
  const wanted = [host || 'localhost', String(port), database || user, user]
  for (const line of text.split(/\r?\n/)) {
    const parts = line.startsWith('#') ? [] : partsOf(line)
    const fits = parts.length >= 5 && wanted.every((it, i) => parts[i] === '*' || parts[i] === it)
    if (fits) return parts[4]
  }
  return undefined
}

/** Splits a line at its colons, except those behind a backslash. */
function partsOf(line: string): string[] {
  const parts = line.match(/(?:\\.|[^:\\])*(?::|$)/g) ?? []
  return parts.map((part) => part.replace(/:$/, '').replace(/\\(.)/g, '$1'))
}

function defaultFile(): string {
  return process.platform === 'win32'
    ? join(process.env['APPDATA'] || './', 'postgresql', 'pgpass.conf')
    : join(process.env['HOME'] || homedir(), '.pgpass')
}

/** Any access of the group or of others. */
const OTHERS = 0o077
