//! The plan: which faults come, and when. All of it follows from the seed.

use std::time::Duration;

use onetrip_lab::postgres::Shutdown;
use onetrip_lab::proxy::Direction;

use crate::random::Random;

/// A kind of fault.
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
    /// The server ends the connections of the client (`CLIENT KILL`).
    ClientsKilled,
    /// The server ends one session (`pg_terminate_backend`).
    SessionEnded,
    /// Some hash slots are moved to another node with their keys, while they are used.
    SlotsMoved,
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
    /// The server is stopped in an orderly way, and started again.
    Restart,
    /// The server is killed, and started again after a while.
    ServerKilled,
    /// A replica is killed, and started again.
    ReplicaKilled,
    /// A master is killed once its replica has all that was acknowledged; the replica takes over.
    MasterKilled,
    /// A master is killed without a word to anybody; its replica takes over by itself.
    MasterCrashed,
    /// All processes of the primary's node are killed, as by a loss of power; a standby takes over.
    NodeKilled,
    /// A planned switchover to a standby.
    SwitchedOver,
    /// The primary's network is cut; a standby takes over.
    NodeCut,
}

impl Kind {
    /// The faults of a PostgreSQL server.
    pub const POSTGRES: [Kind; 9] = [
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

    /// The faults of a PostgreSQL server whose clients own sessions.
    pub const SESSIONS: [Kind; 7] = [
        Kind::Cut,
        Kind::Reset,
        Kind::StallReleased,
        Kind::StallCut,
        Kind::SessionEnded,
        Kind::FastRestart,
        Kind::ImmediateRestart,
    ];

    /// The faults of a Redis server.
    pub const REDIS: [Kind; 7] = [
        Kind::Cut,
        Kind::Reset,
        Kind::StallReleased,
        Kind::StallCut,
        Kind::ClientsKilled,
        Kind::Restart,
        Kind::ServerKilled,
    ];

    /// The faults of a Redis cluster.
    pub const REDIS_CLUSTER: [Kind; 4] =
        [Kind::ClientsKilled, Kind::SlotsMoved, Kind::ReplicaKilled, Kind::MasterKilled];

    /// The faults of a Redis cluster whose masters crash.
    pub const REDIS_CRASHES: [Kind; 3] =
        [Kind::ClientsKilled, Kind::ReplicaKilled, Kind::MasterCrashed];

    /// The faults of a cluster of PostgreSQL servers.
    pub const FAILOVERS: [Kind; 4] =
        [Kind::NodeKilled, Kind::PostmasterKilled, Kind::SwitchedOver, Kind::NodeCut];

    /// Whether the fault takes a second or more.
    fn is_long(self) -> bool {
        self >= Kind::SmartRestart
    }

    /// The mode of the shutdown, for the kinds that shut the server down.
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
pub(crate) struct PlannedFault {
    /// The pause without faults before it.
    pub(crate) pause: Duration,
    pub(crate) kind: Kind,
    pub(crate) direction: Direction,
    /// How many bytes still pass.
    pub(crate) bytes: u64,
    /// The connection that it hits: an index, taken modulo their number. `None` hits all.
    pub(crate) victim: Option<u64>,
    /// How long a stall takes, or the server stays down.
    pub(crate) hold: Duration,
}

/// An endless sequence of faults.
#[derive(Debug)]
pub(crate) struct Plan {
    random: Random,
    kinds: &'static [Kind],
    /// Kinds that have not come yet.
    first: Vec<Kind>,
}

impl Plan {
    pub(crate) fn new(seed: u64, kinds: &'static [Kind]) -> Plan {
        Plan { random: Random::new(seed, u64::MAX), kinds, first: kinds.to_vec() }
    }

    /// The next fault. Each kind comes once before any comes again.
    pub(crate) fn next(&mut self) -> PlannedFault {
        let kind = self.kind();
        let random = &mut self.random;
        PlannedFault {
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
        // A restart takes a second, so faults of the network are four times as frequent.
        let long = self.random.one_in(5);
        let kinds: Vec<_> =
            self.kinds.iter().copied().filter(|kind| kind.is_long() == long).collect();
        kinds[self.random.below(kinds.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_comes_before_any_comes_again() {
        const OF: [&[Kind]; 5] = [
            &Kind::POSTGRES,
            &Kind::SESSIONS,
            &Kind::REDIS,
            &Kind::REDIS_CLUSTER,
            &Kind::REDIS_CRASHES,
        ];
        for (seed, of) in (0..20).flat_map(|seed| OF.map(|of| (seed, of))) {
            let mut plan = Plan::new(seed, of);
            let mut kinds: Vec<_> = of.iter().map(|_| plan.next().kind).collect();
            kinds.sort();
            assert_eq!(kinds, of);
        }
    }

    #[test]
    fn a_seed_repeats_its_plan() {
        let of = |seed| {
            let mut plan = Plan::new(seed, &Kind::POSTGRES);
            (0..50).map(|_| format!("{:?}", plan.next())).collect::<Vec<_>>()
        };
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
    }
}
