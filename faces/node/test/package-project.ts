import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after } from 'node:test'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** The folder `faces/node`. */
export const root = join(__dirname, '../..')

/** How long a program may run. */
const TIMEOUT_MS = 600_000

/** The dependencies of the packages, and other packages that a project of a user has. */
const INSTALLED = [
  '@types/node',
  'pg-connection-string',
  'pg-cursor',
  'pg-int8',
  'pg-types',
  'postgres-array',
  'postgres-bytea',
  'postgres-date',
  'postgres-interval',
  'undici-types',
  'xtend',
]

/** A folder with installed packages, as npm makes it. It is removed after the test. */
export class Project {
  readonly folder = mkdtempSync(join(tmpdir(), 'onetrip-package-'))

  constructor() {
    after(() => rmSync(this.folder, { recursive: true, force: true }))
    for (const name of INSTALLED) this.#link(name)
  }

  /** Puts a tarball where npm would put it under this name. */
  async install(tarball: string, name: string): Promise<string> {
    const folder = join(this.folder, 'node_modules', name)
    mkdirSync(folder)
    await run('tar', ['-x', '-z', '--strip-components', '1', '-C', folder, '-f', tarball])
    return folder
  }

  /** Writes a file and returns its path. */
  write(name: string, text: string): string {
    const file = join(this.folder, name)
    writeFileSync(file, text)
    return file
  }

  /** Runs a program; its last line is JSON. */
  async run(name: string, text: string): Promise<unknown> {
    const lines = (await this.node([this.write(name, text)])).trim().split('\n')
    return JSON.parse(lines.at(-1) as string)
  }

  async node(parameters: string[], environment: { [name: string]: string } = {}): Promise<string> {
    const options = {
      cwd: this.folder,
      timeout: TIMEOUT_MS,
      env: { ...process.env, ...environment },
    }
    const { stdout } = await run(process.execPath, parameters, options)
    return stdout
  }

  #link(name: string): void {
    const to = join(this.folder, 'node_modules', name)
    mkdirSync(dirname(to), { recursive: true })
    symlinkSync(join(root, 'node_modules', name), to)
  }
}

/** The strictest options, which check the declarations of packages too. */
const STRICT = [
  '--strict',
  '--noEmit',
  '--exactOptionalPropertyTypes',
  '--target',
  'es2022',
  '--lib',
  'es2023,esnext.disposable',
  '--types',
  'node',
]

/** The errors of TypeScript in programs; empty if there are none. */
export async function compile(project: Project, parameters: string[]): Promise<string> {
  try {
    return await project.node([join(root, 'node_modules/typescript/bin/tsc'), ...STRICT, ...parameters])
  } catch (error) {
    return (error as { stdout: string }).stdout
  }
}

/** Builds and packs both packages. Returns the tarballs by name. */
export async function pack(project: Project): Promise<{ [name: string]: string }> {
  const out = join(project.folder, 'packages')
  await project.node([join(root, 'scripts/packages'), out])
  const tarballs: { [name: string]: string } = {}
  for (const name of ['onetrip', 'onetrip-pg']) {
    const parameters = [
      'pack',
      '--offline',
      '--json',
      '--loglevel=error',
      '--pack-destination',
      out,
    ]
    const { stdout } = await run('npm', parameters, { cwd: join(out, name), timeout: TIMEOUT_MS })
    const [packed] = JSON.parse(stdout) as { filename: string }[]
    tarballs[name] = join(out, packed?.filename ?? '')
  }
  return tarballs
}
