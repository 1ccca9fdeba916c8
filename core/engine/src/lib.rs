//! The pipeline engine of onetrip, without I/O. It decides when each request is sent, which request
//! each reply belongs to, and how every request ends.
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
//! The engine sees a protocol through the trait [`Protocol`], which looks at the next bytes and
//! says which request they belong to. Everything else is here, once for every protocol and
//! language:
//!
//! * **Order.** Requests are answered in the order in which their bytes were committed. A request
//!   is encoded completely before its bytes and its slot enter the connection together.
//! * **Sync points.** Requests that share a sync point form a segment. When one of them fails, the
//!   server skips the rest of the segment and undoes the requests before it.
//! * **Window.** The number of unanswered requests and their bytes are limited. Further requests
//!   wait in a bounded queue. When the queue is full, a caller is refused or waits for its turn.
//! * **Outcome.** Every request ends exactly once, and a failure says whether it may have run
//!   ([`Outcome`]).
//!
//! The [`pool`] is a state machine of its own. It chooses the connection for each request and knows
//! only the load of each connection.
//!
//! [`Retry`] says when failed work is tried again, and [`rules`] which settings contradict each
//! other.
//!
//! Deliberately absent: sockets, clocks, threads, randomness that was not passed in, and any
//! knowledge of PostgreSQL or Redis.

mod connection;
mod holders;
mod jitter;
mod limits;
mod line;
pub mod memory;
mod numbers;
mod outcome;
mod output;
mod pace;
pub mod pool;
mod protocol;
mod request;
mod retry;
pub mod rules;
mod time;

pub use connection::{CancelEnd, Connection, Wanted};
pub use holders::Holders;
pub use limits::Limits;
pub use numbers::{NumberHasher, NumberMap};
pub use outcome::{Cause, CloseReason, Failure, Outcome};
pub use output::{End, Output};
pub use pace::Pace;
pub use protocol::{Protocol, Step, Violation};
pub use request::{Feed, Group, HEALS_MAX, Request, SubmitError, SyncPoint, Ticket, Token, Unsent};
pub use retry::{Retry, RetryLimits};
pub use time::Time;
