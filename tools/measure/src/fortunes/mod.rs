//! A web page: the fortunes test of TechEmpower's framework benchmarks, which is a table of 12 rows,
//! one added by the program, sorted by it, escaped, and sent as HTML. All over HTTP on this machine:
//! a small axum server, and a load of keep-alive connections.
//!
//! Their rules ask for one statement per request with a Sync of its own, which is what
//! [`Mode::Pool`] and [`Mode::Shared`] do. [`Mode::Repeatable`] is outside of them, and beside the other
//! two shows what the rule costs.
//!
//! The CPU of the client is that of the web server, with the database client in it: the threads that
//! make the HTTP load are [set aside](crate::meter::set_aside).

mod page;
mod rows;
mod serve;
mod threads;
mod visitor;
mod write;

pub use page::{CONNECTIONS_DEFAULT, Page};
pub use rows::create;
pub use serve::Mode;
