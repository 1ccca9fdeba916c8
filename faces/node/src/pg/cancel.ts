import { CancelEnd } from '../engine/choices'
import type { Link } from '../engine/link'
import type { Connection, Opener } from './connect'

/** How long a cancel may take to reach the server. */
const CANCEL_TIMEOUT_MS = 5000

/** The address to send cancels to. */
export interface Address {
  readonly port: number
  readonly host: string
  /** The address of the host, if it was resolved before. */
  readonly address?: string | undefined
}

/**
 * Sends the cancel that a link wants, on a connection of its own that is made in the same way. The
 * engine decides when a cancel is sent, and whether it is sent again.
 */
export function sendCancel(link: Link, via: Connection, to: Address): void {
  const connection = via.sibling()
  if (connection === undefined) return link.cancelEnded(CancelEnd.NOT_SENT)
  const timer = setTimeout(() => connection.stream.destroy(), CANCEL_TIMEOUT_MS)
  let end: CancelEnd | undefined = CancelEnd.NOT_SENT
  const opener: Opener = {
    opened: () => {
      const message = link.beginCancel()
      // The request has ended meanwhile.
      if (message === undefined) {
        end = undefined
        return void connection.stream.destroy()
      }
      end = CancelEnd.LOST
      connection.stream.write(message)
      // The server closes its side after it has signalled the process.
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
