//! What a client says by itself of a request that failed: a code for programs and a line for
//! people, the same in every language, and for commands of Redis where they can fail so.
//!
//! An error of the server has the server's own words. `faces/node/src/engine/said.ts` is written
//! from this table.

use onetrip_engine::{Cause, Outcome};

/// What is said of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// A stable name, for programs.
    pub code: &'static str,
    /// What happened, in one line.
    pub text: &'static str,
}

macro_rules! table {
    ($($(#[$doc:meta])* $name:ident $code:literal $text:literal)*) => {
        $($(#[$doc])* pub const $name: Said = Said { code: $code, text: $text };)*

        /// All of them by their names.
        pub const ALL: &[(&str, Said)] = &[$((stringify!($name), $name)),*];
    };
}

table! {
    /// The server skipped it.
    ABORTED "aborted"
        "the statement was skipped, since an earlier statement of its pipeline or transaction \
         failed"
    /// It was completed, and undone with what it shares a sync point with.
    ROLLED_BACK "rolled_back"
        "the statement was rolled back, since its pipeline failed"
    /// Its commit may not have reached a synchronous standby.
    UNCONFIRMED "sync_replication_canceled"
        "the server committed, but no longer waited for a synchronous standby to confirm it: a \
         failover may lose what this statement did"
    /// Its deadline passed in the queue.
    LATE_UNSENT "timeout"
        "the deadline, or wait_timeout, passed before the request was sent"
    /// Its deadline passed, and the server rejected it.
    LATE_REJECTED "timeout"
        "the deadline, or wait_timeout, passed, and the request has no effect"
    /// Its deadline passed before the server answered.
    LATE "timeout"
        "the deadline passed before the server answered; the request may have run"
    /// It was taken back in the queue.
    WITHDRAWN "cancelled"
        "the request was withdrawn before it was sent"
    /// It was cancelled, and the server rejected it.
    CANCELLED_REJECTED "cancelled"
        "the request was cancelled, and has no effect"
    /// It was cancelled, and is not sent again.
    CANCELLED "cancelled"
        "the request was cancelled, and may have run"
    /// Its connection takes no more.
    QUEUE_FULL "queue_full"
        "the queue of the connection is full: wait for replies before sending more, or raise \
         queue_max"
    /// It can't be written as a message.
    UNENCODABLE "unencodable"
        "the statement has a zero byte in its text or name, or is too large"
    /// It is longer than a message may be: MaxAllocSize of src/include/utils/memutils.h.
    TOO_LONG "unencodable"
        "the statement has 1 GiB or more, and PostgreSQL takes less"
    /// Its name is in use.
    NAME_TAKEN "name_taken"
        "the name stands for another statement"
    /// There is no memory for it.
    NO_MEMORY "no_memory"
        "there is no memory for the statement"
}

/// Why a connection ended on which nobody waits, and the server does not answer
/// ([`CloseReason::Silent`](onetrip_engine::CloseReason::Silent)).
pub const SILENT: &str = "the server said nothing for too long to what its callers had given up";

/// What is said of a request that failed for this cause. `None` of an error of the server, and of
/// the end of a connection, which says more than that it ended.
pub fn of(cause: Cause, outcome: Outcome) -> Option<Said> {
    Some(match (cause, outcome) {
        (Cause::Server | Cause::Closed, _) => return None,
        (Cause::Aborted, _) => ABORTED,
        (Cause::Unconfirmed, _) => UNCONFIRMED,
        (Cause::Deadline, Outcome::NotSent) => LATE_UNSENT,
        (Cause::Deadline, Outcome::Rejected) => LATE_REJECTED,
        (Cause::Deadline, _) => LATE,
        (Cause::Cancelled, Outcome::NotSent) => WITHDRAWN,
        (Cause::Cancelled, Outcome::Rejected) => CANCELLED_REJECTED,
        (Cause::Cancelled, _) => CANCELLED,
    })
}
