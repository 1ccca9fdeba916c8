import { misuse } from './error'

/** How a transaction begins. What is not said is left to the server's settings. */
export interface TransactionOptions {
  readonly isolation?:
    'read uncommitted' | 'read committed' | 'repeatable read' | 'serializable' | undefined
  readonly readOnly?: boolean | undefined
  readonly deferrable?: boolean | undefined
}

export function beginText({ isolation, readOnly, deferrable }: TransactionOptions): string {
  const modes: string[] = []
  if (isolation !== undefined) {
    if (!LEVELS.has(isolation))
      throw misuse('isolation', `isolation is one of ${[...LEVELS].join(', ')}`)
    modes.push(`isolation level ${isolation}`)
  }
  if (readOnly !== undefined) modes.push(readOnly ? 'read only' : 'read write')
  if (deferrable !== undefined) modes.push(deferrable ? 'deferrable' : 'not deferrable')
  return modes.length === 0 ? 'begin' : `begin ${modes.join(', ')}`
}

const LEVELS = new Set(['read uncommitted', 'read committed', 'repeatable read', 'serializable'])
