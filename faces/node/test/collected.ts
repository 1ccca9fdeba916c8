import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

import { until } from './redis-server'

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as () => void

/** Collects garbage until the condition holds, for half a minute at most. */
export function collectedUntil(holds: () => boolean | Promise<boolean>): Promise<void> {
  return until(async () => {
    gc()
    // What the collector found is told in a turn of its own.
    await new Promise(setImmediate)
    return holds()
  })
}

/** The warnings of this library that the process has emitted for what was abandoned. */
export const warnings: string[] = []
process.on('warning', (warning: Error & { code?: string }) => {
  if (warning.code === 'ONETRIP_ABANDONED') warnings.push(warning.message)
})
