//! What a client knows of a text: what it shows, and what the server said of its parameters and
//! columns.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use onetrip_client::completion::outcome;
use onetrip_engine::Time;
use onetrip_engine::pool::TextKey;
use onetrip_postgres::client::migrated;
use onetrip_postgres::client::statements;
use onetrip_postgres::client::texts::text_key;
use onetrip_postgres::client::types::attributes::{self, Guard};
use onetrip_postgres::message::tag::backend;
use onetrip_postgres::message::{Format, ParameterDescription, RowDescription};
use onetrip_postgres::sql::{self, Traits, classify};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::call::Call;
use crate::decode::Columns;
use crate::failure::{Cause, Failure};
use crate::local::Local;
use crate::messages::messages;
use crate::types::{Type, Types};

/// Which migration the client has learned of last. What a text was described as before one is not
/// used any more, so each costs one error at most.
#[derive(Clone, Debug, Default)]
pub(crate) struct Generation(Arc<Parts>);

#[derive(Debug, Default)]
struct Parts {
    /// What this side has found out by itself.
    own: AtomicU64,
    /// What the connections have, by whose names the server still knows texts.
    of_names: OnceLock<statements::Generation>,
}

impl Generation {
    /// What was learned of some text is not what the server says of it. Elsewhere it may be that
    /// still: in a session with another path.
    pub(crate) fn ends(&self) {
        self.0.own.fetch_add(1, Ordering::Relaxed);
    }

    /// What was learned has been shown to be wrong by what has come of it. No text is used by its
    /// name either, which may have been prepared before.
    pub(crate) fn has_changed(&self) {
        self.ends();
        if let Some(of_names) = self.0.of_names.get() {
            of_names.advance();
        }
    }

    /// The connections of this generation are those that share that of their names.
    pub(crate) fn goes_with(&self, of_names: Option<statements::Generation>) {
        if let Some(of_names) = of_names {
            let _ = self.0.of_names.set(of_names);
        }
    }

    pub(crate) fn number(&self) -> u64 {
        let of_names = self.0.of_names.get().map_or(0, statements::Generation::now);
        self.0.own.load(Ordering::Relaxed) + of_names
    }
}

/// Whether SQL's PREPARE takes a text.
#[pyfunction]
pub(crate) fn can_be_prepared_by_sql(text: &str) -> bool {
    sql::can_be_prepared_by_sql(text)
}

/// A text.
#[pyclass(frozen)]
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) text: Py<PyString>,
    pub(crate) traits: Traits,
    /// What the pool knows it by.
    pub(crate) key: TextKey,
    /// It only reads, as far as it shows.
    pub(crate) is_plain_read: bool,
    generation: Generation,
    pub(crate) known: Local<What>,
}

/// What is learned of it.
#[derive(Debug, Default)]
pub(crate) struct What {
    /// What the server has said of it last. Anybody may change that at any moment. It is shown to be
    /// wrong by the columns of a reply (`describe::check`), by an error (`first_use`,
    /// `statements::means_stale`), and by a value that does not fit; then it is asked for anew. Once
    /// the answer differs, what was learned of all other texts is outdated as well
    /// (`Generation`).
    described: Option<Arc<Described>>,
    /// It is asked for anew with the next use.
    is_outdated: bool,
    /// Who waits until it is.
    pub(crate) waiting: VecDeque<Py<Call>>,
    /// The questions for that which are open, the oldest first, and when each was asked.
    pub(crate) asking: Vec<(Time, Py<Call>)>,
    /// How the columns of the last reply are read, by its RowDescription and by how it was asked
    /// for. Both are compared with each reply, so it is never used for another.
    columns: Option<(Bytes, Arc<Described>, Arc<Columns>)>,
}

/// What the server said of it.
#[derive(Debug, Default)]
pub(crate) struct Described {
    /// Given once: it stands for this text with these types.
    pub(crate) id: u32,
    generation: u64,
    pub(crate) types: Vec<Arc<Type>>,
    pub(crate) oids: Vec<u32>,
    /// The forms of columns; none where all are binary.
    pub(crate) formats: Vec<Format>,
    /// The same where columns of Arrow are made of them.
    pub(crate) of_arrow: Vec<Format>,
    /// The same where the server is to refuse another number of columns.
    pub(crate) counted: Vec<Format>,
    /// The body of the RowDescription; empty where it returns no rows.
    pub(crate) row: Bytes,
    pub(crate) columns: Vec<Arc<Type>>,
    /// What goes behind each use, whose rows are read by names of attributes; and behind one whose
    /// values were written by names as well.
    pub(crate) guard_of_rows: Option<Guard>,
    pub(crate) guard: Option<Guard>,
}

/// The error of a text that no server can be sent, since it has half of a surrogate pair.
fn no_text(py: Python<'_>, error: &PyErr) -> PyErr {
    let raised = error.value(py).clone();
    let message = format!("the text of the statement is not Unicode: {raised}");
    let (outcome, cause) = (outcome::NOT_SENT, Cause::Raised(raised.into_any().unbind()));
    Failure::Said { code: "unencodable", outcome, message, cause }.raised(py)
}

impl Statement {
    pub(crate) fn new(text: &Bound<'_, PyString>, generation: &Generation) -> PyResult<Statement> {
        let (traits, key) = {
            let text = text.to_str().map_err(|error| no_text(text.py(), &error))?;
            let traits = classify(text);
            (traits, text_key(text, traits))
        };
        let text = text.clone().unbind();
        let is_plain_read = migrated::is_plain_read(traits, key);
        let known = Local::new(What::default());
        Ok(Statement { text, traits, key, is_plain_read, generation: generation.clone(), known })
    }

    /// What was learned may have changed: the next use asks anew.
    pub(crate) fn forget(&self) {
        let _ = self.known.with(|it| it.is_outdated = true);
    }

    /// What is known of it, unless that may have changed.
    pub(crate) fn described(&self) -> Option<Arc<Described>> {
        let number = self.generation.number();
        let known = |it: &mut What| {
            let described = it.described.as_ref().filter(|_| !it.is_outdated);
            described.filter(|it| it.generation == number).cloned()
        };
        self.known.with(known).ok().flatten()
    }

    /// What was known of it, even if that may have changed.
    pub(crate) fn former(&self) -> Option<Arc<Described>> {
        self.known.with(|it| it.described.clone()).ok().flatten()
    }

    /// Remembers what the server has said of it, which ends a generation where that differs from
    /// what it was.
    pub(crate) fn learn(&self, mut described: Described) -> PyResult<()> {
        if self.former().is_some_and(|former| !former.is_same(&described)) {
            self.generation.ends();
        }
        described.generation = self.generation.number();
        let described = Some(Arc::new(described));
        let old = self.known.with(|it| {
            it.is_outdated = false;
            std::mem::replace(&mut it.described, described)
        })?;
        drop(old);
        Ok(())
    }

    /// How the rows of a reply with this RowDescription are read, which was asked for as
    /// `described` says; none where that was not seen last.
    pub(crate) fn columns(&self, body: &Bytes, described: &Arc<Described>) -> Option<Arc<Columns>> {
        let known = self.known.with(|it| match &it.columns {
            Some((of, by, columns)) if of == body && Arc::ptr_eq(by, described) => {
                Some(columns.clone())
            }
            _ => None,
        });
        known.ok().flatten()
    }

    /// Remembers that. What is of no use any more is returned, to be dropped.
    pub(crate) fn keep_columns(
        &self,
        body: &Bytes,
        described: &Arc<Described>,
        columns: &Arc<Columns>,
    ) -> PyResult<Option<Arc<Columns>>> {
        let kept = (body.clone(), described.clone(), columns.clone());
        Ok(self.known.with(|it| it.columns.replace(kept))?.map(|(.., columns)| columns))
    }
}

/// The numbers of the types of columns, of the body of a RowDescription.
pub(crate) fn column_types(body: &[u8]) -> Vec<u32> {
    let described = RowDescription::decode(body);
    described.map_or_else(|_| Vec::new(), |it| it.fields.map(|field| field.type_oid).collect())
}

/// Their names.
pub(crate) fn column_names(body: &[u8]) -> Vec<String> {
    let described = RowDescription::decode(body);
    described.map_or_else(|_| Vec::new(), |it| it.fields.map(|f| f.name.to_owned()).collect())
}

/// What a description says: the numbers of the parameters' types, and the body of the
/// RowDescription.
pub(crate) fn description_of(blocks: &[Bytes]) -> Option<(Vec<u32>, Bytes)> {
    let (mut parameters, mut row) = (Vec::new(), Bytes::new());
    for (tag, body) in messages(blocks) {
        match tag {
            backend::PARAMETER_DESCRIPTION => {
                parameters = ParameterDescription::decode(body).ok()?.types.collect();
            }
            backend::ROW_DESCRIPTION => row = Bytes::copy_from_slice(body),
            _ => {}
        }
    }
    Some((parameters, row))
}

impl Described {
    /// Of a text that was not described. The server infers the types of its parameters.
    pub(crate) fn nothing() -> Arc<Described> {
        static NOTHING: OnceLock<Arc<Described>> = OnceLock::new();
        let formats = vec![Format::Text];
        NOTHING.get_or_init(|| Arc::new(Described { formats, ..Described::default() })).clone()
    }

    /// Of the client's own question for types.
    pub(crate) fn question() -> Arc<Described> {
        Arc::new(Described { id: 1, oids: vec![1028], ..Described::default() })
    }

    pub(crate) fn new(id: u32, oids: Vec<u32>, row: Bytes, types: &Types) -> Described {
        let all: Vec<_> = oids.iter().map(|oid| types.get(*oid)).collect();
        let columns: Vec<_> = column_types(&row).iter().map(|oid| types.get(*oid)).collect();
        let forms = |of: &dyn Fn(&Type) -> Format| {
            let each: Vec<_> = columns.iter().map(|type_| of(type_)).collect();
            let is_binary = each.iter().all(|format| *format == Format::Binary);
            if is_binary { Vec::new() } else { each }
        };
        let (formats, of_arrow) = (forms(&Type::format), forms(&onetrip_arrow::format));
        let counted = columns.iter().map(|type_| type_.format()).collect();
        let guard_of_rows = attributes::guard(&columns);
        let guard = attributes::guard(&[&all[..], &columns].concat());
        let rest = Described { id, guard, guard_of_rows, ..Described::default() };
        let rest = Described { types: all, oids, ..rest };
        Described { formats, of_arrow, counted, row, columns, ..rest }
    }

    /// Whether the server says of it what it has said before.
    pub(crate) fn is_same(&self, other: &Described) -> bool {
        let same = |one: &[Arc<Type>], two: &[Arc<Type>]| {
            one.len() == two.len() && one.iter().zip(two).all(|(one, two)| one.is_same(two))
        };
        let is_same = self.oids == other.oids && self.row == other.row;
        is_same && same(&self.types, &other.types) && same(&self.columns, &other.columns)
    }
}
