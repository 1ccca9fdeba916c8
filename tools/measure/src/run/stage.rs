//! What a run is on any server: it is begun elsewhere, measures, and leaves nothing behind.

use crate::error::Result;
use crate::results::{Cell, Line, Server};

/// A run that has begun.
pub(super) trait Stage {
    /// Measures each cell of the plan once, then each once more in the opposite order, and so on.
    ///
    /// # Errors
    /// The first that made the rest pointless.
    async fn work(&mut self) -> Result<()>;

    /// What was found of the lines, and the cells that were measured at least once.
    fn take(&mut self) -> (Vec<Line>, Vec<Cell>);

    /// What is measured.
    fn server(&self) -> Server;

    /// Lets go of the connections and removes what was made on the server.
    ///
    /// # Errors
    /// It is still there.
    async fn end(self) -> Result<()>;
}
