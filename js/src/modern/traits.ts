import { Trait } from '../engine/exports'
import { memory } from '../engine/memory'
import { traitsOf } from '../engine/traits'
import { misuse, type PostgresError } from './error'

/** Where a statement is about to go. */
export type Place = 'shared' | 'pipeline' | 'session' | 'transaction' | 'copy'

/** What the text of a statement shows: bits of `Trait`. */
export function shownBy(text: string): number {
  try {
    return traitsOf(text)
  } catch (error) {
    throw misuse(memory.isLost ? 'connection_lost' : 'no_memory', (error as Error).message)
  }
}

/** Why a statement with these traits is not sent there. */
export function refusal(traits: number, place: Place): PostgresError | undefined {
  if ((traits & REFUSABLE) === 0) return undefined
  const has = (bit: number): boolean => (traits & bit) !== 0
  if (has(Trait.SEVERAL)) return misuse('several', SEVERAL)
  const shared = place === 'shared' || place === 'pipeline'
  if (has(Trait.COPY)) return place === 'copy' ? undefined : misuse('copy', COPY)
  if (has(Trait.CONTROL) && shared) return misuse('transaction_control', CONTROL)
  if (has(Trait.CONTROL) && place === 'transaction' && !has(Trait.SAVEPOINT)) {
    return misuse('transaction_open', OPEN)
  }
  if (has(Trait.SESSION) && shared) return misuse('session_state', SESSION)
  if (has(Trait.LOCAL) && place === 'shared') return misuse('transaction_local', LOCAL)
  if (place !== 'pipeline') return undefined
  if (has(Trait.ALONE)) return misuse('stand_alone', ALONE)
  return has(Trait.CALL) ? misuse('call', CALL) : undefined
}

const CONTROL =
  "transaction control on a shared connection would put others' statements into this transaction: use sql.begin or sql.session"
const OPEN = 'the transaction ends with its function: return or throw'
const SESSION =
  'this statement changes or uses session state, which a shared connection can’t keep for one caller: use sql.session'
const LOCAL =
  'SET LOCAL and SET CONSTRAINTS end with their transaction, which here is this one statement: use sql.begin or sql.pipeline'
const ALONE = 'this statement commits by itself and can’t be part of a pipeline: send it alone'
const CALL =
  'CALL and DO may commit what came before them and can’t be part of a pipeline: send it alone'
const SEVERAL = 'this text holds several statements, and a template is one: send them as a pipeline'
const COPY =
  'COPY FROM STDIN and TO STDOUT take the connection over: use sql.copyFrom and sql.copyTo'

/** All for which a place may refuse a statement. */
const REFUSABLE =
  Trait.CONTROL |
  Trait.LOCAL |
  Trait.SESSION |
  Trait.ALONE |
  Trait.COPY |
  Trait.CALL |
  Trait.SEVERAL
