//! What happened, as a table that the host walks: one record for each event, in order.

use std::ptr;

use bytes::Bytes;
use onetrip_engine::{Cause, CloseReason, End, Outcome};
use onetrip_postgres::client::said;
use onetrip_postgres::session::{NOT_REPLICATED, NOT_RESET};

/// One record. The meaning of `a` and `b` depends on the kind.
///
/// The block is in the memory of the module, and valid until the next
/// `onetrip_take`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// One of [`kind`].
    pub kind: u32,
    /// The token of the request that it is about; 0 if it is about none.
    pub token: u32,
    /// See [`kind`].
    pub a: u32,
    /// See [`kind`].
    pub b: u32,
    /// The length of the block in bytes.
    pub len: usize,
    /// The block; null if it is empty.
    pub block: *const u8,
}

/// The kinds of records.
pub mod kind {
    /// The login is complete. `a`: the server's process number; for Redis the protocol, 2 or 3.
    /// `b`: for Redis, whether the server tells which keys are changed (`tracking`).
    /// Block: the settings that the server reported, as pairs of name and value, each ended by a
    /// zero byte.
    pub const READY: u32 = 1;
    /// A part of a reply: whole messages. `a`: the number of the statement that has the columns of
    /// its rows, unless the reply describes them itself; 0 for none.
    pub const DATA: u32 = 2;
    /// A piece of one message of a reply, which is too long to be handed over whole. Only if the
    /// setting `pieces` is 1. `a`: as for `DATA`. `b`: how many bytes of the message are still to
    /// come.
    pub const PIECE: u32 = 3;
    /// A request ended; nothing follows for its token. `a`: as for `DATA`. `b`: one of
    /// [`end`](super::end), plus one of [`outcome`](super::outcome) shifted left by 8 bits. Block:
    /// the last part of the reply, or the server's error message.
    pub const END: u32 = 4;
    /// The reply so far is void, because the request is sent again.
    pub const RESTARTED: u32 = 5;
    /// A message that belongs to no request. `a`: one of [`event`](super::event). Block: the
    /// message.
    pub const EVENT: u32 = 6;
    /// A request had to wait in the queue. Announced once, until `DRAINED`.
    pub const FULL: u32 = 7;
    /// Nothing waits and the window is below three quarters. Announced once per `FULL`.
    pub const DRAINED: u32 = 8;
    /// The server shall be asked to cancel what it runs. Open a socket, call
    /// `onetrip_begin_cancel`, send the cancel message, and in any case call
    /// `onetrip_cancel_ended`.
    pub const CANCEL: u32 = 9;
    /// A cancel that was wanted is not sent. The request goes on.
    pub const NOT_CANCELLED: u32 = 10;
    /// Close the connection once it has answered its requests. `a`: 0 if a cancel was sent that may
    /// still arrive at any time, 1 if the server no longer is what `target_session_attrs` asks for, or
    /// its session keeps plans of an older schema, so that whoever has the connection to itself may go
    /// on. For Redis: 1 if the server says that
    /// it has lost its `role`. Block: how it says so.
    pub const ASTRAY: u32 = 11;
    /// The connection ended, and takes no more requests. `a`: one of [`close`](super::close). `b`:
    /// 1 if time does not mend the reason, such as a wrong password; of a message of PostgreSQL's
    /// `onetrip_postgres_may_mend` says so, and 1 is that it came behind a login that the server
    /// had taken. Block: the server's message, or a text.
    pub const CLOSED: u32 = 12;
    /// No reply will name this statement any more, so the host can drop what it keeps of its
    /// columns. `a`: its number.
    pub const FORGOTTEN: u32 = 13;
    /// The server asks for the password, which the host gives with `onetrip_postgres_password`.
    /// Only if the setting `ask_password` is 1. `a`: how the server asks: 3 in clear text, 5 by
    /// MD5, 10 by SASL.
    pub const PASSWORD: u32 = 14;
    /// A COPY FROM STDIN, which took no more data, takes more again.
    pub const FEED: u32 = 15;
    /// Whether the host shall read from the socket: `a` is 0 when too much of a stream is untaken,
    /// and 1 when enough was taken again.
    pub const READ: u32 = 16;
    /// Requests on a shared connection waited for one that took long. `token`: the key of its text.
    /// `a`: how many waited. `b`: how long it took, in milliseconds.
    pub const HELD_UP: u32 = 17;
    /// The position in the log of everything that was acknowledged before it was asked for. Only if
    /// the setting `watch_positions` is 1. `b`: the mark that was set when it was asked for. Block:
    /// the token of the position, as text.
    pub const POSITION: u32 = 18;
    /// Whether writes were acknowledged whose position is not known. `a`: one of
    /// [`uncertain`](super::uncertain). It comes in front of the ends of these writes.
    pub const UNCERTAIN: u32 = 19;
    /// The guard in front of a read has passed, and shows more than those before it on this
    /// connection. Token: that of the read. `a` and `b`: how far the server has replayed, the upper
    /// and the lower half; 0 and 0 if it did not say.
    pub const GUARD_PASSED: u32 = 20;
    /// The guard has failed, since the server has not replayed the position yet. The read ends as
    /// [`ABORTED`](super::end::ABORTED) and has not run. The rest as above.
    pub const GUARD_BEHIND: u32 = 21;
    /// The guard was not answered, or failed in another way. `a` and `b`: 0.
    pub const GUARD_FAILED: u32 = 22;
    /// The server has answered `onetrip_postgres_identify`, and the connection can be used.
    pub const IDENTIFIED: u32 = 23;
    /// The connection ended before any byte of this shared request was sent, and nothing ties the
    /// request to it. Its `END` follows, unless the host has it wait for another connection, which
    /// `onetrip_pool_again` decides. Block: its
    /// parameters, as they were submitted.
    pub const UNSENT: u32 = 24;
    /// The pool wants a connection. `a`: its number from now on. The host reports the result with
    /// `onetrip_pool_opened` or `onetrip_pool_open_failed`.
    pub const POOL_OPEN: u32 = 32;
    /// A caller has this connection to itself until it is released. `a`: its number; 0 if it was
    /// lost meanwhile.
    pub const POOL_GRANTED: u32 = 33;
    /// A shared request goes on this connection. `a`: as above.
    pub const POOL_PLACED: u32 = 34;
    /// A caller gets no connection. `a`: one of [`pool_cause`](super::pool_cause).
    pub const POOL_FAILED: u32 = 35;
    /// An idle connection must be reset, unless it has left with a request meanwhile. `a`: its
    /// number.
    pub const POOL_RESET: u32 = 36;
    /// The pool has forgotten this connection. Say goodbye and free it, or give up opening it. `a`:
    /// its number.
    pub const POOL_CLOSE: u32 = 37;
    /// The server has been silent for two seconds while something is awaited. Look for another
    /// one, beside the pool's connections, and report that with `onetrip_pool_scouted`.
    pub const POOL_SCOUT: u32 = 38;
    /// A command of a cluster, or a part of one, must be sent to a node, behind everything that was
    /// to be sent there before; one that may block, over a connection of its own. Token: that of
    /// the command. `a`: the number of the flight, with which the host reports its end. `b`: the
    /// number of the node.
    pub const CLUSTER_SEND: u32 = 48;
    /// The same with ASKING directly in front. The reply to ASKING is not reported.
    pub const CLUSTER_SEND_ASKING: u32 = 49;
    /// A command of a cluster is answered. Block: the reply, which may be an error of the server.
    pub const CLUSTER_REPLY: u32 = 50;
    /// A command of a cluster failed. `a`: one of [`cluster_why`](super::cluster_why). `b`: one of
    /// [`outcome`](super::outcome). Block: the last error of a server.
    pub const CLUSTER_ERROR: u32 = 51;
    /// The same without an error of a server. Block: why, as text.
    pub const CLUSTER_FAILED: u32 = 52;
    /// A node must be asked for the topology with CLUSTER SLOTS. `a`: the node; 0 for a server that
    /// the host knows otherwise.
    pub const CLUSTER_ASK: u32 = 53;
    /// A node is part of the cluster. `a`: its number from now on. `b`: its port. Block: its host.
    pub const CLUSTER_OPEN: u32 = 54;
    /// A node is no longer part of the cluster, and nothing is unanswered there. `a`: its number.
    pub const CLUSTER_CLOSE: u32 = 55;
    /// A sharded channel must be unsubscribed at a node, if a connection to it stands. `a`: the node.
    /// Block: the channel.
    pub const CLUSTER_UNSUBSCRIBE: u32 = 56;
    /// A sharded channel is subscribed again: messages may have been missed. Block: the channel.
    pub const CLUSTER_RESUBSCRIBED: u32 = 57;
    /// Connect to this Sentinel, and send it these bytes. `token`: the number of the line. `a`: its
    /// port. `b`: the length of its host. Block: its host, and then what to send.
    pub const SENTINEL_OPEN: u32 = 64;
    /// Close this line, or stop opening it. `token`: its number, which may be used again.
    pub const SENTINEL_CLOSE: u32 = 65;
    /// Connect to this server, and give up an earlier attempt of the same seat. `token`: the seat.
    /// `a`: the [`role`](super::role) that the server must have. `b`: its port. Block: its host.
    pub const SENTINEL_DIAL: u32 = 66;
    /// The server has not the role of this seat any more: close its connection at once. `token`: the
    /// seat, which is free again.
    pub const SENTINEL_LEAVE: u32 = 67;
    /// The server for this seat was not found in time. `token`: the seat, which is free again.
    /// Block: why, as text.
    pub const SENTINEL_NOT_FOUND: u32 = 68;
}

/// Why a command of a cluster has no reply.
pub mod cluster_why {
    /// The connection to its node was lost, or could not be opened.
    pub const LOST: u32 = 1;
    /// It was redirected too often.
    pub const REDIRECTS: u32 = 2;
    /// It was redirected to a node that is not in the topology.
    pub const OUTSIDE: u32 = 3;
    /// No node took it in time.
    pub const UNSERVED: u32 = 4;
    /// A node answered with an error.
    pub const SERVER: u32 = 5;
    /// The replies of several nodes do not fit together.
    pub const MISMATCH: u32 = 6;
    /// Its deadline passed.
    pub const DEADLINE: u32 = 7;
    /// Its caller gave it up.
    pub const GIVEN_UP: u32 = 8;
    /// There is no memory for it, or for its reply.
    pub const NO_MEMORY: u32 = 9;
    /// The cluster was closed.
    pub const CLOSED: u32 = 10;
    /// Its keys belong to several hash slots.
    pub const CROSS_SLOT: u32 = 11;
    /// It is not known which of its arguments are keys.
    pub const KEYS_UNKNOWN: u32 = 12;
    /// It makes sense only for a single node.
    pub const NODE_BY_NODE: u32 = 13;
    /// Too many commands wait already.
    pub const FULL: u32 = 14;

    /// The same as a word, for hosts in Rust.
    #[cfg(feature = "redis")]
    pub fn word(why: u32) -> &'static str {
        match why {
            LOST => "connection_lost",
            REDIRECTS => "redirects",
            OUTSIDE => "outside",
            UNSERVED => "unserved_slot",
            SERVER => "server",
            MISMATCH => "mismatch",
            DEADLINE => "timeout",
            GIVEN_UP => "cancelled",
            NO_MEMORY => "no_memory",
            CLOSED => "closed",
            CROSS_SLOT => "cross_slot",
            KEYS_UNKNOWN => "keys_unknown",
            NODE_BY_NODE => "node_by_node",
            FULL => "queue_full",
            _ => "cluster",
        }
    }
}

/// The roles of servers that Sentinels know.
pub mod role {
    /// It takes writes.
    pub const MASTER: u32 = 1;
    /// It is read from.
    pub const REPLICA: u32 = 2;
}

/// How a request ended.
pub mod end {
    use onetrip_engine::Cause;
    use onetrip_postgres::client::said::{self, Said};

    /// It succeeded.
    pub const COMPLETE: u32 = 0;
    /// It succeeded, provided that the end of its segment does.
    pub const PROVISIONAL: u32 = 1;
    /// The server answered with an error, which is the block.
    pub const SERVER: u32 = 2;
    /// An earlier request of its segment failed, so the server skipped it.
    pub const ABORTED: u32 = 3;
    /// Its deadline passed.
    pub const DEADLINE: u32 = 4;
    /// It was taken back.
    pub const CANCELLED: u32 = 5;
    /// The connection ended.
    pub const CLOSED: u32 = 6;
    /// It did not run, because the BEGIN that was held for its transaction failed. Block: the
    /// server's error to BEGIN.
    pub const BEGIN: u32 = 7;
    /// The same, for the SAVEPOINT in front of it.
    pub const SAVEPOINT: u32 = 8;
    /// Something that its caller wanted to stand was rolled back. Block: why, as text with a zero
    /// byte, and then the server's error that caused it, if that is known.
    pub const ROLLED_BACK: u32 = 9;
    /// The server committed it, but no longer waited for a synchronous standby to confirm it.
    pub const UNCONFIRMED: u32 = 10;

    /// What is said of a request that ended so, for hosts in Rust; `None` if it succeeded, if the
    /// server has said why it did not, or if its connection ended.
    pub fn said(how: u32, outcome: u32) -> Option<Said> {
        let cause = match how {
            ABORTED => Cause::Aborted,
            UNCONFIRMED => Cause::Unconfirmed,
            DEADLINE => Cause::Deadline,
            CANCELLED => Cause::Cancelled,
            _ => return None,
        };
        said::of(cause, super::outcome_of(outcome))
    }
}

/// The outcome of a request: what is known of the effect of one that failed.
pub mod outcome {
    /// It did not fail.
    pub const NONE: u32 = 0;
    /// No byte of it was sent.
    pub const NOT_SENT: u32 = 1;
    /// The server answered that it did not take effect.
    pub const REJECTED: u32 = 2;
    /// It took effect; only reading the answer failed.
    pub const APPLIED: u32 = 3;
    /// It was sent, and there is no final answer.
    pub const UNKNOWN: u32 = 4;
}

/// Messages that belong to no request.
pub mod event {
    /// A notice of the server.
    pub const NOTICE: u32 = 1;
    /// A notification.
    pub const NOTIFICATION: u32 = 2;
    /// A setting has a new value.
    pub const PARAMETER_STATUS: u32 = 3;
    /// For Redis: a push.
    pub const PUSH: u32 = 4;
}

/// Whether the position of what was acknowledged is unknown.
pub mod uncertain {
    /// It is known again.
    pub const NO: u32 = 0;
    /// It is unknown until a question was answered.
    pub const YES: u32 = 1;
    /// The connection ended while it was unknown.
    pub const LOST: u32 = 2;
}

/// Why a connection ended.
pub mod close {
    /// The host closed it, or the peer did.
    pub const HOST: u32 = 1;
    /// The server ended the session. Block: its error message.
    pub const SERVER: u32 = 2;
    /// A message came that the state can't explain. Block: what is wrong, as text.
    pub const VIOLATION: u32 = 3;
    /// Bytes lay unsent for too long, and the peer neither took nor sent any. Or the server did not
    /// answer what was given up; then the block says so, as text.
    pub const STALLED: u32 = 4;
    /// The login failed on this side. Block: why, as text.
    pub const LOGIN: u32 = 5;
    /// There is no memory for bytes to send or bytes received, or a message is longer than a
    /// setting allows. Block: which of these, and what to do, as text.
    pub const NO_MEMORY: u32 = 6;
    /// The session must not be used any further. Block: why, as text.
    pub const UNUSABLE: u32 = 7;
    /// The session could not be reset after its previous user, or a row of an isolated run ended
    /// as [`UNCONFIRMED`](super::end::UNCONFIRMED). Block: which, as text. (8 is free for hosts.)
    pub const NOT_RESET: u32 = 9;
    /// A server of Redis has not the setting `role`. Block: what it is, as text that goes behind its
    /// address: "is not the master: it is a replica".
    pub const OTHER_ROLE: u32 = 10;
    /// The server is a former primary: another was promoted since. Block: why, as text that follows
    /// the name of the server.
    pub const REFUSED: u32 = 11;
}

/// Why a caller got no connection.
pub mod pool_cause {
    /// Too many callers wait.
    pub const LINE_FULL: u32 = 1;
    /// Its deadline passed while other callers had the connections.
    pub const DEADLINE: u32 = 2;
    /// No connection could be opened.
    pub const OPEN_FAILED: u32 = 3;
    /// The pool is closed.
    pub const CLOSED: u32 = 4;
}

/// A record with its block, for hosts in Rust: see [`Completion`].
#[derive(Clone, Debug)]
pub struct Record {
    /// One of [`kind`].
    pub kind: u32,
    /// The request that the record is about.
    pub token: u32,
    /// See [`kind`].
    pub a: u32,
    /// See [`kind`].
    pub b: u32,
    /// The block.
    pub block: Bytes,
}

/// The records that the host walks, and those that come meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Completions {
    coming: Records,
    taken: Records,
}

/// Records, and the blocks that they point to.
#[derive(Debug, Default)]
struct Records {
    records: Vec<Completion>,
    blocks: Vec<Bytes>,
}

impl Completions {
    pub(crate) fn push(&mut self, kind: u32, token: u32, (a, b): (u32, u32), block: Bytes) {
        let start = if block.is_empty() { ptr::null() } else { block.as_ptr() };
        let record = Completion { kind, token, a, b, len: block.len(), block: start };
        self.coming.records.push(record);
        if !block.is_empty() {
            self.coming.blocks.push(block);
        }
    }

    /// Frees the records that were taken before, and takes those that came since.
    pub(crate) fn take(&mut self) -> &[Completion] {
        self.taken.records.clear();
        self.taken.blocks.clear();
        std::mem::swap(&mut self.coming, &mut self.taken);
        &self.taken.records
    }

    pub(crate) fn taken(&self) -> &[Completion] {
        &self.taken.records
    }

    /// Takes the records since the last call, each with its block.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Record> {
        let mut blocks = self.coming.blocks.drain(..);
        self.coming.records.drain(..).map(move |Completion { kind, token, a, b, len, .. }| {
            let block = if len == 0 { Bytes::new() } else { blocks.next().unwrap_or_default() };
            Record { kind, token, a, b, block }
        })
    }
}

/// The field `b` of an end.
pub(crate) fn end_code(end: End) -> u32 {
    let failure = match end {
        End::Complete => return end::COMPLETE,
        End::Provisional => return end::PROVISIONAL,
        End::Failed(failure) => failure,
    };
    let cause = match failure.cause {
        Cause::Server => end::SERVER,
        Cause::Unconfirmed => end::UNCONFIRMED,
        Cause::Aborted => end::ABORTED,
        Cause::Deadline => end::DEADLINE,
        Cause::Cancelled => end::CANCELLED,
        Cause::Closed => end::CLOSED,
    };
    cause | outcome_code(failure.outcome) << 8
}

/// The number of an outcome: one of [`outcome`].
pub fn outcome_code(outcome: Outcome) -> u32 {
    match outcome {
        Outcome::NotSent => outcome::NOT_SENT,
        Outcome::Rejected => outcome::REJECTED,
        Outcome::Applied => outcome::APPLIED,
        Outcome::Unknown => outcome::UNKNOWN,
    }
}

/// The outcome that a host reports. Any other number means unknown.
pub fn outcome_of(code: u32) -> Outcome {
    match code {
        outcome::NOT_SENT => Outcome::NotSent,
        outcome::REJECTED => Outcome::Rejected,
        outcome::APPLIED => Outcome::Applied,
        _ => Outcome::Unknown,
    }
}

/// The number and the block for the end of a connection.
pub(crate) fn close_code(reason: CloseReason) -> (u32, Bytes) {
    match reason {
        CloseReason::Host => (close::HOST, Bytes::new()),
        CloseReason::Server(block) => (close::SERVER, block),
        CloseReason::Violation(why) => (close::VIOLATION, Bytes::from_static(why.0.as_bytes())),
        CloseReason::Unusable(why) if matches!(why, NOT_RESET | NOT_REPLICATED) => {
            (close::NOT_RESET, Bytes::from_static(why.as_bytes()))
        }
        CloseReason::Unusable(why) => (close::UNUSABLE, Bytes::from_static(why.as_bytes())),
        CloseReason::Stalled => (close::STALLED, Bytes::new()),
        CloseReason::Silent => (close::STALLED, Bytes::from_static(said::SILENT.as_bytes())),
        CloseReason::NoMemory => (close::NO_MEMORY, Bytes::from_static(NO_MEMORY.as_bytes())),
    }
}

const NO_MEMORY: &str =
    "there is no memory to send the requests that wait: submit fewer large requests at once";

/// The block when a connection ends because of a reply that is too long: `come` bytes of it have
/// come, and there is no room for `more`.
pub(crate) fn too_long(come: usize, more: usize) -> Bytes {
    Bytes::from(format!(
        "there is no room for {more} more bytes of a reply after {come} bytes of it: ask for less \
         at once"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_records_stay_while_more_come() {
        let mut completions = Completions::default();
        completions.push(kind::DATA, 7, (1, 2), Bytes::from_static(b"first"));
        let first = completions.take()[0];
        for token in 0..1_000 {
            completions.push(kind::END, token, (0, 0), Bytes::from(vec![b'x'; 100]));
        }
        let still = completions.taken();
        assert_eq!((still.len(), still[0].block, still[0].len), (1, first.block, 5));
        assert_eq!(completions.take().len(), 1_000);
        assert_eq!(completions.take().len(), 0);
    }

    #[test]
    fn each_failure_has_a_number_of_its_own() {
        use onetrip_engine::Failure;
        let causes = [
            Cause::Server,
            Cause::Unconfirmed,
            Cause::Aborted,
            Cause::Deadline,
            Cause::Cancelled,
            Cause::Closed,
        ];
        let outcomes = [Outcome::NotSent, Outcome::Rejected, Outcome::Applied, Outcome::Unknown];
        let mut codes = vec![end_code(End::Complete), end_code(End::Provisional)];
        for cause in causes {
            codes.extend(outcomes.map(|outcome| end_code(End::Failed(Failure { outcome, cause }))));
        }
        let all = codes.len();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), all);
    }
}
