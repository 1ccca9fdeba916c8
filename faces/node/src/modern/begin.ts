import { misuse } from './error'

/** The modes of a transaction. The server's settings decide on those that are left out. */
export interface TransactionOptions {
  readonly isolation?:
    'read uncommitted' | 'read committed' | 'repeatable read' | 'serializable' | undefined
  readonly readOnly?: boolean | undefined
  readonly deferrable?: boolean | undefined
}

/** The modes as the bits that `onetrip_postgres_begin` takes. */
export function modesOf({ isolation, readOnly, deferrable }: TransactionOptions): number {
  const level = isolation === undefined ? 0 : LEVELS.indexOf(isolation) + 1
  if (isolation !== undefined && level === 0)
    throw misuse('isolation', `isolation is one of ${LEVELS.join(', ')}`)
  return level | (mode(readOnly) << 3) | (mode(deferrable) << 5)
}

function mode(isSo: boolean | undefined): number {
  return isSo === undefined ? 0 : isSo ? 1 : 2
}

const LEVELS = ['read uncommitted', 'read committed', 'repeatable read', 'serializable']
