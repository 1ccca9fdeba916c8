//! Whether anybody holds what others may wait for.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a caller of a pool has one of its connections to itself. Such a caller may hold a lock
/// between two statements, and await a request that waits behind one that waits for that lock. If
/// there is none, whatever waits for a lock waits for somebody who does not wait for this client.
///
/// The pool writes it, and its connections read it, on any thread. A reader may see it a little
/// late, which costs no more than that time.
#[derive(Debug, Default)]
pub struct Holders(AtomicBool);

impl Holders {
    /// Whether there are any.
    pub fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn note(&self, any: bool) {
        if self.any() != any {
            self.0.store(any, Ordering::Relaxed);
        }
    }
}
