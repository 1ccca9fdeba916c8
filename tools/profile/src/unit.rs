//! Trips, and the units of work that they belong to.

use crate::exchange::{Exchange, Kind, Shared};
use crate::piece::{Legs, Nanos, Side};
use crate::value::Value;
use crate::wire::{Decoder, Opaque, Out};

/// From the first byte of a request with nothing in flight until all replies are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trip {
    pub(crate) begin: Nanos,
    pub(crate) end: Nanos,
    pub(crate) up: u64,
    pub(crate) down: u64,
    /// Exchanges in it.
    pub(crate) exchanges: u32,
}

/// What told a unit from the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Boundary {
    /// The first of its connection.
    First,
    /// Another trace in a comment.
    Trace,
    /// An explicit transaction began or ended.
    Transaction,
    /// A pool gave the connection to another user.
    Pool,
    /// It began to wait for work, as a worker of a queue does.
    Wait,
    /// The program did something else for long.
    Gap,
    /// It became too long to be kept.
    Length,
}

/// What a program did on a connection between two boundaries.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(crate) boundary: Boundary,
    pub(crate) exchanges: Vec<Exchange>,
    pub(crate) trips: Vec<Trip>,
    /// The least round trips of its connection.
    pub(crate) legs: Legs,
    pub(crate) is_redis: bool,
}

/// How long gaps between trips are.
#[derive(Debug)]
pub(crate) struct Gaps {
    counts: [u64; BUCKETS],
    threshold: Nanos,
    total: u64,
}

/// Four buckets for each doubling.
const BUCKETS: usize = 256;
/// The least gap that divides units.
const GAP_MIN: Nanos = 5_000_000;

impl Default for Gaps {
    fn default() -> Gaps {
        Gaps { counts: [0; BUCKETS], threshold: GAP_MIN, total: 0 }
    }
}

impl Gaps {
    fn add(&mut self, gap: Nanos) {
        self.counts[bucket(gap)] += 1;
        self.total += 1;
        // Often in the beginning, and then now and then.
        if self.total.is_power_of_two() || self.total.is_multiple_of(1024) {
            self.threshold = self.valley();
        }
    }

    /// Where gaps are rarest between those of work and those of rest, of which there is a peak
    /// each; at least 5 ms.
    fn valley(&self) -> Nanos {
        let least = bucket(GAP_MIN);
        let smooth: Vec<u64> = (0..BUCKETS)
            .map(|at| self.counts[at.saturating_sub(2)..(at + 3).min(BUCKETS)].iter().sum())
            .collect();
        let peak = |from: usize, to: usize| (from..to).max_by_key(|at| smooth[*at]);
        let (Some(work), Some(rest)) = (peak(0, least), peak(least, BUCKETS)) else {
            return GAP_MIN;
        };
        if smooth[rest] == 0 {
            return GAP_MIN;
        }
        let lowest = (work.max(least)..=rest).min_by_key(|at| smooth[*at]).unwrap_or(least);
        start_of(lowest).max(GAP_MIN)
    }
}

fn bucket(gap: Nanos) -> usize {
    let gap = gap.max(1);
    let doublings = gap.ilog2();
    let rest = if doublings < 2 { 0 } else { (gap >> (doublings - 2)) & 3 };
    (doublings as usize * 4 + rest as usize).min(BUCKETS - 1)
}

fn start_of(bucket: usize) -> Nanos {
    let (doublings, rest) = (bucket / 4, bucket as u64 % 4);
    (1_u64 << doublings) + rest * (1_u64 << doublings) / 4
}

/// Exchanges of one unit, and when memory is short.
const UNIT_MAX: usize = 2_000;
const UNIT_TIGHT: usize = 16;

/// One connection, from its bytes to its units.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) decoder: Decoder,
    trip: Option<Trip>,
    /// Exchanges that ended in the trip.
    ended: Vec<Exchange>,
    unit: Option<Unit>,
    last_end: Option<Nanos>,
    pub(crate) legs: Legs,
    pub(crate) trips: u64,
    pub(crate) logins: u64,
    pub(crate) is_cancel: bool,
    /// The server owed an answer in the trip.
    was_owed: bool,
    /// The server has answered since the client spoke, of what can't be read.
    has_answered: bool,
    /// Bytes were not seen, so at least a part could not be read.
    was_lost: bool,
    now: Nanos,
    /// It was taken up again, and whether rightly is seen when a trip has ended.
    is_on_trial: bool,
    /// Bytes of memory that it was charged with, and of those its unit.
    held: usize,
    unit_held: usize,
}

impl Conversation {
    pub(crate) fn new() -> Conversation {
        Conversation {
            decoder: Decoder::New,
            trip: None,
            ended: Vec::new(),
            unit: None,
            last_end: None,
            legs: Legs::default(),
            trips: 0,
            logins: 0,
            is_cancel: false,
            was_owed: false,
            has_answered: false,
            was_lost: false,
            now: 0,
            is_on_trial: false,
            held: 0,
            unit_held: 0,
        }
    }

    /// Reads bytes, and hands over a unit that has ended.
    pub(crate) fn read(
        &mut self,
        shared: &mut Shared,
        gaps: &mut Gaps,
        (at, from, bytes): (Nanos, Side, &[u8]),
    ) -> Option<Unit> {
        if bytes.is_empty() {
            return None;
        }
        // A source may know times less well than the order.
        let at = at.max(self.now);
        self.now = at;
        let mut unit = None;
        // Of what can't be read, a trip ends with the last answer before the client speaks again.
        let was_blind = self.decoder.in_flight().is_none();
        if from == Side::Client && was_blind && std::mem::take(&mut self.has_answered) {
            unit = self.end_trip(shared, gaps);
        }
        let mut out = Out { ended: std::mem::take(&mut self.ended), ..Out::default() };
        self.decoder.read(shared, at, from, bytes, &mut out);
        self.ended = out.ended;
        self.is_cancel |= out.is_cancel;
        self.was_lost |= matches!(self.decoder, Decoder::Lost(_));
        self.is_on_trial |= was_blind && self.decoder.in_flight().is_some();
        if self.is_cancel {
            // It is no work of the program's, and neither is what asked for its encryption.
            (self.trip, self.unit, self.trips, self.logins) = (None, None, 0, 0);
            self.ended.clear();
            return None;
        }
        let ended = match from {
            Side::Client => self.client_spoke(shared, gaps, at, bytes.len()),
            Side::Server => self.server_spoke(shared, gaps, at, bytes.len()),
        };
        self.charge(shared);
        unit.or(ended)
    }

    /// Accounts for the memory that it holds now.
    fn charge(&mut self, shared: &mut Shared) {
        let now = self.decoder.held() + self.unit_held;
        shared.memory.change(self.held, now);
        self.held = now;
    }

    fn client_spoke(
        &mut self,
        shared: &Shared,
        gaps: &mut Gaps,
        at: Nanos,
        len: usize,
    ) -> Option<Unit> {
        if self.decoder.in_flight() == Some(0) {
            // What was sent is not answered. All before it was, maybe while this was not whole.
            if std::mem::take(&mut self.was_owed) {
                return self.end_trip(shared, gaps);
            }
            self.trip = None;
            return None;
        }
        let trip =
            self.trip.get_or_insert(Trip { begin: at, end: at, up: 0, down: 0, exchanges: 0 });
        trip.up += len as u64;
        self.was_owed |= self.decoder.is_owed();
        None
    }

    fn server_spoke(
        &mut self,
        shared: &mut Shared,
        gaps: &mut Gaps,
        at: Nanos,
        len: usize,
    ) -> Option<Unit> {
        let trip = self.trip.as_mut()?;
        trip.end = at;
        trip.down += len as u64;
        match self.decoder.in_flight() {
            Some(0) => self.end_trip(shared, gaps),
            Some(_) => None,
            None => {
                self.has_answered = true;
                None
            }
        }
    }

    fn end_trip(&mut self, shared: &Shared, gaps: &mut Gaps) -> Option<Unit> {
        let mut trip = self.trip.take()?;
        self.was_owed = false;
        self.trips += 1;
        let mut exchanges = std::mem::take(&mut self.ended);
        if std::mem::take(&mut self.is_on_trial) {
            exchanges.clear();
        }
        trip.exchanges = exchanges.len() as u32;
        let gap = self.last_end.map(|end| trip.begin.saturating_sub(end));
        let boundary = self.boundary(shared, gaps, &exchanges, gap);
        if let Some(gap) = gap {
            gaps.add(gap);
        }
        self.last_end = Some(trip.end);
        self.logins = self.logins.max(u64::from(exchanges.iter().any(|it| it.kind == Kind::Login)));
        let ended = if boundary.is_some() { self.unit.take() } else { None };
        if ended.is_some() {
            self.unit_held = 0;
        }
        self.unit_held += size_of::<Trip>() + exchanges.iter().map(Exchange::held).sum::<usize>();
        let unit = self.unit.get_or_insert_with(|| Unit {
            boundary: boundary.unwrap_or(Boundary::First),
            exchanges: Vec::new(),
            trips: Vec::new(),
            legs: self.legs,
            is_redis: self.decoder.is_redis(),
        });
        unit.legs = self.legs;
        unit.is_redis = self.decoder.is_redis();
        unit.exchanges.extend(exchanges);
        unit.trips.push(trip);
        ended
    }

    /// What tells the exchanges of a trip from the unit before them; `None` if they belong to it.
    fn boundary(
        &self,
        shared: &Shared,
        gaps: &Gaps,
        exchanges: &[Exchange],
        gap: Option<Nanos>,
    ) -> Option<Boundary> {
        let unit = self.unit.as_ref()?;
        let has_paused = gap.is_some_and(|gap| gap > gaps.threshold).then_some(Boundary::Gap);
        let (len, is_tight) =
            (unit.exchanges.len().max(unit.trips.len()), shared.memory.is_tight());
        if len >= UNIT_MAX || (is_tight && len >= UNIT_TIGHT) {
            return Some(Boundary::Length);
        }
        if unit.exchanges.last().is_some_and(|last| last.in_transaction) {
            return None;
        }
        let (Some(last), Some(first)) = (unit.exchanges.last(), exchanges.first()) else {
            return has_paused;
        };
        // It goes on with what it began before, as a COPY does with its data.
        if unit.trips.last().is_some_and(|trip| first.begin < trip.end) {
            return None;
        }
        if last.kind == Kind::Login {
            return (first.kind != Kind::Login).then_some(Boundary::First);
        }
        let trace = |of: &[Exchange]| -> Option<Value> { of.iter().find_map(|it| it.trace) };
        match (trace(&unit.exchanges), trace(exchanges)) {
            (Some(old), Some(new)) if old == new => return None,
            (Some(_), Some(_)) => return Some(Boundary::Trace),
            _ => {}
        }
        let is_boundary = |it: &Exchange| shared.texts.get(it.text).is_boundary;
        let is_ping = first.kind == Kind::Ping && is_boundary(first);
        if is_boundary(last) && last.kind != Kind::Ping || is_ping {
            return Some(Boundary::Pool);
        }
        // BLPOP and its kin, XREAD BLOCK and its kin; and not what waits for messages.
        let pops = || shared.texts.get(first.text).text.starts_with(['B', 'X']);
        if first.kind == Kind::Wait && last.kind != Kind::Wait && pops() {
            return Some(Boundary::Wait);
        }
        // In Redis MULTI and EXEC are a way to send, and WATCH begins what they end.
        let is_transaction = if self.decoder.is_redis() {
            first.kind == Kind::Watch && last.kind != Kind::Watch
        } else {
            let ends = matches!(last.kind, Kind::Commit | Kind::Rollback);
            // A driver that tidies up behind a transaction does so for it, and what is sent in front
            // of one alone is sent for it as well.
            let tidies = first.kind == Kind::Session
                && shared.texts.get(first.text).text.starts_with("deallocate");
            let leads = |it: &Exchange| {
                matches!(it.kind, Kind::Ping | Kind::Session | Kind::Prepare) && !it.in_transaction
            };
            let is_led = || unit.exchanges.iter().all(leads);
            first.kind == Kind::Begin && !is_led() || (ends && !tidies && !is_boundary(first))
        };
        if is_transaction {
            return Some(Boundary::Transaction);
        }
        has_paused
    }

    /// The connection is over: its last unit.
    pub(crate) fn close(&mut self, shared: &mut Shared, gaps: &mut Gaps) -> Vec<Unit> {
        shared.memory.change(self.held, 0);
        self.held = 0;
        let mut units = Vec::new();
        if self.has_answered {
            units.extend(self.end_trip(shared, gaps));
        }
        units.extend(self.unit.take());
        units
    }

    pub(crate) fn opaque(&self) -> Option<Opaque> {
        self.decoder.opaque().or(self.was_lost.then_some(Opaque::Incomplete))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_and_rest_are_told_apart_at_the_valley_between_them() {
        let mut gaps = Gaps::default();
        for at in 0..1000_u64 {
            gaps.add(100_000 + at % 7 * 50_000);
            gaps.add(200_000_000 + at % 7 * 20_000_000);
        }
        assert!((5_000_000..200_000_000).contains(&gaps.threshold), "{}", gaps.threshold);
    }

    #[test]
    fn without_rests_units_are_divided_at_5_ms() {
        let mut gaps = Gaps::default();
        (0..100).for_each(|_| gaps.add(300_000));
        assert_eq!(gaps.threshold, GAP_MIN);
    }

    #[test]
    fn buckets_begin_where_they_say() {
        for at in [4, 5, 7, 1000, 5_000_000, u64::MAX >> 1] {
            let begin = start_of(bucket(at));
            assert!(begin <= at && at - begin <= at / 4, "{at}: {begin}");
        }
    }
}
