//! From a call to a submitted request: the one place through which every statement goes.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use onetrip_engine::pool::TextKey;
use onetrip_engine::{Request, Time, Token};
use onetrip_postgres::Expect;
use onetrip_postgres::client::pipeline::Limits;
use onetrip_postgres::client::retry::{GoesOn, Setting, permit};
use onetrip_postgres::client::statements::is_preparable;
use onetrip_postgres::client::texts::text_key;
use onetrip_postgres::client::transaction::front::write_command;
use onetrip_postgres::message::{Format, Formats, Query, SYNC, bind};
use onetrip_postgres::sql::{self, Place, Traits};
use postgres_types::Type;

use crate::Error;
use crate::core::{Connection, Context, Core};
use crate::error::ABORTED;
use crate::first_use::{FirstUse, write_statement};
use crate::guard::Guard;
use crate::kept::Kept;
use crate::lead::{Lead, Part};
use crate::metadata::{Metadata, MetadataCache};
use crate::params::{self, BindError, Found, Params, write_value};
use crate::pool::{Pool, QueueEntry, Work};
use crate::repeat::{Again, Repeat};
use crate::reply::{Description, FromReply, Reply, Text};
use crate::rows::Blocks;
use crate::statement::{Source, Statement, ToStatement};
use crate::statements::{Bound, Scope, Use, describe_statement, write_parse};
use crate::trace::Span;

/// Where statements go, what is allowed there, and the transaction or savepoint they belong to.
#[derive(Clone, Debug)]
pub(crate) struct Executor {
    pub(crate) target: Target,
    pub(crate) context: Arc<Context>,
    pub(crate) place: Place,
    /// The deadline of each request, if it differs from the client's.
    timeout: Option<Duration>,
    pub(crate) lead: Option<Arc<Lead>>,
}

/// On which connection statements run.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// Always on this one.
    One(Arc<Connection>),
    /// The pool chooses one for each statement.
    Any(Arc<Pool>),
}

/// A statement in the scratch buffer, ready to be submitted.
pub(crate) struct Encoded {
    pub(crate) expect: Expect,
    pub(crate) traits: Traits,
    /// The prepared statement whose values are in the buffer; if `None`, the buffer holds all
    /// messages.
    pub(crate) bound: Option<Bound>,
    pub(crate) text: Text,
    /// The key of the statement's text in the pool.
    pub(crate) key: TextKey,
}

/// A request that is to be submitted.
pub(crate) struct Outgoing<'a> {
    pub(crate) expect: Expect,
    pub(crate) key: TextKey,
    /// Its role in the transaction around it.
    pub(crate) part: Part,
    /// How it goes on once its connection has ended.
    pub(crate) goes_on: GoesOn,
    pub(crate) message: Message<'a>,
}

impl Outgoing<'_> {
    pub(crate) fn to_owned(&self) -> Kept {
        let (bound, bytes) = match self.message {
            Message::Whole(bytes) => (None, bytes),
            Message::Bound(bound, bytes) => (Some(bound.clone()), bytes),
        };
        let bytes = Bytes::copy_from_slice(bytes);
        let Outgoing { expect, key, goes_on, .. } = *self;
        Kept { expect, key, goes_on, bound, bytes }
    }
}

impl Kept {
    fn outgoing(&self) -> Outgoing<'_> {
        let message = match &self.bound {
            None => Message::Whole(&self.bytes),
            Some(bound) => Message::Bound(bound, &self.bytes),
        };
        let Kept { expect, key, goes_on, .. } = *self;
        // Only statements outside of transactions wait for a connection.
        Outgoing { expect, key, goes_on, part: Part::Statement, message }
    }
}

/// Where a submitted request is.
#[derive(Debug)]
pub(crate) enum At {
    /// On a connection, with the token of its reply there.
    Here(Arc<Connection>, Token),
    /// It waits for a connection.
    Later(Arc<QueueEntry>),
}

/// A request that was submitted.
pub(crate) struct Sent {
    pub(crate) at: At,
    /// The lead that went in front of it, or may have.
    pub(crate) lead: Option<Arc<Lead>>,
    pub(crate) deadline: Time,
}

impl Sent {
    pub(crate) fn later(queue_entry: Arc<QueueEntry>) -> Sent {
        Sent { at: At::Later(queue_entry), lead: None, deadline: Time::NEVER }
    }

    pub(crate) fn here(connection: &Arc<Connection>, token: Token) -> Sent {
        Sent { at: At::Here(connection.clone(), token), lead: None, deadline: Time::NEVER }
    }

    /// The same with a deadline.
    pub(crate) fn until(self, deadline: Time) -> Sent {
        Sent { deadline, ..self }
    }
}

/// How often a statement may run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Runs {
    Once,
    /// Running it twice does no harm. `hedged`: it is sent a second time if the first answer is
    /// late.
    Repeatably {
        hedged: bool,
    },
}

impl Runs {
    /// Builds what is needed to send the statement again, if that is allowed.
    fn repeatably<R>(self, kept: impl FnOnce() -> R) -> Option<R> {
        (self != Runs::Once).then(kept)
    }
}

pub(crate) enum Message<'a> {
    /// All messages, with the Sync.
    Whole(&'a [u8]),
    /// A prepared statement and the values for it.
    Bound(&'a Bound, &'a [u8]),
}

impl Executor {
    /// Statements of one session.
    pub(crate) fn of_session(connection: &Arc<Connection>) -> Executor {
        Executor {
            target: Target::One(connection.clone()),
            context: connection.context.clone(),
            place: Place::Session { in_transaction: false },
            timeout: None,
            lead: None,
        }
    }

    /// Statements that are spread over the shared connections of a pool.
    pub(crate) fn of_pool(pool: &Arc<Pool>) -> Executor {
        Executor {
            target: Target::Any(pool.clone()),
            context: pool.context.clone(),
            place: Place::Shared,
            timeout: None,
            lead: None,
        }
    }

    pub(crate) fn behind(&self, lead: Arc<Lead>) -> Executor {
        let place = Place::Session { in_transaction: true };
        Executor { place, lead: Some(lead), ..self.clone() }
    }

    /// The same with another deadline for each request.
    pub(crate) fn within(&self, timeout: Duration) -> Executor {
        Executor { timeout: Some(timeout), ..self.clone() }
    }

    /// How long each request may take.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout.or(self.context.options.request_timeout)
    }

    /// The deadline of a request that is made now. A timeout of this executor's own reads the
    /// clock: `now` may be old if the client has no `request_timeout`.
    pub(crate) fn deadline(&self, now: Time) -> Time {
        match self.timeout {
            None => self.context.deadline(now),
            Some(timeout) => self.context.now().after(timeout),
        }
    }

    /// The same for a caller that has not read the clock.
    pub(crate) fn deadline_now(&self) -> Time {
        self.timeout().map_or(Time::NEVER, |timeout| self.context.now().after(timeout))
    }

    /// How many statements a pipeline may keep, and how many bytes of them.
    pub(crate) fn limits(&self) -> Limits {
        let options = &self.context.options;
        Limits { requests: options.queue_max, bytes: options.queue_bytes_max }
    }

    /// The same target with another rule about what may be sent.
    pub(crate) fn at(&self, place: Place) -> Executor {
        Executor { place, ..self.clone() }
    }

    /// Sends the lead by itself, if it still waits to go in front of the next statement.
    pub(crate) fn lead_now(&self) -> Result<(), Error> {
        let (Some(lead), Target::One(connection)) = (&self.lead, &self.target) else {
            return Ok(());
        };
        connection.with(|core, now| lead.submit_alone(core, now))
    }

    /// Sends the lead, and waits until it is known to have succeeded. Needed in front of a request
    /// that the server would not skip if the lead failed. One trip, or none if the result is known.
    pub(crate) async fn lead_known(&self) -> Result<(), Error> {
        match &self.lead {
            // An empty text runs nothing, and the server skips it as it would any statement.
            Some(lead) if !lead.is_known() => self.command("", Part::Statement).await.map(drop),
            _ => Ok(()),
        }
    }

    /// If a statement was skipped because the start of its transaction failed, returns that
    /// failure.
    pub(crate) fn explained(&self, error: Error) -> Error {
        let why = || self.lead.as_ref().and_then(|lead| lead.why_skipped());
        match error.code() == ABORTED {
            true => why().map_or(error.clone(), |why| why.with_outcome(error.outcome())),
            false => error,
        }
    }

    /// Submits a statement.
    pub(crate) fn run<T: FromReply>(
        &self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<T> {
        self.run_as(Runs::Once, statement, params)
    }

    /// Submits a statement that the caller declared repeatable.
    pub(crate) fn run_repeatable<T: FromReply>(
        &self,
        hedged: bool,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<T> {
        self.run_as(Runs::Repeatably { hedged }, statement, params)
    }

    fn run_as<T: FromReply>(
        &self,
        runs: Runs,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<T> {
        let source = statement.to_statement();
        let span = Span::of(&self.context, source);
        let alone = statement.is_alone();
        with_scratch(|out| {
            let submitted = self.try_run((runs, alone), source, params, out);
            submitted.unwrap_or_else(|error| self.refused(error)).traced(span)
        })
    }

    /// The reply of a statement that was refused. Its transaction is not committed without it, if that
    /// is still there.
    fn refused<T>(&self, error: Error) -> Reply<T> {
        if let (Some(lead), Target::One(connection)) = (&self.lead, &self.target)
            && connection.lock().refusal().is_none()
        {
            lead.leave_out();
        }
        Reply::refused(error.part_of(self.lead.as_ref().map(|lead| &lead.fate)))
    }

    fn try_run<T: FromReply>(
        &self,
        (runs, alone): (Runs, bool),
        source: Source<'_>,
        params: Params<'_>,
        out: &mut BytesMut,
    ) -> Result<Reply<T>, Error> {
        let key = |own: TextKey| if alone { TextKey::ALONE } else { own };
        let encoded = match self.encode(source, params, out) {
            Err(Unready::Ask(first_use)) => {
                let kept = runs.repeatably(|| Again::Asking(first_use.clone()));
                let key = key(first_use.key());
                return Ok(self
                    .ask(key, first_use)?
                    .repeating(kept.map(|it| self.repeat(it, false))));
            }
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
        let is_read = encoded.traits.read_only_select();
        let goes_on = match runs {
            Runs::Once => GoesOn::InLine,
            Runs::Repeatably { .. } => GoesOn::Repeated { is_read },
        };
        let hedged = is_read && runs == Runs::Repeatably { hedged: true };
        let key = key(encoded.key);
        let part = Part::Statement;
        let outgoing = Outgoing { expect: encoded.expect, key, goes_on, part, message };
        let kept = runs.repeatably(|| Again::Encoded(outgoing.to_owned()));
        let repeat = kept.map(|it| self.repeat(it, hedged));
        let sent = self.submit(outgoing)?;
        let mut text = encoded.text;
        if let Text::New(first_use) = &mut text {
            first_use.deadline = sent.deadline;
        }
        Ok(Reply::of(sent).reading(text, encoded.traits.commit()).repeating(repeat))
    }

    /// Submits a read on a replica, behind its guard unless the connection has shown that it needs
    /// none.
    pub(crate) fn submit_guarded(
        &self,
        core: &mut Core,
        now: Time,
        kept: &Kept,
        guard: Option<&Guard>,
        deadline: Time,
    ) -> Result<Token, Error> {
        let outgoing = kept.outgoing();
        match guard.filter(|guard| !core.proof.covers(&guard.position)) {
            None => self.submit_on(core, now, &outgoing, deadline),
            Some(guard) => {
                let token = self.submit_behind(core, now, &outgoing, guard, deadline)?;
                core.begin_task(now, token, outgoing.key);
                Ok(token)
            }
        }
    }

    fn submit_behind(
        &self,
        core: &mut Core,
        now: Time,
        outgoing: &Outgoing<'_>,
        guard: &Guard,
        deadline: Time,
    ) -> Result<Token, Error> {
        core.with_scratch(|core, bytes| {
            let (guard, guard_len) = core.write_guard(guard, bytes)?;
            let guard_token = guard.token;
            let read = match outgoing.message {
                Message::Whole(whole) => {
                    bytes.extend_from_slice(whole);
                    Ok((outgoing.expect, None))
                }
                Message::Bound(bound, values) => core
                    .assemble(outgoing.expect, bound, values, Scope::Fixed, bytes)
                    .inspect(|_| bytes.extend_from_slice(&SYNC)),
            };
            let (expect, statement) = read.inspect_err(|_| core.replies.remove(guard_token))?;
            let cancel_late = self.context.options.cancel_on_timeout;
            let request = isolated(core, expect);
            let request = Request { deadline, pinned: true, cancel_late, ..request };
            let token = request.token;
            if let Some(entry) = core.replies.entry(token) {
                entry.statement = statement;
            }
            let requests = vec![(guard, guard_len), (request, bytes.len() - guard_len)];
            let refuse = self.context.options.refuse_when_full;
            core.submit(now, requests, bytes, refuse).inspect_err(|_| {
                core.replies.remove(guard_token);
                core.replies.remove(token);
            })?;
            Ok(token)
        })
    }

    /// The same for statements of a pool.
    pub(crate) fn on(&self, pool: &Arc<Pool>) -> Executor {
        Executor {
            target: Target::Any(pool.clone()),
            context: pool.context.clone(),
            ..self.clone()
        }
    }

    fn repeat(&self, again: Again, hedged: bool) -> Repeat {
        Repeat::new(self.clone(), again, hedged)
    }

    /// Submits a request again, on another connection.
    pub(crate) fn submit_again(
        &self,
        core: &mut Core,
        now: Time,
        again: &Again,
        deadline: Time,
    ) -> Result<Token, Error> {
        match again {
            Again::Encoded(kept) => self.submit_on(core, now, &kept.outgoing(), deadline),
            Again::Asking(first_use) => {
                let mut first_use = first_use.clone();
                first_use.deadline = deadline;
                let key = first_use.key();
                let token = core.submit_asking(now, first_use, None)?;
                core.begin_task(now, token, key);
                Ok(token)
            }
        }
    }

    /// Sends a statement with a Describe in front.
    pub(crate) fn ask<T: FromReply>(
        &self,
        key: TextKey,
        mut first_use: Box<FirstUse>,
    ) -> Result<Reply<T>, Error> {
        self.lead_now()?;
        let deadline = self.deadline(self.context.now());
        first_use.deadline = deadline;
        let mut first_use = Some(first_use);
        let lead = self.lead.clone();
        // The closure runs once: here, or when there is a connection.
        let mut ask = move |core: &mut Core, now: Time| match first_use.take() {
            Some(first_use) => {
                let token = core.submit_asking(now, first_use, lead.clone())?;
                core.begin_task(now, token, key);
                Ok(token)
            }
            None => Err(Error::misuse("submitted", "the statement was submitted already")),
        };
        let at = match &self.target {
            Target::One(connection) => At::Here(connection.clone(), connection.with(ask)?),
            Target::Any(pool) => match pool.try_run(key, &mut ask) {
                Some((connection, token)) => At::Here(connection, token?),
                None => {
                    let work = Work::new(move |_, core, now| ask(core, now));
                    At::Later(pool.run_later(key, work, deadline))
                }
            },
        };
        Ok(Reply::of(Sent { at, lead: self.lead.clone(), deadline }))
    }

    /// Submits a request with its own sync point, behind the lead of its transaction.
    pub(crate) fn submit(&self, outgoing: Outgoing<'_>) -> Result<Sent, Error> {
        match &self.target {
            Target::One(connection) => {
                let (deadline, sent) = connection.with(|core, now| {
                    let deadline = self.deadline(now);
                    let sent = core
                        .check_not_behind_itself()
                        .and_then(|()| self.submit_on(core, now, &outgoing, deadline));
                    (deadline, sent)
                });
                let at = At::Here(connection.clone(), sent?);
                Ok(Sent { at, lead: self.lead.clone(), deadline })
            }
            Target::Any(pool) => self.submit_to(pool, outgoing),
        }
    }

    fn submit_to(&self, pool: &Arc<Pool>, outgoing: Outgoing<'_>) -> Result<Sent, Error> {
        let key = outgoing.key;
        let sent = pool.try_run(key, |core, now| {
            let deadline = self.deadline(now);
            (deadline, self.submit_on(core, now, &outgoing, deadline))
        });
        if let Some((connection, (deadline, sent))) = sent {
            return Ok(Sent { at: At::Here(connection, sent?), lead: None, deadline });
        }
        let deadline = self.deadline(self.context.now());
        let (executor, kept) = (self.clone(), outgoing.to_owned());
        let work = Work::new(move |_, core, now| {
            executor.submit_on(core, now, &kept.outgoing(), deadline)
        });
        Ok(Sent { at: At::Later(pool.run_later(key, work, deadline)), lead: None, deadline })
    }

    fn submit_on(
        &self,
        core: &mut Core,
        now: Time,
        outgoing: &Outgoing<'_>,
        deadline: Time,
    ) -> Result<Token, Error> {
        let token = self.submit_request(core, now, outgoing, deadline)?;
        core.begin_task(now, token, outgoing.key);
        Ok(token)
    }

    fn submit_request(
        &self,
        core: &mut Core,
        now: Time,
        outgoing: &Outgoing<'_>,
        deadline: Time,
    ) -> Result<Token, Error> {
        // Later statements of the transaction depend on it, so it is sent even if its caller gives
        // up.
        let pinned = self.place == Place::Session { in_transaction: true };
        let at = Setting { is_shared: self.place == Place::Shared, is_outside: !pinned };
        let in_order = self.place != Place::Shared;
        // The end of a transaction is not cancelled when late: nobody could say how far it was.
        let cancel_late =
            self.context.options.cancel_on_timeout && outgoing.part == Part::Statement;
        match outgoing.message {
            Message::Whole(bytes) => {
                let (expect, goes_on) = (outgoing.expect, outgoing.goes_on);
                core.sent(&expect);
                let request = isolated(core, expect);
                let request = Request { deadline, in_order, pinned, cancel_late, ..request };
                let used: Option<&Use> = None;
                let request = permit(request, at, used, expect.has_partial_effects(), goes_on);
                self.submit_bytes(core, now, request, (None, outgoing.part), bytes)
            }
            Message::Bound(bound, values) => {
                let scope = if self.place == Place::Shared { Scope::Heals } else { Scope::Fixed };
                core.with_scratch(|core, bytes| {
                    let (expect, statement) =
                        core.assemble(outgoing.expect, bound, values, scope, bytes)?;
                    bytes.extend_from_slice(&SYNC);
                    let (used, goes_on) = (statement.as_ref(), outgoing.goes_on);
                    let request = isolated(core, expect);
                    let request = Request { deadline, in_order, pinned, cancel_late, ..request };
                    let request = permit(request, at, used, expect.has_partial_effects(), goes_on);
                    self.submit_bytes(core, now, request, (statement, outgoing.part), bytes)
                })
            }
        }
    }

    fn submit_bytes(
        &self,
        core: &mut Core,
        now: Time,
        request: Request<Expect>,
        (statement, part): (Option<Use>, Part),
        bytes: &[u8],
    ) -> Result<Token, Error> {
        let token = request.token;
        if let Some(entry) = core.replies.entry(token) {
            entry.statement = statement;
            entry.ends = part != Part::Statement;
        }
        let refuse = self.context.options.refuse_when_full;
        let submitted = match &self.lead {
            Some(lead) => lead.submit(core, now, request, bytes, part, refuse),
            None => core.submit_one(now, request, bytes, refuse),
        };
        submitted.inspect_err(|_| core.replies.remove(token))?;
        Ok(token)
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
        let metadata = &statement.0.metadata;
        self.check_owner(statement)?;
        self.check_place(metadata.traits)?;
        params::check_count(params.len(), metadata.types.len())?;
        write_values(out, metadata, params)?;
        Ok(Encoded {
            expect: Expect::sync().bind().execute().of_traits(metadata.traits),
            traits: metadata.traits,
            bound: Some(Bound { metadata: metadata.clone(), explicit: Some(statement.clone()) }),
            text: Text::Settled,
            key: metadata.key,
        })
    }

    fn encode_text(
        &self,
        sql: &str,
        may_prepare: bool,
        params: Params<'_>,
        out: &mut BytesMut,
    ) -> Result<Encoded, Unready> {
        let threshold = if may_prepare { self.context.options.prepare_threshold } else { 0 };
        let known =
            self.context.metadata_cache.get(sql).filter(|it| it.types.len() == params.len());
        let traits = known.as_ref().map_or_else(|| sql::classify(sql), |metadata| metadata.traits);
        self.check_place(traits)?;
        if let Some(metadata) = known {
            match self.encode_known(&metadata, threshold, params, out) {
                Ok(encoded) => return Ok(encoded),
                // The parameter has another Rust type than last time, or the server another type by
                // now: encode the text as a new one.
                Err(error) if error.is_of_value() => out.clear(),
                Err(error) => return Err(Unready::Error(error.into())),
            }
        }
        self.encode_new(sql, traits, threshold, params, out)
    }

    /// Encodes a text whose metadata is known.
    fn encode_known(
        &self,
        metadata: &Arc<Metadata>,
        threshold: u32,
        params: Params<'_>,
        out: &mut BytesMut,
    ) -> Result<Encoded, BindError> {
        let traits = metadata.traits;
        if threshold > 0 && is_preparable(traits) && metadata.is_used(threshold) {
            write_values(out, metadata, params)?;
            return Ok(Encoded {
                expect: Expect::sync().bind().execute().of_traits(traits),
                traits,
                bound: Some(Bound { metadata: metadata.clone(), explicit: None }),
                text: Text::Prepared(metadata.clone()),
                key: metadata.key,
            });
        }
        write_text(out, metadata, params)?;
        let (text, key) = (Text::Known(metadata.clone()), metadata.key);
        Ok(Encoded { expect: of_text().of_traits(traits), traits, bound: None, text, key })
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
        // The server would accept one parameter too many if it has a type.
        if let Some(wanted) = sql::parameters(sql).filter(|wanted| params.len() > *wanted) {
            params::check_count(params.len(), wanted)?;
        }
        let found: Vec<Found> = params
            .iter()
            .enumerate()
            .map(|(number, value)| params::find(number, *value, &self.context.types))
            .collect::<Result<_, _>>()?;
        let guess = found.iter().any(Found::is_guess);
        let types = found.iter().map(|found| found.type_.clone()).collect();
        let metadata = Metadata::new(sql.into(), types, traits, Vec::new());
        self.context.neighbours.name(&metadata);
        let (expect, key) = (of_text().of_traits(traits), metadata.key);
        if guess {
            return Err(Unready::Ask(FirstUse::new(found, params, metadata, expect)));
        }
        // A text that is not remembered would be prepared anew at each use.
        let prepares = threshold == 1 && is_preparable(traits) && MetadataCache::is_remembered(sql);
        match prepares {
            true => write_values(out, &metadata, params).map_err(Error::from)?,
            false => write_text(out, &metadata, params).map_err(Error::from)?,
        }
        let is_alone =
            matches!(self.place, Place::Shared | Place::Session { in_transaction: false });
        // The values are kept for a second try only if one is possible, and if they are small.
        let text = match is_alone && out.len() <= SECOND_TRY_BYTES_MAX {
            true => Text::New(FirstUse::new(found, params, metadata.clone(), expect)),
            false => Text::Unseen(metadata.clone()),
        };
        let bound = prepares.then_some(Bound { metadata, explicit: None });
        let bind = Expect::sync().bind().execute().of_traits(traits);
        let expect = if prepares { bind } else { expect };
        Ok(Encoded { expect, traits, bound, text, key })
    }

    pub(crate) fn check_owner(&self, statement: &Statement) -> Result<(), Error> {
        if Arc::ptr_eq(&statement.0.metadata_cache, &self.context.metadata_cache) {
            return Ok(());
        }
        Err(Error::misuse(
            "foreign_statement",
            "the statement was prepared by another client: prepare it by this one",
        ))
    }

    /// Encodes a statement without its Sync and by its text, even if it is prepared: so its reply
    /// begins with its columns.
    pub(crate) fn encode_unnamed(
        &self,
        source: Source<'_>,
        params: Params<'_>,
        out: &mut BytesMut,
    ) -> Result<Encoded, Unready> {
        let (Source::Text(sql) | Source::Unprepared(sql)) = source else {
            let Source::Prepared(statement) = source else { unreachable!("it is one of three") };
            let metadata = &statement.0.metadata;
            self.check_place(metadata.traits)?;
            params::check_count(params.len(), metadata.types.len())?;
            write_text(out, metadata, params).map_err(Error::from)?;
            let (expect, traits) = (of_text().of_traits(metadata.traits), metadata.traits);
            let (text, key) = (Text::Settled, metadata.key);
            return Ok(Encoded { expect, traits, bound: None, text, key });
        };
        self.encode_text(sql, false, params, out)
    }

    /// Asks the server how to send a first use: one trip.
    pub(crate) fn ask_first(&self, first_use: &FirstUse) -> Result<Reply<Blocks>, Error> {
        let mut describe = first_use.describe()?;
        describe.extend_from_slice(&SYNC);
        let expect = Expect::sync().parse().describe_statement();
        let (part, message) = (Part::Statement, Message::Whole(&describe));
        let key = TextKey::UNTOLD;
        Ok(Reply::of(self.submit(Outgoing {
            expect,
            key,
            part,
            goes_on: GoesOn::InLine,
            message,
        })?))
    }

    pub(crate) fn check_place(&self, traits: Traits) -> Result<(), Error> {
        match sql::refusal(traits, self.place) {
            None => Ok(()),
            Some(refusal) => Err(Error::misuse(refusal.code(), refusal.to_string())),
        }
    }

    /// Asks the server for the types of a statement: one trip. Each connection then prepares it
    /// with its first use there.
    pub(crate) fn prepare(
        &self,
        sql: &str,
        types: &[Type],
    ) -> impl Future<Output = Result<Statement, Error>> + use<> {
        let traits = sql::classify(sql);
        let description = self.describe(sql, traits, types);
        let known = (self.context.metadata_cache.clone(), self.context.types.clone());
        let sql = sql.to_owned();
        async move { Statement::described(&sql, traits, known, &description?.await?.0) }
    }

    fn describe(
        &self,
        sql: &str,
        traits: Traits,
        types: &[Type],
    ) -> Result<Reply<Description>, Error> {
        self.check_place(traits)?;
        let mut describe = BytesMut::new();
        write_parse(&mut describe, "", sql, types).map_err(params::unencodable)?;
        describe_statement(&mut describe, "").map_err(params::unencodable)?;
        describe.extend_from_slice(&SYNC);
        let expect = Expect::sync().parse().describe_statement();
        let (part, message) = (Part::Statement, Message::Whole(&describe));
        let outgoing =
            Outgoing { expect, key: TextKey::UNTOLD, goes_on: GoesOn::InLine, part, message };
        Ok(Reply::of(self.submit(outgoing)?))
    }

    /// Runs a text of one or more statements by the simple protocol.
    pub(crate) fn simple<T: FromReply>(&self, sql: &str) -> Reply<T> {
        let submit = || {
            let traits = sql::classify(sql);
            self.check_place(traits)?;
            let mut out = BytesMut::new();
            Query { sql }.encode(&mut out).map_err(params::unencodable)?;
            let expect = Expect::simple().of_traits(traits);
            let (part, message) = (Part::Statement, Message::Whole(&out));
            self.submit(Outgoing {
                expect,
                key: text_key(sql, traits),
                goes_on: GoesOn::InLine,
                part,
                message,
            })
        };
        submit().map_or_else(|error| self.refused(error), Reply::of)
    }

    /// Runs a command that ends a transaction or a savepoint.
    pub(crate) fn command(&self, sql: &str, part: Part) -> Reply<Blocks> {
        let submit = || {
            let mut bytes = plain_statement(sql)?;
            bytes.extend_from_slice(&SYNC);
            let expect = Expect::sync().parse().bind().execute().leaves_nothing();
            let expect = if part == Part::Commit { expect.commits() } else { expect };
            let message = Message::Whole(&bytes);
            self.submit(Outgoing {
                expect,
                key: TextKey::UNTOLD,
                goes_on: GoesOn::InLine,
                part,
                message,
            })
        };
        submit().map_or_else(Reply::refused, Reply::of)
    }
}

/// A request with a token for its reply, and its own sync point.
fn isolated(core: &mut Core, expect: Expect) -> Request<Expect> {
    Request::isolated(core.replies.add(), expect)
}

/// Why a statement can't be sent yet.
#[derive(Debug)]
pub(crate) enum Unready {
    Error(Error),
    /// A parameter's type would be a guess, so the server must be asked first.
    Ask(Box<FirstUse>),
}

impl From<Error> for Unready {
    fn from(error: Error) -> Unready {
        Unready::Error(error)
    }
}

/// Up to this length a statement is kept until it is answered, to be sent again if the server
/// refuses the format of a result. A longer one fails then, but the next call knows the format.
const SECOND_TRY_BYTES_MAX: usize = 64 << 10;

/// The expected reply to a statement that is sent by its text.
fn of_text() -> Expect {
    Expect::sync().parse().bind().describe_portal().execute()
}

/// Writes the parameters of a statement whose name is written later.
fn write_values(
    out: &mut BytesMut,
    metadata: &Metadata,
    params: Params<'_>,
) -> Result<(), BindError> {
    let types = &metadata.types;
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
    metadata.with_formats(|results| bind::write_values(out, formats, count, write, results))
}

/// Writes parameters that are texts.
pub(crate) fn write_texts(
    out: &mut BytesMut,
    metadata: &Metadata,
    texts: &[String],
) -> Result<(), Error> {
    let params: Vec<&(dyn postgres_types::ToSql + Sync)> =
        texts.iter().map(|text| text as &(dyn postgres_types::ToSql + Sync)).collect();
    Ok(write_values(out, metadata, &params)?)
}

fn write_text(
    out: &mut BytesMut,
    metadata: &Metadata,
    params: Params<'_>,
) -> Result<(), BindError> {
    let format = |number: usize| params::format_of(params[number], &metadata.types[number]);
    write_statement(out, metadata, format, |number, out| {
        write_value(number, params[number], &metadata.types[number], out)
    })
}

/// Parse, Bind and Execute of a text without parameters; nobody reads its rows.
pub(crate) fn plain_statement(sql: &str) -> Result<BytesMut, Error> {
    let mut out = BytesMut::new();
    write_command(&mut out, sql).map_err(params::unencodable)?;
    Ok(out)
}

/// Lends a thread's buffer, which keeps its memory between calls. The caller's own code encodes
/// parameters into it before any lock is taken.
pub(crate) fn with_scratch<R>(f: impl FnOnce(&mut BytesMut) -> R) -> R {
    const KEPT_MAX: usize = 64 << 10;
    thread_local!(static SCRATCH: RefCell<BytesMut> = RefCell::new(BytesMut::new()));
    // Taken, not borrowed: the code of a parameter may itself make a call.
    let mut scratch = SCRATCH.with(RefCell::take);
    scratch.clear();
    let result = f(&mut scratch);
    if scratch.capacity() <= KEPT_MAX {
        SCRATCH.with(|kept| kept.replace(scratch));
    }
    result
}
