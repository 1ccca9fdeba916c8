//! Repeatable statements: what shares a sync point, who gets an error, what survives a lost
//! connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::pooled::shared;
use onetrip::{Cancelled, Client, Error, Kind, Outcome, Reply, Row, Session};
use onetrip_lab::postgres::{Options, PrivatePostgres};
use onetrip_lab::proxy::{Direction, Fault, Scope};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::*;

const ECHO: &str = "select $1::int";

/// Fails where the parameter is 0.
const DIVIDE: &str = "select 1000 / $1::int";

/// A client behind a relay that counts the Syncs, and the count.
async fn counted(settings: &str) -> (Client, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let syncs = Arc::new(AtomicUsize::new(0));
    tokio::spawn(relay(listener, syncs.clone()));
    let url = shared().url().replace(&format!(":{}/", shared().port()), &format!(":{port}/"));
    let settings = format!("sslmode=disable&connections_max=1&{settings}");
    let url = format!("{url}?{}", shared().settings(&settings));
    let client = Client::connect(&url).await.unwrap();
    // With its own Sync, the client asks once who the peer is, when a statement first goes ahead.
    let ahead: Vec<_> = (0..2).map(|_| client.execute("select 1", &[])).collect();
    for reply in ahead {
        reply.await.unwrap();
    }
    (client, syncs)
}

async fn relay(listener: TcpListener, syncs: Arc<AtomicUsize>) {
    while let Ok((client, _)) = listener.accept().await {
        let server = SocketAddr::from(([127, 0, 0, 1], shared().port()));
        let server = TcpStream::connect(server).await.unwrap();
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
        let syncs = syncs.clone();
        tokio::spawn(async move {
            // The first message has no tag.
            let (mut input, mut at, mut header) = (Vec::new(), 0, 0);
            while from_client.read_buf(&mut input).await.is_ok_and(|len| len > 0) {
                while let Some(&[a, b, c, d]) = input[at..].get(header..header + 4) {
                    let len = header + u32::from_be_bytes([a, b, c, d]) as usize;
                    if input.len() < at + len {
                        break;
                    }
                    syncs.fetch_add(usize::from(header > 0 && input[at] == b'S'), Ordering::SeqCst);
                    to_server.write_all(&input[at..at + len]).await.unwrap();
                    (at, header) = (at + len, 1);
                }
            }
        });
    }
}

/// A session that locks a new table `gate`.
async fn closed_gate(client: &Client) -> Session {
    let holder = client.session().await.unwrap();
    holder.script("create table gate ()").await.unwrap();
    holder.script("begin; lock table gate").await.unwrap();
    holder
}

fn number(row: Result<Row, Error>) -> i32 {
    row.unwrap().get(0)
}

/// P14.
#[test]
fn neighbouring_reads_share_a_sync_point() {
    run(async {
        let (client, syncs) = counted("").await;
        for prepared in [false, true] {
            let statement = client.prepare(ECHO).await.unwrap();
            let ask = |i: i32| match prepared {
                true => client.repeatable().query_one(&statement, &[&i]),
                false => client.repeatable().query_one(&onetrip::unprepared(ECHO), &[&i]),
            };
            assert_eq!(number(ask(-1).await), -1);
            syncs.store(0, Ordering::SeqCst);
            let replies: Vec<_> = (0..50).map(|i| (i, ask(i))).collect();
            for (i, reply) in replies {
                assert_eq!(number(reply.await), i);
            }
            assert_eq!(syncs.load(Ordering::SeqCst), 2, "the first left at once, by itself");
        }
    });
}

#[test]
fn a_quick_read_is_not_blamed_for_a_slow_one_of_its_sync_point() {
    run(async {
        let (client, syncs) = counted("").await;
        let (quick, slow) = ("select 1 /* quick */", "select pg_sleep(0.05)");
        for text in [quick, slow, "select 2"] {
            client.repeatable().query(text, &[]).await.unwrap();
        }
        syncs.store(0, Ordering::SeqCst);
        let texts = ["select 2", quick, quick, slow, quick];
        let replies = texts.map(|text| client.repeatable().query(text, &[]));
        for reply in replies {
            reply.await.unwrap();
        }
        assert_eq!(syncs.load(Ordering::SeqCst), 2, "all but the first shared one");
        let blamed = client.metrics().slow_neighbours;
        assert!(!blamed.iter().any(|one| &*one.text == quick), "{blamed:?}");
    });
}

#[test]
fn no_more_than_64_share_one() {
    run(async {
        let (client, syncs) = counted("").await;
        let statement = client.prepare(ECHO).await.unwrap();
        number(client.repeatable().query_one(&statement, &[&0]).await);
        syncs.store(0, Ordering::SeqCst);
        let ask = |i: i32| client.repeatable().query_one(&statement, &[&i]);
        let replies: Vec<_> = (0..1 + 2 * 64 + 1).map(|i| (i, ask(i))).collect();
        for (i, reply) in replies {
            assert_eq!(number(reply.await), i);
        }
        assert_eq!(syncs.load(Ordering::SeqCst), 1 + 2 + 1);
    });
}

#[test]
fn what_is_no_plain_read_keeps_its_own() {
    run(async {
        let t = table("id int primary key, n int").await;
        let texts = [
            format!("insert into {t} values (1, 1) on conflict do nothing"),
            format!("update {t} set n = 2 where id = 1"),
            format!("select * from {t} for update"),
            format!("with w as (update {t} set n = 3 returning n) select * from w"),
            "show work_mem".to_owned(),
            "explain select 1".to_owned(),
        ];
        let (client, syncs) = counted("").await;
        syncs.store(0, Ordering::SeqCst);
        let replies: Vec<_> = texts.iter().map(|sql| client.repeatable().query(sql, &[])).collect();
        for reply in replies {
            reply.await.unwrap();
        }
        assert_eq!(syncs.load(Ordering::SeqCst), texts.len());
    });
}

#[test]
fn what_is_not_repeatable_keeps_its_own_among_those_that_are() {
    run(async {
        let (client, syncs) = counted("").await;
        let t = table("id int").await;
        let insert = format!("insert into {t} values ($1)");
        syncs.store(0, Ordering::SeqCst);
        let mut reads = Vec::new();
        let mut writes = Vec::new();
        for i in 0..10 {
            reads.push((i, client.repeatable().query_one(DIVIDE, &[&i])));
            writes.push(client.execute(&insert, &[&i]));
        }
        for write in writes {
            assert_eq!(write.await.unwrap(), 1, "no read's error undoes it");
        }
        for (i, read) in reads {
            match i {
                0 => drop(rejected(read.await, "22012")),
                _ => assert_eq!(number(read.await), 1000 / i),
            }
        }
        assert_eq!(syncs.load(Ordering::SeqCst), 20);
        assert_eq!(ids(&t).await.len(), 10);
    });
}

/// P3.
#[test]
fn one_of_fifty_that_fails_fails_alone() {
    run(async {
        let client = client_with("connections_max=1").await;
        let statement = client.prepare(DIVIDE).await.unwrap();
        for failing in [1, 2, 25, 48, 49] {
            let by = |i: i32| if i == failing { 0 } else { i + 1 };
            let ask = |i| client.repeatable().query_one(&statement, &[&by(i)]);
            let replies: Vec<_> = (0..50).map(|i| (i, ask(i))).collect();
            for (i, reply) in replies {
                match by(i) {
                    0 => drop(rejected(reply.await, "22012")),
                    by => assert_eq!(number(reply.await), 1000 / by),
                }
            }
        }
    });
}

/// P4.
#[test]
fn what_was_undone_with_one_that_failed_is_run_again() {
    run(async {
        let (client, t) = (client_with("connections_max=1").await, table("id int").await);
        let f = shared().new_name();
        let create = format!(
            "create function {f}(int) returns int language sql as \
             'insert into {t} values ($1) returning id'"
        );
        session().await.script(&create).await.unwrap();
        let notes = format!("select {f}($1)");
        let ask = |i: i32| client.repeatable().query_one(&notes, &[&i]);
        ask(0).await.unwrap();
        let first = ask(1);
        let replies: Vec<_> = (2..10).map(ask).collect();
        let fails = client.repeatable().query_one(DIVIDE, &[&0]);
        first.await.unwrap();
        for reply in replies {
            reply.await.unwrap();
        }
        rejected(fails.await, "22012");
        assert_eq!(ids(&t).await, (0..10).collect());
    });
}

#[test]
fn those_that_share_one_are_one_transaction() {
    run(async {
        let client = client_with("connections_max=1").await;
        let ask = || client.repeatable().query_one("select now()::text", &[]);
        let first = ask();
        let times: Vec<_> = (0..20).map(|_| ask()).collect();
        first.await.unwrap();
        let mut distinct = std::collections::BTreeSet::new();
        for time in times {
            distinct.insert(time.await.unwrap().get::<String>(0));
        }
        assert_eq!(distinct.len(), 1);
    });
}

#[test]
fn dropped_replies_disturb_nobody() {
    run(async {
        let client = client_with("connections_max=1").await;
        let mut random = Random(11);
        for _ in 0..20 {
            let mut replies: Vec<_> =
                (0..60).map(|i| (i, client.repeatable().query_one(DIVIDE, &[&(i % 20)]))).collect();
            replies.retain(|_| random.below(3) > 0);
            for (i, reply) in replies {
                match i % 20 {
                    0 => drop(rejected(reply.await, "22012")),
                    by => assert_eq!(number(reply.await), 1000 / by),
                }
            }
        }
        assert_usable(&client).await;
    });
}

/// P17.
#[test]
fn stale_plans_are_healed_for_each() {
    run(async {
        let (client, t) = (client_with("connections_max=1").await, table("id int").await);
        client.execute(&format!("insert into {t} values (1)"), &[]).await.unwrap();
        let statement = client.prepare(&format!("select * from {t}")).await.unwrap();
        let ask = || client.repeatable().query_one(&statement, &[]);
        assert_eq!(ask().await.unwrap().columns().len(), 1);
        session().await.script(&format!("alter table {t} add column n int")).await.unwrap();
        let replies: Vec<_> = (0..30).map(|_| ask()).collect();
        for reply in replies {
            assert_eq!(reply.await.unwrap().columns().len(), 2);
        }
    });
}

/// P15.
#[test]
fn nobody_is_failed_by_anothers_parse() {
    run(async {
        let client = client_with("connections_max=1&prepare_threshold=2").await;
        let t = table("id int").await;
        let sql = format!("select count(*)::int from {t}");
        let ask = || client.repeatable().query_one(&sql, &[]);
        number(ask().await);
        session().await.script(&format!("drop table {t}")).await.unwrap();
        let replies: Vec<_> = (0..20).map(|_| ask()).collect();
        for reply in replies {
            rejected(reply.await, "42P01");
        }
        session().await.script(&format!("create table {t} ()")).await.unwrap();
        let replies: Vec<_> = (0..20).map(|_| ask()).collect();
        for reply in replies {
            assert_eq!(number(reply.await), 0);
        }
    });
}

#[test]
fn what_has_to_be_asked_about_first_is_repeatable_too() {
    run(async {
        let client = client_with("connections_max=1").await;
        let sql = "select $1::text[] = array['a', 'b'] and $2";
        let list = vec!["a", "b"];
        let ask = |and: bool| client.repeatable().query_one(sql, &[&list, &and]);
        let replies: Vec<_> = (0..10).map(|i| (i % 2 == 0, ask(i % 2 == 0))).collect();
        for (wanted, reply) in replies {
            assert_eq!(reply.await.unwrap().get::<bool>(0), wanted);
        }
    });
}

/// What is asked about it is no more than it is itself.
#[test]
fn the_question_about_one_is_lost_with_its_connection_and_asked_again() {
    run(async {
        let proxy = proxy();
        let client = client_through(&proxy, "connections_max=1").await;
        let list = vec!["a", "b"];
        for bytes in (0..400).step_by(20) {
            number(client.repeatable().query_one(DIVIDE, &[&1]).await);
            proxy.fault(Fault::CutAfter { direction: Direction::Up, bytes }, Scope::Present);
            let sql = format!("select $1::text[] = array['a', 'b'] and $2 /* {bytes} */");
            let row = client.repeatable().query_one(&sql, &[&list, &true]).await.unwrap();
            assert!(row.get::<bool>(0), "{bytes}");
        }
    });
}

/// P38.
#[test]
fn a_lost_connection_is_survived_by_what_is_repeatable_alone() {
    run(async {
        let gate = Gate::closed().await;
        let client = client_with("connections_max=1").await;
        let mut waits = client.repeatable().query_one(&gate.statement(), &[]);
        let reads: Vec<_> =
            (0..30).map(|i| (i, client.repeatable().query_one(ECHO, &[&i]))).collect();
        let other = client.query_one(ECHO, &[&1]);
        assert!(!poll_once(&mut waits).await);
        terminate(gate.waiting_pid().await).await;
        failed(other.await, Outcome::Unknown, "connection_lost");
        let reads = async {
            for (i, read) in reads {
                assert_eq!(number(read.await), i);
            }
        };
        let waits = async { assert_eq!(waits.await.unwrap().get::<i64>(0), 0) };
        let open = async {
            gate.waiting_pid().await;
            gate.open().await;
        };
        tokio::join!(reads, waits, open);
    });
}

#[test]
fn a_server_that_is_killed_and_comes_back_answers_all_of_them() {
    let mut server = PrivatePostgres::start(Options::default()).unwrap();
    run(async {
        // One connection for the session that holds the gate, and one more.
        let url = format!("{}?connections_max=2", server.url());
        let client = Client::connect(&url).await.unwrap();
        let holder = closed_gate(&client).await;
        let gate = "select count(*)::int from gate";
        let mut reads: Vec<Reply<Row>> =
            (0..100).map(|_| client.repeatable().query_one(gate, &[])).collect();
        let mut write = client.execute("insert into gate default values", &[]);
        for read in &mut reads {
            assert!(!poll_once(read).await);
        }
        assert!(!poll_once(&mut write).await);
        until(async || client.pending().waiting == 0).await;
        until(async || count(&holder, "pg_locks where not granted").await > 0).await;
        server.stop_immediate().unwrap();
        let reads = async {
            for read in reads {
                assert_eq!(number(read.await), 0);
            }
        };
        let again = tokio::task::spawn_blocking(move || {
            server.start_again().unwrap();
            server
        });
        let ((), server) = tokio::join!(reads, again);
        assert_eq!(error(write.await).outcome(), Outcome::Unknown);
        drop(server.unwrap());
    });
}

#[test]
fn it_is_sent_again_three_times_and_no_more() {
    run(async {
        let (client, s) = (client().await, shared().new_name());
        session().await.script(&format!("create sequence {s}")).await.unwrap();
        let ends = format!("select nextval('{s}'), pg_terminate_backend(pg_backend_pid())");
        let failed = error(client.repeatable().query_one(&ends, &[]).await);
        assert_eq!((failed.outcome(), failed.code()), (Outcome::Unknown, "connection_lost"));
        let runs: i64 =
            client.query_one(&format!("select last_value from {s}"), &[]).await.unwrap().get(0);
        assert_eq!(runs, 1 + 3);
        assert_usable(&client).await;
    });
}

#[test]
fn a_server_that_stays_away_leaves_it_unknown_by_its_deadline() {
    let mut server = PrivatePostgres::start(Options::default()).unwrap();
    run(async {
        let url = format!("{}?request_timeout_ms=2000&connections_max=2", server.url());
        let client = Client::connect(&url).await.unwrap();
        let holder = closed_gate(&client).await;
        let mut read = client.repeatable().query_one("select count(*) from gate", &[]);
        assert!(!poll_once(&mut read).await);
        until(async || count(&holder, "pg_locks where not granted").await > 0).await;
        server.stop_immediate().unwrap();
        let error = error(read.await);
        assert_eq!(error.outcome(), Outcome::Unknown, "{error:?}");
        assert!(!error.is_retry_safe());
    });
}

#[test]
fn a_reply_that_is_dropped_sends_nothing_again() {
    run(async {
        let gate = Gate::closed().await;
        let client = client_with("connections_max=1").await;
        let mut waits = client.repeatable().query_one(&gate.statement(), &[]);
        assert!(!poll_once(&mut waits).await);
        let pid = gate.waiting_pid().await;
        drop(waits);
        terminate(pid).await;
        until(async || client.is_closed()).await;
        let pending = client.pending();
        assert_eq!((pending.in_flight, pending.queued, pending.waiting), (0, 0, 0));
        gate.open().await;
        assert_usable(&client).await;
    });
}

#[test]
fn a_line_that_is_cut_at_any_byte_is_noticed_by_nobody() {
    run(async {
        let proxy = proxy();
        let client = client_through(&proxy, "connections_max=2").await;
        let mut random = Random(7);
        for round in 0..10 {
            let direction = if random.below(2) == 0 { Direction::Up } else { Direction::Down };
            let fault = Fault::CutAfter { direction, bytes: random.below(4000) };
            proxy.fault(fault, Scope::Present);
            let ask = |i: i32| client.repeatable().query_one(DIVIDE, &[&(i % 50)]);
            let replies: Vec<_> = (0..150).map(|i| (i, ask(i))).collect();
            for (i, reply) in replies {
                match i % 50 {
                    0 => rejected_or_unknown(reply.await),
                    by => assert_eq!(number(reply.await), 1000 / by, "{round}: {fault:?}"),
                }
            }
        }
    });
}

/// An error of its own; an earlier attempt may have been cut off.
#[track_caller]
fn rejected_or_unknown(result: Result<Row, Error>) {
    let error = error(result);
    assert_eq!(error.sqlstate(), Some("22012"), "{error:?}");
    assert!(matches!(error.outcome(), Outcome::Rejected | Outcome::Unknown));
}

#[test]
fn one_of_a_shared_sync_point_is_not_cancelled_while_others_wait() {
    run(async {
        let gate = Gate::closed().await;
        let client = client_with("connections_max=1").await;
        let read = || client.repeatable().query_one(&gate.statement(), &[]);
        let mut reads: Vec<Reply<Row>> = (0..3).map(|_| read()).collect();
        for read in &mut reads {
            assert!(!poll_once(read).await);
        }
        // The first left at once, by itself.
        assert_eq!(reads[1].canceller().cancel().await, Cancelled::NotPossible);
        gate.open().await;
        for read in reads {
            assert_eq!(read.await.unwrap().get::<i64>(0), 0);
        }
    });
}

#[test]
fn reads_that_are_late_together_are_cancelled_together() {
    run(async {
        let gate = Gate::closed().await;
        let client = client_with("connections_max=1").await;
        let hurried = client.repeatable().timeout(Duration::from_millis(50));
        let reads: Vec<Reply<Row>> =
            (0..5).map(|_| hurried.query_one(&gate.statement(), &[])).collect();
        for read in reads {
            assert_eq!(error(read.await).kind(), Kind::Timeout);
        }
        // The only connection no longer waits at the gate, although that is still closed.
        assert_eq!(number(client.query_one(ECHO, &[&7]).await), 7);
    });
}
