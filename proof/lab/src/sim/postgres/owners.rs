//! The owners of the session, the state that they leave in it, and whose state each statement may
//! see.

use std::collections::{BTreeMap, HashMap, HashSet};

use onetrip_engine::{CloseReason, End};
use onetrip_postgres::session::NOT_RESET;
use onetrip_postgres::{Expect, Names};

use super::plan::Role;
use super::{Plan, World};
use crate::model::{Rng, Sabotage};

/// The owners of the session of a run, one after the other.
pub(crate) struct Owners {
    pub(super) rng: Rng,
    pub(super) ways: Ways,
    /// The number of the current owner. Numbers are not reused.
    current: u64,
    /// Whether the owner has the session exclusively.
    pub(super) lent: bool,
    /// Whether the owner begins nothing more.
    pub(super) leaving: bool,
    /// The owner of each statement.
    of: HashMap<u64, u64>,
    /// Whether a transaction is being built.
    pub(super) in_block: bool,
    /// Whether an owner deallocates all prepared statements, including the guards of others.
    pub(super) deallocates: bool,
    /// Statements that change a shared session.
    offences: Vec<u64>,
}

/// The behaviour of the owners of a run.
#[derive(Clone, Debug)]
pub(crate) struct Ways {
    peer: Peer,
    /// One in this many statements of an exclusive owner leaves state.
    pub(super) leaves: u64,
    /// One in this many statements changes a shared session.
    offences: u64,
    /// One in this many resets fails.
    failures: u64,
    /// In one of this many steps the owner leaves.
    patience: u64,
}

/// The kind of the server end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    Direct,
    /// A pooler with a cancel key of its own.
    Foreign,
    /// There is no cancel key.
    Keyless,
    /// A pooler that renames statements.
    Renames,
    /// A pooler that changes servers.
    Changes,
}

impl Owners {
    /// The owners of a seed. Most seeds have none.
    pub(super) fn new(seed: u64) -> Option<Owners> {
        let mut rng = Rng::new(seed ^ STREAM);
        rng.one_in(SEEDS_PER_RUN).then(|| {
            use Peer::{Changes, Direct, Foreign, Keyless, Renames};
            let ways = Ways {
                peer: rng
                    .pick(&[Direct, Direct, Direct, Direct, Foreign, Keyless, Renames, Changes]),
                leaves: rng.pick(&[2, 2, 6, 0]),
                offences: rng.pick(&[0, 2, 8]),
                failures: rng.pick(&[0, 2, 4]),
                patience: rng.pick(&[3, 8, 20]),
            };
            Owners {
                rng,
                ways,
                current: 1,
                lent: false,
                leaving: false,
                of: HashMap::new(),
                in_block: false,
                deallocates: false,
                offences: Vec::new(),
            }
        })
    }

    /// What the protocol is told of a request. A harmless request is not always declared as
    /// harmless.
    pub(super) fn expect(&self, plan: &Plan) -> Expect {
        let expect = match plan.own.role {
            Role::Plain => plan.own.expect,
            _ => plan.own.expect.transaction_local(),
        };
        let is_told = !plan.id.is_multiple_of(4) || plan.own.role != Role::Plain;
        if is_told && !plan.own.leaves { expect.leaves_nothing() } else { expect }
    }

    /// Records the owner of a request.
    pub(super) fn keep(&mut self, plan: &Plan) {
        self.of.extend(plan.ops.iter().map(|op| (*op, self.current)));
        if plan.own.leaves && !self.lent {
            self.offences.push(plan.id);
        }
    }

    /// Whether the next statement should leave state in the session.
    pub(super) fn wants_to_leave(&mut self) -> bool {
        self.lent && self.rng.one_in(self.ways.leaves)
    }

    /// Whether the owner begins nothing more. Now and then this becomes true.
    pub(super) fn is_leaving(&mut self) -> bool {
        self.leaving |= self.rng.one_in(self.ways.patience);
        self.leaving
    }

    /// The failures of the next resets.
    fn sabotage(&mut self) -> Vec<Sabotage> {
        if !self.rng.one_in(self.ways.failures) {
            return Vec::new();
        }
        let times = self.rng.pick(&[1, 1, 2, 3]);
        let one = |rng: &mut Rng| match rng.one_in(5) {
            true => Sabotage::Commit,
            false => Sabotage::Statement(rng.below(RESET_STATEMENTS) as u32),
        };
        (0..times).map(|_| one(&mut self.rng)).collect()
    }
}

impl World {
    /// The first owner of the session gets it.
    pub(super) fn first_owner(&mut self) {
        let Some(owners) = &mut self.side.owners else { return };
        let process_id = match owners.ways.peer {
            Peer::Direct | Peer::Renames | Peer::Changes => PROCESS_ID,
            Peer::Foreign => PROCESS_ID + 2,
            Peer::Keyless => 0,
        };
        owners.lent = owners.rng.one_in(2);
        match owners.ways.peer {
            Peer::Renames => self.links[0].server.rename_statements(),
            Peer::Changes => self.links[0].server.change_processes(),
            _ => {}
        }
        let protocol = self.driven.protocol_mut();
        protocol.identify(process_id, 0xabc);
        protocol.hand_over(owners.lent);
    }

    /// The owner ends what it has begun, and leaves.
    pub(super) fn change_owners(&mut self) {
        self.take_turn();
        (0..self.side.floors.len()).rev().for_each(|at| self.end_floor(at));
        self.consume_some();
        let is_at_rest = self.driven.is_idle()
            && self.side.floors.is_empty()
            && self.parked.is_empty()
            && self.turn.is_none();
        if is_at_rest && self.driven.is_open() && !self.driven.is_astray() {
            self.next_owner();
        } else {
            self.pump();
        }
    }

    /// The session gets its next owner, which begins without waiting.
    fn next_owner(&mut self) {
        let Some(owners) = &mut self.side.owners else { return };
        let protocol = self.driven.protocol_mut();
        let owed = owners.lent && protocol.take_back();
        (owners.leaving, owners.lent) = (false, !owners.rng.one_in(3));
        owners.current += 1;
        protocol.hand_over(owners.lent);
        if owed {
            let sabotage = owners.sabotage();
            self.links[0].server.sabotage(&sabotage);
        }
        let (lent, at_once) = (owners.lent, owners.rng.one_in(4));
        let count = owners.rng.index(8);
        self.note(|_| format!("it changes hands; lent: {lent}, a reset is owed: {owed}"));
        self.book.report.count(match owed {
            true => "owner changed, with a reset",
            false => "owner changed",
        });
        if at_once {
            self.settle_debts();
        }
        if lent && owed && at_once == (count < 4) {
            self.leave_at_once();
        }
        (0..count).for_each(|_| self.act_as_owner());
        self.drain();
    }

    /// An action that needs an owner.
    pub(super) fn act_as_owner(&mut self) {
        let Some(owners) = self.side.owners.as_mut().filter(|owners| !owners.leaving) else {
            return;
        };
        let (lent, offends) = (owners.lent, owners.rng.one_in(owners.ways.offences));
        match owners.rng.below(8) {
            0 => self.submit_run(),
            1 if lent && !self.settings.own.cancels => self.submit_transaction(),
            2 if !lent && offends => self.submit_offence(),
            3 => self.ask_for_names(),
            4 => self.submit_segment(),
            5 => self.open_group(),
            _ => self.submit_one(),
        }
    }

    /// The first request leaves state inside of a function, and its owner leaves.
    fn leave_at_once(&mut self) {
        self.submit_hidden();
        if let Some(owners) = &mut self.side.owners {
            owners.leaving = true;
        }
    }

    /// An owner asks for names of prepared statements.
    fn ask_for_names(&mut self) {
        let names = self.driven.protocol_mut().names();
        self.book.report.count(match names {
            Names::Kept => "names are kept",
            Names::Unknown => "names are not known to be kept",
            Names::Lost => "names are lost",
        });
    }

    /// Whether the owner begins nothing more.
    pub(super) fn is_being_left(&self) -> bool {
        self.side.owners.as_ref().is_some_and(|owners| owners.leaving)
    }

    /// Whether the session has an exclusive owner.
    pub(super) fn is_lent(&self) -> bool {
        self.side.owners.as_ref().is_some_and(|owners| owners.lent)
    }

    pub(super) fn set_in_block(&mut self, in_block: bool) {
        if let Some(owners) = &mut self.side.owners {
            owners.in_block = in_block;
        }
    }

    pub(super) fn has_deallocated(&self) -> bool {
        self.side.owners.as_ref().is_some_and(|owners| owners.deallocates)
    }

    /// The engine closed the session as unusable: checks that there was a reason.
    pub(super) fn closed_unusable(&mut self, why: &'static str) {
        let log = self.log();
        let offended = self
            .side
            .owners
            .as_ref()
            .is_some_and(|owners| owners.offences.iter().any(|op| log.entry(*op).executed > 0));
        let [_, failed] = log.resets_failed();
        match (why == NOT_RESET, offended) {
            (true, _) if failed >= TRIES_MAX => self.book.report.count("closed: not reset"),
            (false, true) => self.book.report.count("closed: changed by one of all"),
            _ => self.book.complain(format!("closed as unusable without a reason: {why}")),
        }
    }

    // --- when all is over ---

    /// Each statement ran in a session with no state but its owner's.
    pub(super) fn check_owners(&mut self, findings: &mut Vec<String>) {
        let Some(owners) = &self.side.owners else { return };
        let log = self.log().clone();
        let [all, running] = log.resets_failed();
        self.book.report.add("reset", log.resets().len() as u64);
        self.book.report.add("reset that failed", u64::from(all));
        let skipped = self.driven.protocol().skipped;
        self.book.report.add("skipped behind a reset", skipped);
        let closed = matches!(self.book.closed, Some(CloseReason::Unusable(_)));
        if running > TRIES_MAX || running == TRIES_MAX && self.book.closed.is_none() {
            findings.push(format!("{running} resets have failed, and the session goes on"));
        }
        self.check_offences(owners, closed, findings);
        if owners.ways.peer == Peer::Changes {
            // Behind a pooler the server session does not belong to the owner.
            return;
        }
        for (op, seen) in log.seen() {
            let owner = owners.of.get(&op);
            let left_by = seen.left_by.iter().find(|left| owners.of.get(left) != owner);
            if let Some(left_by) = left_by {
                findings.push(format!("{op} ran where {left_by} of another had left something"));
            }
            if seen.unreset {
                findings.push(format!("{op} ran behind a reset that had failed"));
            }
            self.book.report.add("found what was its own", u64::from(left_by.is_none()));
        }
        let order = log.order();
        let of = |ops: &[u64]| -> HashSet<Option<u64>> {
            ops.iter().map(|op| owners.of.get(op).copied()).collect()
        };
        for at in log.resets() {
            let (before, behind) = (of(&order[..at]), of(&order[at..]));
            if let Some(owner) = before.intersection(&behind).next() {
                findings.push(format!("a reset in the middle of what {owner:?} does"));
            }
        }
    }

    /// Checks that nothing is answered after a statement that changed a shared session.
    fn check_offences(&self, owners: &Owners, closed: bool, findings: &mut Vec<String>) {
        let places: BTreeMap<(u64, u64), u64> =
            self.book.records.values().map(|record| (record.place, record.plan.id)).collect();
        for offence in &owners.offences {
            let Some(record) = self.book.records.get(offence) else { continue };
            if record.end() != Some(End::Complete) {
                continue;
            }
            if !closed {
                findings.push(format!("{offence} changed what all share, and it goes on"));
            }
            for id in places.range(record.place..).skip(1).map(|(_, id)| id) {
                let end = self.book.records[id].end();
                if matches!(end, Some(End::Complete | End::Provisional)) {
                    findings.push(format!("{id} was answered behind {offence}"));
                }
            }
        }
    }
}

/// The process id of the model server.
const PROCESS_ID: i32 = 4711;
/// How often a reset is tried.
const TRIES_MAX: u32 = 3;
/// The most statements of a reset.
const RESET_STATEMENTS: u64 = 13;
/// One in this many seeds has owners.
const SEEDS_PER_RUN: u64 = 4;
/// The owners' random numbers are a stream of their own.
const STREAM: u64 = 0x6f77_6e65_7273;
