//! A client of two servers, of which first one takes writes and then the other.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use onetrip::{Client, Outcome};
use onetrip_lab::postgres::{Options, PrivatePostgres, Shutdown};

use crate::support::*;

/// A primary and its standby.
struct Pair {
    primary: PrivatePostgres,
    standby: PrivatePostgres,
}

impl Pair {
    /// `None` if PostgreSQL is too old for it.
    async fn start() -> Option<Pair> {
        let primary = PrivatePostgres::start(Options::default()).unwrap();
        if primary.major() < 12 {
            println!("skipped: a standby asks for PostgreSQL 12");
            return None;
        }
        let standby = primary.start_standby(Options::default()).unwrap();
        Client::connect(&primary.url())
            .await
            .unwrap()
            .session()
            .await
            .unwrap()
            .script("create table t (id int unique)")
            .await
            .unwrap();
        let pair = Pair { primary, standby };
        // Where the primary is paused at once, the table would never come to the next one.
        pair.in_step().await;
        Some(pair)
    }

    /// A client of both, the primary first.
    async fn client(&self, settings: &str) -> Client {
        let Pair { primary, standby } = self;
        let url = format!(
            "postgres://postgres:{}@127.0.0.1:{},127.0.0.1:{}/postgres?target_session_attrs=\
             read-write&connect_timeout=2&application_name=under-test&{settings}",
            primary.password(),
            primary.port(),
            standby.port()
        );
        Client::connect(&url).await.unwrap()
    }

    /// Waits until the standby has all that the primary wrote.
    async fn in_step(&self) {
        let standby = Client::connect(&self.standby.url()).await.unwrap();
        let primary = Client::connect(&self.primary.url()).await.unwrap();
        let row = primary.query_one("select pg_current_wal_flush_lsn()::text", &[]).await;
        let position: String = row.unwrap().get(0);
        let sql = format!("select pg_last_wal_replay_lsn() >= '{position}'::pg_lsn");
        until(async || standby.query_one(&sql, &[]).await.unwrap().get(0)).await;
    }

    /// Makes the standby a primary, with all that the primary wrote if `in_step`.
    async fn promote(&self, in_step: bool) {
        if in_step {
            self.in_step().await;
        }
        let standby = Client::connect(&self.standby.url()).await.unwrap();
        assert!(standby.query_one("select pg_promote()", &[]).await.unwrap().get::<bool>(0));
    }
}

/// The numbers in the table of a server, each of which must occur once.
async fn ids(server: &PrivatePostgres) -> BTreeSet<i32> {
    let client = Client::connect(&server.url()).await.unwrap();
    let rows = client.query("select id from t", &[]).await.unwrap();
    let ids: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
    let set: BTreeSet<i32> = ids.iter().copied().collect();
    assert_eq!(ids.len(), set.len(), "a statement ran twice");
    set
}

/// Where a client is connected to.
async fn port_of(client: &Client) -> i32 {
    client.query_one("select inet_server_port()", &[]).await.unwrap().get(0)
}

/// What was said of a row: `None` if it was acknowledged.
type Claim = (i32, Option<Outcome>);

/// Tasks that write numbered rows, each with a number of its own, until they are told to stop.
struct Writers {
    stop: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<Vec<Claim>>>,
    acknowledged: Arc<AtomicI32>,
}

impl Writers {
    fn start(client: &Client, tasks: usize) -> Writers {
        let (stop, next) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI32::new(0)));
        let acknowledged = Arc::new(AtomicI32::new(0));
        let writer = |_| {
            let (client, stop, next) = (client.clone(), stop.clone(), next.clone());
            let acknowledged = acknowledged.clone();
            tokio::spawn(async move {
                let mut claims = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let id = next.fetch_add(1, Ordering::Relaxed);
                    let written = match id % 2 {
                        0 => client.execute("insert into t values ($1)", &[&id]).await.map(drop),
                        _ => in_transaction(&client, id).await,
                    };
                    if written.is_ok() {
                        acknowledged.fetch_add(1, Ordering::Relaxed);
                    }
                    claims.push((id, written.err().map(|error| error.outcome())));
                }
                claims
            })
        };
        let tasks = (0..tasks).map(writer).collect();
        Writers { stop, tasks, acknowledged }
    }

    async fn more(&self, rows: i32) {
        let enough = self.acknowledged.load(Ordering::Relaxed) + rows;
        until(async || self.acknowledged.load(Ordering::Relaxed) >= enough).await;
    }

    async fn stop(self) -> Vec<Claim> {
        self.stop.store(true, Ordering::Relaxed);
        let mut claims = Vec::new();
        for task in self.tasks {
            claims.extend(task.await.unwrap());
        }
        claims
    }
}

async fn in_transaction(client: &Client, id: i32) -> Result<(), onetrip::Error> {
    let tx = client.begin().await?;
    tx.execute("insert into t values ($1)", &[&id]).await?;
    tx.commit().await
}

/// Holds what was said of each row against the table of the new primary.
fn check(claims: &[Claim], there: &BTreeSet<i32>) {
    for (id, failed) in claims {
        match failed {
            None | Some(Outcome::Applied) => assert!(there.contains(id), "{id} was lost"),
            Some(Outcome::NotSent | Outcome::Rejected) => {
                assert!(!there.contains(id), "{id} was written: {failed:?}");
            }
            Some(Outcome::Unknown) => {}
        }
    }
}

#[test]
fn a_switchover_loses_nothing_that_was_acknowledged_and_every_outcome_is_true() {
    run(async {
        let Some(mut pair) = Pair::start().await else { return };
        let client = pair.client("").await;
        let writers = Writers::start(&client, 8);
        writers.more(200).await;
        // A shutdown in order sends the standby all that was written.
        pair.primary.shut_down(Shutdown::Fast).unwrap();
        pair.promote(false).await;
        writers.more(200).await;
        let claims = writers.stop().await;
        check(&claims, &ids(&pair.standby).await);
        assert_eq!(port_of(&client).await, i32::from(pair.standby.port()));
    });
}

/// As operators do it without ending sessions: the old primary is set read only.
#[test]
fn a_connection_whose_server_turns_read_only_leaves_and_writes_go_to_the_new_primary() {
    run(async {
        let Some(pair) = Pair::start().await else { return };
        let client = pair.client("").await;
        let writers = Writers::start(&client, 8);
        writers.more(200).await;
        let operator = Client::connect(&pair.primary.url()).await.unwrap();
        let operator = operator.session().await.unwrap();
        operator.execute("alter system set default_transaction_read_only = on", &[]).await.unwrap();
        operator.execute("select pg_reload_conf()", &[]).await.unwrap();
        let theirs = "select 1 from pg_stat_activity where application_name = 'under-test'";
        until(async || operator.query(theirs, &[]).await.unwrap().is_empty()).await;
        pair.promote(true).await;
        writers.more(200).await;
        let claims = writers.stop().await;
        check(&claims, &ids(&pair.standby).await);
        let unclear = claims.iter().filter(|(_, failed)| *failed == Some(Outcome::Unknown));
        assert_eq!(unclear.count(), 0, "nobody was cut off");
    });
}

/// A split brain of the test's making.
#[test]
fn a_paused_primary_that_wakes_gets_nothing_more() {
    run(async {
        let Some(pair) = Pair::start().await else { return };
        let client = pair.client("connections_max=4&request_timeout_ms=1000").await;
        assert_eq!(port_of(&client).await, i32::from(pair.primary.port()));
        let lent = client.session().await.unwrap();
        lent.execute("select 1", &[]).await.unwrap();
        pair.primary.pause().unwrap();
        pair.promote(false).await;
        // A statement on its way to the paused server is late; the next finds the new primary.
        // Each has a number of its own: one that is late may have been written.
        let mut id = 100;
        until(async || {
            id += 1;
            client.execute("insert into t values ($1)", &[&id]).await.is_ok()
        })
        .await;
        let gone = error(lent.execute("insert into t values (2)", &[]).await);
        assert_eq!((gone.outcome(), gone.code()), (Outcome::NotSent, "connection_lost"), "{gone}");
        assert!(gone.to_string().contains("former primary"), "{gone}");
        pair.primary.resume().unwrap();
        let former = Client::connect(&pair.primary.url()).await.unwrap();
        let theirs = "select 1 from pg_stat_activity where application_name = 'under-test'";
        until(async || former.query(theirs, &[]).await.unwrap().is_empty()).await;
        // It is awake, takes writes, and stands first in the list.
        former.execute("insert into t values (-1)", &[]).await.unwrap();
        for id in 10..20 {
            let session = client.session().await.unwrap();
            session.execute("insert into t values ($1)", &[&id]).await.unwrap();
            session.execute("select pg_terminate_backend(pg_backend_pid())", &[]).await.ok();
        }
        let there = ids(&pair.standby).await;
        assert!((10..20).all(|id| there.contains(&id)), "{there:?}");
        assert_eq!(ids(&pair.primary).await, BTreeSet::from([-1]));
    });
}

/// Every connection hangs on the paused server and nothing has a deadline, so only a look elsewhere
/// meets the next primary.
#[test]
fn a_full_pool_on_a_paused_primary_goes_on_at_the_next_primary() {
    run(async {
        let Some(pair) = Pair::start().await else { return };
        let client = pair.client("connections_max=2&in_flight_max=1").await;
        let sessions = [client.session().await.unwrap(), client.session().await.unwrap()];
        for session in &sessions {
            assert_eq!(session.execute("select 1", &[]).await.unwrap(), 1);
        }
        let [lent, other] = sessions;
        drop(other);
        client.execute("insert into t values (0)", &[]).await.unwrap();
        pair.primary.pause().unwrap();
        let in_session = lent.execute("insert into t values (1)", &[]);
        let insert = "insert into t values ($1)";
        let inserts: Vec<_> = (10..30).map(|id| (id, client.execute(insert, &[&id]))).collect();
        let waiting = tokio::spawn({
            let client = client.clone();
            async move { client.session().await.unwrap().execute(insert, &[&40]).await }
        });
        pair.promote(false).await;
        let begin = std::time::Instant::now();
        let mut written = BTreeSet::from([40]);
        for (id, insert) in inserts {
            match insert.await {
                Ok(_) => drop(written.insert(id)),
                Err(error) => assert_eq!(error.outcome(), Outcome::Unknown, "{id}: {error}"),
            }
        }
        println!("all went on {:?} after the promotion", begin.elapsed());
        assert!(written.len() >= 20, "only what was sent is unknown: {written:?}");
        waiting.await.unwrap().unwrap();
        let gone = error(in_session.await);
        assert_eq!((gone.outcome(), gone.code()), (Outcome::Unknown, "connection_lost"), "{gone}");
        assert_eq!(port_of(&client).await, i32::from(pair.standby.port()));
        let mut there = ids(&pair.standby).await;
        there.remove(&0);
        assert_eq!(there, written);
        pair.primary.resume().unwrap();
        assert_eq!(port_of(&client).await, i32::from(pair.standby.port()));
    });
}

/// A server that computes for long is looked past, and stays the one that is used.
#[test]
fn a_primary_that_computes_in_silence_keeps_its_statements() {
    run(async {
        let Some(pair) = Pair::start().await else { return };
        let client = pair.client("connections_max=2").await;
        let slow: Vec<_> = (0..4).map(|_| client.query_one("select pg_sleep(5)", &[])).collect();
        for reply in slow {
            reply.await.unwrap();
        }
        assert_eq!(port_of(&client).await, i32::from(pair.primary.port()));
        let left = Client::connect(&pair.primary.url()).await.unwrap();
        let theirs = "select 1 from pg_stat_activity where application_name = 'under-test'";
        let open = left.query(theirs, &[]).await.unwrap().len();
        assert!(open <= 2, "scouts have left: {open}");
    });
}
