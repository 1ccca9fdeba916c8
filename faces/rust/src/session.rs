//! A connection of one's own.

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

/// A connection of one's own: what one caller does here, no other sees.
///
/// Statements are submitted when the call is made, as on a [`Client`](crate::Client), and any
/// statement may be sent (COPY by [`copy_in`](Session::copy_in) and
/// [`copy_out`](Session::copy_out)). Dropping the session gives the connection back to the pool;
/// what was submitted before is still run. If a statement changed the session (SET, a temporary
/// table, a lock, an open transaction), it is reset together with what its next user sends, or
/// after 100 ms.
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

    /// For one stream or COPY, with which the connection goes back.
    pub(crate) fn into_lease(self) -> Lease<'static> {
        Lease::of_checkout(self.connection, self.executor)
    }

    /// Begins a transaction. No trip: BEGIN leaves with the first statement. (So `now()` in it is
    /// the time of the first statement's arrival, not of this call.)
    pub async fn begin(&mut self) -> Result<Transaction<'_>, Error> {
        self.begin_with(TransactionOptions::new()).await
    }

    /// The same with an isolation level, read only or deferrable.
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
    /// Where one of several statements fails, what the others did is rolled back unless they were
    /// committed in between: the outcome is `Unknown`.
    pub fn script(
        &self,
        sql: &str,
    ) -> impl Future<Output = Result<Vec<SimpleResult>, Error>> + use<> {
        let reply = self.executor.simple(sql);
        async move { crate::simple::results(reply.await?) }
    }

    /// The same session, with a deadline of its own for each statement; see [`Timed`].
    pub fn timeout(&self, timeout: Duration) -> Timed<'_> {
        Timed::new(self.executor.within(timeout))
    }

    /// Cancels what the server runs on this session, from any task: the first statement of which
    /// the answer is still to come. What is behind it goes on; in a transaction it fails. If the
    /// cancel comes late, it may hit the statement behind instead, which fails then: that is for
    /// the caller to know, who has both.
    ///
    /// Once the session is dropped it cancels nothing: the connection goes to somebody else then.
    pub fn canceller(&self) -> Canceller {
        Canceller::of_connection(&self.connection)
    }

    /// The notifications that reach this session from now on, for one that runs LISTEN itself. They
    /// come while nothing is asked, but never inside a transaction. A second call ends the first.
    ///
    /// A [`Listener`](crate::Listener) comes back by itself after a failure; this ends with the
    /// session.
    pub fn notifications(&self) -> Notifications {
        let buffer = Arc::new(Buffer::new(KEPT_MAX));
        let before = self.connection.with_local(|core| {
            let before = core.forget_notifications();
            // Of a connection that is gone there will be none.
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

    /// The transaction status that the server told last.
    pub fn status(&self) -> TransactionStatus {
        self.connection.lock().status()
    }

    /// What the server said of a setting.
    pub fn parameter(&self, name: &str) -> Option<String> {
        self.connection.lock().parameters.get(name).cloned()
    }

    /// Whether the connection is gone.
    pub fn is_closed(&self) -> bool {
        self.connection.lock().engine.is_closed()
    }
}
