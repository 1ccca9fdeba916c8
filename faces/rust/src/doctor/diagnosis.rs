//! What was found out, as values.

use std::time::Duration;

use crate::metrics::SlowNeighbour;

/// What a client may rely on where it connects to: see [`Client::doctor`](crate::Client::doctor).
///
/// `Display` has a line for each finding, and one for each setting that should be other than it is,
/// with why.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Diagnosis {
    /// What the server says of its version, such as `18.1`. Empty if it says nothing.
    pub server_version: String,
    /// Whether connections to the server are shared with others, and when they change hands.
    pub pooling: Pooling,
    /// Statements that share a sync point: a pipeline.
    pub one_sync: Finding,
    /// Statements that leave together and have a sync point each, as those of a shared connection.
    pub many_syncs: Finding,
    /// The same where one of them fails: only that one does, and those behind it are answered.
    pub failure_between: Finding,
    /// A Flush is answered without a sync point: replies of a pipeline that is not finished.
    pub flush: Finding,
    /// The same right behind a sync point that is still to be answered.
    pub flush_behind_sync: Finding,
    /// What becomes of prepared statements.
    pub prepared: Names,
    /// A notification reaches who listens.
    pub notifications: Finding,
    /// What becomes of the startup parameter `options`.
    pub options: Startup,
    /// A cancel reaches the statement that runs.
    pub cancel: Finding,
    /// A statement and its answer, one at a time: the median of [`ROUND_TRIPS`].
    pub round_trip: Duration,
    /// Texts behind which statements of this very client waited ([`Metrics::slow_neighbours`]).
    ///
    /// [`Metrics::slow_neighbours`]: crate::Metrics::slow_neighbours
    pub slow_neighbours: Vec<SlowNeighbour>,
    /// Texts of this database that are slow at times, as `pg_stat_statements` has them: those whose
    /// longest call took more than 10 ms and ten times as long as their usual one. Up to five, those
    /// with the longest first; none where the view is not there, or is not to be read.
    pub slow_at_times: Vec<SlowAtTimes>,
    /// Whether the client prepares statements by itself (`prepare_threshold` is not 0).
    pub(super) prepares: bool,
    /// Whether anything is sent behind a sync point that was not answered (`in_flight_max` is not 1, and
    /// `one_segment` is off).
    pub(super) sends_ahead: bool,
}

/// A text that is quick as a rule, and not always.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SlowAtTimes {
    /// Its first 200 characters.
    pub text: String,
    /// Calls since the view was reset.
    pub calls: i64,
    /// How long a call took on average.
    pub usual: Duration,
    /// The longest.
    pub longest: Duration,
}

/// How many trips [`Diagnosis::round_trip`] is the median of.
pub const ROUND_TRIPS: usize = 9;

/// Whether something holds that this client relies on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// It does.
    Holds,
    /// No answer came within 5 s.
    Hangs,
    /// Something else came: what, in words.
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
    /// The server itself has answered, or what is in between shows in nothing.
    Direct,
    /// A pooler is in between, and a connection to it keeps one to the server.
    Session,
    /// A pooler gives each transaction a connection of its own, which others had before.
    Transaction,
    /// A pooler gives each statement one, and refuses transactions.
    Statement,
}

/// What becomes of a prepared statement in a later transaction of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Names {
    /// It is there, since the connection to the server has stayed the same.
    Kept,
    /// It is there although the connection to the server was another one: the pooler sees to that.
    Followed,
    /// It is unknown (26000), or a name that is in use already (42P05).
    Lost,
    /// The pooler has only one connection to the server, so there was no other to look at.
    Untested,
}

/// What becomes of settings that the startup of a connection carries in `options`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Startup {
    /// They hold on this connection.
    Taken,
    /// They are dropped without a word.
    Ignored,
    /// The connection is refused: what was said.
    Refused(String),
}

impl Diagnosis {
    /// Whether what a session keeps from one transaction to the next is still there: SET, temporary
    /// tables, advisory locks, LISTEN. It all lives in one process of the server, so this follows from
    /// whether that changes.
    pub fn session_state(&self) -> bool {
        matches!(self.pooling, Pooling::Direct | Pooling::Session)
    }

    /// Whether statements that were sent together come back in order and complete.
    pub fn pipelining(&self) -> bool {
        self.one_sync.holds() && self.many_syncs.holds() && self.failure_between.holds()
    }

    /// Whether this client, as it is configured, would run into errors or wait for ever: its requests
    /// or their replies are mixed up or lost, the statements that it prepares by itself are, or
    /// transactions are refused. What is merely missing (session state, notifications, cancels) is not
    /// harmful.
    pub fn is_harmful(&self) -> bool {
        let ahead = [&self.many_syncs, &self.failure_between, &self.flush_behind_sync];
        (self.sends_ahead && !ahead.into_iter().all(Finding::holds))
            || !self.one_sync.holds()
            || !self.flush.holds()
            || self.loses_statements()
            || self.pooling == Pooling::Statement
    }

    pub(super) fn loses_statements(&self) -> bool {
        self.prepares && self.prepared == Names::Lost
    }
}
