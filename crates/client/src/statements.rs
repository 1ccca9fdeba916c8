//! The prepared statements of one connection: which texts it knows by which name, and which of them
//! are forgotten when there are too many.
//!
//! A statement is prepared together with a use of it: Parse and Describe go in front. From then on
//! everyone behind may name it, before the server has answered. If the Parse fails, the uses behind
//! it fail as unknown, and each prepares it anew by itself: so nobody is failed by another's Parse.
//! Where a request can't be sent again (in transactions and pipelines) it names only what the server
//! has confirmed, or what its own segment prepared, which is skipped together with it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::{Bytes, BytesMut};
use onetrip_engine::{Request, Time, Token};
use onetrip_postgres::message::tag::backend;
use onetrip_postgres::message::{
    Close, Describe, EncodeError, Format, SYNC, Target, bind, execute, parse,
};
use onetrip_postgres::{Expect, Names, Postgres, StatementId};

use crate::Error;
use crate::advice::NAME_PREFIX;
use crate::core::Core;
use crate::first_use::oid_of;
use crate::oids::result_format;
use crate::params::unencodable;
use crate::rows::{Asked, Blocks, Columns, columns_of, learned_columns};
use crate::shapes::Shape;
use crate::statement::Statement;
use crate::types::TypeCache;

/// The statements that one connection knows.
#[derive(Debug)]
pub(crate) struct Statements {
    known: HashMap<u64, Known>,
    /// Statements prepared by counting that are kept.
    max: usize,
    uses: u64,
    names: u64,
    /// What tells its names from those of all other connections. Behind a pooler several of them may
    /// come to share a server's, where a name that meant two texts would run the wrong one.
    unique: u64,
    closes: Arc<Closes>,
    types: Arc<TypeCache>,
}

#[derive(Debug)]
struct Known {
    prepared: Hold,
    used: u64,
}

#[derive(Debug)]
enum Hold {
    /// Prepared by counting: kept until others are used more recently.
    Counted(Arc<Prepared>),
    /// Prepared on request: kept by its [`Statement`].
    Explicit(Weak<Prepared>),
}

/// A statement on one connection. When nobody uses it any more the server is told to forget it,
/// together with what is sent next.
#[derive(Debug)]
pub(crate) struct Prepared {
    name: Name,
    pub(crate) shape: Arc<Shape>,
    /// The segment of a pipeline in which it was prepared.
    segment: Option<Segment>,
    state: AtomicU8,
    /// With the state of the types with which they were learned.
    columns: Mutex<(Columns, u64)>,
    types: Arc<TypeCache>,
}

/// The number of a pipeline, and of a segment in it.
pub(crate) type Segment = (u64, u64);

/// Parse is on its way.
const PARSING: u8 = 0;
/// The server has it.
const READY: u8 = 1;
/// The server has lost it, or its plan is stale, where it could not be prepared anew.
const STALE: u8 = 2;

/// The name of a statement on the server, until it is closed.
#[derive(Debug)]
struct Name {
    text: String,
    /// By which the protocol prepares it anew.
    id: StatementId,
    closes: Arc<Closes>,
}

/// Statements that nobody uses any more and that the server still has.
#[derive(Debug, Default)]
struct Closes {
    list: Mutex<Vec<(StatementId, String)>>,
    any: AtomicBool,
    /// The connection is gone.
    over: AtomicBool,
}

/// What a request is to the statement that it names.
#[derive(Debug)]
pub(crate) struct Use {
    pub(crate) prepared: Arc<Prepared>,
    /// It carries the Parse.
    pub(crate) parses: bool,
    /// It carries a description of its own: the one that comes with the Parse may be lost with its
    /// caller's patience, or to a cancel.
    describes: bool,
}

/// Where a statement is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// It can be sent again by itself, with a Parse in front.
    Heals,
    /// It can't.
    Fixed,
    /// It is part of a segment. `timed`: each statement of it has a deadline of its own.
    Segment { segment: Segment, timed: bool },
}

impl Scope {
    fn segment(self) -> Option<Segment> {
        match self {
            Scope::Segment { segment, .. } => Some(segment),
            Scope::Heals | Scope::Fixed => None,
        }
    }

    /// Whether one who names a statement while it is being parsed may never see its description.
    fn may_lose_description(self) -> bool {
        !matches!(self, Scope::Segment { timed: false, .. })
    }
}

/// A statement that is to be bound by name: what does not depend on the connection.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) shape: Arc<Shape>,
    /// The statement, if it was prepared on request.
    pub(crate) explicit: Option<Statement>,
}

/// How a connection can use a statement.
pub(crate) enum Way {
    Named(Use),
    /// Its Parse is on its way in a place that this one must not depend on; or names are of no use
    /// beyond their segment.
    Unnamed,
}

impl Statements {
    pub(crate) fn new(max: usize, types: &Arc<TypeCache>) -> Statements {
        Statements {
            known: HashMap::new(),
            max,
            uses: 0,
            names: 0,
            // The login has had random bytes for its nonce, so there are some.
            unique: getrandom::u64().unwrap_or_default(),
            closes: Arc::new(Closes::default()),
            types: types.clone(),
        }
    }

    /// How this connection uses a statement here; the first use of it prepares it.
    pub(crate) fn way(
        &mut self,
        protocol: &mut Postgres,
        bound: &Bound,
        scope: Scope,
    ) -> Result<Way, Error> {
        self.uses += 1;
        let names = protocol.names();
        if names == Names::Lost {
            return Ok(Way::Unnamed);
        }
        if let Some(known) = self.known.get_mut(&bound.shape.id)
            && let Some(prepared) = known.prepared.get()
        {
            if names == Names::Unknown && !prepared.is_of(scope.segment()) {
                return Ok(Way::Unnamed);
            }
            known.used = self.uses;
            match prepared.state.load(Ordering::Relaxed) {
                READY => return Ok(Way::Named(Use::of(prepared))),
                PARSING if prepared.may_be_named(scope) => {
                    let describes = scope.may_lose_description();
                    return Ok(Way::Named(Use { prepared, parses: false, describes }));
                }
                PARSING => return Ok(Way::Unnamed),
                _ => {}
            }
        }
        let segment = scope.segment();
        let prepared = self.name(protocol, &bound.shape, segment)?;
        self.keep(prepared.clone(), bound.explicit.as_ref());
        Ok(Way::Named(Use::that_parses(prepared)))
    }

    /// A statement that the server has, for one who can't have others' Parse fail under it; or a new
    /// one, which is kept for others only if `shared`.
    fn own_way(
        &mut self,
        protocol: &mut Postgres,
        bound: &Bound,
        segment: Option<Segment>,
        shared: bool,
    ) -> Result<Use, Error> {
        self.uses += 1;
        if shared
            && protocol.names() == Names::Kept
            && let Some(known) = self.known.get_mut(&bound.shape.id)
            && let Some(prepared) = known.prepared.get()
            && prepared.state.load(Ordering::Relaxed) == READY
        {
            known.used = self.uses;
            return Ok(Use::of(prepared));
        }
        let prepared = self.name(protocol, &bound.shape, segment)?;
        if shared {
            self.keep(prepared.clone(), bound.explicit.as_ref());
        }
        Ok(Use::that_parses(prepared))
    }

    /// A new statement that is about to be parsed.
    fn name(
        &mut self,
        protocol: &mut Postgres,
        shape: &Arc<Shape>,
        segment: Option<Segment>,
    ) -> Result<Arc<Prepared>, Error> {
        self.names += 1;
        let name = format!("{NAME_PREFIX}{:x}_{}", self.unique, self.names);
        let id = protocol.register(heal(&name, shape).map_err(unencodable)?);
        let name = Name { text: name, id, closes: self.closes.clone() };
        Ok(Prepared::new(name, shape.clone(), segment, self.types.clone()))
    }

    fn keep(&mut self, prepared: Arc<Prepared>, explicit: Option<&Statement>) {
        let id = prepared.shape.id;
        let prepared = match explicit {
            Some(statement) => {
                let weak = Arc::downgrade(&prepared);
                statement.0.hold(prepared);
                Hold::Explicit(weak)
            }
            None => Hold::Counted(prepared),
        };
        self.known.insert(id, Known { prepared, used: self.uses });
        if self.known.len() > self.max {
            self.forget_some();
        }
    }

    /// Forgets what nobody holds any more, and the least recently used of those that were counted.
    fn forget_some(&mut self) {
        self.known.retain(|_, known| match &known.prepared {
            Hold::Counted(_) => true,
            Hold::Explicit(prepared) => prepared.strong_count() > 0,
        });
        let counted = || self.known.iter().filter(|(_, known)| known.prepared.is_counted());
        if counted().count() > self.max {
            let oldest = counted().min_by_key(|(_, known)| known.used).map(|(id, _)| *id);
            oldest.and_then(|id| self.known.remove(&id));
        }
    }

    /// The server has lost all of them: DISCARD ALL, DEALLOCATE ALL.
    pub(crate) fn lost(&mut self) {
        for known in self.known.values() {
            if let Some(prepared) = known.prepared.get() {
                prepared.set(STALE);
            }
        }
    }
}

impl Drop for Statements {
    fn drop(&mut self) {
        self.closes.over.store(true, Ordering::Relaxed);
    }
}

impl Hold {
    fn get(&self) -> Option<Arc<Prepared>> {
        match self {
            Hold::Counted(prepared) => Some(prepared.clone()),
            Hold::Explicit(prepared) => prepared.upgrade(),
        }
    }

    fn is_counted(&self) -> bool {
        matches!(self, Hold::Counted(_))
    }
}

impl Prepared {
    fn new(
        name: Name,
        shape: Arc<Shape>,
        segment: Option<Segment>,
        types: Arc<TypeCache>,
    ) -> Arc<Prepared> {
        let (state, columns) = (AtomicU8::new(PARSING), Mutex::default());
        Arc::new(Prepared { name, shape, segment, state, columns, types })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name.text
    }

    /// Whether its connection is gone, or has prepared it under another name.
    pub(crate) fn is_over(&self) -> bool {
        self.name.closes.over.load(Ordering::Relaxed) || self.state.load(Ordering::Relaxed) == STALE
    }

    /// Whether it was prepared in this segment.
    fn is_of(&self, segment: Option<Segment>) -> bool {
        segment.is_some() && self.segment == segment
    }

    /// Whether a request may name it though its Parse was not answered yet.
    fn may_be_named(&self, scope: Scope) -> bool {
        match scope {
            // What a pipeline prepares may be sent much later, or never.
            Scope::Heals => self.segment.is_none(),
            Scope::Fixed => false,
            Scope::Segment { segment, .. } => self.is_of(Some(segment)),
        }
    }

    fn set(&self, state: u8) {
        self.state.store(state, Ordering::Relaxed);
    }

    /// Takes note of what it returns, as the description in a reply says. Whether there is one.
    fn update(&self, reply: &Blocks) -> bool {
        let asked = self.shape.formats();
        for (tag, body) in reply.messages() {
            match tag {
                backend::ROW_DESCRIPTION => {
                    // One that can't be read shows when a row is read.
                    let columns = columns_of(body, Asked::These(&asked)).unwrap_or_default();
                    if self.note_formats(&asked, &columns) {
                        // This one's columns are as they were asked for; the next use asks anew.
                        self.set(STALE);
                    }
                    self.set_columns(columns);
                    return true;
                }
                backend::NO_DATA => {
                    self.set_columns(Columns::default());
                    return true;
                }
                _ => {}
            }
        }
        false
    }

    /// Sees whether the columns want other formats than those that were asked for. Text is left where
    /// it was asked for: the type may have no binary form though its number does not tell.
    fn note_formats(&self, asked: &[Format], columns: &Columns) -> bool {
        let wanted = || columns.iter().map(|column| result_format(column.type_()));
        let fits = asked.is_empty() || asked.len() == columns.len();
        let lacks_text = wanted().enumerate().any(|(number, format)| {
            format == Format::Text && asked.get(number).is_none_or(|it| *it == Format::Binary)
        });
        if fits && !lacks_text {
            return false;
        }
        let any_text = wanted().any(|format| format == Format::Text);
        self.shape.set_formats(if any_text { wanted().collect() } else { Vec::new() });
        true
    }

    fn set_columns(&self, columns: Columns) {
        let kept = &mut *self.columns.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = (columns, TypeCache::NEVER);
    }

    /// The columns as the server described them last, with their types as they are known by now.
    pub(crate) fn columns(&self) -> Columns {
        let (columns, state) = &mut *self.columns.lock().unwrap_or_else(PoisonError::into_inner);
        let state_now = self.types.state();
        if *state != state_now {
            *state = state_now;
            if let Some(learned) = learned_columns(columns, &self.types) {
                *columns = learned;
            }
        }
        columns.clone()
    }
}

impl Use {
    /// One that names what the server has, or will have before it.
    pub(crate) fn of(prepared: Arc<Prepared>) -> Use {
        Use { prepared, parses: false, describes: false }
    }

    fn that_parses(prepared: Arc<Prepared>) -> Use {
        Use { prepared, parses: true, describes: false }
    }

    /// It has ended with this reply, and perhaps this error. Says which columns the reply has, unless it
    /// says so itself. Called in the order of the replies, since one that prepares the statement changes
    /// those behind it.
    pub(crate) fn ended(&self, reply: &Blocks, error: Option<&Error>) -> Option<Columns> {
        let prepared = &self.prepared;
        if reply.is_parsed() {
            prepared.set(READY);
            // Without its description nothing can be read of what it returns. Between the two there may
            // be a cancel, or a pooler that has answered Parse itself.
            if !prepared.update(reply) {
                prepared.set(STALE);
            }
        } else if self.parses || reply.is_described() {
            prepared.set(STALE);
        }
        if error.is_some_and(shows_stale) {
            prepared.set(STALE);
        }
        (reply.is_described() || !self.describes).then(|| prepared.columns())
    }
}

impl Drop for Use {
    /// A request that was never submitted has prepared nothing.
    fn drop(&mut self) {
        if self.parses && self.prepared.state.load(Ordering::Relaxed) == PARSING {
            self.prepared.set(STALE);
        }
    }
}

/// Whether the error says that the server can't use the statement as it is (26000: it does not know
/// it; 0A000 of RevalidateCachedQuery: its plan returns other columns now).
fn shows_stale(error: &Error) -> bool {
    let routine = || error.server().and_then(|server| server.routine.as_deref());
    match error.sqlstate() {
        Some("26000") => true,
        Some("0A000") => routine() == Some("RevalidateCachedQuery"),
        _ => false,
    }
}

/// Writes a Parse.
pub(crate) fn write_parse(
    out: &mut BytesMut,
    name: &str,
    sql: &str,
    types: &[postgres_types::Type],
) -> Result<(), EncodeError> {
    const FEW: usize = 16;
    let mut few = [0; FEW];
    match few.get_mut(..types.len()) {
        Some(few) => {
            few.iter_mut().zip(types).for_each(|(oid, type_)| *oid = oid_of(type_));
            parse::write(out, name, sql, few)
        }
        None => {
            let many: Vec<u32> = types.iter().map(oid_of).collect();
            parse::write(out, name, sql, &many)
        }
    }
}

pub(crate) fn describe_statement(out: &mut BytesMut, name: &str) -> Result<(), EncodeError> {
    Describe { target: Target::Statement(name) }.encode(out)
}

/// What prepares it anew: Close, since the name may still be taken; Parse with the same types of
/// parameters, since calls that were encoded before must keep their meaning; and Describe.
fn heal(name: &str, shape: &Shape) -> Result<Bytes, EncodeError> {
    let mut out = BytesMut::new();
    Close { target: Target::Statement(name) }.encode(&mut out)?;
    write_parse(&mut out, name, &shape.sql, &shape.types)?;
    describe_statement(&mut out, name)?;
    Ok(out.freeze())
}

impl Drop for Name {
    fn drop(&mut self) {
        // It may be dropped where the connection is locked: the Close leaves with what comes next.
        let mut list = self.closes.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.push((self.id, std::mem::take(&mut self.text)));
        self.closes.any.store(true, Ordering::Relaxed);
    }
}

impl Core {
    /// Puts the use of a prepared statement together: Bind and Execute, and what prepares it in front
    /// where this connection doesn't have it. Says what reply to expect, and of which statement.
    pub(crate) fn assemble(
        &mut self,
        expect: Expect,
        bound: &Bound,
        values: &[u8],
        scope: Scope,
        out: &mut BytesMut,
    ) -> Result<(Expect, Option<Use>), Error> {
        let way = self.statements.way(self.engine.protocol_mut(), bound, scope)?;
        let shape = &bound.shape;
        let (expect, used) = match way {
            Way::Named(used) => (expect.of_statement(used.prepared.name.id), Some(used)),
            Way::Unnamed => (expect.parse().describe_portal(), None),
        };
        let name = used.as_ref().map_or("", |used| used.prepared.name());
        let parses = used.as_ref().is_some_and(|used| used.parses);
        let describes = used.as_ref().is_some_and(|used| used.describes);
        if used.is_some() {
            self.used_prepared(parses);
        }
        if parses {
            write_parse(out, name, &shape.sql, &shape.types).map_err(unencodable)?;
            describe_statement(out, name).map_err(unencodable)?;
        } else if used.is_none() {
            write_parse(out, "", &shape.sql, &shape.types).map_err(unencodable)?;
        }
        bind::write_named(out, "", name, values).map_err(unencodable)?;
        if used.is_none() || describes {
            Describe { target: Target::Portal("") }.encode(out).map_err(unencodable)?;
        }
        out.extend_from_slice(&execute::UNNAMED_ALL);
        let expect = match (parses, describes) {
            (true, _) => expect.parse().describe_statement(),
            (_, true) => expect.describe_portal(),
            _ => expect,
        };
        Ok((expect, used))
    }

    /// Prepares a statement by itself, for many uses that follow: writes Parse and Describe where this
    /// connection doesn't have it. They have to be submitted under the same lock.
    pub(crate) fn prepare_ahead(
        &mut self,
        bound: &Bound,
        scope: Scope,
        shared: bool,
        out: &mut BytesMut,
    ) -> Result<Use, Error> {
        let segment = scope.segment();
        let used = self.statements.own_way(self.engine.protocol_mut(), bound, segment, shared)?;
        if used.parses {
            let (name, shape) = (used.prepared.name(), &bound.shape);
            write_parse(out, name, &shape.sql, &shape.types).map_err(unencodable)?;
            describe_statement(out, name).map_err(unencodable)?;
        }
        Ok(used)
    }

    /// Sees whether the session lost its statements. What was prepared again since, and is in the same
    /// read, is prepared once more, which does no harm.
    pub(crate) fn note_lost_statements(&mut self) {
        if self.engine.protocol_mut().take_statements_lost() {
            self.statements.lost();
        }
    }

    /// Whether statements are to be closed.
    pub(crate) fn any_to_close(&self) -> bool {
        self.statements.closes.any.load(Ordering::Relaxed)
    }

    /// Submits the Closes of statements that nobody uses any more.
    pub(crate) fn close_dropped(&mut self, now: Time) {
        let closes = self.statements.closes.clone();
        let mut list = closes.list.lock().unwrap_or_else(PoisonError::into_inner);
        // Those for which there is no room now leave later.
        for _ in 0..CLOSES_AT_ONCE {
            let Some((_, name)) = list.last() else { break };
            if !self.engine.has_room(1, name.len() + 64) {
                break;
            }
            let Some((id, name)) = list.pop() else { break };
            self.engine.protocol_mut().unregister(id);
            let mut bytes = BytesMut::new();
            let target = Target::Statement(&name);
            // A name of ours holds no NUL.
            if (Close { target }).encode(&mut bytes).is_ok() {
                bytes.extend_from_slice(&SYNC);
                let expect = Expect::sync().close();
                let request = Request { resend: true, ..Request::isolated(Token::DISCARD, expect) };
                self.submit_along(now, request, &bytes);
            }
        }
        closes.any.store(!list.is_empty(), Ordering::Relaxed);
    }
}

/// So many statements are closed together with one request.
const CLOSES_AT_ONCE: usize = 8;
