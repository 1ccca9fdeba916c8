//! A connection that a pool looks at.

#![allow(unsafe_code)]

use std::sync::Arc;

use onetrip_engine::pool::{Load, Timings};

use crate::connection::Connection;
use crate::postgres::SharedTexts;

/// A connection of the host's, lent to a pool until it is taken out of it.
#[derive(Debug)]
pub(crate) struct Handle(*mut Connection);

impl Handle {
    /// # Safety
    /// The connection lives until the pool has let go of it, and is used by the pool's thread alone.
    pub(crate) unsafe fn new(connection: *mut Connection) -> Handle {
        Handle(connection)
    }

    pub(crate) fn load(&self) -> Load {
        // SAFETY: promised when it was made; the result holds nothing of it.
        unsafe { &*self.0 }.load()
    }

    /// Has it count and measure texts with the others of its pool, of which the first brings the memory for them.
    pub(crate) fn join_pool(&self, texts: &mut Option<SharedTexts>, timings: &Arc<Timings>) {
        // SAFETY: as above, and the host is in no call on the connection.
        unsafe { &mut *self.0 }.join_pool(texts, timings);
    }
}
