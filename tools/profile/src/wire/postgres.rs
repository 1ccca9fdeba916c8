//! PostgreSQL's protocol 3, both directions.
//!
//! Each message that the server answers is *due*. What belongs to one use of a statement is one
//! exchange: Parse, Bind, Describe, Execute, and the Sync behind it. It ends with the answer to the
//! last of them.
//!
//! Rules, with the places of the server's source (tcop/postgres.c if nothing else is said):
//!
//! 1. Behind an error of the extended protocol the server skips all messages up to a Sync, Query
//!    included (`ignore_till_sync`).
//! 2. While it reads the data of a COPY it skips Sync and Flush (CopyGetData in
//!    commands/copyfromparse.c). Behind a COPY that failed it skips what is left of the data.
//! 3. A COPY from the client is two trips: the server is ready for the data; the data is stored.
//! 4. After a FATAL error nothing is answered any more.
//! 5. An answer that nothing due explains means that bytes were not seen. Then nothing is guessed.

mod said;
mod sent;
mod texts;

use std::collections::{HashMap, VecDeque};

use onetrip_postgres::message::tag::backend;
use onetrip_postgres::message::{Format, Header};

use super::frames::Inbox;
use super::{Opaque, Out};
use crate::exchange::{Answer, Class, Exchange, Shared, TextId};
use crate::piece::{Nanos, Side};
use crate::value::Value;
pub(crate) use texts::ReadTexts;

/// The hash of a name of a statement or portal, under the run's key.
type Name = u64;

/// What the server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// A message of a login: with another question, or with ReadyForQuery.
    Login,
    /// SSLRequest or GSSENCRequest: with one byte.
    Encryption,
    Parse(Name),
    Bind,
    Close,
    /// Of a statement, whose name is known.
    DescribeStatement(Name),
    DescribePortal,
    Execute,
    Sync,
    /// Any number of results, and ReadyForQuery.
    Query,
    /// It is not answered, but ends the data of a COPY, if there is one.
    CopyEnd,
}

/// Whose turn it is in a COPY from the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Copying {
    #[default]
    No,
    /// The server is ready for data, none of which has come.
    Ready,
    /// The client sends data.
    Data,
}

/// A column of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Column {
    oid: u32,
    format: Format,
}

/// A statement of the server.
#[derive(Clone, Debug)]
struct Prepared {
    text: TextId,
    literals: Vec<Vec<Value>>,
    parameters: Vec<u32>,
    columns: Vec<u32>,
}

/// A statement with its parameters.
#[derive(Clone, Debug)]
struct Portal {
    text: TextId,
    inputs: Vec<Vec<Value>>,
    columns: Vec<Column>,
}

/// An exchange on its way.
#[derive(Debug)]
struct Open {
    number: u64,
    exchange: Exchange,
    columns: Vec<Column>,
}

/// Statements and portals of a connection that are remembered, and columns of each.
const NAMES_MAX: usize = 10_000;
const COLUMNS_MAX: usize = 64;
/// Messages without an answer that are followed: beyond it nothing is known until all is quiet.
const DUE_MAX: usize = 1 << 20;
/// The same when memory is short.
const DUE_TIGHT: usize = 64;

/// The protocol of one connection.
#[derive(Debug, Default)]
pub(crate) struct Postgres {
    client: Inbox,
    server: Inbox,
    /// The server has answered as one does that is logged in.
    is_ready: bool,
    /// A first packet is next: a startup, or one more after a refusal of encryption.
    is_begun: bool,
    is_encrypted: bool,
    statements: HashMap<Name, Prepared>,
    portals: HashMap<Name, Portal>,
    due: VecDeque<(u64, Due)>,
    open: VecDeque<Open>,
    /// The exchange that further messages of the client belong to, and the one that a Sync does.
    draft: Option<u64>,
    last: u64,
    in_transaction: bool,
    /// The server skips what comes, up to a Sync.
    is_skipping: bool,
    copying: Copying,
    /// Data of a COPY was sent before the server was ready for it.
    has_data_ahead: bool,
    /// Bytes of memory, but for those of buffers and of what is due.
    held: usize,
}

impl Postgres {
    /// One whose login was not seen.
    pub(super) fn midway() -> Postgres {
        Postgres { is_begun: true, is_ready: true, ..Postgres::default() }
    }

    /// Whether bytes begin as a message of a client does that has logged in.
    pub(super) fn is_message(bytes: &[u8]) -> bool {
        let is_known = bytes.first().is_some_and(|tag| b"QPBDECSHXF".contains(tag));
        let header = Header::peek(bytes).ok().flatten();
        is_known && header.is_some_and(|it| (it.len as usize) < SENSIBLE_MAX)
    }

    /// Whether bytes of a server end with ReadyForQuery.
    pub(super) fn is_at_rest(bytes: &[u8]) -> bool {
        matches!(bytes, [.., b'Z', 0, 0, 0, 5, b'I' | b'T' | b'E'])
    }

    pub(super) fn read(
        &mut self,
        shared: &mut Shared,
        at: Nanos,
        from: Side,
        bytes: &[u8],
        out: &mut Out,
    ) -> Result<(), Opaque> {
        if self.is_encrypted {
            return Err(Opaque::Encrypted);
        }
        let read = match from {
            Side::Client => self.read_client(shared, at, bytes, out),
            Side::Server => self.read_server(shared, at, bytes, out),
        };
        let due_max = if shared.memory.is_full() { DUE_TIGHT } else { DUE_MAX };
        if self.due.len() > due_max {
            return Err(Opaque::Incomplete);
        }
        read.map_err(|why| match why {
            // It was PostgreSQL before, so this is no other protocol.
            Opaque::Unknown if self.is_ready => Opaque::Incomplete,
            why => why,
        })
    }

    /// Above 0 if requests are not answered, or one is not whole.
    pub(super) fn in_flight(&self) -> usize {
        usize::from(self.is_owed()) + usize::from(self.client.is_amid())
    }

    pub(super) fn is_owed(&self) -> bool {
        self.copying != Copying::Ready && !self.due.is_empty()
    }

    /// Bytes of memory.
    pub(super) fn held(&self) -> usize {
        let buffers = self.client.held() + self.server.held();
        self.held + buffers + self.due.capacity() * size_of::<(u64, Due)>()
    }

    fn front(&self) -> Option<Due> {
        self.due.front().map(|it| it.1)
    }

    fn numbered(&mut self, number: u64) -> Option<&mut Open> {
        // Numbers have no gaps.
        let place = number.checked_sub(self.open.front()?.number)?;
        self.open.get_mut(place as usize)
    }

    /// The exchange that is answered now.
    fn first(&mut self) -> Option<&mut Open> {
        let number = self.due.front()?.0;
        self.numbered(number)
    }

    /// Whether this can answer what is due.
    fn fits(&self, tag: u8) -> bool {
        use backend as of;
        let Some(front) = self.front() else {
            return matches!(
                tag,
                of::NOTICE_RESPONSE
                    | of::PARAMETER_STATUS
                    | of::NOTIFICATION_RESPONSE
                    | of::ERROR_RESPONSE
            );
        };
        let has_results = matches!(front, Due::Execute | Due::Query);
        match tag {
            of::PARSE_COMPLETE => matches!(front, Due::Parse(_)),
            of::BIND_COMPLETE => front == Due::Bind,
            of::CLOSE_COMPLETE => front == Due::Close,
            of::PARAMETER_DESCRIPTION => matches!(front, Due::DescribeStatement(_)),
            of::NO_DATA => matches!(front, Due::DescribeStatement(_) | Due::DescribePortal),
            of::ROW_DESCRIPTION => {
                matches!(front, Due::DescribeStatement(_) | Due::DescribePortal | Due::Query)
            }
            of::PORTAL_SUSPENDED => front == Due::Execute,
            of::DATA_ROW
            | of::COMMAND_COMPLETE
            | of::EMPTY_QUERY_RESPONSE
            | of::COPY_IN_RESPONSE
            | of::COPY_OUT_RESPONSE
            | of::COPY_BOTH_RESPONSE
            | of::COPY_DATA
            | of::COPY_DONE => has_results,
            of::FUNCTION_CALL_RESPONSE => front == Due::Query,
            of::READY_FOR_QUERY => matches!(front, Due::Sync | Due::Query | Due::Login),
            of::AUTHENTICATION | of::BACKEND_KEY_DATA | of::NEGOTIATE_PROTOCOL_VERSION => {
                front == Due::Login
            }
            _ => true,
        }
    }

    /// What was due first is answered.
    fn answered(&mut self, at: Nanos, out: &mut Out) {
        let Some((number, _)) = self.due.pop_front() else { return };
        while self.front() == Some(Due::CopyEnd) {
            self.due.pop_front();
        }
        self.has_data_ahead &= !self.due.is_empty();
        let has_more =
            self.draft == Some(number) || self.due.front().is_some_and(|(next, _)| *next == number);
        if has_more {
            return;
        }
        while self.open.front().is_some_and(|it| it.number <= number) {
            let Some(Open { mut exchange, .. }) = self.open.pop_front() else { return };
            self.held = self.held.saturating_sub(held(&exchange));
            exchange.end = at;
            exchange.in_transaction = self.in_transaction;
            exchange.answer.class = class_of(&exchange.answer);
            out.ended.push(exchange);
        }
    }
}

/// Bytes of an exchange on its way.
fn held(exchange: &Exchange) -> usize {
    size_of::<Open>() + exchange.held()
}

/// The longest first message that a connection is taken for PostgreSQL by.
const SENSIBLE_MAX: usize = 1 << 20;

/// Bytes of a value that is looked at.
const VALUE_LEN_MAX: usize = 1024;

/// What an answer that did not fail is like.
pub(super) fn class_of(answer: &Answer) -> Class {
    match (answer.class, answer.rows, &answer.values[..]) {
        (class @ Class::Failed(_), ..) => class,
        (_, 0, _) => match answer.changed {
            0 => Class::Nothing,
            1 => Class::One,
            _ => Class::Many,
        },
        (_, 1, [(0, value)]) => Class::Scalar(*value),
        (_, 1, _) => Class::One,
        _ => Class::Many,
    }
}
