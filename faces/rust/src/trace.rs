//! Spans and events for `tracing`: a span for each statement, and events for what happens to
//! connections. Without the feature `tracing` nothing of it is compiled: the same functions do
//! nothing.
//!
//! A subscriber is foreign code, so it is never called while a lock is held.

#[cfg(not(feature = "tracing"))]
mod off;
#[cfg(feature = "tracing")]
mod on;

#[cfg(not(feature = "tracing"))]
pub(crate) use off::*;
#[cfg(feature = "tracing")]
pub(crate) use on::*;
