//! From bytes to exchanges.

mod frames;
mod postgres;
mod redis;

use crate::exchange::{Exchange, Shared};
use crate::piece::{Nanos, Side};

use postgres::Postgres;
pub(crate) use postgres::ReadTexts;
pub(crate) use redis::Keys;
use redis::Redis;

/// Why the content of a connection can't be read. Its trips are still told apart by their times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Opaque {
    /// It is encrypted.
    Encrypted,
    /// It is neither PostgreSQL nor Redis.
    Unknown,
    /// Bytes are missing.
    Incomplete,
    /// A replication stream, which has no requests and answers.
    Replication,
}

/// What a decoder has to say of a piece.
#[derive(Debug, Default)]
pub(crate) struct Out {
    /// Exchanges that have ended, in their order.
    pub(crate) ended: Vec<Exchange>,
    /// The connection began to ask for a cancel, which is no trip of the program's.
    pub(crate) is_cancel: bool,
}

/// One connection's protocol.
#[derive(Debug)]
pub(crate) enum Decoder {
    /// Nothing was read yet.
    New,
    Postgres(Box<Postgres>),
    Redis(Box<Redis>),
    /// Bytes were not seen. It goes on where nothing can be in flight.
    Lost(Lost),
    Opaque(Opaque),
}

/// What is known of a connection whose bytes can't be read for now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lost {
    /// The server spoke last, and what it said ends as an answer does that is the last one.
    is_at_rest: bool,
    has_begun: bool,
}

impl Decoder {
    /// Reads bytes of one side.
    pub(crate) fn read(
        &mut self,
        shared: &mut Shared,
        at: Nanos,
        from: Side,
        bytes: &[u8],
        out: &mut Out,
    ) {
        if matches!(self, Decoder::New) {
            *self = Decoder::by_first_bytes(from, bytes);
        }
        if let Decoder::Lost(lost) = self
            && let Some(found) = lost.found(from, bytes)
        {
            *self = found;
        }
        let refused = match self {
            Decoder::Postgres(it) => it.read(shared, at, from, bytes, out).err(),
            Decoder::Redis(it) => it.read(shared, at, from, bytes, out).err(),
            Decoder::New | Decoder::Lost(_) | Decoder::Opaque(_) => None,
        };
        match refused {
            Some(Opaque::Incomplete) => *self = Decoder::lost(from, bytes),
            Some(why) => *self = Decoder::Opaque(why),
            None => {}
        }
    }

    fn by_first_bytes(from: Side, bytes: &[u8]) -> Decoder {
        match (from, bytes) {
            (_, []) | (Side::Server, _) => Decoder::New,
            // A TLS record of a handshake; no other protocol here begins so.
            (_, [0x16] | [0x16, 0x03, ..]) => Decoder::Opaque(Opaque::Encrypted),
            // The length of a startup packet is below 10,000.
            (Side::Client, [0, 0, ..] | [0]) => Decoder::Postgres(Box::default()),
            (Side::Client, [b'*', ..]) => Decoder::Redis(Box::default()),
            // Of a connection that began earlier.
            (Side::Client, _) if Postgres::is_message(bytes) => {
                Decoder::Postgres(Box::new(Postgres::midway()))
            }
            // An inline command.
            (Side::Client, [first, ..]) if first.is_ascii_alphabetic() && !bytes.contains(&0) => {
                Decoder::Redis(Box::default())
            }
            _ => Decoder::Opaque(Opaque::Unknown),
        }
    }

    /// Requests that are not answered; `None` where that can't be known.
    pub(crate) fn in_flight(&self) -> Option<usize> {
        match self {
            Decoder::New => Some(0),
            Decoder::Postgres(it) => Some(it.in_flight()),
            Decoder::Redis(it) => Some(it.in_flight()),
            Decoder::Lost(_) | Decoder::Opaque(_) => None,
        }
    }

    /// Whether the server owes an answer to a request that is whole.
    pub(crate) fn is_owed(&self) -> bool {
        match self {
            Decoder::Postgres(it) => it.is_owed(),
            Decoder::Redis(it) => it.is_owed(),
            _ => false,
        }
    }

    /// Bytes are missing, so nothing behind them can be read until all is quiet.
    pub(crate) fn lose(&mut self) {
        if !matches!(self, Decoder::Opaque(_)) {
            *self = Decoder::Lost(Lost { is_at_rest: false, has_begun: true });
        }
    }

    /// The connection was open before anything was seen of it.
    pub(crate) fn begin_midway(&mut self) {
        if matches!(self, Decoder::New) {
            *self = Decoder::Lost(Lost::default());
        }
    }

    fn lost(from: Side, bytes: &[u8]) -> Decoder {
        let mut lost = Lost { is_at_rest: false, has_begun: true };
        lost.note(from, bytes);
        Decoder::Lost(lost)
    }

    /// Bytes of memory.
    pub(crate) fn held(&self) -> usize {
        match self {
            Decoder::Postgres(it) => it.held(),
            Decoder::Redis(it) => it.held(),
            _ => 0,
        }
    }

    pub(crate) fn opaque(&self) -> Option<Opaque> {
        match self {
            Decoder::Opaque(why) => Some(*why),
            Decoder::Lost(_) => Some(Opaque::Incomplete),
            _ => None,
        }
    }

    pub(crate) fn is_redis(&self) -> bool {
        matches!(self, Decoder::Redis(_))
    }
}

impl Lost {
    /// What a connection goes on with, if a request begins here and nothing is in flight: the
    /// server spoke last, and ended as it does with its last answer.
    fn found(&mut self, from: Side, bytes: &[u8]) -> Option<Decoder> {
        if from == Side::Client {
            let is_first = !self.has_begun && matches!(bytes, [0, 0, _, _, 0, 3 | 4, ..]);
            if is_first {
                return Some(Decoder::Postgres(Box::default()));
            }
            if self.is_at_rest && Postgres::is_message(bytes) {
                return Some(Decoder::Postgres(Box::new(Postgres::midway())));
            }
            if self.is_at_rest && Redis::is_command(bytes) {
                return Some(Decoder::Redis(Box::default()));
            }
            if !self.has_begun && matches!(bytes, [0x16, 0x03, ..]) {
                return Some(Decoder::Opaque(Opaque::Encrypted));
            }
        }
        self.note(from, bytes);
        None
    }

    fn note(&mut self, from: Side, bytes: &[u8]) {
        self.has_begun |= !bytes.is_empty();
        self.is_at_rest =
            from == Side::Server && (Postgres::is_at_rest(bytes) || bytes.ends_with(b"\r\n"));
    }
}
