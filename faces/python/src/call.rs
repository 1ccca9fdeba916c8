//! A call on its way: the object that `db.fetch(…)` returns. `awaiting.rs` has how it is awaited.

use std::num::NonZeroU32;
use std::sync::Arc;

use bytes::Bytes;
use onetrip_arrow::Builder;
use onetrip_client::completion::outcome;
use onetrip_client::flag;
use onetrip_client::postgres::Act;
use onetrip_engine::Ticket;
use onetrip_engine::pool::Requeue;
use onetrip_postgres::client::position::Position;
use onetrip_postgres::sql::Refusal;
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple, PyType};

use crate::decode::Columns;
use crate::failure::Failure;
use crate::local::Local;
use crate::statement::{Described, Statement};

/// What is wanted of a reply.
#[derive(Debug)]
pub(crate) enum Want {
    Rows,
    Row,
    /// The same in a list, which is empty where there is none.
    Head,
    /// Rows, which their reader takes as they come.
    Stream,
    /// Rows as columns of Arrow.
    Arrow,
    /// Of the first row the value at this place.
    Value(isize),
    /// The values of the first row as texts, of a statement that is not described.
    Texts,
    Tag,
    /// The rows, and the command tag.
    Both,
    /// The command tag of the last of any number of statements.
    Script,
    /// What it takes and returns; it is not run.
    Attributes,
    /// The rows that a portal gives next.
    Portal(Portal),
    /// A COPY, whose data is taken as it comes.
    CopyOut,
    /// One whose data is handed over; and what runs behind it in its implicit transaction.
    CopyIn(String),
    /// Of one statement with several sets of arguments: the rows of all of them, or nothing.
    Parts(Vec<Py<PyTuple>>, bool),
    /// The same, of statements with calls of their own.
    Calls(Vec<Py<Call>>),
    /// What a transaction does.
    Act(Act),
    /// What a command of Redis is answered by.
    Redis(Box<crate::redis::Request>),
    /// The number of a connection that its caller has to himself.
    Checkout,
    /// For the client itself: what a text takes and returns.
    Description(Py<Statement>),
    /// For the client itself: the types in such a description.
    Types(Py<Statement>, Vec<u32>, Bytes),
    /// For the client itself: the types in the reply to this call, which came by this connection;
    /// and whether its caller has a transaction there.
    TypesOf(Py<Call>, u32, bool),
}

/// A portal: the rows of a statement, of which some are fetched at a time.
#[derive(Debug)]
pub(crate) struct Portal {
    pub(crate) name: String,
    /// It is opened now.
    pub(crate) opens: bool,
    /// None: nothing is fetched now.
    pub(crate) rows_max: Option<NonZeroU32>,
}

/// A call.
#[pyclass(frozen, module = "onetrip")]
#[derive(Debug)]
pub(crate) struct Call {
    /// A `Core`, of which this file knows nothing.
    pub(crate) core: Py<PyAny>,
    pub(crate) want: Want,
    /// None for what has no text.
    pub(crate) statement: Option<Py<Statement>>,
    pub(crate) flags: u32,
    /// What a row is made into, if not a Record.
    pub(crate) into: Option<Py<PyAny>>,
    /// What rows are made of, where that is not `Record`.
    pub(crate) record: Option<Py<PyType>>,
    /// The connection of the transaction that it is a part of; 0 for none.
    pub(crate) part_of: u32,
    pub(crate) now: Local<Progress>,
}

/// A request: whose it is if not the call's own, and its parameters; those of further uses follow.
pub(crate) type Encoded = (Option<Py<Call>>, Arc<Described>, Vec<u8>, Vec<Vec<u8>>);

/// The arguments of a call. They stay, and are encoded anew if it is sent again.
#[derive(Debug)]
pub(crate) enum Arguments {
    /// As they were given.
    Given(Py<PyTuple>),
    /// Their values, once they were encoded. A tuple for each of a thousand calls in flight would have
    /// Python's collector run all the time; it does not look at these.
    Values(Box<[Py<PyAny>]>),
}

/// How far it has come. There may be thousands of them in flight, so what few have is in a box.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) stage: Stage,
    pub(crate) args: Option<Arguments>,
    /// Formats and parameters, encoded as `described` says; several of one with parts.
    pub(crate) requests: Vec<Encoded>,
    /// Whether rows are read, and whether values are written, by names of attributes, as a dict is:
    /// a guard goes behind them.
    pub(crate) by_names: (bool, bool),
    /// How the reply was asked for.
    pub(crate) described: Option<Arc<Described>>,
    pub(crate) blocks: Vec<Bytes>,
    /// Bytes of them.
    pub(crate) bytes: usize,
    /// Bytes of the whole reply so far.
    pub(crate) total: usize,
    /// Rows that were read before the reply was complete, or why they could not be.
    pub(crate) rows: Option<Py<PyList>>,
    pub(crate) fault: Option<PyErr>,
    /// The same as columns of Arrow.
    pub(crate) table: Option<Box<Builder>>,
    /// The body of the RowDescription.
    pub(crate) columns: Option<Bytes>,
    /// How the rows are read, once that is known to be right.
    pub(crate) readers: Option<Arc<Columns>>,
    /// The server was asked about the types of this reply.
    pub(crate) is_told_types: bool,
    /// It could not say, for a reason that is of no account the next time.
    pub(crate) is_untold: bool,
    /// The question for them, while it is open; how often that was asked; and why it has failed,
    /// which the caller hears in place of the rows.
    pub(crate) question: Option<Py<Call>>,
    pub(crate) asked: u8,
    pub(crate) unanswered: Option<Box<Failure>>,
    /// Its text was described for it, so that nothing is to blame that was learned before.
    pub(crate) is_fresh: bool,
    /// How often it was sent again since its text was something else by then.
    pub(crate) again: u8,
    /// Why it failed, if the server says of its text what it has said before.
    pub(crate) held: Option<Box<Failure>>,
    pub(crate) failure: Option<Failure>,
    /// The outcome of its failure, once somebody has taken that.
    pub(crate) known: u32,
    /// Those that wait for its end.
    pub(crate) future: Option<Py<PyAny>>,
    /// A part of its reply has come, or more data is taken, of which its caller has not heard.
    pub(crate) is_told: bool,
    /// All data of a COPY was taken. The blocks are its command tag, which the end of the call tells.
    pub(crate) is_all_taken: bool,
    pub(crate) is_awaited: bool,
    /// Nobody waits for it any more. It was sent, and may still be answered.
    pub(crate) is_left: bool,
    /// Its pipeline or list sends it at the end of its block, which has not come.
    pub(crate) is_kept: bool,
    /// How often it was sent again after its connection was lost, and whether it may have run.
    pub(crate) repeats: u32,
    pub(crate) may_have_run: bool,
    /// How it got in line again after its connection was lost before any byte of it was sent.
    pub(crate) requeue: Option<Box<Requeue>>,
    /// What its end says, where that is no reply.
    pub(crate) number: u32,
    /// What it says of the transaction or savepoint that it ends.
    pub(crate) whole: Whole,
    /// Of a read that may go to several servers: which it is, and what it must show.
    pub(crate) reading: Option<Reading>,
    /// The client of the replica that has it, a `Core` as well.
    pub(crate) holder: Option<Py<PyAny>>,
}

/// What is said of a transaction or a savepoint at its end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Whole {
    /// It is to be run again, since it met others.
    pub(crate) runs_again: bool,
    /// Something of it may have reached the server.
    pub(crate) has_left: bool,
}

/// A read that may go to several servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// That of the layer below.
    pub(crate) number: u32,
    /// What the replica that it goes to has to have replayed.
    pub(crate) position: Option<Position>,
}

/// Where it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It waits for what this side has to know first, or for its pipeline.
    #[default]
    Made,
    /// It waits in the pool, by this token.
    InLine(u32),
    /// The router of a cluster has it, by this token.
    Routed(u32),
    /// It was handed to the engine, on this connection and by this token.
    Sent(u32, u32, Ticket),
    /// It has ended.
    Over,
    /// It was answered, and this side has to know more before it has ended.
    Answered,
    /// Somebody has its result.
    Taken,
}

impl Call {
    pub(crate) fn new(
        core: Py<PyAny>,
        want: Want,
        statement: Option<Py<Statement>>,
        flags: u32,
        args: Option<Py<PyTuple>>,
    ) -> Call {
        let args = args.map(Arguments::Given);
        let now = Local::new(Progress { args, ..Progress::default() });
        Call { core, want, statement, flags, into: None, record: None, part_of: 0, now }
    }

    /// Its arguments.
    pub(crate) fn arguments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.now.with(|it| match &it.args {
            None => Ok(PyTuple::empty(py)),
            Some(Arguments::Given(args)) => Ok(args.bind(py).clone()),
            Some(Arguments::Values(values)) => PyTuple::new(py, values),
        })?
    }

    /// Its arguments, of which the values alone are kept from now on.
    pub(crate) fn kept<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let args = self.arguments(py)?;
        if !args.is_empty() {
            let values = args.iter().map(Bound::unbind).collect();
            let given = self.now.with(|it| it.args.replace(Arguments::Values(values)))?;
            drop(given);
        }
        Ok(args)
    }

    /// Whether it may run twice.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.flags & flag::REPEATABLE != 0
    }

    /// Whether its caller takes the reply as it comes, or hands over data.
    pub(crate) fn flows(&self) -> bool {
        matches!(self.want, Want::Stream | Want::CopyOut | Want::CopyIn(_))
    }

    /// Whether values of its rows are read.
    pub(crate) fn reads_rows(&self) -> bool {
        use Want::{Arrow, Both, Head, Parts, Portal, Row, Rows, Stream, Value};
        let is_read = matches!(self.want, Rows | Row | Head | Stream | Arrow | Both);
        is_read || matches!(self.want, Value(_) | Portal(_) | Parts(_, true))
    }

    /// Whether it is one statement, which may be sent again whole.
    pub(crate) fn is_one(&self) -> bool {
        let flows = matches!(self.want, Want::Stream | Want::Portal(_));
        matches!(self.want, Want::Tag | Want::Parts(..)) || self.reads_rows() && !flows
    }

    /// Whether nothing has to be known of its text, which goes by the simple protocol.
    pub(crate) fn is_script(&self) -> bool {
        self.flags & (flag::SIMPLE | flag::COPY_IN) != 0
    }

    /// Whether it is the client's own, and nobody awaits it.
    pub(crate) fn is_own(&self) -> bool {
        match &self.want {
            Want::Redis(request) => request.is_flight(),
            want => {
                matches!(want, Want::Description(_) | Want::Types(..) | Want::TypesOf(..))
            }
        }
    }

    /// Whether nothing has to be asked before its rows are read: there are none, or they are as
    /// those were that came last.
    pub(crate) fn is_known(&self) -> bool {
        let Some(statement) = self.statement.as_ref().filter(|_| self.reads_rows()) else {
            return true;
        };
        let is_known = self.now.with(|it| {
            let (Some(body), Some(described)) = (&it.columns, &it.described) else { return true };
            if it.failure.is_some() {
                return true;
            }
            let known = statement.get().columns(body, described);
            it.readers = known.filter(|it| !it.has_composites());
            it.readers.is_some() && !matches!(self.want, Want::Arrow)
        });
        is_known.unwrap_or(true)
    }

    /// Whether it waits for what this side has to do first.
    pub(crate) fn is_made(&self) -> bool {
        self.now.with(|it| it.stage == Stage::Made).unwrap_or(false)
    }

    /// Whether it has ended.
    pub(crate) fn is_over(&self) -> bool {
        let is_over = |it: &mut Progress| matches!(it.stage, Stage::Over | Stage::Taken);
        self.now.with(is_over).unwrap_or(true)
    }

    /// The reply is sent again.
    pub(crate) fn restart(&self) -> Option<Py<PyList>> {
        let rows = self.now.with(|it| {
            (it.columns, it.fault, it.failure) = (None, None, None);
            (it.readers, it.is_told_types, it.is_untold) = (None, false, false);
            (it.asked, it.unanswered) = (0, None);
            (it.bytes, it.total, it.table) = (0, 0, None);
            it.blocks.clear();
            it.rows.take()
        });
        rows.ok().flatten()
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let never = self.now.with(|it| !it.is_awaited && it.stage != Stage::Taken).unwrap_or(false);
        if !never || self.is_own() {
            return;
        }
        Python::attach(|py| {
            // It may be dropped since an error is raised, which is to be kept.
            let raised = PyErr::take(py);
            let warning = c"an onetrip call was never awaited: it was sent all the same";
            let kind = py.get_type::<PyRuntimeWarning>();
            if let Err(error) = PyErr::warn(py, &kind, warning, 1) {
                error.write_unraisable(py, None);
            }
            if let Some(raised) = raised {
                raised.restore(py);
            }
        });
    }
}

/// That of what came behind the end of its client.
pub(crate) fn closed() -> Failure {
    let cause = onetrip_engine::pool::Cause::Closed;
    unsent(cause.code(), cause.told(&onetrip_engine::pool::Limits::default()))
}

/// That of what is told to its caller by the words that all languages share.
pub(crate) fn refused(refusal: Refusal) -> Failure {
    unsent(refusal.code(), refusal.message())
}

/// A failure of what was never sent.
pub(crate) fn unsent(code: &'static str, message: impl Into<String>) -> Failure {
    Failure::said(code, outcome::NOT_SENT, message)
}
