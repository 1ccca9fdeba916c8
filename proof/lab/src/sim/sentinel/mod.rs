//! The simulation of Redis Sentinel: the client's policy ([`onetrip_redis::client::sentinel`])
//! among [model] Sentinels that are cut off, know old masters, lose their memory or fall silent,
//! and servers that crash, come back as they were, and are demoted late. In each run:
//!
//! * after a Sentinel told of a newer master, nothing is written to an older one, unless no Sentinel
//!   knows of the newer one any more;
//! * the Sentinels are asked before a master whose connection was lost is connected to again;
//! * nothing is written to a server that said, when it was connected to, that it is a replica;
//! * the client is connected to the master once a majority of the Sentinels can be reached and
//!   knows it, within a bound;
//! * no Sentinel is asked more often than a bound, and the client comes to rest.

mod events;
mod host;
mod model;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use onetrip_engine::Time;
use onetrip_redis::client::login::Login;
use onetrip_redis::client::sentinel::{Limits, LineId, Sentinels, Settings};
use onetrip_redis::redirect::Address;

use super::{FailedSeed, Report, Run, Trace, sweep_of};
use crate::seeded::Rng;
use events::Event;
use host::Connection;
use model::{Sentinel, Server};

/// A mistake of the client, or of the code that drives its policy. The checks must notice each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfSentinel {
    /// The connection to the old master is kept when a newer one is learned.
    KeepsTheOld,
    /// The role of a server is not asked for.
    NoRole,
    /// The last answer counts as the newest.
    LastAnswer,
    /// The loss of a connection is not reported.
    NoLoss,
    /// There are no pauses between rounds.
    NoPauses,
}

impl OfSentinel {
    /// All of them.
    pub const ALL: [OfSentinel; 5] = [
        OfSentinel::KeepsTheOld,
        OfSentinel::NoRole,
        OfSentinel::LastAnswer,
        OfSentinel::NoLoss,
        OfSentinel::NoPauses,
    ];
}

struct World {
    rng: Rng,
    now: Time,
    /// What happens when; the number keeps the order of what happens at once.
    events: BTreeMap<(Time, u64), Event>,
    scheduled: u64,
    sentinels: Vec<Sentinel>,
    servers: Vec<Server>,
    master: usize,
    epoch: u64,
    client: Sentinels,
    lines: HashMap<LineId, usize>,
    /// Lines that have answered, on which announcements come.
    subscribed: HashSet<LineId>,
    connection: Connection,
    /// The newest epoch that a Sentinel told the client, and that one still knows.
    learned: u64,
    /// Since when the client should be able to find the master.
    findable_since: Option<Time>,
    was_connected: bool,
    /// The use number of the connection that was lost last, and when.
    lost: Option<(u64, Time)>,
    last_asked: Time,
    configured: usize,
    asked: HashMap<Address, Vec<Time>>,
    mutation: Option<OfSentinel>,
    findings: Vec<String>,
    report: Report,
    trace: Trace,
}

/// How long things go wrong, and how long nothing does, at the end.
const CHAOS: Duration = Duration::from_secs(60);
const CALM: Duration = Duration::from_secs(15);

/// How soon the client must be connected to a master that a reachable majority knows: a round that
/// nobody asked for comes after 5 s at the latest, a Sentinel or a server that is silent takes a
/// second each, and a pause lasts up to a second.
const FOUND_WITHIN: Duration = Duration::from_secs(10);

/// How often a Sentinel may be asked in ten seconds: pauses grow to a second and are shortened by
/// up to half, so 20 times, and a few times more after what makes them begin anew.
const ASKED_MAX: usize = 36;

/// Runs one seed.
#[must_use]
pub fn run_sentinel(seed: u64, mutation: Option<OfSentinel>, trace: Trace) -> Run {
    World::new(seed, mutation, trace).live()
}

/// Runs `count` seeds from `from` on; as [`sweep`](super::sweep).
///
/// # Errors
/// The smallest of the seeds that failed before the others stopped.
pub fn sweep_sentinel(
    from: u64,
    count: u64,
    progress: impl Fn(u64) + Sync,
) -> Result<Report, FailedSeed> {
    sweep_of(from, count, SENTINEL_OPTION, |seed| run_sentinel(seed, None, None), progress)
}

/// What goes to `make sim` to watch a seed.
pub const SENTINEL_OPTION: &str = " SENTINEL=1";

impl World {
    fn new(seed: u64, mutation: Option<OfSentinel>, trace: Trace) -> World {
        let mut rng = Rng::new(seed);
        let sentinels: Vec<Sentinel> = (0..rng.pick(&[3, 3, 5])).map(Sentinel::new).collect();
        let servers: Vec<Server> = (0..3).map(Server::new).collect();
        let configured = rng.up_to(sentinels.len());
        let pause = match mutation {
            Some(OfSentinel::NoPauses) => (Duration::ZERO, Duration::ZERO),
            _ => Limits::default().pause,
        };
        let refresh_every = Duration::from_secs(5);
        let settings = Settings {
            name: "mymaster".into(),
            sentinels: sentinels[..configured].iter().map(|it| it.address.clone()).collect(),
            login: Login::default(),
            wants_replicas: true,
            limits: Limits { refresh_every, pause, ..Limits::default() },
        };
        World {
            client: Sentinels::new(settings, rng.next()),
            rng,
            now: Time::ZERO,
            events: BTreeMap::new(),
            scheduled: 0,
            sentinels,
            servers,
            master: 0,
            epoch: 0,
            lines: HashMap::new(),
            subscribed: HashSet::new(),
            connection: Connection::None,
            learned: 0,
            findable_since: None,
            was_connected: false,
            lost: None,
            last_asked: Time::ZERO,
            configured,
            asked: HashMap::new(),
            mutation,
            findings: Vec::new(),
            report: Report::default(),
            trace,
        }
    }

    fn live(mut self) -> Run {
        self.report.count("runs");
        let end = Time::ZERO.after(CHAOS).after(CALM);
        self.schedule(0, Event::Write);
        self.schedule(1, Event::Trouble);
        self.schedule(CHAOS.as_millis() as u64, Event::Calm);
        while self.findings.is_empty() {
            self.drive();
            let next = self.events.first_key_value().map_or(Time::NEVER, |((time, _), _)| *time);
            let due = self.client.poll_deadline().unwrap_or(Time::NEVER).max(self.now);
            self.now = next.min(due);
            if self.now > end {
                break;
            }
            match next <= due {
                true => {
                    if let Some((_, event)) = self.events.pop_first() {
                        self.happen(event);
                    }
                }
                false => self.client.handle_time(self.now),
            }
            self.check_found();
        }
        let mutated = self.mutation.is_some();
        Run { findings: self.findings, report: self.report, mutated }
    }

    fn schedule(&mut self, after_ms: u64, event: Event) {
        self.scheduled += 1;
        let time = self.now.after(Duration::from_millis(after_ms));
        self.events.insert((time, self.scheduled), event);
    }

    /// A master that a reachable majority knows must be found.
    fn check_found(&mut self) {
        let knows = |it: &&Sentinel| it.is_reached && it.epoch == self.epoch && !it.is_blank;
        let knowing = self.sentinels.iter().filter(knows).count();
        let can_begin = self.sentinels[..self.configured].iter().any(|it| it.is_reached);
        let master = &self.servers[self.master];
        let findable = knowing > self.sentinels.len() / 2
            && (can_begin || self.was_connected)
            && master.is_open()
            && master.is_master;
        let is_found =
            matches!(self.connection, Connection::Open { server, .. } if server == self.master);
        match findable && !is_found {
            false => self.findable_since = None,
            true => {
                let since = *self.findable_since.get_or_insert(self.now);
                if self.now.since(since) > FOUND_WITHIN {
                    let why = self.client.explain();
                    self.find(format!("the master was not found in time: {why}"));
                }
            }
        }
    }

    fn find(&mut self, finding: String) {
        let finding = format!("{} ms: {finding}", self.now.as_nanos() / 1_000_000);
        self.say(&finding);
        self.findings.push(finding);
    }

    fn say(&mut self, line: &str) {
        if let Some(trace) = &mut self.trace {
            trace(&format!("{:>6} ms  {line}", self.now.as_nanos() / 1_000_000));
        }
    }
}
