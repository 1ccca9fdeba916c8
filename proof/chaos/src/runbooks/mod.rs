//! The runbooks of docs/operations/runbooks.md: the commands of the page are carried out on a primary
//! and its standby while 200 tasks write, so page and test can't drift apart.
//!
//! Commits are asynchronous towards the standby: what a planned switchover keeps, it keeps without
//! waiting.

mod page;

use std::sync::Arc;
use std::time::Duration;

use onetrip::{Client, Config};
use onetrip_lab::postgres::{Durability, Options, PrivatePostgres, Shutdown};

use crate::check::{Kept, Window};
use crate::drive::{FaultWindow, Writers, on_threads, until};
use crate::end::{Rest, judge};
use crate::ledger::Ledger;
use crate::plan::Kind;
use crate::postgres::observer::Observer;
use crate::postgres::stage::NAME;
use crate::postgres::{SCHEMA, TASKS, end};
use crate::writer::Writer;
use crate::{Options as RunOptions, Report};

use page::{Place, Step, steps};

const PAGE: &str = include_str!("../../../../docs/operations/runbooks.md");

/// Carries out the runbook with this title, and returns its report: see [`Report::findings`].
///
/// # Panics
/// If the lab fails, or a step of the page can't be carried out.
pub fn run(title: &str, options: &RunOptions) -> Report {
    on_threads(run_here(title, options))
}

async fn run_here(title: &str, options: &RunOptions) -> Report {
    let mut field = Field::set().await;
    let mut steps = steps(PAGE, title).into_iter().peekable();
    let rotates = steps.peek().is_some_and(|step| step.text.contains("create role"));
    if let Some(once) = steps.next_if(|_| rotates) {
        // The first programs have the role that this makes.
        field.carry_out(&once).await;
    }
    let ledger = Arc::new(Ledger::new());
    let owner = (field.primary.user(), field.primary.password());
    let first = if rotates { ("shop_a", OLD) } else { owner };
    let mut programs = Programs::start(&field, first, &ledger, options.seed).await;
    let (mut faults, mut pause_max, mut since) = (Vec::new(), None, None);
    for step in steps {
        if since.is_none() {
            assert!(ledger.is_at_work().await, "no write is acknowledged before {step:?}");
        }
        if stops_the_primary(&step) {
            since = Some(ledger.now());
        }
        match step.place {
            Place::Programs => {
                let new = Programs::start(&field, deployed(&step.text), &ledger, !options.seed);
                let old = std::mem::replace(&mut programs, new.await);
                assert!(old.stop().await, "the old programs do not end");
            }
            Place::Primary | Place::Standby => field.carry_out(&step).await,
        }
        if !field.takes_writes().await {
            continue;
        }
        if let Some(from) = since.take() {
            let takes_writes = ledger.now();
            assert!(ledger.is_at_work().await, "no write is acknowledged after {step:?}");
            let to = ledger.now();
            pause_max = pause_max.max(Some(to - takes_writes));
            let (kind, window) = (Kind::FastRestart, Some(Window { from, to }));
            faults.push(FaultWindow { kind, window, broken: 0 });
        }
    }
    assert!(ledger.is_at_work().await, "no write is acknowledged in the end");
    let client = programs.client.clone();
    let in_time = programs.stop().await;
    let duration = ledger.now();
    let mut findings: Vec<_> = end::is_at_work(&client, &ledger).await.into_iter().collect();
    findings.extend(end::is_idle(&client).await);
    if pause_max > Some(PAUSE_MAX) {
        findings.push(format!("writers paused for {pause_max:?} after a server took writes"));
    }
    let lost = client.metrics().lost;
    drop(client);
    let table = end::table(&field.writable().await.url(), "written").await;
    let kept = Kept::All;
    let rest = Rest { findings, table, lost, by_faults_alone: false, kept, pause_max };
    judge(options, &ledger, duration, &faults, in_time, rest)
}

fn stops_the_primary(step: &Step) -> bool {
    let stops = step.text.contains("pg_ctl stop") || step.text.contains("pg_ctl restart");
    step.place == Place::Primary && !step.is_sql && stops
}

/// The user of the URL that a step gives to the programs, and its password.
fn deployed(text: &str) -> (&str, &str) {
    let user = text.split_once("postgres://").and_then(|(_, url)| url.split_once(":$NEW@"));
    (user.unwrap_or_else(|| panic!("{text} has no user and new password")).0, NEW)
}

/// A primary and its standby.
struct Field {
    primary: PrivatePostgres,
    standby: PrivatePostgres,
    /// Whether the one that was the primary at first runs.
    primary_runs: bool,
}

impl Field {
    async fn set() -> Field {
        let durable = || Options { durability: Durability::Full, ..Options::default() };
        let primary = PrivatePostgres::start(durable()).unwrap();
        let standby = primary.start_standby(durable()).unwrap();
        Observer::connect(&primary.url()).await.script(SCHEMA).await;
        Field { primary, standby, primary_runs: true }
    }

    async fn carry_out(&mut self, step: &Step) {
        match step.is_sql {
            true => self.sql(step).await,
            false => step.text.lines().for_each(|line| self.shell(step.place, line)),
        }
    }

    async fn sql(&self, step: &Step) {
        let server = if step.place == Place::Primary { &self.primary } else { &self.standby };
        let Step { text, .. } = step;
        let observer = Observer::connect(&server.url()).await;
        let text = self.filled(text);
        if !step.until {
            return observer.script(&text).await;
        }
        let ask = format!("select ({text})::text");
        let answers_true = until(PATIENCE, async || observer.texts(&ask).await == ["true"]);
        assert!(answers_true.await, "it does not come true: {text}");
    }

    /// Puts values in, as psql does for `:'name'`.
    fn filled(&self, text: &str) -> String {
        let standby = format!(
            "host=127.0.0.1 port={} user={} password={}",
            self.standby.port(),
            self.standby.user(),
            self.standby.password()
        );
        let values = [("standby", &standby[..]), ("old", OLD), ("new", NEW)];
        let fill = |text: String, (name, value): (&str, &str)| {
            text.replace(&format!(":'{name}'"), &format!("'{value}'"))
        };
        values.into_iter().fold(text.to_owned(), fill)
    }

    /// What the lab has for a command of the page.
    fn shell(&mut self, place: Place, line: &str) {
        let is_primary = place == Place::Primary;
        let server = if is_primary { &mut self.primary } else { &mut self.standby };
        let mut runs = true;
        match line {
            "pg_ctl stop --mode=fast" => {
                server.shut_down(Shutdown::Fast).unwrap();
                runs = false;
            }
            "pg_ctl start" => server.start_again().unwrap(),
            "pg_ctl restart --mode=fast" => {
                server.shut_down(Shutdown::Fast).unwrap();
                server.start_again().unwrap();
            }
            "touch \"$PGDATA/standby.signal\"" => {
                let data = server.socket_dir().join("data");
                std::fs::write(data.join("standby.signal"), "").unwrap();
                runs = false;
            }
            other => panic!("the lab has nothing for {other}"),
        }
        if is_primary {
            self.primary_runs = runs;
        }
    }

    /// Whether some server takes writes.
    async fn takes_writes(&self) -> bool {
        self.primary_runs && is_primary(&self.primary).await || is_primary(&self.standby).await
    }

    async fn writable(&self) -> &PrivatePostgres {
        if is_primary(&self.standby).await { &self.standby } else { &self.primary }
    }
}

async fn is_primary(server: &PrivatePostgres) -> bool {
    let observer = Observer::connect(&server.url()).await;
    observer.texts("select pg_is_in_recovery()::text").await == ["false"]
}

/// Programs of users: one client, and tasks that write.
struct Programs {
    client: Client,
    writers: Writers,
}

impl Programs {
    async fn start(
        field: &Field,
        (user, password): (&str, &str),
        ledger: &Arc<Ledger>,
        seed: u64,
    ) -> Programs {
        let [one, other] = [&field.primary, &field.standby].map(PrivatePostgres::port);
        let url = format!(
            "postgres://{user}:{password}@127.0.0.1:{one},127.0.0.1:{other}/postgres\
             ?target_session_attrs=read-write&connect_timeout=2"
        );
        let config: Config = url.parse().unwrap();
        let config = config.connections_max(8).in_flight_max(16).application_name(NAME);
        let client = Client::connect_with(&config).await.unwrap();
        let mut writers = Writers::new();
        for task in 0..TASKS {
            let writer = Writer::new(task, seed, client.clone(), ledger.clone(), None);
            writers.spawn(|stop| writer.write_until(stop));
        }
        Programs { client, writers }
    }

    /// Ends the tasks. Returns whether they ended in time.
    async fn stop(self) -> bool {
        self.writers.stop().await
    }
}

/// The passwords of a rotation.
const OLD: &str = "old-secret";
const NEW: &str = "new-secret";

/// How long a step may take until it comes true.
const PATIENCE: Duration = Duration::from_secs(600);

/// How soon writes have to be acknowledged once a server takes them. The pause between two attempts
/// to connect grows to 10 s.
const PAUSE_MAX: Duration = Duration::from_secs(15);
