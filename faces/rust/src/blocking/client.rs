//! A client whose calls block.

use std::time::Duration;

use super::drive::Runtime;
use super::{Listener, Session, Transaction, blocking_methods};
use crate::config::Config;
use crate::doctor::Diagnosis;
use crate::{Error, Metrics, Notices, Pending, TransactionOptions};

/// A client whose calls block their thread until the result has arrived; otherwise like
/// [`onetrip::Client`](crate::Client), whose rules and errors apply here too. Its clones share it.
#[derive(Clone, Debug)]
pub struct Client {
    // Dropped first: the runtime then closes the connections.
    inner: crate::Client,
    runtime: Runtime,
}

impl Client {
    /// Connects as a URL or a string of `keyword=value` pairs says. The environment supplies what
    /// it leaves out.
    ///
    /// # Errors
    /// As [`onetrip::Client::connect`](crate::Client::connect); or no thread can be started.
    pub fn connect(config: &str) -> Result<Client, Error> {
        let config: Config = config.parse().map_err(Error::config)?;
        Client::connect_with(&config.or_env().map_err(Error::config)?)
    }

    /// Connects as the configuration says.
    ///
    /// # Errors
    /// As [`connect`](Client::connect).
    pub fn connect_with(config: &Config) -> Result<Client, Error> {
        let runtime = Runtime::new()?;
        let inner = runtime.wait(|| crate::Client::connect_with(config))?;
        Ok(Client { inner, runtime })
    }

    /// Runs the future that `make` returns, and blocks until it has resolved. Statements that are
    /// submitted in `make` share trips as usual.
    ///
    /// # Errors
    /// The error of the future.
    pub fn wait<T, F: Future<Output = Result<T, Error>>>(
        &self,
        make: impl FnOnce(&crate::Client) -> F,
    ) -> Result<T, Error> {
        self.runtime.wait(|| make(&self.inner))
    }

    /// Takes a connection of the caller's own.
    ///
    /// # Errors
    /// As [`onetrip::Client::session`](crate::Client::session).
    pub fn session(&self) -> Result<Session, Error> {
        let inner = self.runtime.wait(|| self.inner.session())?;
        Ok(Session::new(inner, self.runtime.clone()))
    }

    /// Begins a transaction on a connection of its own, which goes back to the pool when it ends.
    ///
    /// # Errors
    /// As [`onetrip::Client::begin`](crate::Client::begin).
    pub fn begin(&self) -> Result<Transaction<'static>, Error> {
        let inner = self.runtime.wait(|| self.inner.begin())?;
        Ok(Transaction::new(inner, self.runtime.clone()))
    }

    /// As [`begin`](Client::begin), with an isolation level, read only or deferrable.
    ///
    /// # Errors
    /// As [`onetrip::Client::begin`](crate::Client::begin).
    pub fn begin_with(&self, options: TransactionOptions) -> Result<Transaction<'static>, Error> {
        let inner = self.runtime.wait(|| self.inner.begin_with(options))?;
        Ok(Transaction::new(inner, self.runtime.clone()))
    }

    /// Returns a listener that listens to this channel.
    ///
    /// # Errors
    /// As [`onetrip::Client::listen`](crate::Client::listen).
    pub fn listen(&self, channel: &str) -> Result<Listener, Error> {
        let inner = self.runtime.wait(|| self.inner.listen(channel))?;
        Ok(Listener::new(inner, self.runtime.clone()))
    }

    /// Returns a listener that listens to nothing yet.
    ///
    /// # Errors
    /// As [`onetrip::Client::listener`](crate::Client::listener).
    pub fn listener(&self) -> Result<Listener, Error> {
        let inner = self.runtime.wait(|| self.inner.listener())?;
        Ok(Listener::new(inner, self.runtime.clone()))
    }

    blocking_methods!();

    /// Finds out what is between this client and its server, and which settings to use.
    ///
    /// # Errors
    /// As [`onetrip::Client::doctor`](crate::Client::doctor).
    pub fn doctor(&self) -> Result<Diagnosis, Error> {
        self.runtime.wait(|| self.inner.doctor())
    }

    /// The notices of the server; [`wait`](Self::wait) runs their futures.
    pub fn notices(&self) -> Notices {
        self.inner.notices()
    }

    /// The counters of this client now.
    pub fn metrics(&self) -> Metrics {
        self.inner.metrics()
    }

    /// The value of a setting that the server reports; `None` if it does not report this one.
    pub fn parameter(&self, name: &str) -> Option<String> {
        self.inner.parameter(name)
    }

    /// Whether no connection is open. If so, the next call opens one.
    pub fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.inner.connections()
    }

    /// How many requests are in flight and how many wait, over all connections.
    pub fn pending(&self) -> Pending {
        self.inner.pending()
    }

    /// Closes the connections when all that was submitted is answered, and returns when the server
    /// has been told. If clones, sessions or listeners are left, it returns at once; unless clones
    /// are left, its listeners end with the error `closed`. Dropping the client closes
    /// the connections, too, without waiting.
    ///
    /// # Errors
    /// The call was made inside asynchronous code. The client is dropped all the same.
    pub fn close(self) -> Result<(), Error> {
        let Client { inner, runtime } = self;
        inner.close_if_last();
        runtime.wait_for_the_end()
    }
}

/// Resolves with `None` after this time.
pub(super) async fn within<T>(
    time: Duration,
    future: impl Future<Output = Result<T, Error>>,
) -> Result<Option<T>, Error> {
    tokio::time::timeout(time, future).await.ok().transpose()
}
