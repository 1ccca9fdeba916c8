//! The prepared statements of one connection: the name of each text, and which ones are forgotten
//! when there are too many.
//!
//! A statement is prepared together with a use of it: Parse and Describe go in front of that use.
//! If a request can be sent again by itself, it may name the statement before the server has
//! answered. If the Parse fails, the uses behind it fail as unknown, and each prepares the
//! statement anew. So no caller fails because of another's Parse. A request that can't be sent
//! again (in transactions and pipelines) names only statements that the server has confirmed, or
//! that its own segment prepared, since that is skipped together with it.
//!
//! The types of its parameters are those of its Parse. The server keeps them when a table changes, so
//! a name is used only for values that mean the same under any other type ([`super::exact`]), and
//! only where the names in its text mean what they meant then ([`Statements::renamed`]). If an
//! error or a new description shows that something has changed, all connections of the client
//! prepare their texts anew ([`Generation`]): the change costs one error at most, and not one for
//! each of them.
//!
//! Behind a pooler that keeps prepared statements, a Parse under a name may be answered by one of an
//! older schema. So a name stands there only for what has no inferred types, each use describes its
//! columns, and after the first sign of a change there are no names any more
//! (`Statements::may_name`).
//!
//! `T` is the host's data for a statement. It is dropped when nothing refers to the statement any
//! more.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use onetrip_engine::{NumberMap, Time};

use super::exact::Parameters;
use super::names::NAME_PREFIX;
use crate::message::tag::backend;
use crate::message::{
    Close, Describe, EncodeError, ErrorResponse, Header, ParameterDescription, Target,
    error_response::field, execute,
};
use crate::outdated::{
    is_meaningless, is_miscounted, is_of_an_older_plan, may_be_outdated, means_stale,
};
use crate::sql::Traits;
use crate::{Expect, Names, Postgres, StatementId};

/// The statements that one connection knows.
#[derive(Debug)]
pub struct Statements<T> {
    known: NumberMap<u64, Known<T>>,
    /// How many statements prepared by counting are kept.
    max: usize,
    uses: u64,
    names: u64,
    /// Makes its names different from those of all other connections. Behind a pooler, connections
    /// may come to share a server, and a name for two texts would run the wrong one.
    unique: u64,
    generation: Generation,
    own: Own<T>,
    closes: Arc<Closes>,
}

/// The statements of a session in which the names in texts have come to mean other things. They are
/// closed when that happens again, or when the session is given back: the reset that follows brings
/// back what was meant before.
#[derive(Debug)]
struct Own<T> {
    /// The session, by the protocol's count.
    session: Option<u64>,
    /// How often that happened on this connection.
    epoch: u64,
    known: NumberMap<u64, Known<T>>,
}

/// A statement is prepared anew when it is as old as this. The server says nothing when a function,
/// an operator or a table is made that its text would find by now, and its values do not show it:
/// so this is how long the old meaning lasts. The cost is one Parse in that time.
pub(in crate::client) const AGE_MAX: Duration = Duration::from_secs(60);

/// A text is prepared with so many uses since names have changed. Where each transaction sets a
/// path, few texts come so often, and preparing them would be in vain.
pub(super) const USES_BEFORE_OWN: u32 = 3;

/// How often all connections of a client had to prepare their texts anew, since the schema had
/// changed. Connections that know the same texts share it.
#[derive(Clone, Debug, Default)]
pub struct Generation(Arc<Findings>);

/// What was found to be wrong of all that is remembered by the connections of a client.
#[derive(Debug, Default)]
struct Findings {
    /// How often all texts had to be prepared anew.
    changes: AtomicU64,
    /// How often a server did not have a statement that was prepared there.
    losses: AtomicU64,
}

#[derive(Debug)]
struct Known<T> {
    prepared: Hold<T>,
    used: u64,
}

#[derive(Debug)]
enum Hold<T> {
    /// Prepared by counting, and kept until others are used more recently.
    Counted(Arc<Prepared<T>>),
    /// Prepared on request, and kept by the caller.
    Explicit(Weak<Prepared<T>>),
    /// Not prepared yet, since it was used so often only since names have changed.
    Early(u32),
}

/// A statement on one connection. When nothing uses it any more, the server is told to forget it
/// ([`Statements::take_close`]).
#[derive(Debug)]
pub struct Prepared<T> {
    name: Name,
    /// The host's data.
    pub data: T,
    /// The segment of a pipeline in which it was prepared, if any.
    segment: Option<Segment>,
    state: AtomicU8,
    /// As the server described it last. Until then as it described the statement before it, if it
    /// takes the place of one.
    description: Mutex<Option<Arc<Description>>>,
    /// When it is to be parsed under another name, whatever is known by then.
    old_at: Time,
    /// The generation in which it was parsed last.
    parsed_in: AtomicU64,
    generation: Generation,
}

/// The number of a pipeline, and of a segment in it.
pub type Segment = (u64, u64);

/// Its Parse is in flight.
const PARSING: u8 = 0;
/// The server has it, and has described it.
const READY: u8 = 1;
/// The server has lost it, its plan is stale, or its columns are not known.
const STALE: u8 = 2;
/// Its Parse failed, so the server never had it.
const FAILED: u8 = 3;

/// The name of a statement on the server, until it is closed.
#[derive(Debug)]
struct Name {
    text: String,
    /// The number by which the protocol prepares it anew.
    id: StatementId,
    /// Whether another statement has taken its place under the same name.
    replaced: AtomicBool,
    closes: Arc<Closes>,
}

/// Statements that nothing uses any more, and that the server still has.
#[derive(Debug, Default)]
struct Closes {
    list: Mutex<Vec<Closing>>,
    any: AtomicBool,
    /// Whether the connection is gone.
    over: AtomicBool,
}

/// A name that the server must be told to forget.
#[derive(Debug)]
pub struct Closing {
    id: Option<StatementId>,
    name: String,
}

/// How a request uses the statement that it names.
#[derive(Debug)]
pub struct Use<T> {
    prepared: Arc<Prepared<T>>,
    parses: bool,
    describes: bool,
}

/// Where a statement is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In a request that can be sent again by itself, with a Parse in front.
    Heals,
    /// In a request that can't.
    Fixed,
    /// In a segment of several requests.
    Segment {
        /// Which one.
        segment: Segment,
        /// Whether each statement of it has a deadline of its own.
        timed: bool,
    },
}

/// How a request refers to a statement.
#[derive(Debug)]
pub enum Way<T> {
    /// By its name.
    Named(Use<T>),
    /// By its text. Either its Parse is in flight in a place that this request must not depend on,
    /// or names are not kept beyond their segment.
    Unnamed,
}

/// A statement that is about to be used, as far as it does not depend on the connection.
pub struct Wanted<'a, T> {
    /// Distinguishes it from all other statements of the pool.
    pub key: u64,
    /// Writes its Parse under the given name.
    pub parse: &'a dyn Fn(&mut BytesMut, &str) -> Result<(), EncodeError>,
    /// Makes the host's data when it is prepared.
    pub data: &'a dyn Fn() -> T,
    /// Whether it was prepared on request, so that the caller keeps it.
    pub is_explicit: bool,
    /// The parameters of this use.
    pub parameters: Parameters<'a>,
    /// The time.
    pub now: Time,
}

/// What an error says of the statement that its request named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    Other,
    /// The types of its parameters may be those of an older schema, so the next use prepares it
    /// anew. If they are, all others are prepared anew, too.
    Suspect,
    /// The server could not make sense of it. It could when it was prepared, if it was before.
    Meaningless,
    /// The server does not know it.
    Lost,
    /// The server can't use it as it is, since its columns have changed.
    Changed,
    /// It has more or fewer columns than it was asked for, so they have changed since its client
    /// learned of them, which may have been on another connection.
    Miscounted,
}

/// What the server says of a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// The types of its parameters.
    pub types: Vec<u32>,
    /// A hash of the description of its columns.
    columns: u64,
}

/// What a reply shows about the statement of its request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// A Close in front of it was answered, since it was prepared anew.
    pub closed: bool,
    /// Its Parse was answered.
    pub parsed: bool,
    /// It was described as well. A Parse may succeed without that, because of a cancel, or because
    /// a pooler answered the Parse itself.
    pub described: bool,
    /// As what, as far as it was.
    description: Description,
    /// It was bound.
    bound: bool,
    /// A hash of its columns, if they were described though it was not parsed.
    columns: Option<u64>,
    /// The rest of the reply says nothing about the statement.
    over: bool,
}

impl Scope {
    fn segment(self) -> Option<Segment> {
        match self {
            Scope::Segment { segment, .. } => Some(segment),
            Scope::Heals | Scope::Fixed => None,
        }
    }

    /// Whether a request that names a statement while it is being parsed may never see its
    /// description.
    fn may_lose_description(self) -> bool {
        !matches!(self, Scope::Segment { timed: false, .. })
    }
}

impl<T> Statements<T> {
    /// A connection without statements. `max` of those prepared by counting are kept. `unique` is
    /// random, and different for each connection.
    pub fn new(max: usize, unique: u64) -> Statements<T> {
        Statements {
            known: NumberMap::default(),
            max,
            uses: 0,
            names: 0,
            unique,
            generation: Generation::default(),
            own: Own { session: None, epoch: 0, known: NumberMap::default() },
            closes: Arc::new(Closes::default()),
        }
    }

    /// Has it share the generation of other connections from now on.
    pub fn share(&mut self, generation: &Generation) {
        self.generation = generation.clone();
    }

    /// What the texts of all connections that share it are remembered by.
    pub fn generation(&self) -> &Generation {
        &self.generation
    }

    /// A statement is sent behind which the names in a text may mean other things than before: it
    /// sets the path or the role, say ([`Traits::renames`]). Until the session is given back, no name is used
    /// that was parsed before, since the server does not say what it has come to.
    pub fn renamed(&mut self, protocol: &Postgres) {
        self.own.session = Some(protocol.session());
        self.own.epoch += 1;
        self.own.known.clear();
    }

    /// Names stand for the same in texts that were parsed in the same epoch. 0 is that of the session
    /// as it is between its owners.
    pub(super) fn epoch(&self, protocol: &Postgres) -> u64 {
        if self.own.session == Some(protocol.session()) { self.own.epoch } else { 0 }
    }

    /// Forgets what was prepared in a session that was given back.
    fn leave_session(&mut self) {
        if self.own.session.take().is_some() {
            self.own.known.clear();
        }
    }

    /// Whether a text is prepared now, in a session in which names have changed.
    fn is_frequent(&mut self, wanted: &Wanted<'_, T>) -> bool {
        let used = self.uses;
        if wanted.is_explicit {
            return true;
        }
        let Some(known) = self.own.known.get_mut(&wanted.key) else {
            let known = Known { prepared: Hold::Early(1), used };
            self.own.known.insert(wanted.key, known);
            forget_some(&mut self.own.known, self.max);
            return false;
        };
        known.used = used;
        match &mut known.prepared {
            Hold::Early(uses) => {
                *uses += 1;
                *uses >= USES_BEFORE_OWN
            }
            _ => true,
        }
    }

    /// The statements that may be named now.
    fn current(&mut self, is_own: bool) -> &mut NumberMap<u64, Known<T>> {
        if is_own { &mut self.own.known } else { &mut self.known }
    }

    /// How this connection uses a statement here. The first use prepares it.
    ///
    /// # Errors
    /// Its text can't be sent.
    pub fn way(
        &mut self,
        protocol: &mut Postgres,
        wanted: &Wanted<'_, T>,
        scope: Scope,
    ) -> Result<Way<T>, EncodeError> {
        self.uses += 1;
        let names = protocol.names();
        if names == Names::Lost || !self.may_name(protocol, wanted) {
            return Ok(Way::Unnamed);
        }
        let is_own = self.enter(protocol);
        if is_own && !self.is_frequent(wanted) {
            return Ok(Way::Unnamed);
        }
        let (mut description, uses) = (None, self.uses);
        if let Some(known) = self.current(is_own).get_mut(&wanted.key)
            && let Some(prepared) = known.prepared.get()
        {
            if names == Names::Unknown && !prepared.is_of(scope.segment()) {
                return Ok(Way::Unnamed);
            }
            known.used = uses;
            match prepared.state() {
                READY if prepared.is_outdated() || prepared.is_old(wanted.now) => {}
                READY if prepared.takes(&wanted.parameters) => {
                    return Ok(Way::Named(Use::on(protocol, prepared)));
                }
                PARSING if prepared.may_be_named(scope, &wanted.parameters) => {
                    let describes = scope.may_lose_description();
                    return Ok(Way::Named(Use { prepared, parses: false, describes }));
                }
                READY | PARSING => return Ok(Way::Unnamed),
                _ => {}
            }
            description = prepared.description();
        }
        let prepared = self.prepare(protocol, wanted, scope.segment())?;
        prepared.expect(description);
        self.keep(wanted, &prepared, is_own);
        Ok(Way::Named(Use::that_parses(prepared)))
    }

    /// A statement for many uses by a caller that must not fail because of others' Parse: one that
    /// the server has, or a new one. A new one is kept for others only if `shared`. It has a name
    /// only if that is known to be kept as long as the uses last; behind some poolers that is no
    /// longer than their segment.
    ///
    /// # Errors
    /// Its text can't be sent.
    pub fn own_way(
        &mut self,
        protocol: &mut Postgres,
        wanted: &Wanted<'_, T>,
        scope: Scope,
        shared: bool,
    ) -> Result<Way<T>, EncodeError> {
        self.uses += 1;
        let names = protocol.names();
        if names == Names::Lost || names == Names::Unknown && scope.segment().is_none() {
            return Ok(Way::Unnamed);
        }
        // The values of its uses are not known yet. Those of inferred types need a Parse of their own.
        let are_inferred = wanted.parameters.named.contains(&0);
        if are_inferred && !protocol.is_direct() || !self.may_name(protocol, wanted) {
            return Ok(Way::Unnamed);
        }
        let (is_own, uses) = (self.enter(protocol), self.uses);
        if shared
            && names == Names::Kept
            && !are_inferred
            && let Some(known) = self.current(is_own).get_mut(&wanted.key)
            && let Some(prepared) = known.prepared.get()
            && prepared.is_ready()
        {
            known.used = uses;
            return Ok(Way::Named(Use::on(protocol, prepared)));
        }
        let prepared = self.prepare(protocol, wanted, scope.segment())?;
        if shared {
            self.keep(wanted, &prepared, is_own);
        }
        Ok(Way::Named(Use::that_parses(prepared)))
    }

    /// Whether a text may go by a name on this connection. A pooler that keeps prepared statements
    /// answers a Parse by itself, by a statement that it had parsed for anybody, at any time. So its
    /// types are those of an older schema, and no Parse under a name helps: neither for values whose
    /// types the server infers, nor once something has shown that the schema has changed. It keeps
    /// no statement without a name.
    pub(super) fn may_name(&self, protocol: &Postgres, wanted: &Wanted<'_, T>) -> bool {
        let is_new = || self.generation.now() == 0;
        protocol.is_direct() || !wanted.parameters.are_inferred() && is_new()
    }

    /// A new statement that is about to be parsed, under a generated name.
    fn prepare(
        &mut self,
        protocol: &mut Postgres,
        wanted: &Wanted<'_, T>,
        segment: Option<Segment>,
    ) -> Result<Arc<Prepared<T>>, EncodeError> {
        self.names += 1;
        let name = format!("{NAME_PREFIX}{:x}_{}", self.unique, self.names);
        self.prepare_as(protocol, name, wanted, segment)
    }

    /// A new statement under this name.
    pub(super) fn prepare_as(
        &self,
        protocol: &mut Postgres,
        name: String,
        wanted: &Wanted<'_, T>,
        segment: Option<Segment>,
    ) -> Result<Arc<Prepared<T>>, EncodeError> {
        let id = protocol.register(heal(&name, wanted.parse, self.unique)?);
        let (replaced, closes) = (AtomicBool::new(false), self.closes.clone());
        let name = Name { text: name, id, replaced, closes };
        let (data, state) = ((wanted.data)(), AtomicU8::new(PARSING));
        let generation = self.generation.clone();
        let (description, parsed_in) = (Mutex::default(), AtomicU64::new(generation.now()));
        let old_at = wanted.now.after(AGE_MAX);
        Ok(Arc::new(Prepared {
            name,
            data,
            segment,
            state,
            description,
            old_at,
            parsed_in,
            generation,
        }))
    }

    /// Whether names have changed in this session. Forgets those of a session that is over.
    fn enter(&mut self, protocol: &Postgres) -> bool {
        let is_own = self.epoch(protocol) != 0;
        if !is_own {
            self.leave_session();
        }
        is_own
    }

    fn keep(&mut self, wanted: &Wanted<'_, T>, prepared: &Arc<Prepared<T>>, is_own: bool) {
        let prepared = match wanted.is_explicit {
            true => Hold::Explicit(Arc::downgrade(prepared)),
            false => Hold::Counted(prepared.clone()),
        };
        let known = Known { prepared, used: self.uses };
        self.current(is_own).insert(wanted.key, known);
        let max = self.max;
        forget_some(self.current(is_own), max);
    }

    /// A request that named none has failed so. If that shows that columns are others than its client
    /// has learned, all connections prepare their texts anew, as where a statement was named
    /// ([`Use::ended`]).
    pub fn failed_unnamed(&self, fault: Fault) {
        if fault == Fault::Miscounted {
            self.generation.advance();
        }
    }

    /// The server has lost all of them: DISCARD ALL, DEALLOCATE ALL.
    pub fn lost(&mut self) {
        for known in self.known.values().chain(self.own.known.values()) {
            if let Some(prepared) = known.prepared.get() {
                prepared.lost();
            }
        }
    }

    /// Whether the server must be told to forget some.
    pub fn any_to_close(&self) -> bool {
        self.closes.any.load(Ordering::Relaxed)
    }

    /// One name that the server must be told to forget, by a Close together with the next request.
    pub fn take_close(&mut self, protocol: &mut Postgres) -> Option<Closing> {
        if !self.any_to_close() {
            return None;
        }
        let mut list = self.closes.lock();
        let mut taken = None;
        while taken.is_none()
            && let Some(closing) = list.pop()
        {
            closing.id.inspect(|id| protocol.unregister(*id));
            let closing = Closing { id: None, ..closing };
            taken = Some(closing).filter(|closing| !closing.name.is_empty());
        }
        self.closes.any.store(!list.is_empty(), Ordering::Relaxed);
        taken
    }

    /// The Close could not be sent after all.
    pub fn give_back(&mut self, closing: Closing) {
        self.closes.push(closing);
    }
}

/// Forgets statements that nothing holds any more, and the least recently used of those that were
/// counted, if there are more than `max`.
fn forget_some<T>(known: &mut NumberMap<u64, Known<T>>, max: usize) {
    if known.len() <= max {
        return;
    }
    known.retain(|_, known| match &known.prepared {
        Hold::Explicit(prepared) => prepared.strong_count() > 0,
        _ => true,
    });
    let counted = || known.iter().filter(|(_, known)| known.prepared.is_counted());
    if counted().count() > max {
        let oldest = counted().min_by_key(|(_, known)| known.used).map(|(id, _)| *id);
        oldest.and_then(|id| known.remove(&id));
    }
}

impl<T> Drop for Statements<T> {
    fn drop(&mut self) {
        self.closes.over.store(true, Ordering::Relaxed);
    }
}

impl<T> Hold<T> {
    fn get(&self) -> Option<Arc<Prepared<T>>> {
        match self {
            Hold::Counted(prepared) => Some(prepared.clone()),
            Hold::Explicit(prepared) => prepared.upgrade(),
            Hold::Early(_) => None,
        }
    }

    fn is_counted(&self) -> bool {
        !matches!(self, Hold::Explicit(_))
    }
}

impl<T> Prepared<T> {
    /// Its name on the server.
    pub fn name(&self) -> &str {
        &self.name.text
    }

    /// Whether its connection is gone, or must prepare it under another name.
    pub fn is_over(&self) -> bool {
        self.name.closes.over.load(Ordering::Relaxed)
            || self.state() >= STALE
            || self.state() == READY && self.is_outdated()
    }

    /// Whether something has changed since it was parsed.
    fn is_outdated(&self) -> bool {
        self.parsed_in.load(Ordering::Relaxed) != self.generation.now()
    }

    pub(super) fn is_old(&self, now: Time) -> bool {
        now >= self.old_at
    }

    fn description(&self) -> Option<Arc<Description>> {
        self.description.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has it compare what it will be described as with this.
    fn expect(&self, description: Option<Arc<Description>>) {
        *self.description.lock().unwrap_or_else(PoisonError::into_inner) = description;
    }

    /// Whether it may be named for these values.
    pub fn takes(&self, parameters: &Parameters<'_>) -> bool {
        let knows = |it: Arc<Description>| parameters.may_be_bound(&it.types);
        !parameters.are_inferred() || self.description().is_some_and(knows)
    }

    /// It was described by the reply to a request that parsed it.
    fn was_described(&self, as_what: &Description) {
        // Where others find out that something has changed behind this Parse, it is parsed once more.
        let now = match self.description() {
            Some(old) if *old != *as_what => self.generation.advance(),
            _ => self.parsed_in.load(Ordering::Relaxed),
        };
        self.parsed_in.store(now, Ordering::Relaxed);
        self.expect(Some(Arc::new(as_what.clone())));
    }

    /// Whether a use has shown other columns than its description: it ran on a server of a pooler's
    /// that has planned it at another time.
    fn has_other_columns(&self, columns: u64) -> bool {
        self.description().is_some_and(|it| it.columns != columns)
    }

    /// Makes the next use prepare it anew.
    pub fn make_stale(&self) {
        self.set(STALE);
    }

    /// Whether it was prepared in this segment.
    fn is_of(&self, segment: Option<Segment>) -> bool {
        segment.is_some() && self.segment == segment
    }

    /// Whether a request may name it before its Parse was answered. Its types are not known until
    /// then, but nothing changes them behind a Parse of the same segment: it holds the tables' locks.
    fn may_be_named(&self, scope: Scope, parameters: &Parameters<'_>) -> bool {
        match scope {
            // A statement that a pipeline prepares may be sent much later, or never.
            Scope::Heals => self.segment.is_none() && !parameters.are_inferred(),
            Scope::Fixed => false,
            Scope::Segment { segment, .. } => self.is_of(Some(segment)),
        }
    }

    /// The server has lost it, unless it never had it.
    pub(super) fn lost(&self) {
        if self.state() != FAILED {
            self.set(STALE);
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.state() == READY && !self.is_outdated()
    }

    pub(super) fn is_parsing(&self) -> bool {
        self.state() == PARSING
    }

    pub(super) fn has_failed(&self) -> bool {
        self.state() == FAILED
    }

    /// Another statement takes its place under the same name.
    pub(super) fn replace(&self) {
        self.name.replaced.store(true, Ordering::Relaxed);
    }

    fn state(&self) -> u8 {
        self.state.load(Ordering::Relaxed)
    }

    fn set(&self, state: u8) {
        self.state.store(state, Ordering::Relaxed);
    }
}

impl<T> Use<T> {
    /// A use that names a statement that the server has, or will have by then.
    pub fn of(prepared: Arc<Prepared<T>>) -> Use<T> {
        Use { prepared, parses: false, describes: false }
    }

    /// The same on this connection. A pooler may use a server on which the statement was parsed at
    /// another time, and has other columns, so they are described with each use.
    pub(super) fn on(protocol: &Postgres, prepared: Arc<Prepared<T>>) -> Use<T> {
        Use { prepared, parses: false, describes: !protocol.is_direct() }
    }

    pub(super) fn that_parses(prepared: Arc<Prepared<T>>) -> Use<T> {
        Use { prepared, parses: true, describes: false }
    }

    /// The statement.
    pub fn prepared(&self) -> &Arc<Prepared<T>> {
        &self.prepared
    }

    /// Whether the request carries the Parse.
    pub fn parses(&self) -> bool {
        self.parses
    }

    /// Whether the request has a description of its own: the one that comes with the Parse may be
    /// lost with its caller's deadline, or to a cancel.
    pub fn describes(&self) -> bool {
        self.describes
    }

    /// Whether the reply to a request without an error, which begins with this message, shows nothing
    /// of the statement: it was known, and is bound. Then there is nothing to look for, and
    /// [`ended`](Use::ended) has no effect.
    #[inline]
    pub fn is_usual(&self, first: Option<&u8>) -> bool {
        first == Some(&backend::BIND_COMPLETE) && !self.parses && !self.describes
    }

    /// The request has ended. `seen` is what its reply showed; `failed` is `None` if there was no
    /// error. To be called in the order of the replies, since a request that prepares the statement
    /// affects those behind it.
    pub fn ended(&self, seen: &Seen, failed: Option<Fault>) {
        let prepared = &self.prepared;
        if seen.parsed {
            // Without its description, its results can't be read.
            prepared.set(if seen.described { READY } else { STALE });
            if seen.described {
                prepared.was_described(&seen.description);
            }
        } else if seen.columns.is_some_and(|it| prepared.has_other_columns(it)) {
            prepared.generation.advance();
            prepared.set(STALE);
        } else if self.parses {
            prepared.set(FAILED);
        } else if failed.is_some() && seen.closed {
            prepared.set(STALE);
        }
        match failed {
            Some(Fault::Changed) => {
                if !prepared.is_outdated() {
                    prepared.generation.advance();
                }
                prepared.set(STALE);
            }
            // It may have been parsed just now: what is wrong is older than that.
            Some(Fault::Miscounted) => {
                prepared.generation.advance();
            }
            Some(Fault::Lost) => {
                prepared.generation.has_lost();
                prepared.set(STALE);
            }
            // What fails while it runs may come from the text of a function.
            _ if self.parses || seen.parsed || seen.bound => {}
            Some(Fault::Meaningless) => {
                prepared.generation.advance();
                prepared.set(STALE);
            }
            Some(Fault::Suspect) => prepared.set(STALE),
            _ => {}
        }
    }
}

impl<T> Drop for Use<T> {
    /// A request that was never submitted has prepared nothing.
    fn drop(&mut self) {
        if self.parses && self.prepared.is_parsing() {
            self.prepared.set(FAILED);
        }
    }
}

impl Seen {
    /// Looks at the next part of a reply: whole messages, from its beginning.
    pub fn look(&mut self, part: &[u8]) {
        let mut messages = part;
        while !self.over
            && let Some((tag, len)) = head(messages)
        {
            match tag {
                backend::CLOSE_COMPLETE if !self.parsed => self.closed = true,
                // The answer to a guard.
                backend::NO_DATA if !self.parsed => {}
                backend::PARSE_COMPLETE => self.parsed = true,
                backend::PARAMETER_DESCRIPTION if self.parsed => {
                    let body = messages.get(Header::LEN..len).unwrap_or_default();
                    if let Ok(parameters) = ParameterDescription::decode(body) {
                        self.description.types = parameters.types.collect();
                    }
                }
                backend::ROW_DESCRIPTION | backend::NO_DATA if self.parsed => {
                    let body = messages.get(Header::LEN..len).unwrap_or_default();
                    self.description.columns = hash(body);
                    (self.described, self.over) = (true, true);
                }
                backend::BIND_COMPLETE if !self.bound => {
                    (self.bound, self.over) = (true, self.parsed);
                }
                backend::ROW_DESCRIPTION | backend::NO_DATA if self.bound => {
                    let body = messages.get(Header::LEN..len).unwrap_or_default();
                    (self.columns, self.over) = (Some(hash(body)), true);
                }
                _ => self.over = true,
            }
            messages = messages.get(len..).unwrap_or_default();
        }
    }
}

/// Of the columns without their formats, which a statement does not have and each use asks for anew.
/// FNV-1a: nobody gains by two descriptions that have the same.
fn hash(body: &[u8]) -> u64 {
    /// Behind the name: table, column, type, its length and modifier.
    const PARTS: usize = 4 + 2 + 4 + 2 + 4;
    const FORMAT: usize = 2;
    let mix = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let mut sum = 0xcbf2_9ce4_8422_2325;
    let mut rest = body.get(2..).unwrap_or_default();
    while let Some(end) = rest.iter().position(|byte| *byte == 0) {
        let len = (end + 1 + PARTS).min(rest.len());
        sum = rest[..len].iter().fold(sum, mix);
        rest = rest.get(len + FORMAT..).unwrap_or_default();
    }
    sum
}

/// The tag of the first message, and its whole length.
fn head(messages: &[u8]) -> Option<(u8, usize)> {
    let (tag, len) = (messages.first()?, messages.get(1..)?.first_chunk()?);
    Some((*tag, 1 + u32::from_be_bytes(*len) as usize))
}

impl<T> Way<T> {
    /// The use of the statement, if it is named.
    pub fn used(self) -> Option<Use<T>> {
        match self {
            Way::Named(used) => Some(used),
            Way::Unnamed => None,
        }
    }

    /// The name under which it must be parsed first; `None` if the server has it.
    pub fn parsed_as(&self) -> Option<&str> {
        match self {
            Way::Named(used) => used.parses.then(|| used.prepared.name()),
            Way::Unnamed => Some(""),
        }
    }

    /// Writes the messages that run the statement, without a Sync: those that prepare it, Bind,
    /// those that describe its columns, and Execute. `parse` and `bind` write their message with
    /// the name that they are given.
    ///
    /// # Errors
    /// A message can't be encoded.
    pub fn write<E: From<EncodeError>>(
        &self,
        out: &mut BytesMut,
        parse: impl FnOnce(&mut BytesMut, &str) -> Result<(), EncodeError>,
        bind: impl FnOnce(&mut BytesMut, &str) -> Result<(), E>,
    ) -> Result<(), E> {
        let (name, parses, describes) = match self {
            Way::Named(used) => (used.prepared.name(), used.parses, used.describes),
            Way::Unnamed => ("", true, true),
        };
        if parses {
            parse(out, name)?;
        }
        if parses && !describes {
            Describe { target: Target::Statement(name) }.encode(out)?;
        }
        bind(out, name)?;
        if describes {
            Describe { target: Target::Portal("") }.encode(out)?;
        }
        out.extend_from_slice(&execute::UNNAMED_ALL);
        Ok(())
    }

    /// The reply to those messages, in addition to `expect`, which is that to Bind and Execute.
    pub fn expect(&self, expect: Expect) -> Expect {
        match self {
            Way::Unnamed => expect.parse().describe_portal(),
            Way::Named(used) => {
                let expect = expect.of_statement(used.prepared.name.id);
                match (used.parses, used.describes) {
                    (true, _) => expect.parse().describe_statement(),
                    (_, true) => expect.describe_portal(),
                    _ => expect,
                }
            }
        }
    }
}

impl Closing {
    /// Writes the Close.
    ///
    /// # Errors
    /// A name that the user chose can't be sent.
    pub fn write(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        Close { target: Target::Statement(&self.name) }.encode(out)
    }

    /// The length of the name.
    pub fn len(&self) -> usize {
        self.name.len()
    }

    /// Whether there is no name to close.
    pub fn is_empty(&self) -> bool {
        self.name.is_empty()
    }
}

impl Closes {
    fn lock(&self) -> MutexGuard<'_, Vec<Closing>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, closing: Closing) {
        self.lock().push(closing);
        self.any.store(true, Ordering::Relaxed);
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        // It may be dropped while the connection is locked, so the Close is only noted here, and
        // leaves with the next request.
        let is_replaced = self.replaced.load(Ordering::Relaxed);
        let name = if is_replaced { String::new() } else { std::mem::take(&mut self.text) };
        self.closes.push(Closing { id: Some(self.id), name });
    }
}

/// What the body of an ErrorResponse says of the statement that its request named.
pub fn fault_of(body: &[u8]) -> Fault {
    let Ok(error) = ErrorResponse::decode(body) else { return Fault::Other };
    fault(error.fields.value(field::CODE), error.fields.value(field::ROUTINE))
}

/// The same, for an error with this code, from this routine of the server.
pub fn fault(code: Option<&[u8]>, routine: Option<&[u8]>) -> Fault {
    match () {
        () if code == Some(b"26000") => Fault::Lost,
        () if is_of_an_older_plan(code, routine) => Fault::Other,
        () if means_stale(code, routine) => Fault::Changed,
        () if is_miscounted(code, routine) => Fault::Miscounted,
        () if is_meaningless(code) => Fault::Meaningless,
        () if may_be_outdated(code, routine) => Fault::Suspect,
        () => Fault::Other,
    }
}

impl Fault {
    /// Whether the server can't use the statement as it is. It has not started.
    pub fn is_stale(self) -> bool {
        matches!(self, Fault::Lost | Fault::Changed)
    }
}

impl Generation {
    /// Differs from what it was, once something has changed since.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.0.changes.load(Ordering::Relaxed)
    }

    /// Something has changed: all connections prepare their texts anew. Returns the new one.
    pub fn advance(&self) -> u64 {
        self.0.changes.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A server does not have a statement that was prepared there. The others are not affected.
    fn has_lost(&self) {
        self.0.losses.fetch_add(1, Ordering::Relaxed);
    }

    /// Differs from what it was, once a server did not have a statement that was prepared there.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.0.losses.load(Ordering::Relaxed)
    }
}

/// Whether a text is worth preparing: it has a plan, and can run repeatedly in the same way.
pub fn is_preparable(traits: Traits) -> bool {
    !(traits.transaction_control()
        || traits.session_state()
        || traits.stand_alone()
        || traits.copy()
        || traits.several()
        || traits.savepoint())
}

/// The messages that prepare a statement anew: Close, since the name may still be taken; Parse with
/// the same parameter types, since calls that were encoded before must keep their meaning; and
/// Describe, since its columns may have changed. A pooler that has a statement of this text answers
/// the Parse by that, so there are spaces behind the text, which make it another one.
fn heal(
    name: &str,
    parse: &dyn Fn(&mut BytesMut, &str) -> Result<(), EncodeError>,
    unique: u64,
) -> Result<Bytes, EncodeError> {
    let mut out = BytesMut::new();
    Close { target: Target::Statement(name) }.encode(&mut out)?;
    let start = out.len();
    parse(&mut out, name)?;
    let parsed = out.split_off(start);
    let text = Header::LEN + name.len() + 1;
    let end = parsed.iter().skip(text).position(|byte| *byte == 0).map_or(text, |it| text + it);
    let spaces = &[b' '; SPACES_MAX][..1 + (unique % SPACES_MAX as u64) as usize];
    let (head, tail) = parsed.split_at(end.min(parsed.len()));
    let len = (parsed.len() - 1 + spaces.len()) as u32;
    out.extend_from_slice(&head[..1]);
    out.extend_from_slice(&len.to_be_bytes());
    [&head[Header::LEN..], spaces, tail].iter().for_each(|part| out.extend_from_slice(part));
    Describe { target: Target::Statement(name) }.encode(&mut out)?;
    Ok(out.freeze())
}

/// Clients that find out one after another that a text is stale make it up to so many others.
const SPACES_MAX: usize = 16;
