//! Two thousand clients lose their server at the same moment, and come to the one that takes its
//! place. How many logins arrive there, on a virtual clock. The seed is in each assertion.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use onetrip_engine::pool::{ConnectionId, Limits, Load, OpenFailure, Output, Pool};
use onetrip_engine::{Time, Token};

use super::host::{IDLE, millis, seconds};

const CLIENTS: usize = 2_000;

/// Callers of each client that want a connection, as many as had one.
const CALLERS: u64 = 8;

/// How long the server works on one login: SCRAM and a new process, on several cores.
const LOGIN: Duration = Duration::from_micros(500);

const SLOT: Duration = Duration::from_millis(100);

/// What the server saw.
struct Seen {
    /// Logins that arrived, by the tenth of a second.
    arrived: Vec<usize>,
    /// The most that were unanswered at once.
    waiting_max: usize,
    /// When the last caller had its connection.
    served: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Looks,
    Failed(usize),
    Opened(usize),
}

struct Client {
    pool: Pool,
    ids: Vec<ConnectionId>,
    /// When its pool is looked at next.
    looks: Time,
}

struct Storm {
    clients: Vec<Client>,
    events: BinaryHeap<Reverse<(Time, usize, Event)>>,
    /// When the new server begins to take logins, and until when it has work.
    back: Time,
    busy_until: Time,
    waiting: usize,
    served: u64,
    random: u64,
    seen: Seen,
}

fn at(time: Duration) -> Time {
    Time::ZERO.after(time)
}

impl Storm {
    /// All clients lose their connections at the same moment; the new server answers `away` later.
    fn new(seed: u64, away: Duration) -> Storm {
        let lost_at = at(seconds(60));
        let seen = Seen { arrived: Vec::new(), waiting_max: 0, served: Duration::ZERO };
        let back = lost_at.after(away);
        let (clients, events) = (Vec::new(), BinaryHeap::new());
        let mut storm = Storm {
            clients,
            events,
            back,
            busy_until: back,
            waiting: 0,
            served: 0,
            random: seed,
            seen,
        };
        for number in 0..CLIENTS {
            storm.clients.push(client(seed.wrapping_mul(1 << 20) + number as u64));
            let Client { pool, ids, .. } = &mut storm.clients[number];
            ids.iter().for_each(|id| pool.handle_lost(lost_at, *id));
            let until = Some(lost_at.after(seconds(300)));
            (0..CALLERS).for_each(|token| _ = pool.checkout(lost_at, Token(token), until));
            storm.drain(lost_at, number);
        }
        storm
    }

    fn run(mut self) -> Seen {
        while let Some(Reverse((now, number, event))) = self.events.pop() {
            let Client { pool, ids, looks } = &mut self.clients[number];
            match event {
                Event::Looks if *looks != now => continue,
                Event::Looks => {
                    *looks = Time::NEVER;
                    pool.handle_time(now);
                }
                Event::Failed(name) => {
                    _ = pool.handle_open_failed(now, ids[name], OpenFailure::default())
                }
                Event::Opened(name) => {
                    self.waiting -= 1;
                    pool.handle_opened(now, ids[name]);
                }
            }
            self.drain(now, number);
            if self.served == CLIENTS as u64 * CALLERS {
                self.seen.served = now.since(at(seconds(60)));
                break;
            }
        }
        self.seen
    }

    fn drain(&mut self, now: Time, number: usize) {
        loop {
            let Client { pool, ids, .. } = &mut self.clients[number];
            match pool.poll_output(now, |_| IDLE) {
                Some(Output::Open { id }) => {
                    ids.push(id);
                    let name = ids.len() - 1;
                    self.dial(now, number, name);
                }
                Some(Output::Granted { .. }) => self.served += 1,
                Some(_) => {}
                None => break,
            }
        }
        let Client { pool, looks, .. } = &mut self.clients[number];
        let next = pool.poll_deadline().map_or(Time::NEVER, |next| next.max(now.after(millis(1))));
        if next < *looks {
            *looks = next;
            self.events.push(Reverse((next, number, Event::Looks)));
        }
    }

    /// Half a millisecond to one and a half later the attempt arrives.
    fn dial(&mut self, now: Time, number: usize, name: usize) {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let arrives = now.after(Duration::from_nanos(500_000 + (self.random >> 33) % 1_000_000));
        if arrives < self.back {
            // Nobody listens there.
            return self.events.push(Reverse((arrives, number, Event::Failed(name))));
        }
        let slot = (arrives.since(at(seconds(60))).as_nanos() / SLOT.as_nanos()) as usize;
        self.seen.arrived.resize(self.seen.arrived.len().max(slot + 1), 0);
        self.seen.arrived[slot] += 1;
        self.waiting += 1;
        self.seen.waiting_max = self.seen.waiting_max.max(self.waiting);
        self.busy_until = self.busy_until.max(arrives).after(LOGIN);
        self.events.push(Reverse((self.busy_until, number, Event::Opened(name))));
    }
}

/// A client with its connections open, each of them lent.
fn client(seed: u64) -> Client {
    let mut pool = Pool::new(Limits::default(), seed);
    let mut ids = Vec::new();
    let load = |_| -> Load { IDLE };
    for token in 0..CALLERS {
        pool.checkout(Time::ZERO, Token(token), None);
    }
    while let Some(output) = pool.poll_output(Time::ZERO, load) {
        if let Output::Open { id } = output {
            ids.push(id);
            pool.handle_opened(Time::ZERO, id);
        }
    }
    assert_eq!(ids.len(), CALLERS as usize);
    Client { pool, ids, looks: Time::NEVER }
}

fn storm(seed: u64, away: Duration) -> Seen {
    let seen = Storm::new(seed, away).run();
    println!("seed {seed}, away for {away:?}: all served after {:?}", seen.served);
    println!("at most {} logins unanswered; by tenths of a second:", seen.waiting_max);
    println!("{:?}", seen.arrived);
    seen
}

/// A switchover: the new server is there at once.
#[test]
fn clients_that_lose_their_server_together_come_with_one_login_each_to_the_next() {
    for seed in 1..=3 {
        let seen = storm(seed, Duration::ZERO);
        // The few that came first found an idle server, and opened the rest at once.
        let max = CLIENTS + CLIENTS / 100;
        assert!(seen.waiting_max <= max, "seed {seed}: {}", seen.waiting_max);
    }
}

/// A crash: for some seconds nobody is there, and pauses grow.
#[test]
fn clients_that_waited_for_a_server_do_not_come_back_together() {
    for seed in 1..=3 {
        let seen = storm(seed, seconds(3));
        let peak = seen.arrived.iter().max().copied().unwrap_or_default();
        assert!(peak <= CLIENTS / 5, "seed {seed}: {peak} logins in a tenth of a second");
        assert!(seen.waiting_max <= CLIENTS, "seed {seed}: {}", seen.waiting_max);
    }
}

/// A long outage: the pauses are at their longest.
#[test]
fn clients_that_waited_for_long_come_back_spread_over_two_seconds() {
    let seen = storm(1, seconds(8));
    let peak = seen.arrived.iter().max().copied().unwrap_or_default();
    assert!(peak <= CLIENTS / 5, "{peak} logins in a tenth of a second");
    // The server itself needs eight seconds for all of them.
    assert!(seen.served <= seconds(17), "the last was served after {:?}", seen.served);
}
