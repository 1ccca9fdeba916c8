//! The findings, as values.

use std::time::Duration;

use super::advice::Advice;
use super::hosts::Host;
use crate::metrics::SlowNeighbour;

/// What a client may rely on with the server it connects to: see
/// [`Client::doctor`](crate::Client::doctor).
///
/// `Display` has a line for each finding, and a line for each setting that should be changed, with
/// the reason.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Diagnosis {
    /// Each host of the configuration, at each of its addresses, in the order in which they stand
    /// there. The findings below are about the first of them that this client takes.
    pub hosts: Vec<Host>,
    /// The server's version, such as `18.1`. Empty if the server does not report it.
    pub server_version: String,
    /// Whether connections to the server are shared with others, and when they change hands.
    pub pooling: Pooling,
    /// Statements that share a sync point, as in a pipeline.
    pub one_sync: Finding,
    /// Statements that leave together with a sync point each, as on a shared connection.
    pub many_syncs: Finding,
    /// The same with one that fails: only that one fails, and those behind it are answered.
    pub failure_between: Finding,
    /// The server answers a Flush without a sync point, as for replies of an unfinished pipeline.
    pub flush: Finding,
    /// The same right behind a sync point that is still unanswered.
    pub flush_behind_sync: Finding,
    /// What becomes of prepared statements.
    pub prepared: Names,
    /// A notification reaches its listener.
    pub notifications: Finding,
    /// What becomes of the startup parameter `options`.
    pub options: Startup,
    /// A cancel reaches the running statement.
    pub cancel: Finding,
    /// The time of a statement and its answer: the median of [`ROUND_TRIPS`].
    pub round_trip: Duration,
    /// Texts behind which statements of this very client waited ([`Metrics::slow_neighbours`]).
    ///
    /// [`Metrics::slow_neighbours`]: crate::Metrics::slow_neighbours
    pub slow_neighbours: Vec<SlowNeighbour>,
    /// Texts of this database that are slow at times, according to `pg_stat_statements`: those
    /// whose longest call took more than 10 ms, and ten times as long as their average. Up to five,
    /// those with the longest calls first; none if the view is missing or can't be read.
    pub slow_at_times: Vec<SlowAtTimes>,
    /// Whether the client prepares statements by counting (`prepare_threshold` is not 0).
    pub(super) prepares: bool,
    /// Whether anything is sent behind an unanswered sync point (`in_flight_max` is not 1, and
    /// `one_segment` is off).
    pub(super) sends_ahead: bool,
    /// The settings that suit the hosts.
    pub(super) on_hosts: Vec<Advice>,
}

/// A text that is quick as a rule, and slow at times.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SlowAtTimes {
    /// Its first 200 characters.
    pub text: String,
    /// Calls since the view was reset.
    pub calls: i64,
    /// How long a call took on average.
    pub usual: Duration,
    /// How long the longest call took.
    pub longest: Duration,
}

/// How many round trips [`Diagnosis::round_trip`] is the median of.
pub const ROUND_TRIPS: usize = 9;

/// Whether something holds that this client relies on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// It holds.
    Holds,
    /// No answer came within 5 s.
    Hangs,
    /// Another answer came; the text describes it.
    Differs(String),
}

impl Finding {
    /// Whether it holds.
    pub fn holds(&self) -> bool {
        *self == Finding::Holds
    }
}

/// Who has a connection to the server, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pooling {
    /// The server itself has answered, or what is in between can't be noticed.
    Direct,
    /// A pooler is in between. A connection to it keeps one to the server.
    Session,
    /// A pooler gives each transaction a connection to the server, which others had before.
    Transaction,
    /// A pooler gives each statement a connection, and refuses transactions.
    Statement,
}

/// What becomes of a prepared statement in a later transaction of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Names {
    /// It is known, since the connection to the server has stayed the same.
    Kept,
    /// It is known although the connection to the server has changed: the pooler takes care of
    /// that.
    Followed,
    /// It is unknown (26000), or its name is in use already (42P05).
    Lost,
    /// The pooler has only one connection to the server, so this could not be tested.
    Untested,
}

/// What becomes of settings that the startup of a connection carries in `options`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Startup {
    /// They apply to this connection.
    Taken,
    /// They are dropped silently.
    Ignored,
    /// The connection is refused; the text is the server's or the pooler's message.
    Refused(String),
}

impl Diagnosis {
    /// Whether session state survives from one transaction to the next: SET, temporary tables,
    /// advisory locks, LISTEN. It all lives in one server process, so this follows from whether
    /// that process changes.
    pub fn session_state(&self) -> bool {
        matches!(self.pooling, Pooling::Direct | Pooling::Session)
    }

    /// Whether statements that were sent together come back in order and complete.
    pub fn pipelining(&self) -> bool {
        self.one_sync.holds() && self.many_syncs.holds() && self.failure_between.holds()
    }

    /// Whether this client, as configured, would run into errors or wait for ever: its requests or
    /// replies are mixed up or lost, its prepared statements are lost, transactions are refused, or
    /// a former primary among the hosts still takes writes.
    /// If session state, notifications or cancels are merely missing, that is not harmful.
    pub fn is_harmful(&self) -> bool {
        let ahead = [&self.many_syncs, &self.failure_between, &self.flush_behind_sync];
        (self.sends_ahead && !ahead.into_iter().all(Finding::holds))
            || !self.one_sync.holds()
            || !self.flush.holds()
            || self.loses_statements()
            || self.pooling == Pooling::Statement
            || self.hosts.iter().any(|host| host.is_former_primary)
    }

    pub(super) fn loses_statements(&self) -> bool {
        self.prepares && self.prepared == Names::Lost
    }
}
