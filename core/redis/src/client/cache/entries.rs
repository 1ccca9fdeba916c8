//! What a cache has: by command, by key, and by the time of the last use.

use bytes::Bytes;

use super::index::{Index, NONE};
use super::{ENTRY_BYTES, KEY_BYTES, PART_MAX};
use crate::{Command, Spec};

/// A command that is being asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FetchId {
    at: u32,
    generation: u32,
}

impl FetchId {
    /// A number that stands for it, for hosts in other languages.
    #[must_use]
    pub fn number(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.at)
    }

    /// The fetch with this [number](Self::number). One that was made up is none of any cache's.
    #[must_use]
    pub fn of_number(number: u64) -> FetchId {
        FetchId { at: number as u32, generation: (number >> 32) as u32 }
    }
}

/// What there is of a command.
pub(super) enum Kept<'a, J> {
    Reply(Bytes),
    /// It is being asked for by these, beside the first.
    Fetch(&'a mut Vec<J>),
}

#[derive(Debug)]
pub(super) struct Entries<J> {
    bytes_max: usize,
    bytes: usize,
    replies: usize,
    /// The entries, by place. Free places are listed.
    all: Vec<Entry<J>>,
    free: Vec<u32>,
    by_command: Index,
    /// Keys, by place, and the places by name.
    keys: Vec<Key>,
    free_keys: Vec<u32>,
    by_key: Index,
    /// The entries whose replies were used last, and longest ago.
    newest: u32,
    oldest: u32,
}

#[derive(Debug)]
struct Entry<J> {
    generation: u32,
    state: State<J>,
    /// Under which it is found, unless it is dropped.
    command: Option<Command>,
    /// The places of its keys, and its number among the entries of each.
    keys: Vec<(u32, u32)>,
    /// Its neighbours by the time of the last use.
    newer: u32,
    older: u32,
}

#[derive(Debug)]
enum State<J> {
    Free,
    /// It is being asked for, also by these.
    Fetch(Vec<J>),
    /// The same; the reply is not kept, and nobody joins any more.
    Dropped(Vec<J>),
    Reply(Bytes, usize),
}

#[derive(Debug)]
struct Key {
    name: Box<[u8]>,
    /// The entries with this key, each with the number of the key among those of the entry.
    entries: Vec<(u32, u32)>,
}

impl<J> Entries<J> {
    pub(super) fn new(bytes_max: usize) -> Entries<J> {
        Entries {
            bytes_max,
            bytes: 0,
            replies: 0,
            all: Vec::new(),
            free: Vec::new(),
            by_command: Index::default(),
            keys: Vec::new(),
            free_keys: Vec::new(),
            by_key: Index::default(),
            newest: NONE,
            oldest: NONE,
        }
    }

    /// The bytes and the number of its replies.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.bytes, self.replies)
    }

    /// What there is of this command. A reply counts as used.
    pub(super) fn find(&mut self, command: &Command) -> Option<Kept<'_, J>> {
        let is_it = |at: u32| self.all[at as usize].command.as_ref() == Some(command);
        let at = self.by_command.find(command.body(), is_it)?;
        if let State::Reply(reply, _) = &self.all[at as usize].state {
            let reply = reply.clone();
            if self.newest != at {
                self.unlink(at);
                self.link_newest(at);
            }
            return Some(Kept::Reply(reply));
        }
        match &mut self.all[at as usize].state {
            State::Fetch(joined) => Some(Kept::Fetch(joined)),
            State::Free | State::Dropped(_) | State::Reply(..) => None,
        }
    }

    /// Adds a command that is being asked for; `None` if it has no keys.
    pub(super) fn add(&mut self, command: &Command, spec: &Spec) -> Option<FetchId> {
        spec.keys(command).next()?;
        let at = self.free.pop().unwrap_or_else(|| {
            self.all.push(Entry {
                generation: 0,
                state: State::Free,
                command: None,
                keys: Vec::new(),
                newer: NONE,
                older: NONE,
            });
            self.all.len() as u32 - 1
        });
        for name in spec.keys(command) {
            let key = self.key(name);
            let entry = &mut self.all[at as usize];
            let of_key = &mut self.keys[key as usize].entries;
            of_key.push((at, entry.keys.len() as u32));
            entry.keys.push((key, of_key.len() as u32 - 1));
        }
        self.by_command.add(command.body(), at);
        let entry = &mut self.all[at as usize];
        (entry.state, entry.command) = (State::Fetch(Vec::new()), Some(command.clone()));
        Some(FetchId { at, generation: entry.generation })
    }

    /// The reply to a fetch came. Returns those who joined, and how many replies made room.
    pub(super) fn answered(&mut self, id: FetchId, reply: &[u8], keep: bool) -> (Vec<J>, u64) {
        let Some(entry) = self.entry(id) else { return (Vec::new(), 0) };
        let is_current = matches!(entry.state, State::Fetch(_));
        let is_error = matches!(reply.first(), Some(b'-' | b'!'));
        let bytes = self.bytes_of(id.at, reply.len());
        if !keep || !is_current || is_error || bytes > self.bytes_max / PART_MAX {
            return (self.forget(id), 0);
        }
        // Copied, so that a small reply does not keep a whole read buffer alive.
        let kept = State::Reply(Bytes::copy_from_slice(reply), bytes);
        let state = std::mem::replace(&mut self.all[id.at as usize].state, kept);
        self.bytes += bytes;
        self.replies += 1;
        self.link_newest(id.at);
        let mut evicted = 0;
        while self.bytes > self.bytes_max {
            self.remove(self.oldest);
            evicted += 1;
        }
        match state {
            State::Fetch(joined) => (joined, evicted),
            State::Free | State::Dropped(_) | State::Reply(..) => (Vec::new(), evicted),
        }
    }

    /// A fetch has ended without a reply that is kept. Returns those who joined.
    pub(super) fn forget(&mut self, id: FetchId) -> Vec<J> {
        let Some(entry) = self.entry(id) else { return Vec::new() };
        let joined = match &mut entry.state {
            State::Fetch(joined) | State::Dropped(joined) => std::mem::take(joined),
            State::Free | State::Reply(..) => return Vec::new(),
        };
        self.remove(id.at);
        joined
    }

    /// Whether anybody joined this fetch.
    pub(super) fn has_joined(&mut self, id: FetchId) -> bool {
        let state = self.entry(id).map(|entry| &entry.state);
        matches!(state, Some(State::Fetch(joined) | State::Dropped(joined)) if !joined.is_empty())
    }

    /// Drops all that has this key.
    pub(super) fn drop_key(&mut self, name: &[u8]) {
        while let Some(key) = self.find_key(name) {
            // The key goes with its last entry.
            let Some(&(at, _)) = self.keys[key as usize].entries.last() else { return };
            self.drop_entry(at);
        }
    }

    /// Drops everything.
    pub(super) fn drop_all(&mut self) {
        for at in 0..self.all.len() {
            if self.all[at].command.is_some() {
                self.drop_entry(at as u32);
            }
        }
    }

    /// Drops a reply; that to a fetch will not be kept.
    fn drop_entry(&mut self, at: u32) {
        let entry = &mut self.all[at as usize];
        let State::Fetch(joined) = &mut entry.state else { return self.remove(at) };
        entry.state = State::Dropped(std::mem::take(joined));
        self.hide(at);
    }

    fn entry(&mut self, FetchId { at, generation }: FetchId) -> Option<&mut Entry<J>> {
        self.all.get_mut(at as usize).filter(|entry| entry.generation == generation)
    }

    /// What an entry takes with a reply of so many bytes.
    fn bytes_of(&self, at: u32, reply: usize) -> usize {
        let entry = &self.all[at as usize];
        let command = entry.command.as_ref().map_or(0, |command| command.len_max());
        let name = |&(key, _): &(u32, u32)| self.keys[key as usize].name.len() + KEY_BYTES;
        ENTRY_BYTES + command + reply + entry.keys.iter().map(name).sum::<usize>()
    }

    /// Frees the place of an entry.
    fn remove(&mut self, at: u32) {
        self.hide(at);
        let entry = &mut self.all[at as usize];
        // The names of fetches that are known elsewhere end here.
        entry.generation = entry.generation.wrapping_add(1);
        if let State::Reply(_, bytes) = std::mem::replace(&mut entry.state, State::Free) {
            self.bytes -= bytes;
            self.replies -= 1;
            self.unlink(at);
        }
        self.free.push(at);
    }

    /// Takes an entry out of the indexes.
    fn hide(&mut self, at: u32) {
        let entry = &mut self.all[at as usize];
        if let Some(command) = entry.command.take() {
            self.by_command.remove(command.body(), at);
        }
        for number in 0..self.all[at as usize].keys.len() {
            let (key, place) = self.all[at as usize].keys[number];
            let of_key = &mut self.keys[key as usize].entries;
            of_key.swap_remove(place as usize);
            if let Some(&(moved, number)) = of_key.get(place as usize) {
                self.all[moved as usize].keys[number as usize].1 = place;
            } else if of_key.is_empty() {
                let name = std::mem::take(&mut self.keys[key as usize].name);
                self.by_key.remove(&name, key);
                self.free_keys.push(key);
            }
        }
        self.all[at as usize].keys = Vec::new();
    }

    /// The place of a key.
    fn key(&mut self, name: &[u8]) -> u32 {
        if let Some(at) = self.find_key(name) {
            return at;
        }
        let key = Key { name: name.into(), entries: Vec::new() };
        let at = match self.free_keys.pop() {
            Some(at) => {
                self.keys[at as usize] = key;
                at
            }
            None => {
                self.keys.push(key);
                self.keys.len() as u32 - 1
            }
        };
        self.by_key.add(name, at);
        at
    }

    fn find_key(&self, name: &[u8]) -> Option<u32> {
        self.by_key.find(name, |at| *self.keys[at as usize].name == *name)
    }

    fn link_newest(&mut self, at: u32) {
        let entry = &mut self.all[at as usize];
        (entry.newer, entry.older) = (NONE, self.newest);
        match self.newest {
            NONE => self.oldest = at,
            newest => self.all[newest as usize].newer = at,
        }
        self.newest = at;
    }

    fn unlink(&mut self, at: u32) {
        let Entry { newer, older, .. } = self.all[at as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.all[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.all[older as usize].newer = newer,
        }
    }
}
