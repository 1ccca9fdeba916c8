//! Sessions: a connection of one's own.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use onetrip_postgres::client::listener::KEPT_MAX;

use crate::Error;
use crate::buffer::Buffer;
use crate::canceller::Canceller;
use crate::checkout::Checkout;
use crate::core::Connection;
use crate::executor::Executor;
use crate::methods::statement_methods;
use crate::notification::Notifications;
use crate::simple::SimpleResult;
use crate::streams::{Lease, stream_methods};
use crate::timed::Timed;
use crate::transaction::Transaction;
use crate::transaction_options::TransactionOptions;
use onetrip_postgres::message::TransactionStatus;

/// A connection of one's own: what one caller does here, no other caller sees.
///
/// Statements are submitted when the call is made, as on a [`Client`](crate::Client), and any
/// statement may be sent (COPY by [`copy_in`](Session::copy_in) and
/// [`copy_out`](Session::copy_out)). Dropping the session gives the connection back to the pool;
/// statements that were submitted before still run. If a statement changed the session (SET, a
/// temporary table, a lock, an open transaction), the connection is reset: together with what its
/// next user sends, or after 100 ms.
#[derive(Debug)]
pub struct Session {
    connection: Checkout,
    executor: Executor,
}

impl Session {
    pub(crate) fn new(connection: Arc<Connection>) -> Session {
        let executor = Executor::of_session(&connection);
        Session { connection: Checkout::new(connection), executor }
    }

    /// Turns it into a lease for one stream or COPY, which gives the connection back.
    pub(crate) fn into_lease(self) -> Lease<'static> {
        Lease::of_checkout(self.connection, self.executor)
    }

    /// Begins a transaction. No trip: BEGIN leaves with the first statement. (So in it `now()` is
    /// the time when the first statement arrived, not the time of this call.)
    pub async fn begin(&mut self) -> Result<Transaction<'_>, Error> {
        self.begin_with(TransactionOptions::new()).await
    }

    /// As [`begin`](Session::begin), with an isolation level, read only or deferrable.
    pub async fn begin_with(
        &mut self,
        options: TransactionOptions,
    ) -> Result<Transaction<'_>, Error> {
        Ok(self.transaction(options))
    }

    pub(crate) fn transaction<'a>(&self, options: TransactionOptions) -> Transaction<'a> {
        Transaction::new(&self.connection, &self.executor, options)
    }

    /// Runs a text of one or more statements, separated by semicolons, without parameters. They are
    /// one transaction unless the text says otherwise. Values come as text.
    ///
    /// # Errors
    /// If one of several statements fails, the effects of the others are rolled back unless they
    /// were committed in between; so the outcome is `Unknown`.
    pub fn script(
        &self,
        sql: &str,
    ) -> impl Future<Output = Result<Vec<SimpleResult>, Error>> + use<> {
        let reply = self.executor.simple(sql);
        async move { crate::simple::results(reply.await?) }
    }

    /// The same session with another deadline for each statement; see [`Timed`].
    pub fn timeout(&self, timeout: Duration) -> Timed<'_> {
        Timed::new(self.executor.within(timeout))
    }

    /// Returns a handle that cancels, from any task, what the server runs on this session: the
    /// first statement that is not completely answered. Statements behind it go on; in a
    /// transaction they fail. If the cancel comes late it may hit the next statement instead, which
    /// fails then: the caller, who issued both, has to expect that.
    ///
    /// After the session is dropped the handle cancels nothing: the connection then goes to another
    /// caller.
    pub fn canceller(&self) -> Canceller {
        Canceller::of_connection(&self.connection)
    }

    /// The notifications that reach this session from now on, for a session that runs LISTEN. They
    /// also come while no statement runs, but never inside a transaction. A second call ends the
    /// stream of the first.
    ///
    /// A [`Listener`](crate::Listener) reconnects by itself after a failure; this ends with the
    /// session.
    pub fn notifications(&self) -> Notifications {
        let buffer = Arc::new(Buffer::new(KEPT_MAX));
        let before = self.connection.with_local(|core| {
            let before = core.forget_notifications();
            // A connection that is gone receives no notifications.
            match core.engine.is_closed() {
                true => drop(buffer.close()),
                false => core.notifications = Some(buffer.clone()),
            }
            before
        });
        before.into_iter().for_each(Waker::wake);
        Notifications(buffer)
    }

    statement_methods!();
    stream_methods!((&mut self), '_, self.lease());

    pub(crate) fn lease(&self) -> Lease<'_> {
        Lease::of(&self.connection, &self.executor)
    }

    /// The transaction status that the server reported last.
    pub fn status(&self) -> TransactionStatus {
        self.connection.lock().status()
    }

    /// The value of a setting that the server reports; `None` if it does not report this one.
    pub fn parameter(&self, name: &str) -> Option<String> {
        self.connection.lock().parameters.get(name).cloned()
    }

    /// Whether the connection is gone.
    pub fn is_closed(&self) -> bool {
        self.connection.lock().engine.is_closed()
    }
}
