//! The connection that a stream or a COPY has to itself.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::checkout::Checkout;
use crate::core::Connection;
use crate::executor::Executor;

/// A connection for the time of one stream or COPY.
#[derive(Debug)]
pub(crate) struct Lease<'a> {
    pub(crate) connection: Arc<Connection>,
    pub(crate) executor: Executor,
    /// Gives the connection back to the pool when dropped; `None` if it belongs to a session.
    own: Option<Checkout>,
    borrowed: PhantomData<&'a mut Checkout>,
}

impl<'a> Lease<'a> {
    /// The connection of a session, or of a transaction on it.
    pub(crate) fn of(connection: &Arc<Connection>, executor: &Executor) -> Lease<'a> {
        let (connection, executor) = (connection.clone(), executor.clone());
        Lease { connection, executor, own: None, borrowed: PhantomData }
    }

    /// A connection that was checked out for this.
    pub(crate) fn of_checkout(own: Checkout, executor: Executor) -> Lease<'static> {
        Lease { connection: own.clone(), executor, own: Some(own), borrowed: PhantomData }
    }

    /// Gives the connection back, if it was checked out for this; nothing may be done with it any
    /// more.
    pub(crate) fn give_back(&mut self) {
        self.own = None;
    }

    /// Whether the connection may be closed, since it belongs to no session.
    pub(crate) fn is_replaceable(&self) -> bool {
        self.own.is_some()
    }
}
