import { Trait } from '../engine/exports'
import { traitsOf } from '../engine/traits'

/**
 * Whether a text may run on a connection that carries the queries of others at the same time: one statement that is complete
 * in itself. It errs to no: BEGIN, SET, LISTEN, COPY and all that is not known to be a query gets a client of its own.
 */
export function isShareable(text: string): boolean {
  try {
    return (traitsOf(text) & Trait.SHAREABLE) !== 0
  } catch {
    // There is no engine, or no memory for the text: whoever sends it is told.
    return false
  }
}
