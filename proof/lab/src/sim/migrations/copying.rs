//! A binary COPY, as the package for Python makes one: its row is written as what the table's columns
//! were described as, and the core's guard behind it fails if they are others by then.

use bytes::BytesMut;
use onetrip_engine::{End, Feed, Outcome, Request, Token};
use onetrip_postgres::client::copy::{self, Direction, Guard};
use onetrip_postgres::client::stream;
use onetrip_postgres::message::{CopyData, EncodeError, Format, Query};
use onetrip_postgres::sql::classify;

use super::host::Written;
use super::plan::{Call, Ended, Place};
use super::read::Error;
use super::{OfMigrations, World};
use crate::model::{NAMES, Type};

/// How often one is written at most, as the package has it.
const COPIES_MAX: u8 = 4;

/// The signature, without flags, and the number of columns.
const FRONT: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x02";
/// No more rows.
const BACK: &[u8] = &[0xff, 0xff];

impl World {
    /// The data of a COPY; none where its value does not fit the type that was learned.
    pub(super) fn copied(&self, call: &Call) -> Option<Written> {
        let described = call.sent.described.as_ref()?;
        let [(_, op), (_, column), ..] = &described.columns[..] else { return None };
        let mut data = FRONT.to_vec();
        for (oid, text) in [(op, &call.id.to_string()), (column, call.value.as_ref()?)] {
            let (format, value) = self.binary(*oid, text)?;
            // The bytes of an enum are its label.
            if format == Format::Text && Type::of(*oid).is_some() {
                return None;
            }
            data.extend_from_slice(&(value.len() as u32).to_be_bytes());
            data.extend_from_slice(&value);
        }
        data.extend_from_slice(BACK);
        Some(Written { oids: Vec::new(), types_id: 0, are_learned: true, values: data })
    }

    pub(super) fn send_copied(&mut self, call: &mut Call, written: &Written) -> Result<(), ()> {
        let Some(described) = call.sent.described.clone() else { return Err(()) };
        let table = NAMES[call.table.1];
        let columns: Vec<_> =
            described.columns.iter().take(2).map(|(name, oid)| (name.as_str(), *oid)).collect();
        let text = format!("copy op={} into={table} from stdin (format binary)", call.id);
        let sql = match self.is(OfMigrations::NoGuard) {
            true => text.clone(),
            false => format!("{text}\n;{}", copy::guard(Guard::ByRow, table, &columns)),
        };
        self.report.count("copies");
        let expect = Direction::In.expect().of_traits(classify(&text));
        let request = stream::request(Token(call.id), expect, Feed::Messages, false);
        let request = Request { pinned: call.place == Place::Block, ..request };
        let line = &mut self.lines[call.line];
        let sent = line.engine.submit(self.now, request, |out: &mut BytesMut| {
            Query { sql: &sql }.encode(out)?;
            CopyData { data: &written.values }.encode(out)?;
            Ok::<_, EncodeError>(())
        });
        line.copying = sent.is_ok().then_some(call.id);
        sent.map(drop).map_err(drop)
    }

    /// Sends the end of a COPY once it takes that.
    pub(super) fn finish_copy(&mut self, at: usize) {
        let (now, line) = (self.now, &mut self.lines[at]);
        if let Some(id) = line.copying
            && copy::finish(&mut line.engine, now, Token(id))
        {
            line.copying = None;
        }
    }

    /// A COPY has failed. If the columns may be others by now, it is written anew.
    pub(super) fn copy_failed(&mut self, mut call: Call, end: End, error: Option<Error>) {
        let End::Failed(failure) = end else { return };
        let said = error.clone().unwrap_or_default();
        let is_old = failure.outcome == Outcome::Rejected && copy::may_be_outdated(&said.code);
        if error.is_none() || !is_old {
            return self.is_over(call, Ended::Told(end, error));
        }
        self.described.remove(&call.text);
        if copy::types_changed(&said.code, &said.message) {
            self.report.count("copies that were found out");
            self.described.clear();
        }
        if call.place == Place::Block || call.sent.again + 1 >= COPIES_MAX {
            return self.is_over(call, Ended::Told(end, error));
        }
        call.sent.held = Some(said);
        self.send_again(call);
    }
}
