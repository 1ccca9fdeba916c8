//! A client: a pool of connections that all clones share.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use onetrip_engine::Time;
use onetrip_postgres::client::position::{self, Position, Wanted};

use crate::config::Config;
use crate::doctor::{Diagnosis, neighbours};
use crate::executor::Executor;
use crate::listener::Listener;
use crate::methods::statement_methods;
use crate::metrics::Metrics;
use crate::notice::Notices;
use crate::pool::Pool;
use crate::reads::Reads;
use crate::repeatable::Repeatable;
use crate::replicas::ReplicaSet;
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
/// Each statement is a transaction of its own, isolated from its neighbours: it carries its own
/// sync point. A call *submits when it is made*, not when it is first polled; awaiting the returned
/// [`Reply`](crate::Reply) yields the result. So calls made before the first is awaited share a
/// trip:
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
/// are refused here; the error says what to use: a [`session`](Client::session).
///
/// When bytes leave: if nothing is in flight, at once; otherwise when the caller's task next awaits
/// or yields. While the server has many requests and answers fast, new ones wait for its next reply
/// and leave in one write: they could not run any earlier.
///
/// When the last clone is dropped, submitted requests are still answered, also those that wait in
/// line for a connection; then the connections are closed: see [`close`](Client::close).
#[derive(Clone, Debug)]
pub struct Client {
    executor: Executor,
    handle: Arc<Handle>,
}

/// Closes the pools when the last client is dropped.
#[derive(Debug)]
struct Handle {
    pool: Arc<Pool>,
    replicas: Option<Arc<ReplicaSet>>,
}

impl Client {
    /// Connects as a URL or a string of `keyword=value` pairs says. The environment (`PGHOST` and
    /// the like) supplies what it leaves out.
    ///
    /// # Errors
    /// The text can't be read; no server answered (the message names each address that was tried);
    /// or the server refused. If a server was met that ended the login by itself, since it starts or
    /// has no connection free, it is tried again for up to `wait_timeout`. The password is never
    /// shown.
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
        let replicas = ReplicaSet::of(&pool)?;
        if let Some(replicas) = &replicas {
            replicas.probe_all();
        }
        let executor = Executor::of_pool(&pool);
        Ok(Client { executor, handle: Arc::new(Handle { pool, replicas }) })
    }

    /// Takes a connection of the caller's own: for transactions, for session state, or for
    /// statements that others should not wait behind. It costs no trip if a connection is idle;
    /// otherwise one is opened, or the caller waits in line. Dropping the session gives the
    /// connection back to the pool.
    ///
    /// # Errors
    /// No connection became free within `wait_timeout`, or none could be opened. Then nothing was
    /// sent.
    ///
    /// Dropping the future leaves the line.
    pub async fn session(&self) -> Result<Session, Error> {
        Ok(Session::new(self.pool().checkout(Time::NEVER).await?))
    }

    /// Begins a transaction on a connection of its own, which goes back to the pool when the
    /// transaction ends. It costs no trip if a connection is idle: BEGIN leaves with the first
    /// statement.
    ///
    /// # Errors
    /// As [`session`](Client::session).
    pub async fn begin(&self) -> Result<Transaction<'static>, Error> {
        self.begin_with(TransactionOptions::new()).await
    }

    /// As [`begin`](Client::begin), with an isolation level, read only or deferrable.
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

    /// The same client with another deadline for each statement; see [`Timed`].
    pub fn timeout(&self, timeout: Duration) -> Timed<'_> {
        Timed::new(self.executor.within(timeout))
    }

    /// Returns a [`Listener`] that listens to this channel. It opens a connection of its own,
    /// beside the pool.
    ///
    /// # Errors
    /// As [`listener`](Client::listener) and [`Listener::listen`].
    pub async fn listen(&self, channel: &str) -> Result<Listener, Error> {
        crate::notification::check(channel)?;
        let listener = self.listener().await?;
        listener.listen(channel).await?;
        Ok(listener)
    }

    /// Returns a [`Listener`] that listens to nothing yet. It opens a connection of its own, beside
    /// the pool.
    ///
    /// # Errors
    /// As [`connect`](Client::connect); or the client was closed (`closed`). Dropping the
    /// future gives the connection up.
    pub async fn listener(&self) -> Result<Listener, Error> {
        Listener::open(self.pool()).await
    }

    /// A stream of the notices that the server sends from now on, on all connections: RAISE NOTICE,
    /// warnings. While no such stream exists, notices are dropped.
    pub fn notices(&self) -> Notices {
        self.pool().context.notices.subscribe()
    }

    /// The counters of this client now. Connections are read one after the other, so the numbers
    /// may be slightly out of step.
    pub fn metrics(&self) -> Metrics {
        let replicas = self.replicas().map(|set| set.metrics()).unwrap_or_default();
        Metrics { replicas, ..crate::metrics::snapshot::of(self.pool()) }
    }

    /// Publishes the numbers through the facade of the `metrics` crate now, beside the publication
    /// every five seconds: before they are scraped, or before the program ends.
    #[cfg(feature = "metrics")]
    pub fn publish_metrics(&self) {
        crate::metrics::publish::publish(self.pool());
    }

    statement_methods!();
    stream_methods!((&self), 'static, self.session().await?.into_lease());

    /// The same client for statements that the caller declares repeatable, since running them twice
    /// does no harm: reads, and writes with the same result. They are sent again after a lost
    /// connection, and neighbouring reads share a sync point: see [`Repeatable`].
    pub fn repeatable(&self) -> Repeatable<'_> {
        Repeatable::new(self)
    }

    /// Reads that replicas may serve, and that show what this client wrote: see [`Reads`]. With the
    /// default of [`reads`](crate::config::Settings::reads) they go to the primary.
    pub fn reads(&self) -> Reads<'_> {
        Reads::new(self)
    }

    /// The position in the log behind all writes that this client had acknowledged before the call.
    /// It can be handed to another process, or put into a cookie, for
    /// [`Reads::after`]. No trip where [`reads`](crate::config::Settings::reads) is set and the
    /// position is known, which it mostly is once a write was acknowledged; otherwise one, to the
    /// primary.
    ///
    /// # Errors
    /// The server can't be asked; or it is a standby (`no_position`).
    ///
    /// Cancel safe.
    pub async fn position(&self) -> Result<Position, Error> {
        let known = self.replicas().map(|replicas| replicas.newest().wanted());
        if let Some(Wanted::At(position)) = known {
            return Ok(position);
        }
        let row = self.query_one(position::QUESTION, &[]).await?;
        let text = |at: usize| row.try_get::<Option<String>>(at).ok().flatten();
        let (system, timeline, lsn) = (text(0), text(1), text(2));
        let texts = [system.as_deref(), timeline.as_deref(), lsn.as_deref()];
        position::read(texts).ok_or_else(|| Error::misuse("no_position", position::NO_POSITION))
    }

    /// Examines what is between this client and its server, and what may be relied on there: a
    /// pooler and its mode, pipelining, prepared statements, notifications, cancels. The result
    /// says which settings to use. It also names the texts behind which statements of this client
    /// waited, and those that `pg_stat_statements` shows to be slow at times.
    ///
    /// It opens some ten connections for that, beside the pool and mostly one at a time, as the
    /// configuration says, and closes them. It creates nothing on the server that outlives them. It
    /// takes some 40 round trips, or up to 5 s for each answer that never comes; under a minute in
    /// all, besides connecting.
    ///
    /// # Errors
    /// As [`connect`](Client::connect); or the server does not even answer a plain statement.
    ///
    /// Dropping the future ends the examination.
    pub async fn doctor(&self) -> Result<Diagnosis, Error> {
        let mut found = crate::doctor::diagnose(&self.pool().config()).await?;
        found.slow_neighbours = self.metrics().slow_neighbours;
        // The view may be missing, or this user may not read it.
        let is_there = self.query_one(&unprepared(neighbours::IS_THERE), &[]).await;
        if is_there.is_ok_and(|row| row.get(0))
            && let Ok(rows) = self.query(&unprepared(neighbours::SLOW_AT_TIMES), &[]).await
        {
            found.slow_at_times = neighbours::read(&rows);
        }
        Ok(found)
    }

    /// What this client knows of the types that are not built in. It learns them by itself when a
    /// result or a prepared statement has one; see docs/reference/types.md.
    pub fn types(&self) -> &TypeCache {
        &self.executor.context.types
    }

    /// Learns types by name, such as `mood` or `shop.address`, and returns them in the order of the
    /// names. From then on a value of such a type can be a parameter without preparing a statement.
    /// Two trips.
    ///
    /// # Errors
    /// A name is not the name of a type, or the server can't be asked.
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
        // One deadline covers both questions.
        let left = self.executor.timeout().map(|timeout| timeout.saturating_sub(begun.elapsed()));
        let rows = match left {
            Some(left) => self.timeout(left).query(&sql, &[&oids]).await?,
            None => self.query(&sql, &[&oids]).await?,
        };
        let learned = self.types().learn(&rows)?;
        let find = |oid: &u32| learned.iter().find(|type_| type_.oid() == *oid).cloned();
        Ok(oids.iter().filter_map(|oid| find(oid).or_else(|| self.types().get(*oid))).collect())
    }

    /// The value of a setting that the server reports, such as `server_version` or `TimeZone`.
    /// `None` if it does not report this one, or while no connection is open.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let connections = self.pool().connections();
        connections.iter().find_map(|it| it.lock().parameters.get(name).cloned())
    }

    /// Whether no connection is open. If so, the next call opens one.
    pub fn is_closed(&self) -> bool {
        self.pool().connections().is_empty()
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.pool().connections().len()
    }

    /// How many requests are in flight and how many wait, over all connections.
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
    /// three quarters. If none is full, it resolves at once. Cancel safe.
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

    /// Ends the client, and its clones with it. Later calls fail with `NotSent`. Calls that were
    /// submitted before are still answered, also those that wait in line for a connection:
    /// statements, pipelines, sessions and transactions, each until its deadline. Connections are
    /// opened for them as before. If none is left and none can be opened, they fail with the
    /// reason.
    ///
    /// Streams of [notices](Client::notices) end, once they are read. Listeners end: each returns what came before, and then the error `closed`. A
    /// stream of rows or a COPY to the client that was read to its end holds no connection any
    /// more, also while it is still named.
    ///
    /// Resolves when every connection is closed and the server was told. Dropping the last clone
    /// does the same without waiting, but leaves each [`Listener`] to its owner.
    ///
    /// # Errors
    /// Some connections were still in use when `timeout` had passed, or callers were still in line.
    /// The connections ran statements, or sessions held them. They are cut, and what was in flight
    /// there ends as `Unknown`. Callers in line fail with `NotSent`.
    ///
    /// Cancel safe: if the future is dropped, the client is closed all the same, and nothing is
    /// cut.
    pub async fn close(&self, timeout: Duration) -> Result<(), Error> {
        let handle = &self.handle;
        handle.close();
        handle.end_listeners();
        let ended = tokio::time::timeout(timeout, handle.ended()).await;
        let cut = ended.is_err().then(|| handle.cut());
        handle.end_notices();
        let Some((waiting, left)) = cut else { return Ok(()) };
        let millis = timeout.as_millis();
        let message = format!(
            "{left} connections were still in use and {waiting} callers in line after {millis} ms: \
             the former were cut, the latter refused; give close() more time, or end sessions first"
        );
        Err(Error::new(Kind::Timeout, Outcome::Unknown, "close_timeout", message))
    }

    /// Drops this clone. If it is the last one, listeners end, too.
    pub(crate) fn close_if_last(self) {
        if let Some(handle) = Arc::into_inner(self.handle) {
            handle.end_listeners();
        }
    }

    pub(crate) fn executor(&self) -> &Executor {
        &self.executor
    }

    fn pool(&self) -> &Arc<Pool> {
        &self.handle.pool
    }

    pub(crate) fn replicas(&self) -> Option<&Arc<ReplicaSet>> {
        self.handle.replicas.as_ref()
    }
}

impl Handle {
    fn close(&self) {
        self.pool.close();
        self.pools().for_each(|pool| pool.close());
    }

    /// The pools of the replicas.
    fn pools(&self) -> impl Iterator<Item = &Arc<Pool>> {
        self.replicas.iter().flat_map(|replicas| replicas.pools())
    }

    /// Ends the listeners, whose connections are not the pool's.
    fn end_listeners(&self) {
        self.pool.context.listeners.send_replace(true);
    }

    /// No connection is left that could bring a notice.
    fn end_notices(&self) {
        self.pool.context.notices.close().into_iter().for_each(Waker::wake);
    }

    async fn ended(&self) {
        self.pool.ended().await;
        self.pool.context.listeners.closed().await;
        for pool in self.pools() {
            pool.ended().await;
        }
    }

    /// As [`Pool::cut`], for all.
    fn cut(&self) -> (usize, usize) {
        let all = std::iter::once(&self.pool).chain(self.pools());
        all.fold((0, 0), |(waiting, left), pool| {
            let (more_waiting, more_left) = pool.cut();
            (waiting + more_waiting, left + more_left)
        })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.close();
    }
}

/// How much work the connections have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Requests in flight: sent, or about to be, and unanswered.
    pub in_flight: usize,
    /// Requests that wait for the window.
    pub queued: usize,
    /// Callers that wait for room in a queue, or for a connection.
    pub waiting: usize,
    /// Whether the window was full and has not drained below three quarters since.
    pub is_full: bool,
}
