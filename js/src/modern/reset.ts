import { End, Flag } from '../engine/exports'
import type { Receiver } from '../engine/link'
import { memory } from '../engine/memory'
import type { Connection } from './connection'
import { PostgresError } from './error'

/**
 * Makes a session as it was when it was opened. It leaves with what comes next, and costs no trip.
 *
 * Where it fails the connection goes: whatever was sent behind it may have met another one's
 * session. Whether it leaves: there may be no memory for it.
 */
export function reset(connection: Connection): boolean {
  connection.owesReset = false
  const text = connection.isInTransaction ? `rollback; ${RESET}` : RESET
  const isTaken = connection.submit(new Reset(connection), Flag.SIMPLE, text, []) >= 0
  if (!isTaken) connection.destroy(notReset())
  return isTaken
}

class Reset implements Receiver {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  received(start: number, end: number): void {
    for (let at = start; at < end; at += 1 + memory.int32(at + 1)) {
      if (memory.bytes[at] === READY_FOR_QUERY)
        this.#connection.status(memory.bytes[at + 5] as number)
    }
  }

  restarted(): void {}

  ended(how: number): void {
    this.#connection.ended(how)
    if (how === End.COMPLETE) return
    this.#connection.destroy(notReset())
  }
}

function notReset(): PostgresError {
  return new PostgresError('reset', 'Unknown', 'the session of a user before could not be reset')
}

/**
 * What DISCARD ALL does, but for prepared statements, which the connection keeps, and their plans.
 */
const RESET =
  'close all; set session authorization default; reset all; unlisten *; ' +
  'select pg_advisory_unlock_all(); discard sequences; discard temp'

const READY_FOR_QUERY = 0x5a
