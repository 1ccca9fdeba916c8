//! The simulation of a cluster: the client's policy ([`onetrip_redis::client::router`]) over a
//! connection to each of several [model](crate::redis::model) servers, whose
//! [slots](crate::redis::model::slots) move, key by key.
//!
//! Connections are lost and opened again, topologies come late, nodes refuse commands for a while
//! and forget their scripts. In addition to the common checks:
//!
//! * each command ends once, with the true outcome and its own reply, never with a redirect;
//! * if nothing is lost or refused, the commands of a key run in the order in which they were
//!   submitted.

mod driven;
mod mutation;
mod plan;

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use onetrip_engine::{Cause, CloseReason, End, Failure, Output, Token};
use onetrip_redis::Event;
use onetrip_redis::client::router::Limits;

pub use mutation::Own;

use super::book::{Book, Plan as GenericPlan, Record as GenericRecord, State};
use super::settings::{Network, Settings};
use super::side::{Bounds, Side};
use super::world;
use crate::redis::model::slots::{Slots, TAGS, slot};
use crate::redis::model::{Member, Model, ModelConfig};
use crate::seeded::{Effect, Log, Rng};
use driven::{Call, Cluster, Sent};

type World = world::World<Clustered>;
type Plan = GenericPlan<plan::Request>;
type Record = GenericRecord<Clustered>;

/// The state of a cluster's host.
#[derive(Default)]
pub struct Clustered {
    /// By tag: the commands in flight when its slot last moved. The slot does not move again before
    /// they have ended, because moving a slot takes longer than a command.
    wake: Vec<Vec<u64>>,
}

/// The circumstances of a run of a cluster, drawn from the seed.
#[derive(Clone, Debug)]
pub struct OwnSettings {
    nodes: usize,
    /// One in how many commands is refused before it begins.
    refusals: u64,
    /// One in how many moments a connection is lost.
    cuts: u64,
    /// One in how many moments a slot moves on.
    moves: u64,
    /// The most bytes of a value.
    size_max: usize,
}

impl World {
    /// A slot makes a step of its move.
    fn reshard(&mut self) {
        let tag = self.rng.index(TAGS);
        let to = self.rng.index(self.settings.own.nodes);
        let wake = self.side.wake.get(tag);
        let records = &self.book.records;
        let is_over = |id: &u64| records.get(id).is_none_or(|record| !record.is_open());
        let may = wake.is_none_or(|wake| wake.iter().all(is_over));
        let nodes = &self.driven.nodes;
        let is_misrouted = |node: usize| {
            let is_one = |sent: &Sent| match sent {
                Sent::Flight(flight) => flight.slot == Some(slot(tag)) && !flight.asking,
                Sent::Topology(_) => false,
            };
            nodes[node].sent.values().any(is_one)
        };
        let Some(member) = self.links[0].server.member() else { return };
        let has_moved = member.slots().step(tag, to, may, is_misrouted);
        if has_moved {
            self.book.report.count("slot moved");
            self.side.wake.resize(TAGS, Vec::new());
            self.side.wake[tag] = self.book.submitted().collect();
        }
    }

    /// A connection is lost.
    fn lose_link(&mut self) {
        let at = self.any_link();
        if !self.terminated {
            self.book.report.count("connection lost");
            self.fail_transport(at);
        }
    }
}

impl Side for Clustered {
    type Driven = Cluster;
    type Server = Model;
    type Settings = OwnSettings;
    type Request = plan::Request;
    type Known = ();
    type Heard = ();
    type Mutation = Own;

    const NAME: &'static str = "Redis cluster";
    const OPTION: &'static str = " CLUSTER=1";
    const HOSTILE: &'static [&'static [u8]] = &[b"@\r\n", b"*-2\r\n", b":one\r\n", b">0\r\n"];
    const READ_MAX: usize = usize::MAX;
    const HOSTILE_MAY_STALL: bool = false;
    const MOMENTS: u64 = 13;
    const LOSES_LINKS: bool = true;
    const CLOSED_BY_SERVER: &'static str = "closed: by an error";

    fn settings(rng: &mut Rng, network: &mut Network) -> OwnSettings {
        let speed = network.speed();
        let is_calm = rng.one_in(2);
        OwnSettings {
            nodes: 2 + rng.index(3),
            refusals: if is_calm { 0 } else { rng.pick(&[0, 5, 20]) },
            cuts: if is_calm { 0 } else { rng.pick(&[0, 4, 20]) },
            moves: rng.pick(&[1, 1, 3, 0]),
            size_max: (speed * 2).clamp(8, 300),
        }
    }

    fn servers(rng: &mut Rng, settings: &Settings<OwnSettings>) -> Vec<Model> {
        let nodes = settings.own.nodes;
        let owner = (0..TAGS).map(|_| rng.index(nodes)).collect();
        let slots = Arc::new(Mutex::new(Slots::new(nodes, owner)));
        let log = Log::default();
        let node = |node| {
            let config = ModelConfig {
                refusals: Some((rng.split(), settings.own.refusals)),
                node: Some(Member { shared: slots.clone(), node }),
                ..ModelConfig::default()
            };
            Model::new(config, log.clone())
        };
        (0..nodes).map(node).collect()
    }

    fn reopen(world: &mut World, at: usize) -> Option<Model> {
        world.book.report.count("connection opened again");
        Some(world.links[at].server.reopened())
    }

    fn driven(
        seed: u64,
        settings: &Settings<OwnSettings>,
        mutation: Option<Own>,
    ) -> (Clustered, Cluster) {
        let limits = settings.network.limits.clone();
        let cluster = Cluster::new(seed, settings.own.nodes, limits, Limits::default(), mutation);
        (Clustered::default(), cluster)
    }

    fn act(world: &mut World) {
        let count = match world.rng.below(10) {
            0..=6 => 1,
            7 => world.rng.up_to(20),
            8 => return,
            _ => {
                let open: Vec<u64> = world.book.submitted().collect();
                if let Some(id) = open.get(world.rng.index(open.len().max(1))) {
                    world.book.report.count("given up");
                    world.driven.give_up(world.now, Token(*id));
                    world.drain();
                }
                return;
            }
        };
        for _ in 0..count {
            let plan = world.plan_any();
            world.submit_alone(plan);
        }
    }

    fn plan(world: &mut World) -> Plan {
        world.plan_any()
    }

    fn request(_: &World, plan: &Plan, _: bool) -> Call {
        plan.own.call.clone().expect("each plan has its call")
    }

    fn describe(plan: &Plan) -> &dyn Debug {
        &plan.own.call
    }

    fn keep(world: &mut World, plan: Plan) -> Record {
        let place = world.take_place();
        Record::new(plan, State::Submitted, place)
    }

    fn consume(_: &mut World) {}

    fn bounds(_: &World) -> Bounds {
        // Here the router's own queue is bounded.
        let any = usize::MAX / 4;
        Bounds {
            beyond: 0,
            added: ADDED_MAX,
            queued: any,
            queued_bytes: any,
            undelivered_bytes: 0,
            owed: 0,
        }
    }

    fn moment(world: &mut World, moment: u64) {
        let own = &world.settings.own;
        match moment {
            10 if world.rng.one_in(own.moves) => (0..4).for_each(|_| world.reshard()),
            11 if world.rng.one_in(own.cuts) => world.lose_link(),
            12 if world.settings.losses && world.rng.one_in(8) => {
                let at = world.any_link();
                world.links[at].server.lose_scripts();
            }
            12 if world.rng.one_in(8) => world.freeze(),
            _ => {}
        }
    }

    fn received(_: &mut World, _: Token, _: usize, _: bool) {}

    fn drained(world: &mut World) {
        for what in std::mem::take(&mut world.driven.violations) {
            world.book.report.count("closed: violation");
            if !world.garbled {
                world.book.complain(format!("a node did nothing wrong: {what:?}"));
            }
        }
    }

    fn closed(_: &mut World, _: &CloseReason) -> bool {
        false
    }

    fn note(book: &mut Book<Clustered>, output: &Output<Event>) {
        match output {
            Output::Event { event: Event::ScriptLoaded, .. } => book.report.count("script loaded"),
            output => book.complain(format!("nothing leads to {output:?}")),
        }
    }

    fn judge_reply(book: &mut Book<Clustered>, token: u64, end: End) -> Vec<String> {
        let Some(record) = book.records.get(&token) else { return Vec::new() };
        let finding = match end {
            End::Complete => plan::check(&record.reply, &record.plan),
            End::Failed(Failure { cause: Cause::Server, .. }) => {
                let error = &record.error;
                let is_own = error.is_empty() || plan::is_own_error(error, &record.plan);
                (!is_own).then(|| format!("its error is none of its own: {}", error.escape_ascii()))
            }
            _ => None,
        };
        finding.into_iter().collect()
    }

    fn may_be_taken_back(_: &Book<Clustered>, _: &Record) -> bool {
        false
    }

    fn runs_max(record: &Record) -> u32 {
        if record.plan.own.repeatable { u32::MAX } else { 1 }
    }

    /// The order is checked by key, if nothing gets lost or is refused for a while.
    fn order(world: &World, record: &Record) -> Option<usize> {
        let is_calm = world.driven.lost == 0 && world.settings.own.refusals == 0;
        let counts = is_calm && record.end() == Some(End::Complete);
        counts.then_some(record.plan.own.key)
    }

    fn has_sent_again(_: &World) -> bool {
        true
    }

    /// Checks that completed commands took effect, except transactions with a refused command.
    fn check(world: &mut World, findings: &mut Vec<String>) {
        let [moved, asked] = world.driven.redirects;
        world.book.report.add("redirected", moved);
        world.book.report.add("asked elsewhere", asked);
        // Slots move so slowly that each command must find its node.
        if world.driven.sent_around > 0 {
            findings.push(format!("{} were sent around in a circle", world.driven.sent_around));
        }
        for (record, op, entry) in world.effects() {
            let stands = entry.effect == Effect::Committed;
            let discarded = plan::is_discarded(&record.reply, &record.plan);
            if record.end() == Some(End::Complete) && stands == discarded {
                findings.push(format!("{op} is not what its reply says: {entry:?}"));
            }
        }
    }

    fn has_struck(driven: &Cluster) -> bool {
        driven.mistakes.struck
    }

    fn strike(_: Own, _: &mut Vec<Output<Event>>, _: &Log) -> bool {
        false
    }

    fn truncate(block: &Bytes) -> Bytes {
        block.slice(1..)
    }
}

/// Bytes that may be added to a command: the text of its script, and ASKING.
const ADDED_MAX: usize = 300;
