//! The parts common to private servers of any kind.
//!
//! This module has: the operating-system user that runs them (`account`), the directories that they
//! live in (`base`) and who removes those (`guard`), starting and ending them with their owner
//! (`supervisor`), where programs are (`places`) and what they say of themselves (`asked`), free ports (`port`), and the error of all of them
//! (`error`).

mod account;
pub(crate) mod asked;
mod base;
mod error;
mod guard;
mod places;
mod port;
mod supervisor;

pub(crate) use account::Account;
pub(crate) use base::{
    Base, BaseLock, TEMPLATE_PREFIX, WorkDirectory, make_private, random_digits, rename,
    write_private,
};
pub use error::LabError;
pub(crate) use error::essence;
pub(crate) use places::{downloaded, newest_first, numbers};
pub(crate) use port::{PORT_ATTEMPTS, free_port};
pub(crate) use supervisor::{READY_POLL_MS, START_TIMEOUT, Signals, Supervisor};
