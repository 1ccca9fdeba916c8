import { CancelEnd } from '../engine/exports'
import type { Link } from '../engine/link'
import type { Connection, Opener } from './connect'

/** How long a cancel may take to reach the server. */
const CANCEL_TIMEOUT_MS = 5000

/** Where cancels go. */
export interface Address {
  readonly port: number
  readonly host: string
  /** Where the host is, if that is known. */
  readonly address?: string | undefined
}

/**
 * Asks the server to cancel what a link wants cancelled, on a connection of its own that is made in the same way. When
 * that is to be sent, and whether it is sent again, the engine says.
 */
export function sendCancel(link: Link, via: Connection, to: Address): void {
  const connection = via.sibling()
  if (connection === undefined) return link.cancelEnded(CancelEnd.NOT_SENT)
  const timer = setTimeout(() => connection.stream.destroy(), CANCEL_TIMEOUT_MS)
  let end: CancelEnd | undefined = CancelEnd.NOT_SENT
  const opener: Opener = {
    opened: () => {
      const message = link.beginCancel()
      // There is nothing to cancel any more.
      if (message === undefined) {
        end = undefined
        return void connection.stream.destroy()
      }
      end = CancelEnd.LOST
      connection.stream.write(message)
      // The server closes its side when it has done what was asked.
      connection.stream.once('end', () => (end = CancelEnd.CLOSED))
    },
    received() {},
    failed() {},
    gone: () => {
      clearTimeout(timer)
      if (end !== undefined) link.cancelEnded(end)
    },
  }
  connection.open(to.port, to.host, opener, to.address)
}
