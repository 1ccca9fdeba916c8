//! Client-side caching: replies that stay true until the server says that one of their keys was
//! changed (`CLIENT TRACKING`).
//!
//! The server remembers which keys were read on a connection, and sends a push when one of them is
//! changed. Pushes and replies come in the order in which the server wrote them, so a reply that
//! was read on that connection is true until its push is read on it. The cache belongs to one such
//! connection at a time ([`opened`](Cache::opened)), and is empty without one.
//!
//! A reply is kept only if nothing that concerns its keys came between the question and the reply:
//! no push, no write of this client ([`wrote`](Cache::wrote)), no loss of the connection. The host
//! reports a write of this client when it is submitted, on whichever connection, and again when a
//! reply to it is read, before its caller gets it. The server may run the write at any time
//! between, and its push may come later than its reply, so both are needed for a caller to see what
//! it wrote.
//!
//! A command that is being asked for is not asked again: who comes meanwhile joins ([`Found`]). The
//! fetch belongs to nobody: if it fails, or its caller is gone, those who joined send for
//! themselves.

mod entries;
mod index;
mod push;
mod writes;

use bytes::Bytes;

use crate::{Command, Spec};
use entries::{Entries, Kept};

pub use entries::FetchId;
pub use writes::Writes;

/// A bounded cache of the replies of one connection. `J`: the host's name for a caller that joined.
#[derive(Debug)]
pub struct Cache<J> {
    entries: Entries<J>,
    /// The connection whose replies are kept.
    connection: Option<u64>,
    counts: Counts,
}

/// What the cache has of a command.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// Its reply.
    Hit(Bytes),
    /// Somebody has asked. The caller gets the reply when that one does, or is told to ask.
    Joined,
    /// The caller asks, and the host reports what comes of it.
    Fetch(FetchId),
    /// The command is not cached, or there is no connection whose replies are kept.
    Nothing,
}

/// What happened to the cache, and what it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Commands that were answered from the cache.
    pub hits: u64,
    /// Commands that were sent because the cache did not have their replies.
    pub misses: u64,
    /// Commands that were answered together with one that was sent already.
    pub joined: u64,
    /// Keys that the server said were changed; all of them at once count as one.
    pub invalidations: u64,
    /// Replies that were dropped because the cache was full.
    pub evicted: u64,
    /// The bytes of the replies that it has, with all that belongs to them.
    pub bytes: usize,
    /// The replies that it has.
    pub entries: usize,
    /// Whether there is a connection whose replies are kept.
    pub is_on: bool,
}

impl<J> Cache<J> {
    /// An empty cache of at most so many bytes. Replies count with their commands, the names of
    /// their keys, and what it takes to find them ([`ENTRY_BYTES`], [`KEY_BYTES`]); what is being
    /// asked for does not count, as the limits of the connection bound it.
    #[must_use]
    pub fn new(bytes_max: usize) -> Cache<J> {
        Cache { entries: Entries::new(bytes_max), connection: None, counts: Counts::default() }
    }

    /// This connection tracks keys: from now on its replies are kept, and no other's.
    pub fn opened(&mut self, connection: u64) {
        self.entries.drop_all();
        self.connection = Some(connection);
    }

    /// This connection is lost, or its pushes are not read any more.
    pub fn closed(&mut self, connection: u64) {
        if self.connection == Some(connection) {
            self.entries.drop_all();
            self.connection = None;
        }
    }

    /// Looks for the reply to a command. `join` names the caller, if it joins.
    pub fn look_up(
        &mut self,
        command: &Command,
        spec: Option<&'static Spec>,
        join: impl FnOnce() -> J,
    ) -> Found {
        let Some(spec) = spec.filter(|spec| spec.is_cacheable() && self.connection.is_some())
        else {
            return Found::Nothing;
        };
        match self.entries.find(command) {
            Some(Kept::Reply(reply)) => {
                self.counts.hits += 1;
                Found::Hit(reply)
            }
            Some(Kept::Fetch(joined)) => {
                self.counts.joined += 1;
                joined.push(join());
                Found::Joined
            }
            None => match self.entries.add(command, spec) {
                Some(fetch) => {
                    self.counts.misses += 1;
                    Found::Fetch(fetch)
                }
                None => Found::Nothing,
            },
        }
    }

    /// The reply to a fetch was read on this connection. Returns those who joined, who get it too.
    /// An error in place of a reply is a failure instead.
    pub fn answered(&mut self, fetch: FetchId, connection: u64, reply: &[u8]) -> Vec<J> {
        let keep = self.connection == Some(connection);
        let (joined, evicted) = self.entries.answered(fetch, reply, keep);
        self.counts.evicted += evicted;
        joined
    }

    /// A fetch has failed, or was not sent. Returns those who joined, who send for themselves.
    pub fn failed(&mut self, fetch: FetchId) -> Vec<J> {
        self.entries.forget(fetch)
    }

    /// The caller that asked is gone. Returns whether the fetch may be taken back, since nobody
    /// joined it.
    pub fn left(&mut self, fetch: FetchId) -> bool {
        let alone = !self.entries.has_joined(fetch);
        if alone {
            self.entries.forget(fetch);
        }
        alone
    }

    /// A push was read. Returns whether it was one for the cache.
    pub fn pushed(&mut self, push: &[u8]) -> bool {
        match push::read(push) {
            None => false,
            Some(push::Invalid::All) => {
                self.counts.invalidations += 1;
                self.entries.drop_all();
                true
            }
            Some(push::Invalid::Keys(keys)) => {
                for key in keys {
                    self.counts.invalidations += 1;
                    self.entries.drop_key(&key);
                }
                true
            }
        }
    }

    /// This client submits commands that change this, or a reply to them was read.
    pub fn wrote(&mut self, writes: &Writes) {
        match writes {
            Writes::Nothing => {}
            Writes::Keys(keys) => keys.iter().for_each(|key| self.entries.drop_key(key)),
            Writes::Anything => self.entries.drop_all(),
        }
    }

    /// The counters now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let (bytes, entries) = self.entries.size();
        Counts { bytes, entries, is_on: self.connection.is_some(), ..self.counts }
    }
}

/// What a reply takes beside its own bytes and those of its command, in bytes.
pub const ENTRY_BYTES: usize = 384;

/// What each of its keys takes beside its name, in bytes.
pub const KEY_BYTES: usize = 192;

/// A reply is kept if, with all that belongs to it, it takes at most this part of the cache, so
/// that one reply does not empty it.
pub const PART_MAX: usize = 8;
