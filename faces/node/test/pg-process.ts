import { spawn } from 'node:child_process'
import { join } from 'node:path'

import { url } from './pg-both'

export const OURS = join(__dirname, '../src/pg')
export const THEIRS = require.resolve('pg')

/** What a process of its own came to: how it ended, what it said, and how long it took. */
export interface End {
  code: number | null
  out: string
  err: string
}

/** Runs a program that has `Client`, `Pool` and `url`, and is killed if it does not end by itself. */
export function run(from: string, program: string): Promise<End> {
  const text = `const { Client, Pool } = require(${JSON.stringify(from)});
    const url = ${JSON.stringify(url)};
    (async () => { ${program} })()`
  const child = spawn(process.execPath, ['-e', text], { timeout: 8_000 })
  let out = ''
  let err = ''
  child.stdout.on('data', (chunk) => (out += chunk))
  child.stderr.on('data', (chunk) => (err += chunk))
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, out, err })))
}
