//! The owner of a connection: its pool.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use onetrip_engine::pool::ConnectionId;

use super::Connection;
use crate::pool::hints::Hints;

/// The owner of connections, which is told of their state.
pub(crate) trait Owner: Send + Sync {
    /// What connections may read about their owner without its lock.
    fn hints(&self) -> &Arc<Hints>;
    /// A connection is idle or has room, and its duty requires that its owner is told.
    fn report(self: Arc<Self>, id: ConnectionId);
    /// A connection is gone.
    fn lost(self: Arc<Self>, id: ConnectionId);
    /// The borrower of a connection does not need it any more.
    fn take_back(self: Arc<Self>, connection: &Arc<Connection>);
    /// Itself, for a statement that goes on there after its connection was lost.
    fn itself(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
    /// A connection that takes a statement at once, and its owner epoch.
    fn another(self: Arc<Self>) -> Option<(Arc<Connection>, u32)>;
}

/// The place of a connection in its pool.
#[derive(Clone)]
pub(crate) struct PoolSlot {
    pub(crate) owner: Arc<dyn Owner>,
    pub(crate) id: ConnectionId,
}

impl PoolSlot {
    pub(crate) fn report(&self) {
        self.owner.clone().report(self.id);
    }

    pub(crate) fn lost(&self) {
        self.owner.clone().lost(self.id);
    }
}

impl fmt::Debug for PoolSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}
