//! A client on one shared connection.

use std::sync::Arc;

use crate::Error;
use crate::config::Config;
use crate::connect::connect;
use crate::core::Shared;
use crate::executor::Executor;
use crate::methods::statement_methods;
use crate::session::Session;
use onetrip_postgres::sql::Place;

/// A client on one connection that all its clones share.
///
/// Each statement is a transaction of its own, isolated from its neighbours: it carries its own sync
/// point. A call *submits when it is made*, not when it is first polled; the returned [`Reply`](crate::Reply) is
/// awaited for the result. So several calls made before the first is awaited share a trip:
///
/// ```no_run
/// # async fn f() -> Result<(), onetrip::Error> {
/// let client = onetrip::Client::connect("postgres://alice@localhost/shop").await?;
/// let order = client.query_one("select total from orders where id = $1", &[&7]);
/// let lines = client.query("select item, price from lines where order_id = $1", &[&7]);
/// let (order, lines) = (order.await?, lines.await?); // One trip for both.
/// # Ok(()) }
/// ```
///
/// Statements that need a connection of their own (transactions, SET, LISTEN, temporary tables, …)
/// are refused here with an error that says what to use: a [`session`](Client::session).
///
/// When bytes leave: at once if nothing is in flight; otherwise when the caller's task next awaits
/// or yields. While the server has many requests and answers fast, new ones wait for its next reply
/// to leave in one write: they could not run any earlier. When the last clone is dropped, what was submitted is still answered, and then the
/// connection is closed.
#[derive(Debug)]
pub struct Client {
    config: Arc<Config>,
    executor: Executor,
}

impl Client {
    /// Connects as a URL or key-value string says, and the environment where it says nothing.
    ///
    /// # Errors
    /// The text can't be read, no server answered (each address that was tried is named), or the
    /// server refused. The password is never shown.
    pub async fn connect(config: &str) -> Result<Client, Error> {
        let config: Config = config.parse().map_err(Error::config)?;
        Client::connect_with(&config.or_env().map_err(Error::config)?).await
    }

    /// Connects as the configuration says.
    ///
    /// # Errors
    /// As [`connect`](Client::connect). Dropping the future gives the connection up.
    pub async fn connect_with(config: &Config) -> Result<Client, Error> {
        let config = Arc::new(config.clone());
        let shared = connect(&config, true, &Arc::default()).await?;
        Ok(Client { config, executor: Executor::new(shared, Place::Shared) })
    }

    /// Opens a connection of one's own to the same server: for transactions, for session state, for
    /// statements that others should not wait behind.
    pub async fn session(&self) -> Result<Session, Error> {
        let shapes = &self.shared().shapes;
        Ok(Session::new(connect(&self.config, false, shapes).await?))
    }

    statement_methods!();

    /// What the server said of a setting: `server_version`, `TimeZone` and others that it reports.
    pub fn parameter(&self, name: &str) -> Option<String> {
        self.shared().lock().parameters.get(name).cloned()
    }

    /// Whether the connection is gone, so that no call can succeed any more.
    pub fn is_closed(&self) -> bool {
        self.shared().lock().engine.is_closed()
    }

    /// Requests on their way and requests that wait for the window.
    pub fn pending(&self) -> Pending {
        let core = self.shared().lock();
        Pending {
            in_flight: core.engine.in_flight(),
            queued: core.engine.queued(),
            waiting: core.engine.waiting(),
            is_full: core.is_full(),
        }
    }

    /// Resolves when nothing waits and the window is below three quarters; at once where it is not
    /// full. Cancel safe.
    pub async fn drained(&self) {
        std::future::poll_fn(|cx| {
            let mut core = self.shared().lock();
            if !core.is_full() {
                return std::task::Poll::Ready(());
            }
            core.on_drained(cx.waker());
            std::task::Poll::Pending
        })
        .await;
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.executor.shared
    }
}

impl Clone for Client {
    fn clone(&self) -> Client {
        self.shared().lock().handles += 1;
        Client { config: self.config.clone(), executor: self.executor.clone() }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared().release_handle();
    }
}

/// How much a connection has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Requests on their way: sent, or about to be, and unanswered.
    pub in_flight: usize,
    /// Requests that wait for the window.
    pub queued: usize,
    /// Callers that wait for room in the queue.
    pub waiting: usize,
    /// Whether the window was full and has not drained yet.
    pub is_full: bool,
}
