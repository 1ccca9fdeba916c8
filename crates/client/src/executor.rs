//! From a call to a submitted request: the one place through which every statement goes.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::BytesMut;
use onetrip_engine::{Request, SyncPoint, Time, Token};
use onetrip_postgres::Expect;
use onetrip_postgres::message::{
    Describe, Format, Formats, Query, SYNC, Target, bind, execute, parse,
};
use onetrip_postgres::sql::{self, Place, Traits};
use postgres_types::Type;

use crate::Error;
use crate::core::Shared;
use crate::first_use::{FirstUse, oid_of, results_of, write_statement};
use crate::params::{self, BindError, Found, Params, write_value};
use crate::reply::{FromReply, Reply, Text};
use crate::rows::Blocks;
use crate::shapes::Shape;
use crate::statement::{Prepared, Source, Statement, ToStatement};

/// Where statements go: a connection, what is allowed there, and a BEGIN that goes in front.
#[derive(Clone, Debug)]
pub(crate) struct Executor {
    pub(crate) shared: Arc<Shared>,
    pub(crate) place: Place,
    lead: Option<Arc<Lead>>,
}

/// A BEGIN that waits for the first statement of its transaction.
#[derive(Debug, Default)]
pub(crate) struct Lead {
    sent: AtomicBool,
}

impl Lead {
    pub(crate) fn is_sent(&self) -> bool {
        self.sent.load(Ordering::Acquire)
    }
}

/// A statement in the scratch buffer, ready to be submitted.
pub(crate) struct Encoded {
    pub(crate) expect: Expect,
    pub(crate) traits: Traits,
    /// The prepared statement that it uses.
    pub(crate) statement: Option<Statement>,
    pub(crate) text: Text,
    /// Whether the engine may send it again by itself when the server says that it never started.
    again: bool,
}

impl Executor {
    pub(crate) fn new(shared: Arc<Shared>, place: Place) -> Executor {
        Executor { shared, place, lead: None }
    }

    pub(crate) fn behind(&self, lead: Arc<Lead>) -> Executor {
        let place = Place::Session { in_transaction: true };
        Executor { shared: self.shared.clone(), place, lead: Some(lead) }
    }

    /// The same connection with another rule about what may be sent.
    pub(crate) fn at(&self, place: Place) -> Executor {
        Executor { shared: self.shared.clone(), place, lead: self.lead.clone() }
    }

    /// Sends the BEGIN that still waits, by itself, in front of what comes next. No trip: nobody
    /// waits for its answer.
    pub(crate) fn lead_now(&self) -> Result<(), Error> {
        let Some(lead) = &self.lead else { return Ok(()) };
        if lead.is_sent() {
            return Ok(());
        }
        let mut begin = plain_statement("BEGIN")?;
        begin.extend_from_slice(&SYNC);
        self.shared.with(|core, now| match lead.sent.swap(true, Ordering::AcqRel) {
            true => Ok(()),
            false => core.submit_unwaited(now, &begin),
        })
    }

    /// Submits a statement.
    pub(crate) fn run<T: FromReply>(
        &self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<T> {
        with_scratch(|out| match self.try_run(statement.to_statement(), params, out) {
            Ok(reply) => reply,
            Err(error) => Reply::refused(&self.shared, error),
        })
    }

    fn try_run<T: FromReply>(
        &self,
        source: Source<'_>,
        params: Params<'_>,
        out: &mut BytesMut,
    ) -> Result<Reply<T>, Error> {
        let encoded = match self.encode(source, params, out) {
            Err(Unready::Ask(first_use)) => return self.ask(first_use),
            Err(Unready::Error(error)) => return Err(error),
            Ok(encoded) => encoded,
        };
        out.extend_from_slice(&SYNC);
        let (token, lead, deadline) =
            self.submit(encoded.expect, encoded.again, encoded.statement, out)?;
        let mut text = encoded.text;
        if let Text::New(first_use) = &mut text {
            first_use.deadline = deadline;
        }
        let reply = Reply::waiting(&self.shared, token).behind(lead);
        Ok(reply.of(text, encoded.traits.commit()))
    }

    /// Sends a statement with the question for its types in front.
    fn ask<T: FromReply>(&self, mut first_use: Box<FirstUse>) -> Result<Reply<T>, Error> {
        self.lead_now()?;
        let token = self.shared.with(|core, now| {
            first_use.deadline = self.shared.deadline(now);
            core.submit_asking(now, first_use)
        })?;
        Ok(Reply::waiting(&self.shared, token))
    }

    /// Submits a request with its own sync point, and the BEGIN in front of it if it is the first of
    /// its transaction.
    pub(crate) fn submit(
        &self,
        expect: Expect,
        again: bool,
        statement: Option<Statement>,
        bytes: &[u8],
    ) -> Result<(Token, Option<Token>, Time), Error> {
        let shared = &self.shared;
        shared.with(|core, now| {
            let deadline = shared.deadline(now);
            let refuse = shared.options.refuse_when_full;
            let token = core.replies.add();
            if let Some(entry) = core.replies.entry(token) {
                entry.statement = statement;
            }
            let request = Request { deadline, again, ..Request::isolated(token, expect) };
            let first = match &self.lead {
                Some(lead) => !lead.sent.swap(true, Ordering::AcqRel),
                None => false,
            };
            if !first {
                let submitted = core.submit_one(now, request, bytes, refuse);
                submitted.inspect_err(|_| core.replies.remove(token))?;
                return Ok((token, None, deadline));
            }
            // Taken out of the queue, BEGIN would leave those behind it without a transaction. So only
            // where it is sent at once can its statement have a deadline.
            let deadline = if core.engine.group_has_room() { deadline } else { Time::NEVER };
            let request = Request { deadline, ..request };
            let lead = core.replies.add();
            let expect = Expect::sync().parse().bind().execute();
            let sync = SyncPoint::Member;
            let begin = Request { sync, ..Request::isolated(lead, expect) };
            let mut both = plain_statement("BEGIN")?;
            let requests = vec![(begin, both.len()), (request, bytes.len())];
            both.extend_from_slice(bytes);
            let submitted = core.submit(now, requests, &both, refuse);
            if let Some(entry) = core.replies.entry(token) {
                entry.ticket = None; // For the same reason it can't be taken back.
            }
            submitted.inspect_err(|_| {
                core.replies.remove(token);
                core.replies.remove(lead);
                if let Some(lead) = &self.lead {
                    lead.sent.store(false, Ordering::Release);
                }
            })?;
            Ok((token, Some(lead), deadline))
        })
    }

    /// Encodes a statement without its Sync.
    pub(crate) fn encode(
        &self,
        source: Source<'_>,
        params: Params<'_>,
        out: &mut BytesMut,
    ) -> Result<Encoded, Unready> {
        match source {
            Source::Prepared(statement) => Ok(self.encode_prepared(statement, params, out)?),
            Source::Text(sql) => self.encode_text(sql, params, out),
        }
    }

    fn encode_prepared(
        &self,
        statement: &Statement,
        params: Params<'_>,
        out: &mut BytesMut,
    ) -> Result<Encoded, Error> {
        let prepared = &statement.0;
        if !Arc::ptr_eq(&prepared.shared, &self.shared) {
            return Err(Error::misuse(
                "foreign_statement",
                "the statement was prepared on another connection: prepare it on this one",
            ));
        }
        self.check_place(prepared.traits)?;
        let types = &prepared.params;
        check_count(params.len(), types.len())?;
        let write = |number: usize, out: &mut BytesMut| {
            write_value(number, params[number], &types[number], out)
        };
        let results = prepared.results().formats;
        let count = params.len();
        let format = |number: usize| params::format_of(params[number], &types[number]);
        let mut formats = Vec::new();
        if (0..count).any(|number| format(number) == Format::Text) {
            formats.extend((0..count).map(format));
        }
        let results = results_of(&results);
        bind::write(out, "", &prepared.name, results_of(&formats), count, write, results)
            .map_err(Error::from)?;
        out.extend_from_slice(&execute::UNNAMED_ALL);
        let expect = Expect::sync().bind().execute();
        let expect = prepared.id.map_or(expect, |id| expect.of_statement(id));
        Ok(Encoded {
            expect: with_effects(expect, prepared.traits),
            traits: prepared.traits,
            statement: Some(statement.clone()),
            text: Text::Settled,
            again: true,
        })
    }

    fn encode_text(
        &self,
        sql: &str,
        params: Params<'_>,
        out: &mut BytesMut,
    ) -> Result<Encoded, Unready> {
        let traits = sql::classify(sql);
        self.check_place(traits)?;
        let expect = Expect::sync().parse().bind().describe_portal().execute();
        let expect = with_effects(expect, traits);
        let done = |text| Encoded { expect, traits, statement: None, text, again: false };
        if let Some(shape) = self.shared.shapes.get(sql)
            && shape.types.len() == params.len()
        {
            match write_text(out, &shape, params) {
                Ok(()) => return Ok(done(Text::Known(shape))),
                // Another Rust type than last time: look at it anew.
                Err(error) if error.is_wrong_type() => out.clear(),
                Err(error) => return Err(Unready::Error(error.into())),
            }
        }
        let found: Vec<Found> = params
            .iter()
            .enumerate()
            .map(|(number, value)| params::find(number, *value))
            .collect::<Result<_, _>>()?;
        let guess = found.iter().any(Found::is_guess);
        let types = found.iter().map(|found| found.type_.clone()).collect();
        let shape = Arc::new(Shape { sql: sql.into(), types, results: Vec::new() });
        let is_alone =
            matches!(self.place, Place::Shared | Place::Session { in_transaction: false });
        let first_use = FirstUse::new(found, params, shape.clone(), expect, is_alone);
        if guess {
            return Err(Unready::Ask(first_use));
        }
        write_text(out, &shape, params).map_err(Error::from)?;
        Ok(done(Text::New(first_use)))
    }

    fn check_place(&self, traits: Traits) -> Result<(), Error> {
        match sql::refusal(traits, self.place) {
            None => Ok(()),
            Some(refusal) => Err(Error::misuse(refusal.code(), refusal.to_string())),
        }
    }

    /// Prepares a statement: one trip.
    pub(crate) fn prepare(
        &self,
        sql: &str,
        types: &[Type],
    ) -> impl Future<Output = Result<Statement, Error>> + use<> {
        let submitted = self.submit_prepare(sql, types);
        async move {
            // Dropped on the way, it tells the server to forget the statement.
            let (mut prepared, description) = submitted?;
            prepared.describe(&description.await?)?;
            Ok(Statement(Arc::new(prepared)))
        }
    }

    fn submit_prepare(
        &self,
        sql: &str,
        types: &[Type],
    ) -> Result<(Prepared, Reply<Blocks>), Error> {
        let traits = sql::classify(sql);
        self.check_place(traits)?;
        let shared = &self.shared;
        let name = shared.with(|core, _| {
            core.statement_count += 1;
            format!("onetrip_{}", core.statement_count)
        });
        let mut parse = BytesMut::new();
        let oids: Vec<u32> = types.iter().map(oid_of).collect();
        parse::write(&mut parse, &name, sql, &oids).map_err(params::unencodable)?;
        let target = Target::Statement(&name);
        Describe { target }.encode(&mut parse).map_err(params::unencodable)?;
        parse.extend_from_slice(&SYNC);
        let expect = Expect::sync().parse().describe_statement();
        let (token, lead, _) = self.submit(expect, false, None, &parse)?;
        let description = Reply::waiting(shared, token).behind(lead);
        Ok((Prepared::new(shared.clone(), name, sql, traits), description))
    }

    /// Runs a text of one or more statements by the simple protocol.
    pub(crate) fn simple<T: FromReply>(&self, sql: &str) -> Reply<T> {
        let submit = || {
            let traits = sql::classify(sql);
            self.check_place(traits)?;
            let mut out = BytesMut::new();
            Query { sql }.encode(&mut out).map_err(params::unencodable)?;
            self.submit(with_effects(Expect::simple(), traits), false, None, &out)
        };
        match submit() {
            Ok((token, lead, _)) => Reply::waiting(&self.shared, token).behind(lead),
            Err(error) => Reply::refused(&self.shared, error),
        }
    }

    /// Runs a statement without parameters and without rows.
    pub(crate) fn command(&self, sql: &str) -> Reply<Blocks> {
        let submit = || {
            let mut bytes = plain_statement(sql)?;
            bytes.extend_from_slice(&SYNC);
            self.submit(Expect::sync().parse().bind().execute(), false, None, &bytes)
        };
        match submit() {
            Ok((token, lead, _)) => Reply::waiting(&self.shared, token).behind(lead),
            Err(error) => Reply::refused(&self.shared, error),
        }
    }
}

/// Why a statement can't be sent yet.
#[derive(Debug)]
pub(crate) enum Unready {
    Error(Error),
    /// A parameter's type is a guess, which is not free here.
    Ask(Box<FirstUse>),
}

impl From<Error> for Unready {
    fn from(error: Error) -> Unready {
        Unready::Error(error)
    }
}

fn write_text(out: &mut BytesMut, shape: &Shape, params: Params<'_>) -> Result<(), BindError> {
    let format = |number: usize| params::format_of(params[number], &shape.types[number]);
    write_statement(out, shape, format, |number, out| {
        write_value(number, params[number], &shape.types[number], out)
    })
}

/// Parse, Bind and Execute of a text without parameters whose rows, if any, nobody reads.
pub(crate) fn plain_statement(sql: &str) -> Result<BytesMut, Error> {
    let mut out = BytesMut::new();
    parse::write(&mut out, "", sql, &[]).map_err(params::unencodable)?;
    let nothing = |_: usize, _: &mut BytesMut| Ok(bind::IsNull::Yes);
    bind::write::<BindError>(&mut out, "", "", Formats::AllText, 0, nothing, Formats::AllText)?;
    out.extend_from_slice(&execute::UNNAMED_ALL);
    Ok(out)
}

/// What the text shows that has to be known of the reply.
fn with_effects(expect: Expect, traits: Traits) -> Expect {
    let expect = if traits.partial_effects() { expect.partial_effects() } else { expect };
    if traits.transaction_local() { expect.transaction_local() } else { expect }
}

fn check_count(given: usize, wanted: usize) -> Result<(), Error> {
    if given == wanted {
        return Ok(());
    }
    Err(Error::misuse(
        "parameter_count",
        format!("the statement has {wanted} parameters, but {given} were given"),
    ))
}

/// Lends a buffer that keeps its memory between calls of a thread. Parameters are encoded into it,
/// by the caller's own code, before any lock is taken.
pub(crate) fn with_scratch<R>(f: impl FnOnce(&mut BytesMut) -> R) -> R {
    const KEPT_MAX: usize = 64 << 10;
    thread_local!(static SCRATCH: RefCell<BytesMut> = RefCell::new(BytesMut::new()));
    // Taken, not borrowed: a parameter's own code may make a call too.
    let mut scratch = SCRATCH.with(RefCell::take);
    scratch.clear();
    let result = f(&mut scratch);
    if scratch.capacity() <= KEPT_MAX {
        SCRATCH.with(|kept| kept.replace(scratch));
    }
    result
}
