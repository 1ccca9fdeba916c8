//! What goes wrong, and when: all of it from the seed.

use std::time::Duration;

use onetrip_lab::postgres::Shutdown;
use onetrip_lab::proxy::Direction;

use crate::random::Random;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An orderly end of stream after some bytes.
    Cut,
    /// A reset after some bytes.
    Reset,
    /// Nothing passes in one direction for a while.
    StallReleased,
    /// Nothing passes in one direction for a while, and then the connection is cut.
    StallCut,
    /// A smart shutdown; sessions that stay are cut after a while.
    SmartRestart,
    /// A fast shutdown.
    FastRestart,
    /// An immediate shutdown: a crash.
    ImmediateRestart,
    /// The postmaster is killed.
    PostmasterKilled,
    /// The process of one session is killed, and the server recovers.
    BackendKilled,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 9] = [
        Kind::Cut,
        Kind::Reset,
        Kind::StallReleased,
        Kind::StallCut,
        Kind::SmartRestart,
        Kind::FastRestart,
        Kind::ImmediateRestart,
        Kind::PostmasterKilled,
        Kind::BackendKilled,
    ];

    /// How the server goes, for those kinds for which it does.
    pub(crate) fn shutdown(self) -> Option<Shutdown> {
        match self {
            Kind::SmartRestart => Some(Shutdown::Smart),
            Kind::FastRestart => Some(Shutdown::Fast),
            Kind::ImmediateRestart => Some(Shutdown::Immediate),
            Kind::PostmasterKilled => Some(Shutdown::Killed),
            _ => None,
        }
    }
}

/// One fault.
#[derive(Clone, Debug)]
pub(crate) struct Strike {
    /// How long all is well before.
    pub(crate) pause: Duration,
    pub(crate) kind: Kind,
    pub(crate) direction: Direction,
    /// How many bytes still pass.
    pub(crate) bytes: u64,
    /// Which connection of those there are, counted round; `None` for all.
    pub(crate) victim: Option<u64>,
    /// How long a stall takes, or the server is away.
    pub(crate) hold: Duration,
}

/// Faults without end.
#[derive(Debug)]
pub(crate) struct Plan {
    random: Random,
    /// Kinds that have not come yet.
    first: Vec<Kind>,
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Plan {
        Plan { random: Random::new(seed, u64::MAX), first: Kind::ALL.to_vec() }
    }

    /// Each kind comes once before any comes again.
    pub(crate) fn next(&mut self) -> Strike {
        let kind = self.kind();
        let random = &mut self.random;
        Strike {
            pause: Duration::from_millis(20 + random.below(130)),
            kind,
            direction: if random.one_in(2) { Direction::Up } else { Direction::Down },
            bytes: if random.one_in(4) { 0 } else { random.below(3000) },
            victim: (!random.one_in(3)).then(|| random.below(1 << 32)),
            hold: Duration::from_millis(random.below(250)),
        }
    }

    fn kind(&mut self) -> Kind {
        if !self.first.is_empty() {
            let index = self.random.below(self.first.len() as u64);
            return self.first.swap_remove(index as usize);
        }
        // A restart takes a second, so what befalls the line is four times as frequent.
        let line = !self.random.one_in(5);
        let kinds: Vec<_> =
            Kind::ALL.into_iter().filter(|kind| (*kind < Kind::SmartRestart) == line).collect();
        kinds[self.random.below(kinds.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_comes_before_any_comes_again() {
        for seed in 0..20 {
            let mut plan = Plan::new(seed);
            let mut kinds: Vec<_> = Kind::ALL.iter().map(|_| plan.next().kind).collect();
            kinds.sort();
            assert_eq!(kinds, Kind::ALL);
        }
    }

    #[test]
    fn a_seed_repeats_its_plan() {
        let of = |seed| {
            let mut plan = Plan::new(seed);
            (0..50).map(|_| format!("{:?}", plan.next())).collect::<Vec<_>>()
        };
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
    }
}
