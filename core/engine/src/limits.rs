//! The limits of one connection, each with its default.

use std::time::Duration;

/// How much one connection may hold at once.
///
/// The memory of a connection at worst is the sum of:
///
/// * `in_flight_bytes_max` for requests in flight;
/// * `queue_bytes_max` for requests that wait, and the same again for those of an open group;
/// * about 100 bytes for each of `in_flight_max + 2 * queue_max` requests;
/// * the replies that callers have not taken yet. Those of an open group close the window at
///   `in_flight_bytes_max`, so that after that only the replies to requests in flight still come.
///
/// Buffers keep up to twice what they held, but an empty one keeps no more than 4 MiB. If there is
/// no memory for a buffer to grow, the connection ends
/// ([`CloseReason::NoMemory`](crate::CloseReason::NoMemory)). A single request or reply may be
/// larger than a byte limit; it then travels alone. Requests that one caller submits as
/// [`reserved`](crate::Request::reserved), or as the rest of a segment, may exceed the queue's
/// limits once.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Requests sent and unanswered. Default 1,024: enough for 10,000 requests a second over a
    /// round trip of 100 ms.
    ///
    /// A segment that is given up while it is being sent may take two more, of a few bytes: what
    /// makes it fail, and its sync point.
    pub in_flight_max: usize,
    /// Bytes of requests sent and unanswered, and for an open group also bytes of replies that
    /// its reader has not taken. Default 1 MiB.
    pub in_flight_bytes_max: usize,
    /// Whether a segment is sent only when everything before it was answered, so that at most one
    /// sync point is in flight. It is for poolers that take the answer to one sync point for the
    /// end of all that was sent. Requests of one segment still leave together. Default false.
    pub one_segment: bool,
    /// Requests that wait for the window, and as many again for an open group. Default 16,384. At 0
    /// a request outside a group is sent at once or refused.
    pub queue_max: usize,
    /// Bytes of requests that wait for the window, and as many again for an open group. Default 16
    /// MiB.
    pub queue_bytes_max: usize,
    /// Callers that wait for room in the queue, each holding its request. Each takes 40 bytes here.
    /// Default 65,536.
    pub waiting_max: usize,
    /// Unwritten bytes of a request that is [fed](crate::Feed) at which it takes no more; the last
    /// feed may exceed them. Default 256 KiB: a socket mostly takes less at once.
    pub fed_bytes_max: usize,
    /// Bytes of a [metered](crate::Request::metered) reply not yet taken by its reader, at which
    /// reading stops; the last read may exceed them. Reading goes on at half. Default 1 MiB: enough
    /// to keep a server busy while a task waits for its turn.
    pub untaken_bytes_max: usize,
    /// Requests that may share a sync point because each [`joins`](crate::Request::joins) others.
    /// Default 64: more gain the server little, and if one fails no more than so many are sent
    /// again. At 0 or 1 each request keeps its own.
    pub shared_sync_max: usize,
    /// Bytes of requests that may share a sync point in this way. Default 16 KiB.
    pub shared_sync_bytes_max: usize,
    /// How long bytes may lie unsent while the peer neither takes nor sends any. After that the
    /// peer is declared dead. Default 30 s. A peer that took everything and computes in silence is
    /// alive; TCP notices when it has vanished (keepalive, `TCP_USER_TIMEOUT`). The limit does not
    /// apply either while a request is [fed](crate::Feed), or while the host [does not
    /// read](crate::Connection::wants_bytes).
    pub stall_timeout: Duration,
    /// How long the request at the head may run while others wait behind it on the connection. Then
    /// it is taken away from them, if it may be sent again ([`resend`](crate::Request::resend)): it
    /// is cancelled at the server, and sent again behind them. Default [`Duration::MAX`], which
    /// means never, for a host that can't cancel. Less frees those behind a lock sooner, and stops
    /// more requests that only take long. It counts from when the request was sent, so it has to be
    /// well above a round trip.
    pub yield_after: Duration,
    /// How long a request that stands alone waits, unsent, behind a head that is never taken away,
    /// while somebody [may hold a lock](crate::Connection::yield_to). Such a head may wait for a
    /// lock whose holder waits for that very request, and nothing else ends that. Default: for ever.
    pub wait_behind_max: Duration,
    /// How long new requests wait for the end of a cancel that was sent. Default 5 s. After that
    /// the connection goes on, but should be closed soon
    /// ([`Output::Astray`](crate::Output::Astray)). A connection on which nobody waits for what was
    /// given up is closed once the server has said nothing for twice that time.
    pub cancel_wait_max: Duration,
    /// For how long after the end of a cancel a request that the server reports as cancelled counts
    /// as hit by that cancel, and is sent again. Default 1 s. A PostgreSQL server needs no such
    /// time: it has delivered the signal when it closes the cancel's connection. A pooler may pass
    /// the cancel on later.
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
            yield_after: Duration::MAX,
            wait_behind_max: Duration::MAX,
            cancel_wait_max: Duration::from_secs(5),
            cancel_grace: Duration::from_secs(1),
        }
    }
}
