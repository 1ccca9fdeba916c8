//! The connections of a pool, found by the policy's name or by the host's number.

use onetrip_engine::NumberMap;
use onetrip_engine::pool::{ConnectionId, Load};

use crate::lent::Lent;

/// The connections. Each has the place that the policy gave it, since whoever places a statement
/// looks at the load of all.
#[derive(Debug)]
pub(super) struct Members<H> {
    places: Vec<Option<Member<H>>>,
    /// The place of each number.
    indexes: NumberMap<u32, usize>,
    last: u32,
}

/// A connection of the pool.
#[derive(Debug)]
pub(super) struct Member<H> {
    pub(super) id: ConnectionId,
    /// The host's number.
    pub(super) number: u32,
    /// `None` while it is being opened.
    pub(super) connection: Option<H>,
    /// Requests that the host was told to submit on it, since the host last acted on all records.
    pub(super) placed: usize,
    /// Whether one of them may be slow.
    pub(super) placed_unsure: bool,
    /// How many of them may wait for a lock.
    pub(super) placed_locking: usize,
    /// How many of those are never taken away.
    pub(super) placed_staying: usize,
    /// Whether it is shared, and whether the policy waits for it to become idle.
    pub(super) is_shared: bool,
    pub(super) draining: bool,
}

impl<H> Members<H> {
    pub(super) fn new() -> Members<H> {
        Members { places: Vec::new(), indexes: NumberMap::default(), last: 0 }
    }

    /// Adds one that is being opened, and returns its number. That is never given again.
    pub(super) fn open(&mut self, id: ConnectionId) -> u32 {
        self.last += 1;
        let number = self.last;
        let at = id.index();
        if self.places.len() <= at {
            self.places.resize_with(at + 1, || None);
        }
        self.indexes.insert(number, at);
        self.places[at] = Some(Member {
            id,
            number,
            connection: None,
            placed: 0,
            placed_unsure: false,
            placed_locking: 0,
            placed_staying: 0,
            is_shared: false,
            draining: false,
        });
        number
    }

    pub(super) fn get(&self, number: u32) -> Option<&Member<H>> {
        let place = self.places.get(*self.indexes.get(&number)?)?;
        place.as_ref().filter(|it| it.number == number)
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Member<H>> {
        let place = self.places.get_mut(*self.indexes.get(&number)?)?;
        place.as_mut().filter(|it| it.number == number)
    }

    /// The one with this name; none if it was forgotten, whoever has its place by now.
    pub(super) fn named(&self, id: ConnectionId) -> Option<&Member<H>> {
        self.places.get(id.index())?.as_ref().filter(|it| it.id == id)
    }

    pub(super) fn named_mut(&mut self, id: ConnectionId) -> Option<&mut Member<H>> {
        self.places.get_mut(id.index())?.as_mut().filter(|it| it.id == id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Member<H>> {
        self.places.iter().flatten()
    }

    /// Lets go of a connection, so that the host may free it.
    pub(super) fn forget(&mut self, number: u32) {
        if let Some(at) = self.indexes.remove(&number) {
            self.places[at].take_if(|it| it.number == number);
        }
    }
}

impl<H: Lent> Members<H> {
    /// The load of a connection. One that is gone takes nothing.
    pub(super) fn load(&self, id: ConnectionId) -> Load {
        let gone = Load { unanswered: 1, ..Load::default() };
        self.named(id).and_then(Member::load).unwrap_or(gone)
    }
}

impl<H: Lent> Member<H> {
    /// Includes placed requests that are not submitted yet, so that a connection with such requests
    /// is not granted to an exclusive caller.
    pub(super) fn load(&self) -> Option<Load> {
        let load = self.connection.as_ref()?.load();
        Some(Load {
            unanswered: load.unanswered + self.placed,
            room: load.room.saturating_sub(self.placed),
            unsure: load.unsure + usize::from(self.placed_unsure),
            locking: load.locking + self.placed_locking,
            staying: load.staying + self.placed_staying,
            ..load
        })
    }

    pub(super) fn is_idle(&self) -> bool {
        self.load().is_some_and(|load| load.is_idle())
    }
}
