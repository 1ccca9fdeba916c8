//! Reads on replicas: one primary and two streaming standbys, which apply at once or with a delay.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use onetrip::{Client, Outcome, Position};
use onetrip_lab::postgres::pgbouncer::{self, PrivatePgBouncer, Program, find_all};
use onetrip_lab::postgres::{Options, PrivatePostgres, Shutdown};

use crate::support::{failed, run_long, skipped, until};

/// One primary and two standbys.
struct Cluster {
    primary: PrivatePostgres,
    standbys: Vec<PrivatePostgres>,
}

impl Cluster {
    /// Standbys that apply this late. `None`, with a word about it, where the server is too old.
    fn start(delays: [&str; 2]) -> Option<Cluster> {
        let options = || Options::default().setting("synchronous_commit", "on");
        let primary = PrivatePostgres::start(options()).unwrap();
        if primary.major() < 14 {
            skipped("standbys say what they are from PostgreSQL 14 on");
            return None;
        }
        let standby = |delay: &str| {
            let options = options().setting("recovery_min_apply_delay", delay);
            primary.start_standby(options).unwrap()
        };
        let standbys = delays.into_iter().map(standby).collect();
        Some(Cluster { primary, standbys })
    }

    fn url(&self, settings: &str) -> String {
        let servers = std::iter::once(&self.primary).chain(&self.standbys);
        let hosts: Vec<String> =
            servers.map(|server| format!("127.0.0.1:{}", server.port())).collect();
        let (hosts, password) = (hosts.join(","), self.primary.password());
        format!("postgres://postgres:{password}@{hosts}/postgres?{settings}")
    }

    async fn client(&self, settings: &str) -> Client {
        Client::connect(&self.url(settings)).await.unwrap()
    }

    /// A client, once both standbys serve reads and have the table `t`.
    async fn ready(&self, settings: &str) -> Client {
        let client = self.client(settings).await;
        client.execute("create table t (n int)", &[]).await.unwrap();
        client.execute("insert into t values (0)", &[]).await.unwrap();
        self.seen_by(client).await
    }

    /// Another client, of a cluster that has the table.
    async fn ready_too(&self, settings: &str) -> Client {
        self.seen_by(self.client(settings).await).await
    }

    async fn seen_by(&self, client: Client) -> Client {
        let mut seen = Vec::new();
        until(async || {
            let read = client.reads().stale().query_one(TABLE_AND_PORT, &[]).await.unwrap();
            let (is_there, port) = (read.get::<bool>(0), read.get::<i32>(1));
            if is_there && port != self.port() && !seen.contains(&port) {
                seen.push(port);
            }
            seen.len() == self.standbys.len()
        })
        .await;
        client
    }

    /// A client of each standby alone.
    async fn direct(&self) -> Vec<Client> {
        let mut clients = Vec::new();
        for standby in &self.standbys {
            clients.push(Client::connect(&standby.url()).await.unwrap());
        }
        clients
    }

    /// 0 for the primary, and behind it the standbys.
    fn number_of(&self, port: i32) -> usize {
        let mut standbys = self.standbys.iter();
        let at = standbys.position(|standby| i32::from(standby.port()) == port);
        at.map_or(0, |at| at + 1)
    }

    fn port(&self) -> i32 {
        self.primary.port().into()
    }
}

const TABLE_AND_PORT: &str = "select to_regclass('t') is not null, inet_server_port()";
const NEWEST: &str = "select max(n), inet_server_port() from t";

/// How many reads of older positions a test waits for.
const LATER: i32 = 300;

const PATIENCE: Duration = Duration::from_secs(600);

/// Whether all standbys say that they have replayed this.
async fn have_replayed(standbys: &[Client], position: &Position) -> bool {
    for standby in standbys {
        let asked = "select pg_last_wal_replay_lsn() >= $1::text::pg_lsn";
        let row = standby.query_one(asked, &[&position.lsn_text()]).await.unwrap();
        if !row.get::<bool>(0) {
            return false;
        }
    }
    true
}

/// Writes, reads at once what was written, and reads once more later. No read may lack a write, and
/// the later ones are the replicas' to serve.
async fn writes_are_shown(cluster: &Cluster, delay: Duration) {
    let (client, direct) = (cluster.ready("reads=prefer_replica").await, cluster.direct().await);
    let settled = delay + Duration::from_millis(100);
    let (mut old, mut served, mut later, mut late) = (VecDeque::new(), 0, 0, 0);
    for n in 1.. {
        if later >= LATER {
            break;
        }
        client.execute("update t set n = $1", &[&n]).await.unwrap();
        let own = client.reads().query_one(NEWEST, &[]).await.unwrap();
        assert!(own.get::<i32>(0) >= n, "a stale read: {} and not {n}", own.get::<i32>(0));
        let position = client.position().await.unwrap();
        old.push_back((Instant::now(), n, position));
        while let Some((since, written, position)) = old.front().copied()
            && since.elapsed() >= settled
        {
            old.pop_front();
            let was_there = have_replayed(&direct, &position).await;
            let row = client.reads().after(&position).query_one(NEWEST, &[]).await.unwrap();
            assert!(row.get::<i32>(0) >= written, "a stale read of an older position");
            // On a busy machine the standbys themselves may be later than that.
            let is_served = row.get::<i32>(1) != cluster.port();
            if !is_served && !was_there {
                late += 1;
                continue;
            }
            later += 1;
            served += i32::from(is_served);
        }
    }
    println!(
        "{served} of {later} reads of positions older than {settled:?} went to replicas, {late} late"
    );
    assert!(served > 0, "none of {later} went to replicas");
    // How many it is depends on the machine: `ONETRIP_QUIET=1` says that it is a quiet one.
    let is_quiet = std::env::var_os("ONETRIP_QUIET").is_some();
    assert!(!is_quiet || served * 100 >= later * 95, "{served} of {later} went to replicas");
}

#[test]
fn reads_show_ones_own_writes_and_replicas_serve_them_once_they_can() {
    run_long(PATIENCE, async {
        for delay in ["0", "10ms", "1s"] {
            let Some(cluster) = Cluster::start([delay; 2]) else { return };
            let delay = match delay {
                "0" => Duration::ZERO,
                "10ms" => Duration::from_millis(10),
                _ => Duration::from_secs(1),
            };
            writes_are_shown(&cluster, delay).await;
        }
    });
}

#[test]
fn a_position_is_a_token_for_another_client_and_waits_for_its_replica() {
    run_long(PATIENCE, async {
        let Some(cluster) = Cluster::start(["20ms"; 2]) else { return };
        let writer = cluster.ready("reads=replica").await;
        let reader = cluster.ready_too("reads=replica").await;
        for n in 1..=50 {
            writer.execute("update t set n = $1", &[&n]).await.unwrap();
            let token = writer.position().await.unwrap().to_string();
            let position: Position = token.parse().unwrap();
            let row = reader.reads().after(&position).query_one(NEWEST, &[]).await.unwrap();
            assert_eq!(row.get::<i32>(0), n);
            assert_ne!(row.get::<i32>(1), cluster.port(), "only replicas may serve it");
        }
    });
}

#[test]
fn every_way_of_writing_is_seen_by_the_next_read() {
    run_long(PATIENCE, async {
        let Some(cluster) = Cluster::start(["200ms"; 2]) else { return };
        let client = cluster.ready("reads=prefer_replica").await;
        client
            .session()
            .await
            .unwrap()
            .script(
                "create function step() returns int language sql as 'update t set n = n + 1 \
                 returning n'",
            )
            .await
            .unwrap();
        let (mut wanted, client) = (0, &client);
        let mut shown = async |what: &str| {
            wanted += 1;
            let row = client.reads().query_one(NEWEST, &[]).await.unwrap();
            assert_eq!(row.get::<i32>(0), wanted, "{what}");
        };
        for _ in 0..3 {
            client.execute("update t set n = n + 1", &[]).await.unwrap();
            shown("a statement").await;
            client.query_one("select step()", &[]).await.unwrap();
            shown("a function").await;
            let transaction = client.begin().await.unwrap();
            transaction.execute("update t set n = n + 1", &[]).await.unwrap();
            transaction.commit().await.unwrap();
            shown("a transaction").await;
            let mut pipeline = client.pipeline();
            drop(pipeline.execute("update t set n = n + 1", &[]));
            pipeline.finish().await.unwrap();
            shown("a pipeline").await;
            let session = client.session().await.unwrap();
            session.script("begin; update t set n = n + 1; commit").await.unwrap();
            shown("a script").await;
            session.execute("update t set n = n + 1", &[]).await.unwrap();
            shown("a session").await;
            drop(session);
            let rows: [(i32,); 1] = [(1,)];
            client.batch("update t set n = n + $1", rows).atomic().await.unwrap();
            shown("a batch").await;
        }
    });
}

#[test]
fn what_is_no_read_is_refused() {
    run_long(PATIENCE, async {
        let Some(cluster) = Cluster::start(["0"; 2]) else { return };
        let client = cluster.ready("reads=prefer_replica").await;
        for text in [
            "update t set n = 1",
            "with gone as (delete from t returning n) select * from gone",
            "select n from t for update",
            "create table u ()",
        ] {
            failed(client.reads().query(text, &[]).await, Outcome::NotSent, "not_a_read");
        }
    });
}

#[test]
fn metrics_say_where_reads_went_and_how_each_replica_stands() {
    run_long(PATIENCE, async {
        let Some(cluster) = Cluster::start(["0"; 2]) else { return };
        let client = cluster.ready("reads=prefer_replica").await;
        let before = client.metrics();
        let mut on = [0; 3];
        for _ in 0..40 {
            let row = client.reads().stale().query_one(NEWEST, &[]).await.unwrap();
            on[cluster.number_of(row.get::<i32>(1))] += 1;
        }
        let after = client.metrics();
        assert_eq!(after.reads.on_primary - before.reads.on_primary, on[0]);
        assert_eq!(after.reads.on_replicas - before.reads.on_replicas, on[1] + on[2]);
        assert_eq!(after.replicas.len(), 3);
        for (at, replica) in after.replicas.iter().enumerate() {
            let (_, port) = replica.server.split_once(':').unwrap();
            assert_eq!(cluster.number_of(port.parse().unwrap()), at);
            let served = if at == 0 { 0 } else { on[at] };
            assert_eq!(replica.reads - before.replicas[at].reads, served);
            assert_eq!(replica.serves, at > 0, "the first is the primary");
            assert!(replica.pool.open > 0 || at == 0);
        }
        // No replica has a position that is to come.
        let mut position = client.position().await.unwrap();
        position.lsn += 1 << 40;
        let row = client.reads().after(&position).query_one(NEWEST, &[]).await.unwrap();
        assert_eq!(row.get::<i32>(1), cluster.port());
        let last = client.metrics();
        let behind: u64 = last.replicas.iter().map(|replica| replica.behind).sum();
        assert_eq!(last.reads.behind, behind);
        assert!(behind > after.reads.behind && last.reads.on_primary > after.reads.on_primary);
    });
}

#[test]
fn a_replica_that_dies_leaves_and_comes_back() {
    run_long(PATIENCE, async {
        let Some(mut cluster) = Cluster::start(["0"; 2]) else { return };
        let client = cluster.ready("reads=prefer_replica").await;
        for _ in 0..2 {
            let ports: Vec<i32> =
                cluster.standbys.iter().map(|standby| standby.port().into()).collect();
            cluster.standbys.iter_mut().for_each(|it| it.shut_down(Shutdown::Immediate).unwrap());
            let mut served = 0;
            until(async || {
                // A read that was in flight on a replica may be lost with it.
                let read = client.reads().stale().query_one(NEWEST, &[]).await;
                served += i32::from(read.is_ok_and(|row| row.get::<i32>(1) == cluster.port()));
                served >= 3
            })
            .await;
            cluster.standbys.iter_mut().for_each(|standby| standby.start_again().unwrap());
            until(async || {
                let read = client.reads().stale().query_one(NEWEST, &[]).await.unwrap();
                ports.contains(&read.get::<i32>(1))
            })
            .await;
        }
    });
}

#[test]
fn a_promoted_replica_is_none_any_more() {
    run_long(PATIENCE, async {
        let Some(cluster) = Cluster::start(["0"; 2]) else { return };
        let client = cluster.ready("reads=replica").await;
        let promoted = &cluster.standbys[0];
        let direct = Client::connect(&promoted.url()).await.unwrap();
        direct.query("select pg_promote()", &[]).await.unwrap();
        let port = i32::from(promoted.port());
        let mut others = 0;
        until(async || {
            let read = client.reads().stale().query_one(NEWEST, &[]).await.unwrap();
            others = if read.get::<i32>(1) == port { 0 } else { others + 1 };
            others >= 50
        })
        .await;
    });
}

/// A pooler tells its clients what its first server said of itself.
#[test]
fn a_promoted_standby_takes_writes_through_the_pooler_that_met_it_before() {
    run_long(PATIENCE, async {
        let Some(cluster) = Cluster::start(["0"; 2]) else { return };
        let promoted = &cluster.standbys[0];
        let start = |program: Program| {
            let options = pgbouncer::Options { program: Some(program), ..Default::default() };
            PrivatePgBouncer::start(promoted, &options).unwrap()
        };
        let poolers: Vec<_> = find_all().unwrap().into_iter().map(start).collect();
        let url = |pooler: &PrivatePgBouncer, wanted: &str| {
            format!("{}?one_segment=1&cancels_max=0&target_session_attrs={wanted}", pooler.url())
        };
        let mut direct = Vec::new();
        for pooler in &poolers {
            direct.push(Client::connect(&url(pooler, "standby")).await.unwrap());
        }
        let administrator = Client::connect(&promoted.url()).await.unwrap();
        administrator.query("select pg_promote()", &[]).await.unwrap();
        for pooler in &poolers {
            let client = Client::connect(&url(pooler, "read-write")).await.unwrap();
            client.execute("create table if not exists through ()", &[]).await.unwrap();
        }
    });
}

#[test]
fn operators_of_others_do_not_stand_in_for_those_of_the_guard() {
    run_long(PATIENCE, async {
        let Some(cluster) = Cluster::start(["1s", "1s"]) else { return };
        let session = cluster.client("").await.session().await.unwrap();
        let always = "create schema s; create function s.yes(pg_lsn, pg_lsn) returns bool
            language sql as 'select true';
            create operator s.>= (leftarg = pg_lsn, rightarg = pg_lsn, function = s.yes);
            alter role postgres set search_path = public, s, pg_catalog";
        session.script(always).await.unwrap();
        drop(cluster.ready("reads=prefer_replica").await);
        // Its connections were opened on standbys that know the search path.
        let client = cluster.ready_too("reads=prefer_replica").await;
        for n in 1..=20 {
            client.execute("update t set n = $1", &[&n]).await.unwrap();
            let row = client.reads().query_one(NEWEST, &[]).await.unwrap();
            assert!(row.get::<i32>(0) >= n, "a stale read: {} and not {n}", row.get::<i32>(0));
        }
    });
}

#[test]
fn a_read_that_only_replicas_may_serve_fails_in_time_where_there_is_none() {
    run_long(PATIENCE, async {
        let Some(cluster) = Cluster::start(["0", "0"]) else { return };
        let url = cluster.primary.url();
        let client = Client::connect(&format!("{url}?reads=replica&wait_timeout_ms=500")).await;
        let client = client.unwrap();
        for _ in 0..3 {
            let read = client.reads().query_one("select 1", &[]);
            failed(read.await, Outcome::NotSent, "no_replica");
        }
        let bound = Duration::from_millis(100);
        let read = client.reads().or_wait(bound).query_one("select 1", &[]);
        failed(read.await, Outcome::NotSent, "no_replica");
    });
}

#[test]
fn a_promotion_that_reads_have_met_moves_the_writes() {
    run_long(PATIENCE, async {
        let Some(cluster) = Cluster::start(["0"; 2]) else { return };
        let client = cluster.ready("reads=prefer_replica&connections_max=2").await;
        let promoted = &cluster.standbys[0];
        let direct = Client::connect(&promoted.url()).await.unwrap();
        direct.query("select pg_promote()", &[]).await.unwrap();
        let port = i32::from(promoted.port());
        let write = "update t set n = n returning inet_server_port()";
        until(async || {
            let _ = client.reads().stale().query_one("select 1", &[]).await;
            client.query_one(write, &[]).await.is_ok_and(|row| row.get::<i32>(0) == port)
        })
        .await;
        for _ in 0..100 {
            let row = client.query_one(write, &[]).await.unwrap();
            assert_eq!(row.get::<i32>(0), port, "a write went to the former primary");
        }
    });
}
