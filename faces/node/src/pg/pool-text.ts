import { Trait } from '../engine/exports'
import { traitsOf } from '../engine/traits'

/**
 * Whether a text may run on a shared connection: whether it is one statement that is complete in
 * itself. In doubt it may not: BEGIN, SET, LISTEN, COPY and all that is not known to be a query
 * gets a client of its own.
 */
export function isShareable(text: string): boolean {
  try {
    return (traitsOf(text) & Trait.SHAREABLE) !== 0
  } catch {
    // The module has failed, or has no memory for the text. Sending it will report that.
    return false
  }
}
