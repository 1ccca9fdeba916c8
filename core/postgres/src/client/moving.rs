//! The way of one read from server to server: where it goes first, where it goes once it has ended
//! on a replica without having run, and when it gives up.

use onetrip_engine::{Outcome, Time};

use super::position::Wanted;
use super::replicas::{Outlook, Read, Reads, Replicas, Route};

/// A read that may be sent to several servers, one after the other. The host asks for a
/// [`step`](Moving::step) when the read is made, behind each pause, and where
/// [`ended`](Moving::ended) says that it goes on.
#[derive(Clone, Copy, Debug)]
pub struct Moving {
    read: Read,
    deadline: Time,
    /// It was sent somewhere, or has waited.
    has_begun: bool,
    /// Replicas are not tried again.
    gives_up: bool,
    /// It has gone to the primary, or has failed, and goes nowhere else any more.
    is_settled: bool,
}

/// What a read does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is submitted on the replica `at`, behind a guard for the position that it
    /// [wants](Moving::wanted). If no connection there takes it at once it waits in line if `waits`;
    /// otherwise it does as at [`Pause`](Step::Pause).
    Replica {
        /// The number of the replica.
        at: usize,
        /// Whether it waits in line there.
        waits: bool,
    },
    /// It is submitted on the primary, and stays there.
    Primary,
    /// The next step is asked for after [`Replicas::retry_pause`].
    Pause,
    /// It fails: its deadline has passed.
    Late,
    /// It fails: only replicas may serve it, and none could in time.
    NoReplica,
}

/// What is said of a read at [`Step::NoReplica`], behind the code `no_replica`; nothing was sent.
pub const NO_REPLICA: &str = "no replica can serve this read: all are down, or have not replayed \
     what it must show; wait longer (or_wait), or let the primary help out (reads=prefer_replica)";

impl Moving {
    /// A read that was made now, with its deadline.
    pub fn new(read: Read, deadline: Time) -> Moving {
        let (has_begun, gives_up, is_settled) = (false, false, false);
        Moving { read, deadline, has_begun, gives_up, is_settled }
    }

    /// What it must show.
    pub fn wanted(&self) -> Wanted {
        self.read.wanted
    }

    /// Until when it must be answered.
    pub fn deadline(&self) -> Time {
        self.deadline
    }

    /// It was sent to the primary for another reason, and stays there.
    pub fn settle(&mut self) {
        self.is_settled = true;
    }

    /// Whether it goes nowhere else any more.
    pub fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// What it does next. The outlooks are as for [`Replicas::choose`]. `newest`: what a read of
    /// this client's own writes would have to show now
    /// ([`Newest::wanted`](super::position::Newest::wanted)). Right behind a write its position is
    /// not known yet: the read waits for it where it may wait.
    pub fn step(
        &mut self,
        now: Time,
        replicas: &mut Replicas,
        newest: Wanted,
        outlooks: &[Outlook],
        primary: Outlook,
    ) -> Step {
        if self.read.wanted == Wanted::Unknown {
            self.read.wanted = newest;
        }
        let waits = !std::mem::replace(&mut self.has_begun, true);
        let step = if now >= self.deadline {
            Step::Late
        } else if self.gives_up {
            Step::Primary
        } else {
            match replicas.choose(now, self.read, outlooks, primary) {
                Route::Replica(at) => Step::Replica { at, waits },
                Route::Primary => Step::Primary,
                Route::Wait => Step::Pause,
                Route::Nowhere => Step::NoReplica,
            }
        };
        match step {
            Step::Replica { at, .. } => replicas.count(Some(at)),
            Step::Primary if self.read.reads != Reads::Primary => replicas.count(None),
            Step::Primary | Step::Pause | Step::Late | Step::NoReplica => {}
        }
        self.is_settled = !matches!(step, Step::Replica { .. } | Step::Pause);
        step
    }

    /// It has ended so. Whether it goes on with another step, since nothing of it has run; if not,
    /// this end is its caller's. `skipped`: its guard has failed, or the server can't use its
    /// prepared statement as it is ([`is_stale`](super::statements::Fault::is_stale)): behind a guard
    /// nothing is sent again. `is_final`: its caller's deadline or cancel ended it, or the client is
    /// closed, which holds everywhere.
    pub fn ended(&mut self, now: Time, outcome: Outcome, skipped: bool, is_final: bool) -> bool {
        let goes_on = !self.is_settled
            && !is_final
            && now < self.deadline
            && Read::goes_elsewhere(outcome, skipped);
        self.is_settled = !goes_on;
        self.gives_up |= goes_on && self.read.gives_up(now);
        goes_on
    }
}
