//! Who owns the session, and what must happen before another caller uses it.
//!
//! The rules:
//!
//! 1. A session that one caller had to itself is reset before any other caller uses it, unless
//!    everything that ran there is on the short list of what can leave nothing behind
//!    ([`Traits::leaves_nothing`](crate::sql::Traits::leaves_nothing)). A request counts as leaving
//!    something behind unless [`Expect::leaves_nothing`] says otherwise.
//! 2. Nothing that is sent behind a reset runs unless the reset succeeded. The reset is one
//!    segment: a transaction, and behind its COMMIT the Parse of a statement under a random name
//!    (behind it, because a parsed statement stays even if the commit fails). Until the reset is
//!    answered, each segment behind it describes that statement first. If the reset failed, the
//!    statement does not exist, and the server skips the segment. Requests that can't carry such a
//!    guard (the simple protocol, COPY, a run of isolated rows) wait for the answer. Once its
//!    statements are prepared, a reset needs no segment of its own: it stands in front of the next
//!    user's first request, in the same segment.
//! 3. A guard works only if the name means the same to both sides. So it is used on *direct*
//!    connections only; on others every request waits for the answer. A *probe* tells which kind it
//!    is, once, in the same flight as the requests behind it.
//! 4. A connection that sends segments ahead of the answers to others is probed as well. Behind a
//!    pooler that is not known to keep such segments together, one is sent at a time: a pooler that
//!    takes a server's first answer for its last either gives the server away, or takes the replies
//!    of a new server for those of the old.
//! 5. A reset that fails is tried again, [`TRIES_MAX`] times in all. After that the session must
//!    not be used.
//! 6. No caller may change a session that all share. Once a tag or the transaction status shows
//!    that one did, the session must not be used any further: requests behind it on the wire may
//!    have run inside another caller's transaction, or under its settings.

use bytes::{Bytes, BytesMut};

use super::{Expect, Names};
use crate::client::names::NAME_PREFIX;
use crate::message::{
    Close, DataRow, Describe, EncodeError, Formats, SYNC, ServerError, Target, TransactionStatus,
    bind, execute, parse,
};

/// The owner of the session, the peer, and the reset that is owed or in flight.
#[derive(Debug)]
pub(super) struct Ownership {
    holder: Holder,
    peer: Peer,
    reset: Reset,
    /// Whether something ran since the last reset that may have left something behind.
    touched: bool,
    /// How further resets deal with the statements of PREPARE.
    left_names: LeftNames,
    /// Whether a tag showed such a statement since the last reset.
    has_names: bool,
    /// Whether the statements of the usual reset are prepared.
    knows_steps: bool,
    /// Whether a cancel has hit the reset in flight.
    was_cancelled: bool,
    /// The usual reset of prepared statements, kept once one was sent.
    usual: Option<(Bytes, Expect)>,
    /// Whether a probe shall be sent.
    probe_wanted: bool,
    /// Whether a probe is in flight.
    probing: bool,
    /// How often a probe failed.
    probes_failed: u8,
    /// Why the session must not be used any further.
    unusable: Option<&'static str>,
    /// The server's process number, from the login.
    process_id: i32,
    /// The server process that answered the last probe or reset.
    process_seen: Option<i32>,
    /// Whether the session has, or had, something temporary.
    temporary: bool,
    /// A random number that makes this connection's statement names unique.
    unique: u64,
}

/// Who may use the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    /// The host, which looks after the session's state itself.
    Unwatched,
    /// All callers.
    Shared,
    /// One caller, for a while.
    Lent,
}

/// What is on the other end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    /// Nothing in the login allows to find out.
    Unasked,
    Unknown,
    /// The server itself.
    Direct,
    /// A pooler that gives prepared statements names of its own on each of its servers.
    Renames,
    /// Anything else.
    Other,
    /// A pooler that changes servers under the session, so the session's state is not ours.
    Changes,
}

/// What is known of the reset that goes in front of the next user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reset {
    No,
    /// It must be sent. `failed`: how often it failed so far.
    Owed {
        failed: u8,
    },
    /// It is in flight.
    Sent {
        failed: u8,
        guarded: bool,
    },
    /// It is in flight, in front of the request that takes it along.
    Along,
}

/// What a reset does about the statements of PREPARE, which must not stay. Where it fails, the next
/// one takes the next way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeftNames {
    /// It looks for them, and fails if there are any. That costs half as much as to deallocate them,
    /// and only a function that a statement calls can prepare one without a tag that tells.
    Sought,
    /// It deallocates them, and keeps the connection's own.
    Deallocated,
    /// It deallocates all, which needs no PL/pgSQL.
    AllDeallocated,
}

/// Which request of the protocol's own this is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Own {
    /// None: it is a caller's.
    #[default]
    No,
    Probe,
    Reset,
    /// The question for the position of what was written.
    Position,
}

/// How often a reset, or a probe, is tried. The first reset may be stopped by the user's own
/// `statement_timeout`, or fail because PL/pgSQL is missing.
const TRIES_MAX: u8 = 3;

/// Why the connection ends when the reset fails too often.
pub const NOT_RESET: &str = "the session could not be reset after its previous user";

/// Why it ends when a caller changed a session that all share.
const BEGAN: &str = "a statement on a shared connection began a transaction (such statements belong in \
     a session)";
const CHANGED: &str = "a statement on a shared connection changed the state of its session (such \
     statements belong in a session)";

/// Why it ends when its texts are in another encoding.
const FOREIGN: &str = "a statement set a client_encoding other than UTF8, in which alone texts are \
     sent and read (leave it as it is, and convert in the statement: convert_to, convert_from)";

impl Ownership {
    pub(super) fn new() -> Ownership {
        Ownership {
            holder: Holder::Unwatched,
            peer: Peer::Unasked,
            reset: Reset::No,
            touched: false,
            left_names: LeftNames::Sought,
            has_names: false,
            knows_steps: false,
            was_cancelled: false,
            usual: None,
            probe_wanted: false,
            probing: false,
            probes_failed: 0,
            unusable: None,
            process_id: 0,
            process_seen: None,
            temporary: false,
            unique: 0,
        }
    }

    /// Sets the process number from the login, and what makes names unique.
    pub(super) fn identify(&mut self, process_id: i32, unique: u64) {
        (self.process_id, self.unique) = (process_id, unique);
        // Without a process number there is nothing to compare with.
        self.peer = if process_id == 0 { Peer::Unasked } else { Peer::Unknown };
    }

    /// The host will send requests ahead, so a probe goes with the first flight.
    pub(super) fn send_ahead(&mut self) {
        self.probe_wanted = self.peer == Peer::Unknown;
    }

    // --- ownership ---

    pub(super) fn share(&mut self) {
        self.holder = Holder::Shared;
        // On a shared session nothing depends on the probe until a statement is to be prepared.
        self.probe_wanted = false;
    }

    pub(super) fn lend(&mut self) {
        if self.holder == Holder::Shared {
            // State left by callers that shared the session is not the new owner's.
            self.touched = false;
        }
        self.holder = Holder::Lent;
        self.probe_wanted = self.peer == Peer::Unknown;
    }

    /// Its owner has gone, and left it in this status. `changed`: a tag showed a change. Returns
    /// whether a reset is owed.
    pub(super) fn take_back(&mut self, status: TransactionStatus, changed: bool) -> bool {
        // An open transaction must be ended in any case. Behind such a pooler, everything else
        // stays with the pooler.
        let ours = self.peer != Peer::Changes;
        let owes = ours && (self.touched || changed) || status != TransactionStatus::Idle;
        if owes && self.reset == Reset::No {
            self.reset = Reset::Owed { failed: 0 };
        }
        self.is_reset_owed()
    }

    /// Something ran that the protocol has not seen.
    pub(super) fn touch(&mut self) {
        self.touched = true;
    }

    /// A tag showed that a statement was prepared by PREPARE.
    pub(super) fn has_prepared(&mut self) {
        self.has_names = true;
    }

    /// A tag showed that all prepared statements are gone.
    pub(super) fn statements_lost(&mut self) {
        (self.has_names, self.knows_steps, self.usual) = (false, false, None);
    }

    /// Its owner has reset it.
    pub(super) fn vouch(&mut self) {
        self.touched = false;
    }

    pub(super) fn is_reset_owed(&self) -> bool {
        matches!(self.reset, Reset::Owed { .. })
    }

    pub(super) fn is_resetting(&self) -> bool {
        self.reset != Reset::No
    }

    pub(super) fn is_lent(&self) -> bool {
        self.holder == Holder::Lent
    }

    #[inline]
    pub(super) fn unusable(&self) -> Option<&'static str> {
        self.unusable
    }

    /// Something temporary is made. A statement prepared before keeps referring to the ordinary
    /// table even if a temporary table of that name is made later, because the server looks at the
    /// path, which changes only with the first temporary table of a session
    /// (`SearchPathMatchesCurrentEnvironment` in src/backend/catalog/namespace.c). So from then on
    /// only those who share the session may use names.
    pub(super) fn has_temporary(&mut self) {
        self.temporary = true;
    }

    pub(super) fn names(&mut self) -> Names {
        // Each reset takes all names away, also those in what is sent behind it in the same flight.
        if self.left_names == LeftNames::AllDeallocated {
            return Names::Lost;
        }
        if self.temporary && self.holder != Holder::Shared {
            return Names::Lost;
        }
        match self.peer {
            Peer::Direct | Peer::Renames => Names::Kept,
            Peer::Unknown => {
                self.probe_wanted = true;
                Names::Unknown
            }
            Peer::Unasked | Peer::Other | Peer::Changes => Names::Lost,
        }
    }

    pub(super) fn is_shared(&self) -> bool {
        self.holder == Holder::Shared
    }

    pub(super) fn is_direct(&self) -> bool {
        self.peer == Peer::Direct
    }

    /// Whether a statement that refers to nothing of the user's stays prepared, as far as is known.
    pub(super) fn keeps_names(&self) -> bool {
        matches!(self.peer, Peer::Direct | Peer::Renames)
    }

    pub(super) fn unique(&self) -> u64 {
        self.unique
    }

    // --- what is sent ---

    #[inline]
    pub(super) fn owes(&self, idle: bool, status: TransactionStatus) -> bool {
        let goes_ahead = self.peer == Peer::Unknown && !idle;
        (self.probe_wanted || self.reset != Reset::No || goes_ahead) && self.is_due(idle, status)
    }

    #[inline]
    pub(super) fn one_segment(&self) -> bool {
        matches!(self.peer, Peer::Other | Peer::Changes)
    }

    /// After a reset that failed, nothing is sent before everything skipped with it was answered.
    #[cold]
    fn is_due(&self, idle: bool, status: TransactionStatus) -> bool {
        match self.reset {
            Reset::Owed { .. } => idle,
            _ => {
                let shared = self.holder == Holder::Shared;
                let goes_ahead = shared && !idle && self.peer == Peer::Unknown;
                let is_wanted = self.probe_wanted || goes_ahead;
                is_wanted && !self.probing && status == TransactionStatus::Idle && (idle || shared)
            }
        }
    }

    /// Whether a segment that begins with this request takes the reset along, in front of it. A
    /// flush of the server less wakes the client once less.
    #[cold]
    pub(super) fn goes_along(&self, expect: &Expect, status: TransactionStatus) -> bool {
        let is_usual = self.left_names == LeftNames::Sought && !self.has_names;
        self.reset == Reset::Owed { failed: 0 }
            && is_usual
            && self.usual.is_some()
            && status == TransactionStatus::Idle
            && self.peer == Peer::Direct
            && !self.probe_wanted
            && expect.can_be_guarded()
            && !expect.is_sync()
    }

    #[inline]
    pub(super) fn may_begin(&self, expect: &Expect, status: TransactionStatus) -> bool {
        match self.reset {
            Reset::No => true,
            // A sync point alone runs nothing.
            _ if expect.is_sync() => true,
            Reset::Owed { .. } => self.goes_along(expect, status),
            Reset::Sent { guarded, .. } => guarded && expect.can_be_guarded(),
            Reset::Along => expect.can_be_guarded(),
        }
    }

    /// Writes the reset in front of the request that takes it along. Returns how many answers there
    /// are to it, without rows.
    #[cold]
    pub(super) fn send_along(&mut self, out: &mut BytesMut) -> u8 {
        let Some((bytes, _)) = &self.usual else { return 0 };
        out.extend_from_slice(&bytes[..bytes.len() - SYNC.len()]);
        self.reset = Reset::Along;
        self.touched = false;
        USUAL_ANSWERS
    }

    /// A request is sent. `touches`: it may leave something behind. `begins`: it is the first of
    /// its segment. Returns whether a guard was put in front.
    #[inline]
    pub(super) fn begin(&mut self, touches: bool, begins: bool, out: &mut BytesMut) -> bool {
        self.touched |= touches;
        if !begins || !matches!(self.reset, Reset::Sent { .. } | Reset::Along) {
            return false;
        }
        let guard = self.guard();
        let before = out.len();
        // Encoding can't fail: the name holds no NUL, and is short.
        let _ = Describe { target: Target::Statement(&guard) }.encode(out);
        out.len() > before
    }

    /// Writes the reset, or the probe, and returns what to expect.
    pub(super) fn write(&mut self, status: TransactionStatus, out: &mut BytesMut) -> Expect {
        let Reset::Owed { failed } = self.reset else {
            (self.probe_wanted, self.probing) = (false, true);
            return self.write_probe(out);
        };
        let guarded = self.peer == Peer::Direct;
        self.reset = Reset::Sent { failed, guarded };
        self.touched = false;
        let has_names = std::mem::take(&mut self.has_names);
        // A name means something only where there is a guard.
        let names = match self.left_names {
            LeftNames::Sought if has_names || !guarded => LeftNames::Deallocated,
            names => names,
        };
        if names != LeftNames::Sought || status != TransactionStatus::Idle {
            return self.write_reset(guarded, names, status, out);
        }
        // The usual reset is written once, and copied from then on.
        if let Some((bytes, expect)) = &self.usual {
            out.extend_from_slice(bytes);
            return *expect;
        }
        let start = out.len();
        let expect = self.write_usual_reset(out);
        if std::mem::replace(&mut self.knows_steps, true) {
            self.usual = Some((Bytes::copy_from_slice(&out[start..]), expect));
        }
        expect
    }

    /// The reset behind a user who has left no transaction open, as far as is known. Its statements
    /// are prepared by the first one, which spares the server a third of its work from then on.
    fn write_usual_reset(&self, out: &mut BytesMut) -> Expect {
        let guard = self.guard();
        close_guard(&guard, out);
        let mut steps = 0;
        for sql in RESET.into_iter().chain([&*seek(), SETTINGS, COMMIT]) {
            let name = format!("{NAME_PREFIX}reset{steps}_{:x}", self.unique);
            steps += 1;
            match self.knows_steps {
                true => write_run(out, &name),
                false => write_statement(out, &name, sql),
            }
        }
        let expect = match self.knows_steps {
            true => Expect::own_run(Own::Reset, steps),
            false => Expect::own(Own::Reset, steps),
        };
        end_reset(Some(&guard), expect, out)
    }

    fn write_reset(
        &self,
        guarded: bool,
        names: LeftNames,
        status: TransactionStatus,
        out: &mut BytesMut,
    ) -> Expect {
        let guard = guarded.then(|| self.guard());
        if let Some(guard) = &guard {
            close_guard(guard, out);
        }
        let mut steps = 0;
        let mut run = |sql: &str| {
            steps += 1;
            write_statement(out, "", sql);
        };
        if status != TransactionStatus::Idle {
            run("rollback");
        }
        LIFT.into_iter().chain(RESET).for_each(&mut run);
        match names {
            LeftNames::Sought => run(&seek()),
            LeftNames::Deallocated => [DEALLOCATE_NAMED, UNLOCK].into_iter().for_each(&mut run),
            LeftNames::AllDeallocated => [DEALLOCATE_ALL, UNLOCK].into_iter().for_each(&mut run),
        }
        run(SETTINGS);
        run(COMMIT);
        end_reset(guard.as_deref(), Expect::own(Own::Reset, steps), out)
    }

    fn write_probe(&self, out: &mut BytesMut) -> Expect {
        let name = format!("{NAME_PREFIX}probe_{:x}", self.unique);
        write_statement(out, &name, &format!("{PROBE}'{name}'{PROBE_END}"));
        let _ = Close { target: Target::Statement(&name) }.encode(out);
        out.extend_from_slice(&SYNC);
        Expect::own(Own::Probe, 1).then_close()
    }

    /// The name of the statement that guards the segments behind a reset. If it is missing, the
    /// server's error quotes the name, so the name says what happened.
    fn guard(&self) -> String {
        format!("{NAME_PREFIX}reset failed, not run, try again {:x}", self.unique)
    }

    // --- replies ---

    /// A row of the reply to a request of the protocol's own.
    pub(super) fn learn(&mut self, own: Own, body: &[u8]) {
        let Ok(row) = DataRow::decode(body) else { return };
        let text = |at: usize| std::str::from_utf8(row.values.clone().nth(at)??).ok();
        let process = |at: usize| text(at).and_then(|text| text.parse::<i32>().ok());
        let seen = match own {
            Own::No | Own::Position => return,
            Own::Reset => process(RESET_PROCESS),
            Own::Probe => {
                self.peer = match (process(0), text(1)) {
                    (Some(process), Some("t")) if process == self.process_id => Peer::Direct,
                    (Some(_), Some("f")) => Peer::Renames,
                    _ => Peer::Other,
                };
                process(0)
            }
        };
        let changed = self.process_seen.is_some() && seen.is_some() && self.process_seen != seen;
        if changed && self.peer != Peer::Renames {
            self.peer = Peer::Changes;
        }
        self.process_seen = seen.or(self.process_seen);
        self.temporary |= text(HAS_TEMPORARY) == Some("t");
    }

    /// The error of the reset in flight shows that a cancel has hit it.
    #[cold]
    pub(super) fn reset_was_cancelled(&mut self) {
        self.was_cancelled = true;
    }

    /// A request of the protocol's own was answered.
    pub(super) fn answered(&mut self, own: Own, is_failed: bool) {
        if own == Own::Probe {
            (self.probing, self.probe_wanted) = (false, false);
        }
        match (own, self.reset) {
            // A cancel that was meant for another request may have hit it.
            (Own::Probe, _) if is_failed && self.peer == Peer::Unknown => {
                self.probes_failed += 1;
                if self.probes_failed >= TRIES_MAX {
                    self.peer = Peer::Other;
                }
            }
            (Own::Reset, Reset::Along) if is_failed => self.fail_reset(1),
            (Own::Reset, Reset::Sent { failed, .. }) if is_failed => self.fail_reset(failed + 1),
            (Own::Reset, _) => (self.reset, self.was_cancelled) = (Reset::No, false),
            _ => {}
        }
    }

    /// A reset failed, for so many times now.
    #[cold]
    fn fail_reset(&mut self, failed: u8) {
        let was_cancelled = std::mem::take(&mut self.was_cancelled);
        self.left_names = self.left_names.next(was_cancelled);
        self.reset = Reset::Owed { failed };
        if failed >= TRIES_MAX {
            self.unusable = Some(NOT_RESET);
        }
    }

    /// Whether a reset is in flight that a request has taken along.
    pub(super) fn is_along(&self) -> bool {
        self.reset == Reset::Along
    }

    /// What the server says where the guard is missing.
    #[cold]
    pub(super) fn guard_is_missing(&self) -> Bytes {
        let error = ServerError {
            severity: "ERROR".to_owned(),
            code: "26000".to_owned(),
            message: format!("prepared statement \"{}\" does not exist", self.guard()),
            ..ServerError::default()
        };
        let mut out = BytesMut::new();
        // Encoding can't fail: no field holds a NUL, and all are short.
        let _ = error.encode_error(&mut out);
        out.freeze()
    }

    /// Whether the server is certain to skip a request with an unanswered guard.
    pub(super) fn is_guard_gone(&self) -> bool {
        matches!(self.reset, Reset::Owed { failed } if failed > 0)
    }

    /// The session has another encoding than ours: texts would be stored and read as others.
    #[cold]
    pub(super) fn is_foreign(&mut self) {
        self.unusable = Some(FOREIGN);
    }

    /// The session is idle in this state for the next of the callers that share it.
    pub(super) fn check_shared(&mut self, status: TransactionStatus, changed: bool) {
        if self.holder != Holder::Shared || self.reset != Reset::No {
            return;
        }
        if status != TransactionStatus::Idle {
            self.unusable = Some(BEGAN);
        } else if changed {
            self.unusable = Some(CHANGED);
        }
    }
}

impl LeftNames {
    /// `was_cancelled`: maybe by a timeout that its user has set, which all ways but the first lift. It
    /// says nothing of PL/pgSQL.
    fn next(self, was_cancelled: bool) -> LeftNames {
        match self {
            LeftNames::Sought => LeftNames::Deallocated,
            LeftNames::Deallocated if was_cancelled => self,
            LeftNames::Deallocated | LeftNames::AllDeallocated => LeftNames::AllDeallocated,
        }
    }
}

/// Releases advisory locks, and fails if there are statements of PREPARE.
fn seek() -> String {
    format!("{UNLOCK}{LEFT_NAMES}")
}

/// Parse, Bind and Execute of a statement without parameters.
fn write_statement(out: &mut BytesMut, name: &str, sql: &str) {
    // Encoding can't fail: neither holds a NUL, and both are short.
    let _ = parse::write(out, name, sql, &[]);
    write_run(out, name);
}

/// Close is no statement, so nothing can stop it. If the guard doesn't exist, it does nothing.
fn close_guard(guard: &str, out: &mut BytesMut) {
    let _ = Close { target: Target::Statement(guard) }.encode(out);
}

/// The end of a reset, whose statements are written.
fn end_reset(guard: Option<&str>, expect: Expect, out: &mut BytesMut) -> Expect {
    let expect = match guard {
        Some(guard) => {
            let _ = parse::write(out, guard, "", &[]);
            expect.close().then_parse()
        }
        None => expect,
    };
    out.extend_from_slice(&SYNC);
    expect
}

/// Bind and Execute of a prepared statement without parameters.
fn write_run(out: &mut BytesMut, name: &str) {
    let nothing = |_: usize, _: &mut BytesMut| Ok(bind::IsNull::Yes);
    let written: Result<(), EncodeError> =
        bind::write(out, "", name, Formats::AllText, 0, nothing, Formats::AllText);
    debug_assert!(written.is_ok());
    out.extend_from_slice(&execute::UNNAMED_ALL);
}

/// Asks for the server's process, and whether the server knows the statement by the name under
/// which it runs. A pooler has cancel keys of its own, and may use names of its own.
const PROBE: &str = "select pg_catalog.pg_backend_pid(), exists (select from \
     pg_catalog.pg_prepared_statement() where name operator(pg_catalog.=) ";

/// The end of that query, behind the name.
const PROBE_END: &str = "), pg_catalog.pg_my_temp_schema() operator(pg_catalog.<>) 0";

/// What DISCARD ALL does (PostgreSQL documentation, "DISCARD"), except for the prepared statements,
/// which the connection keeps, and their plans.
const RESET: [&str; 6] = [
    "begin transaction",
    "close all",
    "set session authorization default",
    "unlisten *",
    "discard sequences",
    "discard temp",
];

/// Lifts the session's timeouts, which would stop the rest. The usual reset goes without: a fifth of
/// its work, for a user who has left a timeout of microseconds, where it fails and the next lifts them.
const LIFT: [&str; 2] = ["set statement_timeout = 0", "set lock_timeout = 0"];

/// The answers to the usual reset: to the Close, to Bind and Execute of each step, and to the Parse.
pub(super) const USUAL_ANSWERS: u8 = 2 + 2 * (RESET.len() as u8 + 3);

/// The answers to the usual reset in front of the row of its query: to the Close of the guard, to
/// [`RESET`], and to the Bind of the query.
const IN_FRONT: &[u8] = b"3\0\0\0\x04\
    2\0\0\0\x04C\0\0\0\x0aBEGIN\0\
    2\0\0\0\x04C\0\0\0\x15CLOSE CURSOR ALL\0\
    2\0\0\0\x04C\0\0\0\x08SET\0\
    2\0\0\0\x04C\0\0\0\x0dUNLISTEN\0\
    2\0\0\0\x04C\0\0\0\x16DISCARD SEQUENCES\0\
    2\0\0\0\x04C\0\0\0\x11DISCARD TEMP\0\
    2\0\0\0\x04";

/// Those behind the row: to the query, to [`SETTINGS`] and [`COMMIT`], and to the Parse.
const BEHIND: &[u8] = b"C\0\0\0\x0dSELECT 1\0\
    2\0\0\0\x04C\0\0\0\x0aRESET\0\
    2\0\0\0\x04C\0\0\0\x0bCOMMIT\0\
    1\0\0\0\x04";

/// How many answers [`BEHIND`] holds.
const ANSWERS_BEHIND: u8 = 1 + 2 + 2 + 1;

/// If the bytes begin with the part of the answer to the usual reset that is due, while so many
/// answers are due: how long it is, and how many answers it holds. They stand in front of each
/// transaction, and PostgreSQL's tags are always the same, so they are compared as a whole. Any
/// others, and any that are cut, are read one by one; so are all in JavaScript's module, whose size
/// counts for more.
pub(super) fn usual_part(input: &[u8], due: u8) -> Option<(usize, u8)> {
    if cfg!(target_family = "wasm") {
        return None;
    }
    let (part, answers) = match due {
        USUAL_ANSWERS => (IN_FRONT, USUAL_ANSWERS - ANSWERS_BEHIND),
        ANSWERS_BEHIND => (BEHIND, ANSWERS_BEHIND),
        _ => return None,
    };
    input.starts_with(part).then_some((part.len(), answers))
}

/// Releases advisory locks, and returns the server's process and whether it ever had something
/// temporary. Names are qualified, since the path is still the user's.
const UNLOCK: &str = "select pg_catalog.pg_advisory_unlock_all(), pg_catalog.pg_backend_pid(), \
     pg_catalog.pg_my_temp_schema() operator(pg_catalog.<>) 0";

/// The end of that query that fails if there are statements of PREPARE: a text that says so is read
/// as a number. The server's error quotes it.
const LEFT_NAMES: &str = ", (select pg_catalog.sum(pg_catalog.int4in(pg_catalog.textout(\
     'left by PREPARE: ' operator(pg_catalog.||) s.name))) \
     from pg_catalog.pg_prepared_statement() s where s.from_sql)";

/// Deallocates the statements of PREPARE, also those that no tag reported, and keeps the
/// connection's own.
const DEALLOCATE_NAMED: &str = "do $$ declare n pg_catalog.text; begin \
     for n in select s.name from pg_catalog.pg_prepared_statement() s where s.from_sql loop \
     execute 'deallocate ' operator(pg_catalog.||) pg_catalog.quote_ident(n); end loop; end $$";

/// Also deallocates the connection's own statements, and needs no PL/pgSQL.
const DEALLOCATE_ALL: &str = "deallocate all";

/// Resets the settings, and with them the timeouts.
const SETTINGS: &str = "reset all";

const COMMIT: &str = "commit";

/// The column of the process in the reply to [`UNLOCK`].
const RESET_PROCESS: usize = 1;

/// The column that says whether anything is temporary, in the replies to both.
const HAS_TEMPORARY: usize = 2;
