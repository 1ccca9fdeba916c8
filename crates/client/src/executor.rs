//! From a call to a submitted request: the one place through which every statement goes.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::BytesMut;
use onetrip_engine::{Request, SyncPoint, Time, Token};
use onetrip_postgres::Expect;
use onetrip_postgres::message::{Format, Formats, Query, SYNC, bind, execute, parse};
use onetrip_postgres::sql::{self, Place, Traits};
use postgres_types::Type;

use crate::Error;
use crate::core::{Core, Shared};
use crate::first_use::{FirstUse, write_statement};
use crate::params::{self, BindError, Found, Params, write_value};
use crate::reply::{FromReply, Reply, Text};
use crate::rows::Blocks;
use crate::shapes::Shape;
use crate::statement::{Explicit, Source, Statement, ToStatement};
use crate::statements::{Bound, Name, Scope, Use, describe_statement, write_parse};

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
    /// The prepared statement whose values are in the buffer; otherwise it holds all messages.
    pub(crate) bound: Option<Bound>,
    pub(crate) text: Text,
}

/// A request that is to be submitted.
pub(crate) struct Outgoing<'a> {
    expect: Expect,
    message: Message<'a>,
}

enum Message<'a> {
    /// All of it, with its Sync.
    Whole(&'a [u8]),
    /// A prepared statement and the values for it.
    Bound(&'a Bound, &'a [u8]),
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
            false => core
                .submit_unwaited(now, &begin)
                .inspect_err(|_| lead.sent.store(false, Ordering::Release)),
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
        let message = match &encoded.bound {
            Some(bound) => Message::Bound(bound, out),
            None => {
                out.extend_from_slice(&SYNC);
                Message::Whole(out)
            }
        };
        let (token, lead, deadline) = self.submit(Outgoing { expect: encoded.expect, message })?;
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
            let in_transaction = self.place == Place::Session { in_transaction: true };
            core.submit_asking(now, first_use, in_transaction)
        })?;
        Ok(Reply::waiting(&self.shared, token))
    }

    /// Submits a request with its own sync point, and the BEGIN in front of it if it is the first of
    /// its transaction.
    pub(crate) fn submit(
        &self,
        outgoing: Outgoing<'_>,
    ) -> Result<(Token, Option<Token>, Time), Error> {
        self.shared.with(|core, now| match outgoing.message {
            Message::Whole(bytes) => self.submit_bytes(core, now, outgoing.expect, None, bytes),
            Message::Bound(bound, values) => {
                let scope = if self.place == Place::Shared { Scope::Heals } else { Scope::Fixed };
                core.with_scratch(|core, bytes| {
                    let (expect, statement) =
                        core.assemble(outgoing.expect, bound, values, scope, bytes)?;
                    bytes.extend_from_slice(&SYNC);
                    self.submit_bytes(core, now, expect, statement, bytes)
                })
            }
        })
    }

    fn submit_bytes(
        &self,
        core: &mut Core,
        now: Time,
        expect: Expect,
        statement: Option<Use>,
        bytes: &[u8],
    ) -> Result<(Token, Option<Token>, Time), Error> {
        let shared = &self.shared;
        let deadline = shared.deadline(now);
        let token = core.replies.add();
        // What names a statement that is prepared is sent again by itself when the server says that it
        // never started; on a session only where that can't bring it behind what came after it.
        let again = statement.as_ref().is_some_and(|used| !used.parses);
        let in_order = self.place != Place::Shared;
        if let Some(entry) = core.replies.entry(token) {
            entry.statement = statement;
        }
        // What is behind it in a transaction depends on it: it is sent, whatever its caller does.
        let pinned = self.place == Place::Session { in_transaction: true };
        let request =
            Request { deadline, again, in_order, pinned, ..Request::isolated(token, expect) };
        let first = match &self.lead {
            Some(lead) => !lead.sent.swap(true, Ordering::AcqRel),
            None => false,
        };
        if first {
            return self.submit_behind_begin(core, now, request, bytes);
        }
        let submitted = core.submit_one(now, request, bytes, shared.options.refuse_when_full);
        submitted.inspect_err(|_| core.replies.remove(token))?;
        Ok((token, None, deadline))
    }

    fn submit_behind_begin(
        &self,
        core: &mut Core,
        now: Time,
        request: Request<Expect>,
        bytes: &[u8],
    ) -> Result<(Token, Option<Token>, Time), Error> {
        let (token, deadline) = (request.token, request.deadline);
        let lead = core.replies.add();
        let expect = Expect::sync().parse().bind().execute();
        let begin = Request { sync: SyncPoint::Member, ..Request::isolated(lead, expect) };
        let mut both = plain_statement("BEGIN")?;
        let requests = vec![(begin, both.len()), (request, bytes.len())];
        both.extend_from_slice(bytes);
        let submitted = core.submit(now, requests, &both, self.shared.options.refuse_when_full);
        submitted.inspect_err(|_| {
            core.replies.remove(token);
            core.replies.remove(lead);
            if let Some(lead) = &self.lead {
                lead.sent.store(false, Ordering::Release);
            }
        })?;
        Ok((token, Some(lead), deadline))
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
            Source::Text(sql) => self.encode_text(sql, true, params, out),
            Source::Unprepared(sql) => self.encode_text(sql, false, params, out),
        }
    }

    fn encode_prepared(
        &self,
        statement: &Statement,
        params: Params<'_>,
        out: &mut BytesMut,
    ) -> Result<Encoded, Error> {
        let Explicit { shape, shapes, .. } = &*statement.0;
        if !Arc::ptr_eq(shapes, &self.shared.shapes) {
            return Err(Error::misuse(
                "foreign_statement",
                "the statement was prepared by another client: prepare it by this one",
            ));
        }
        self.check_place(shape.traits)?;
        check_count(params.len(), shape.types.len())?;
        write_values(out, shape, params)?;
        Ok(Encoded {
            expect: with_effects(Expect::sync().bind().execute(), shape.traits),
            traits: shape.traits,
            bound: Some(Bound { shape: shape.clone(), explicit: Some(statement.clone()) }),
            text: Text::Settled,
        })
    }

    fn encode_text(
        &self,
        sql: &str,
        may_prepare: bool,
        params: Params<'_>,
        out: &mut BytesMut,
    ) -> Result<Encoded, Unready> {
        let threshold = if may_prepare { self.shared.options.prepare_threshold } else { 0 };
        let known = self.shared.shapes.get(sql).filter(|it| it.types.len() == params.len());
        let traits = known.as_ref().map_or_else(|| sql::classify(sql), |shape| shape.traits);
        self.check_place(traits)?;
        if let Some(shape) = known {
            match self.encode_known(&shape, threshold, params, out) {
                Ok(encoded) => return Ok(encoded),
                // Another Rust type than last time: look at it anew.
                Err(error) if error.is_wrong_type() => out.clear(),
                Err(error) => return Err(Unready::Error(error.into())),
            }
        }
        self.encode_new(sql, traits, threshold, params, out)
    }

    /// Encodes a text of which the types are known.
    fn encode_known(
        &self,
        shape: &Arc<Shape>,
        threshold: u32,
        params: Params<'_>,
        out: &mut BytesMut,
    ) -> Result<Encoded, BindError> {
        let traits = shape.traits;
        if threshold > 0 && is_worth_preparing(traits) && shape.is_used(threshold) {
            write_values(out, shape, params)?;
            return Ok(Encoded {
                expect: with_effects(Expect::sync().bind().execute(), traits),
                traits,
                bound: Some(Bound { shape: shape.clone(), explicit: None }),
                text: Text::Prepared(shape.clone()),
            });
        }
        write_text(out, shape, params)?;
        let text = Text::Known(shape.clone());
        Ok(Encoded { expect: with_effects(of_text(), traits), traits, bound: None, text })
    }

    /// Encodes a text that was not seen before, or not with such parameters.
    fn encode_new(
        &self,
        sql: &str,
        traits: Traits,
        threshold: u32,
        params: Params<'_>,
        out: &mut BytesMut,
    ) -> Result<Encoded, Unready> {
        let found: Vec<Found> = params
            .iter()
            .enumerate()
            .map(|(number, value)| params::find(number, *value))
            .collect::<Result<_, _>>()?;
        let guess = found.iter().any(Found::is_guess);
        let types = found.iter().map(|found| found.type_.clone()).collect();
        let shape = Shape::new(sql.into(), types, traits, Vec::new());
        let expect = with_effects(of_text(), traits);
        if guess {
            return Err(Unready::Ask(FirstUse::new(found, params, shape, expect)));
        }
        let prepares = threshold == 1 && is_worth_preparing(traits);
        match prepares {
            true => write_values(out, &shape, params).map_err(Error::from)?,
            false => write_text(out, &shape, params).map_err(Error::from)?,
        }
        let is_alone =
            matches!(self.place, Place::Shared | Place::Session { in_transaction: false });
        // The values are kept for a second try only where that may come, and costs little.
        let text = match is_alone && out.len() <= SECOND_TRY_BYTES_MAX {
            true => Text::New(FirstUse::new(found, params, shape.clone(), expect)),
            false => Text::Unseen(shape.clone()),
        };
        let bound = prepares.then_some(Bound { shape, explicit: None });
        let bind = with_effects(Expect::sync().bind().execute(), traits);
        let expect = if prepares { bind } else { expect };
        Ok(Encoded { expect, traits, bound, text })
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
        let (executor, sql) = (self.clone(), sql.to_owned());
        async move {
            // Dropped on the way, it tells the server to forget the statement.
            let (name, description) = submitted?;
            executor.adopt(&sql, name, &description.await?)
        }
    }

    fn submit_prepare(&self, sql: &str, types: &[Type]) -> Result<(Name, Reply<Blocks>), Error> {
        self.check_place(sql::classify(sql))?;
        let name = self.shared.with_local(|core| core.statements.name());
        let mut bytes = BytesMut::new();
        write_parse(&mut bytes, &name.text, sql, types).map_err(params::unencodable)?;
        describe_statement(&mut bytes, &name.text).map_err(params::unencodable)?;
        bytes.extend_from_slice(&SYNC);
        let expect = Expect::sync().parse().describe_statement();
        let message = Message::Whole(&bytes);
        let (token, lead, _) = self.submit(Outgoing { expect, message })?;
        Ok((name, Reply::waiting(&self.shared, token).behind(lead)))
    }

    fn adopt(&self, sql: &str, name: Name, description: &Blocks) -> Result<Statement, Error> {
        let shared = &self.shared;
        let traits = sql::classify(sql);
        let (statement, columns) = Statement::described(sql, traits, &shared.shapes, description)?;
        shared.with_local(|core| core.adopt(name, &statement, columns))?;
        Ok(statement)
    }

    /// Runs a text of one or more statements by the simple protocol.
    pub(crate) fn simple<T: FromReply>(&self, sql: &str) -> Reply<T> {
        let submit = || {
            let traits = sql::classify(sql);
            self.check_place(traits)?;
            let mut out = BytesMut::new();
            Query { sql }.encode(&mut out).map_err(params::unencodable)?;
            let expect = with_effects(Expect::simple(), traits);
            self.submit(Outgoing { expect, message: Message::Whole(&out) })
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
            let expect = Expect::sync().parse().bind().execute();
            self.submit(Outgoing { expect, message: Message::Whole(&bytes) })
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

/// Statements up to this length are kept until they are answered, to be sent again where the server
/// refuses the format of a result. Longer ones fail then, and the next call knows better.
const SECOND_TRY_BYTES_MAX: usize = 64 << 10;

/// The reply to a statement that is sent by its text.
fn of_text() -> Expect {
    Expect::sync().parse().bind().describe_portal().execute()
}

/// Whether a plan is worth keeping: what has one, and can run more than once in the same way.
fn is_worth_preparing(traits: Traits) -> bool {
    !(traits.transaction_control()
        || traits.session_state()
        || traits.stand_alone()
        || traits.copy()
        || traits.several()
        || traits.savepoint())
}

/// Writes the parameters of a statement that will be named later.
fn write_values(out: &mut BytesMut, shape: &Shape, params: Params<'_>) -> Result<(), BindError> {
    let types = &shape.types;
    let format = |number: usize| params::format_of(params[number], &types[number]);
    let write = |number: usize, out: &mut BytesMut| {
        write_value(number, params[number], &types[number], out)
    };
    let count = params.len();
    let mut each = Vec::new();
    if (0..count).any(|number| format(number) == Format::Text) {
        each.extend((0..count).map(format));
    }
    let formats = if each.is_empty() { Formats::AllBinary } else { Formats::Each(&each) };
    shape.with_formats(|results| bind::write_values(out, formats, count, write, results))
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
