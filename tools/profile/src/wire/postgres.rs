//! PostgreSQL's protocol 3, both directions.
//!
//! Each message that the server answers is *due*. What belongs to one use of a statement is one
//! exchange: Parse, Bind, Describe, Execute, and the Sync behind it. It ends with the answer to the
//! last of them.

mod sent;
mod texts;

use std::collections::{HashMap, VecDeque};

use onetrip_postgres::message::Header;
use onetrip_postgres::message::tag::backend;
use onetrip_postgres::message::{
    BackendMessage, DataRow, ErrorResponse, Format, TransactionStatus, frame, max_len,
};

use super::frames::{Inbox, KEPT_MAX};
use super::{Opaque, Out};
use crate::exchange::{Answer, Class, Exchange, Shared, TextId, VALUES_MAX};
use crate::piece::{Nanos, Side};
use crate::value::Value;

/// What the server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Due {
    /// A message of a login: with another question, or with ReadyForQuery.
    Login,
    /// SSLRequest or GSSENCRequest: with one byte.
    Encryption,
    Parse,
    Bind,
    Close,
    /// Of a statement, whose name is known, or of a portal.
    Describe(Option<Box<str>>),
    Execute,
    Sync,
    /// Any number of results, and ReadyForQuery.
    Query,
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

/// Statements and portals of a connection that are remembered.
const NAMES_MAX: usize = 10_000;

/// The protocol of one connection.
#[derive(Debug, Default)]
pub(crate) struct Postgres {
    client: Inbox,
    server: Inbox,
    /// The client is past its login.
    is_ready: bool,
    /// A first packet is next: a startup, or one more after a refusal of encryption.
    is_begun: bool,
    is_encrypted: bool,
    statements: HashMap<Box<str>, Prepared>,
    portals: HashMap<Box<str>, Portal>,
    due: VecDeque<(u64, Due)>,
    open: VecDeque<Open>,
    /// The exchange that further messages of the client belong to, and the one that a Sync does.
    draft: Option<u64>,
    last: u64,
    numbers: u64,
    in_transaction: bool,
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
        is_known && header.is_some_and(|it| (it.len as usize) < KEPT_MAX)
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
        match from {
            Side::Client => {
                self.client.add(at, bytes);
                self.read_client(shared, out)
            }
            Side::Server => {
                self.server.add(at, bytes);
                self.read_server(shared, at, out)
            }
        }
    }

    /// Requests that are not answered, also one that is not whole.
    pub(super) fn in_flight(&self) -> usize {
        self.due.len() + usize::from(self.client.is_amid())
    }

    // --- what the server says ---

    fn read_server(&mut self, shared: &mut Shared, at: Nanos, out: &mut Out) -> Result<(), Opaque> {
        loop {
            if let Some((_, Due::Encryption)) = self.due.front() {
                match self.server.bytes().first() {
                    None => return Ok(()),
                    Some(b'N') => {
                        self.server.take(1);
                        self.answered(shared, at, out);
                        continue;
                    }
                    // A server of before 7.0 answers with an error.
                    Some(b'E') => {}
                    Some(_) => {
                        self.answered(shared, at, out);
                        self.is_encrypted = true;
                        return Ok(());
                    }
                }
            }
            let bytes = self.server.bytes();
            let header = Header::peek(bytes).map_err(|_| Opaque::Unknown)?;
            if let Some(header) = header.filter(|it| it.len as usize > KEPT_MAX) {
                self.unread(shared, header.tag)?;
                self.server.take(header.message_len());
                continue;
            }
            let Some(frame) = frame(bytes, max_len).map_err(|_| Opaque::Unknown)? else {
                return Ok(());
            };
            let (tag, len) = (frame.tag, frame.message_len());
            let body = self.server.bytes()[Header::LEN..len].to_vec();
            self.server.take(len);
            self.said(shared, at, tag, &body, out)?;
        }
    }

    /// A message that is too long to be looked at.
    fn unread(&mut self, _: &mut Shared, tag: u8) -> Result<(), Opaque> {
        if let (backend::DATA_ROW, Some(open)) = (tag, self.first()) {
            open.exchange.answer.rows += 1;
        }
        Ok(())
    }

    fn first(&mut self) -> Option<&mut Open> {
        let number = self.due.front()?.0;
        self.open.iter_mut().find(|it| it.number == number)
    }

    fn said(
        &mut self,
        shared: &mut Shared,
        at: Nanos,
        tag: u8,
        body: &[u8],
        out: &mut Out,
    ) -> Result<(), Opaque> {
        let frame = onetrip_postgres::message::Frame { tag, body };
        let message = BackendMessage::decode(frame).map_err(|_| Opaque::Unknown)?;
        if let Some(open) = self.first() {
            open.exchange.answer.bytes += body.len() as u64 + Header::LEN as u64;
        }
        match message {
            BackendMessage::Authentication(_) => {
                // What needs no answer comes in front of more.
                let asks = !matches!(body.get(..4), Some([0, 0, 0, 0 | 12]));
                if asks && matches!(self.due.front(), Some((_, Due::Login))) {
                    self.answered(shared, at, out);
                }
            }
            BackendMessage::ParseComplete
            | BackendMessage::BindComplete
            | BackendMessage::CloseComplete => {
                if matches!(self.due.front(), Some((_, Due::Parse | Due::Bind | Due::Close))) {
                    self.answered(shared, at, out);
                }
            }
            BackendMessage::ParameterDescription(it) => {
                if let Some((_, Due::Describe(Some(name)))) = self.due.front()
                    && let Some(statement) = self.statements.get_mut(name)
                {
                    statement.parameters = it.types.collect();
                }
            }
            BackendMessage::NoData => self.answered(shared, at, out),
            BackendMessage::RowDescription(it) => {
                let columns: Vec<_> = it
                    .fields
                    .map(|field| Column { oid: field.type_oid, format: field.format })
                    .collect();
                self.described(columns);
                if matches!(self.due.front(), Some((_, Due::Describe(_)))) {
                    self.answered(shared, at, out);
                }
            }
            BackendMessage::DataRow(row) => self.row(shared, row),
            BackendMessage::CommandComplete(it) => {
                let changed = changed(it.tag);
                if let Some(open) = self.first() {
                    open.exchange.answer.changed += changed;
                }
                if matches!(self.due.front(), Some((_, Due::Execute))) {
                    self.answered(shared, at, out);
                }
            }
            BackendMessage::EmptyQueryResponse | BackendMessage::PortalSuspended => {
                if matches!(self.due.front(), Some((_, Due::Execute))) {
                    self.answered(shared, at, out);
                }
            }
            BackendMessage::ErrorResponse(it) => self.failed(shared, at, it, out),
            BackendMessage::ReadyForQuery(it) => {
                self.is_ready = true;
                self.in_transaction = it.status != TransactionStatus::Idle;
                if matches!(self.due.front(), Some((_, Due::Sync | Due::Query | Due::Login))) {
                    self.answered(shared, at, out);
                }
            }
            BackendMessage::CopyBothResponse(_) => return Err(Opaque::Replication),
            _ => {}
        }
        Ok(())
    }

    /// The columns of a result, or of a statement.
    fn described(&mut self, columns: Vec<Column>) {
        if let Some((_, Due::Describe(Some(name)))) = self.due.front() {
            if let Some(statement) = self.statements.get_mut(name) {
                statement.columns = columns.iter().map(|it| it.oid).collect();
            }
        } else {
            // Of a portal, for whose rows this is the true form.
            let number = self.due.front().map_or(0, |it| it.0);
            for open in self.open.iter_mut().filter(|it| it.number == number) {
                open.columns.clone_from(&columns);
            }
        }
    }

    fn row(&mut self, shared: &mut Shared, row: DataRow<'_>) {
        let Some(open) = self.first() else { return };
        let answer = &mut open.exchange.answer;
        answer.rows += 1;
        let unknown = Column { oid: 0, format: Format::Text };
        for (place, value) in row.values.enumerate() {
            let Some(value) = value.filter(|it| it.len() <= VALUE_LEN_MAX) else { continue };
            let column = open.columns.get(place).copied().unwrap_or(unknown);
            for value in shared.values.of_postgres(value, column.format, column.oid) {
                if answer.values.len() >= VALUES_MAX {
                    return;
                }
                shared.values.count(value);
                answer.values.push((place as u16, value));
            }
        }
    }

    fn failed(&mut self, shared: &mut Shared, at: Nanos, it: ErrorResponse<'_>, out: &mut Out) {
        let code = it.fields.value(b'C').unwrap_or_default();
        let class = Class::Failed(shared.values.hash(0, code));
        if let Some(open) = self.first() {
            open.exchange.answer.class = class;
        }
        match self.due.front() {
            Some((_, Due::Query)) | None => {}
            Some((_, Due::Login | Due::Encryption)) => self.answered(shared, at, out),
            Some(_) => {
                // The server skips all up to the next Sync.
                while !matches!(self.due.front(), Some((_, Due::Sync)) | None) {
                    let number = self.due.front().map_or(0, |it| it.0);
                    if let Some(open) = self.open.iter_mut().find(|it| it.number == number) {
                        open.exchange.answer.class = class;
                    }
                    self.answered(shared, at, out);
                }
            }
        }
    }

    /// What was due first is answered.
    fn answered(&mut self, shared: &mut Shared, at: Nanos, out: &mut Out) {
        let Some((number, _)) = self.due.pop_front() else { return };
        let has_more =
            self.draft == Some(number) || self.due.front().is_some_and(|(next, _)| *next == number);
        if has_more {
            return;
        }
        while self.open.front().is_some_and(|it| it.number <= number) {
            let Some(Open { mut exchange, .. }) = self.open.pop_front() else { return };
            exchange.end = at;
            exchange.in_transaction = self.in_transaction;
            exchange.answer.class = class_of(shared, &exchange.answer);
            out.ended.push(exchange);
        }
    }
}

/// Bytes of a value that is looked at.
const VALUE_LEN_MAX: usize = 1024;

/// The rows that a write changed, by its tag.
fn changed(tag: &str) -> u64 {
    let is_write =
        ["INSERT", "UPDATE", "DELETE", "MERGE", "COPY"].iter().any(|it| tag.starts_with(it));
    let number = tag.rsplit(' ').next().filter(|_| is_write);
    number.and_then(|it| it.parse().ok()).unwrap_or(0)
}

/// What an answer that did not fail is like.
pub(super) fn class_of(_: &Shared, answer: &Answer) -> Class {
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
