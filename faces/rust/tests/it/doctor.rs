//! The findings of `doctor()`: at a server, behind PgBouncer in each of its modes, and behind
//! something that breaks what this client relies on.

use std::net::SocketAddr;

use onetrip::doctor::{
    Between, Diagnosis, Finding, Host, Hosts, Names, Place, Pooling, Server, Startup,
};
use onetrip::{Client, Config, blocking};
use onetrip_lab::postgres::pgbouncer::{Options, PoolMode, PrivatePgBouncer, Program, find_all};
use onetrip_lab::postgres::{self, PrivatePostgres, shared};
use onetrip_lab::proxy::{Proxy, ProxyConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{client_with, run_long, skipped, until};
use std::time::Duration;

/// Each answer that never comes takes 5 s.
const PATIENCE: Duration = Duration::from_secs(600);

async fn diagnosis(url: &str) -> Diagnosis {
    Client::connect(url).await.unwrap().doctor().await.unwrap()
}

/// Every PgBouncer there is.
fn programs() -> Vec<Program> {
    let programs = find_all().unwrap();
    if programs.is_empty() {
        skipped("there is no PgBouncer here");
    }
    programs
}

fn pooler(program: Program, pool_mode: PoolMode) -> PrivatePgBouncer {
    let (program, prepared_max) = (Some(program), Some(100));
    let options = Options { program, pool_mode, prepared_max, ..Options::default() };
    PrivatePgBouncer::start(shared(), &options).unwrap()
}

fn settings(diagnosis: &Diagnosis, place: Place) -> Vec<&'static str> {
    let advice = diagnosis.advice().into_iter();
    advice.filter(|advice| advice.place == place).map(|advice| advice.setting).collect()
}

#[test]
fn a_server_without_anything_in_between_needs_no_advice() {
    run_long(PATIENCE, async {
        let found = diagnosis(&shared().url()).await;
        assert_eq!(found.server_version.split(' ').next(), Some(shared().version()));
        assert_eq!((found.pooling, found.prepared), (Pooling::Direct, Names::Kept));
        assert!(found.pipelining() && found.session_state(), "{found}");
        assert_eq!((found.flush.clone(), found.cancel.clone()), (Finding::Holds, Finding::Holds));
        assert_eq!((&found.notifications, &found.options), (&Finding::Holds, &Startup::Taken));
        assert!(found.round_trip > Duration::ZERO);
        assert!(!found.is_harmful() && found.advice().is_empty(), "{found}");
    });
}

#[test]
fn the_blocking_client_has_it_too() {
    let client = blocking::Client::connect(&shared().url()).unwrap();
    assert_eq!(client.doctor().unwrap().pooling, Pooling::Direct);
}

/// P40, P44.
#[test]
fn transaction_pooling_is_found_and_whether_it_knows_prepared_names() {
    run_long(PATIENCE, async {
        for program in programs() {
            let knows = program.knows_prepared_statements();
            let pooler = pooler(program, PoolMode::Transaction);
            let found = diagnosis(&pooler.url()).await;
            assert_eq!(found.pooling, Pooling::Transaction, "{found}");
            assert_eq!(found.prepared, if knows { Names::Followed } else { Names::Lost });
            assert!(found.pipelining() && !found.session_state(), "{found}");
            assert!(found.flush.holds() && found.cancel.holds(), "{found}");
            assert!(!found.notifications.holds());
            assert_eq!(found.is_harmful(), !knows, "{found}");
            // Older versions release the server behind the first sync point.
            assert_eq!(found.flush_behind_sync.holds(), knows, "{found}");
            let off = diagnosis(&format!("{}?prepare_threshold=0", pooler.url())).await;
            assert_eq!(off.is_harmful(), !knows, "{off}");
            assert!(!settings(&off, Place::Client).contains(&"prepare_threshold=0"), "{off}");
            assert_eq!(settings(&off, Place::Client).contains(&"one_segment=1"), !knows, "{off}");
            let one =
                diagnosis(&format!("{}?prepare_threshold=0&one_segment=1", pooler.url())).await;
            assert!(!one.is_harmful() && settings(&one, Place::Client).is_empty(), "{one}");
        }
    });
}

/// P44: a pooler that supports prepared names, configured not to.
#[test]
fn names_that_are_lost_are_not_to_be_used() {
    run_long(PATIENCE, async {
        for program in programs() {
            let options =
                Options { program: Some(program), prepared_max: Some(0), ..Options::default() };
            let pooler = PrivatePgBouncer::start(shared(), &options).unwrap();
            let found = diagnosis(&pooler.url()).await;
            assert!(found.prepared == Names::Lost && found.is_harmful(), "{found}");
            assert!(settings(&found, Place::Client).contains(&"prepare_threshold=0"), "{found}");
            assert!(settings(&found, Place::Pooler).contains(&"max_prepared_statements=200"));
        }
    });
}

#[test]
fn a_pooler_that_keeps_sessions_is_told_from_a_server() {
    run_long(PATIENCE, async {
        for program in programs() {
            let pooler = pooler(program, PoolMode::Session);
            let found = diagnosis(&pooler.url()).await;
            assert_eq!((found.pooling, found.prepared), (Pooling::Session, Names::Kept));
            assert!(found.notifications.holds() && !found.is_harmful(), "{found}");
        }
    });
}

#[test]
fn a_pooler_that_refuses_transactions_is_harmful() {
    run_long(PATIENCE, async {
        for program in programs() {
            let pooler = pooler(program, PoolMode::Statement);
            let found = diagnosis(&pooler.url()).await;
            assert!(found.pooling == Pooling::Statement && found.is_harmful(), "{found}");
            assert!(settings(&found, Place::Pooler).contains(&"pool_mode=transaction"), "{found}");
        }
    });
}

/// P42.
#[test]
fn startup_options_that_are_refused_are_found_and_those_that_are_dropped() {
    run_long(PATIENCE, async {
        for program in programs() {
            let refusing = pooler(program.clone(), PoolMode::Transaction);
            let found = diagnosis(&refusing.url()).await;
            assert!(
                matches!(&found.options, Startup::Refused(why) if why.contains("startup parameter"))
            );
            let advised = settings(&found, Place::Pooler);
            assert!(advised.contains(&"ignore_startup_parameters=options"), "{found}");
            let options = Options { program: Some(program), ..Options::default() };
            let options = options.setting("ignore_startup_parameters", "options");
            let dropping = PrivatePgBouncer::start(shared(), &options).unwrap();
            let found = diagnosis(&dropping.url()).await;
            assert_eq!(found.options, Startup::Ignored);
            assert!(settings(&found, Place::Client).contains(&"no options"), "{found}");
        }
    });
}

#[test]
fn a_pool_of_one_connection_holds_nothing_up_for_ever() {
    run_long(PATIENCE, async {
        for program in programs() {
            let options = Options { program: Some(program), pool_size: 1, ..Options::default() };
            let pooler = PrivatePgBouncer::start(shared(), &options).unwrap();
            let found = diagnosis(&pooler.url()).await;
            assert_eq!((found.pooling, found.prepared), (Pooling::Transaction, Names::Untested));
        }
    });
}

#[test]
fn nothing_is_left_on_connections_that_go_to_others() {
    run_long(PATIENCE, async {
        for program in programs() {
            let knows = program.knows_prepared_statements();
            let options =
                Options { program: Some(program), prepared_max: Some(0), ..Options::default() };
            let pooler = PrivatePgBouncer::start(shared(), &options).unwrap();
            let url = format!("{}?prepare_threshold=0", pooler.url());
            diagnosis(&url).await;
            let client = Client::connect(&url).await.unwrap();
            // Several at once, to look at all connections that were opened.
            let mut transactions = Vec::new();
            for _ in 0..4 {
                let tx = client.begin().await.unwrap();
                let sql =
                    "select count(*) from pg_prepared_statements where name like 'onetrip_doctor%'";
                let left = tx.query_one(sql, &[]).await.unwrap();
                assert_eq!(left.get::<i64>(0), 0, "{knows}");
                transactions.push(tx);
            }
        }
    });
}

/// What a program between the client and the server breaks.
#[derive(Clone, Copy)]
enum Middle {
    /// Passes a write on up to its first sync point, and drops the rest.
    OneSyncAWrite,
    /// Drops every Flush.
    NoFlush,
    /// Answers one statement with another one's row.
    WrongRow,
}

/// Listens, and returns where.
async fn middle(breaks: Middle) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = SocketAddr::from(([127, 0, 0, 1], shared().port()));
            let server = TcpStream::connect(server).await.unwrap();
            let (client_in, client_out) = client.into_split();
            let (server_in, server_out) = server.into_split();
            tokio::spawn(relay(client_in, server_out, move |bytes| breaks.up(bytes)));
            tokio::spawn(relay(server_in, client_out, move |bytes| breaks.down(bytes)));
        }
    });
    shared().url().replace(&format!(":{}/", shared().port()), &format!(":{port}/"))
}

async fn relay(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    change: impl Fn(Vec<u8>) -> Vec<u8>,
) {
    let mut bytes = vec![0; 16 << 10];
    while let Ok(len @ 1..) = from.read(&mut bytes).await {
        if to.write_all(&change(bytes[..len].to_vec())).await.is_err() {
            return;
        }
    }
}

impl Middle {
    fn up(self, mut bytes: Vec<u8>) -> Vec<u8> {
        match self {
            Middle::OneSyncAWrite => {
                let sync = bytes.windows(5).position(|window| window == b"S\0\0\0\x04");
                bytes.truncate(sync.map_or(bytes.len(), |at| at + 5));
                bytes
            }
            Middle::NoFlush => replaced(bytes, b"H\0\0\0\x04", b""),
            Middle::WrongRow => bytes,
        }
    }

    fn down(self, bytes: Vec<u8>) -> Vec<u8> {
        match self {
            Middle::WrongRow => replaced(bytes, b"\0\0\0\x0222", b"\0\0\0\x0224"),
            _ => bytes,
        }
    }
}

fn replaced(bytes: Vec<u8>, this: &[u8], by: &[u8]) -> Vec<u8> {
    match bytes.windows(this.len()).position(|window| window == this) {
        Some(at) => [&bytes[..at], by, &bytes[at + this.len()..]].concat(),
        None => bytes,
    }
}

/// P43.
#[test]
fn a_middle_that_loses_what_is_sent_ahead_is_found_and_holds_nobody_up() {
    run_long(PATIENCE, async {
        let found = diagnosis(&middle(Middle::OneSyncAWrite).await).await;
        assert_eq!((&found.one_sync, &found.many_syncs), (&Finding::Holds, &Finding::Hangs));
        assert!(!found.pipelining() && found.is_harmful(), "{found}");
        assert_eq!(settings(&found, Place::Client), ["one_segment=1"], "{found}");
    });
}

/// P43.
#[test]
fn an_answer_that_belongs_to_another_statement_is_found() {
    run_long(PATIENCE, async {
        let found = diagnosis(&middle(Middle::WrongRow).await).await;
        let Finding::Differs(what) = &found.many_syncs else { panic!("{found}") };
        assert!(what.starts_with("came 21, ready, 24, ready, 23"), "{what}");
        assert!(found.is_harmful(), "{found}");
    });
}

/// P40.
#[test]
fn a_middle_that_does_not_pass_a_flush_on_is_found() {
    run_long(PATIENCE, async {
        let found = diagnosis(&middle(Middle::NoFlush).await).await;
        assert_eq!(found.flush, Finding::Hangs);
        assert!(found.pipelining() && found.is_harmful(), "{found}");
        assert_eq!(settings(&found, Place::Client), ["no pipelines"], "{found}");
    });
}

/// A line without what differs between servers.
fn general(line: &str) -> String {
    if line.starts_with("  ") {
        // What a host says of itself: the name alone.
        return line.chars().take(17).collect();
    }
    if line.starts_with("host ") {
        return line.split(": ").last().unwrap_or_default().to_owned();
    }
    let line = line.split_once("refused: ").map_or(line, |(front, _)| front);
    if line.starts_with("server ") {
        // The rest of the line is the version and its build.
        return line.split_whitespace().take(2).collect();
    }
    match line.starts_with("round trip ") {
        true => line.split_whitespace().filter(|word| word.parse::<f64>().is_err()).collect(),
        false => line.to_owned(),
    }
}

#[test]
fn the_example_in_the_documentation_is_what_is_printed() {
    let text = include_str!("../../../../docs/operations/poolers.md");
    let example = text.split("```text\n").nth(1).unwrap().split("\n```").next().unwrap();
    run_long(PATIENCE, async {
        let program = programs().pop().filter(|program| !program.knows_prepared_statements());
        if program.is_none() {
            return skipped("the example is of a PgBouncer before 1.21");
        }
        let options = Options { program, prepared_max: Some(0), ..Options::default() };
        let pooler = PrivatePgBouncer::start(shared(), &options).unwrap();
        let found = diagnosis(&pooler.url()).await.to_string();
        let lines = |text: &str| text.lines().map(general).collect::<Vec<_>>();
        assert_eq!(lines(&found), lines(example), "{found}");
    });
}

/// Configurations of the same user and database at these ports of 127.0.0.1.
fn at_ports(ports: &[u16], settings: &str) -> Config {
    let url = shared().url();
    let (front, database) = url.rsplit_once('/').unwrap();
    let front = front.rsplit_once('@').unwrap().0;
    let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    format!("{front}@{}/{database}?{settings}", hosts.join(",")).parse().unwrap()
}

async fn hosts_of(config: &Config) -> Vec<Host> {
    onetrip::doctor::path(config).await.unwrap()
}

fn server(host: &Host) -> &Server {
    host.found.as_ref().unwrap_or_else(|why| panic!("{}: {why}", host.name))
}

/// A primary with a password of its own, and two standbys.
fn primary_and_standbys() -> Option<[PrivatePostgres; 3]> {
    let primary = PrivatePostgres::start(postgres::Options::default()).unwrap();
    if primary.major() < 14 {
        skipped("standbys say what they are since PostgreSQL 14");
        return None;
    }
    let standby = |name: &str| {
        let options = postgres::Options::default().setting("cluster_name", name);
        primary.start_standby(options).unwrap()
    };
    let standbys = [standby("one"), standby("two")];
    let [one, two] = standbys;
    Some([primary, one, two])
}

fn of_servers(servers: &[&PrivatePostgres], settings: &str) -> Config {
    let hosts: Vec<String> =
        servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    let (user, password) = (servers[0].user(), servers[0].password());
    let url = format!("postgres://{user}:{password}@{}/postgres?{settings}", hosts.join(","));
    url.parse().unwrap()
}

#[test]
fn each_host_is_told_with_its_role_and_who_is_refused() {
    run_long(PATIENCE, async {
        let Some([primary, one, two]) = primary_and_standbys() else { return };
        let client = Client::connect(&primary.url()).await.unwrap();
        client.execute("create table written (n int)", &[]).await.unwrap();
        let streaming = "select count(*) from pg_stat_replication where state = 'streaming'";
        until(async || client.query_one(streaming, &[]).await.unwrap().get::<i64>(0) == 2).await;
        let config = of_servers(&[&one, &primary, &two], "target_session_attrs=primary");
        let hosts = hosts_of(&config).await;
        let roles: Vec<_> = hosts.iter().map(|host| server(host).is_standby.unwrap()).collect();
        assert_eq!(roles, [true, false, true]);
        let refused: Vec<bool> = hosts.iter().map(|host| host.refusal.is_some()).collect();
        assert_eq!(refused, [true, false, true]);
        let system = server(&hosts[1]).system.unwrap();
        for host in &hosts {
            let it = server(host);
            assert_eq!((it.system, it.timeline), (Some(system), Some(1)), "{}", host.name);
            assert_eq!(it.between, Between::Nothing);
            assert!(it.position.is_some() && !it.is_encrypted && it.round_trip > Duration::ZERO);
            assert_eq!(it.behind_bytes.is_some(), it.is_standby == Some(true));
        }
        let names: Vec<&str> = server(&hosts[1]).standbys.iter().map(|it| &it.name[..]).collect();
        assert_eq!(names, ["one", "two"]);
        let text = Hosts(&hosts).to_string();
        for words in ["standby, refused: ", ": primary, used\n", "replayed up to ", "  standby "] {
            assert!(text.contains(words), "{words}: {text}");
        }
        // The settings for this cluster, with any server as the target.
        let any = of_servers(&[&one, &primary], "connect_timeout=3");
        let found = Client::connect_with(&any).await.unwrap().doctor().await.unwrap();
        let advised = settings(&found, Place::Client);
        assert!(advised.contains(&"target_session_attrs=primary"), "{found}");
        assert!(settings(&found, Place::Server).contains(&"synchronous_standby_names"), "{found}");
        let lone = diagnosis(&primary.url()).await;
        assert!(settings(&lone, Place::Client).contains(&"all servers as hosts"), "{lone}");
        let reading = of_servers(&[&one, &primary], "reads=prefer_replica");
        let found = Client::connect_with(&reading).await.unwrap().doctor().await.unwrap();
        let advised = settings(&found, Place::Client);
        assert!(advised.contains(&"max_lag_ms=5000"), "{found}");
        assert!(advised.contains(&"connect_timeout=3"), "{found}");
    });
}

#[test]
fn two_servers_of_a_cluster_that_take_writes_are_harmful() {
    run_long(PATIENCE, async {
        let Some([primary, one, _two]) = primary_and_standbys() else { return };
        let promoted = Client::connect(&one.url()).await.unwrap();
        promoted.query("select pg_promote()", &[]).await.unwrap();
        let found = Client::connect_with(&of_servers(&[&primary, &one], "")).await.unwrap();
        let found = found.doctor().await.unwrap();
        let former: Vec<bool> = found.hosts.iter().map(|host| host.is_former_primary).collect();
        assert_eq!(former, [true, false], "{found}");
        assert!(found.is_harmful() && found.to_string().contains("former primary"), "{found}");
    });
}

#[test]
fn a_host_that_does_not_answer_is_told_and_the_next_one_is_used() {
    run_long(PATIENCE, async {
        let hosts = hosts_of(&at_ports(&[1, shared().port()], "")).await;
        assert!(hosts[0].found.as_ref().is_err_and(|why| why.contains("127.0.0.1:1")));
        let text = Hosts(&hosts).to_string();
        assert!(text.contains("127.0.0.1:1: not used: can't connect"), "{text}");
        assert!(text.contains(&format!("127.0.0.1:{}: primary, used", shared().port())), "{text}");
    });
}

#[test]
fn what_is_in_between_is_told_as_far_as_it_shows() {
    run_long(PATIENCE, async {
        let own = SocketAddr::from(([127, 0, 0, 1], shared().port()));
        let proxy = Proxy::start(ProxyConfig::new(own)).unwrap();
        let hosts = hosts_of(&at_ports(&[proxy.addr().port()], "")).await;
        assert_eq!(server(&hosts[0]).between, Between::Proxy(own));
        for (program, (mode, word)) in programs().into_iter().flat_map(|program| {
            [(PoolMode::Session, "session"), (PoolMode::Transaction, "transaction")]
                .map(|mode| (program.clone(), mode))
        }) {
            let version = program.version().to_owned();
            let pooler = pooler(program, mode);
            let hosts = hosts_of(&at_ports(&[pooler.port()], "")).await;
            let expected =
                Between::Pooler { version: Some(version), pool_mode: Some(word.to_owned()) };
            assert_eq!(server(&hosts[0]).between, expected);
        }
    });
}

#[test]
fn the_texts_behind_which_others_waited_are_named() {
    run_long(PATIENCE, async {
        let client = client_with("connections_max=1").await;
        let slow = client.query("select pg_sleep(0.03), 'the report'", &[]);
        let quick = client.query("select 1", &[]);
        slow.await.unwrap();
        quick.await.unwrap();
        let found = client.doctor().await.unwrap();
        assert_eq!(found.slow_neighbours.len(), 1, "{found}");
        let line = "1 statements waited for up to";
        assert!(found.to_string().contains(line) && found.to_string().contains("'the report'"));
    });
}
