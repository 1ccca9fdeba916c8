import { StatementPlace } from '../engine/exports'
import { memory } from '../engine/memory'
import { traitsOf } from '../engine/traits'
import { misuse, type PostgresError } from './error'

/** The traits that the text of a statement shows: bits of `Trait`. */
export function shownBy(text: string): number {
  try {
    return traitsOf(text)
  } catch (error) {
    throw misuse(memory.isLost ? 'connection_lost' : 'no_memory', (error as Error).message)
  }
}

/** The error of a statement with these traits in this place; undefined if it may be sent there. */
export function refusal(traits: number, place: StatementPlace): PostgresError | undefined {
  const key = (traits << PLACE_BITS) | place
  let said = known.get(key)
  if (said === undefined) known.set(key, (said = asked(traits, place)))
  return said === MAY ? undefined : misuse(said[0], said[1])
}

function asked(traits: number, place: StatementPlace): Said {
  const start = memory.engine.onetrip_postgres_refusal(traits, place) >>> 0
  if (start === 0) return MAY
  memory.refresh()
  const between = memory.bytes.indexOf(0, start)
  const end = memory.bytes.indexOf(0, between + 1)
  return [memory.text(start, between), memory.text(between + 1, end)]
}

/** The code and the message of a refusal. */
type Said = readonly [string, string]

const MAY: Said = ['', '']
const PLACE_BITS = 3

/** The engine's answers by traits and place, of which there are few. */
const known = new Map<number, Said>()
