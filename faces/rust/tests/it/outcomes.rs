//! The outcomes of errors, compared with the table: connections that end with much in flight.

use std::collections::BTreeSet;
use std::time::Duration;

use onetrip::{Client, Error, Outcome, Reply, Session};
use onetrip_lab::proxy::{Direction, Fault, Proxy, Scope};

use crate::support::*;

/// Longer than any statement waits here.
const ENOUGH: Duration = Duration::from_secs(300);

/// Inserts of these numbers.
fn inserts(
    client: &Client,
    table: &str,
    numbers: impl IntoIterator<Item = i32>,
) -> Vec<(i32, Reply<u64>)> {
    let insert = format!("insert into {table} values ($1)");
    numbers.into_iter().map(|id| (id, client.execute(&insert, &[&id]))).collect()
}

/// Awaits all replies, and checks each outcome.
async fn assert_true_claims(
    table: &str,
    replies: Vec<(i32, Reply<u64>)>,
) -> Vec<Result<u64, Error>> {
    let mut claims = Vec::new();
    for (id, reply) in replies {
        claims.push((id, reply.await));
    }
    // A server process may still work on requests that it has received.
    let observer = session().await;
    let busy = format!("pg_locks where relation = '{table}'::regclass and pid <> pg_backend_pid()");
    until(async || count(&observer, &busy).await == 0).await;
    let there = ids(table).await;
    for (id, claim) in &claims {
        check(*id, claim, &there);
    }
    claims.into_iter().map(|(_, claim)| claim).collect()
}

fn check(id: i32, claim: &Result<u64, Error>, there: &BTreeSet<i32>) {
    match claim.as_ref().map_err(Error::outcome) {
        Ok(_) | Err(Outcome::Applied) => assert!(there.contains(&id), "{id}: {claim:?}"),
        Err(Outcome::NotSent | Outcome::Rejected) => {
            assert!(!there.contains(&id), "{id}: {claim:?}")
        }
        Err(Outcome::Unknown) => {}
    }
}

/// P12. Behind a fatal error the server answers no sync point, so the client has to fail each
/// request itself, once.
#[test]
fn a_server_process_that_is_ended_with_a_thousand_in_flight() {
    run(async {
        let (gate, t) = (Gate::closed().await, table("id int").await);
        let client = client_with("in_flight_max=600&connections_max=1").await;
        let mut replies = inserts(&client, &t, 0..300);
        let head = client.query(&gate.statement(), &[]);
        replies.extend(inserts(&client, &t, 301..1000));
        terminate(gate.waiting_pid().await).await;
        let error = error(head.await);
        assert_eq!((error.outcome(), error.sqlstate()), (Outcome::Unknown, Some("57P01")));
        assert!(error.is_connection_lost());
        let claims = assert_true_claims(&t, replies).await;
        assert!(claims[..300].iter().all(Result::is_ok));
        let sent = error_of(&claims[300]).expect("it was sent");
        assert_eq!(sent.outcome(), Outcome::Unknown, "{sent}");
        let lost = claims[300..].iter().filter_map(error_of);
        assert!(lost.clone().all(|error| error.outcome() == Outcome::Unknown));
        assert!(lost.count() < 600, "what was beyond the window went on by itself");
        assert!(claims.last().unwrap().is_ok());
        let pending = client.pending();
        assert_eq!((pending.in_flight, pending.queued, pending.waiting), (0, 0, 0));
        assert_usable(&client).await;
    });
}

fn error_of(claim: &Result<u64, Error>) -> Option<&Error> {
    claim.as_ref().err()
}

/// What is in a connection's queue when that ends has a next connection, whichever way its text is
/// sent: new, known, prepared, by the simple protocol, with a value whose type is asked for.
#[test]
fn what_was_not_sent_goes_on_by_itself_on_the_next_connection() {
    run(async {
        let (gate, t) = (Gate::closed().await, table("id int, what text").await);
        let client = client_with("in_flight_max=1&connections_max=1&prepare_threshold=2").await;
        let insert = format!("insert into {t} values ($1, $2)");
        for id in 0..3 {
            client.execute(&insert, &[&id, &"before"]).await.unwrap();
        }
        let explicit = client.prepare(&format!("insert into {t} values ($1, 'e')")).await.unwrap();
        let head = client.query(&gate.statement(), &[]);
        let mut replies = Vec::new();
        for id in 10..30 {
            replies.push((id, client.execute(&insert, &[&id, &"prepared"])));
        }
        replies.push((30, client.execute(&format!("insert into {t} values (30, 'new')"), &[])));
        replies.push((31, client.execute(&explicit, &[&31])));
        let rows = client.query("select generate_series(1, $1)", &[&5i32]);
        let row = client.query_one("select $1::text, $2::int8", &[&"x", &7i64]);
        terminate(gate.waiting_pid().await).await;
        assert_eq!(error(head.await).outcome(), Outcome::Unknown);
        for (id, reply) in replies {
            assert_eq!(reply.await.unwrap(), 1, "{id}");
        }
        let rows: Vec<i32> = rows.await.unwrap().iter().map(|row| row.get(0)).collect();
        assert_eq!(rows, [1, 2, 3, 4, 5]);
        let row = row.await.unwrap();
        assert_eq!((row.get::<&str>(0), row.get::<i64>(1)), ("x", 7));
        assert_eq!(ids(&t).await, (0..3).chain(10..32).collect());
    });
}

/// Its deadline goes on as well, and so does what was taken back.
#[test]
fn what_goes_on_keeps_its_deadline_and_can_be_cancelled() {
    run(async {
        let (gate, t) = (Gate::closed().await, table("id int").await);
        let client = client_with("in_flight_max=1&connections_max=1").await;
        let insert = format!("insert into {t} values ($1)");
        let head = client.query(&gate.statement(), &[]);
        let within = client.timeout(Duration::from_secs(2));
        let mut late = within.execute(&insert, &[&1]);
        let mut taken_back = client.execute(&insert, &[&2]);
        let canceller = taken_back.canceller();
        assert!(!poll_once(&mut late).await && !poll_once(&mut taken_back).await);
        // Another caller has the only connection that comes next.
        let session = client.session();
        terminate(gate.waiting_pid().await).await;
        error(head.await);
        let session = session.await.unwrap();
        assert!(!poll_once(&mut late).await && !poll_once(&mut taken_back).await);
        assert!(matches!(canceller.cancel().await, onetrip::Cancelled::Yes));
        failed(taken_back.await, Outcome::NotSent, "cancelled");
        assert_eq!(error(late.await).outcome(), Outcome::NotSent);
        drop(session);
        assert_eq!(ids(&t).await, BTreeSet::new());
    });
}

type Claim = (i32, Result<u64, Error>);

/// What the tasks were told, each checked against the table.
async fn true_claims(
    watcher: &Session,
    table: &str,
    tasks: Vec<tokio::task::JoinHandle<Vec<Claim>>>,
) -> Vec<Claim> {
    let mut claims = Vec::new();
    for task in tasks {
        claims.extend(task.await.unwrap());
    }
    let there = ids_seen_by(watcher, table).await;
    claims.iter().for_each(|(id, claim)| check(*id, claim, &there));
    claims
}

/// Kills under load: no error says that a statement was not sent, and none ran twice.
#[test]
fn while_connections_are_killed_nothing_fails_as_not_sent_and_nothing_runs_twice() {
    const TASKS: i32 = 32;
    const KILLS: usize = 8;
    // How many rows are written between two of them. A statement gets in line again eight times at
    // most, and one kill may cost it a place on each connection.
    const AMONG: i64 = 4 * TASKS as i64;
    run_threads(async {
        let apart = Apart::new().await;
        let t = apart.table("id int").await;
        let client = apart.client_with("in_flight_max=2&connections_max=3").await;
        let insert = format!("insert into {t} values ($1)");
        // The types of a text are asked for at its first use, which does not go on.
        client.execute(&insert, &[&-1]).await.unwrap();
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let (client, insert, stopped) = (client.clone(), insert.clone(), stopped.clone());
                tokio::spawn(async move {
                    let mut claims = Vec::new();
                    for id in (task * 100_000).. {
                        claims.push((id, client.execute(&insert, &[&id]).await));
                        if *stopped.borrow() {
                            break;
                        }
                    }
                    claims
                })
            })
            .collect();
        for _ in 0..KILLS {
            let before = count(&apart.watcher, &t).await;
            until(async || count(&apart.watcher, &t).await > before + AMONG).await;
            apart.kill().await;
        }
        stop.send(true).unwrap();
        let claims = true_claims(&apart.watcher, &t, tasks).await;
        let lost: Vec<_> = claims.iter().filter_map(|(_, claim)| claim.as_ref().err()).collect();
        println!("{} statements, {} lost with {KILLS} kills", claims.len(), lost.len());
        assert!(lost.iter().all(|error| error.outcome() == Outcome::Unknown), "{lost:?}");
    });
}

/// Each task has many statements unanswered, and each of these has a reader of its own, whom nobody
/// else wakes.
#[test]
fn while_connections_are_killed_every_statement_ends() {
    const TASKS: i32 = 24;
    const BURST: i32 = 20;
    const KILLS: usize = 60;
    /// How many rows are written between two of them.
    const AMONG: i64 = 500;
    run_threads(async {
        let apart = Apart::new().await;
        let t = apart.table("id int").await;
        let client = apart.client_with("connections_max=2").await;
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let (client, t, stopped) = (client.clone(), t.clone(), stopped.clone());
                tokio::spawn(async move {
                    let mut claims = Vec::new();
                    for first in (task * 1_000_000..).step_by(BURST as usize) {
                        let replies = inserts(&client, &t, first..first + BURST);
                        let read = replies.into_iter().map(|(id, reply)| (id, tokio::spawn(reply)));
                        for (id, reader) in read.collect::<Vec<_>>() {
                            let claim = tokio::time::timeout(ENOUGH, reader).await;
                            claims.push((id, claim.expect("it never ended").unwrap()));
                        }
                        if *stopped.borrow() {
                            return claims;
                        }
                    }
                    unreachable!("it is stopped before")
                })
            })
            .collect();
        for _ in 0..KILLS {
            let before = count(&apart.watcher, &t).await;
            until(async || count(&apart.watcher, &t).await > before + AMONG).await;
            apart.kill().await;
        }
        stop.send(true).unwrap();
        true_claims(&apart.watcher, &t, tasks).await;
    });
}

/// P12. The same while nobody waits for anything.
#[test]
fn an_idle_connection_that_is_ended_is_replaced_by_the_next_call() {
    run(async {
        let client = client().await;
        let ended = pid_of(&client).await;
        terminate(ended).await;
        until(async || client.is_closed()).await;
        assert_ne!(pid_of(&client).await, ended);
        assert!(!client.is_closed());
    });
}

#[test]
fn a_session_that_is_ended_says_so_at_the_next_call() {
    run(async {
        let client = client().await;
        let session = client.session().await.unwrap();
        let pid: i32 = session.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
        terminate(pid).await;
        until(async || session.is_closed()).await;
        let error = error(session.query("select 1", &[]).await);
        assert_eq!((error.outcome(), error.sqlstate()), (Outcome::NotSent, Some("57P01")));
        assert!(error.is_connection_lost() && error.is_retry_safe());
        assert!(error.to_string().contains("terminating connection"), "{error}");
        for _ in 0..3 {
            failed(session.execute("select 1", &[]).await, Outcome::NotSent, "connection_lost");
            failed(session.prepare("select 1").await, Outcome::NotSent, "connection_lost");
            let mut pipeline = session.pipeline();
            failed(pipeline.query("select 1", &[]).await, Outcome::NotSent, "connection_lost");
            failed(pipeline.finish().await, Outcome::NotSent, "connection_lost");
        }
        drop(session);
        assert_usable(&client).await;
    });
}

#[test]
fn a_pipeline_whose_server_process_is_ended() {
    run(async {
        let (gate, t) = (Gate::closed().await, table("id int").await);
        let client = client().await;
        let insert = format!("insert into {t} values ($1)");
        let mut pipeline = client.pipeline();
        let first = pipeline.execute(&insert, &[&1]);
        let sync = pipeline.sync();
        let second = pipeline.execute(&insert, &[&2]);
        let waits = pipeline.query(&gate.statement(), &[]);
        let third = pipeline.execute(&insert, &[&3]);
        let other = client.execute(&insert, &[&4]);
        let (finished, ()) =
            tokio::join!(pipeline.finish(), async { terminate(gate.waiting_pid().await).await });
        let error = error(finished);
        assert_eq!((error.outcome(), error.sqlstate()), (Outcome::Unknown, Some("57P01")));
        sync.await.unwrap();
        assert_eq!(first.await.unwrap(), 1);
        assert_eq!(other.await.unwrap(), 1, "it left before the pipeline was finished");
        self::error(waits.await);
        let there = ids(&t).await;
        assert_eq!(there, [1, 4].into());
        for (id, claim) in [(2, second.await), (3, third.await)] {
            assert!(claim.is_err(), "{id}: {claim:?}");
            check(id, &claim, &there);
        }
    });
}

/// The last sync point was added before `finish`, and its answer never came.
#[test]
fn a_finish_that_waits_for_an_earlier_sync_point_is_unknown_when_the_connection_is_lost() {
    run(async {
        let gate = Gate::closed().await;
        let client = client().await;
        let mut pipeline = client.pipeline();
        let waits = pipeline.query(&gate.statement(), &[]);
        let sync = pipeline.sync();
        let (finished, ()) =
            tokio::join!(pipeline.finish(), async { terminate(gate.waiting_pid().await).await });
        failed(sync.await, Outcome::Unknown, "connection_lost");
        failed(waits.await, Outcome::Unknown, "connection_lost");
        failed(finished, Outcome::Unknown, "connection_lost");
    });
}

/// The sync point was answered, and then the connection was lost, before `finish` was polled again.
#[test]
fn a_pipeline_that_stands_says_so_though_the_connection_was_lost_behind_it() {
    run(async {
        let (proxy, t) = (proxy(), table("id int").await);
        let client = client_through(&proxy, "").await;
        let insert = format!("insert into {t} values ($1)");
        let run = |id: i32| {
            let mut pipeline = client.pipeline();
            let reply = pipeline.execute(&insert, &[&id]);
            (Box::pin(pipeline.finish()), reply)
        };
        // The answer may come before the next call, so counting begins before the call.
        proxy.reset_stats();
        let (finish, reply) = run(1);
        finish.await.unwrap();
        reply.await.unwrap();
        let bytes = proxy.stats().bytes_down;
        proxy.fault(Fault::CutAfter { direction: Direction::Down, bytes }, Scope::All);
        let (mut finish, reply) = run(2);
        assert!(!poll_once(&mut finish).await);
        until(async || client.is_closed()).await;
        assert_eq!(ids(&t).await, [1, 2].into());
        assert_eq!(reply.await.unwrap(), 1);
        finish.await.unwrap();
    });
}

#[test]
fn an_early_reply_of_a_pipeline_that_is_cut_does_not_settle() {
    run(async {
        let (proxy, t) = (proxy(), table("id int").await);
        let client = client_through(&proxy, "").await;
        let mut pipeline = client.pipeline();
        let insert = format!("insert into {t} values (1) returning id");
        assert!(pipeline.query_one(&insert, &[]).await.unwrap().is_provisional());
        let second = pipeline.execute(&format!("insert into {t} values (2)"), &[]);
        pipeline.flush();
        proxy.fault(Fault::CutAfter { direction: Direction::Up, bytes: 0 }, Scope::All);
        error(pipeline.finish().await);
        let second = second.await;
        assert!(ids(&t).await.is_empty());
        assert!(second.is_err(), "{second:?}");
    });
}

/// 30 statements and a pipeline on a line that breaks after some bytes.
async fn cut(proxy: &Proxy, table: &str, fault: Fault, numbers: &mut std::ops::RangeFrom<i32>) {
    let client = client_through(proxy, "in_flight_max=20").await;
    proxy.fault(fault, Scope::Present);
    let mut replies = inserts(&client, table, numbers.take(10));
    let insert = format!("insert into {table} values ($1)");
    let mut pipeline = client.pipeline();
    let ids: Vec<i32> = numbers.take(5).collect();
    replies.extend(ids.iter().map(|id| (*id, pipeline.execute(&insert, &[id]))));
    let finish = pipeline.finish();
    let (finished, ()) = tokio::join!(biased; finish, async {
        replies.extend(inserts(&client, table, numbers.take(10)));
    });
    let claims = assert_true_claims(table, replies).await;
    let of_pipeline = &claims[10..15];
    match finished {
        Ok(()) => assert!(of_pipeline.iter().all(Result::is_ok), "{fault:?}"),
        Err(error) => assert!(
            error.outcome() == Outcome::Unknown || of_pipeline.iter().all(Result::is_err),
            "{fault:?}: {error:?}, but {of_pipeline:?}"
        ),
    }
    proxy.fault(Fault::CutAfter { direction: Direction::Up, bytes: 0 }, Scope::Present);
}

#[test]
fn a_line_that_is_cut_at_any_byte() {
    run(async {
        let (proxy, t) = (proxy(), table("id int").await);
        let mut numbers = 0..;
        let mut random = Random(5);
        for _ in 0..5 {
            let bytes = random.below(1200);
            for direction in [Direction::Up, Direction::Down] {
                for fault in
                    [Fault::CutAfter { direction, bytes }, Fault::ResetAfter { direction, bytes }]
                {
                    cut(&proxy, &t, fault, &mut numbers).await;
                }
            }
        }
    });
}

/// A line that breaks within each message of the answer to one statement.
#[test]
fn a_reply_that_is_cut_at_each_of_its_bytes() {
    run(async {
        let (proxy, t) = (proxy(), table("id int").await);
        let insert = format!("insert into {t} values ($1) returning id");
        let client = client_through(&proxy, "").await;
        proxy.reset_stats();
        client.query_one(&insert, &[&-1]).await.unwrap();
        let len = proxy.stats().bytes_down;
        for bytes in (0..=len).step_by(3) {
            let client = client_through(&proxy, "").await;
            let fault = Fault::CutAfter { direction: Direction::Down, bytes };
            proxy.fault(fault, Scope::Present);
            match client.query_one(&insert, &[&(bytes as i32)]).await {
                Ok(row) => assert_eq!((row.get::<i32>(0) as u64, bytes), (bytes, len)),
                Err(error) => {
                    assert_eq!(error.outcome(), Outcome::Unknown, "{bytes} of {len}: {error}")
                }
            }
        }
    });
}

#[test]
fn a_stalled_line_ends_each_request_by_its_deadline() {
    run(async {
        let proxy = proxy();
        for direction in [Direction::Up, Direction::Down] {
            let t = table("id int").await;
            let client = client_through(
                &proxy,
                "in_flight_max=20&cancel_on_timeout=0&request_timeout_ms=700&connections_max=2",
            )
            .await;
            // Each call has the same short deadline, which a busy machine may miss.
            let mut session = client.session().await.unwrap();
            // On a connection beside that of the session.
            until(async || client.query_one("select 1", &[]).await.is_ok()).await;
            proxy.fault(Fault::Stall { direction }, Scope::All);
            let replies = inserts(&client, &t, 0..40);
            let tx = session.begin().await.unwrap();
            let first = tx.query("select 1", &[]);
            let batch = client.query("select 1", &[]);
            for (id, reply) in replies {
                let outcome = if id < 20 { Outcome::Unknown } else { Outcome::NotSent };
                failed(reply.await, outcome, "timeout");
            }
            failed(batch.await, Outcome::NotSent, "timeout");
            failed(first.await, Outcome::Unknown, "timeout");
            failed(tx.commit().await, Outcome::Unknown, "timeout");
            proxy.fault(Fault::Resume { direction }, Scope::All);
            until(async || client.query_one("select 1", &[]).await.is_ok()).await;
            let there = ids(&t).await;
            assert!(there.iter().all(|id| *id < 20), "{there:?}");
            until(async || session.query_one("select 1", &[]).await.is_ok()).await;
        }
    });
}

#[test]
fn a_pipeline_on_a_stalled_line_ends_by_its_deadline() {
    run(async {
        let proxy = proxy();
        let client = client_through(&proxy, "request_timeout_ms=250").await;
        proxy.fault(Fault::Stall { direction: Direction::Down }, Scope::All);
        let mut pipeline = client.pipeline();
        let reply = pipeline.query("select 1", &[]);
        let sync = pipeline.sync();
        let second = pipeline.query("select 2", &[]);
        failed(pipeline.finish().await, Outcome::Unknown, "timeout");
        failed(sync.await, Outcome::Unknown, "timeout");
        failed(reply.await, Outcome::Unknown, "timeout");
        failed(second.await, Outcome::Unknown, "timeout");
        proxy.fault(Fault::Resume { direction: Direction::Down }, Scope::All);
        // Each call has the same short deadline, which a busy machine may miss.
        until(async || client.query_one("select 1", &[]).await.is_ok()).await;
    });
}

#[test]
fn what_may_hold_values_is_behind_getters_only() {
    run(async {
        let (client, t) = (client().await, table("id int primary key, note text").await);
        let insert = format!("insert into {t} values ($1, $2)");
        client.execute(&insert, &[&4711, &"hidden"]).await.unwrap();
        let error = rejected(client.execute(&insert, &[&4711, &"hidden"]).await, "23505");
        assert_eq!(error.detail(), Some("Key (id)=(4711) already exists."));
        let sources = std::iter::successors(Some(&error as &dyn std::error::Error), |e| e.source());
        for shown in sources.map(|source| format!("{source} {source:?} {source:#?}")) {
            assert!(shown.contains("23505") && !shown.contains("4711"), "{shown}");
        }
        // The error's context quotes the statement of a function.
        let raise = "do $$ begin perform 'hidden', 1 / 0; end $$";
        let error = rejected_or_unknown(client.execute(raise, &[]).await);
        assert!(error.where_().is_some_and(|text| text.contains("hidden")), "{:?}", error.where_());
        assert_eq!(error.hint(), None);
        assert!(!format!("{error} {error:?}").contains("hidden"));
        let error = rejected(client.query("select no_such(1)", &[]).await, "42883");
        assert!(error.hint().is_some());
    });
}

/// A DO may have committed something.
#[track_caller]
fn rejected_or_unknown<T: std::fmt::Debug>(result: Result<T, Error>) -> Error {
    let error = error(result);
    assert_eq!(error.sqlstate(), Some("22012"));
    error
}
