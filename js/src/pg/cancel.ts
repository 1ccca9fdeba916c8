import { CancelEnd } from '../engine/exports'
import type { Link } from '../engine/link'
import type { Connection } from './connect'

/** How long a cancel may take to reach the server. */
const CANCEL_TIMEOUT_MS = 5000

/** Asks the server to cancel what this link wants cancelled, on a connection of its own, made in the same way. */
export function sendCancel(link: Link, via: Connection, port: number, host: string): void {
  const connection = via.sibling()
  if (connection === undefined) return link.cancelEnded(CancelEnd.NOT_SENT)
  let end: CancelEnd = CancelEnd.NOT_SENT
  const timer = setTimeout(() => connection.stream.destroy(), CANCEL_TIMEOUT_MS)
  let needed = true
  connection.open(port, host, {
    opened() {
      const message = link.beginCancel()
      needed = message !== undefined
      if (message === undefined) return void connection.stream.destroy()
      end = CancelEnd.LOST
      connection.stream.write(message)
      // The server closes its side when it has done what was asked.
      connection.stream.once('end', () => (end = CancelEnd.CLOSED))
    },
    received() {},
    failed() {},
    gone() {
      clearTimeout(timer)
      if (needed) link.cancelEnded(end)
    },
  })
}
