//! A web page: the fortunes test of TechEmpower's framework benchmarks. The program reads a table
//! of 12 rows, adds one, sorts and escapes them, and sends them as HTML. A small axum server on
//! this machine serves the page to a load of keep-alive HTTP connections.
//!
//! Their rules ask for one statement per request with a Sync of its own, which is what
//! [`Mode::Pool`] and [`Mode::Shared`] do. [`Mode::Repeatable`] breaks that rule, to show what it
//! costs.
//!
//! The client's CPU is that of the web server, which includes the database client. The threads that
//! make the HTTP load are [not counted](crate::meter::set_aside).

mod page;
mod rows;
mod serve;
mod threads;
mod visitor;
mod write;

pub use page::{CONNECTIONS_DEFAULT, Page};
pub use rows::create;
pub use serve::Mode;
