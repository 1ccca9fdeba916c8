//! Connections that belong to one caller.

use std::ops::Deref;
use std::sync::Arc;

use crate::core::Connection;

/// A connection that belongs to one caller. Dropping this gives it back to its pool.
#[derive(Debug)]
pub(crate) struct Checkout(Arc<Connection>);

impl Checkout {
    pub(crate) fn new(connection: Arc<Connection>) -> Checkout {
        Checkout(connection)
    }
}

impl Deref for Checkout {
    type Target = Arc<Connection>;

    fn deref(&self) -> &Arc<Connection> {
        &self.0
    }
}

impl Drop for Checkout {
    fn drop(&mut self) {
        self.0.pool_slot.owner.clone().take_back(&self.0);
    }
}
