//! Writers that reach the cluster by one host name: through HAProxy, which asks the nodes' Patronis
//! who is the primary, and through the PgBouncers of the nodes or in front of it. They live through
//! the faults beside the others.
//!
//! Each writes numbered rows, and notes what the client said of each. In the end the table shows
//! whether that was true.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use onetrip::{Client, Error, Outcome};
use onetrip_lab::postgres::patroni::{Cluster, HaProxy};
use onetrip_lab::postgres::pgbouncer::{Options, PoolMode, PrivatePgBouncer, Program, find_all};
use tokio::task::JoinSet;

use crate::drive::until;

/// The table, with the number of the path and that of the row.
pub(crate) const TABLE: &str = "create table through (path int, number int)";

/// The tasks of each path.
const TASKS: i32 = 2;

/// The pause between two rows of a task.
const PACE: Duration = Duration::from_millis(20);

/// How long a path may take until it acknowledges a row after the last fault.
const PATIENCE: Duration = Duration::from_secs(600);

/// The ports of the page's example: the primary, and the primary's PgBouncer.
const PRIMARY: u16 = 5000;
const POOLED: u16 = 5002;

/// The paths, and what is written on them.
pub struct Paths {
    // Fields drop in this order: the poolers behind HAProxy at last.
    tasks: JoinSet<()>,
    stop: Arc<AtomicBool>,
    paths: Vec<Path>,
    _in_front: Vec<PrivatePgBouncer>,
    _haproxy: HaProxy,
    _poolers: Vec<PrivatePgBouncer>,
}

/// What came of one path.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PathReport {
    /// What is in between.
    pub name: String,
    /// How many rows were acknowledged.
    pub acknowledged: u64,
    /// How many calls ended so.
    pub failed: BTreeMap<String, u64>,
    /// The last error of a call, or of an attempt to connect.
    pub last_error: Option<String>,
    /// What the client said and is not so.
    pub findings: Vec<String>,
    /// What the doctor says of the path, after the last fault.
    pub hosts: String,
}

struct Path {
    name: String,
    url: String,
    book: Arc<Book>,
}

/// What the client said of each row: `None` for an acknowledgement.
#[derive(Default)]
struct Book {
    said: Mutex<HashMap<i32, Option<Outcome>>>,
    acknowledged: AtomicU64,
    last_error: Mutex<Option<String>>,
    wrong: Mutex<Vec<String>>,
}

impl Book {
    fn fail(&self, error: &Error) {
        *self.last_error.lock().unwrap() = Some(error.to_string());
    }
}

impl Paths {
    /// Starts HAProxy with the example of the page, with a PgBouncer of each version and mode on
    /// each node and one in front of HAProxy, and the writers.
    ///
    /// # Panics
    /// If one of them does not start.
    pub fn start(cluster: &Cluster, page: &str) -> Paths {
        let (mut text, poolers, mut names) = configuration(cluster, page);
        text.push('\n');
        let haproxy = HaProxy::start(cluster, &text).unwrap_or_else(|error| panic!("{error}"));
        let program = find_all().unwrap().into_iter().next();
        let in_front: Vec<PrivatePgBouncer> = program
            .into_iter()
            .map(|program| {
                let options = options(program, PoolMode::Transaction);
                let port = haproxy.port(PRIMARY);
                PrivatePgBouncer::start_at(port, cluster.password(), &options).unwrap()
            })
            .collect();
        let mut paths = vec![path("HAProxy".into(), haproxy.port(PRIMARY), cluster, false)];
        for (port, (name, is_old)) in names.drain(..) {
            paths.push(path(name, haproxy.port(port), cluster, is_old));
        }
        for pooler in &in_front {
            let name = format!("PgBouncer {} in front of HAProxy", pooler.version());
            let is_old = !pooler.knows_prepared_statements();
            paths.push(path(name, pooler.port(), cluster, is_old));
        }
        let (mut tasks, stop) = (JoinSet::new(), Arc::new(AtomicBool::new(false)));
        for (at, path) in (0_i32..).zip(&paths) {
            for task in 0..TASKS {
                let (url, book, stop) = (path.url.clone(), path.book.clone(), stop.clone());
                tasks.spawn(write(url, (at, task), book, stop));
            }
        }
        Paths { tasks, stop, paths, _in_front: in_front, _haproxy: haproxy, _poolers: poolers }
    }

    /// Waits until each path acknowledges a row once more, stops the writers, and compares what
    /// they were told with the table of the server with this URL.
    pub async fn end(mut self, url: String) -> Vec<PathReport> {
        let counts = |path: &Path| path.book.acknowledged.load(Ordering::SeqCst);
        let before: Vec<u64> = self.paths.iter().map(counts).collect();
        let is_at_work = until(PATIENCE, async || {
            self.paths.iter().map(counts).zip(&before).all(|(now, before)| now > *before)
        })
        .await;
        let idle: Vec<bool> = self
            .paths
            .iter()
            .map(counts)
            .zip(&before)
            .map(|(now, before)| now <= *before)
            .collect();
        let mut hosts = Vec::new();
        for path in &self.paths {
            let found = onetrip::doctor::path(&path.url.parse().unwrap()).await.unwrap();
            hosts.push(onetrip::doctor::Hosts(&found).to_string());
        }
        self.stop.store(true, Ordering::SeqCst);
        let joined = async { while self.tasks.join_next().await.is_some() {} };
        let have_ended = tokio::time::timeout(PATIENCE, joined).await.is_ok();
        let table = table(&url).await;
        let seen = idle.into_iter().zip(hosts);
        let reports = (0_i32..).zip(&self.paths).zip(seen).map(|((at, path), (is_idle, hosts))| {
            let mut report = PathReport { hosts, ..path.report(at, &table) };
            if is_idle && !is_at_work {
                report.findings.push("no row is acknowledged any more".into());
            }
            if !have_ended {
                report.findings.push("calls do not end".into());
            }
            report
        });
        reports.collect()
    }
}

/// The page's example, in which the section of the primary's PgBouncer stands once for each version
/// and mode; the PgBouncers; and for each of those sections its port, and what it leads through.
#[expect(clippy::type_complexity, reason = "it is taken apart at once")]
fn configuration(
    cluster: &Cluster,
    page: &str,
) -> (String, Vec<PrivatePgBouncer>, Vec<(u16, (String, bool))>) {
    let block = page.split("```haproxy\n").nth(1).and_then(|rest| rest.split("\n```").next());
    let block = block.expect("the page has an example");
    let (front, pooled) = block.split_once("\nlisten pooled\n").expect("it has a pooled section");
    let (mut text, mut poolers, mut names) = (front.to_owned(), Vec::new(), Vec::new());
    let modes = [(PoolMode::Transaction, "transaction"), (PoolMode::Session, "session")];
    let programs = find_all().unwrap();
    let each = programs.iter().flat_map(|program| modes.map(|mode| (program, mode)));
    for (port, (program, (mode, word))) in (POOLED..).zip(each) {
        let mut section = pooled.replace(&format!("*:{POOLED}"), &format!("*:{port}"));
        for (at, node) in (1..).zip(cluster.nodes()) {
            let options = options(program.clone(), mode);
            let pooler = PrivatePgBouncer::start_at(node.port(), cluster.password(), &options);
            let pooler = pooler.unwrap_or_else(|error| panic!("{error}"));
            let own = format!("127.0.0.1:{}", pooler.port());
            section = section.replace(&format!("db{at}:6432"), &own);
            poolers.push(pooler);
        }
        text += &format!("\nlisten pooled_{port}\n{section}");
        let name = format!("HAProxy, PgBouncer {} in {word} mode", program.version());
        names.push((port, (name, !program.knows_prepared_statements())));
    }
    (text, poolers, names)
}

fn options(program: Program, pool_mode: PoolMode) -> Options {
    let (program, prepared_max) = (Some(program), Some(200));
    let options = Options { program, pool_mode, pool_size: 20, prepared_max, ..Options::default() };
    // Otherwise a login that the server refused while it started is not tried again for 15 s.
    options.setting("server_login_retry", "1")
}

/// A path by one host name, with the settings of the page of poolers.
fn path(name: String, port: u16, cluster: &Cluster, is_old: bool) -> Path {
    let old = if is_old { "&one_segment=1&cancels_max=0" } else { "" };
    let url = format!(
        "postgres://postgres:{}@127.0.0.1:{port}/postgres?target_session_attrs=read-write\
         &connect_timeout=2&connections_max={TASKS}{old}",
        cluster.password()
    );
    Path { name, url, book: Arc::default() }
}

/// Writes rows until it is told to stop.
async fn write(url: String, (path, task): (i32, i32), book: Arc<Book>, stop: Arc<AtomicBool>) {
    let mut client = None;
    let mut number = task * 1_000_000;
    while !stop.load(Ordering::SeqCst) {
        tokio::time::sleep(PACE).await;
        let Some(client) = &client else {
            client = Client::connect(&url).await.inspect_err(|error| book.fail(error)).ok();
            continue;
        };
        number += 1;
        let said = one_row(client, path, number).await;
        if let Ok(Some(other)) = &said {
            let finding = format!("row {number} was answered with {other}");
            book.wrong.lock().unwrap().push(finding);
        }
        let outcome = said.inspect_err(|error| book.fail(error)).err().map(|error| error.outcome());
        book.acknowledged.fetch_add(u64::from(outcome.is_none()), Ordering::SeqCst);
        book.said.lock().unwrap().insert(number, outcome);
    }
}

/// Writes a row in one of three ways. Returns what the server said instead of the number.
async fn one_row(client: &Client, path: i32, number: i32) -> Result<Option<i32>, Error> {
    const INSERT: &str = "insert into through values ($1, $2) returning number";
    let row = match number % 3 {
        0 => client.query_one(INSERT, &[&path, &number]).await?,
        1 => {
            let tx = client.begin().await?;
            let row = tx.query_one(INSERT, &[&path, &number]).await?;
            tx.commit().await?;
            row
        }
        _ => {
            let mut pipeline = client.pipeline();
            let first = pipeline.query_one("select 1", &[]);
            let row = pipeline.query_one(INSERT, &[&path, &number]);
            pipeline.finish().await?;
            first.await?;
            row.await?
        }
    };
    let said = row.get::<i32>(0);
    Ok((said != number).then_some(said))
}

/// How often each row is in the table, by path and number.
async fn table(url: &str) -> HashMap<(i32, i32), i64> {
    let client = Client::connect(url).await.unwrap();
    let rows = client.query("select path, number, count(*) from through group by 1, 2", &[]);
    let rows = rows.await.unwrap();
    rows.iter().map(|row| ((row.get(0), row.get(1)), row.get(2))).collect()
}

impl Path {
    fn report(&self, at: i32, table: &HashMap<(i32, i32), i64>) -> PathReport {
        let said = self.book.said.lock().unwrap();
        let mut findings = std::mem::take(&mut *self.book.wrong.lock().unwrap());
        let mut failed = BTreeMap::new();
        for (number, outcome) in said.iter() {
            let there = table.get(&(at, *number)).copied().unwrap_or(0);
            let may_be = match outcome {
                None | Some(Outcome::Applied) => 1..=1,
                Some(Outcome::NotSent | Outcome::Rejected) => 0..=0,
                Some(_) => 0..=1,
            };
            if !may_be.contains(&there) {
                findings.push(format!("row {number}: {outcome:?}, and it is there {there} times"));
            }
            if let Some(outcome) = outcome {
                *failed.entry(format!("{outcome:?}")).or_insert(0) += 1;
            }
        }
        let unheard =
            table.keys().filter(|(path, number)| *path == at && !said.contains_key(number));
        findings.extend(unheard.map(|(_, number)| format!("row {number} was never written")));
        let acknowledged = self.book.acknowledged.load(Ordering::SeqCst);
        let (name, hosts) = (self.name.clone(), String::new());
        let last_error = self.book.last_error.lock().unwrap().clone();
        PathReport { name, acknowledged, failed, last_error, findings, hosts }
    }
}
