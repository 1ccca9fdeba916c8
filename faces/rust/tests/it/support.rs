//! What all tests share: a bounded run, connections, a lock that holds a statement up, a proxy in
//! between, seeded numbers. Nothing here sleeps: a condition is asked for until it is true.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::io::Write;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use crate::pooled::shared;
use onetrip::{Client, Error, Outcome, Session};
use onetrip_lab::proxy::{Proxy, ProxyConfig};

/// A test that takes longer than this hangs. The longest takes a few seconds, and many times that
/// where much else runs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// Runs a test on one thread, unless a pooler is in between that does not allow it.
pub(crate) fn run(test: impl Future<Output = ()>) {
    if is_refused_by_the_pooler() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(patiently(test));
}

/// The same on several threads.
pub(crate) fn run_threads(test: impl Future<Output = ()>) {
    if is_refused_by_the_pooler() {
        return;
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    runtime.unwrap().block_on(patiently(test));
}

/// The same for a long test.
pub(crate) fn run_long(patience: Duration, test: impl Future<Output = ()>) {
    if is_refused_by_the_pooler() {
        return;
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    runtime.unwrap().block_on(for_at_most(patience, test));
}

async fn patiently(test: impl Future<Output = ()>) {
    for_at_most(PATIENCE, test).await;
}

async fn for_at_most(patience: Duration, test: impl Future<Output = ()>) {
    let ended = tokio::time::timeout(patience, test).await;
    assert!(ended.is_ok(), "something never ended");
}

/// A client of the shared server.
pub(crate) async fn client() -> Client {
    client_with("").await
}

/// The same with settings: `in_flight_max=1&queue_max=2`.
pub(crate) async fn client_with(settings: &str) -> Client {
    let url = format!("{}?{}", shared().url(), shared().settings(settings));
    Client::connect(&url).await.unwrap()
}

/// A session.
pub(crate) async fn session() -> Session {
    client().await.session().await.unwrap()
}

/// A new table with these columns.
pub(crate) async fn table(columns: &str) -> String {
    let name = shared().new_name();
    session().await.script(&format!("create table {name} ({columns})")).await.unwrap();
    name
}

/// A database in which server processes are ended, and a session that watches it beside the pooler,
/// if there is one: a connection that is about to end is given to no other test, and not to those
/// who watch.
pub(crate) struct Apart {
    pub(crate) watcher: Session,
    database: String,
}

impl Apart {
    pub(crate) async fn new() -> Apart {
        let database = shared().new_name();
        let direct = async |database: &str| {
            let client = Client::connect(&shared().direct_url(database)).await.unwrap();
            client.session().await.unwrap()
        };
        let create = format!("create database {database}");
        direct("postgres").await.execute(&create, &[]).await.unwrap();
        Apart { watcher: direct(&database).await, database }
    }

    pub(crate) async fn client_with(&self, settings: &str) -> Client {
        let url = shared().database_url(&self.database);
        Client::connect(&format!("{url}?{}", shared().settings(settings))).await.unwrap()
    }

    /// A new table with these columns.
    pub(crate) async fn table(&self, columns: &str) -> String {
        let name = shared().new_name();
        self.watcher.script(&format!("create table {name} ({columns})")).await.unwrap();
        name
    }

    /// Ends all server processes of the database but that of the watcher.
    pub(crate) async fn kill(&self) {
        let kill = "select pg_terminate_backend(pid) from pg_stat_activity \
                    where datname = current_database() and pid <> pg_backend_pid()";
        self.watcher.script(kill).await.unwrap();
    }
}

/// The numbers in a table, each of which must occur once.
pub(crate) async fn ids(table: &str) -> BTreeSet<i32> {
    ids_seen_by(&session().await, table).await
}

pub(crate) async fn ids_seen_by(session: &Session, table: &str) -> BTreeSet<i32> {
    let rows = session.query(&format!("select id from {table}"), &[]).await.unwrap();
    let ids: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
    let set: BTreeSet<i32> = ids.iter().copied().collect();
    assert_eq!(ids.len(), set.len(), "a statement ran twice");
    set
}

/// The number of rows of a query.
pub(crate) async fn count(session: &Session, from: &str) -> i64 {
    session.query_one(&format!("select count(*) from {from}"), &[]).await.unwrap().get(0)
}

/// Asks until `wish` returns true. The run's patience bounds it.
pub(crate) async fn until(mut wish: impl AsyncFnMut() -> bool) {
    while !wish().await {
        tokio::task::yield_now().await;
    }
}

/// Polls once. Returns whether it was ready.
pub(crate) async fn poll_once<F: Future + Unpin>(future: &mut F) -> bool {
    std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut *future).poll(cx).is_ready())).await
}

#[track_caller]
pub(crate) fn error<T: Debug>(result: Result<T, Error>) -> Error {
    result.expect_err("this should have failed")
}

/// Checks for an error with this outcome and this code.
#[track_caller]
pub(crate) fn failed<T: Debug>(result: Result<T, Error>, outcome: Outcome, code: &str) -> Error {
    let error = error(result);
    assert_eq!((error.outcome(), error.code()), (outcome, code), "{error}");
    error
}

/// Checks for an error of the server with this SQLSTATE and without effect.
#[track_caller]
pub(crate) fn rejected<T: Debug>(result: Result<T, Error>, sqlstate: &str) -> Error {
    let error = error(result);
    assert_eq!((error.outcome(), error.sqlstate()), (Outcome::Rejected, Some(sqlstate)), "{error}");
    error
}

/// Checks that a connection works, and that its reply is the right one.
pub(crate) async fn assert_usable(client: &Client) {
    let reply = client.query_one("select 20 + $1", &[&22]).await.unwrap();
    assert_eq!(reply.get::<i32>(0), 42);
}

/// Whether the tests run through a pooler that does not allow this one; prints that. A test that
/// does not use [`run`] calls this itself.
pub(crate) fn is_refused_by_the_pooler() -> bool {
    let thread = std::thread::current();
    let why = shared().refusal(thread.name().unwrap_or_default());
    why.inspect(|why| skipped(why)).is_some()
}

/// Prints that this test, or a part of it, does not run here. It bypasses the test runner, which
/// hides the output of tests that pass.
pub(crate) fn skipped(reason: &str) {
    let thread = std::thread::current();
    let line = format!("skipped: {}: {reason}\n", thread.name().unwrap_or("a test"));
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// Whether the shared server is too old for a test, or for a part of it; prints that.
pub(crate) fn is_before(major: u32, what: &str) -> bool {
    let is_before = shared().major() < major;
    if is_before {
        skipped(&format!("{what} came with PostgreSQL {major}"));
    }
    is_before
}

/// A table that a session has locked: statements that read it wait.
pub(crate) struct Gate {
    session: Session,
    pub(crate) table: String,
}

impl Gate {
    pub(crate) async fn closed() -> Gate {
        let session = session().await;
        let table = shared().new_name();
        let lock = format!("create table {table} (); begin; lock table {table}");
        for statement in lock.split("; ") {
            session.execute(statement, &[]).await.unwrap();
        }
        Gate { session, table }
    }

    /// A statement that waits until the gate opens.
    pub(crate) fn statement(&self) -> String {
        format!("select count(*) from {}", self.table)
    }

    /// The server process that waits at the gate, once there is one.
    pub(crate) async fn waiting_pid(&self) -> i32 {
        let sql = "select pid from pg_locks where relation = $1::regclass and not granted";
        loop {
            let row = self.session.query_opt(sql, &[&self.table.as_str()]).await.unwrap();
            match row {
                Some(row) => return row.get(0),
                None => tokio::task::yield_now().await,
            }
        }
    }

    pub(crate) async fn open(self) {
        self.session.execute("rollback", &[]).await.unwrap();
    }
}

/// Ends a server process.
pub(crate) async fn terminate(pid: i32) {
    let row = session().await.query_one("select pg_terminate_backend($1)", &[&pid]).await.unwrap();
    assert!(row.get::<bool>(0));
}

pub(crate) async fn pid_of(client: &Client) -> i32 {
    client.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0)
}

/// A proxy in front of the shared server.
pub(crate) fn proxy() -> Proxy {
    Proxy::start(ProxyConfig::new(SocketAddr::from(([127, 0, 0, 1], shared().port())))).unwrap()
}

/// The same at a distance. With no distance at all, an answer may arrive between two successive
/// writes, which is one more trip.
pub(crate) fn distant_proxy() -> Proxy {
    let upstream = SocketAddr::from(([127, 0, 0, 1], shared().port()));
    Proxy::start(ProxyConfig::new(upstream).with_rtt(Duration::from_millis(10))).unwrap()
}

/// The URL of the shared server through a proxy.
pub(crate) fn url_through(proxy: &Proxy) -> String {
    let port = shared().port();
    shared().url().replace(&format!(":{port}/"), &format!(":{}/", proxy.addr().port()))
}

pub(crate) async fn client_through(proxy: &Proxy, settings: &str) -> Client {
    let url = format!("{}?{}", url_through(proxy), shared().settings(settings));
    Client::connect(&url).await.unwrap()
}

/// Numbers from a seed (SplitMix64).
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}
