//! What a host hands to a connection.

use std::fmt;
use std::num::NonZeroU64;

use bytes::Bytes;

use crate::Time;

/// The host's name for a request. The engine only hands it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

impl Token {
    /// Marks a request whose end nobody waits for. Its reply is read and dropped.
    pub const DISCARD: Token = Token(u64::MAX);
}

/// How often a request is sent again at most because the server says that it never started. One
/// repair may be out of date when it arrives (two ALTERs in a row), so there are several attempts.
/// But a server that says so each time (behind a pooler that keeps plans of its own) must not be
/// asked for ever.
pub const HEALS_MAX: u8 = 5;

/// One request: everything but its bytes.
#[derive(Debug)]
pub struct Request<X> {
    /// The host's name for it.
    pub token: Token,
    /// What the protocol has to know to recognise its reply.
    pub expect: X,
    /// Whether it carries a sync point.
    pub sync: SyncPoint,
    /// The moment after which its caller no longer waits, the time in the queue included.
    /// [`Time::NEVER`] for none. It is kept to the millisecond.
    pub deadline: Time,
    /// Whether the engine may send it again when the server says that it never started: up to
    /// [`HEALS_MAX`] times, before its deadline. Only for a request that carries its own sync
    /// point.
    pub again: bool,
    /// Whether its place in the order matters. If so, it is sent again only if nothing was sent
    /// behind it.
    pub in_order: bool,
    /// The group that it belongs to, if any. While that is open, no other request is sent.
    pub group: Option<Group>,
    /// Whether it must stay in the queue once it is there, because later requests depend on it, as
    /// in a transaction. At its deadline its caller is told [`Outcome::Unknown`](crate::Outcome),
    /// and the request is sent nevertheless.
    pub pinned: bool,
    /// Whether it may be sent again when a cancel undid it: one that was meant for another request
    /// and hit it, or one that took it away from those behind it
    /// ([`Limits::yield_after`](crate::Limits::yield_after)). While a request with this unset is in flight, the requests in front of it
    /// are not cancelled. Only for a request that carries its own sync point, outside any group.
    pub resend: bool,
    /// Whether the server is asked to cancel it when its deadline passes while it is in flight.
    pub cancel_late: bool,
    /// Whether it may share a sync point with neighbours that have this set, too: a *shared-Sync
    /// group*. Its bytes end with [`Protocol::SYNC`](crate::Protocol::SYNC). That is taken off if
    /// another such request comes before it was written. If one of the group fails, the others are
    /// sent again, each with its own sync point. So this is only for requests that may run twice,
    /// leave nothing behind when they fail, and don't depend on their place in the order. It has no
    /// effect on a request that is [`in_order`](Self::in_order), pinned, discarded, in a group, or
    /// part of a longer segment.
    pub joins: bool,
    /// Whether it goes on in a way of its own once its connection has ended. Then it is not handed
    /// out by [`take_unsent`](crate::Connection::take_unsent).
    pub own_way: bool,
    /// Whether room is known to be there: [`Output::Room`](crate::Output::Room) announced it, or
    /// [`has_room`](crate::Connection::has_room) was asked just before. It has no meaning in a
    /// group.
    pub reserved: bool,
    /// Whether its bytes are complete when it is submitted. A request that is fed carries its own
    /// sync point, belongs to no group and is never sent again.
    pub feed: Feed,
    /// Whether reading from the connection stops while its reader has not taken
    /// [`Limits::untaken_bytes_max`](crate::Limits::untaken_bytes_max) bytes of its reply
    /// ([`Connection::wants_bytes`](crate::Connection::wants_bytes)). Everything behind it on the
    /// connection waits meanwhile, so this is for a connection that one caller has to itself.
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
            own_way: false,
            reserved: false,
            feed: Feed::Whole,
            metered: false,
        }
    }
}

/// A request whose connection ended before any byte of it was handed over. Nothing ties it to that
/// connection but names that the host itself put into its bytes, so the host may send it on another
/// one: see [`Connection::take_unsent`](crate::Connection::take_unsent).
#[derive(Debug, PartialEq, Eq)]
pub struct Unsent<X> {
    /// What the protocol has to know to recognise its reply.
    pub expect: X,
    /// Its bytes, as they were submitted.
    pub bytes: Bytes,
}

/// Whether a request carries a sync point.
///
/// A *segment* is what lies between two sync points: one isolated request, or several members and
/// the request that ends them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPoint {
    /// It carries a sync point, and so ends its segment.
    Own,
    /// It carries none. Its segment goes on with the next request.
    Member,
    /// It is a sync point and nothing else.
    Only,
}

/// Whether the bytes of a request are complete when it is submitted. If not, the host hands over
/// the rest with [`Connection::feed`](crate::Connection::feed), and nothing else is sent until
/// [`Connection::end_feed`](crate::Connection::end_feed).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed {
    /// They are complete.
    Whole,
    /// More messages of it follow. The server may answer before it has all of them, with an error
    /// for instance. Then no more are taken.
    Messages,
    /// The rest of a message follows. An answer before its end is a violation.
    Message,
}

/// A group of requests with the exclusive right to send: while it is open, nothing else is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group(pub(crate) NonZeroU64);

/// Where a request stood when it was submitted, for [`cancel`](crate::Connection::cancel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ticket {
    /// In flight, or in an open group: it can't be taken back.
    Sent,
    /// In the queue, with this number.
    Queued(u64),
    /// Waiting for room in the queue, with this number.
    Waiting(u64),
}

/// Why a request was not taken. Nothing of it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitError<E> {
    /// The connection has ended or takes no new requests.
    Closed,
    /// The queue is full, or other callers already wait for room in it.
    QueueFull,
    /// The request's group has no exclusive right to send, or was closed.
    NotGranted,
    /// The encoder failed. What it wrote was taken back.
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
