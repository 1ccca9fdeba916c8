//! What a pool has of a connection of the host.

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
