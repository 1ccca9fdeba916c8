//! A pool's reference to a connection of the host.

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use onetrip_engine::pool::{Load, Timings};

use crate::connection::Connection;
use crate::postgres::SharedTexts;

/// What a pool needs of its connections.
pub trait Lent {
    /// The load of the connection.
    fn load(&self) -> Load;

    /// Makes the connection count and measure texts together with the others of its pool. The first
    /// one to join provides the memory for that.
    fn join_pool(&self, texts: &mut Option<SharedTexts>, timings: &Arc<Timings>);

    /// Whether requests of many callers may be put on the connection, from now on.
    fn open_to_all(&self, is_open: bool);
}

/// For hosts in Rust, which call the pool only while they borrow none of its connections.
impl Lent for Rc<RefCell<Connection>> {
    fn load(&self) -> Load {
        self.borrow().load()
    }

    fn join_pool(&self, texts: &mut Option<SharedTexts>, timings: &Arc<Timings>) {
        self.borrow_mut().join_pool(texts, timings);
    }

    fn open_to_all(&self, is_open: bool) {
        self.borrow_mut().open_to_all(is_open);
    }
}

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
        unsafe { &*self.0 }.load()
    }

    fn join_pool(&self, texts: &mut Option<SharedTexts>, timings: &Arc<Timings>) {
        // SAFETY: as above, and the host is not in a call on the connection.
        unsafe { &mut *self.0 }.join_pool(texts, timings);
    }

    fn open_to_all(&self, is_open: bool) {
        // SAFETY: as above.
        unsafe { &mut *self.0 }.open_to_all(is_open);
    }
}
