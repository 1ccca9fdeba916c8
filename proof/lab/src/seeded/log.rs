//! The log: what became of every statement, by the identity in its text.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What happened at a server. Its sessions write to it, and tests read it; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    entries: BTreeMap<u64, Entry>,
    order: Vec<u64>,
    syncs: u64,
    flushes: u64,
    goodbyes: u64,
    cancels: u64,
    violations: Vec<String>,
    seen: BTreeMap<u64, Seen>,
    resets: Vec<usize>,
    resets_failed: [u32; 2],
}

/// The state that a statement found in a session that was not as new.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The statements that left state there.
    pub left_by: Vec<u64>,
    /// Whether the last reset failed.
    pub unreset: bool,
}

/// What became of one identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// How often a message that names it was read, including skipped messages.
    pub received: u32,
    /// How often it began to run.
    pub executed: u32,
    /// What it left behind.
    pub effect: Effect,
}

/// What a statement left behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    /// It never ran.
    #[default]
    None,
    /// It ran, and its transaction is open.
    Pending,
    /// It ran, and its transaction was committed.
    Committed,
    /// It ran, and failed or was undone.
    RolledBack,
    /// It failed, and a part of its effect remains.
    Partial,
}

impl Log {
    /// What became of this identity.
    pub fn entry(&self, op: u64) -> Entry {
        self.lock().entries.get(&op).copied().unwrap_or_default()
    }

    /// The identities in the order in which they began to run.
    pub fn order(&self) -> Vec<u64> {
        self.lock().order.clone()
    }

    /// How many Syncs were read.
    pub fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    /// How many Flushes were read.
    pub fn flushes(&self) -> u64 {
        self.lock().flushes
    }

    /// How many clients sent Terminate.
    pub fn goodbyes(&self) -> u64 {
        self.lock().goodbyes
    }

    /// How many CancelRequests came.
    pub fn cancels(&self) -> u64 {
        self.lock().cancels
    }

    /// Violations of the protocol by clients.
    pub fn violations(&self) -> Vec<String> {
        self.lock().violations.clone()
    }

    /// The state that statements found in their session, for those that found some.
    pub fn seen(&self) -> BTreeMap<u64, Seen> {
        self.lock().seen.clone()
    }

    /// The places in the order of the statements at which resets of the session began.
    pub fn resets(&self) -> Vec<usize> {
        self.lock().resets.clone()
    }

    /// How many resets have failed: in all, and since one succeeded.
    pub fn resets_failed(&self) -> [u32; 2] {
        self.lock().resets_failed
    }

    pub(crate) fn saw(&self, op: u64, left_by: Vec<u64>, unreset: bool) {
        if unreset || !left_by.is_empty() {
            let mut inner = self.lock();
            let seen = inner.seen.entry(op).or_default();
            seen.left_by.extend(left_by);
            seen.unreset |= unreset;
        }
    }

    pub(crate) fn reset_begins(&self) {
        let mut inner = self.lock();
        let at = inner.order.len();
        inner.resets.push(at);
    }

    pub(crate) fn reset_ends(&self, well: bool) {
        let [all, running] = &mut self.lock().resets_failed;
        *all += u32::from(!well);
        *running = if well { 0 } else { *running + 1 };
    }

    pub(crate) fn received(&self, op: Option<u64>) {
        self.change(op, |entry| entry.received += 1);
    }

    pub(crate) fn executed(&self, op: Option<u64>) {
        let Some(op) = op else { return };
        let mut inner = self.lock();
        let entry = inner.entries.entry(op).or_default();
        entry.executed += 1;
        entry.effect = Effect::Pending;
        inner.order.push(op);
    }

    pub(crate) fn settled(&self, op: Option<u64>, effect: Effect) {
        self.change(op, |entry| entry.effect = effect);
    }

    pub(crate) fn sync(&self) {
        self.lock().syncs += 1;
    }

    pub(crate) fn flush(&self) {
        self.lock().flushes += 1;
    }

    pub(crate) fn goodbye(&self) {
        self.lock().goodbyes += 1;
    }

    pub(crate) fn cancel(&self) {
        self.lock().cancels += 1;
    }

    pub(crate) fn violation(&self, what: String) {
        self.lock().violations.push(what);
    }

    fn change(&self, op: Option<u64>, change: impl FnOnce(&mut Entry)) {
        if let Some(op) = op {
            change(self.lock().entries.entry(op).or_default());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
