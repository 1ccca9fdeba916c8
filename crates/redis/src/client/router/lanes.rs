//! A lane for each hash slot: which node has it, what is unanswered of it, and what waits.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;

use onetrip_engine::Time;

use super::flights::FlightId;
use super::nodes::{NodeId, Nodes};
use crate::client::topology::Topology;
use crate::redirect::Redirect;
use crate::slots::SLOTS;

/// 16 bytes for each slot: 256 KiB in all.
pub(super) struct Lanes {
    lanes: Box<[Lane]>,
    /// Of those lanes that changed hands: the numbers of what is unanswered at nodes that had them.
    elsewhere: HashMap<u16, BTreeSet<u64>>,
    /// Of those lanes in which something waits: what, in the order of their numbers.
    waiting: HashMap<u16, VecDeque<Held>>,
    /// What waits and has no place in any order.
    loose: Vec<Held>,
    held: usize,
}

#[derive(Clone)]
struct Lane {
    /// The node that has it; [`NOBODY`] if none has.
    node: NodeId,
    /// How often it has changed hands.
    turn: u32,
    /// Unanswered at that node.
    here: u32,
    /// Whether something is unanswered at those that had it before.
    split: bool,
}

const NOBODY: NodeId = NodeId(u32::MAX);

/// A flight that waits.
pub(super) struct Held {
    pub(super) flight: FlightId,
    /// That of its keys.
    pub(super) slot: Option<u16>,
    pub(super) number: u64,
    /// It was refused, so it waits only for those before it that are unanswered elsewhere.
    pub(super) again: bool,
    /// Not before this.
    pub(super) until: Time,
    pub(super) since: Time,
    /// Its caller's.
    pub(super) deadline: Time,
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
        let lane = Lane { node: NOBODY, turn: 0, here: 0, split: false };
        Lanes {
            lanes: vec![lane; usize::from(SLOTS)].into(),
            elsewhere: HashMap::new(),
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
        !lane.split
            && lane.node != NOBODY
            && (self.waiting.is_empty() || !self.waiting.contains_key(&slot))
    }

    /// Something was sent to whoever has the slot. Returns how often that has changed.
    pub(super) fn sent(&mut self, slot: u16) -> u32 {
        let lane = self.lane(slot);
        lane.here += 1;
        lane.turn
    }

    /// Whether it has not changed hands since.
    pub(super) fn is_turn(&self, slot: u16, turn: u32) -> bool {
        self.lanes[usize::from(slot)].turn == turn
    }

    /// What was sent then, with this number, was answered. Whether the slot is still where it was.
    pub(super) fn answered(&mut self, slot: u16, turn: u32, number: u64) -> bool {
        let lane = self.lane(slot);
        if lane.turn == turn {
            lane.here -= 1;
            return true;
        }
        if let Some(numbers) = self.elsewhere.get_mut(&slot) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.elsewhere.remove(&slot);
                self.lane(slot).split = false;
            }
        }
        false
    }

    /// The slot belongs to this node now. Whether that is new. `sent` are the numbers of what is
    /// unanswered of it.
    pub(super) fn give(
        &mut self,
        slot: u16,
        node: NodeId,
        sent: impl FnOnce() -> Vec<u64>,
    ) -> bool {
        let lane = self.lane(slot);
        let changes = lane.node != node;
        if changes {
            lane.node = node;
            lane.turn = lane.turn.wrapping_add(1);
            if std::mem::take(&mut lane.here) > 0 {
                lane.split = true;
                self.elsewhere.entry(slot).or_default().extend(sent());
            }
        }
        changes
    }

    /// Gives each slot to its master, but for those of which the topology may not know enough.
    pub(super) fn follow(
        &mut self,
        topology: &Topology,
        nodes: &Nodes,
        moved: &HashSet<u16>,
        mut sent: HashMap<u16, Vec<u64>>,
    ) {
        let shards = topology.shards().iter();
        let masters: Vec<_> = shards.map(|shard| nodes.at(&shard.master.address)).collect();
        for slot in 0..SLOTS {
            let keeps = !moved.is_empty()
                && moved.contains(&slot)
                && self.route(slot).is_some_and(|node| nodes.is_part(node));
            if keeps {
                continue;
            }
            let master = topology.shard_number(slot).and_then(|shard| masters[shard]);
            let sent = || sent.remove(&slot).unwrap_or_default();
            self.give(slot, master.unwrap_or(NOBODY), sent);
        }
    }

    pub(super) fn hold(&mut self, slot: Option<u16>, held: Held) {
        self.held += 1;
        let Some(slot) = slot else { return self.loose.push(held) };
        let line = self.waiting.entry(slot).or_default();
        let at = line.partition_point(|other| other.number < held.number);
        line.insert(at, held);
    }

    /// Whether something before this number is unanswered elsewhere.
    fn is_behind(&self, slot: u16, number: u64) -> bool {
        let first = self.elsewhere.get(&slot).and_then(BTreeSet::first);
        first.is_some_and(|first| *first < number)
    }

    /// Takes the first that waits in a lane, if it may go.
    pub(super) fn next(&mut self, slot: u16, now: Time) -> Option<Held> {
        let lane = &self.lanes[usize::from(slot)];
        let held = self.waiting.get(&slot)?.front()?;
        let goes = match held.to {
            To::Route if lane.node == NOBODY => false,
            To::Route if lane.split => held.again && !self.is_behind(slot, held.number),
            To::Route => true,
            To::Ask(_) => true,
            To::Stranger(..) => false,
        };
        if !goes || held.until > now {
            return None;
        }
        let line = self.waiting.get_mut(&slot)?;
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

    /// Takes those outside of the order that may go, which is none while no node is known.
    pub(super) fn take_loose(&mut self, now: Time, alone: bool) -> Vec<Held> {
        let has_node = |slot: u16| self.lanes[usize::from(slot)].node != NOBODY;
        let goes = |held: &mut Held| held.until <= now && held.slot.map_or(!alone, has_node);
        let taken: Vec<Held> = self.loose.extract_if(.., goes).collect();
        self.held -= taken.len();
        taken
    }

    /// Takes those that have waited for so long, or for longer than their callers do.
    pub(super) fn take_older(&mut self, now: Time, max: Duration) -> Vec<Held> {
        self.take(|held| held.since.after(max).min(held.deadline) <= now)
    }

    /// Takes those that go to nodes which were not known when the topology was asked for.
    pub(super) fn take_strangers(&mut self, asked: u64) -> Vec<Held> {
        self.take(|held| matches!(held.to, To::Stranger(_, refresh) if refresh <= asked))
    }

    pub(super) fn take(&mut self, which: impl Fn(&Held) -> bool) -> Vec<Held> {
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
            until.min(held.since.after(max)).min(held.deadline)
        });
        looks.min().unwrap_or(Time::NEVER)
    }
}
