//! A pool's reference to a connection of the host.

#![allow(unsafe_code)]

use std::sync::Arc;

use onetrip_client::Lent;
use onetrip_client::postgres::SharedTexts;
use onetrip_engine::pool::{Load, Timings};

use crate::room::Connection;

/// A connection of the host, lent to a pool until the pool lets go of it.
#[derive(Debug)]
pub struct Handle(*mut Connection);

impl Handle {
    /// # Safety
    /// The connection lives until the pool has let go of it, and only the pool's thread uses it.
    pub(crate) unsafe fn new(connection: *mut Connection) -> Handle {
        Handle(connection)
    }
}

impl Lent for Handle {
    fn load(&self) -> Load {
        // SAFETY: promised to `new`; the result does not refer to the connection.
        unsafe { &*self.0 }.client.load()
    }

    fn join_pool(&self, texts: &mut Option<SharedTexts>, timings: &Arc<Timings>) {
        // SAFETY: as above, and the host is not in a call on the connection.
        unsafe { &mut *self.0 }.client.join_pool(texts, timings);
    }

    fn open_to_all(&self, is_open: bool) {
        // SAFETY: as above.
        unsafe { &mut *self.0 }.client.open_to_all(is_open);
    }
}
