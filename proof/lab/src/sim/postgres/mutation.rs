//! The mutations that only PostgreSQL has.

use onetrip_engine::{Cause, End, Outcome, Output};
use onetrip_postgres::Event;

use crate::seeded::Log;
use crate::sim::book::failed;
use crate::sim::mutation::{OwnMutation, drop_first, replace_end, stands};

/// A mutation of PostgreSQL's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// A segment is reported as failed although it was committed.
    FalseRollback,
    /// A group never gets the floor.
    DropGranted,
    /// A cancel arrives that was not sent.
    StrayCancel,
    /// Requests after a reset are sent without the guard that makes them depend on it.
    NoGuard,
    /// The first change of the next owner is forgotten.
    ForgottenChange,
    /// A statement that may leave state is taken for harmless.
    TakenForHarmless,
    /// A guard is put in front of a request that the server can't skip.
    GuardedQuery,
    /// A failed reset is taken for successful.
    FailedResetIsDone,
}

impl OwnMutation for Own {
    const ALL: &'static [Own] = &[
        Own::FalseRollback,
        Own::DropGranted,
        Own::StrayCancel,
        Own::NoGuard,
        Own::ForgottenChange,
        Own::TakenForHarmless,
        Own::GuardedQuery,
        Own::FailedResetIsDone,
    ];

    fn is_ambient(self) -> bool {
        self == Own::StrayCancel
    }
}

impl Own {
    /// Whether it affects the change of a session's owners. It shows only if the owner left state
    /// and a reset fails or was not made.
    #[must_use]
    pub fn is_of_owners(self) -> bool {
        !matches!(self, Own::FalseRollback | Own::DropGranted | Own::StrayCancel)
    }

    /// Falsifies the engine's outputs.
    pub(super) fn strike(self, outputs: &mut Vec<Output<Event>>, log: &Log) -> bool {
        match self {
            Own::FalseRollback => replace_end(outputs, |token, end| {
                (stands(log, token) && end == End::Provisional)
                    .then_some(failed(Outcome::Rejected, Cause::Aborted))
            }),
            Own::DropGranted => drop_first(outputs, |it| matches!(it, Output::Granted { .. })),
            _ => false,
        }
    }
}
