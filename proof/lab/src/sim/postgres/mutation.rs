//! Broken promises that only PostgreSQL knows.

use onetrip_engine::{Cause, End, Outcome, Output};
use onetrip_postgres::Event;

use crate::seeded::Log;
use crate::sim::book::failed;
use crate::sim::mutation::{OwnMutation, drop_first, replace_end, stands};

/// A mutation of PostgreSQL's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// A segment is reported as failed, and what it held was committed.
    FalseRollback,
    /// A group never gets the floor.
    DropGranted,
    /// A cancel arrives that nobody has sent.
    StrayCancel,
    /// What is sent behind a reset doesn't depend on it.
    NoGuard,
    /// The first change of the next owner is forgotten.
    ForgottenChange,
    /// What may leave something is taken for harmless.
    TakenForHarmless,
    /// A guard stands in front of what the server can't skip.
    GuardedQuery,
    /// A reset that failed is taken for done.
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
    /// Whether it is of the protocol, where a session changes hands. What comes of it shows only
    /// where its owner had left something, and a reset fails, or was not made.
    #[must_use]
    pub fn is_of_owners(self) -> bool {
        !matches!(self, Own::FalseRollback | Own::DropGranted | Own::StrayCancel)
    }

    /// Falsifies what the engine said.
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
