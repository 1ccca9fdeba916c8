// What crosses the ABI and has no constant in Rust to be written from: arms of a `match`, mostly.

/** Words of 32 bits in a completion. */
export const RECORD = 6

/** How the server asks for a password. */
export const enum PasswordRequest { CLEARTEXT = 3, MD5 = 5, SASL = 10 }

/** The holder of a session. */
export const enum Holder { ALL = 0, ONE = 1, NOBODY = 2, PASSED = 3 }

/** A part of a COPY FROM STDIN. */
export const enum CopyPart { DATA = 0, DONE = 1, FAILED = 2 }

/** An act on a transaction. */
export const enum Act {
  SAVEPOINT = 0,
  RELEASE = 1,
  UNDO = 2,
  COMMIT = 3,
  ROLLBACK = 4,
  FLUSH = 5,
  IS_KNOWN = 6,
  RUNS_AGAIN = 7,
  WITH_COMMIT = 8,
  FORGET = 9,
  HAS_LEFT = 10,
  LEAVE_OUT = 11,
}

/** What leaves a transaction: a failure of its own, that of another statement, or that of COMMIT. */
export const enum Leaver { OWN = 0, OTHER = 1, COMMIT = 2 }

/** The rest of a stream that is left: read it, cancel it, or close the connection if it is long. */
export const enum Rest { READ = 0, CANCEL = 1, CLOSE = 2 }

/** How a cancel ended: no byte was sent, the server closed the socket, or the end is unknown. */
export const enum CancelEnd { NOT_SENT = 0, CLOSED = 1, LOST = 2 }

/**
 * What is known of the effect of a request that failed. `NotSent`: no byte of it was sent.
 * `Rejected`: the server answered that it has no effect. `Applied`: it took effect, and only
 * reading the answer failed. `Unknown`: it was sent, and may have run. The list is complete, so a
 * `switch` needs no default.
 */
export type Outcome = 'NotSent' | 'Rejected' | 'Applied' | 'Unknown'

/** The outcomes by their numbers in the ABI; 0 is none. */
export const OUTCOMES: readonly (Outcome | undefined)[] = [
  undefined,
  'NotSent',
  'Rejected',
  'Applied',
  'Unknown',
]
