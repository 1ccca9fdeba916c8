//! A connection that a pool looks at.

#![allow(unsafe_code)]

use onetrip_engine::pool::Load;

use crate::connection::Connection;

/// A connection of the host's, lent to a pool until it is taken out of it.
#[derive(Debug)]
pub(crate) struct Handle(*const Connection);

impl Handle {
    /// # Safety
    /// The connection lives until the pool has let go of it, and is used by the pool's thread alone.
    pub(crate) unsafe fn new(connection: *const Connection) -> Handle {
        Handle(connection)
    }

    pub(crate) fn load(&self) -> Load {
        // SAFETY: promised when it was made; the result holds nothing of it.
        unsafe { &*self.0 }.load()
    }
}
