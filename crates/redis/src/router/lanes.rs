//! A lane for each hash slot: which node has it, what is unanswered of it, and what waits.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use onetrip_engine::Time;

use super::flights::FlightId;
use super::nodes::{NodeId, Nodes};
use crate::redirect::Redirect;
use crate::slots::SLOTS;
use crate::topology::Topology;

/// 16 bytes for each slot: 256 KiB in all.
pub(super) struct Lanes {
    lanes: Box<[Lane]>,
    /// Of those lanes in which something waits: what, in the order of their numbers.
    waiting: HashMap<u16, VecDeque<Held>>,
    /// What waits and belongs to no slot.
    loose: Vec<Held>,
    held: usize,
}

#[derive(Clone)]
struct Lane {
    /// The node that has it; [`NOBODY`] if none has.
    node: NodeId,
    /// How often it has changed hands.
    turn: u32,
    /// Unanswered at that node, and at those that had it before.
    here: u32,
    elsewhere: u32,
}

const NOBODY: NodeId = NodeId(u32::MAX);

/// A flight that waits.
pub(super) struct Held {
    pub(super) flight: FlightId,
    pub(super) number: u64,
    /// It was refused, so those that are unanswered elsewhere come behind it.
    pub(super) again: bool,
    /// Not before this.
    pub(super) until: Time,
    pub(super) since: Time,
    pub(super) to: To,
}

/// Where a flight goes that waits.
pub(super) enum To {
    /// To whoever has its slot by then.
    Route,
    /// To this node, behind ASKING.
    Ask(NodeId),
    /// To a node that is not known; the topology that is asked for with this number decides.
    Stranger(Box<Redirect>, u64),
}

impl Lanes {
    pub(super) fn new() -> Lanes {
        let lane = Lane { node: NOBODY, turn: 0, here: 0, elsewhere: 0 };
        Lanes {
            lanes: vec![lane; usize::from(SLOTS)].into(),
            waiting: HashMap::new(),
            loose: Vec::new(),
            held: 0,
        }
    }

    fn lane(&mut self, slot: u16) -> &mut Lane {
        &mut self.lanes[usize::from(slot)]
    }

    pub(super) fn held(&self) -> usize {
        self.held
    }

    pub(super) fn route(&self, slot: u16) -> Option<NodeId> {
        Some(self.lanes[usize::from(slot)].node).filter(|node| *node != NOBODY)
    }

    /// Whether something new may be sent at once.
    pub(super) fn is_open(&self, slot: u16) -> bool {
        let lane = &self.lanes[usize::from(slot)];
        lane.elsewhere == 0
            && lane.node != NOBODY
            && (self.waiting.is_empty() || !self.waiting.contains_key(&slot))
    }

    /// Something was sent to whoever has the slot. Returns how often that has changed.
    pub(super) fn sent(&mut self, slot: u16) -> u32 {
        let lane = self.lane(slot);
        lane.here += 1;
        lane.turn
    }

    /// What was sent then was answered. Whether the slot is still where it was.
    pub(super) fn answered(&mut self, slot: u16, turn: u32) -> bool {
        let lane = self.lane(slot);
        let same = lane.turn == turn;
        let count = if same { &mut lane.here } else { &mut lane.elsewhere };
        *count -= 1;
        same
    }

    /// The slot belongs to this node now. Whether that is new.
    pub(super) fn give(&mut self, slot: u16, node: NodeId) -> bool {
        let lane = self.lane(slot);
        let changes = lane.node != node;
        if changes {
            lane.node = node;
            lane.turn = lane.turn.wrapping_add(1);
            lane.elsewhere += std::mem::take(&mut lane.here);
        }
        changes
    }

    /// Gives each slot to its master, but for those of which the topology may not know enough.
    pub(super) fn follow(&mut self, topology: &Topology, nodes: &Nodes, moved: &HashSet<u16>) {
        for slot in 0..SLOTS {
            let keeps = self.route(slot).is_some_and(|node| nodes.is_part(node));
            if keeps && moved.contains(&slot) {
                continue;
            }
            let master = topology.shard_of(slot).and_then(|shard| nodes.at(&shard.master.address));
            self.give(slot, master.unwrap_or(NOBODY));
        }
    }

    pub(super) fn hold(&mut self, slot: Option<u16>, held: Held) {
        self.held += 1;
        let Some(slot) = slot else { return self.loose.push(held) };
        let line = self.waiting.entry(slot).or_default();
        let at = line.partition_point(|other| other.number < held.number);
        line.insert(at, held);
    }

    /// Takes the first that waits in a lane, if it may go.
    pub(super) fn next(&mut self, slot: u16, now: Time) -> Option<Held> {
        let lane = &self.lanes[usize::from(slot)];
        let line = self.waiting.get_mut(&slot)?;
        let held = line.front()?;
        let goes = match held.to {
            To::Route => lane.node != NOBODY && (held.again || lane.elsewhere == 0),
            To::Ask(_) => true,
            To::Stranger(..) => false,
        };
        if !goes || held.until > now {
            return None;
        }
        let held = line.pop_front();
        if line.is_empty() {
            self.waiting.remove(&slot);
        }
        self.held -= 1;
        held
    }

    /// The slots in whose lanes something waits.
    pub(super) fn busy(&self) -> Vec<u16> {
        let mut slots: Vec<u16> = self.waiting.keys().copied().collect();
        slots.sort_unstable();
        slots
    }

    /// Takes those without a slot that may go, which is none while no node is known.
    pub(super) fn take_loose(&mut self, now: Time, alone: bool) -> Vec<Held> {
        let goes = |held: &mut Held| !alone && held.until <= now;
        let taken: Vec<Held> = self.loose.extract_if(.., goes).collect();
        self.held -= taken.len();
        taken
    }

    /// Takes those that have waited for so long.
    pub(super) fn take_older(&mut self, now: Time, max: Duration) -> Vec<Held> {
        self.take(|held| held.since.after(max) <= now)
    }

    /// Takes those that go to nodes which were not known when the topology was asked for.
    pub(super) fn take_strangers(&mut self, asked: u64) -> Vec<Held> {
        self.take(|held| matches!(held.to, To::Stranger(_, refresh) if refresh <= asked))
    }

    fn take(&mut self, which: impl Fn(&Held) -> bool) -> Vec<Held> {
        let mut taken: Vec<Held> = self.loose.extract_if(.., |held| which(held)).collect();
        for line in self.waiting.values_mut() {
            let (out, stay) = std::mem::take(line).into_iter().partition(&which);
            *line = stay;
            let out: VecDeque<Held> = out;
            taken.extend(out);
        }
        self.waiting.retain(|_, line| !line.is_empty());
        self.held -= taken.len();
        taken.sort_by_key(|held| held.number);
        taken
    }

    pub(super) fn next_look(&self, now: Time, max: Duration) -> Time {
        let all = self.waiting.values().flatten().chain(&self.loose);
        let looks = all.map(|held| {
            let until = if held.until > now { held.until } else { Time::NEVER };
            until.min(held.since.after(max))
        });
        looks.min().unwrap_or(Time::NEVER)
    }
}
