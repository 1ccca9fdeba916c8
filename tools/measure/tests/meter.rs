//! What is read of real servers. Two of them run at once, so that one can't be taken for the other.
#![allow(clippy::unwrap_used)]

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use onetrip::{Client, Config, Session};
use onetrip_lab::postgres::{Options, PrivatePostgres, shared};
use onetrip_lab::proxy::{Proxy, ProxyConfig};
use onetrip_measure::meter::{
    ClientCpu, Limit, Sampler, Seen, Server, ServerCpu, connections_left, rtt, settings, version,
};

/// For what must come, however slow the machine is.
const PATIENCE: Duration = Duration::from_secs(600);

fn other() -> &'static PrivatePostgres {
    static OTHER: OnceLock<PrivatePostgres> = OnceLock::new();
    OTHER.get_or_init(|| PrivatePostgres::start(few_connections()).unwrap())
}

/// Some of them reserved, where the server knows how to.
fn few_connections() -> Options {
    let options = Options { connections_max: 14, ..Options::default() };
    match shared().major() {
        ..16 => options,
        _ => options.setting("reserved_connections", "2"),
    }
}

fn config(server: &PrivatePostgres) -> Config {
    server.url().parse().unwrap()
}

fn address(server: &PrivatePostgres) -> std::net::SocketAddr {
    ([127, 0, 0, 1], server.port()).into()
}

async fn session(config: &Config) -> (Client, Session) {
    let client = Client::connect_with(config).await.unwrap();
    let session = client.session().await.unwrap();
    (client, session)
}

/// Has the server use CPU until that is so.
async fn work_until(session: &Session, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "the server worked in vain");
        let sql = "select count(*) from generate_series(1, 200000) i where i % 7 = 0";
        session.query_one(sql, &[]).await.unwrap();
    }
}

#[tokio::test]
async fn what_a_session_uses_is_its_servers_and_not_anothers() {
    let (_client, session) = session(&config(shared())).await;
    let of = |server| ServerCpu::start(Server::of_private(server).unwrap()).unwrap();
    let (cpu, others) = (of(shared()), of(other()));
    work_until(&session, || cpu.elapsed().unwrap() > Duration::from_secs(1)).await;
    let others = others.elapsed().unwrap();
    assert!(others < Duration::from_millis(500), "{others:?}");
}

#[tokio::test]
async fn what_a_session_used_counts_also_when_it_has_ended() {
    let server = PrivatePostgres::start(Options::default()).unwrap();
    let (_watcher, watching) = session(&config(&server)).await;
    let cpu = ServerCpu::start(Server::of_private(&server).unwrap()).unwrap();
    let (client, own) = session(&config(&server)).await;
    let pid: i32 = own.query_one("select pg_backend_pid()", &[]).await.unwrap().try_get(0).unwrap();
    work_until(&own, || cpu.elapsed().unwrap() > Duration::from_millis(500)).await;
    drop((own, client));
    let start = Instant::now();
    loop {
        let sql = "select count(*) from pg_stat_activity where pid = $1";
        let left: i64 = watching.query_one(sql, &[&pid]).await.unwrap().try_get(0).unwrap();
        if left == 0 && !std::path::Path::new(&format!("/proc/{pid}")).exists() {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "the session did not end");
    }
    // Less what is rounded.
    assert!(cpu.elapsed().unwrap() > Duration::from_millis(470), "{:?}", cpu.elapsed());
}

#[tokio::test]
async fn a_server_is_found_by_a_session_on_every_local_way_to_it() {
    let [one, two] = [shared(), other()].map(Server::of_private);
    assert!(one.is_some() && two.is_some() && one != two);
    for (server, expected) in [(shared(), one), (other(), two)] {
        let proxy = Proxy::start(ProxyConfig::new(address(server))).unwrap();
        let direct = config(server);
        let through = Config::new()
            .host("localhost")
            .hostaddr([127, 0, 0, 1].into())
            .port(proxy.addr().port())
            .user(server.user())
            .password(server.password())
            .dbname("postgres");
        let socket = by_socket(server);
        for config in [direct, through, socket] {
            let (_client, session) = session(&config).await;
            let found = Server::of_session(&config, &session).await.unwrap();
            assert_eq!(found, expected, "{}", config.redacted_url());
        }
    }
}

/// By the Unix socket alone.
fn by_socket(server: &PrivatePostgres) -> Config {
    Config::new()
        .host_path(server.socket_dir())
        .port(server.port())
        .user(server.user())
        .password(server.password())
        .dbname("postgres")
}

#[tokio::test]
async fn a_server_that_was_started_anew_is_another_one() {
    let mut server = PrivatePostgres::start(Options::default()).unwrap();
    let found = Server::of_private(&server).unwrap();
    let cpu = ServerCpu::start(found).unwrap();
    server.stop_immediate().unwrap();
    assert_eq!(cpu.elapsed(), None);
    server.start_again().unwrap();
    assert_eq!(cpu.elapsed(), None);
    assert_ne!(Server::of_private(&server), Some(found));
}

#[tokio::test]
async fn waits_of_the_load_are_seen_by_name_and_those_of_others_are_not() {
    let server = shared();
    let load = config(server).application_name("waits: load");
    let (_idle, _idles) = session(&load).await;
    let (_sleeping, sleeps) = session(&load).await;
    let (_other, others) = session(&config(server).application_name("waits: other")).await;
    let sleep = sleeps.query("select pg_sleep(300)", &[]);
    let theirs = others.query("select pg_sleep(300)", &[]);
    let sampler = Sampler::connect(&config(server), "waits: load").await.unwrap();
    let seen = seen_until(&sampler, |seen| seen.mean().contains_key("Timeout:PgSleep")).await;
    let mean = seen.mean();
    assert!(mean["Timeout:PgSleep"] <= 1.0, "{mean:?}");
    assert!(mean["Client:ClientRead"] >= 1.0, "{mean:?}");
    assert!(mean.values().sum::<f64>() <= 2.0 + 1e-9, "{mean:?}");
    let _ = sleeps.canceller().cancel().await;
    let _ = others.canceller().cancel().await;
    assert!(sleep.await.is_err() && theirs.await.is_err());
}

async fn seen_until(sampler: &Sampler, is_so: impl Fn(&Seen) -> bool) -> Seen {
    let start = Instant::now();
    let waits = sampler.start();
    while !is_so(&waits.so_far()) {
        assert!(start.elapsed() < PATIENCE, "{:?}", waits.so_far());
        tokio::task::yield_now().await;
    }
    waits.finish()
}

#[tokio::test]
async fn who_may_not_see_the_load_sees_nothing() {
    let server = shared();
    let (_client, admin) = session(&config(server).application_name("unseen: load")).await;
    let role = role(&admin, server, "login").await;
    let sampler = Sampler::connect(&role, "unseen: load").await.unwrap();
    let start = Instant::now();
    let waits = sampler.start();
    while !waits.is_over() {
        assert!(start.elapsed() < PATIENCE, "it looks on: {:?}", waits.so_far());
        tokio::task::yield_now().await;
    }
    assert_eq!(waits.finish(), Seen::default());
}

/// A new role with these attributes, and how it connects.
async fn role(admin: &Session, server: &PrivatePostgres, attributes: &str) -> Config {
    let name = server.new_name();
    let sql = format!("create role {name} password 'secret' {attributes}");
    admin.script(&sql).await.unwrap();
    config(server).user(name).password("secret")
}

#[tokio::test]
async fn settings_are_as_the_server_says_them() {
    let (_client, session) = session(&config(other())).await;
    let settings = settings(&session).await.unwrap();
    assert_eq!(settings["max_connections"], "14");
    assert_eq!(settings["default_transaction_isolation"], "read committed");
    for name in ["fsync", "synchronous_commit", "shared_buffers", "server_version"] {
        assert!(!settings[name].is_empty(), "{name}");
    }
    let version = version(&session).await.unwrap();
    assert_eq!(version, settings["server_version"]);
    assert!(version.starts_with(&other().major().to_string()), "{version}");
}

#[tokio::test]
async fn a_round_trip_is_no_shorter_than_the_line() {
    let config = ProxyConfig::new(address(shared()));
    let proxy = Proxy::start(config.with_rtt(Duration::from_millis(8))).unwrap();
    let url =
        shared().url().replace(&shared().port().to_string(), &proxy.addr().port().to_string());
    let client = Client::connect(&url).await.unwrap();
    let rtt = rtt(&client).await.unwrap();
    assert!(rtt.low >= 8.0, "{rtt:?}");
    assert!((1..=50).contains(&rtt.values), "{rtt:?}");
}

/// How many connections can really be opened, one after the other.
async fn opened(config: &Config) -> (u32, Option<String>) {
    // The last one would wait for a connection to become free.
    let config = config.clone().wait_timeout(Duration::from_millis(1));
    let mut clients = Vec::new();
    loop {
        match Client::connect_with(&config).await {
            Ok(client) => clients.push(client),
            Err(error) => {
                return (clients.len() as u32, error.sqlstate().map(str::to_owned));
            }
        }
    }
}

/// One test, since each counts all connections of its server.
#[tokio::test]
async fn as_many_connections_are_left_as_can_be_opened() {
    let server = PrivatePostgres::start(few_connections()).unwrap();
    let (_client, admin) = session(&config(&server)).await;
    let plain = role(&admin, &server, "login").await;
    let limited = role(&admin, &server, "login connection limit 4").await;
    admin.script("create database narrow connection limit 3").await.unwrap();
    let narrow = plain.clone().dbname("narrow");
    for (config, limit) in [
        (config(&server), Limit::Server),
        (plain, Limit::Server),
        (limited.clone(), Limit::Role(limited.resolve().unwrap().user().to_owned())),
        (narrow, Limit::Database("narrow".to_owned())),
    ] {
        let (_client, session) = session(&config).await;
        let room = connections_left(&session).await.unwrap();
        assert_eq!(room.limit, limit);
        let (opened, code) = opened(&config).await;
        assert_eq!((opened, code.as_deref()), (room.left(), Some("53300")), "{room:?}");
        gone(&admin, 2).await;
    }
}

/// Returns when the server has ended all sessions but so many.
async fn gone(admin: &Session, left: i64) {
    let start = Instant::now();
    loop {
        let sql = "select count(*) from pg_stat_activity where backend_type = 'client backend'";
        let count: i64 = admin.query_one(sql, &[]).await.unwrap().try_get(0).unwrap();
        if count <= left {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{count} sessions are left");
    }
}

#[tokio::test]
async fn the_programs_own_cpu_is_read_beside() {
    let mut cpu = ClientCpu::start();
    let (_client, session) = session(&config(shared())).await;
    session.query_one("select 1", &[]).await.unwrap();
    assert!(cpu.elapsed().unwrap() > Duration::ZERO);
}
