//! COPY: which texts are one, the messages of its data, and the outcome of one that failed.
//!
//! The statement is sent with the first of its data, without waiting for an answer. If the server
//! refuses the statement, it skips the data (PostgreSQL documentation, "COPY Operations";
//! `PostgresMain` in src/backend/tcop/postgres.c accepts and ignores the messages of a copy that is
//! over).

use bytes::{BufMut, BytesMut};
use onetrip_engine::memory::make_room;
use onetrip_engine::{Connection, Outcome, Protocol, Ticket, Time, Token};

use crate::message::{CopyData, CopyFail, EncodeError, Header, empty};
use crate::session::Expect;
use crate::sql::Traits;

/// The usual length of a copy data message, in bytes: large enough that messages and writes cost
/// little per byte, and small beside what a socket takes.
pub const MESSAGE_LEN: usize = 64 << 10;

/// The direction of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// COPY … FROM STDIN.
    In,
    /// COPY … TO STDOUT.
    Out,
}

impl Direction {
    /// Whether a text with these traits is one COPY in this direction.
    pub fn is_of(self, traits: Traits) -> bool {
        let is_copy = match self {
            Direction::In => traits.copy_in(),
            Direction::Out => traits.copy() && !traits.copy_in(),
        };
        is_copy && !traits.several()
    }

    /// The reply to expect.
    pub const fn expect(self) -> Expect {
        match self {
            Direction::In => Expect::copy_in(),
            Direction::Out => Expect::copy_out(),
        }
    }
}

/// There is no memory for the data, or it is longer than a message can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// Hands over data to a COPY. False if the COPY takes none now: not yet, or no longer.
///
/// # Errors
/// There is no memory for it, or it is longer than a message can be.
pub fn feed<P: Protocol>(
    engine: &mut Connection<P>,
    now: Time,
    token: Token,
    data: &[u8],
) -> Result<bool, NoRoom> {
    match engine.can_feed(token) {
        true => engine.feed(now, token, |out| {
            let is_room = make_room(out, data.len() + Header::LEN);
            is_room.then(|| CopyData { data }.encode(out).ok()).flatten().ok_or(NoRoom)
        }),
        false => Ok(false),
    }
}

/// Ends the data. False if the COPY takes none: not yet, or no longer.
pub fn finish<P: Protocol>(engine: &mut Connection<P>, now: Time, token: Token) -> bool {
    last(engine, now, token, |out| out.put_slice(&empty::COPY_DONE))
}

/// Gives up a COPY whose data is incomplete. If it was not sent yet, it is taken back.
pub fn fail<P: Protocol>(
    engine: &mut Connection<P>,
    now: Time,
    token: Token,
    ticket: Option<Ticket>,
    reason: &str,
) {
    // The server takes 10,000 bytes at most, and no NUL.
    let reason: String = reason.chars().filter(|c| *c != '\0').take(REASON_MAX).collect();
    let is_sent = last(engine, now, token, |out| {
        let _ = CopyFail { reason: &reason }.encode(out);
    });
    if let (false, Some(ticket)) = (is_sent, ticket) {
        engine.cancel(now, ticket);
    }
}

fn last<P: Protocol>(
    engine: &mut Connection<P>,
    now: Time,
    token: Token,
    write: impl FnOnce(&mut BytesMut),
) -> bool {
    let written: Result<bool, EncodeError> = engine.feed(now, token, |out| {
        write(out);
        Ok(())
    });
    engine.end_feed(now, token);
    written.unwrap_or(false)
}

/// The outcome of a COPY FROM STDIN that failed. Without the end of its data, no server completes
/// it.
pub fn outcome(outcome: Outcome, data_ended: bool) -> Outcome {
    match outcome {
        Outcome::Unknown if !data_ended => Outcome::Rejected,
        outcome => outcome,
    }
}

/// The most characters of a reason that are sent.
const REASON_MAX: usize = 1000;
