//! The limits of one connection, each with its default.

use std::time::Duration;

/// How much one connection may hold at once.
///
/// Memory of a connection at worst: `in_flight_bytes_max` for requests on their way,
/// `queue_bytes_max` for requests that wait and the same again for those of an open group, about
/// 100 bytes for each of `in_flight_max + 2 * queue_max` requests, and the replies that callers
/// have not taken yet. For an open group those close the window at `in_flight_bytes_max`, so that
/// no more come than the replies to what was on its way then. Buffers keep up to twice
/// of what they held, but none keeps more than 4 MiB when it is empty. Where there is no memory for
/// a buffer to grow, the connection ends ([`CloseReason::NoMemory`](crate::CloseReason::NoMemory)).
/// A single request or reply may be larger than a byte limit; it then travels alone. What one
/// caller submits as
/// [`reserved`](crate::Request::reserved), or as the rest of a segment, may exceed the queue once.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Requests sent and unanswered. Default 1,024: enough for 10,000 requests a second over a
    /// round trip of 100 ms.
    pub in_flight_max: usize,
    /// Bytes of requests sent and unanswered, and for an open group also bytes of replies that
    /// its reader has not taken. Default 1 MiB.
    pub in_flight_bytes_max: usize,
    /// Whether a segment is sent only when all before it was answered, so that there is never more
    /// than one sync point on its way. For what takes the answer to one for the end of all that was
    /// sent. Requests of one segment still leave together. Default false.
    pub one_segment: bool,
    /// Requests that wait for the window, and as many more of an open group. Default 16,384. At 0
    /// nothing outside a group waits: a request is sent at once or refused.
    pub queue_max: usize,
    /// Bytes of requests that wait for the window, and as many more of an open group. Default
    /// 16 MiB.
    pub queue_bytes_max: usize,
    /// Callers that wait for room in the queue, each with a request in hand; 40 bytes each here.
    /// Default 65,536.
    pub waiting_max: usize,
    /// Bytes of a request that is [fed](crate::Feed) that may lie unwritten before it takes no
    /// more, up to one feed beyond that. Default 256 KiB: what a socket takes at once is mostly
    /// less.
    pub fed_bytes_max: usize,
    /// Bytes of a [metered](crate::Request::metered) reply that its reader has not taken, at which
    /// reading stops, up to one read beyond that. It goes on at half. Default 1 MiB: enough to keep
    /// a server busy while a task waits for its turn.
    pub untaken_bytes_max: usize,
    /// Requests that may share a sync point because each [`joins`](crate::Request::joins) others.
    /// Default 64: the server's gain is nearly all there, and if one fails no more than so many are
    /// sent again. At 0 or 1 each keeps its own.
    pub shared_sync_max: usize,
    /// Bytes of requests that may share one so. Default 16 KiB.
    pub shared_sync_bytes_max: usize,
    /// How long bytes may lie unsent while the peer neither takes nor sends any, before it is
    /// declared dead. Default 30 s. A peer that took everything and computes in silence is alive;
    /// noticing that it vanished is TCP's work (keepalive, `TCP_USER_TIMEOUT`). So is one that
    /// takes its time over a request that is [fed](crate::Feed), and one that is
    /// [not read from](crate::Connection::wants_bytes).
    pub stall_timeout: Duration,
    /// How long new requests wait for the end of a cancel that was sent. Default 5 s. Past it the
    /// connection goes on, as one that is to be closed soon
    /// ([`Output::Astray`](crate::Output::Astray)).
    pub cancel_wait_max: Duration,
    /// How long after a cancel has ended a request that the server says was cancelled is still
    /// taken for hit by it, and sent again. Default 1 s. A PostgreSQL server needs none: its signal
    /// is delivered when it closes the cancel's connection. A pooler may pass it on later.
    pub cancel_grace: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            in_flight_max: 1024,
            in_flight_bytes_max: 1 << 20,
            one_segment: false,
            queue_max: 16_384,
            queue_bytes_max: 16 << 20,
            waiting_max: 65_536,
            fed_bytes_max: 256 << 10,
            untaken_bytes_max: 1 << 20,
            shared_sync_max: 64,
            shared_sync_bytes_max: 16 << 10,
            stall_timeout: Duration::from_secs(30),
            cancel_wait_max: Duration::from_secs(5),
            cancel_grace: Duration::from_secs(1),
        }
    }
}
