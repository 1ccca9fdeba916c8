//! A client: a pool of connections that all clones share.

use std::sync::Arc;
use std::time::{Duration, Instant};

use onetrip_engine::Time;

use crate::config::Config;
use crate::doctor::{Diagnosis, neighbours};
use crate::executor::Executor;
use crate::listener::Listener;
use crate::methods::statement_methods;
use crate::metrics::Metrics;
use crate::notice::Notices;
use crate::pool::Pool;
use crate::repeatable::Repeatable;
use crate::session::Session;
use crate::statement::unprepared;
use crate::streams::stream_methods;
use crate::timed::Timed;
use crate::transaction::Transaction;
use crate::transaction_options::TransactionOptions;
use crate::types::{Type, TypeCache};
use crate::{Error, Kind, Outcome};

/// A client on a pool of connections that all its clones share.
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
/// to leave in one write: they could not run any earlier. When the last clone is dropped, what is on a
/// connection is still answered, and then that is closed; what still waits for a connection ends as
/// `NotSent`.
#[derive(Clone, Debug)]
pub struct Client {
    executor: Executor,
    handle: Arc<Handle>,
}

/// The pool, for as long as there is a client.
#[derive(Debug)]
struct Handle(Arc<Pool>);

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

    /// Connects as the configuration says. One connection is opened; others follow as they are
    /// needed.
    ///
    /// # Errors
    /// As [`connect`](Client::connect). Dropping the future gives the connection up.
    pub async fn connect_with(config: &Config) -> Result<Client, Error> {
        let pool = Pool::open(config.clone()).await?;
        Ok(Client { executor: Executor::of_pool(&pool), handle: Arc::new(Handle(pool)) })
    }

    /// A connection of one's own: for transactions, for session state, for statements that others
    /// should not wait behind. No trip if one is idle; otherwise one is opened, or the caller waits
    /// in line. It goes back to the pool when it is dropped.
    ///
    /// # Errors
    /// None became free within `wait_timeout`, or none could be opened. Nothing was sent then.
    ///
    /// Dropping the future leaves the line.
    pub async fn session(&self) -> Result<Session, Error> {
        Ok(Session::new(self.pool().checkout(Time::NEVER).await?))
    }

    /// Begins a transaction on a connection of its own, which goes back to the pool with it. No trip
    /// if a connection is idle: BEGIN leaves with the first statement.
    ///
    /// # Errors
    /// As [`session`](Client::session).
    pub async fn begin(&self) -> Result<Transaction<'static>, Error> {
        self.begin_with(TransactionOptions::new()).await
    }

    /// The same with an isolation level, read only or deferrable.
    ///
    /// # Errors
    /// As [`session`](Client::session).
    pub async fn begin_with(
        &self,
        options: TransactionOptions,
    ) -> Result<Transaction<'static>, Error> {
        let session = self.session().await?;
        Ok(session.transaction(options).owning(session))
    }

    /// The same client, with a deadline of its own for each statement; see [`Timed`].
    pub fn timeout(&self, timeout: Duration) -> Timed<'_> {
        Timed::new(self.executor.within(timeout))
    }

    /// Listens to a channel: a [`Listener`] that begins with it. Another connection is opened for
    /// that, beside the pool.
    ///
    /// # Errors
    /// As [`connect`](Client::connect) and [`Listener::listen`].
    pub async fn listen(&self, channel: &str) -> Result<Listener, Error> {
        crate::notification::check(channel)?;
        let listener = self.listener().await?;
        listener.listen(channel).await?;
        Ok(listener)
    }

    /// A [`Listener`] that listens to nothing yet. Another connection is opened for it, beside the
    /// pool.
    ///
    /// # Errors
    /// As [`connect`](Client::connect). Dropping the future gives the connection up.
    pub async fn listener(&self) -> Result<Listener, Error> {
        Listener::open(self.pool()).await
    }

    /// What the server says beside its replies from now on, on all connections: RAISE NOTICE,
    /// warnings. Without anybody who asks for them notices are dropped.
    pub fn notices(&self) -> Notices {
        self.pool().context.notices.subscribe()
    }

    /// The numbers of this client at this moment. It looks at one connection after the other, so they
    /// may differ by what happens meanwhile.
    pub fn metrics(&self) -> Metrics {
        crate::metrics::snapshot::of(self.pool())
    }

    /// Publishes the numbers through the facade of the `metrics` crate now, and not only every five
    /// seconds: before they are scraped, or before the program ends.
    #[cfg(feature = "metrics")]
    pub fn publish_metrics(&self) {
        crate::metrics::publish::publish(self.pool());
    }

    statement_methods!();
    stream_methods!((&self), 'static, self.session().await?.into_lease());

    /// The same for statements of which you say that running them twice does no harm: reads, and
    /// writes that come out the same. They are sent again by themselves after a lost connection, and
    /// neighbouring reads share a sync point: see [`Repeatable`].
    pub fn repeatable(&self) -> Repeatable<'_> {
        Repeatable::new(self)
    }

    /// Finds out what is between this client and its server, and what it may rely on there: a pooler and
    /// its mode, pipelining, prepared statements, notifications, cancels. The result says which settings
    /// to use. It also names the texts behind which statements of this client waited, and those that
    /// `pg_stat_statements` shows to be slow at times.
    ///
    /// It opens some ten connections for that, beside the pool and mostly one at a time, as the
    /// configuration says, and closes them. Nothing is made on the server, and nothing is left there. It
    /// takes some 40 round trips, or up to 5 s for each answer that never comes; under a minute in all,
    /// besides connecting.
    ///
    /// # Errors
    /// As [`connect`](Client::connect); or not even a plain statement is answered.
    ///
    /// Dropping the future gives it up.
    pub async fn doctor(&self) -> Result<Diagnosis, Error> {
        let mut found = crate::doctor::diagnose(&self.pool().config()).await?;
        found.slow_neighbours = self.metrics().slow_neighbours;
        // The view may not be there, or not be this user's to read.
        let is_there = self.query_one(&unprepared(neighbours::IS_THERE), &[]).await;
        if is_there.is_ok_and(|row| row.get(0))
            && let Ok(rows) = self.query(&unprepared(neighbours::SLOW_AT_TIMES), &[]).await
        {
            found.slow_at_times = neighbours::read(&rows);
        }
        Ok(found)
    }

    /// What this client knows of the types that are not built in. It learns them by itself when a result
    /// or a prepared statement has them; see docs/reference/types.md.
    pub fn types(&self) -> &TypeCache {
        &self.executor.context.types
    }

    /// Learns types by their names, in the order of the names, such as `mood` or `shop.address`: a value of
    /// such a type can be a parameter from then on without anything being prepared. Two trips.
    ///
    /// # Errors
    /// A name is that of no type, or the server can't be asked.
    ///
    /// Cancel safe.
    pub async fn learn_types(&self, names: &[&str]) -> Result<Vec<Type>, Error> {
        const NUMBERS: &str = "select pg_catalog.to_regtype(name)::pg_catalog.oid \
             from pg_catalog.unnest($1::pg_catalog.text[]) with ordinality as t (name, number) \
             order by number";
        let begun = Instant::now();
        let rows = self.query(&unprepared(NUMBERS), &[&names]).await?;
        let oids: Vec<Option<u32>> =
            rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        if let Some(unknown) = oids.iter().position(Option::is_none) {
            let message = format!("there is no type {}", names[unknown]);
            return Err(Error::misuse("unknown_type", message));
        }
        let oids: Vec<u32> = oids.into_iter().flatten().collect();
        let sql = unprepared(TypeCache::introspection_sql());
        // One deadline is that of both questions.
        let left = self.executor.timeout().map(|timeout| timeout.saturating_sub(begun.elapsed()));
        let rows = match left {
            Some(left) => self.timeout(left).query(&sql, &[&oids]).await?,
            None => self.query(&sql, &[&oids]).await?,
        };
        let learned = self.types().learn(&rows)?;
        let find = |oid: &u32| learned.iter().find(|type_| type_.oid() == *oid).cloned();
        Ok(oids.iter().filter_map(|oid| find(oid).or_else(|| self.types().get(*oid))).collect())
    }

    /// What the server said of a setting: `server_version`, `TimeZone` and others that it reports.
    /// `None` if it doesn't, or while no connection is open.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let connections = self.pool().connections();
        connections.iter().find_map(|it| it.lock().parameters.get(name).cloned())
    }

    /// Whether no connection is open. The next call opens one.
    pub fn is_closed(&self) -> bool {
        self.pool().connections().is_empty()
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.pool().connections().len()
    }

    /// Requests on their way and requests that wait, over all connections.
    pub fn pending(&self) -> Pending {
        let mut sum = Pending { in_flight: 0, queued: 0, waiting: 0, is_full: false };
        for connection in self.pool().connections() {
            let core = connection.lock();
            sum.in_flight += core.engine.in_flight();
            sum.queued += core.engine.queued();
            sum.waiting += core.engine.waiting();
            sum.is_full |= core.is_full();
        }
        sum.waiting += self.pool().waiting();
        sum
    }

    /// Resolves when no connection is full any more: nothing waits there, and the window is below
    /// three quarters; at once where none is. Cancel safe.
    pub async fn drained(&self) {
        for connection in self.pool().connections() {
            std::future::poll_fn(|cx| {
                let mut core = connection.lock();
                if !core.is_full() {
                    return std::task::Poll::Ready(());
                }
                core.on_drained(cx.waker());
                std::task::Poll::Pending
            })
            .await;
        }
    }

    /// Ends the client, and its clones with it. Statements that have a connection are still answered;
    /// those that wait in line for one, and calls that come later, fail with `NotSent`. Resolves when every connection is closed, and the server was told. Dropping
    /// the last clone does the same without waiting; a [`Listener`] ends by itself.
    ///
    /// # Errors
    /// Some connections were still in use after this time: statements that run, or sessions that are held.
    /// They are cut, and what was on its way there ends as `Unknown`.
    ///
    /// Cancel safe: dropped on the way, the client is closed all the same, and nothing is cut.
    pub async fn close(&self, timeout: Duration) -> Result<(), Error> {
        self.pool().close();
        let totals = &self.pool().context.totals;
        if tokio::time::timeout(timeout, totals.all_ended()).await.is_ok() {
            return Ok(());
        }
        let left = totals.live();
        left.iter().for_each(|connection| connection.cut());
        let (left, millis) = (left.len(), timeout.as_millis());
        let message =
            format!("{left} connections were still in use after {millis} ms, and were cut");
        Err(Error::new(Kind::Timeout, Outcome::Unknown, "close_timeout", message))
    }

    pub(crate) fn executor(&self) -> &Executor {
        &self.executor
    }

    fn pool(&self) -> &Arc<Pool> {
        &self.handle.0
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// How much the connections have to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Requests on their way: sent, or about to be, and unanswered.
    pub in_flight: usize,
    /// Requests that wait for the window.
    pub queued: usize,
    /// Callers that wait for room in a queue, or for a connection.
    pub waiting: usize,
    /// Whether the window was full and has not drained yet.
    pub is_full: bool,
}
