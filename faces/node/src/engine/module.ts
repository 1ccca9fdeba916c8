import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/**
 * The bytes of the module: the committed file, somewhere above the compiled source.
 *
 * A package has another `moduleBytes` in place of this one, with the module in it
 * (scripts/packages).
 */
export function moduleBytes(): Uint8Array {
  for (let folder = __dirname; ; folder = dirname(folder)) {
    const file = join(folder, 'wasm', 'onetrip.wasm')
    if (existsSync(file)) return readFileSync(file)
    if (folder === dirname(folder))
      throw new Error(`There is no wasm/onetrip.wasm above ${__dirname}`)
  }
}
