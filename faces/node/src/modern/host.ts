import type { NotificationMessage } from '../pg/messages'
import type { Connection } from './connection'

/** Who has a connection opened. */
export interface Host {
  opened(connection: Connection): void
  /** It has ended, or could not be opened; told once. `permanent`: time does not mend it. */
  gone(connection: Connection, permanent: boolean): void
  /** Replies have come. */
  answered(connection: Connection): void
  /** What others share with its users was changed: it is to take no new ones. */
  changed(connection: Connection): void
  /** Statements waited behind a slow one; see `Owner.heldUp`. */
  heldUp?(key: number, requests: number, millis: number): void
  notified?(connection: Connection, message: NotificationMessage): void
}
