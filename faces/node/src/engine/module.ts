import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/**
 * The bytes of the module: the committed file, in a folder above the compiled source.
 *
 * In a package, scripts/packages puts another `moduleBytes` in place of this one, which holds the
 * module itself.
 */
export function moduleBytes(): Uint8Array {
  for (let folder = __dirname; ; folder = dirname(folder)) {
    const file = join(folder, 'wasm', 'onetrip.wasm')
    if (existsSync(file)) return readFileSync(file)
    if (folder === dirname(folder))
      throw new Error(`no wasm/onetrip.wasm in a folder above ${__dirname}: run scripts/wasm`)
  }
}
