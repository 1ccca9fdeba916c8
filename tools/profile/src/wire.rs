//! From bytes to exchanges.

mod frames;
mod postgres;
mod redis;

use crate::exchange::{Exchange, Shared};
use crate::piece::{Nanos, Side};

use postgres::Postgres;
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
    Opaque(Opaque),
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
        let refused = match self {
            Decoder::Postgres(it) => it.read(shared, at, from, bytes, out).err(),
            Decoder::Redis(it) => it.read(shared, at, from, bytes, out).err(),
            Decoder::New | Decoder::Opaque(_) => None,
        };
        if let Some(why) = refused {
            *self = Decoder::Opaque(why);
        }
    }

    fn by_first_bytes(from: Side, bytes: &[u8]) -> Decoder {
        match (from, bytes) {
            (_, []) | (Side::Server, _) => Decoder::New,
            // A TLS record of a handshake.
            (_, [0x16, 0x03, ..]) => Decoder::Opaque(Opaque::Encrypted),
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
            Decoder::Opaque(_) => None,
        }
    }

    /// Bytes are missing, so nothing behind them can be read.
    pub(crate) fn lose(&mut self) {
        if !matches!(self, Decoder::Opaque(_)) {
            *self = Decoder::Opaque(Opaque::Incomplete);
        }
    }

    pub(crate) fn opaque(&self) -> Option<Opaque> {
        match self {
            Decoder::Opaque(why) => Some(*why),
            _ => None,
        }
    }

    pub(crate) fn is_redis(&self) -> bool {
        matches!(self, Decoder::Redis(_))
    }
}
