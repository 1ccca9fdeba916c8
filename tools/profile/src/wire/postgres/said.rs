//! What a server of PostgreSQL says.

use onetrip_postgres::message::tag::backend;
use onetrip_postgres::message::{
    BackendMessage, DataRow, Field, Format, Frame, Header, TransactionStatus, max_len,
};

use super::{COLUMNS_MAX, Column, Copying, Due, Postgres, VALUE_LEN_MAX, held};
use crate::exchange::{Class, Shared, VALUES_MAX};
use crate::piece::Nanos;
use crate::wire::frames::Inbox;
use crate::wire::{Opaque, Out};

impl Postgres {
    pub(super) fn read_server(
        &mut self,
        shared: &mut Shared,
        at: Nanos,
        bytes: &[u8],
        out: &mut Out,
    ) -> Result<(), Opaque> {
        let mut inbox = std::mem::take(&mut self.server);
        let read = self.read_messages(shared, at, bytes, out, &mut inbox);
        self.server = inbox;
        read
    }

    fn read_messages(
        &mut self,
        shared: &mut Shared,
        at: Nanos,
        mut rest: &[u8],
        out: &mut Out,
        inbox: &mut Inbox,
    ) -> Result<(), Opaque> {
        loop {
            let is_asked = self.front() == Some(Due::Encryption);
            let size = |bytes: &[u8]| match bytes.first() {
                // A server of before 7.0 answers with an error.
                Some(byte) if is_asked && *byte != b'E' => Ok(Some(1)),
                _ => size(bytes),
            };
            let kept_max = shared.memory.kept_max();
            let Some(message) = inbox.next(at, &mut rest, kept_max, size)? else { return Ok(()) };
            if message.bytes.len() == 1 {
                self.answered(at, out);
                self.is_encrypted = message.bytes != b"N";
                if self.is_encrypted {
                    return Ok(());
                }
                continue;
            }
            let tag = message.bytes[0];
            if !self.fits(tag) {
                return Err(Opaque::Incomplete);
            }
            let (bytes, is_whole) = (message.bytes, message.is_whole);
            if !is_whole {
                self.said_long(shared, at, tag, out);
            } else if !self.is_counted_only(tag, bytes) {
                let frame = Frame { tag, body: &bytes[Header::LEN..] };
                let message = BackendMessage::decode(frame).map_err(|_| Opaque::Unknown)?;
                self.said(shared, at, message, out)?;
            }
        }
    }

    /// Counts what a message adds to an answer. Whether that is all, since enough values were seen.
    fn is_counted_only(&mut self, tag: u8, bytes: &[u8]) -> bool {
        let Some(open) = self.first() else { return false };
        let answer = &mut open.exchange.answer;
        answer.bytes += bytes.len() as u64;
        if tag == backend::DATA_ROW && answer.values.len() >= VALUES_MAX {
            answer.rows += 1;
            return true;
        }
        matches!(tag, backend::COPY_DATA | backend::PARAMETER_STATUS)
    }

    /// A message that is too long to be looked at.
    fn said_long(&mut self, shared: &mut Shared, at: Nanos, tag: u8, out: &mut Out) {
        match tag {
            backend::DATA_ROW => {
                if let Some(open) = self.first() {
                    open.exchange.answer.rows += 1;
                }
            }
            backend::ERROR_RESPONSE => self.failed(shared, at, (b"", b""), out),
            backend::ROW_DESCRIPTION => self.described(at, std::iter::empty(), out),
            _ => {}
        }
    }

    fn said(
        &mut self,
        shared: &mut Shared,
        at: Nanos,
        message: BackendMessage<'_>,
        out: &mut Out,
    ) -> Result<(), Opaque> {
        match message {
            BackendMessage::Authentication(it) => {
                use onetrip_postgres::message::Authentication as Of;
                // What needs no answer comes in front of more.
                if !matches!(it, Of::Ok | Of::SaslFinal(_)) {
                    self.answered(at, out);
                }
            }
            BackendMessage::ParseComplete
            | BackendMessage::BindComplete
            | BackendMessage::CloseComplete
            | BackendMessage::NoData
            | BackendMessage::PortalSuspended => self.answered(at, out),
            BackendMessage::ParameterDescription(it) => {
                if let Some(Due::DescribeStatement(name)) = self.front()
                    && let Some(statement) = self.statements.get_mut(&name)
                {
                    statement.parameters = it.types.take(COLUMNS_MAX).collect();
                }
            }
            BackendMessage::RowDescription(it) => {
                let column = |it: Field<'_>| Column { oid: it.type_oid, format: it.format };
                self.described(at, it.fields.take(COLUMNS_MAX).map(column), out);
            }
            BackendMessage::DataRow(row) => self.row(shared, row),
            BackendMessage::CommandComplete(it) => {
                let changed = changed(it.tag);
                if let Some(open) = self.first() {
                    let answer = &mut open.exchange.answer;
                    answer.changed = answer.changed.saturating_add(changed);
                }
                self.completed(at, out);
            }
            BackendMessage::EmptyQueryResponse => self.completed(at, out),
            BackendMessage::CopyInResponse(_) => self.asked_for_data(),
            BackendMessage::ErrorResponse(it) => {
                let code = it.fields.value(b'C').unwrap_or_default();
                // Field V is not translated; servers of before 9.6 have field S alone.
                let severity = it.fields.value(b'V').or(it.fields.value(b'S'));
                self.failed(shared, at, (code, severity.unwrap_or_default()), out);
            }
            BackendMessage::ReadyForQuery(it) => {
                self.is_ready = true;
                self.in_transaction = it.status != TransactionStatus::Idle;
                self.answered(at, out);
            }
            BackendMessage::CopyBothResponse(_) => return Err(Opaque::Replication),
            _ => {}
        }
        Ok(())
    }

    fn completed(&mut self, at: Nanos, out: &mut Out) {
        self.copying = Copying::No;
        if self.front() == Some(Due::Execute) {
            self.answered(at, out);
        }
    }

    /// The columns of a result, or of a statement.
    fn described(&mut self, at: Nanos, columns: impl Iterator<Item = Column>, out: &mut Out) {
        match self.front() {
            Some(Due::DescribeStatement(name)) => {
                if let Some(statement) = self.statements.get_mut(&name) {
                    statement.columns = columns.map(|it| it.oid).collect();
                }
                self.answered(at, out);
            }
            // Of a portal, for whose rows this is the true form.
            front => {
                if let Some(open) = self.first() {
                    open.columns.clear();
                    open.columns.extend(columns);
                }
                if front == Some(Due::DescribePortal) {
                    self.answered(at, out);
                }
            }
        }
    }

    fn row(&mut self, shared: &mut Shared, row: DataRow<'_>) {
        let Some(open) = self.first() else { return };
        let answer = &mut open.exchange.answer;
        answer.rows += 1;
        if shared.memory.is_tight() {
            return;
        }
        let (unknown, before) = (Column { oid: 0, format: Format::Text }, answer.values.len());
        let mut values = std::mem::take(&mut shared.values.found);
        for (place, value) in row.values.enumerate() {
            let Some(value) = value.filter(|it| it.len() <= VALUE_LEN_MAX) else { continue };
            let column = open.columns.get(place).copied().unwrap_or(unknown);
            values.clear();
            shared.values.of_postgres(value, column.format, column.oid, &mut values);
            values.truncate(VALUES_MAX - answer.values.len());
            for value in &values {
                shared.values.count(*value);
                answer.values.push((place as u16, *value));
            }
        }
        shared.values.found = values;
        let added = answer.values.len() - before;
        self.held += added * size_of::<(u16, crate::value::Value)>();
    }

    /// The server is ready for the data of a COPY: rules 2 and 3.
    fn asked_for_data(&mut self) {
        let end = self.due.iter().position(|it| it.1 == Due::CopyEnd);
        let mut place = 0;
        self.due.retain(|it| {
            let is_read = end.is_none_or(|end| place < end) && it.1 == Due::Sync;
            let is_end = end == Some(place);
            place += 1;
            !is_read && !is_end
        });
        self.copying = match end {
            Some(_) => Copying::No,
            None if self.has_data_ahead => Copying::Data,
            None => Copying::Ready,
        };
        self.has_data_ahead = false;
    }

    fn failed(
        &mut self,
        shared: &mut Shared,
        at: Nanos,
        (code, severity): (&[u8], &[u8]),
        out: &mut Out,
    ) {
        let class = Class::Failed(shared.values.hash(0, code));
        self.copying = Copying::No;
        if let Some(open) = self.first() {
            open.exchange.answer.class = class;
        }
        if matches!(severity, b"FATAL" | b"PANIC") {
            while !self.due.is_empty() {
                self.fail(at, class, out);
            }
            return;
        }
        match self.front() {
            Some(Due::Query) | None => {}
            Some(Due::Login | Due::Encryption) => self.answered(at, out),
            // A Sync can fail as well, when it commits, and is answered all the same.
            Some(Due::Sync) => {}
            Some(_) => {
                while !matches!(self.front(), Some(Due::Sync) | None) {
                    self.fail(at, class, out);
                }
                self.is_skipping = self.due.is_empty();
            }
        }
    }

    /// What was due first fails, or is skipped.
    fn fail(&mut self, at: Nanos, class: Class, out: &mut Out) {
        if let Some(Due::Parse(name)) = self.front()
            && let Some(statement) = self.statements.remove(&name)
        {
            // One of this name may be older than the one that failed.
            self.held = self.held.saturating_sub(statement.held());
        }
        if let Some(open) = self.first() {
            open.exchange.answer.class = class;
        }
        self.answered(at, out);
    }

    /// Adds what an exchange on its way holds now, less what it held before.
    pub(super) fn charge(&mut self, number: u64, before: usize) {
        let now = self.numbered(number).map_or(0, |open| held(&open.exchange));
        self.held = (self.held + now).saturating_sub(before);
    }
}

/// The rows that a write changed, by its tag.
fn changed(tag: &str) -> u64 {
    let is_write =
        ["INSERT", "UPDATE", "DELETE", "MERGE", "COPY"].iter().any(|it| tag.starts_with(it));
    let number = tag.rsplit(' ').next().filter(|_| is_write);
    number.and_then(|it| it.parse().ok()).unwrap_or(0)
}

/// The length of the message that bytes begin with.
fn size(bytes: &[u8]) -> Result<Option<usize>, Opaque> {
    let Some(header) = Header::peek(bytes).map_err(|_| Opaque::Unknown)? else { return Ok(None) };
    let is_known = max_len(header.tag).is_some_and(|max| header.len <= max);
    if is_known { Ok(Some(header.message_len())) } else { Err(Opaque::Unknown) }
}
