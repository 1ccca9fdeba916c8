//! The workload: what the host has to send.

use std::rc::Rc;

use bytes::BytesMut;
use onetrip_engine::End;
use onetrip_postgres::client::statements::{Closing, Seen, Use};
use onetrip_postgres::message::Format;

use super::World;
use super::read::Error;
use super::remembered::{Described, Learned};
use crate::model::{NAMES, PATHS, Table, Type};

/// A statement of a caller.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: u64,
    pub(super) line: usize,
    pub(super) text: String,
    /// The name that its caller gave it.
    pub(super) name: Option<String>,
    pub(super) what: What,
    pub(super) face: Face,
    pub(super) place: Place,
    /// The segment or the transaction that it belongs to.
    pub(super) unit: Option<u64>,
    pub(super) table: Table,
    /// The value that it stores, as its caller has it.
    pub(super) value: Option<String>,
    /// Whether its caller says that it may run twice.
    pub(super) is_repeatable: bool,
    /// The version of the tables when it was begun, and how many errors its client had been told.
    pub(super) version: u32,
    pub(super) told: usize,
    pub(super) sent: Sent,
    pub(super) end: Option<Ended>,
}

/// What a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Insert,
    Select,
    /// A binary COPY of one row. Its text is the one that tells the types of its columns.
    Copy,
    /// It sets the path of its session.
    Path,
    Begin,
    Commit,
    Sync,
}

impl What {
    pub(super) fn stores(self) -> bool {
        matches!(self, What::Insert | What::Copy)
    }
}

/// How its host sends and reads values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Face {
    /// As texts.
    Texts,
    /// As what it has learned of the text.
    Learns,
}

/// Where it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Alone,
    /// In a segment. `names`: it may name what its segment has prepared.
    Member {
        names: bool,
    },
    /// In a transaction.
    Block,
}

/// How it is under way.
#[derive(Debug, Default)]
pub(super) struct Sent {
    pub(super) used: Option<Use<Learned>>,
    pub(super) closing: Option<Closing>,
    pub(super) seen: Seen,
    pub(super) reply: BytesMut,
    /// By what its values were written.
    pub(super) described: Option<Rc<Described>>,
    pub(super) asked: Vec<Format>,
    /// The question for that is under way.
    pub(super) is_asking: bool,
    /// It was asked for this call.
    pub(super) is_fresh: bool,
    /// How often it was sent again, and the error behind which that was done.
    pub(super) again: u8,
    pub(super) held: Option<Error>,
    /// How often the engine has said that it begins anew.
    pub(super) restarts: u32,
}

/// How it ended.
#[derive(Clone, Debug)]
pub(super) enum Ended {
    /// As the engine says; with the error of the server.
    Told(End, Option<Error>),
    /// The host refused it, and nothing of it was sent.
    Refused,
    /// It took effect, and its rows can't be read.
    Misread,
}

impl World {
    /// A caller does something.
    pub(super) fn act(&mut self) {
        let at = self.rng.index(self.lines.len());
        let line = &self.lines[at];
        // What one caller sends behind a statement does not go in front of it.
        let is_full = line.open.len() >= self.settings.open_max;
        if line.is_closed || is_full || line.is_lent && self.is_occupied(at) {
            return;
        }
        let (is_lent, block, is_quiet) = (line.is_lent, line.block, line.open.is_empty());
        match self.rng.below(16) {
            0 if is_lent && block.is_none() && is_quiet => self.give_back(at),
            0 if !is_lent && self.settings.sessions && is_quiet => self.lend(at),
            1 | 2 if is_lent && block.is_none() && !self.settings.learns => self.set_path(at),
            3 if is_lent && block.is_none() => self.begin_block(at),
            4 if block.is_some() => self.end_block(at),
            5 | 6 if block.is_none() => self.segment(at),
            8..=11 if is_quiet && self.settings.learns && !self.settings.is_pooled => self.copy(at),
            7 => (0..self.rng.up_to(6)).for_each(|_| self.statement(at)),
            _ => self.statement(at),
        }
    }

    /// Whether a call of a connection waits for what its text takes, or is a COPY.
    fn is_occupied(&self, at: usize) -> bool {
        let of = |call: &Call| call.sent.is_asking || call.what == What::Copy;
        self.lines[at].open.iter().any(|id| self.calls.get(id).is_some_and(of))
    }

    fn lend(&mut self, at: usize) {
        let line = &mut self.lines[at];
        line.engine.protocol_mut().lend();
        line.is_lent = true;
        self.report.count("sessions");
        self.say(&format!("{at} is lent"));
    }

    fn give_back(&mut self, at: usize) {
        let line = &mut self.lines[at];
        line.engine.protocol_mut().take_back();
        line.engine.protocol_mut().share();
        (line.is_lent, line.path) = (false, 0);
        self.say(&format!("{at} is given back"));
    }

    fn set_path(&mut self, at: usize) {
        let (id, path) = (self.next_id, self.rng.index(PATHS.len()));
        let name = PATHS[path];
        let text = match self.rng.one_in(2) {
            true => format!("set search_path={name} op={id}"),
            false => format!("select set_path() op={id} search_path={name} rows=0"),
        };
        let line = &mut self.lines[at];
        line.path = path;
        self.report.count("paths set");
        let call = self.call(at, What::Path, text);
        self.begin(call);
    }

    fn begin_block(&mut self, at: usize) {
        self.units += 1;
        self.lines[at].block = Some(self.units);
        self.report.count("transactions");
        let text = format!("begin op={}", self.next_id);
        let call = self.call(at, What::Begin, text);
        self.begin(call);
    }

    /// Ends the open transactions.
    pub(super) fn end_blocks(&mut self) {
        for at in 0..self.lines.len() {
            if self.lines[at].is_closed {
                self.lines[at].block = None;
            } else if self.lines[at].block.is_some() && !self.is_occupied(at) {
                self.end_block(at);
            }
        }
    }

    fn end_block(&mut self, at: usize) {
        let text = format!("commit op={}", self.next_id);
        let call = self.call(at, What::Commit, text);
        self.begin(call);
        self.lines[at].block = None;
    }

    fn call(&mut self, at: usize, what: What, text: String) -> Call {
        let (id, line) = (self.next_id, &self.lines[at]);
        self.next_id += 1;
        let place = if line.block.is_some() { Place::Block } else { Place::Alone };
        Call {
            id,
            line: at,
            text,
            name: None,
            what,
            face: Face::Texts,
            place,
            unit: line.block,
            table: (line.path, 0),
            value: None,
            is_repeatable: false,
            version: self.schema.version(),
            told: self.told.len(),
            sent: Sent::default(),
            end: None,
        }
    }

    fn statement(&mut self, at: usize) {
        let call = self.any_statement(at);
        self.begin(call);
    }

    /// A COPY of a row, on a connection that its caller has to himself.
    fn copy(&mut self, at: usize) {
        if !self.lines[at].is_lent {
            self.lend(at);
        }
        let name = self.rng.index(NAMES.len());
        let text = format!("select op=$1 from={} columns", NAMES[name]);
        let mut call = self.call(at, What::Copy, text);
        (call.table, call.face) = ((self.lines[at].path, name), Face::Learns);
        call.value = Some(self.value(call.table, call.face));
        self.begin(call);
    }

    /// A few statements that share a sync point.
    fn segment(&mut self, at: usize) {
        self.units += 1;
        self.lines[at].segments += 1;
        let (unit, count) = (self.units, self.rng.up_to(5));
        self.report.count("segments");
        let names = self.rng.one_in(2);
        for _ in 0..count {
            let call = self.any_statement(at);
            // Nothing is asked within a segment.
            if call.face == Face::Learns && !self.described.contains_key(&call.text) {
                continue;
            }
            let place = Place::Member { names };
            self.begin(Call { place, unit: Some(unit), is_repeatable: false, ..call });
        }
        let sync = self.call(at, What::Sync, String::new());
        self.begin(Call { unit: Some(unit), ..sync });
    }

    fn any_statement(&mut self, at: usize) -> Call {
        let name = self.rng.index(NAMES.len());
        let (table, variant) = (NAMES[name], self.rng.index(self.settings.texts));
        let kind = self.rng.below(5);
        let (what, text) = match kind {
            0 => (What::Select, format!("select op=$1 from={table}")),
            1 => (What::Insert, format!("insert op=$1 into={table} v=$2 returning=*")),
            _ => (What::Insert, format!("insert op=$1 into={table} v=$2")),
        };
        let mut call = self.call(at, what, format!("{text} x{variant}"));
        call.table = (self.lines[at].path, name);
        call.face = if self.settings.learns { Face::Learns } else { Face::Texts };
        call.is_repeatable = what == What::Select && self.rng.one_in(2);
        if what == What::Insert {
            call.value = Some(self.value(call.table, call.face));
        }
        if self.settings.names && call.face == Face::Texts && self.rng.one_in(3) {
            let common = "n".repeat(self.rng.pick(&[3, 62, 63]));
            call.name = Some(format!("{common}{table}{}{variant}", kind.min(2)));
        }
        call
    }

    /// A value of the column's type, or of another.
    fn value(&mut self, table: Table, face: Face) -> String {
        let type_ = match self.rng.one_in(6) {
            true => self.rng.pick(&Type::ALL),
            false => self.schema.columns(table)[0].type_,
        };
        let text = self.rng.pick(texts_of(type_));
        let read = type_.read(text, 0).ok().filter(|_| face == Face::Learns);
        read.map_or_else(|| text.to_owned(), |value| type_.write(&value, 0))
    }
}

/// Texts of values, canonical and not.
fn texts_of(type_: Type) -> &'static [&'static str] {
    match type_ {
        Type::Int4 => &["7", "007", "-5", "+42", "2147483647"],
        Type::Int8 => &["7", "0042", "9223372036854775807", "-12"],
        Type::Float4 => &["5", "0.1", "0.12345678901234567", "1000001"],
        Type::Float8 => &["5", "0.1", "0.12345678901234567", "999999999999999"],
        Type::Numeric => &["7", "007", "0.10", "2.5", "12345678901234567890"],
        Type::Text => &["abc", "x ", "007", "7", "red", "2020-01-01"],
        Type::Date => &["2020-01-01", "2020-01-02 13:30:00"],
        Type::Timestamp => {
            &["2020-01-01 12:00:00", "2020-01-01 12:00:00+05", "2020-01-02 00:00:00"]
        }
        Type::Timestamptz => {
            &["2020-01-01 12:00:00+05", "2020-01-01 12:00:00+00", "2020-01-01 12:00:00"]
        }
        Type::Inet => &["10.0.0.1"],
        Type::Enum(_) => &["red", "green"],
    }
}
