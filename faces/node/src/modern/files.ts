import { readFileSync, statSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

import { SAYS } from './keyword-table'

/**
 * The files of libpq. They are read here and not in the module, which Node does not need for them:
 * settings are put together before there is an engine, and the module is kept small. A table of
 * cases (`proof/conformance/postgres_settings.json`) holds all languages to the same.
 */

/** A line of a service: its number, a keyword and its value. */
export type Line = readonly [number, string, string]

/** Looks a password up for host, port, database and user. As in libpq, a file that others can access
 * is not used. */
export function passwordOf(
  named: string | undefined,
  wanted: readonly [string, string, string, string],
): string | undefined {
  const file = named ?? ofHome('pgpass.conf', '.pgpass')
  let text: string
  try {
    const stat = statSync(file)
    if (!stat.isFile()) return unused(file, 'it is not a plain file')
    if (process.platform !== 'win32' && (stat.mode & OTHERS) !== 0)
      return unused(file, 'others can access it: chmod 600 the file')
    text = readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
  return matching(text, wanted)
}

function unused(file: string, why: string): undefined {
  process.emitWarning(`${file} is not used, since ${why}`)
}

/** The password of the first line that fits, of the text of a password file. */
function matching(text: string, [host, ...others]: readonly string[]): string | undefined {
  const wanted = [SOCKETS.includes(host as string) ? 'localhost' : (host as string), ...others]
  const fits = new RegExp(`^${wanted.map((it) => `(?:\\*:|${quoted(it)}:)`).join('')}((?:\\\\[^]|[^:])*)`, 'u')
  for (const line of text.split('\n')) {
    const found = line.startsWith('#') ? null : fits.exec(line.replace(/\r+$/, ''))
    if (found !== null) return (found[1] as string).replace(/\\([^])/gu, '$1')
  }
  return undefined
}

/** A pattern for a field: a backslash may stand before each character, and has to before itself. */
function quoted(field: string): string {
  const character = (it: string): string => (it === '\\' ? String.raw`\\\\` : String.raw`\\?` + escaped(it))
  return Array.from(field, character).join('')
}

function escaped(character: string): string {
  return /[\^$.*+?()[\]{}|/]/.test(character) ? `\\${character}` : character
}

/**
 * The lines of a service, from the first of its files that has it. As in libpq, what is wrong with
 * a file is an error.
 */
export function serviceOf(name: string, named: string | undefined): { file: string; lines: Line[] } {
  const common = process.env['PGSYSCONFDIR'] || '/etc/postgresql-common'
  const own = named ?? ofHome('.pg_service.conf', '.pg_service.conf')
  const files = [own, join(common, 'pg_service.conf')]
  for (const file of files) {
    let text: string
    try {
      text = readFileSync(file, 'utf8')
    } catch {
      if (file === named) throw new TypeError(`postgres: ${SAYS.noFile}${file}`)
      continue
    }
    const lines = sectionOf(text, name, file)
    if (lines !== undefined) return { file, lines }
  }
  throw new TypeError(`postgres: ${SAYS.notFound}${files.join(', ')}`)
}

/** The error of a line of a service file. */
export function wrongLine(file: string, line: number, what: string): TypeError {
  return new TypeError(`postgres: in the service file ${file}, line ${line}: ${what}`)
}

function sectionOf(text: string, name: string, file: string): Line[] | undefined {
  let lines: Line[] | undefined
  let number = 0
  for (const [whole] of text.matchAll(/[^\n]*\n|[^\n]+$/g)) {
    number++
    if (Buffer.byteLength(whole) > LINE_MAX) throw wrongLine(file, number, SAYS.tooLong)
    const line = whole.replace(/^[ \t\n\r\v\f]+|[ \t\n\r\v\f]+$/g, '')
    if (line === '' || line.startsWith('#')) continue
    if (line.startsWith('[')) {
      if (lines !== undefined) break
      // As in libpq, what stands behind the bracket is not looked at.
      if (line.startsWith(`[${name}]`)) lines = []
    } else if (lines !== undefined) {
      const at = line.indexOf('=')
      const keyword = line.slice(0, Math.max(at, 0))
      if (line.startsWith('ldap')) throw wrongLine(file, number, SAYS.ldap)
      if (at < 0) throw wrongLine(file, number, SAYS.noSetting)
      if (/^service(?:file)?$/.test(keyword)) throw wrongLine(file, number, SAYS.nested)
      lines.push([number, keyword, line.slice(at + 1)])
    }
  }
  return lines
}

function ofHome(inData: string, inHome: string): string {
  return process.platform === 'win32'
    ? join(process.env['APPDATA'] || './', 'postgresql', inData)
    : join(process.env['HOME'] || homedir(), inHome)
}

/** The directories of sockets for which the password file has entries for `localhost`. */
const SOCKETS: readonly string[] = ['/var/run/postgresql', '/tmp']

/** Any access of the group or of others. */
const OTHERS = 0o077

/** Bytes of a line with its end: libpq's buffer. */
const LINE_MAX = 1022
