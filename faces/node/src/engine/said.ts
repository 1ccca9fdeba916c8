// What is said of a failure without an error of the server: a code and a line. Do not edit: written
// from `core/postgres/src/client/said.rs` by
// `ONETRIP_WRITE=1 cargo test -p onetrip-lab --test tidy said`.

/** What is said of a failure. */
export interface Said { readonly code: string; readonly text: string }

export const ABORTED: Said = {
  code: 'aborted',
  text: 'the statement was skipped, since an earlier statement of its pipeline or transaction failed',
}

export const ROLLED_BACK: Said = {
  code: 'rolled_back',
  text: 'the statement was rolled back, since its pipeline failed',
}

export const UNCONFIRMED: Said = {
  code: 'sync_replication_canceled',
  text: 'the server committed, but no longer waited for a synchronous standby to confirm it: a failover may lose what this statement did',
}

export const LATE_UNSENT: Said = {
  code: 'timeout',
  text: 'the deadline, or wait_timeout, passed before the request was sent',
}

export const LATE_REJECTED: Said = {
  code: 'timeout',
  text: 'the deadline, or wait_timeout, passed, and the request has no effect',
}

export const LATE: Said = {
  code: 'timeout',
  text: 'the deadline passed before the server answered; the request may have run',
}

export const WITHDRAWN: Said = {
  code: 'cancelled',
  text: 'the request was withdrawn before it was sent',
}

export const CANCELLED_REJECTED: Said = {
  code: 'cancelled',
  text: 'the request was cancelled, and has no effect',
}

export const CANCELLED: Said = {
  code: 'cancelled',
  text: 'the request was cancelled, and may have run',
}

export const QUEUE_FULL: Said = {
  code: 'queue_full',
  text: 'the queue of the connection is full: wait for replies before sending more, or raise queue_max',
}

export const UNENCODABLE: Said = {
  code: 'unencodable',
  text: 'the statement has a zero byte in its text or name, or is too large',
}

export const TOO_LONG: Said = {
  code: 'unencodable',
  text: 'the statement has 1 GiB or more, and PostgreSQL takes less',
}

export const NAME_TAKEN: Said = {
  code: 'name_taken',
  text: 'the name stands for another statement',
}

export const NO_MEMORY: Said = {
  code: 'no_memory',
  text: 'there is no memory for the statement',
}
