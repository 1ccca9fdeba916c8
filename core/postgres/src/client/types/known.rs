//! The types that are known, within a limit, and until they are altered.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use onetrip_engine::Time;

use super::resolve::{Resolved, Shape};
use crate::client::statements::AGE_MAX;

/// The limit on the total size of all types that are remembered. A type has the size 1, plus 1 for
/// each label of an enum, plus the sizes of its parts.
pub const SIZE_MAX: usize = 65_536;

/// If a value does not fit a type that was learned longer ago than this, the type is learned again.
/// So a program that never reads it right causes at most one query in this time.
const SUSPECT_AGE: Duration = Duration::from_secs(1);

/// The known types of one database, each as the host's own object `T`.
#[derive(Debug)]
pub struct Known<T> {
    by_oid: HashMap<u32, Entry<T>>,
    by_age: VecDeque<u32>,
    size: usize,
}

#[derive(Debug)]
struct Entry<T> {
    type_: T,
    shape: Arc<Shape>,
    since: Time,
}

impl<T> Default for Known<T> {
    fn default() -> Known<T> {
        Known { by_oid: HashMap::new(), by_age: VecDeque::new(), size: 0 }
    }
}

impl<T> Known<T> {
    /// The type with this oid, if it was learned.
    pub fn get(&self, oid: u32) -> Option<&T> {
        Some(&self.by_oid.get(&oid)?.type_)
    }

    /// All learned types.
    pub fn types(&self) -> impl Iterator<Item = &T> {
        self.by_oid.values().map(|entry| &entry.type_)
    }

    /// The number of learned types.
    pub fn len(&self) -> usize {
        self.by_oid.len()
    }

    /// Whether no type was learned.
    pub fn is_empty(&self) -> bool {
        self.by_oid.is_empty()
    }

    /// The oids in the list whose types must be learned, each once.
    pub fn missing(&self, oids: &[u32], is_built_in: impl Fn(u32) -> bool) -> Vec<u32> {
        let is_missing = |oid: &u32| !is_built_in(*oid) && !self.by_oid.contains_key(oid);
        let mut missing: Vec<u32> = oids.iter().copied().filter(is_missing).collect();
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    /// Remembers a type, replacing what was known of it. If there is no room, the oldest types are
    /// forgotten.
    pub fn learn(&mut self, now: Time, resolved: &Resolved, type_: T) {
        let shape = resolved.shape.clone();
        let oid = shape.oid;
        if let Some(old) = self.by_oid.remove(&oid) {
            self.size -= old.shape.size;
            self.by_age.retain(|other| *other != oid);
        }
        self.size += shape.size;
        self.by_age.push_back(oid);
        self.by_oid.insert(oid, Entry { type_, shape, since: now });
        // The newest stays: no single type is too large.
        while self.size > SIZE_MAX
            && let Some(oldest) = self.by_age.pop_front()
        {
            self.size -= self.by_oid.remove(&oldest).map_or(0, |entry| entry.shape.size);
        }
    }

    /// Forgets a type that was altered or dropped, and those that contain it.
    pub fn forget(&mut self, oid: u32) {
        self.by_oid.retain(|_, entry| !entry.shape.contains(oid));
        self.by_age.retain(|oid| self.by_oid.contains_key(oid));
        self.size = self.by_oid.values().map(|entry| entry.shape.size).sum();
    }

    /// Whether a type was learned so long ago that it is asked for again, if nothing on the wire would
    /// show that it has changed.
    pub fn is_old(&self, now: Time, oid: u32) -> bool {
        self.by_oid.get(&oid).is_some_and(|entry| now.since(entry.since) >= AGE_MAX)
    }

    /// Whether a type must be forgotten after a value of it could not be read as learned, so that
    /// its next use asks again. It must not if it was learned just now, since then the reader is at
    /// fault.
    pub fn is_suspect(&self, now: Time, oid: u32) -> bool {
        self.by_oid.get(&oid).is_some_and(|entry| now.since(entry.since) >= SUSPECT_AGE)
    }
}
