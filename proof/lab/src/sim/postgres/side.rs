//! PostgreSQL's side of the simulation.

use std::fmt::Debug;
use std::time::Duration;

use bytes::Bytes;
use onetrip_engine::{CloseReason, Connection, End, Feed, Output, Protocol, Request, Time, Token};
use onetrip_postgres::{Event, Expect};

use super::cancels::Cancels;
use super::mutation::Own;
use super::owners::Owners;
use super::protocol::Observed;
use super::reply::Part;
use super::workload::reply_len_max;
use super::{OwnSettings, Plan, Postgres, Record, World, book, plan};
use crate::model::{Config, Log, Noise, Server};
use crate::seeded::Rng;
use crate::sim::book::{Book, State};
use crate::sim::settings::{Network, Settings};
use crate::sim::side::{Bounds, Side, Written, peer};

peer!(Server);

impl Side for Postgres {
    type Driven = Connection<Observed>;
    type Server = Server;
    type Settings = OwnSettings;
    type Request = plan::Request;
    type Known = book::Known;
    type Heard = book::Heard;
    type Mutation = Own;

    const NAME: &'static str = "PostgreSQL";
    const OPTION: &'static str = "";
    /// Messages that are unknown, too short, too long or malformed, or that belong to a startup or
    /// a COPY that was not requested.
    const HOSTILE: &'static [&'static [u8]] = &[
        b"\0\0\0\0\x04",
        b"!\0\0\0\x04",
        b"D\0\0\0\x03",
        b"Z\x7f\xff\xff\xff",
        b"E\0\0\0\x05S",
        b"G\0\0\0\x07\0\0\0",
        b"K\0\0\0\x0c\0\0\0\x01\0\0\0\x02",
    ];
    /// The size of PqRecvBuffer in src/backend/libpq/pqcomm.c.
    const READ_MAX: usize = 8192;
    const HOSTILE_MAY_STALL: bool = false;
    const MOMENTS: u64 = 12;
    const CLOSED_BY_SERVER: &'static str = "closed: FATAL";

    fn settings(rng: &mut Rng, network: &mut Network) -> OwnSettings {
        let speed = network.speed();
        OwnSettings {
            cancels: rng.one_in(2),
            cancel_lag: rng.pick(&[Duration::ZERO, Duration::ZERO, Duration::from_millis(300)]),
            joins: !rng.one_in(3),
            rows_max: if speed < 100 { 3 } else { 20 },
            size_max: (speed * 2).clamp(8, 1500),
        }
    }

    fn servers(rng: &mut Rng, settings: &Settings<OwnSettings>) -> Vec<Server> {
        let noise = Noise { rng: rng.split(), one_in: settings.noise };
        vec![Server::ready(Config { noise: Some(noise), ..Config::default() }, Log::default())]
    }

    fn driven(
        seed: u64,
        settings: &Settings<OwnSettings>,
        mutation: Option<Own>,
    ) -> (Postgres, Connection<Observed>) {
        let side = Postgres {
            cancels: Cancels::default(),
            owners: Owners::new(seed),
            floors: Vec::new(),
            prepared: Vec::new(),
            transactions: Vec::new(),
            healing: false,
            reply_max: 0,
        };
        let limits = settings.network.limits.clone();
        (side, Connection::new(Time::ZERO, Observed::new(mutation), limits))
    }

    fn begin(world: &mut World) {
        world.note(|world| format!("{:?}", world.side.owners.as_ref().map(|owners| &owners.ways)));
        world.first_owner();
    }

    fn prepare_step(world: &mut World) {
        if world.is_being_left() {
            world.change_owners();
        }
    }

    fn act(world: &mut World) {
        if world.side.owners.as_mut().is_some_and(Owners::is_leaving) {
            return;
        }
        if world.side.owners.is_some() && world.rng.one_in(3) {
            return world.act_as_owner();
        }
        if world.settings.own.cancels && world.rng.one_in(3) {
            world.want_cancel();
        }
        match world.rng.below(16) {
            0..=6 => world.submit_one(),
            7 if world.rng.one_in(2) => {
                for _ in 0..world.rng.up_to(20) {
                    world.submit_one();
                }
            }
            7..=9 => world.submit_segment(),
            10 | 11 => world.open_group(),
            12 | 13 => world.take_back(),
            14 => world.forget_prepared(),
            _ => world.take_turn(),
        }
    }

    fn plan(world: &mut World) -> Plan {
        world.plan_isolated()
    }

    fn request(world: &World, plan: &Plan, reserved: bool) -> Request<Expect> {
        let own = &plan.own;
        Request {
            token: plan.token(),
            expect: world.side.owners.as_ref().map_or(own.expect, |owners| owners.expect(plan)),
            sync: own.sync,
            deadline: plan.deadline,
            again: plan.again,
            joins: own.joins,
            own_way: false,
            group: own.floor.map(|at| world.side.floors[at].group),
            in_order: world.is_lent(),
            pinned: own.pinned,
            resend: own.resend,
            cancel_late: own.cancel_late,
            reserved,
            feed: Feed::Whole,
            metered: false,
        }
    }

    fn describe(plan: &Plan) -> &dyn Debug {
        &plan.own.sync
    }

    fn keep(world: &mut World, plan: Plan) -> Record {
        world.side.reply_max = world.side.reply_max.max(reply_len_max(&plan));
        if let Some(owners) = &mut world.side.owners {
            owners.keep(&plan);
        }
        let floor = plan.own.floor;
        let place = match floor {
            Some(at) => {
                let place = &mut world.side.floors[at].place;
                place.1 += 1;
                *place
            }
            None => world.take_place(),
        };
        let mut record = Record::new(plan, State::Submitted, place);
        record.own.in_order = world.is_lent();
        if record.plan.own.depends {
            let columns = Part::Columns { op: 0, format: Default::default() };
            record.own.healed = vec![Part::ParseComplete, Part::Parameters(3), columns];
        }
        if let Some(at) = floor {
            let floor = &mut world.side.floors[at];
            floor.pending += 1;
            record.run = floor.run;
            record.group = Some(floor.token);
            record.own.in_transaction = floor.transaction.is_some();
        }
        record
    }

    fn consume(world: &mut World) {
        world.consume_some();
    }

    fn wind_up(world: &mut World) {
        world.close_floors();
    }

    fn bounds(world: &World) -> Bounds {
        let limits = &world.settings.network.limits;
        let window = limits.in_flight_max.max(1);
        let request = world.bytes_max + ADDED_MAX;
        let bytes = limits.in_flight_bytes_max + request;
        let wishes = world.side.floors.len();
        Bounds {
            // A segment that is given up while it is being sent ends at once: see `in_flight_max`.
            beyond: if world.driven.protocol().may_give_up.get() { 2 } else { 0 },
            // One request may take a reset along.
            added: ADDED_MAX + OWED_MAX,
            queued: 2 * (limits.queue_max + world.run_max) + wishes + world.aside_max(),
            queued_bytes: 2 * (limits.queue_bytes_max + world.run_max * request),
            undelivered_bytes: bytes + (window + 1).saturating_mul(world.side.reply_max),
            owed: OWED_MAX,
        }
    }

    fn moment(world: &mut World, moment: u64) {
        match moment {
            10 => world.use_floor(),
            11 if world.rng.one_in(2) => world.move_cancel(),
            _ => world.server_moment(),
        }
    }

    fn next(world: &World) -> Time {
        world.side.cancels.next()
    }

    fn move_on(world: &mut World) {
        world.move_cancel();
    }

    fn has_read(world: &mut World) {
        world.keep_server_busy();
    }

    fn prepare_outputs(world: &mut World) {
        world.book.own.guards_fail = world.log().resets_failed()[0] > 0 || world.has_deallocated();
    }

    fn received(world: &mut World, token: Token, len: usize, ended: bool) {
        world.received_in_floor(token, len, ended);
    }

    fn react(world: &mut World, output: Output<Event>) {
        match output {
            Output::Granted { token } => world.granted(token.0),
            Output::Cancel => world.prepare_cancel(),
            _ => {}
        }
    }

    fn closed(world: &mut World, reason: &CloseReason) -> bool {
        world.side.floors.clear();
        let CloseReason::Unusable(why) = reason else { return false };
        world.closed_unusable(why);
        true
    }

    fn drained(world: &mut World) {
        world.register_prepared();
        if !world.driven.is_closed() && world.book.own.wishes.len() > world.driven.queued() {
            world.book.complain("a group waits for the floor, and the engine does not know");
        }
    }

    /// True if a group holds the floor, a cancel is under way, or a reset waits for its answer.
    fn may_stand_still(world: &World) -> bool {
        world.driven.is_held()
            || world.driven.protocol().is_resetting()
            || world.waits_for_the_engines_own()
            || world.side.floors.iter().any(|floor| floor.granted)
    }

    fn is_settled(world: &World) -> bool {
        !world.side.cancels.is_under_way()
    }

    fn is_busy(world: &World) -> bool {
        world.driven.is_held() || !world.side.floors.is_empty()
    }

    fn note(book: &mut Book<Postgres>, output: &Output<Event>) {
        book.note_other(output);
    }

    fn note_other_end(book: &mut Book<Postgres>, token: Token, end: End) -> bool {
        book.note_end_of_wish(token, end)
    }

    fn judge_reply(book: &mut Book<Postgres>, token: u64, end: End) -> Vec<String> {
        book.judge(token, end)
    }

    fn may_be_taken_back(book: &Book<Postgres>, record: &Record) -> bool {
        book.own.wishes_to_cancel.want(record)
    }

    fn runs_max(record: &Record) -> u32 {
        1 + record.own.restarts.max(u32::from(record.may_be_restarted()))
    }

    fn order(world: &World, record: &Record) -> Option<usize> {
        world.order_of(record)
    }

    fn has_sent_again(world: &World) -> bool {
        world.sent_again()
    }

    fn find_written<'a>(
        world: &World,
        rest: &'a [u8],
        record: &'a Record,
        next: Option<&Record>,
    ) -> Option<Written<'a>> {
        world.find_among_own(rest, record, next)
    }

    fn may_be_last(world: &World, rest: &[u8]) -> bool {
        world.is_end(rest)
    }

    fn check(world: &mut World, findings: &mut Vec<String>) {
        world.check_wishes(findings);
        world.check_effects(findings);
        world.check_transactions(findings);
        world.check_goodbyes(findings);
        world.check_owners(findings);
    }

    fn has_struck(driven: &Connection<Observed>) -> bool {
        driven.protocol().has_struck()
    }

    fn strike(mutation: Own, outputs: &mut Vec<Output<Event>>, log: &Log) -> bool {
        mutation.strike(outputs, log)
    }

    /// Without its first message.
    fn truncate(block: &Bytes) -> Bytes {
        let len = u32::from_be_bytes([block[1], block[2], block[3], block[4]]) as usize;
        block.slice((1 + len).min(block.len())..)
    }
}

/// Bytes that the engine may add to a request: those that prepare its statement again, and a Flush.
const ADDED_MAX: usize = 200;
/// The bytes of a reset, for which no request has to wait.
const OWED_MAX: usize = 1000;
/// Pauses of [`yield_after`](onetrip_engine::Limits::yield_after) that a request stays aside for,
/// at most. In each of them one more head may be put aside.
const PAUSES_MAX: usize = 8;

impl World {
    /// The most requests that were taken away from others and are not on the wire again. They take
    /// no place in the queue: who they wait for may need one. Each waits for its pause, and then
    /// for what is in the queue by then; meanwhile each of those may be put aside as well.
    fn aside_max(&self) -> usize {
        let limits = &self.settings.network.limits;
        match limits.yield_after {
            Duration::MAX => 0,
            _ => 1 + PAUSES_MAX + limits.queue_max + self.run_max,
        }
    }

    /// Whether a segment waits until the engine's own request was answered, because of what is
    /// there in place of the server only one may be in flight.
    fn waits_for_the_engines_own(&self) -> bool {
        let something_is_on_the_wire =
            self.driven.is_reply_due() || !self.driven.transmit().is_empty();
        self.driven.protocol().one_segment()
            && self.driven.in_flight() == 0
            && something_is_on_the_wire
    }
}
