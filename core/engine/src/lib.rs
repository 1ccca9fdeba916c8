//! The pipeline engine of onetrip: what is sent when, which reply belongs to whom, and how every
//! request ends. It does no I/O.
//!
//! A [`Connection`] is one connection's state machine. The host (a tokio task, an asyncio
//! protocol, a Node socket, a simulation) owns the socket and the clock and drives it:
//!
//! ```text
//!         bytes in ─►┌──────────────┐─► bytes out       transmit / handle_written
//!         requests ─►│  Connection  │─► outputs         poll_output
//!         time     ─►└──────────────┘─► next deadline   poll_deadline
//! ```
//!
//! What the engine knows of a protocol is the trait [`Protocol`]: how to look at the next bytes
//! and say whose they are. Everything else is here, once for every protocol and language:
//!
//! * **Order.** Requests are answered in the order in which their bytes were committed. A request
//!   is encoded completely before its bytes and its slot enter the connection together.
//! * **Sync points.** Requests that share one form a segment: after a failure the rest of the
//!   segment is skipped, and what came before it is undone.
//! * **Window.** At most so many requests and bytes are unanswered; more wait in a bounded queue;
//!   beyond it a caller is refused, or waits for its turn.
//! * **Outcome.** Every request ends exactly once, and a failure says whether it may have run
//!   ([`Outcome`]).
//!
//! Which of several connections a request goes to is decided by a state machine of its own, the
//! [`pool`]; it knows of connections no more than their load.
//!
//! When work that failed is tried again is for [`Retry`] to say.
//!
//! Deliberately absent: sockets, clocks, threads, randomness, and any word of PostgreSQL or Redis.

mod connection;
mod jitter;
mod limits;
mod line;
pub mod memory;
mod outcome;
mod output;
mod pace;
pub mod pool;
mod protocol;
mod request;
mod retry;
mod time;

pub use connection::{CancelEnd, Connection, Wanted};
pub use limits::Limits;
pub use outcome::{Cause, CloseReason, Failure, Outcome};
pub use output::{End, Output};
pub use pace::Pace;
pub use protocol::{Protocol, Step, Violation};
pub use request::{Feed, Group, HEALS_MAX, Request, SubmitError, SyncPoint, Ticket, Token};
pub use retry::{Retry, RetryLimits};
pub use time::Time;
