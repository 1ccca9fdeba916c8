//! Batches whose calls block.

use super::drive::Runtime;
use crate::{Affected, BatchError, BatchReport, Error, ParameterSet};

/// As [`onetrip::Batch`](crate::Batch): nothing is sent until `atomic` or `isolated` is called.
#[must_use = "a batch is sent by atomic() or isolated()"]
#[derive(Debug)]
pub struct Batch<'a, R> {
    inner: crate::Batch<'a, R>,
    runtime: Runtime,
}

impl<'a, R> Batch<'a, R>
where
    R: IntoIterator,
    R::Item: ParameterSet,
{
    pub(super) fn new(inner: crate::Batch<'a, R>, runtime: Runtime) -> Batch<'a, R> {
        Batch { inner, runtime }
    }

    /// Runs the statement for all rows or for none, and waits for the answer to the sync point.
    ///
    /// # Errors
    /// As [`onetrip::Batch::atomic`](crate::Batch::atomic).
    pub fn atomic(self) -> Result<Affected, BatchError> {
        let Batch { inner, runtime } = self;
        runtime.wait(|| async { Ok(inner.atomic().await) })?
    }

    /// Runs the statement for each row in a transaction of its own, and waits for the last of them.
    /// The report has the errors by row; see [`onetrip::Batch::isolated`](crate::Batch::isolated).
    ///
    /// # Errors
    /// The call was made inside asynchronous code (`blocking_in_async`, nothing was sent).
    pub fn isolated(self) -> Result<BatchReport, Error> {
        let Batch { inner, runtime } = self;
        runtime.wait(|| async { Ok(inner.isolated().await) })
    }
}
