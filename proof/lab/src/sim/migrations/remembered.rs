//! What the host remembers of a text.

use std::cell::RefCell;

use onetrip_postgres::client::types::kinds::{Type, Types};
use onetrip_postgres::message::Format;

/// The names and types of columns.
pub(super) type Columns = Vec<(String, u32)>;

/// What is kept with a prepared statement of a connection: its columns, as they were described last.
#[derive(Debug, Default)]
pub(super) struct Learned {
    pub(super) columns: RefCell<Option<Columns>>,
}

/// What the server has said of a text that was asked about.
#[derive(Debug)]
pub(super) struct Described {
    /// Given once: it stands for this text with these types.
    pub(super) id: u32,
    pub(super) oids: Vec<u32>,
    pub(super) columns: Columns,
    /// The forms of columns; none where all are binary.
    pub(super) formats: Vec<Format>,
    /// The same where the server is to refuse another number of columns.
    pub(super) counted: Vec<Format>,
}

impl Described {
    pub(super) fn new(id: u32, oids: Vec<u32>, columns: Columns, types: &Types) -> Described {
        let form = |(_, oid): &(String, u32)| Type::format(&types.get(*oid));
        let counted: Vec<Format> = columns.iter().map(form).collect();
        let is_binary = counted.iter().all(|format| *format == Format::Binary);
        let formats = if is_binary { Vec::new() } else { counted.clone() };
        Described { id, oids, columns, formats, counted }
    }

    pub(super) fn is_same(&self, other: &Described) -> bool {
        self.oids == other.oids && self.columns == other.columns
    }
}
