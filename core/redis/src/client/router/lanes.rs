//! The queue of each hash slot: which node has the slot, what is unanswered there, and what waits.

use std::collections::VecDeque;
use std::time::Duration;

use onetrip_engine::Time;

use super::flight::FlightId;
use super::nodes::{NodeId, Nodes};
use crate::client::topology::Topology;
use crate::redirect::Redirect;
use crate::slots::SLOTS;

/// 20 bytes for each slot: 320 KiB in all.
pub(super) struct Lanes {
    lanes: Box<[Lane]>,
    /// Further state of the slots in whose queues commands wait or that have moved.
    crowds: Vec<Crowd>,
    /// Indices in `crowds` that are free.
    free: Vec<u32>,
    /// Waiting flights without a place in any order.
    loose: Vec<Held>,
    held: usize,
}

#[derive(Clone)]
struct Lane {
    /// The node that has the slot; [`NOBODY`] if none has.
    node: NodeId,
    /// How often the slot has moved.
    turn: u32,
    /// How many commands are unanswered at that node.
    here: u32,
    /// The index of its crowd; [`NONE`] if it has none.
    crowd: u32,
    /// Whether a node moved it since the topology was asked for.
    has_moved: bool,
}

/// The state of a slot queue that most slots don't need.
#[derive(Default)]
struct Crowd {
    slot: u16,
    /// Waiting flights, in the order of their numbers.
    waiting: VecDeque<Held>,
    /// The numbers of flights that are unanswered at nodes that had the slot before, in order.
    elsewhere: Vec<u64>,
}

impl Crowd {
    /// Whether a flight before this number is unanswered elsewhere.
    fn is_behind(&self, number: u64) -> bool {
        self.elsewhere.first().is_some_and(|first| *first < number)
    }
}

const NOBODY: NodeId = NodeId(u32::MAX);
const NONE: u32 = u32::MAX;

/// A flight that waits.
pub(super) struct Held {
    pub(super) flight: FlightId,
    /// The hash slot of its keys.
    pub(super) slot: Option<u16>,
    pub(super) number: u64,
    /// It was refused, so it waits only for flights before it that are unanswered elsewhere.
    pub(super) again: bool,
    /// It is not sent before this moment.
    pub(super) until: Time,
    pub(super) since: Time,
    /// The deadline of its caller.
    pub(super) deadline: Time,
    pub(super) to: To,
}

/// Where a waiting flight goes.
pub(super) enum To {
    /// To the node that has its slot by then.
    Route,
    /// To this node, behind ASKING.
    Ask(NodeId),
    /// To a node that is not known. The answer to the topology request with this number decides.
    Stranger(Box<Redirect>, u64),
}

impl Lanes {
    pub(super) fn new() -> Lanes {
        let lane = Lane { node: NOBODY, turn: 0, here: 0, crowd: NONE, has_moved: false };
        Lanes {
            lanes: vec![lane; usize::from(SLOTS)].into(),
            crowds: Vec::new(),
            free: Vec::new(),
            loose: Vec::new(),
            held: 0,
        }
    }

    fn lane(&mut self, slot: u16) -> &mut Lane {
        &mut self.lanes[usize::from(slot)]
    }

    fn crowd(&self, slot: u16) -> Option<&Crowd> {
        self.crowds.get(self.lanes[usize::from(slot)].crowd as usize)
    }

    /// The crowd of a slot, created if it has none.
    fn gather(&mut self, slot: u16) -> &mut Crowd {
        let mut at = self.lanes[usize::from(slot)].crowd;
        if at == NONE {
            at = self.free.pop().unwrap_or_else(|| {
                self.crowds.push(Crowd::default());
                (self.crowds.len() - 1) as u32
            });
            self.lane(slot).crowd = at;
        }
        let crowd = &mut self.crowds[at as usize];
        crowd.slot = slot;
        crowd
    }

    /// Frees the crowd of a slot if it is no longer needed.
    fn scatter(&mut self, slot: u16) {
        let is_over = |crowd: &Crowd| crowd.waiting.is_empty() && crowd.elsewhere.is_empty();
        if self.crowd(slot).is_some_and(is_over) {
            let at = std::mem::replace(&mut self.lane(slot).crowd, NONE);
            self.crowds[at as usize] = Crowd::default();
            self.free.push(at);
        }
    }

    pub(super) fn held(&self) -> usize {
        self.held
    }

    pub(super) fn route(&self, slot: u16) -> Option<NodeId> {
        Some(self.lanes[usize::from(slot)].node).filter(|node| *node != NOBODY)
    }

    /// Whether a new command may be sent at once.
    pub(super) fn is_open(&self, slot: u16) -> bool {
        let lane = &self.lanes[usize::from(slot)];
        lane.crowd == NONE && lane.node != NOBODY
    }

    /// A command was sent to the node that has the slot. Returns how often the slot has moved.
    pub(super) fn sent(&mut self, slot: u16) -> u32 {
        let lane = self.lane(slot);
        lane.here += 1;
        lane.turn
    }

    /// Whether the slot has not moved since.
    pub(super) fn is_turn(&self, slot: u16, turn: u32) -> bool {
        self.lanes[usize::from(slot)].turn == turn
    }

    /// The flight with this number, sent at this turn, was answered. Returns whether the slot has
    /// not moved since.
    pub(super) fn answered(&mut self, slot: u16, turn: u32, number: u64) -> bool {
        let lane = self.lane(slot);
        if lane.turn == turn {
            lane.here -= 1;
            return true;
        }
        let elsewhere = &mut self.gather(slot).elsewhere;
        if let Ok(at) = elsewhere.binary_search(&number) {
            elsewhere.remove(at);
        }
        self.scatter(slot);
        false
    }

    /// The slot belongs to this node now. Returns whether anything of it is unanswered at the
    /// previous node; [each](Self::left_behind) such flight must then be reported.
    pub(super) fn give(&mut self, slot: u16, node: NodeId) -> bool {
        let lane = self.lane(slot);
        if lane.node == node {
            return false;
        }
        lane.node = node;
        lane.turn = lane.turn.wrapping_add(1);
        let was_used = std::mem::take(&mut lane.here) > 0;
        // What the previous node did not take goes to this one without a pause.
        let at = lane.crowd as usize;
        if let Some(crowd) = self.crowds.get_mut(at) {
            crowd.waiting.iter_mut().for_each(|held| held.until = Time::ZERO);
        }
        was_used
    }

    /// The flight with this number is unanswered at a node that had the slot before.
    pub(super) fn left_behind(&mut self, slot: u16, number: u64) {
        let elsewhere = &mut self.gather(slot).elsewhere;
        if let Err(at) = elsewhere.binary_search(&number) {
            elsewhere.insert(at, number);
        }
    }

    /// A node moved the slot after the topology was asked for.
    pub(super) fn note_moved(&mut self, slot: u16) {
        self.lane(slot).has_moved = true;
    }

    /// The topology is asked for now.
    pub(super) fn forget_moved(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.has_moved = false);
    }

    /// Gives each slot to its master, except for slots that moved after the topology was asked for.
    /// Returns whether there are such slots, and whether flights were left behind.
    pub(super) fn follow(&mut self, topology: &Topology, nodes: &Nodes) -> (bool, bool) {
        let shards = topology.shards().iter();
        let masters: Vec<_> = shards.map(|shard| nodes.at(&shard.master.address)).collect();
        let (mut moved, mut left) = (false, false);
        for slot in 0..SLOTS {
            let has_moved = std::mem::take(&mut self.lane(slot).has_moved);
            moved |= has_moved;
            if has_moved && self.route(slot).is_some_and(|node| nodes.is_part(node)) {
                continue;
            }
            let master = topology.shard_number(slot).and_then(|shard| masters[shard]);
            left |= self.give(slot, master.unwrap_or(NOBODY));
        }
        (moved, left)
    }

    pub(super) fn hold(&mut self, slot: Option<u16>, held: Held) {
        self.held += 1;
        let Some(slot) = slot else { return self.loose.push(held) };
        let line = &mut self.gather(slot).waiting;
        let at = line.partition_point(|other| other.number < held.number);
        line.insert(at, held);
    }

    /// Takes the first waiting flight of a slot queue, if it may be sent, and its node takes it.
    pub(super) fn next(
        &mut self,
        slot: u16,
        now: Time,
        takes: &dyn Fn(NodeId) -> bool,
    ) -> Option<Held> {
        let lane = &self.lanes[usize::from(slot)];
        let crowd = self.crowd(slot)?;
        let held = crowd.waiting.front()?;
        let goes = match held.to {
            To::Route if lane.node == NOBODY || !takes(lane.node) => false,
            To::Route if crowd.elsewhere.is_empty() => true,
            To::Route => held.again && !crowd.is_behind(held.number),
            To::Ask(_) => true,
            To::Stranger(..) => false,
        };
        if !goes || held.until > now {
            return None;
        }
        let held = self.gather(slot).waiting.pop_front();
        self.scatter(slot);
        self.held -= 1;
        held
    }

    /// The slots in whose queues flights wait.
    pub(super) fn busy(&self) -> Vec<u16> {
        let busy = self.crowds.iter().filter(|crowd| !crowd.waiting.is_empty());
        busy.map(|crowd| crowd.slot).collect()
    }

    /// Takes the flights outside of the order that may be sent: none while no node is known.
    pub(super) fn take_loose(&mut self, now: Time, alone: bool) -> Vec<Held> {
        let has_node = |slot: u16| self.lanes[usize::from(slot)].node != NOBODY;
        let taken = take_of(&mut self.loose, &|held| {
            held.until <= now && held.slot.map_or(!alone, has_node)
        });
        self.held -= taken.len();
        taken
    }

    /// Takes flights that have waited this long, or past their deadlines.
    pub(super) fn take_older(&mut self, now: Time, max: Duration) -> Vec<Held> {
        self.take(&|held| held.since.after(max).min(held.deadline) <= now)
    }

    /// Takes flights to nodes that are still unknown after the topology request with this number.
    pub(super) fn take_strangers(&mut self, asked: u64) -> Vec<Held> {
        self.take(&|held| matches!(held.to, To::Stranger(_, refresh) if refresh <= asked))
    }

    pub(super) fn take(&mut self, which: &dyn Fn(&Held) -> bool) -> Vec<Held> {
        let mut taken = take_of(&mut self.loose, which);
        for slot in self.busy() {
            let line = &mut self.gather(slot).waiting;
            for _ in 0..line.len() {
                match line.pop_front() {
                    Some(held) if which(&held) => taken.push(held),
                    Some(held) => line.push_back(held),
                    None => {}
                }
            }
            self.scatter(slot);
        }
        self.held -= taken.len();
        taken
    }

    pub(super) fn next_look(&self, now: Time, max: Duration) -> Time {
        let mut next = Time::NEVER;
        let mut look = |held: &Held| {
            let until = if held.until > now { held.until } else { Time::NEVER };
            next = next.min(until).min(held.since.after(max)).min(held.deadline);
        };
        for crowd in &self.crowds {
            crowd.waiting.iter().for_each(&mut look);
        }
        self.loose.iter().for_each(&mut look);
        next
    }
}

/// Takes the matching items out of a list, and keeps the others in order.
pub(super) fn take_of<T>(list: &mut Vec<T>, which: &dyn Fn(&T) -> bool) -> Vec<T> {
    let mut taken = Vec::new();
    for item in std::mem::take(list) {
        let to = if which(&item) { &mut taken } else { &mut *list };
        to.push(item);
    }
    taken
}
