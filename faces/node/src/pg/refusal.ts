import { Refused } from '../engine/exports'
import { NO_MEMORY } from '../engine/memory'
import type { Request } from './request'

/** A client, which says why it takes no query. */
interface Refuses {
  _notQueryable(): Error
}

/** The error of a query that the engine refused. `why` is one of `Refused`. */
export function refusal(client: Refuses, why: number, name: string): Error {
  if (why === Refused.NAME_TAKEN) return nameTaken(name)
  if (why === Refused.FULL) return new Error('Too many queries wait on this client: await some before issuing more')
  if (why === Refused.CLOSED) return client._notQueryable()
  if (why === Refused.NO_MEMORY) return new Error(`A query is too large: ${NO_MEMORY}`)
  if (why === Refused.TOO_LONG) return new Error('A query is too large: it has 1 GiB or more')
  return new Error('A query has a zero byte in its text or name, or is too large')
}

/** Fails a refused request in the next tick, when its caller has the return value. */
export function later(request: Request, error: unknown, then?: () => void): void {
  process.nextTick(() => {
    request.fail(error, 'NotSent')
    then?.()
  })
}

function nameTaken(name: string): Error {
  return new Error(
    `Prepared statements must be unique - '${name}' was used for a different statement`,
  )
}
