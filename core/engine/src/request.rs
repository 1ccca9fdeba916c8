//! What a host hands to a connection.

use std::fmt;
use std::num::NonZeroU64;

use crate::Time;

/// The host's name for a request. The engine only hands it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

impl Token {
    /// Marks a request whose end nobody wants to hear. Its reply is read and dropped.
    pub const DISCARD: Token = Token(u64::MAX);
}

/// How often a request is sent again at most because the server says that it never started: what
/// heals it may be out of date when it comes (two ALTERs, one behind the other), but a server that
/// says so each time (behind a pooler that keeps plans for itself) would be asked for ever.
pub const HEALS_MAX: u8 = 5;

/// One request: everything but its bytes.
#[derive(Debug)]
pub struct Request<X> {
    /// The host's name for it.
    pub token: Token,
    /// What the protocol has to know to recognise its reply.
    pub expect: X,
    /// Where it stands relative to a sync point.
    pub sync: SyncPoint,
    /// The moment after which its caller no longer waits; it covers the time in the queue.
    /// [`Time::NEVER`] for none. Kept to the millisecond.
    pub deadline: Time,
    /// Whether the engine may send it again when the server says that it never started, up to
    /// [`HEALS_MAX`] times before its deadline. Only for a request that carries its own sync point.
    pub again: bool,
    /// Whether its place in the order matters: then it is sent again only if nothing was sent
    /// behind it.
    pub in_order: bool,
    /// The group that alone may send, for a request of it.
    pub group: Option<Group>,
    /// Whether it can't be taken out of the queue once it is there: what comes behind it depends on
    /// it, as in a transaction. At its deadline its caller is told
    /// [`Outcome::Unknown`](crate::Outcome), and it is sent all the same.
    pub pinned: bool,
    /// Whether it may be sent again, once, when a cancel that was meant for another request hit it:
    /// what it did is undone then. Where one request on its way may not, those in front of it are
    /// not cancelled. Only for one that carries its own sync point, outside any group.
    pub resend: bool,
    /// Whether the server is to be asked to cancel it when its deadline passes while it is on its
    /// way.
    pub cancel_late: bool,
    /// Whether it may share a sync point with neighbours of which the same is said: a *shared-Sync
    /// group*. Its bytes end with [`Protocol::SYNC`](crate::Protocol::SYNC), which is taken off if
    /// another such request comes before that is written. If one of a shared-Sync group fails, the
    /// others are sent again, each with its own sync point: so only for what may run twice, leaves
    /// nothing behind where it fails, and has no need of its place in the order. Without effect for
    /// one that is [`in_order`](Self::in_order), pinned, discarded, or of a group or of a longer
    /// segment.
    pub joins: bool,
    /// Whether there is room for it: [`Output::Room`](crate::Output::Room) announced it, or
    /// [`has_room`](crate::Connection::has_room) was asked just before. Without meaning in a group.
    pub reserved: bool,
    /// Whether its bytes are all there when it is submitted. One that is fed carries its own sync
    /// point, belongs to no group and is never sent again.
    pub feed: Feed,
    /// Whether reading stops when its reader has not taken
    /// [`Limits::untaken_bytes_max`](crate::Limits::untaken_bytes_max) of its reply
    /// ([`Connection::wants_bytes`](crate::Connection::wants_bytes)). What is behind it on the
    /// connection waits then, so this is for a connection that one caller has to itself.
    pub metered: bool,
}

impl<X> Request<X> {
    /// A request with its own sync point, isolated from its neighbours, without a deadline.
    pub fn isolated(token: Token, expect: X) -> Request<X> {
        Request {
            token,
            expect,
            sync: SyncPoint::Own,
            deadline: Time::NEVER,
            again: false,
            in_order: false,
            group: None,
            pinned: false,
            resend: false,
            cancel_late: false,
            joins: false,
            reserved: false,
            feed: Feed::Whole,
            metered: false,
        }
    }
}

/// Where a request stands relative to a sync point.
///
/// A *segment* is what lies between two sync points: one isolated request, or several members and
/// the request that ends them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPoint {
    /// It carries a sync point behind it, and ends its segment.
    Own,
    /// It carries none: its segment goes on with the next request.
    Member,
    /// It is nothing but a sync point.
    Only,
}

/// Whether the bytes of a request are all there when it is submitted. Otherwise the rest is handed
/// over with [`Connection::feed`](crate::Connection::feed), and nothing else is sent until
/// [`Connection::end_feed`](crate::Connection::end_feed).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed {
    /// They are.
    Whole,
    /// More messages of it follow. The server may answer before it has all of them, with an error
    /// for instance; then no more are taken.
    Messages,
    /// The rest of a message follows. An answer before its end is a violation.
    Message,
}

/// A group of requests that alone may send while it is open: nothing else is sent in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group(pub(crate) NonZeroU64);

/// Where a submitted request stood when it was submitted; for
/// [`cancel`](crate::Connection::cancel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ticket {
    /// On its way, or in an open group: it can't be taken back.
    Sent,
    /// In the queue, at this number.
    Queued(u64),
    /// Waiting for room in the queue, at this number.
    Waiting(u64),
}

/// Why a request was not taken. Nothing of it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitError<E> {
    /// The connection has ended or takes no new requests.
    Closed,
    /// The queue is full, or others wait for room in it already.
    QueueFull,
    /// The request's group has no exclusive right to send, or was closed.
    NotGranted,
    /// The encoder failed; its bytes were taken back.
    Encode(E),
}

impl<E: fmt::Display> fmt::Display for SubmitError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SubmitError::Closed => f.write_str("the connection takes no new requests"),
            SubmitError::QueueFull => f.write_str("the queue of the connection is full"),
            SubmitError::NotGranted => f.write_str("the group does not hold the connection"),
            SubmitError::Encode(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for SubmitError<E> {}
