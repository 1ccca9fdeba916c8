//! The findings of `doctor()`: at a server, behind PgBouncer in each of its modes, and behind
//! something that breaks what this client relies on.

use std::net::SocketAddr;

use onetrip::doctor::{Diagnosis, Finding, Names, Place, Pooling, Startup};
use onetrip::{Client, blocking};
use onetrip_lab::postgres::pgbouncer::{Options, PoolMode, PrivatePgBouncer, Program, find_all};
use onetrip_lab::postgres::shared;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{client_with, run_long, skipped};
use std::time::Duration;

/// Each answer that never comes takes 5 s.
const PATIENCE: Duration = Duration::from_secs(120);

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
