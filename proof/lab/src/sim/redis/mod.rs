//! The simulation with RESP: a [model](crate::redis::model) of a Redis server, and what only Redis
//! has.
//!
//! A host has commands of every kind of reply, several in one request, MULTI and EXEC, scripts by
//! their hash, subscriptions, published messages, and callers that are slow to take their replies.
//! The server refuses, pushes and forgets its scripts. Beside what every run compares:
//!
//! * what is pushed is never a reply, and arrives in order, all of it;
//! * `Unknown` is only what may have left something, and at the end of a connection no more than
//!   its window.

mod book;
mod check;
mod mutation;
mod plan;
mod reply;

use std::fmt::Debug;

use bytes::Bytes;
use onetrip_engine::{CloseReason, Connection, End, Output, Token};
use onetrip_redis::scan::ScanLimits;
use onetrip_redis::{Event, Expect};

pub use mutation::Own;

use super::book::{Book, Plan as GenericPlan, Record as GenericRecord, State};
use super::mutation::drop_first;
use super::settings::{Network, Settings};
use super::side::{Bounds, Side, peer};
use super::world;
use crate::redis::model::{Model, ModelConfig};
use crate::seeded::{Log, Rng};
use mutation::Mistaken;

type World = world::World<Redis>;
type Plan = GenericPlan<plan::Request>;
type Record = GenericRecord<Redis>;

/// What only a host of Redis knows.
#[derive(Default)]
pub struct Redis {
    /// Channels to which a subscription was requested.
    channels: Vec<String>,
    /// Bytes of metered replies that their callers have not taken.
    untaken: usize,
}

/// What a seed makes of a run of Redis.
#[derive(Clone, Debug)]
pub struct OwnSettings {
    /// Whether the connection is a RESP2 one that is there for subscriptions only.
    subscriber: bool,
    /// One in how many commands is refused before it begins.
    refusals: u64,
    /// Whether reading waits for callers that are slow to take their replies.
    metered: bool,
    /// The most bytes of a value.
    size_max: usize,
}

peer!(Model);

impl Side for Redis {
    type Driven = Connection<Mistaken>;
    type Server = Model;
    type Settings = OwnSettings;
    type Request = plan::Request;
    type Known = book::Known;
    type Heard = book::Heard;
    type Mutation = Own;

    const NAME: &'static str = "Redis";
    const OPTION: &'static str = " REDIS=1";
    /// Types and lengths that there are not, values that are none, a push without a name, an end
    /// that nothing begins.
    const HOSTILE: &'static [&'static [u8]] = &[
        b"@\r\n",
        b"$x\r\n",
        b"*-2\r\n",
        b":one\r\n",
        b"#y\r\n",
        b"$99999999999999999999\r\n",
        b">0\r\n",
        b".\r\n",
        b"$3\r\nabcdef",
    ];
    const READ_MAX: usize = usize::MAX;
    const HOSTILE_MAY_STALL: bool = true;
    const MOMENTS: u64 = 11;
    const CLOSED_BY_SERVER: &'static str = "closed: by an error";

    fn settings(rng: &mut Rng, network: &mut Network) -> OwnSettings {
        network.limits.untaken_bytes_max = rng.pick(&[0, 100, 5000, 1 << 20]);
        let speed = network.speed();
        // Replies of more than 16 KiB are handed on in parts.
        let large = speed >= 1000 && rng.one_in(3);
        OwnSettings {
            subscriber: rng.one_in(8),
            refusals: rng.pick(&[0, 0, 3, 20]),
            metered: rng.one_in(3),
            size_max: if large { 50_000 } else { (speed * 2).clamp(8, 1500) },
        }
    }

    fn servers(rng: &mut Rng, settings: &Settings<OwnSettings>) -> Vec<Model> {
        let config = ModelConfig {
            resp2: settings.own.subscriber,
            noise: Some((rng.split(), settings.noise)),
            refusals: Some((rng.split(), settings.own.refusals)),
            node: None,
        };
        vec![Model::new(config, Log::default())]
    }

    fn driven(
        _seed: u64,
        settings: &Settings<OwnSettings>,
        mutation: Option<Own>,
    ) -> (Redis, Connection<Mistaken>) {
        let redis = match settings.own.subscriber {
            true => onetrip_redis::Redis::subscriber(ScanLimits::default()),
            false => onetrip_redis::Redis::new(ScanLimits::default()),
        };
        let protocol = Mistaken::new(redis, mutation);
        let limits = settings.network.limits.clone();
        (Redis::default(), Connection::new(onetrip_engine::Time::ZERO, protocol, limits))
    }

    fn act(world: &mut World) {
        match world.rng.below(12) {
            0..=7 => world.submit_one(),
            8 => (0..world.rng.up_to(20)).for_each(|_| world.submit_one()),
            9 | 10 => world.take_back(),
            _ => world.take_turn(),
        }
    }

    fn plan(world: &mut World) -> Plan {
        world.plan_any()
    }

    fn request(_: &World, plan: &Plan, reserved: bool) -> onetrip_engine::Request<Expect> {
        onetrip_engine::Request {
            deadline: plan.deadline,
            again: plan.again,
            in_order: plan.own.in_order,
            metered: plan.own.metered,
            reserved,
            ..onetrip_engine::Request::isolated(plan.token(), plan.own.expect())
        }
    }

    fn describe(plan: &Plan) -> &dyn Debug {
        &plan.own.kind
    }

    fn keep(world: &mut World, plan: Plan) -> Record {
        let place = world.take_place();
        Record::new(plan, State::Submitted, place)
    }

    /// Callers take some of the replies that reading waits for, or all.
    fn consume(world: &mut World) {
        let untaken = world.side.untaken;
        if untaken == 0 {
            return;
        }
        let some = if world.rng.one_in(2) { untaken } else { world.rng.up_to(untaken) };
        world.driven.handle_taken(some);
        world.side.untaken -= some;
        world.moved = true;
        world.book.report.count("slow reader took some");
    }

    fn bounds(world: &World) -> Bounds {
        let limits = &world.settings.network.limits;
        let request = world.bytes_max + ADDED_MAX;
        let bytes = limits.in_flight_bytes_max + request;
        Bounds {
            beyond: 0,
            added: ADDED_MAX,
            // What is sent again goes in front of a queue that may be full.
            queued: limits.queue_max + 1 + limits.in_flight_max.max(1),
            queued_bytes: limits.queue_bytes_max + request + bytes,
            undelivered_bytes: 0,
            owed: 0,
        }
    }

    fn moment(world: &mut World, _: u64) {
        match world.rng.below(4) {
            0 => world.links[0].server.push_message(b"by itself"),
            1 => world.links[0].server.push_end_of_subscription(),
            2 if world.settings.losses => {
                world.note(|_| "  scripts are lost".into());
                world.links[0].server.lose_scripts();
            }
            _ if world.rng.one_in(8) => world.freeze(),
            _ => {}
        }
    }

    /// Counts what its caller has not taken.
    fn received(world: &mut World, token: Token, len: usize, _: bool) {
        let record = world.book.records.get(&token.0);
        if record.is_some_and(|record| record.plan.own.metered) {
            world.side.untaken += len;
        }
    }

    fn closed(_: &mut World, _: &CloseReason) -> bool {
        false
    }

    fn drained(world: &mut World) {
        let (counted, left) = (world.driven.untaken_bytes(), world.side.untaken);
        if !world.driven.is_closed() && counted != left {
            let what = format!("{left} bytes were not taken, and {counted} are counted");
            world.book.complain(what);
        }
    }

    fn note(book: &mut Book<Redis>, output: &Output<Event>) {
        book.note_push(output);
    }

    fn judge_reply(book: &mut Book<Redis>, token: u64, end: End) -> Vec<String> {
        book.judge(token, end)
    }

    fn may_be_taken_back(_: &Book<Redis>, _: &Record) -> bool {
        true
    }

    fn order(_: &World, record: &Record) -> Option<usize> {
        let request = &record.plan.own;
        let passes = matches!(request.kind, plan::Kind::Script(_)) && record.plan.again;
        (!passes || request.in_order).then_some(0)
    }

    fn has_sent_again(world: &World) -> bool {
        world.driven.healed() > 0
    }

    fn check(world: &mut World, findings: &mut Vec<String>) {
        world.check_unknown(findings);
        world.check_replies(findings);
        world.check_pushes(findings);
        world.book.report.add("sent again", world.driven.healed());
    }

    fn has_struck(driven: &Connection<Mistaken>) -> bool {
        driven.protocol().struck
    }

    fn strike(mutation: Own, outputs: &mut Vec<Output<Event>>, _: &Log) -> bool {
        let is_push = |output: &_| matches!(output, Output::Event { event: Event::Push, .. });
        mutation == Own::DropPush && drop_first(outputs, is_push)
    }

    fn truncate(block: &Bytes) -> Bytes {
        block.slice(1..)
    }
}

/// Bytes that the engine may add to a request: what loads its script anew.
const ADDED_MAX: usize = 200;
