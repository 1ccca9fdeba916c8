//! Reads on replicas: the policy, and a model of replication in which no read may be stale.

use std::collections::BTreeSet;
use std::time::Duration;

use onetrip_engine::{Outcome, Time};
use onetrip_postgres::client::identity::Identity;
use onetrip_postgres::client::moving::{Moving, Step};
use onetrip_postgres::client::position::{Newest, Position, Wanted};
use onetrip_postgres::client::replicas::{
    GuardText, Guarded, Limits, Outlook, Proof, Read, ReadCounts, Reads, Replicas, Report, Route,
    Status,
};

const SYSTEM: u64 = 7;
const OPEN: Outlook =
    Outlook { is_open: true, has_room: true, wait: Duration::from_millis(1), unanswered: 0 };

fn ms(ms: u64) -> Time {
    Time::ZERO.after(Duration::from_millis(ms))
}

fn at(lsn: u64) -> Position {
    Position { system: SYSTEM, timeline: 1, lsn }
}

fn report(timeline: u32, replayed: u64) -> Report {
    let identity = Identity { system: SYSTEM, is_standby: true, timeline };
    Report { identity, replayed: Some(replayed), lag: Some(Duration::ZERO) }
}

/// This many replicas that have replayed up to 100.
fn replicas(count: usize, limits: Limits) -> Replicas {
    let mut replicas = Replicas::new(count, limits);
    while let Some(at) = replicas.poll_probe(ms(1)) {
        replicas.handle_probe(ms(1), at, Some(report(1, 100)), 0);
    }
    replicas
}

/// A read of which nothing is asked.
fn read(reads: Reads) -> Read {
    Read { reads, wanted: Wanted::Nothing, until: Time::ZERO }
}

fn choose(replicas: &mut Replicas, now: Time, reads: Reads, wanted: Wanted) -> Route {
    let outlooks = [OPEN; 4];
    replicas.choose(now, Read { reads, wanted, until: Time::ZERO }, &outlooks, OPEN)
}

#[test]
fn reads_take_turns_and_prefer_the_shorter_wait() {
    let mut replicas = replicas(2, Limits::default());
    let route =
        |replicas: &mut Replicas| choose(replicas, ms(2), Reads::PreferReplica, Wanted::Nothing);
    let turns: BTreeSet<usize> = (0..4)
        .map(|_| match route(&mut replicas) {
            Route::Replica(at) => at,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(turns.len(), 2);
    let slow = Outlook { wait: Duration::from_millis(5), ..OPEN };
    let mut to_slow = 0;
    for _ in 0..64 {
        let outlooks = [slow, OPEN];
        let route = replicas.choose(ms(2), read(Reads::Replica), &outlooks, OPEN);
        to_slow += usize::from(route == Route::Replica(0));
    }
    assert_eq!(to_slow, 2, "a few look whether it is still so slow");
}

#[test]
fn the_primary_helps_out_where_replicas_are_busy_and_it_is_not() {
    let mut replicas = replicas(1, Limits::default());
    let busy = Outlook { has_room: false, wait: Duration::from_millis(5), ..OPEN };
    for (reads, outlook, route) in [
        (Reads::PreferReplica, busy, Route::Primary),
        (Reads::Replica, busy, Route::Replica(0)),
        (Reads::PreferReplica, Outlook { has_room: true, ..busy }, Route::Replica(0)),
        (Reads::Primary, OPEN, Route::Primary),
    ] {
        let chosen = replicas.choose(ms(2), read(reads), &[outlook], OPEN);
        assert_eq!(chosen, route, "{reads:?} {outlook:?}");
    }
}

#[test]
fn a_server_is_out_until_a_probe_shows_that_it_is_a_standby() {
    let mut replicas = Replicas::new(1, Limits::default());
    let nowhere = |replicas: &mut Replicas, now| {
        choose(replicas, now, Reads::Replica, Wanted::Nothing) == Route::Nowhere
    };
    assert!(nowhere(&mut replicas, ms(1)));
    assert_eq!(replicas.poll_probe(ms(1)), Some(0));
    assert_eq!(replicas.poll_probe(ms(1)), None, "one probe at a time");
    let primary = Identity { system: SYSTEM, is_standby: false, timeline: 1 };
    let of_primary = Report { identity: primary, replayed: None, lag: None };
    replicas.handle_probe(ms(1), 0, Some(of_primary), 0);
    assert!(nowhere(&mut replicas, ms(2)));
    assert_eq!(replicas.poll_probe(ms(10)), None, "it pauses");
    assert_eq!(replicas.poll_probe(ms(110)), Some(0));
    replicas.handle_probe(ms(110), 0, Some(report(1, 1)), 0);
    assert!(!nowhere(&mut replicas, ms(110)));
    replicas.handle_lost(ms(111), 0, 0);
    assert!(nowhere(&mut replicas, ms(111)));
    assert_eq!(replicas.poll_probe(ms(220)), Some(0));
    replicas.handle_probe(ms(220), 0, Some(report(1, 1)), 0);
    assert!(!nowhere(&mut replicas, ms(220)));
}

#[test]
fn pauses_before_probes_double_up_to_a_bound_and_are_spread() {
    let mut now = ms(1);
    let mut replicas = Replicas::new(1, Limits::default());
    let mut last = 0;
    for _ in 0..12 {
        let mut waited = 0;
        while replicas.poll_probe(now).is_none() {
            now = now.after(Duration::from_millis(1));
            waited += 1;
        }
        replicas.handle_probe(now, 0, None, 0);
        assert!(waited >= last && waited <= 5_000, "{waited} behind {last}");
        last = waited;
    }
    assert_eq!(last, 5_000);
}

#[test]
fn what_a_replica_is_known_to_show_it_serves_while_it_is_behind() {
    let mut replicas = replicas(1, Limits::default());
    let mut route =
        |now, lsn| choose(&mut replicas, now, Reads::PreferReplica, Wanted::At(at(lsn)));
    assert_eq!(route(ms(2), 200), Route::Replica(0), "it may be there");
    replicas.handle_guard(ms(3), 0, &at(200), Guarded::Behind(Some(150)));
    let mut route =
        |now, lsn| choose(&mut replicas, now, Reads::PreferReplica, Wanted::At(at(lsn)));
    assert_eq!(route(ms(3), 200), Route::Primary);
    assert_eq!(route(ms(3), 150), Route::Replica(0), "the guard told");
    assert_eq!(route(ms(6), 200), Route::Replica(0), "one tries again");
    assert_eq!(route(ms(6), 200), Route::Primary, "and only one");
    replicas.handle_guard(ms(7), 0, &at(200), Guarded::Passed(Some(210)));
    let mut route =
        |now, lsn| choose(&mut replicas, now, Reads::PreferReplica, Wanted::At(at(lsn)));
    assert_eq!(route(ms(7), 300), Route::Replica(0));
    assert_eq!(route(ms(7), 300), Route::Replica(0), "it was there when it was asked last");
}

#[test]
fn a_position_before_the_one_that_a_replica_lacked_may_be_there() {
    let mut replicas = replicas(1, Limits::default());
    let route = |replicas: &mut Replicas, now, lsn| {
        choose(replicas, now, Reads::PreferReplica, Wanted::At(at(lsn)))
    };
    replicas.handle_guard(ms(2), 0, &at(300), Guarded::Behind(None));
    assert_eq!(route(&mut replicas, ms(2), 300), Route::Primary);
    assert_eq!(route(&mut replicas, ms(2), 299), Route::Replica(0), "nobody has asked yet");
    replicas.handle_guard(ms(3), 0, &at(250), Guarded::Behind(Some(210)));
    assert_eq!(route(&mut replicas, ms(3), 250), Route::Primary);
    // One that has passed says nothing of those behind it.
    replicas.handle_guard(ms(3), 0, &at(220), Guarded::Passed(None));
    assert_eq!(route(&mut replicas, ms(3), 250), Route::Primary);
    assert_eq!(route(&mut replicas, ms(3), 220), Route::Replica(0));
}

#[test]
fn guards_that_fail_together_make_one_pause() {
    let mut replicas = replicas(1, Limits::default());
    let is_tried = |replicas: &mut Replicas, now| {
        let wanted = Wanted::At(at(300));
        choose(replicas, now, Reads::PreferReplica, wanted) == Route::Replica(0)
    };
    for _ in 0..50 {
        assert!(is_tried(&mut replicas, ms(1)));
    }
    for _ in 0..50 {
        replicas.handle_guard(ms(2), 0, &at(300), Guarded::Behind(None));
    }
    assert!(!is_tried(&mut replicas, ms(3)));
    assert!(is_tried(&mut replicas, ms(4)), "the shortest pause");
    replicas.handle_guard(ms(5), 0, &at(300), Guarded::Behind(None));
    assert!(!is_tried(&mut replicas, ms(8)), "twice that");
    assert!(is_tried(&mut replicas, ms(9)));
}

#[test]
fn an_older_timeline_or_another_cluster_serves_no_token_however_far_it_is() {
    let mut replicas = replicas(1, Limits::default());
    let later = Wanted::At(Position { timeline: 2, ..at(50) });
    let foreign = Wanted::At(Position { system: 8, ..at(50) });
    for wanted in [later, foreign, Wanted::Unknown] {
        assert_eq!(choose(&mut replicas, ms(2), Reads::PreferReplica, wanted), Route::Primary);
        assert_eq!(choose(&mut replicas, ms(2), Reads::Replica, wanted), Route::Nowhere);
    }
    assert_eq!(replicas.poll_probe(ms(120)), Some(0), "it may have gone on");
    replicas.handle_probe(ms(120), 0, Some(report(2, 100)), 0);
    assert_eq!(choose(&mut replicas, ms(121), Reads::Replica, later), Route::Replica(0));
    assert_eq!(
        choose(&mut replicas, ms(121), Reads::Replica, Wanted::At(at(50))),
        Route::Replica(0)
    );
}

#[test]
fn a_read_waits_for_a_replica_for_as_long_as_it_says() {
    let mut replicas = replicas(1, Limits::default());
    replicas.handle_guard(ms(2), 0, &at(200), Guarded::Behind(None));
    let wanted = Wanted::At(at(200));
    for (reads, end) in [(Reads::PreferReplica, Route::Primary), (Reads::Replica, Route::Nowhere)] {
        let read = Read { reads, wanted, until: ms(3) };
        assert_eq!(replicas.choose(ms(2), read, &[OPEN], OPEN), Route::Wait);
        assert_eq!(replicas.choose(ms(3), read, &[OPEN], OPEN), end);
    }
}

#[test]
fn a_replica_is_left_out_once_it_may_be_further_behind_than_max_lag() {
    let limits = Limits { max_lag: Some(Duration::from_millis(100)), ..Limits::default() };
    let mut replicas = replicas(1, limits);
    let route =
        |replicas: &mut Replicas, now| choose(replicas, now, Reads::PreferReplica, Wanted::Nothing);
    assert_eq!(route(&mut replicas, ms(90)), Route::Replica(0));
    assert_eq!(route(&mut replicas, ms(110)), Route::Primary, "nobody knows");
    assert_eq!(replicas.poll_probe(ms(110)), Some(0));
    let behind = Report { lag: Some(Duration::from_millis(300)), ..report(1, 100) };
    replicas.handle_probe(ms(111), 0, Some(behind), 0);
    assert_eq!(route(&mut replicas, ms(112)), Route::Primary);
    assert_eq!(replicas.poll_probe(ms(140)), Some(0));
    replicas.handle_probe(ms(141), 0, Some(report(1, 200)), 0);
    assert_eq!(route(&mut replicas, ms(142)), Route::Replica(0));
}

#[test]
fn a_proof_holds_for_its_connection_and_what_it_has_seen() {
    let mut proof = Proof::default();
    assert!(!proof.covers(&at(1)));
    for _ in 0..2 {
        let is_news = proof.handle_passed(&at(10), Some(20), false);
        assert!(is_news && !proof.covers(&at(1)), "a pooler may lead elsewhere next time");
    }
    assert!(proof.handle_passed(&at(10), Some(20), true));
    assert!(!proof.handle_passed(&at(15), Some(20), true), "nothing that it had not shown before");
    assert!(proof.covers(&at(20)) && !proof.covers(&at(21)));
    let next = Position { timeline: 2, ..at(5) };
    assert!(!proof.covers(&next));
    assert!(proof.handle_passed(&next, None, true));
    assert!(proof.covers(&Position { timeline: 2, ..at(20) }), "a server never goes back");
}

#[test]
fn a_guard_asks_for_cluster_and_timeline_until_its_connection_has_proven_them() {
    let asks = |proof: &Proof, position| proof.guard(&position).0 == GuardText::Whole;
    let mut proof = Proof::default();
    assert!(asks(&proof, at(10)));
    proof.handle_passed(&at(10), None, false);
    assert!(asks(&proof, at(30)), "a pooler may lead elsewhere next time");
    proof.handle_passed(&at(10), None, true);
    assert_eq!(proof.guard(&at(30)), (GuardText::Proven, vec!["0/1E".into()]));
    assert!(asks(&proof, Position { timeline: 2, ..at(30) }));
    assert!(asks(&proof, Position { system: 99, ..at(30) }));
}

#[test]
fn an_error_of_the_guard_tells_how_far_the_server_is() {
    let says = |text: &str| Guarded::with_error("22P02", &format!("invalid input: {text}"));
    let told = says("\"onetrip: not run, replayed so far: 1/A0\"");
    assert_eq!(told, Guarded::Behind(Some(1 << 32 | 0xA0)));
    assert_eq!(says("\"onetrip: not run, replayed so far: \""), Guarded::Behind(None));
    assert_eq!(Guarded::with_error("22012", "division by zero"), Guarded::Failed);
    assert_eq!(Guarded::with_row(Some("1/A0")), Guarded::Passed(Some(1 << 32 | 0xA0)));
    assert_eq!(Guarded::with_row(None), Guarded::Passed(None));
}

// --- the model ---

/// What the model gets wrong on purpose, to see that the test notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    None,
    /// Tokens are compared by their numbers alone.
    NoTimelines,
    /// What one connection has proven counts for the next one to the same address.
    ProofOfAddress,
    /// A write counts as known before the question behind it is answered.
    NoDoubt,
}

/// A record of the log.
#[derive(Clone, Copy, Debug)]
struct Record {
    end: u64,
    timeline: u32,
    write: u64,
}

#[derive(Clone, Debug)]
struct Server {
    log: Vec<Record>,
    replayed: usize,
    /// Changes with each start; connections of an earlier one are gone.
    life: u64,
    is_standby: bool,
    /// The timeline that it says it is on, which may be too old.
    says: u32,
    timeline: u32,
}

impl Server {
    fn lsn(&self) -> u64 {
        self.replayed.checked_sub(1).map_or(0, |last| self.log[last].end)
    }

    fn shows(&self, write: u64) -> bool {
        self.log[..self.replayed].iter().rev().any(|record| record.write == write)
    }

    /// Whether the log is the beginning of another's.
    fn is_part_of(&self, other: &Server) -> bool {
        self.log.len() <= other.log.len()
            && self.log.last().is_none_or(|last| {
                let its = other.log[self.log.len() - 1];
                (last.end, last.timeline, last.write) == (its.end, its.timeline, its.write)
            })
    }

    /// Becomes a copy of another server, and its standby. It is consistent once it has replayed
    /// what it was copied with.
    fn rewind(&mut self, to: &Server) {
        (self.is_standby, self.life) = (true, self.life + 1);
        (self.says, self.timeline) = (to.timeline, to.timeline);
        self.log = to.log[..to.replayed].to_vec();
        self.replayed = self.log.len();
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below
    }

    fn one_in(&mut self, of: u64) -> bool {
        self.next(of) == 0
    }
}

/// A connection for reads: to which life of which server, and what it has proven.
#[derive(Clone, Copy, Debug)]
struct Connection {
    server: usize,
    life: u64,
    proof: Proof,
}

/// A read on its way.
struct Flying {
    address: usize,
    wanted: Position,
    life: u64,
    server: usize,
    guard: Option<GuardText>,
    /// What was acknowledged when it was called.
    acknowledged: usize,
    arrives: u64,
}

struct World {
    random: Random,
    defect: Defect,
    servers: Vec<Server>,
    primary: usize,
    /// The former primary, if it still takes writes.
    zombie: Option<usize>,
    /// Which server is behind each address.
    addresses: Vec<usize>,
    connections: Vec<Option<Connection>>,
    replicas: Replicas,
    newest: Newest,
    /// Acknowledged writes, in this order.
    acknowledged: Vec<u64>,
    /// Questions on their way: when the answer comes, and what it says.
    questions: Vec<(u64, Position)>,
    reads: Vec<Flying>,
    writes: u64,
    now: u64,
    delay: u64,
    served: u64,
    fell_back: u64,
    /// The first stale read.
    stale: Option<String>,
}

impl World {
    fn new(seed: u64, defect: Defect) -> World {
        let mut random = Random(seed);
        let server = |is_standby| Server {
            log: Vec::new(),
            replayed: 0,
            life: 1,
            is_standby,
            says: 1,
            timeline: 1,
        };
        let delay = [0, 2, 30, 200][random.next(4) as usize];
        World {
            random,
            defect,
            servers: vec![server(false), server(true), server(true)],
            primary: 0,
            zombie: None,
            addresses: vec![0, 1, 2],
            connections: vec![None; 3],
            replicas: Replicas::new(3, Limits::default()),
            newest: Newest::default(),
            acknowledged: Vec::new(),
            questions: Vec::new(),
            reads: Vec::new(),
            writes: 0,
            now: 0,
            delay,
            served: 0,
            fell_back: 0,
            stale: None,
        }
    }

    fn time(&self) -> Time {
        ms(self.now)
    }

    fn step(&mut self) {
        self.now += 1;
        self.replicate();
        match self.random.next(12) {
            0..3 => self.write(),
            3..9 => self.read(),
            9 if self.random.one_in(40) => self.fail_over(),
            10 if self.random.one_in(30) => self.restart(),
            11 if self.random.one_in(60) => {
                let (a, b) = (self.random.next(3) as usize, self.random.next(3) as usize);
                // Connections that are open stay where they are.
                self.addresses.swap(a, b);
                if self.random.one_in(2) {
                    self.connections[a] = None;
                }
            }
            _ => {}
        }
        self.answer_questions();
        self.answer_reads();
        self.probe();
    }

    fn replicate(&mut self) {
        let primary = self.servers[self.primary].clone();
        for at in 0..self.servers.len() {
            let progresses = self.random.one_in(1 + self.delay);
            let server = &mut self.servers[at];
            if at == self.primary || !server.is_standby {
                continue;
            }
            if server.is_part_of(&primary) {
                server.log = primary.log.clone();
                server.timeline = primary.timeline;
            }
            if progresses {
                let left = (server.log.len() - server.replayed) as u64;
                server.replayed += self.random.next(left + 1) as usize;
            }
            // A restartpoint.
            if self.random.one_in(50)
                && let Some(last) = server.replayed.checked_sub(1)
            {
                server.says = server.says.max(server.log[last].timeline);
            }
        }
    }

    fn write(&mut self) {
        let at = match self.zombie {
            Some(zombie) if self.random.one_in(3) => zombie,
            _ => self.primary,
        };
        self.writes += 1;
        let server = &mut self.servers[at];
        let end = server.lsn() + 1 + self.random.next(40);
        server.log.push(Record { end, timeline: server.timeline, write: self.writes });
        server.replayed = server.log.len();
        let position = Position { system: SYSTEM, timeline: server.timeline, lsn: end };
        self.acknowledged.push(self.writes);
        if self.defect != Defect::NoDoubt {
            self.newest.handle_uncertain(true);
        }
        self.questions.push((self.now + self.random.next(3), position));
    }

    fn answer_questions(&mut self) {
        let now = self.now;
        let (due, later) =
            std::mem::take(&mut self.questions).into_iter().partition(|(at, _)| *at <= now);
        self.questions = later;
        let due: Vec<(u64, Position)> = due;
        for (_, position) in due {
            if self.random.one_in(50) {
                // Its connection is lost. The next answer covers it.
                self.newest.handle_lost();
                let primary = &self.servers[self.primary];
                let lsn = primary.lsn();
                let position = Position { system: SYSTEM, timeline: primary.timeline, lsn };
                self.newest.handle_position(position, self.newest.losses());
                continue;
            }
            self.newest.handle_position(position, self.newest.losses());
            if self.defect != Defect::NoDoubt {
                self.newest.handle_uncertain(false);
            }
        }
    }

    fn read(&mut self) {
        let wanted = self.newest.wanted();
        let outlook = |connection: &Option<Connection>| match connection {
            Some(_) => OPEN,
            None => Outlook { is_open: false, ..OPEN },
        };
        let outlooks: Vec<Outlook> = self.connections.iter().map(outlook).collect();
        let now = self.time();
        let read = Read { reads: Reads::PreferReplica, wanted, until: Time::ZERO };
        let mut route = self.replicas.choose(now, read, &outlooks, OPEN);
        if self.defect == Defect::NoTimelines && self.connections[1].is_some() {
            route = Route::Replica(1);
        }
        let (Route::Replica(address), Wanted::At(position)) = (route, wanted) else {
            self.fell_back += u64::from(wanted != Wanted::Nothing);
            return;
        };
        let Some(connection) = self.connections[address] else { return };
        self.reads.push(Flying {
            address,
            wanted: position,
            life: connection.life,
            server: connection.server,
            guard: (!connection.proof.covers(&position))
                .then(|| connection.proof.guard(&position).0),
            acknowledged: self.acknowledged.len(),
            arrives: self.now + self.random.next(4),
        });
    }

    fn answer_reads(&mut self) {
        let now = self.now;
        let (due, later) =
            std::mem::take(&mut self.reads).into_iter().partition(|read| read.arrives <= now);
        self.reads = later;
        let due: Vec<Flying> = due;
        for read in due {
            self.answer_read(&read);
        }
    }

    fn answer_read(&mut self, read: &Flying) {
        let (now, server) = (self.time(), self.servers[read.server].clone());
        if server.life != read.life {
            // The connection was lost meanwhile.
            self.replicas.handle_guard(now, read.address, &read.wanted, Guarded::Failed);
            return;
        }
        if let Some(guard) = read.guard {
            let reached = self.defect == Defect::NoTimelines
                || guard == GuardText::Proven
                || server.says >= read.wanted.timeline;
            let passes = reached && server.lsn() >= read.wanted.lsn;
            let guarded = match passes {
                true => Guarded::Passed(Some(server.lsn())),
                false => Guarded::Behind(Some(server.lsn())),
            };
            self.replicas.handle_guard(now, read.address, &read.wanted, guarded);
            if !passes {
                self.fell_back += 1;
                return;
            }
            if let Some(connection) = &mut self.connections[read.address]
                && (connection.server, connection.life) == (read.server, read.life)
            {
                connection.proof.handle_passed(&read.wanted, Some(server.lsn()), true);
            }
        }
        self.served += 1;
        self.check(read, &server);
    }

    /// Every write that was acknowledged when the read was called, and that the cluster still has,
    /// is there.
    fn check(&mut self, read: &Flying, server: &Server) {
        let primary = &self.servers[self.primary];
        let acknowledged = &self.acknowledged[..read.acknowledged];
        let missing = acknowledged.iter().find(|it| !server.shows(**it) && primary.shows(**it));
        if let Some(write) = missing {
            let (now, position) = (self.now, read.wanted);
            self.stale.get_or_insert(format!(
                "at {now} ms server {} lacks write {write}, for {position:?}",
                read.server
            ));
        }
    }

    fn probe(&mut self) {
        let now = self.time();
        while let Some(at) = self.replicas.poll_probe(now) {
            let server = self.addresses[at];
            let is_there = self.servers[server].is_standby;
            if self.connections[at].is_none() && is_there {
                let proof = Proof::default();
                let life = self.servers[server].life;
                self.connections[at] = Some(Connection { server, life, proof });
            }
            let report = self.connections[at].map(|connection| {
                let server = &self.servers[connection.server];
                let identity = Identity {
                    system: SYSTEM,
                    is_standby: server.is_standby,
                    timeline: server.says,
                };
                let lag = Some(Duration::ZERO);
                Report { identity, replayed: Some(server.lsn()), lag }
            });
            self.replicas.handle_probe(now, at, report, self.random.next(1024));
        }
        for at in 0..self.connections.len() {
            let Some(connection) = self.connections[at] else { continue };
            if self.servers[connection.server].life != connection.life {
                let (server, life) = (self.addresses[at], self.servers[self.addresses[at]].life);
                let proof = connection.proof;
                self.connections[at] = match self.defect {
                    Defect::ProofOfAddress => Some(Connection { server, life, proof }),
                    _ => None,
                };
                if self.connections[at].is_none() {
                    self.replicas.handle_lost(now, at, self.random.next(1024));
                }
            }
        }
    }

    /// A standby is promoted, with what it has received. The others follow it, or are copied anew.
    fn fail_over(&mut self) {
        let standbys: Vec<usize> =
            (0..3).filter(|at| *at != self.primary && self.servers[*at].is_standby).collect();
        // No sound cluster promotes a server that has gone another way: the number of its timeline
        // would be larger, and still not lead on from the others.
        let last = &self.servers[self.primary];
        let sound: Vec<usize> =
            standbys.iter().copied().filter(|at| self.servers[*at].is_part_of(last)).collect();
        let pick = self.random.next(sound.len().max(1) as u64) as usize;
        let (Some(&new), old) = (sound.get(pick), self.primary) else { return };
        if let Some(zombie) = self.zombie.take() {
            let to = self.servers[old].clone();
            self.servers[zombie].rewind(&to);
        }
        let lost = self.random.next(4) as usize;
        let timeline = self.servers[old].timeline + 1;
        let server = &mut self.servers[new];
        // What it had not received yet is lost.
        let keeps = server.log.len().saturating_sub(lost).max(server.replayed);
        server.log.truncate(keeps);
        server.replayed = server.log.len();
        server.is_standby = false;
        server.timeline = timeline;
        self.servers[new].says = self.servers[new].timeline;
        self.primary = new;
        self.zombie = Some(old);
        if self.random.one_in(2) {
            self.end_zombie();
        }
        let to = self.servers[new].clone();
        for at in standbys.into_iter().filter(|at| *at != new) {
            // It can't follow if it has gone another way.
            if self.servers[at].log.len() > to.log.len() && self.random.one_in(2) {
                self.servers[at].rewind(&to);
            }
        }
    }

    fn end_zombie(&mut self) {
        if let Some(zombie) = self.zombie.take() {
            let to = self.servers[self.primary].clone();
            self.servers[zombie].rewind(&to);
        }
    }

    fn restart(&mut self) {
        if self.random.one_in(3) {
            return self.end_zombie();
        }
        let at = self.random.next(3) as usize;
        let server = &mut self.servers[at];
        if server.is_standby {
            // It may be a copy that was taken earlier, and is consistent at once.
            server.life += 1;
            server.replayed -= self.random.next(server.replayed as u64 / 2 + 1) as usize;
            let last = server.replayed.checked_sub(1).map_or(1, |last| server.log[last].timeline);
            server.says = server.says.min(last);
        }
    }
}

/// Runs a seed. Returns how many reads replicas served, and how many went to the primary.
fn run(seed: u64, defect: Defect) -> Result<(u64, u64), String> {
    let mut world = World::new(seed, defect);
    for _ in 0..1_500 {
        world.step();
    }
    world.stale.map_or(Ok((world.served, world.fell_back)), Err)
}

#[test]
fn no_read_on_a_replica_misses_a_write_that_the_cluster_has() {
    const SEEDS: u64 = 60;
    let first = std::env::var("ONETRIP_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = first.map_or(0..SEEDS, |seed| seed..seed + 1);
    let (mut served, mut fell_back) = (0, 0);
    for seed in seeds.clone() {
        match run(seed, Defect::None) {
            Ok((more_served, more)) => {
                (served, fell_back) = (served + more_served, fell_back + more)
            }
            Err(stale) => panic!("a stale read, ONETRIP_SEED={seed}: {stale}"),
        }
    }
    let enough = (seeds.end - seeds.start) * 50;
    assert!(served > enough, "{served} reads were served by replicas, {fell_back} were not");
    println!("{served} reads were served by replicas, {fell_back} were not");
}

#[test]
fn the_model_finds_what_a_wrong_policy_does() {
    for defect in [Defect::NoTimelines, Defect::ProofOfAddress, Defect::NoDoubt] {
        let found = (0..400).any(|seed| run(seed, defect).is_err());
        assert!(found, "no seed shows {defect:?}");
    }
}

/// A read on its way among two replicas that have replayed up to 100.
fn moving(reads: Reads, wanted: Wanted, until: Time) -> (Replicas, Moving) {
    let read = Read { reads, wanted, until };
    (replicas(2, Limits::default()), Moving::new(read, ms(100)))
}

fn step(replicas: &mut Replicas, moving: &mut Moving, now: Time) -> Step {
    moving.step(now, replicas, Wanted::At(at(100)), &[OPEN; 2], OPEN)
}

#[test]
fn a_read_that_was_skipped_goes_to_the_primary_and_stays_there() {
    let wanted = Wanted::At(at(200));
    let (mut replicas, mut read) = moving(Reads::PreferReplica, wanted, Time::ZERO);
    let first = step(&mut replicas, &mut read, ms(2));
    assert!(matches!(first, Step::Replica { waits: true, .. }), "{first:?}");
    assert!(read.ended(ms(3), Outcome::Rejected, true, false));
    assert_eq!(step(&mut replicas, &mut read, ms(3)), Step::Primary);
    assert!(read.is_settled() && !read.ended(ms(4), Outcome::NotSent, false, false));
}

#[test]
fn reads_count_at_each_server_that_they_went_to_and_what_one_could_not_show_apart() {
    let wanted = Wanted::At(at(200));
    let (mut replicas, mut read) = moving(Reads::PreferReplica, wanted, Time::ZERO);
    let Step::Replica { at: tried, .. } = step(&mut replicas, &mut read, ms(2)) else {
        panic!("both are there")
    };
    replicas.handle_guard(ms(3), tried, &at(200), Guarded::Behind(Some(100)));
    assert!(read.ended(ms(3), Outcome::Rejected, true, false));
    assert_eq!(step(&mut replicas, &mut read, ms(3)), Step::Primary);
    let counts = ReadCounts { on_primary: 1, on_replicas: 1, behind: 1 };
    assert_eq!(replicas.counts(), counts);
    let status = Status { serves: true, lag: Some(Duration::ZERO), reads: 1, behind: 1 };
    assert_eq!(replicas.status(ms(3), tried), status);
    assert_eq!(replicas.status(ms(3), 1 - tried), Status { reads: 0, behind: 0, ..status });
    replicas.handle_lost(ms(4), tried, 0);
    assert_eq!(replicas.status(ms(4), tried), Status { serves: false, ..status });
}

#[test]
fn a_replica_that_may_be_further_behind_than_allowed_serves_nothing() {
    let limits = Limits { max_lag: Some(Duration::from_millis(20)), ..Limits::default() };
    let replicas = replicas(1, limits);
    assert!(replicas.status(ms(20), 0).serves && !replicas.status(ms(40), 0).serves);
}

/// Right behind a write the answer to the question for its position is still under way.
#[test]
fn a_read_waits_for_the_position_of_a_write_no_longer_than_until_it_is_known() {
    let (mut replicas, mut read) = moving(Reads::Replica, Wanted::Unknown, ms(50));
    let mut ask = |now, newest| read.step(now, &mut replicas, newest, &[OPEN; 2], OPEN);
    assert_eq!(ask(ms(1), Wanted::Unknown), Step::Pause);
    assert_eq!(ask(ms(3), Wanted::Unknown), Step::Pause);
    let goes = ask(ms(5), Wanted::At(at(100)));
    assert!(matches!(goes, Step::Replica { .. }), "{goes:?}");
    assert_eq!(read.wanted(), Wanted::At(at(100)));
}

#[test]
fn a_read_that_waits_tries_replicas_until_its_time_is_over() {
    let wanted = Wanted::At(at(200));
    for (reads, last) in [(Reads::PreferReplica, Step::Primary), (Reads::Replica, Step::NoReplica)]
    {
        let (mut replicas, mut read) = moving(reads, wanted, ms(50));
        step(&mut replicas, &mut read, ms(2));
        for guarded in 0..2 {
            replicas.handle_guard(ms(2), guarded, &at(200), Guarded::Behind(Some(100)));
        }
        assert!(read.ended(ms(2), Outcome::Rejected, true, false));
        assert_eq!(step(&mut replicas, &mut read, ms(3)), Step::Pause);
        let again = step(&mut replicas, &mut read, ms(10));
        assert!(matches!(again, Step::Replica { waits: false, .. }), "{again:?}");
        for guarded in 0..2 {
            replicas.handle_guard(ms(49), guarded, &at(200), Guarded::Behind(Some(100)));
        }
        assert!(read.ended(ms(49), Outcome::Rejected, true, false));
        assert_eq!(step(&mut replicas, &mut read, ms(50)), last);
    }
}

#[test]
fn an_end_that_holds_everywhere_or_may_have_run_is_its_callers() {
    for (outcome, skipped, is_final, now) in [
        (Outcome::Unknown, false, false, ms(3)),
        (Outcome::Rejected, false, false, ms(3)),
        (Outcome::NotSent, false, true, ms(3)),
        (Outcome::NotSent, false, false, ms(100)),
    ] {
        let (mut replicas, mut read) = moving(Reads::Replica, Wanted::Nothing, ms(50));
        step(&mut replicas, &mut read, ms(2));
        assert!(!read.ended(now, outcome, skipped, is_final));
        assert!(read.is_settled());
    }
    let (mut replicas, mut read) = moving(Reads::Replica, Wanted::Nothing, ms(50));
    assert_eq!(step(&mut replicas, &mut read, ms(100)), Step::Late);
}
