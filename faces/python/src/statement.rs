//! What a client knows of a text: what it shows, and what the server said of its parameters and
//! columns.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use onetrip_engine::Time;
use onetrip_engine::pool::TextKey;
use onetrip_postgres::client::texts::text_key;
use onetrip_postgres::message::tag::backend;
use onetrip_postgres::message::{Format, ParameterDescription, RowDescription};
use onetrip_postgres::sql::{Traits, classify};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::call::Call;
use crate::decode::Columns;
use crate::local::Local;
use crate::messages::messages;
use crate::types::{Type, Types};

/// A text.
#[pyclass(frozen)]
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) text: Py<PyString>,
    pub(crate) traits: Traits,
    /// What the pool knows it by.
    pub(crate) key: TextKey,
    pub(crate) known: Local<What>,
}

/// What is learned of it.
#[derive(Debug, Default)]
pub(crate) struct What {
    pub(crate) described: Option<Arc<Described>>,
    /// Who waits until it is.
    pub(crate) waiting: VecDeque<Py<Call>>,
    /// The questions for that which are open, the oldest first, and when each was asked.
    pub(crate) asking: Vec<(Time, Py<Call>)>,
    /// The columns of the last reply, and how the server and we spelled them.
    columns: Option<(Bytes, Arc<Described>, Arc<Columns>)>,
}

/// What the server said of it.
#[derive(Debug, Default)]
pub(crate) struct Described {
    /// Given once: it stands for this text with these types.
    pub(crate) id: u32,
    pub(crate) types: Vec<Arc<Type>>,
    pub(crate) oids: Vec<u32>,
    /// The forms of columns; none where all are binary.
    pub(crate) formats: Vec<Format>,
    /// The same where columns of Arrow are made of them.
    pub(crate) of_arrow: Vec<Format>,
    /// The body of the RowDescription; empty where it returns no rows.
    pub(crate) row: Bytes,
    pub(crate) columns: Vec<Arc<Type>>,
}

impl Statement {
    pub(crate) fn new(text: &Bound<'_, PyString>) -> PyResult<Statement> {
        let (traits, key) = {
            let text = text.to_str()?;
            let traits = classify(text);
            (traits, text_key(text, traits))
        };
        let text = text.clone().unbind();
        Ok(Statement { text, traits, key, known: Local::new(What::default()) })
    }

    /// What was learned may have changed: the next use asks anew.
    pub(crate) fn forget(&self) {
        let _ = self.known.with(|it| it.described = None);
    }

    pub(crate) fn described(&self) -> Option<Arc<Described>> {
        self.known.with(|it| it.described.clone()).ok().flatten()
    }

    /// How the rows of a reply with this RowDescription are read, which was asked for as
    /// `described` says.
    pub(crate) fn columns(
        &self,
        py: Python<'_>,
        body: &Bytes,
        described: &Arc<Described>,
        types: impl FnOnce(&[u32]) -> PyResult<Vec<Arc<Type>>>,
    ) -> PyResult<Option<Arc<Columns>>> {
        let known = self.known.with(|it| match &it.columns {
            Some((of, by, columns)) if of == body && Arc::ptr_eq(by, described) => {
                Some(columns.clone())
            }
            _ => None,
        })?;
        if known.is_some() {
            return Ok(known);
        }
        let read = Columns::read(py, body, types, &described.formats)?;
        let Some(columns) = read.map(Arc::new) else { return Ok(None) };
        let kept = (body.clone(), described.clone(), columns.clone());
        let old = self.known.with(|it| it.columns.replace(kept))?;
        drop(old);
        Ok(Some(columns))
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

    pub(crate) fn new(id: u32, oids: Vec<u32>, row: Bytes, types: &Types) -> Described {
        let all = oids.iter().map(|oid| types.get(*oid)).collect();
        let columns: Vec<_> = column_types(&row).iter().map(|oid| types.get(*oid)).collect();
        let forms = |of: &dyn Fn(&Type) -> Format| {
            let each: Vec<_> = columns.iter().map(|type_| of(type_)).collect();
            let is_binary = each.iter().all(|format| *format == Format::Binary);
            if is_binary { Vec::new() } else { each }
        };
        let (formats, of_arrow) = (forms(&Type::format), forms(&onetrip_arrow::format));
        Described { id, types: all, oids, formats, of_arrow, row, columns }
    }
}
