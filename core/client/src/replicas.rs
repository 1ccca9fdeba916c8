//! Reads on replicas as the host carries them out: which server each read goes to, what guards have
//! shown, and what is known of the position of the client's own writes.
//! [`onetrip_postgres::client::replicas`] decides. The host has a pool for each replica beside that
//! of the primary, passes their outlooks in, and does each [`Step`].

use std::time::Duration;

use onetrip_engine::{NumberMap, Outcome, Time};
use onetrip_postgres::client::moving::{Moving, Step};
use onetrip_postgres::client::position::{Newest, Position, Wanted};
use onetrip_postgres::client::replicas::{
    Guarded, Limits, Outlook, Read, ReadCounts, Reads, Replicas as Policy, Report, Status,
};

use crate::completion::{kind, uncertain};

/// The replicas of one client.
#[derive(Debug)]
pub struct Replicas {
    policy: Policy,
    newest: Newest,
    reads: Reads,
    /// How long a read waits for a replica that may only go to one.
    wait_timeout: Duration,
    primary: Outlook,
    outlooks: Vec<Outlook>,
    /// The reads that may still go elsewhere, by number.
    moving: NumberMap<u32, Moving>,
    last: u32,
}

impl Replicas {
    /// This many replicas, of which nothing is known. `reads` is the place of the setting's word in
    /// [`Reads::ALL`]; `max_lag` zero is no limit.
    pub fn new(count: usize, reads: usize, max_lag: Duration, wait_timeout: Duration) -> Replicas {
        let max_lag = Some(max_lag).filter(|it| !it.is_zero());
        Replicas {
            policy: Policy::new(count, Limits { max_lag, ..Limits::default() }),
            newest: Newest::default(),
            reads: Reads::ALL.get(reads).copied().unwrap_or_default(),
            wait_timeout,
            primary: Outlook::default(),
            outlooks: vec![Outlook::default(); count],
            moving: NumberMap::default(),
            last: 0,
        }
    }

    // --- reads ---

    /// A read that must show this client's own writes. Returns its number, for the functions below.
    /// `bound`: how long it waits for a replica; `None` is the default.
    pub fn begin_own(&mut self, now: Time, bound: Option<Duration>, deadline: Time) -> u32 {
        let wanted = self.newest.wanted();
        self.begin(now, wanted, bound, deadline)
    }

    /// The same for a read that must show writes up to this position.
    pub fn begin_after(
        &mut self,
        now: Time,
        position: Position,
        bound: Option<Duration>,
        deadline: Time,
    ) -> u32 {
        self.begin(now, Wanted::At(position), bound, deadline)
    }

    /// The same for a read that shows whatever a replica has.
    pub fn begin_stale(&mut self, now: Time, bound: Option<Duration>, deadline: Time) -> u32 {
        self.begin(now, Wanted::Nothing, bound, deadline)
    }

    fn begin(&mut self, now: Time, wanted: Wanted, bound: Option<Duration>, deadline: Time) -> u32 {
        let bound = bound.or((self.reads == Reads::Replica).then_some(self.wait_timeout));
        let until = bound.map_or(Time::ZERO, |bound| now.after(bound));
        let read = Read { reads: self.reads, wanted, until };
        loop {
            self.last = self.last.wrapping_add(1);
            if self.last != 0 && !self.moving.contains_key(&self.last) {
                self.moving.insert(self.last, Moving::new(read, deadline));
                return self.last;
            }
        }
    }

    /// The outlook of the primary's pool, or of that of replica `at`, for the next
    /// [`step`](Self::step).
    pub fn see(&mut self, at: Option<usize>, outlook: Outlook) {
        match at {
            None => self.primary = outlook,
            Some(at) => _ = self.outlooks.get_mut(at).map(|it| *it = outlook),
        }
    }

    /// What a read does next: asked for when it is made, behind each pause, and where
    /// [`ended`](Self::ended) says that it goes on. Of one that goes to the primary or fails the
    /// number is free again.
    pub fn step(&mut self, now: Time, read: u32) -> Step {
        let Some(moving) = self.moving.get_mut(&read) else { return Step::Primary };
        let newest = self.newest.wanted();
        let step = moving.step(now, &mut self.policy, newest, &self.outlooks, self.primary);
        if moving.is_settled() {
            self.moving.remove(&read);
        }
        step
    }

    /// How long a read waits at [`Step::Pause`].
    pub fn pause(&self) -> Duration {
        self.policy.retry_pause()
    }

    /// The position that a read must show, where it needs a guard on a replica.
    pub fn position_of(&self, read: u32) -> Option<Position> {
        match self.moving.get(&read)?.wanted() {
            Wanted::At(position) => Some(position),
            Wanted::Nothing | Wanted::Unknown => None,
        }
    }

    /// A read has ended on a replica, whether well or not. Whether it goes on with another
    /// [`step`](Self::step); if not, this end is its caller's, and the number is free again.
    /// `skipped`: it ended as `ABORTED`, behind its guard. `is_final`: its caller's deadline or
    /// cancel ended it, or the client is closed.
    pub fn ended(
        &mut self,
        now: Time,
        read: u32,
        outcome: Option<Outcome>,
        (skipped, is_final): (bool, bool),
    ) -> bool {
        let goes_on = match (self.moving.get_mut(&read), outcome) {
            (Some(moving), Some(outcome)) => moving.ended(now, outcome, skipped, is_final),
            _ => false,
        };
        if !goes_on {
            self.forget(read);
        }
        goes_on
    }

    /// Nobody waits for a read any more.
    pub fn forget(&mut self, read: u32) {
        self.moving.remove(&read);
    }

    /// A guard has ended on replica `at`: the record is one of `GUARD_PASSED`, `GUARD_BEHIND` and
    /// `GUARD_FAILED`.
    pub fn guard_ended(&mut self, now: Time, (at, read): (usize, u32), kind: u32, a: u32, b: u32) {
        let Some(position) = self.position_of(read) else { return };
        let told = Some(u64::from(a) << 32 | u64::from(b)).filter(|it| *it > 0);
        let guarded = match kind {
            kind::GUARD_PASSED => Guarded::Passed(told),
            kind::GUARD_BEHIND => Guarded::Behind(told),
            _ => Guarded::Failed,
        };
        self.policy.handle_guard(now, at, &position, guarded);
    }

    // --- numbers ---

    /// Where reads have gone.
    pub fn counts(&self) -> ReadCounts {
        self.policy.counts()
    }

    /// How a replica stands now.
    pub fn status(&self, now: Time, at: usize) -> Status {
        self.policy.status(now, at)
    }

    // --- probes ---

    /// The replica to probe now, with [`PROBE`](onetrip_postgres::client::replicas::PROBE); asked
    /// behind each [`step`](Self::step), and when the client opens, until there is none.
    pub fn poll_probe(&mut self, now: Time) -> Option<usize> {
        self.policy.poll_probe(now)
    }

    /// A probe has ended: the five texts of its row, or `None` if it failed. `random`: any number.
    pub fn probed(&mut self, now: Time, at: usize, row: Option<[Option<&str>; 5]>, random: u64) {
        self.policy.handle_probe(now, at, row.and_then(Report::read), random);
    }

    /// A replica has lost all its connections.
    pub fn lost(&mut self, now: Time, at: usize, random: u64) {
        self.policy.handle_lost(now, at, random);
    }

    // --- positions ---

    /// A record `UNCERTAIN` of a connection to the primary, with its `a`. Whether
    /// [`losses`](Self::losses) has changed, which all connections to the primary are then to be
    /// marked with.
    pub fn uncertain(&mut self, a: u32) -> bool {
        match a {
            uncertain::LOST => self.newest.handle_lost(),
            a => self.newest.handle_uncertain(a == uncertain::YES),
        }
        a == uncertain::LOST
    }

    /// A record `POSITION` of such a connection, with its `b` and its block.
    pub fn positioned(&mut self, b: u32, token: &[u8]) {
        if let Some(position) = str::from_utf8(token).ok().and_then(|text| text.parse().ok()) {
            self.newest.handle_position(position, b.into());
        }
    }

    /// How often connections were lost whose writes had no known position: the mark of connections
    /// to the primary (`mark_positions`), which a new one is given as well.
    pub fn losses(&self) -> u32 {
        self.newest.losses() as u32
    }

    /// The position behind all writes that were acknowledged, if it is known. If not, the primary is
    /// asked with [`QUESTION`](onetrip_postgres::client::position::QUESTION).
    pub fn newest(&self) -> Option<Position> {
        match self.newest.wanted() {
            Wanted::At(position) => Some(position),
            Wanted::Nothing | Wanted::Unknown => None,
        }
    }
}
