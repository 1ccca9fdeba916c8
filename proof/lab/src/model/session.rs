//! The state that outlives a statement in its session: which statement left it, and how it goes
//! away.

use std::collections::VecDeque;

use bytes::BytesMut;
use onetrip_postgres::message::data_row;

use super::{Log, Server, Statement};

/// A kind of session state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A setting: SET, `set_config`.
    Setting,
    /// A setting that ends with its transaction: SET LOCAL.
    Local,
    /// SET ROLE, SET SESSION AUTHORIZATION.
    Role,
    /// A temporary table.
    Temp,
    /// An advisory lock.
    Lock,
    /// A statement of PREPARE.
    Name,
    /// A cursor that outlives its transaction.
    Cursor,
    /// LISTEN.
    Channel,
}

/// What a statement does to its session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Act {
    /// Nothing.
    #[default]
    Nothing,
    /// It leaves state of this kind.
    Leave(Kind),
    /// It removes all state of these kinds.
    Forget(&'static [Kind]),
    /// It releases advisory locks, and fails if a statement of PREPARE is left.
    Check,
    /// It asks for the server process, and whether this prepared statement exists.
    Probe(String),
}

/// A failure of a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Its statement with this number fails, as if a timeout had passed. If it has fewer, none
    /// fails.
    Statement(u32),
    /// Its commit fails.
    Commit,
}

/// The state that is left in a session, and by which statements.
#[derive(Debug)]
pub(super) struct Session {
    /// The process id as the client is told it.
    pub(super) process_id: i32,
    /// Whether it acts as behind a pooler that renames prepared statements.
    renames: bool,
    /// Whether it acts as behind a pooler that switches servers.
    changes: bool,
    marks: Vec<Mark>,
    /// State that the open transaction has removed.
    taken: Vec<Mark>,
    /// The failures of the next resets, one for each.
    sabotage: VecDeque<Sabotage>,
    /// While a reset is under way: how many of its statements run before one fails.
    resetting: Option<Option<u32>>,
    /// Whether the COMMIT of that reset was run.
    has_committed: bool,
    /// Whether the last reset failed.
    unreset: bool,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    kind: Kind,
    /// The statement that left it.
    op: u64,
    /// Whether the transaction of that statement is still open.
    pending: bool,
    /// The path that it has set.
    path: Option<usize>,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 8] = [
        Kind::Setting,
        Kind::Local,
        Kind::Role,
        Kind::Temp,
        Kind::Lock,
        Kind::Name,
        Kind::Cursor,
        Kind::Channel,
    ];

    /// Its value of `leaves=`.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Setting => "setting",
            Kind::Local => "local",
            Kind::Role => "role",
            Kind::Temp => "temp",
            Kind::Lock => "lock",
            Kind::Name => "name",
            Kind::Cursor => "cursor",
            Kind::Channel => "channel",
        }
    }

    pub(super) fn of(word: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// Whether a ROLLBACK removes state of this kind that its transaction added.
    fn comes_with_commit(self) -> bool {
        !matches!(self, Kind::Lock | Kind::Name)
    }

    /// Whether a ROLLBACK restores state of this kind that its transaction removed.
    fn goes_with_commit(self) -> bool {
        self.comes_with_commit() && self != Kind::Cursor
    }
}

impl Session {
    pub(super) fn new(process_id: i32) -> Session {
        Session {
            process_id,
            renames: false,
            changes: false,
            marks: Vec::new(),
            taken: Vec::new(),
            sabotage: VecDeque::new(),
            resetting: None,
            has_committed: false,
            unreset: false,
        }
    }

    /// The open transaction commits: its changes of the state become final.
    pub(super) fn commit(&mut self) {
        self.taken.clear();
        self.marks.retain(|mark| mark.kind != Kind::Local);
        self.marks.iter_mut().for_each(|mark| mark.pending = false);
    }

    /// The open transaction is rolled back: its changes are undone, except in state that is not
    /// transactional.
    pub(super) fn roll_back(&mut self) {
        self.marks.retain(|mark| !(mark.pending && mark.kind.comes_with_commit()));
        self.marks.append(&mut self.taken);
        self.commit();
    }

    /// A Parse or a Bind of this statement arrives.
    pub(super) fn expect(&mut self, statement: &Statement, log: &Log) {
        if statement.resets && self.resetting.is_none() {
            log.reset_begins();
            let at = match self.sabotage.pop_front() {
                Some(Sabotage::Statement(at)) => at,
                Some(Sabotage::Commit) => u32::MAX,
                None => return self.resetting = Some(None),
            };
            self.resetting = Some(Some(at));
        }
    }

    /// A Bind of a statement of a reset arrives that is not there any more.
    pub(super) fn miss_reset(&mut self, log: &Log) {
        if self.resetting.is_none() {
            log.reset_begins();
            self.resetting = Some(None);
        }
    }

    /// Whether this statement of a reset must fail.
    pub(super) fn trips(&mut self, statement: &Statement) -> bool {
        match &mut self.resetting {
            Some(Some(left)) if statement.resets && *left != u32::MAX => {
                let hit = *left == 0;
                *left = left.saturating_sub(1);
                hit
            }
            _ => false,
        }
    }

    /// Whether the commit of this reset's statement must fail.
    pub(super) fn fails_commit(&self, statement: &Statement) -> bool {
        statement.resets && self.resetting == Some(Some(u32::MAX))
    }

    /// The COMMIT of a reset was run.
    pub(super) fn commit_reset(&mut self) {
        self.has_committed = self.resetting.is_some();
    }

    /// The guard behind that was parsed: what comes next in the segment is the next user's.
    pub(super) fn guard_reset(&mut self, log: &Log) {
        if std::mem::take(&mut self.has_committed) {
            self.end_reset(false, log);
        }
    }

    /// A reset ends, if there is one: with its guard, with an error, or with a Sync.
    pub(super) fn end_reset(&mut self, failed: bool, log: &Log) {
        if self.resetting.take().is_some() {
            self.unreset = failed && !std::mem::take(&mut self.has_committed);
            log.reset_ends(!failed);
        }
    }

    /// A Sync came.
    pub(super) fn sync(&mut self, failed: bool, log: &Log) {
        self.end_reset(failed, log);
        self.process_id ^= i32::from(self.changes);
    }

    fn leave(&mut self, kind: Kind, op: u64, path: Option<usize>) {
        self.marks.push(Mark { kind, op, pending: true, path });
    }

    /// The schema whose tables a text means.
    pub(super) fn path(&self) -> usize {
        self.marks.iter().rev().find_map(|mark| mark.path).unwrap_or(0)
    }

    fn forget(&mut self, kinds: &[Kind]) {
        let (gone, left): (Vec<Mark>, Vec<Mark>) =
            self.marks.drain(..).partition(|mark| kinds.contains(&mark.kind));
        self.marks = left;
        let comes_back = |mark: &Mark| !mark.pending && mark.kind.goes_with_commit();
        self.taken.extend(gone.into_iter().filter(comes_back));
    }
}

impl Server {
    // --- poolers ---

    /// From now on it acts as behind a pooler that renames prepared statements.
    pub fn rename_statements(&mut self) {
        self.transaction.session.renames = true;
    }

    /// From now on it acts as behind a pooler that switches servers at each Sync.
    pub fn change_processes(&mut self) {
        self.transaction.session.changes = true;
    }

    /// Makes the next resets fail in these ways, one after the other.
    pub fn sabotage(&mut self, resets: &[Sabotage]) {
        self.transaction.session.sabotage.extend(resets);
    }

    // --- statements ---

    /// A statement begins to run: records what it sees, and changes the session.
    pub(super) fn act(&mut self, statement: &Statement) {
        let session = &mut self.transaction.session;
        if let Some(op) = statement.op {
            let left_by = session.marks.iter().map(|mark| mark.op).collect();
            self.log.saw(op, left_by, session.unreset);
        }
        match (&statement.act, statement.op) {
            (Act::Leave(kind), Some(op)) => session.leave(*kind, op, statement.path),
            (Act::Check, _) => session.forget(&[Kind::Lock]),
            (Act::Forget(kinds), _) => {
                session.forget(kinds);
                if kinds.contains(&Kind::Name) {
                    self.lose_statements();
                }
            }
            _ => {}
        }
    }

    /// Whether the statement is the check of a reset, and state is left.
    pub(super) fn finds_fault(&self, statement: &Statement) -> bool {
        let mut marks = self.transaction.session.marks.iter();
        statement.act == Act::Check && marks.any(|mark| mark.kind == Kind::Name)
    }

    /// Writes the row of a statement that asks about the session. Returns false for other
    /// statements.
    pub(super) fn put_answer(&mut self, statement: &Statement) -> bool {
        let session = &self.transaction.session;
        let process = session.process_id.to_string();
        let is_known = |name: &str| !session.renames && self.statements.contains_key(name);
        let values = match &statement.act {
            Act::Check => vec![String::new(), process, "1".to_owned()],
            Act::Probe(name) => {
                vec![process, if is_known(name) { "t" } else { "f" }.to_owned()]
            }
            _ => return false,
        };
        self.put(|out: &mut BytesMut| {
            data_row::write(out, values.iter().map(|value| Some(value.as_bytes())))
                .expect("a short row");
        });
        true
    }
}
