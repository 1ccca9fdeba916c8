import type { Life } from './life'
import { type Submittable, type SubmittableParts, Turn } from './submittable'

/** Runs a query that runs itself on a client, when its turn comes. */
export function lend(client: Life, query: Submittable & SubmittableParts): void {
  if (client.binary && !query.binary) query.binary = true
  if (query._result && !query._result._types) query._result._types = client._types
  const turn = new Turn(query, client.connection)
  const session = client._session
  session.hold()
  if (!client._takesQueries) {
    return turn.fail(client._notQueryable(), 'NotSent')
  }
  const timeout = Number(query.query_timeout || client.connectionParameters.query_timeout) || 0
  turn.limit(timeout, () => session.lending.expire(turn))
  session.lending.lend(turn)
}
