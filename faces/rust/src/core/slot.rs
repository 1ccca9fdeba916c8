//! Who has a connection.

use std::fmt;
use std::sync::Arc;

use onetrip_engine::pool::ConnectionId;

use super::Connection;
use crate::pool::hints::Hints;

/// Who has connections, and is told of them.
pub(crate) trait Owner: Send + Sync {
    /// What its connections know of it without its lock.
    fn hints(&self) -> &Arc<Hints>;
    /// A connection is idle, or has room, and its duty says that this is to be told.
    fn report(self: Arc<Self>, id: ConnectionId);
    /// A connection is gone.
    fn lost(self: Arc<Self>, id: ConnectionId);
    /// Whom one was lent to needs it no more.
    fn take_back(self: Arc<Self>, connection: &Arc<Connection>);
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
