//! The cache of a client of Redis as the host holds it: replies that are kept until the server says
//! that they are not true any more. Callers that join a fetch have numbers of the host's. What is
//! kept, and for how long, is decided by [`onetrip_redis::client::cache`].

use onetrip_engine::memory::is_there;
use onetrip_redis::Spec;
use onetrip_redis::client::cache::{Cache as Policy, Counts, FetchId, Found, Writes};

use crate::redis::look;

/// The cache of one client.
#[derive(Debug)]
pub struct Cache {
    policy: Policy<u32>,
    /// The numbers of those who joined the fetch that ended last.
    joined: Vec<u32>,
}

/// What was counted, and what is kept, for the host.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CacheCounts {
    /// Commands that were answered from the cache.
    pub hits: f64,
    /// Commands that were sent because the cache did not have their replies.
    pub misses: f64,
    /// Commands that were answered together with one that was sent already.
    pub joined: f64,
    /// Keys that the server said were changed; all of them at once count as one.
    pub invalidations: f64,
    /// Replies that were dropped because the cache was full.
    pub evicted: f64,
    /// The bytes of the replies that it has, with all that belongs to them.
    pub bytes: f64,
    /// The replies that it has.
    pub entries: f64,
    /// 1 if there is a connection whose replies are kept, 0 if not.
    pub is_on: f64,
}

impl Cache {
    /// An empty cache of at most so many bytes.
    pub fn new(bytes_max: usize) -> Cache {
        Cache { policy: Policy::new(bytes_max), joined: Vec::new() }
    }

    /// The connection with this number tracks keys: its replies are kept from now on.
    pub fn opened(&mut self, connection: u32) {
        self.policy.opened(connection.into());
    }

    /// The connection is lost, or its pushes are not read any more.
    pub fn closed(&mut self, connection: u32) {
        self.policy.closed(connection.into());
    }

    /// Looks for the reply to a command in wire format. `join`: the number of the caller.
    pub fn look_up(&mut self, command: &[u8], join: u32) -> Found {
        // It is parsed into a buffer that grows, and kept.
        if !is_there(command.len().saturating_mul(4)) {
            return Found::Nothing;
        }
        let command = look::command(command);
        self.policy.look_up(&command, Spec::of(&command), || join)
    }

    /// A fetch has ended on this connection, with its reply or without one. Returns how many joined
    /// it.
    pub fn ended(&mut self, fetch: FetchId, connection: u32, reply: &[u8]) -> usize {
        self.joined = match !reply.is_empty() && is_there(reply.len()) {
            true => self.policy.answered(fetch, connection.into(), reply),
            false => self.policy.failed(fetch),
        };
        self.joined.len()
    }

    /// The numbers of those who joined the fetch that ended last.
    pub fn joined(&self) -> &[u32] {
        &self.joined
    }

    /// The caller of a fetch is gone. Returns whether the fetch may be taken back.
    pub fn left(&mut self, fetch: FetchId) -> bool {
        self.policy.left(fetch)
    }

    /// A push was read. Returns whether it was one for the cache.
    pub fn pushed(&mut self, push: &[u8]) -> bool {
        self.policy.pushed(push)
    }

    /// The client submits these commands. Returns what they may change; `None` for nothing.
    pub fn submitted(&mut self, commands: &[u8]) -> Option<Writes> {
        let mut writes = Writes::Nothing;
        match is_there(commands.len().saturating_mul(4)) {
            true => look::commands(commands).iter().for_each(|command| writes.add(command)),
            false => writes = Writes::Anything,
        }
        self.wrote(&writes);
        (writes != Writes::Nothing).then_some(writes)
    }

    /// The client submits what changes this, or it was answered.
    pub fn wrote(&mut self, writes: &Writes) {
        self.policy.wrote(writes);
    }

    /// What was counted, and what is kept.
    pub fn counts(&self) -> CacheCounts {
        let Counts { hits, misses, joined, invalidations, evicted, .. } = self.policy.counts();
        let Counts { bytes, entries, is_on, .. } = self.policy.counts();
        CacheCounts {
            hits: hits as f64,
            misses: misses as f64,
            joined: joined as f64,
            invalidations: invalidations as f64,
            evicted: evicted as f64,
            bytes: bytes as f64,
            entries: entries as f64,
            is_on: f64::from(u8::from(is_on)),
        }
    }
}
