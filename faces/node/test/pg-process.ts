import { spawn } from 'node:child_process'
import { join } from 'node:path'

import { url } from './pg-both'

export const OURS = join(__dirname, '../src/pg')
export const THEIRS = require.resolve('pg')

/** The end of a process: its code and its output. */
export interface End {
  code: number | null
  out: string
  err: string
}

/** Runs a program with `Client`, `Pool` and `url`. It is killed if it does not end by itself. */
export function run(from: string, program: string): Promise<End> {
  const text = `const { Client, Pool } = require(${JSON.stringify(from)});
    const url = ${JSON.stringify(url)};
    (async () => { ${program} })()`
  const child = spawn(process.execPath, ['-e', text], { timeout: 300_000 })
  let out = ''
  let err = ''
  child.stdout.on('data', (chunk) => (out += chunk))
  child.stderr.on('data', (chunk) => (err += chunk))
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, out, err })))
}
