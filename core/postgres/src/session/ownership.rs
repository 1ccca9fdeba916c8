//! Whose session it is, and what has to happen before somebody else works in it.
//!
//! The rules:
//!
//! 1. A session that one caller had to itself is reset before anybody else uses it, unless all that
//!    ran there is on the short list of what can leave nothing behind
//!    ([`Traits::leaves_nothing`](crate::sql::Traits::leaves_nothing)). Requests are taken to leave
//!    something unless [`Expect::leaves_nothing`] says otherwise.
//! 2. Nothing that is sent behind a reset runs unless the reset succeeded. The reset is one segment: a
//!    transaction, and behind its COMMIT the parsing of a statement under a random name, since what was
//!    parsed stays where a commit fails. Until it is answered each segment behind it
//!    describes that statement first: where the reset failed there is none, and the server skips the
//!    segment. What can't carry such a guard (the simple protocol, COPY, a run of isolated rows) waits
//!    for the answer.
//! 3. A guard is worth something only where the name means the same to both sides. So it is used on
//!    *direct* connections, and elsewhere everything waits for the answer. A *probe* tells which it is,
//!    once, in the same flight as what comes behind it.
//! 4. What sends segments ahead of the answers to others finds out as well: behind a pooler that is not known
//!    to keep them together, one leaves at a time. A pooler that takes a server's first answer for the last one
//!    gives the server away, or takes the replies of a new one for those of the old.
//! 5. A reset that fails is tried again, [`TRIES_MAX`] times in all, then nobody may use the session.
//! 6. Where all callers share a session, nobody may change it. Once a tag or the transaction status shows
//!    that somebody did, nobody may use it any further: what is behind on the wire may have run inside a
//!    stranger's transaction, or under its settings.

use bytes::{Bytes, BytesMut};

use super::{Expect, Names};
use crate::client::statements::NAME_PREFIX;
use crate::message::{
    Close, DataRow, Describe, EncodeError, Formats, SYNC, Target, TransactionStatus, bind, execute,
    parse,
};

/// Whose it is, who is on the other end, and the reset that is owed or on its way.
#[derive(Debug)]
pub(super) struct Ownership {
    holder: Holder,
    peer: Peer,
    reset: Reset,
    /// Something ran since the last reset that may have left something behind.
    touched: bool,
    /// A reset failed: those that follow ask for less.
    is_plain: bool,
    /// What a reset is on most occasions, once one was sent.
    usual: Option<(Bytes, Expect)>,
    /// It is to be found out who is on the other end.
    probe_wanted: bool,
    /// That is on its way.
    probing: bool,
    /// How often that failed.
    probes_failed: u8,
    /// Why nobody may go on with the session.
    unusable: Option<&'static str>,
    /// What the server says of itself, as its login said it.
    process_id: i32,
    /// The server process that answered the last question for it.
    process_seen: Option<i32>,
    /// Its session has, or had, something temporary.
    temporary: bool,
    /// What tells names of this connection from those of all others.
    unique: u64,
}

/// Who may use the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    /// Somebody whose affair it is what the session is like.
    Unwatched,
    /// All callers.
    Shared,
    /// One caller, for a while.
    Lent,
}

/// Who is on the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    /// There is nothing by which to find out.
    Unasked,
    Unknown,
    /// The server itself.
    Direct,
    /// A pooler that gives our prepared statements names of its own on each of its servers.
    Renames,
    /// Something else.
    Other,
    /// A pooler that changes servers under us: a session is no thing of ours there.
    Changes,
}

/// What is known of the reset that goes in front of the next user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reset {
    No,
    /// It is to be sent. `failed`: so often it was tried.
    Owed {
        failed: u8,
    },
    /// It is on its way.
    Sent {
        failed: u8,
        guarded: bool,
    },
}

/// What a request of the protocol's own is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Own {
    /// It is a caller's.
    #[default]
    No,
    Probe,
    Reset,
}

/// So often a session is tried to be reset, and who is on the other end to be found out. The first try to
/// reset may be stopped by the user's own `statement_timeout`, or lack PL/pgSQL.
const TRIES_MAX: u8 = 3;

/// What the connection ends with where a reset fails too often.
pub const NOT_RESET: &str = "the session of the user before could not be reset";

/// What it ends with where somebody changed what all share.
const BEGAN: &str = "a statement on a shared connection began a transaction (such statements belong in \
     a session)";
const CHANGED: &str = "a statement on a shared connection changed the state of its session (such \
     statements belong in a session)";

impl Ownership {
    pub(super) fn new() -> Ownership {
        Ownership {
            holder: Holder::Unwatched,
            peer: Peer::Unasked,
            reset: Reset::No,
            touched: false,
            is_plain: false,
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

    /// What the login said of the server process, and what makes names unique.
    pub(super) fn identify(&mut self, process_id: i32, unique: u64) {
        (self.process_id, self.unique) = (process_id, unique);
        // Without a key there is nothing to compare with.
        self.peer = if process_id == 0 { Peer::Unasked } else { Peer::Unknown };
    }

    /// Whose affair the session is will send ahead: who is on the other end is asked with the first flight.
    pub(super) fn send_ahead(&mut self) {
        self.probe_wanted = self.peer == Peer::Unknown;
    }

    // --- who has it ---

    pub(super) fn share(&mut self) {
        self.holder = Holder::Shared;
        // Nothing there depends on it until something is to be prepared.
        self.probe_wanted = false;
    }

    pub(super) fn lend(&mut self) {
        if self.holder == Holder::Shared {
            // What they left is theirs who share it, and nothing of this one's.
            self.touched = false;
        }
        self.holder = Holder::Lent;
        self.probe_wanted = self.peer == Peer::Unknown;
    }

    /// Its user has gone, and left it in this status. Whether a reset is owed. `changed`: the server told
    /// of something.
    pub(super) fn take_back(&mut self, status: TransactionStatus, changed: bool) -> bool {
        // An open transaction is ours in any case; what else is left is with the pooler.
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

    pub(super) fn is_reset_owed(&self) -> bool {
        matches!(self.reset, Reset::Owed { .. })
    }

    pub(super) fn is_resetting(&self) -> bool {
        self.reset != Reset::No
    }

    #[inline]
    pub(super) fn unusable(&self) -> Option<&'static str> {
        self.unusable
    }

    /// Something temporary is made. A statement that was prepared before goes on to mean the table of
    /// all where a temporary one of that name is made later: the server looks at the path, which changes
    /// with the first temporary table of a session only (`SearchPathMatchesCurrentEnvironment` in
    /// src/backend/catalog/namespace.c). So from then on names are for those who share the session.
    pub(super) fn has_temporary(&mut self) {
        self.temporary = true;
    }

    pub(super) fn names(&mut self) -> Names {
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

    /// Behind what was skipped with a reset that failed, nothing is sent before all of it came back.
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

    #[inline]
    pub(super) fn may_begin(&self, expect: &Expect) -> bool {
        match self.reset {
            Reset::No => true,
            // A sync point alone runs nothing.
            _ if expect.is_sync() => true,
            Reset::Owed { .. } => false,
            Reset::Sent { guarded, .. } => guarded && expect.can_be_guarded(),
        }
    }

    /// A request is sent; `touches`: it may leave something; `begins`: as the first of its segment. Whether a guard was put in front.
    #[inline]
    pub(super) fn begin(&mut self, touches: bool, begins: bool, out: &mut BytesMut) -> bool {
        self.touched |= touches;
        if !begins || !matches!(self.reset, Reset::Sent { .. }) {
            return false;
        }
        let guard = self.guard();
        let before = out.len();
        // The name holds no NUL, and is short.
        let _ = Describe { target: Target::Statement(&guard) }.encode(out);
        out.len() > before
    }

    /// Writes the reset, or the probe, and says what to expect.
    pub(super) fn write(&mut self, status: TransactionStatus, out: &mut BytesMut) -> Expect {
        let Reset::Owed { failed } = self.reset else {
            (self.probe_wanted, self.probing) = (false, true);
            return self.write_probe(out);
        };
        let guarded = self.peer == Peer::Direct;
        self.reset = Reset::Sent { failed, guarded };
        self.touched = false;
        // The usual one is written once, and copied from then on.
        let is_usual = guarded && !self.is_plain && status == TransactionStatus::Idle;
        if is_usual && let Some((bytes, expect)) = &self.usual {
            out.extend_from_slice(bytes);
            return *expect;
        }
        let start = out.len();
        let expect = self.write_reset(guarded, status, out);
        if is_usual {
            self.usual = Some((Bytes::copy_from_slice(&out[start..]), expect));
        }
        expect
    }

    fn write_reset(&self, guarded: bool, status: TransactionStatus, out: &mut BytesMut) -> Expect {
        let guard = self.guard();
        if guarded {
            // Closing is no statement: nothing can stop it, and where there is none it does nothing.
            let _ = Close { target: Target::Statement(&guard) }.encode(out);
        }
        let mut steps = 0;
        let mut run = |sql: &str| {
            steps += 1;
            write_statement(out, "", sql);
        };
        if status != TransactionStatus::Idle {
            run("rollback");
        }
        RESET.iter().for_each(|sql| run(sql));
        run(if self.is_plain { DEALLOCATE_ALL } else { DEALLOCATE_NAMED });
        run(UNLOCK);
        run(SETTINGS);
        run("commit");
        let mut expect = Expect::own(Own::Reset, steps);
        if guarded {
            let _ = parse::write(out, &guard, "", &[]);
            expect = expect.close().then_parse();
        }
        out.extend_from_slice(&SYNC);
        expect
    }

    fn write_probe(&self, out: &mut BytesMut) -> Expect {
        let name = format!("{NAME_PREFIX}probe_{:x}", self.unique);
        write_statement(out, &name, &format!("{PROBE}'{name}'{PROBE_END}"));
        let _ = Close { target: Target::Statement(&name) }.encode(out);
        out.extend_from_slice(&SYNC);
        Expect::own(Own::Probe, 1).then_close()
    }

    /// The name of the statement that guards the segments behind a reset. Where it is missing the server's
    /// error quotes it, so it says what that means.
    fn guard(&self) -> String {
        format!("{NAME_PREFIX}reset failed, not run, try again {:x}", self.unique)
    }

    // --- what came ---

    /// A row of a reply to a request of the protocol's own.
    pub(super) fn learn(&mut self, own: Own, body: &[u8]) {
        let Ok(row) = DataRow::decode(body) else { return };
        let text = |at: usize| std::str::from_utf8(row.values.clone().nth(at)??).ok();
        let process = |at: usize| text(at).and_then(|text| text.parse::<i32>().ok());
        let seen = match own {
            Own::No => return,
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

    /// A request of the protocol's own was answered.
    pub(super) fn answered(&mut self, own: Own, is_failed: bool) {
        if own == Own::Probe {
            (self.probing, self.probe_wanted) = (false, false);
        }
        match (own, self.reset) {
            // A cancel that was meant for another may have hit it.
            (Own::Probe, _) if is_failed && self.peer == Peer::Unknown => {
                self.probes_failed += 1;
                if self.probes_failed >= TRIES_MAX {
                    self.peer = Peer::Other;
                }
            }
            (Own::Reset, Reset::Sent { failed, .. }) if is_failed => {
                let failed = failed + 1;
                self.is_plain = true;
                self.reset = Reset::Owed { failed };
                if failed >= TRIES_MAX {
                    self.unusable = Some(NOT_RESET);
                }
            }
            (Own::Reset, _) => self.reset = Reset::No,
            _ => {}
        }
    }

    /// Whether what carries an unanswered guard will be skipped for sure.
    pub(super) fn is_guard_gone(&self) -> bool {
        matches!(self.reset, Reset::Owed { failed } if failed > 0)
    }

    /// The session is at rest in this state for the next of those who share it.
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

/// Parse, Bind and Execute of a statement without parameters.
fn write_statement(out: &mut BytesMut, name: &str, sql: &str) {
    // Neither holds a NUL, and both are short.
    let _ = parse::write(out, name, sql, &[]);
    let nothing = |_: usize, _: &mut BytesMut| Ok(bind::IsNull::Yes);
    let written: Result<(), EncodeError> =
        bind::write(out, "", name, Formats::AllText, 0, nothing, Formats::AllText);
    debug_assert!(written.is_ok());
    out.extend_from_slice(&execute::UNNAMED_ALL);
}

/// The process of the server, and whether it knows the statement by the name under which it runs: a pooler
/// has its own keys for cancels, and may give names of its own.
const PROBE: &str = "select pg_catalog.pg_backend_pid(), exists (select from \
     pg_catalog.pg_prepared_statement() where name operator(pg_catalog.=) ";

/// Behind the name, in that.
const PROBE_END: &str = "), pg_catalog.pg_my_temp_schema() operator(pg_catalog.<>) 0";

/// What DISCARD ALL does (PostgreSQL documentation, "DISCARD"), but for the prepared statements, which
/// the connection keeps, and the plans, which are those of prepared statements. The session's own
/// timeouts are lifted first, since they would stop the rest.
const RESET: [&str; 8] = [
    "set statement_timeout = 0",
    "set lock_timeout = 0",
    "begin transaction",
    "close all",
    "set session authorization default",
    "unlisten *",
    "discard sequences",
    "discard temp",
];

/// Lets advisory locks go, and says which process it was, and whether it ever had something temporary. Names
/// are qualified, since the path is still the user's.
const UNLOCK: &str = "select pg_catalog.pg_advisory_unlock_all(), pg_catalog.pg_backend_pid(), \
     pg_catalog.pg_my_temp_schema() operator(pg_catalog.<>) 0";

/// Deallocates what PREPARE has named, also where no tag told of it, and leaves our own statements alone.
const DEALLOCATE_NAMED: &str = "do $$ declare n pg_catalog.text; begin \
     for n in select s.name from pg_catalog.pg_prepared_statement() s where s.from_sql loop \
     execute 'deallocate ' operator(pg_catalog.||) pg_catalog.quote_ident(n); end loop; end $$";

/// Takes ours along, and needs no PL/pgSQL.
const DEALLOCATE_ALL: &str = "deallocate all";

/// The settings, and with them the timeouts.
const SETTINGS: &str = "reset all";

/// The column of the process in that.
const RESET_PROCESS: usize = 1;

/// The column of what is temporary, in both.
const HAS_TEMPORARY: usize = 2;
