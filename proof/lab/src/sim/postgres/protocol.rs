//! The protocol of a run: PostgreSQL's, with a record of what it wrote by itself. A mutation may
//! falsify it.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};

use bytes::{Bytes, BytesMut};
use onetrip_engine::{Protocol, Step, Violation};
use onetrip_postgres::message::{TransactionStatus, execute};
use onetrip_postgres::{Event, Expect, Postgres};

use super::mutation::Own;

/// PostgreSQL's protocol, between the engine and the peer.
pub struct Observed {
    inner: Postgres,
    mutation: Option<Own>,
    struck: bool,
    /// The process id and the cancel key of the login.
    identity: (i32, u64),
    lent: bool,
    /// Whether the next request is the first after a reset.
    is_first: bool,
    /// The messages that it wrote before and between requests, each once.
    pub(super) guards: Vec<Bytes>,
    pub(super) own: Vec<Bytes>,
    /// It was asked for what makes a segment fail that is given up.
    pub(super) may_give_up: Cell<bool>,
    /// How many segments the server skipped because a guard in front of them failed.
    pub(super) skipped: u64,
}

impl Observed {
    pub(super) fn new(mutation: Option<Own>) -> Observed {
        Observed {
            inner: Postgres::new(TransactionStatus::Idle),
            mutation,
            struck: false,
            identity: (0, 0),
            lent: false,
            is_first: false,
            guards: Vec::new(),
            // In place of the rest of a segment that is given up.
            own: vec![execute::failing().freeze()],
            may_give_up: Cell::new(false),
            skipped: 0,
        }
    }

    pub(super) fn identify(&mut self, process_id: i32, unique: u64) {
        self.identity = (process_id, unique);
        self.inner.identify(process_id, unique);
    }

    /// The session changes hands: from now on it is lent exclusively, or shared.
    pub(super) fn hand_over(&mut self, lent: bool) {
        self.lent = lent;
        match lent {
            true => self.inner.lend(),
            false => self.inner.share(),
        }
    }

    /// Whether the mutation was applied.
    pub(super) fn has_struck(&self) -> bool {
        self.struck
    }

    /// Whether the run has this mutation and can apply it now.
    fn strikes(&mut self, mutation: Own, occasion: bool) -> bool {
        let strikes = self.mutation == Some(mutation) && occasion;
        self.struck |= strikes;
        strikes
    }

    fn awaits_reset(&self) -> bool {
        self.inner.is_resetting() && !self.inner.is_reset_owed()
    }

    /// Forgets that a reset is owed.
    fn take_for_reset(&mut self) {
        self.inner = Postgres::new(self.inner.status());
        self.inner.identify(self.identity.0, self.identity.1);
        self.hand_over(self.lent);
    }
}

impl Deref for Observed {
    type Target = Postgres;

    fn deref(&self) -> &Postgres {
        &self.inner
    }
}

impl DerefMut for Observed {
    fn deref_mut(&mut self) -> &mut Postgres {
        &mut self.inner
    }
}

impl Protocol for Observed {
    type Expect = Expect;
    type Event = Event;
    const SYNC: &'static [u8] = Postgres::SYNC;
    const FLUSH: &'static [u8] = Postgres::FLUSH;
    const TERMINATE: &'static [u8] = Postgres::TERMINATE;

    fn step(&mut self, input: &[u8], head: Option<&mut Expect>) -> Result<Step<Event>, Violation> {
        let awaited = self.awaits_reset();
        let step = self.inner.step(input, head);
        self.skipped += u64::from(matches!(step, Ok(Step::Skipped(_))));
        let failed = awaited && self.inner.is_reset_owed();
        if self.strikes(Own::FailedResetIsDone, failed) {
            self.take_for_reset();
        }
        step
    }

    fn skip(&mut self, expect: &mut Expect) {
        self.inner.skip(expect);
    }

    fn heal(&mut self, expect: &mut Expect, out: &mut BytesMut) {
        self.inner.heal(expect, out);
    }

    fn write_failing(&self, out: &mut BytesMut) -> Option<Expect> {
        self.may_give_up.set(true);
        self.inner.write_failing(out)
    }

    fn heal_len(&self, expect: &Expect) -> usize {
        self.inner.heal_len(expect)
    }

    fn restart(&mut self, expect: &mut Expect) {
        self.inner.restart(expect);
    }

    fn owes(&self, idle: bool) -> bool {
        self.inner.owes(idle)
    }

    fn takes_owed_along(&self, expect: &Expect) -> bool {
        self.inner.takes_owed_along(expect)
    }

    fn write_owed(&mut self, out: &mut BytesMut) -> Option<Expect> {
        let before = out.len();
        self.is_first = self.inner.is_reset_owed();
        let expect = self.inner.write_owed(out);
        keep(&mut self.own, &out[before..]);
        expect
    }

    fn one_segment(&self) -> bool {
        self.inner.one_segment()
    }

    fn may_begin(&self, expect: &Expect) -> bool {
        let guards_all = self.mutation == Some(Own::GuardedQuery) && self.awaits_reset();
        guards_all || self.inner.may_begin(expect)
    }

    fn begin(&mut self, expect: &mut Expect, begins: bool, out: &mut BytesMut) {
        let awaited = self.awaits_reset();
        let is_first = std::mem::take(&mut self.is_first) && awaited;
        let may = self.inner.may_begin(expect);
        self.strikes(Own::GuardedQuery, begins && awaited && !may);
        if self.strikes(Own::ForgottenChange, is_first) || self.strikes(Own::TakenForHarmless, true)
        {
            *expect = expect.leaves_nothing();
        }
        let unguarded = self.strikes(Own::NoGuard, begins && awaited);
        let before = out.len();
        self.inner.begin(expect, begins && !unguarded, out);
        keep(&mut self.guards, &out[before..]);
    }

    fn begin_len(&self) -> usize {
        self.inner.begin_len()
    }

    fn reason_to_skip(&mut self, error: Bytes) -> Bytes {
        self.inner.reason_to_skip(error)
    }

    fn is_skipped(&self, expect: &Expect) -> bool {
        self.inner.is_skipped(expect)
    }
}

fn keep(all: &mut Vec<Bytes>, bytes: &[u8]) {
    if !bytes.is_empty() && !all.iter().any(|known| known == bytes) {
        all.push(Bytes::copy_from_slice(bytes));
    }
}
