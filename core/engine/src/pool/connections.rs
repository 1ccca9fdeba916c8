//! The connections of a pool by state.

use std::time::Duration;

use super::output::Output;
use super::{Expected, Load, TextKey};
use crate::Time;

/// The name of one connection.
///
/// It is never given again, so a report about a connection that is gone is recognised and ignored.
/// (To be exact: not until its index was given to four billion others.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionId {
    index: u32,
    generation: u32,
}

impl ConnectionId {
    /// A number below [`connections_max`](super::Limits::connections_max), for a host that keeps
    /// its connections in a list. It is given again once this connection was forgotten, so a host
    /// compares the whole id before it acts on a report.
    pub fn index(self) -> usize {
        self.index as usize
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No connection: the index is free.
    Gone,
    /// The host is opening it.
    Opening,
    /// Statements of many callers may be put on it.
    Shared,
    /// It is given to an exclusive caller once it has drained.
    Claimed,
    /// One caller has it to itself.
    Exclusive,
    /// It is closed once it has drained.
    Retiring,
}

const STATES: usize = State::Retiring as usize + 1;

pub(super) struct Slot {
    pub(super) id: ConnectionId,
    pub(super) state: State,
    /// Its position in the list of its state.
    at: usize,
    /// When the attempt to open it began, it was opened, or its last exclusive user returned it.
    pub(super) since: Time,
    /// When it was opened.
    pub(super) opened: Time,
    /// When it must be replaced.
    pub(super) expires: Time,
    /// The host said that it gets no new work.
    pub(super) is_left: bool,
    /// A reset is owed, and it holds something that others may be waiting for.
    pub(super) holding: bool,
    /// The statements placed on it by outputs that the host has not taken yet.
    pub(super) promised: Promised,
    /// The host was told that it takes shared statements.
    pub(super) announced: bool,
    /// The host said that it has drained, and the pool has not decided about it since.
    pub(super) drained: bool,
}

/// Statements placed on a connection that the host does not count in its load yet.
#[derive(Clone, Copy, Default)]
pub(super) struct Promised {
    pub(super) statements: usize,
    unsure: usize,
    locking: usize,
    staying: usize,
    expected: Duration,
    /// When the last of them was placed.
    at: Time,
}

impl Promised {
    pub(super) fn add(&mut self, now: Time, key: TextKey, of: Expected) {
        self.statements += 1;
        self.unsure += usize::from(of.is_unsure());
        self.locking += usize::from(key.may_lock());
        self.staying += usize::from(key.stays());
        self.expected += of.takes();
        self.at = now;
    }

    /// From now on the host counts one of the statements. Which one is not known, so until the last
    /// is taken, which happens in the same loop, some expected time counts twice.
    pub(super) fn keep(&mut self) {
        self.statements -= 1;
        if self.statements == 0 {
            *self = Promised::default();
        }
    }

    pub(super) fn on(&self, load: Load) -> Load {
        if self.statements == 0 {
            return load;
        }
        Load {
            unanswered: load.unanswered.saturating_add(self.statements),
            room: load.room.saturating_sub(self.statements),
            since: if load.is_idle() { self.at } else { load.since },
            unsure: load.unsure + self.unsure,
            locking: load.locking + self.locking,
            staying: load.staying + self.staying,
            expected: load.expected + self.expected,
            ..load
        }
    }
}

impl Slot {
    fn new(id: ConnectionId, state: State, at: usize) -> Slot {
        Slot {
            id,
            state,
            at,
            since: Time::ZERO,
            opened: Time::ZERO,
            expires: Time::NEVER,
            is_left: false,
            holding: false,
            promised: Promised::default(),
            announced: false,
            drained: false,
        }
    }
}

/// Every index that was ever used, and the indices in each state.
pub(super) struct Connections {
    slots: Vec<Slot>,
    lists: [Vec<usize>; STATES],
}

impl Connections {
    pub(super) fn new() -> Connections {
        Connections { slots: Vec::new(), lists: Default::default() }
    }

    /// Connections in a state.
    pub(super) fn count(&self, state: State) -> usize {
        self.lists[state as usize].len()
    }

    /// Indices in a state, in no order.
    pub(super) fn list(&self, state: State) -> &[usize] {
        &self.lists[state as usize]
    }

    /// Connections in any state.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.count(State::Gone)
    }

    /// Connections that serve callers now, or will once they have drained or were returned.
    pub(super) fn serving(&self) -> usize {
        [State::Shared, State::Claimed, State::Exclusive]
            .map(|state| self.count(state))
            .iter()
            .sum()
    }

    /// The index of a connection that is not gone.
    pub(super) fn find(&self, id: ConnectionId) -> Option<usize> {
        let slot = self.slots.get(id.index())?;
        (slot.id == id && slot.state != State::Gone).then_some(id.index())
    }

    pub(super) fn slot(&self, index: usize) -> &Slot {
        &self.slots[index]
    }

    pub(super) fn slot_mut(&mut self, index: usize) -> &mut Slot {
        &mut self.slots[index]
    }

    /// Takes an index for a connection to be opened.
    pub(super) fn open(&mut self, now: Time) -> ConnectionId {
        let index = match self.list(State::Gone).last() {
            Some(index) => *index,
            None => self.add_index(),
        };
        self.enter(index, State::Opening);
        let slot = &mut self.slots[index];
        *slot = Slot { since: now, ..Slot::new(slot.id, slot.state, slot.at) };
        slot.id
    }

    pub(super) fn enter(&mut self, index: usize, state: State) {
        let slot = &mut self.slots[index];
        let (old, at) = (slot.state, slot.at);
        let list = &mut self.lists[old as usize];
        list.swap_remove(at);
        if let Some(moved) = list.get(at) {
            self.slots[*moved].at = at;
        }
        self.put(index, state);
    }

    /// Forgets a connection. Its id is unknown from now on.
    pub(super) fn leave(&mut self, index: usize) {
        self.enter(index, State::Gone);
        let id = &mut self.slots[index].id;
        id.generation = id.generation.wrapping_add(1);
    }

    /// Forgets a connection, and returns what the host must do.
    pub(super) fn close(&mut self, index: usize) -> Output {
        let id = self.slot(index).id;
        self.leave(index);
        Output::Close { id }
    }

    fn add_index(&mut self) -> usize {
        let index = self.slots.len();
        let number = u32::try_from(index).expect("connections_max is no more than that");
        let id = ConnectionId { index: number, generation: 0 };
        self.slots.push(Slot::new(id, State::Gone, 0));
        self.put(index, State::Gone);
        index
    }

    fn put(&mut self, index: usize, state: State) {
        let list = &mut self.lists[state as usize];
        list.push(index);
        let slot = &mut self.slots[index];
        slot.at = list.len() - 1;
        slot.state = state;
    }
}
