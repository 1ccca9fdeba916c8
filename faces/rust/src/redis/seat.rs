//! What a pool and its connections need of whoever knows their server, such as Sentinels. It stands
//! apart, so that they do not depend on who that is.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Weak};

use super::config::Config;
use super::connect::Target;
use super::link::{Link, Loss, PoolSlot, Shared};
use crate::Error;

/// Connects to the server that has a role at the moment.
pub(crate) trait Seat: Loss + fmt::Debug {
    /// This pool is told when its server is another one.
    fn belongs_to(&self, pool: Weak<dyn Leave>);

    /// Connects to the server, once it is known. Gives an attempt up when the server is another one
    /// meanwhile.
    fn connect<'a>(
        self: Arc<Self>,
        config: &'a Config,
        target: &'a Target,
        context: &'a Arc<Shared>,
        pool_slot: PoolSlot,
    ) -> Pin<Box<dyn Future<Output = Result<Arc<Link>, Error>> + Send + 'a>>;
}

/// The connections to a server that may become another one.
pub(crate) trait Leave: Send + Sync {
    /// The server has this number from now on, or there is none. Connections to another one are
    /// closed at once: what it still acknowledges would be lost.
    fn leave(&self, number: Option<u64>);
}
