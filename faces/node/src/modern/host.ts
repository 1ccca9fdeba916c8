import type { NotificationMessage } from '../pg/messages'
import type { Connection } from './connection'

/** The owner of a connection: a pool or a listener. */
export interface Host {
  opened(connection: Connection): void
  /** The connection ended or could not be opened; called once. `permanent`: retrying won't help. */
  gone(connection: Connection, permanent: boolean): void
  /** Bytes of the server were read. */
  answered(connection: Connection): void
  /** A statement changed the state of the session: the connection must take no new requests. */
  changed(connection: Connection): void
  /** Statements waited behind a slow one; see `Owner.heldUp`. */
  heldUp?(key: number, requests: number, millis: number): void
  /** Writes were acknowledged whose position is not known, or is known again; see `Owner`. */
  uncertain?(what: number): void
  positioned?(mark: number, start: number, end: number): void
  notified?(connection: Connection, message: NotificationMessage): void
}
