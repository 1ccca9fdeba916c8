//! Random hosts against the model server: any interleaving of commands, bytes, time and cuts.
//!
//! Each run is one seed. `ONETRIP_SEED=n cargo test -p onetrip-engine --test it random` repeats
//! one, and `ONETRIP_RUNS=n` runs more.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use crate::toy::server::{Effect, Server};
use crate::toy::{self, Expect, Toy, parse, put_joining, put_request};
use bytes::BytesMut;
use onetrip_engine::{
    Cause, CloseReason, Connection, End, Failure, Feed, Group, Limits, Outcome, Output, Request,
    SubmitError, SyncPoint, Ticket, Time, Token,
};

#[test]
fn every_request_ends_once_with_its_own_reply_and_a_true_outcome() {
    let number = |name| std::env::var(name).ok().map(|n| n.parse::<u64>().unwrap());
    if let Some(seed) = number("ONETRIP_SEED") {
        return Host::new(seed).live();
    }
    let mut seen = Seen::default();
    for seed in 1..=number("ONETRIP_RUNS").unwrap_or(4000) {
        match catch_unwind(AssertUnwindSafe(|| {
            let mut host = Host::new(seed);
            host.live_on();
            host.check();
            host.seen
        })) {
            Ok(other) => seen.add(other),
            Err(panic) => {
                eprintln!("ONETRIP_SEED={seed} repeats this run");
                resume_unwind(panic);
            }
        }
    }
    // A generator that no longer covers something would silently test nothing.
    let Seen { ends, healed, rooms, granted, cancelled, cut, restarted, syncs_saved } = seen;
    for kind in ["complete", "provisional", "NotSent", "Rejected", "Unknown"] {
        assert!(ends.get(kind).is_some_and(|n| *n > 500), "{kind}: {ends:?}");
    }
    assert!(healed > 500 && rooms > 500 && granted > 500 && cancelled > 500 && cut > 500);
    assert!(restarted > 200 && syncs_saved > 1000, "{restarted} {syncs_saved}");
}

/// What the runs have covered.
#[derive(Default)]
struct Seen {
    ends: HashMap<String, usize>,
    healed: usize,
    rooms: usize,
    granted: usize,
    cancelled: usize,
    cut: usize,
    restarted: usize,
    syncs_saved: usize,
}

impl Seen {
    fn add(&mut self, other: Seen) {
        for (kind, n) in other.ends {
            *self.ends.entry(kind).or_default() += n;
        }
        self.healed += other.healed;
        self.rooms += other.rooms;
        self.granted += other.granted;
        self.cancelled += other.cancelled;
        self.cut += other.cut;
        self.restarted += other.restarted;
        self.syncs_saved += other.syncs_saved;
    }
}

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// The size of the longest request with a Flush and a heal message, and of the longest reply.
const REQUEST_MAX: usize = 9 + 20 + 7 + 7 + 7;
const REPLY_MAX: usize = 20 * 11 + 9 + 7;
const SEGMENT_MAX: usize = 6;

#[derive(Clone)]
struct Planned {
    id: u32,
    sync: SyncPoint,
    script: String,
    deadline: Time,
    again: bool,
    joins: bool,
    discard: bool,
}

struct Sender {
    group: Group,
    granted: bool,
    mid_segment: bool,
    closed: bool,
    /// Members since the last sync point.
    segment: Vec<u32>,
}

/// A host that does everything a host may do.
struct Host {
    rng: Rng,
    client: Connection<Toy>,
    limits: Limits,
    server: Server,
    now: Time,
    input: BytesMut,
    /// Bytes in transit, in both directions.
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    next_id: u32,
    /// Whether requests of this run share sync points, and which of them may.
    joins: bool,
    joining: HashSet<u32>,
    restarted: HashSet<u64>,
    /// Tokens that have not ended.
    open: HashSet<u64>,
    ended: HashMap<u64, End>,
    replies: HashMap<u64, Vec<u8>>,
    tickets: Vec<(u32, Ticket)>,
    waiting: HashMap<u64, Vec<Planned>>,
    senders: HashMap<u64, Sender>,
    group_of: HashMap<u32, u64>,
    /// The request that ends each member's segment.
    segment_end: HashMap<u32, u32>,
    /// Runs of requests that must arrive without a gap.
    runs: Vec<Vec<u32>>,
    closed: Option<CloseReason>,
    terminated: bool,
    seen: Seen,
}

impl Host {
    fn new(seed: u64) -> Host {
        let mut rng = Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let limits = Limits {
            in_flight_max: rng.pick(&[0, 1, 2, 3, 4, 8, 100]),
            in_flight_bytes_max: rng.pick(&[0, 1, 30, 100, 1 << 20, 1 << 20]),
            queue_max: rng.pick(&[0, 1, 3, 8, 1000]),
            queue_bytes_max: rng.pick(&[0, 50, 200, 1 << 20, 1 << 20]),
            waiting_max: rng.pick(&[0, 1, 4, 1000, 1000]),
            shared_sync_max: rng.pick(&[0, 2, 3, 64, 64, 64]),
            shared_sync_bytes_max: rng.pick(&[0, 50, 16 << 10, 16 << 10, 16 << 10]),
            one_segment: rng.one_in(4),
            stall_timeout: Duration::from_secs(3600),
            ..Limits::default()
        };
        Host {
            joins: rng.one_in(2),
            joining: HashSet::new(),
            restarted: HashSet::new(),
            rng,
            client: Connection::new(Time::ZERO, Toy::default(), limits.clone()),
            limits,
            server: Server::default(),
            now: Time::ZERO,
            input: BytesMut::new(),
            to_server: Vec::new(),
            to_client: Vec::new(),
            next_id: 0,
            open: HashSet::new(),
            ended: HashMap::new(),
            replies: HashMap::new(),
            tickets: Vec::new(),
            waiting: HashMap::new(),
            senders: HashMap::new(),
            group_of: HashMap::new(),
            segment_end: HashMap::new(),
            runs: Vec::new(),
            closed: None,
            terminated: false,
            seen: Seen::default(),
        }
    }

    fn live(mut self) {
        self.live_on();
        self.check();
    }

    fn live_on(&mut self) {
        let steps = 20 + self.rng.below(180);
        let busy = self.rng.below(3);
        for _ in 0..steps {
            match self.rng.below(14) {
                0 if self.joins => {
                    for _ in 0..1 + self.rng.below(6) {
                        self.submit_isolated();
                        self.settle();
                    }
                }
                0 => self.submit_isolated(),
                1 => self.submit_segment(),
                2 if busy > 0 => self.submit_isolated(),
                3 if busy > 1 => self.submit_segment(),
                4 => self.cancel(),
                5 => self.group(),
                6 => self.write(),
                7 | 8 => self.arrive_at_server(),
                9 | 10 => self.arrive_at_client(),
                11 => self.pass_time(),
                12 if self.rng.one_in(40) => self.end_somehow(),
                12 => self.server.output.extend(toy::notice(9)),
                _ => self.consume(),
            }
            self.settle();
            if self.closed.is_some() && !self.terminated {
                break;
            }
        }
        if self.closed.is_none() && self.rng.one_in(3) {
            self.cut();
        }
        self.finish();
    }

    // --- what a host does ---

    fn plan(&mut self, sync: SyncPoint) -> Planned {
        let id = self.next_id;
        self.next_id += 1;
        let parts = if self.rng.one_in(8) { 20 } else { self.rng.below(4) };
        let again = sync == SyncPoint::Own && self.rng.one_in(3);
        let last = match self.rng.below(12) {
            0 => "e",
            1 => "u",
            2 => "n",
            3 if again => "n",
            4 if sync != SyncPoint::Member => "E",
            _ => "",
        };
        let joins = self.joins && sync == SyncPoint::Own && last != "u" && self.rng.one_in(2);
        let parts = parts - last.len().min(parts);
        let deadline = match self.rng.one_in(5) {
            true => self.now.after(Duration::from_micros(self.rng.next() % 20_000)),
            false => Time::NEVER,
        };
        let discard = self.rng.one_in(15);
        Planned { id, sync, script: "p".repeat(parts) + last, deadline, again, joins, discard }
    }

    fn plan_segment(&mut self) -> Vec<Planned> {
        let members = self.rng.below(SEGMENT_MAX);
        let mut plan: Vec<Planned> = (0..members).map(|_| self.plan(SyncPoint::Member)).collect();
        let end = self.rng.pick(&[SyncPoint::Own, SyncPoint::Only]);
        plan.push(self.plan(end));
        plan
    }

    fn submit_isolated(&mut self) {
        let plan = self.plan(SyncPoint::Own);
        if !self.submit(plan.clone(), false, None) {
            self.wait(vec![plan]);
        }
    }

    fn submit_segment(&mut self) {
        let plan = self.plan_segment();
        let bytes = plan.iter().map(|p| 8 + p.script.len()).sum();
        match self.client.has_room(plan.len(), bytes) {
            true => self.submit_all(plan),
            false => self.wait(plan),
        }
    }

    fn submit_all(&mut self, plan: Vec<Planned>) {
        let ids: Vec<u32> = plan.iter().map(|p| p.id).collect();
        let end = *ids.last().unwrap();
        self.segment_end.extend(ids.iter().map(|id| (*id, end)));
        self.runs.push(ids);
        for planned in plan {
            assert!(self.submit(planned, true, None), "there was room");
        }
    }

    /// Submits a request; false if there was no room.
    fn submit(&mut self, planned: Planned, reserved: bool, group: Option<Group>) -> bool {
        let Planned { id, sync, script, deadline, again, joins, discard } = planned;
        let token = if discard { Token::DISCARD } else { Token(u64::from(id)) };
        let expect = Expect::new(id, sync);
        let request = Request {
            token,
            expect,
            sync,
            deadline,
            again,
            in_order: false,
            group,
            pinned: false,
            resend: false,
            cancel_late: false,
            joins,
            own_way: false,
            reserved,
            feed: Feed::Whole,
            metered: false,
        };
        let fails = self.rng.one_in(30) && !reserved && group.is_none();
        let result = self.client.submit(self.now, request, |out| {
            match joins {
                true => put_joining(out, id, script.as_bytes()),
                false => put_request(out, id, sync, script.as_bytes()),
            }
            if fails { Err(()) } else { Ok(()) }
        });
        match result {
            Ok(ticket) => {
                if joins {
                    self.joining.insert(id);
                }
                if !discard {
                    assert!(self.open.insert(token.0));
                    self.tickets.push((id, ticket));
                }
                true
            }
            Err(SubmitError::QueueFull) => false,
            Err(SubmitError::Encode(())) => true,
            Err(SubmitError::Closed) => {
                assert!(self.closed.is_some() || self.terminated);
                true
            }
            Err(SubmitError::NotGranted) => panic!("the group alone may send"),
        }
    }

    fn wait(&mut self, plan: Vec<Planned>) {
        let token = u64::from(plan[0].id);
        if let Some(ticket) = self.client.wait(Token(token), plan[0].deadline) {
            self.tickets.push((plan[0].id, ticket));
            self.open.insert(token);
            self.waiting.insert(token, plan);
        }
    }

    fn cancel(&mut self) {
        if self.tickets.is_empty() {
            return;
        }
        let at = self.rng.below(self.tickets.len());
        let (id, ticket) = self.tickets.swap_remove(at);
        let was_open = self.open.contains(&u64::from(id));
        if self.client.cancel(self.now, ticket) {
            assert!(was_open, "{id} was taken back after it ended");
            self.seen.cancelled += 1;
        }
    }

    fn group(&mut self) {
        if self.senders.len() < 3 && self.rng.one_in(4) {
            let token = u64::from(self.next_id);
            self.next_id += 1;
            if let Some(group) = self.client.open_group(self.now, Token(token)) {
                let segment = Vec::new();
                let (granted, mid_segment, closed) = (false, false, false);
                let sender = Sender { group, granted, mid_segment, closed, segment };
                self.senders.insert(token, sender);
            }
            return;
        }
        let holder = self.senders.iter().find(|(_, sender)| sender.granted && !sender.closed);
        if let Some((&token, _)) = holder {
            match self.rng.below(8) {
                0 => self.close_group(token),
                1 => self.client.flush(self.now, self.senders[&token].group),
                _ => {
                    let sync = self.rng.pick(&[SyncPoint::Member, SyncPoint::Own, SyncPoint::Only]);
                    self.submit_in_group(token, sync);
                }
            }
        } else if self.rng.one_in(4)
            && let Some(&token) = self.senders.keys().min()
        {
            self.close_group(token);
        }
    }

    fn submit_in_group(&mut self, token: u64, sync: SyncPoint) {
        let planned = Planned { discard: false, ..self.plan(sync) };
        let id = planned.id;
        let group = self.senders[&token].group;
        if !self.submit(planned, false, Some(group)) || self.client.is_closed() {
            assert!(sync != SyncPoint::Only || self.client.is_closed());
            return;
        }
        self.group_of.insert(id, token);
        let sender = self.senders.get_mut(&token).unwrap();
        sender.mid_segment = sync == SyncPoint::Member;
        sender.segment.push(id);
        if !sender.mid_segment {
            for member in sender.segment.drain(..) {
                self.segment_end.insert(member, id);
            }
        }
    }

    fn close_group(&mut self, token: u64) {
        if self.senders[&token].mid_segment {
            self.submit_in_group(token, SyncPoint::Only);
        }
        let sender = self.senders.get_mut(&token).unwrap();
        self.client.close_group(self.now, sender.group);
        match sender.granted {
            true => sender.closed = true,
            false => drop(self.senders.remove(&token)),
        }
    }

    fn consume(&mut self) {
        let undelivered = self.client.undelivered_bytes();
        if undelivered > 0 {
            let bytes = 1 + self.rng.below(undelivered);
            let groups: Vec<Group> = self.senders.values().map(|sender| sender.group).collect();
            for group in groups {
                self.client.handle_consumed(self.now, group, bytes);
            }
        }
    }

    fn write(&mut self) {
        let len = self.client.transmit().len();
        if len > 0 {
            let len = if self.rng.one_in(2) { len } else { 1 + self.rng.below(len) };
            self.to_server.extend_from_slice(&self.client.transmit()[..len]);
            self.client.handle_written(self.now, len);
        }
    }

    fn arrive_at_server(&mut self) {
        if !self.to_server.is_empty() {
            let len = 1 + self.rng.below(self.to_server.len());
            let bytes: Vec<u8> = self.to_server.drain(..len).collect();
            self.server.feed(&bytes);
        }
        self.to_client.append(&mut self.server.output);
    }

    fn arrive_at_client(&mut self) {
        if !self.to_client.is_empty() {
            let len = 1 + self.rng.below(self.to_client.len());
            self.input.extend(self.to_client.drain(..len));
            let need = self.client.handle_bytes(self.now, &mut self.input);
            assert!(need > self.input.len());
        }
    }

    fn pass_time(&mut self) {
        self.now = self.now.after(Duration::from_micros(self.rng.next() % 3000));
        let due = self.client.poll_deadline();
        self.client.handle_time(self.now);
        let next = self.client.poll_deadline();
        assert!(next.is_none_or(|next| next > self.now), "{due:?} {next:?} {:?}", self.now);
    }

    fn end_somehow(&mut self) {
        match self.rng.below(3) {
            0 => self.cut(),
            1 => {
                self.client.terminate(self.now);
                self.terminated = true;
            }
            _ => {
                // The server dies. Bytes that it has not read are lost.
                self.arrive_at_server();
                self.to_client.extend(toy::fatal());
                self.to_server.clear();
                self.server.output.clear();
                while !self.client.is_closed() {
                    self.arrive_at_client();
                    self.settle();
                }
            }
        }
    }

    fn cut(&mut self) {
        self.seen.cut += 1;
        self.client.handle_closed();
        self.settle();
        while self.rng.one_in(2) {
            self.arrive_at_server();
        }
        self.to_server.clear();
    }

    /// Does what the host still owes, moves all bytes, and lets every request end.
    fn finish(&mut self) {
        for _ in 0..10_000 {
            if self.closed.is_some() && !self.terminated {
                return;
            }
            let tokens: Vec<u64> = self.senders.keys().copied().collect();
            for token in tokens {
                if !self.senders[&token].closed {
                    self.close_group(token);
                }
            }
            for _ in 0..3 {
                self.write();
                self.arrive_at_server();
                self.arrive_at_client();
            }
            self.consume();
            self.settle();
            let moving = !self.client.transmit().is_empty()
                || !self.to_server.is_empty()
                || !self.to_client.is_empty();
            if !moving && self.client.is_idle() && self.client.undelivered_bytes() == 0 {
                return;
            }
        }
        panic!("stuck: {:?}", self.client);
    }

    // --- what a host sees ---

    /// Takes outputs until there are none.
    fn settle(&mut self) {
        while let Some(output) = self.client.poll_output() {
            match output {
                Output::Data { token, block } | Output::Piece { token, block, .. } => {
                    assert!(self.open.contains(&token.0), "data for nobody: {token:?}");
                    self.replies.entry(token.0).or_default().extend_from_slice(&block);
                }
                Output::Restarted { token } => {
                    assert!(self.open.contains(&token.0), "restarted, and not open: {token:?}");
                    assert!(self.joining.contains(&(token.0 as u32)), "{token:?} joins nobody");
                    assert!(self.restarted.insert(token.0), "{token:?} was sent again twice");
                    self.replies.remove(&token.0);
                    self.seen.restarted += 1;
                }
                Output::Ended { token, block, end, .. } => self.ended(token.0, &block, end),
                Output::Granted { token } => {
                    self.seen.granted += 1;
                    self.senders_free(token.0);
                    // The caller may have withdrawn its request in the meantime.
                    if let Some(sender) = self.senders.get_mut(&token.0) {
                        sender.granted = true;
                    }
                }
                Output::Room { token } => self.take_turn(token.0),
                Output::Closed(reason) => {
                    assert!(!matches!(reason, CloseReason::Violation(_)), "{reason:?}");
                    assert!(self.closed.replace(reason).is_none());
                }
                Output::Event { event, .. } => assert_eq!(event, 9),
                Output::Full | Output::Drained => {}
                Output::Cancel | Output::NotCancelled { .. } | Output::Astray => {
                    panic!("nobody wanted a cancel")
                }
                Output::Leaving => panic!("the server stays what it is"),
            }
        }
        self.check_limits();
    }

    /// The right to send was given to another group: those that held it before must have given it
    /// back.
    fn senders_free(&mut self, to: u64) {
        self.senders.retain(|token, sender| {
            assert!(!sender.granted || sender.closed, "two may send alone: {token} and {to}");
            !sender.granted
        });
    }

    fn take_turn(&mut self, token: u64) {
        self.seen.rooms += 1;
        let plan = self.waiting.remove(&token).unwrap();
        assert!(self.open.remove(&token));
        if !self.rng.one_in(10) && !self.client.is_closed() {
            self.submit_all(plan);
        }
        self.client.end_turn(self.now);
    }

    fn ended(&mut self, token: u64, block: &[u8], end: End) {
        if self.senders.remove(&token).is_some() {
            return assert!(self.closed.is_some());
        }
        assert!(self.open.remove(&token), "{token} ended twice, or was never there");
        self.waiting.remove(&token);
        let reply = self.replies.entry(token).or_default();
        reply.extend_from_slice(block);
        let mut tags = Vec::new();
        let mut at = 0;
        while at < reply.len() {
            let message = parse(&reply[at..]).unwrap();
            assert_eq!(u64::from(message.id), token, "another's reply");
            tags.push(message.tag);
            at += message.len;
        }
        match end {
            End::Complete => {
                // A request whose sync point was left out.
                let joined = self.joining.contains(&(token as u32)) && tags.last() == Some(&b'c');
                assert!(joined || tags.last() == Some(&b's'), "{tags:?}");
            }
            End::Provisional => assert_eq!(tags.last(), Some(&b'c')),
            End::Failed(Failure { cause: Cause::Server, .. }) => {
                assert_eq!(tags.last(), Some(&b'e'));
            }
            End::Failed(_) => {}
        }
        let kind = match end {
            End::Complete => "complete".to_owned(),
            End::Provisional => "provisional".to_owned(),
            End::Failed(failure) => format!("{:?}", failure.outcome),
        };
        *self.seen.ends.entry(kind).or_default() += 1;
        assert!(self.ended.insert(token, end).is_none());
    }

    fn check_limits(&self) {
        let Limits { in_flight_max, in_flight_bytes_max, queue_max, queue_bytes_max, .. } =
            self.limits;
        let client = &self.client;
        assert!(client.in_flight() <= in_flight_max.max(1));
        let sync_points = client.in_flight() - client.in_flight_members();
        assert!(sync_points <= 1 || !self.limits.one_segment);
        assert!(client.in_flight_bytes() <= in_flight_bytes_max + REQUEST_MAX);
        // Each of the two queues may exceed its limit by one segment, and by the requests for the
        // right to send.
        assert!(client.queued() <= 2 * (queue_max + SEGMENT_MAX) + self.senders.len());
        assert!(client.queued_bytes() <= 2 * (queue_bytes_max + SEGMENT_MAX * REQUEST_MAX));
        assert!(
            client.undelivered_bytes() <= in_flight_bytes_max + (in_flight_max + 1) * REPLY_MAX
        );
    }

    // --- afterwards ---

    fn check(&mut self) {
        self.settle();
        self.seen.healed = self.client.protocol().heals;
        assert!(self.open.is_empty(), "never ended: {:?}", self.open);
        assert!(self.waiting.is_empty());
        for (&token, &end) in &self.ended {
            self.check_outcome(token as u32, end);
        }
        for (id, runs) in &self.server.runs {
            let again = usize::from(self.restarted.contains(&u64::from(*id)));
            assert!(*runs <= 1 + again, "{id} ran {runs} times");
        }
        self.seen.syncs_saved += self.joining.len().saturating_sub(self.server.syncs);
        self.check_order();
    }

    fn check_outcome(&self, id: u32, end: End) {
        let effect = self.server.log.get(&id).copied();
        let applied = effect == Some(Effect::Applied);
        match end {
            End::Complete => assert!(applied || effect.is_none(), "{id}: {effect:?}"),
            End::Provisional => {
                let segment =
                    self.segment_end.get(&id).and_then(|end| self.ended.get(&u64::from(*end)));
                match segment {
                    Some(End::Complete) => assert!(applied, "{id}: {effect:?}"),
                    Some(End::Failed(Failure { outcome, .. })) if *outcome != Outcome::Unknown => {
                        assert!(!applied, "{id}: {effect:?}");
                    }
                    _ => {}
                }
            }
            End::Failed(Failure { outcome: Outcome::NotSent, .. }) => {
                assert!(!self.server.received.contains(&id), "{id} was sent");
            }
            End::Failed(Failure { outcome: Outcome::Rejected, .. }) => {
                assert!(!applied && effect != Some(Effect::Some), "{id}: {effect:?}");
            }
            End::Failed(Failure { outcome: Outcome::Unknown, cause: Cause::Server }) => {
                assert_eq!(effect, Some(Effect::Some), "{id}");
            }
            End::Failed(_) => {}
        }
    }

    /// Requests arrive in the order of submission, and segments and groups without a gap, except
    /// for requests that were sent again.
    fn check_order(&self) {
        let mut first = HashSet::new();
        let arrived: Vec<u32> =
            self.server.received.iter().copied().filter(|id| first.insert(*id)).collect();
        for grouped in [false, true] {
            let ids = arrived.iter().filter(|id| self.group_of.contains_key(id) == grouped);
            assert!(ids.is_sorted(), "out of order: {arrived:?}");
        }
        let place: HashMap<u32, usize> =
            self.server.received.iter().copied().enumerate().map(|(at, id)| (id, at)).collect();
        let mut groups: HashMap<u64, Vec<u32>> = HashMap::new();
        for (id, token) in &self.group_of {
            groups.entry(*token).or_default().push(*id);
        }
        for run in self.runs.iter().filter(|run| run.len() > 1).chain(groups.values()) {
            let mut at: Vec<usize> = run.iter().filter_map(|id| place.get(id).copied()).collect();
            at.sort_unstable();
            let whole = at.windows(2).all(|pair| pair[0] + 1 == pair[1]);
            assert!(whole, "{run:?} came apart: {:?}", self.server.received);
        }
    }
}
