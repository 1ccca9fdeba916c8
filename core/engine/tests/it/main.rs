//! The engine's tests. Each rule has a file, and all are in one binary, which is built and linked
//! once.
#![allow(clippy::unwrap_used, missing_docs)]

mod allocations;
mod cancelling;
mod closing;
mod deadlines;
mod feed;
mod groups;
mod healing;
mod meter;
mod neighbours;
mod order;
mod outcomes;
mod pace;
mod pool;
mod pool_allocations;
mod pool_random;
mod queue;
mod random;
mod retry;
mod segments;
mod shared_sync;
mod shared_sync_cancelling;
mod toy;
mod window;
mod yielding;
