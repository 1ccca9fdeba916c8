//! The pool: which caller gets which connection, who waits, what comes back, and what is closed.

use std::collections::BTreeSet;
use std::time::Duration;

use onetrip::{Client, Outcome, Session};
use onetrip_lab::proxy::{Direction, Fault, Scope};

use crate::pooled::shared;
use crate::support::*;

async fn pid(session: &Session) -> i32 {
    session.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0)
}

/// How many connections the server has under this application name.
async fn connections(name: &str) -> i64 {
    let sql = "select count(*) from pg_stat_activity where application_name = $1";
    session().await.query_one(sql, &[&name]).await.unwrap().get(0)
}

#[test]
fn a_session_that_ends_leaves_its_connection_to_the_next() {
    run(async {
        let client = client().await;
        let first = pid(&client.session().await.unwrap()).await;
        for _ in 0..10 {
            assert_eq!(pid(&client.session().await.unwrap()).await, first);
        }
    });
}

#[test]
fn sessions_beside_one_another_have_connections_of_their_own() {
    run(async {
        let client = client().await;
        let mut sessions = Vec::new();
        for _ in 0..10 {
            sessions.push(client.session().await.unwrap());
        }
        let mut pids = BTreeSet::new();
        for session in &sessions {
            pids.insert(pid(session).await);
        }
        assert_eq!(pids.len(), 10);
    });
}

#[test]
fn there_are_never_more_connections_than_the_limit() {
    run_threads(async {
        let client = client_with("connections_max=3&application_name=limit_of_three").await;
        let tasks: Vec<_> = (0..50)
            .map(|task| {
                let client = client.clone();
                tokio::spawn(async move {
                    for i in 0..20 {
                        if (task + i) % 3 == 0 {
                            let session = client.session().await.unwrap();
                            let row = session.query_one("select $1::int", &[&i]).await.unwrap();
                            assert_eq!(row.get::<i32>(0), i);
                        } else {
                            let row = client.query_one("select $1::int", &[&i]).await.unwrap();
                            assert_eq!(row.get::<i32>(0), i);
                        }
                    }
                })
            })
            .collect();
        let mut most = 0;
        while !tasks.iter().all(tokio::task::JoinHandle::is_finished) {
            most = most.max(connections("limit_of_three").await);
        }
        for task in tasks {
            task.await.unwrap();
        }
        assert!(most <= 3, "{most}");
    });
}

#[test]
fn with_one_connection_sessions_and_statements_take_turns() {
    run(async {
        let client = client_with("connections_max=1").await;
        for i in 0..5 {
            let session = client.session().await.unwrap();
            let waits = client.query_one("select $1::int", &[&i]);
            let mut pipeline = client.pipeline();
            let piped = pipeline.query_one("select $1::int + 1", &[&i]);
            let finish = pipeline.finish();
            assert_eq!(client.pending().waiting, 2);
            session.query("select 1", &[]).await.unwrap();
            drop(session);
            assert_eq!(waits.await.unwrap().get::<i32>(0), i);
            finish.await.unwrap();
            assert_eq!(piped.await.unwrap().get::<i32>(0), i + 1);
        }
    });
}

#[test]
fn a_pipeline_that_waits_for_a_connection_is_whole_when_it_gets_one() {
    run(async {
        let (client, t) = (client_with("connections_max=1").await, table("id int").await);
        let insert = format!("insert into {t} values ($1)");
        let session = client.session().await.unwrap();
        let mut pipeline = client.pipeline();
        let first = pipeline.execute(&insert, &[&1]);
        let sync = pipeline.sync();
        let failing = pipeline.execute("select 1 / 0", &[]);
        let skipped = pipeline.execute(&insert, &[&2]);
        let failed_sync = pipeline.sync();
        drop(pipeline.execute(&insert, &[&3]));
        let finish = pipeline.finish();
        drop(session);
        rejected(finish.await, "22012");
        assert_eq!(first.await.unwrap(), 1);
        sync.await.unwrap();
        rejected(failing.await, "22012");
        error(skipped.await);
        error(failed_sync.await);
        assert_eq!(ids(&t).await, [1, 3].into());
        assert_usable(&client).await;
    });
}

#[test]
fn a_pipeline_that_is_dropped_while_it_waits_sends_nothing() {
    run(async {
        let (client, t) = (client_with("connections_max=1").await, table("id int").await);
        let session = client.session().await.unwrap();
        let mut pipeline = client.pipeline();
        let reply = pipeline.execute(&format!("insert into {t} values (1)"), &[]);
        drop(pipeline);
        failed(reply.await, Outcome::NotSent, "cancelled");
        drop(session);
        assert_usable(&client).await;
        assert!(ids(&t).await.is_empty());
    });
}

#[test]
fn waiters_are_served_in_the_order_in_which_they_came() {
    run(async {
        let client = client_with("connections_max=1").await;
        let held = client.session().await.unwrap();
        let order = std::cell::RefCell::new(Vec::new());
        let waiter = async |number: i32| {
            let session = client.session().await.unwrap();
            order.borrow_mut().push(number);
            session.query("select 1", &[]).await.unwrap();
        };
        let first = async {
            drop(held);
        };
        tokio::join!(biased; waiter(1), waiter(2), waiter(3), waiter(4), first);
        assert_eq!(*order.borrow(), [1, 2, 3, 4]);
    });
}

#[test]
fn a_waiter_that_gives_up_leaves_no_hole() {
    run(async {
        let client = client_with("connections_max=1").await;
        let held = client.session().await.unwrap();
        let mut first = Box::pin(client.session());
        let mut second = Box::pin(client.session());
        assert!(!poll_once(&mut first).await && !poll_once(&mut second).await);
        assert_eq!(client.pending().waiting, 2);
        drop(first);
        assert_eq!(client.pending().waiting, 1);
        drop(held);
        second.await.unwrap().query("select 1", &[]).await.unwrap();
        // Given up just when it is granted.
        let held = client.session().await.unwrap();
        let mut waits = Box::pin(client.session());
        assert!(!poll_once(&mut waits).await);
        drop(held);
        drop(waits);
        assert_usable(&client).await;
        client.session().await.unwrap();
    });
}

#[test]
fn who_waits_too_long_is_told_what_to_do() {
    run(async {
        let client = client_with("connections_max=1&wait_timeout_ms=50").await;
        let held = client.session().await.unwrap();
        for _ in 0..2 {
            let error = failed(client.session().await, Outcome::NotSent, "wait_timeout");
            for part in ["up to 1 (connections_max)", "at most 50 ms (wait_timeout_ms)"] {
                assert!(error.to_string().contains(part), "{error}");
            }
            failed(client.query("select 1", &[]).await, Outcome::NotSent, "wait_timeout");
            let mut pipeline = client.pipeline();
            let reply = pipeline.query("select 1", &[]);
            failed(pipeline.finish().await, Outcome::NotSent, "wait_timeout");
            failed(reply.await, Outcome::NotSent, "wait_timeout");
        }
        drop(held);
        // Each call waits as shortly, which a busy machine may miss.
        until(async || client.query_one("select 1", &[]).await.is_ok()).await;
    });
}

/// The caller's own deadline is no setting of the pool, so the error names no setting.
#[test]
fn who_waits_no_longer_than_its_own_deadline_is_told_of_that() {
    run(async {
        let client = client_with("connections_max=1&wait_timeout_ms=20000").await;
        let held = client.session().await.unwrap();
        let hurried = client.timeout(Duration::from_millis(2));
        for _ in 0..2 {
            let error = failed(hurried.query("select 1", &[]).await, Outcome::NotSent, "timeout");
            assert!(!error.to_string().contains("connections_max"), "{error}");
            assert!(error.to_string().contains("before a connection was free"), "{error}");
        }
        drop(held);
        assert_usable(&client).await;
    });
}

#[test]
fn more_waiters_than_the_limit_are_refused() {
    run(async {
        let client = client_with("connections_max=1&waiting_max=2").await;
        let held = client.session().await.unwrap();
        let mut waiting = [Box::pin(client.session()), Box::pin(client.session())];
        for session in &mut waiting {
            assert!(!poll_once(session).await);
        }
        let error = failed(client.session().await, Outcome::NotSent, "waiting_full");
        assert!(error.to_string().contains("2 do already (waiting_max)"), "{error}");
        failed(client.query("select 1", &[]).await, Outcome::NotSent, "waiting_full");
        drop(held);
        for session in waiting {
            session.await.unwrap();
        }
    });
}

/// Changes everything in a session that can be changed.
async fn spoil(session: &Session, temporary: &str) {
    for sql in [
        "set application_name = 'spoilt'",
        "set role pg_monitor",
        "reset role",
        "set search_path = pg_catalog",
        "select pg_advisory_lock(77)",
        "listen something",
        "declare c cursor with hold for select 1",
    ] {
        session.execute(sql, &[]).await.unwrap();
    }
    session.execute(&format!("create temp table {temporary} (id int)"), &[]).await.unwrap();
}

async fn assert_clean(session: &Session) {
    let sql = "select current_setting('application_name'), current_setting('search_path'),
        (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()),
        (select count(*) from pg_listening_channels()), (select count(*) from pg_cursors where name <> ''),
        (select count(*) from pg_class where relpersistence = 't' and relkind = 'r'
            and relnamespace = pg_my_temp_schema())";
    let row = session.query_one(sql, &[]).await.unwrap();
    assert_eq!(row.get::<&str>(0), "");
    assert_eq!(row.get::<&str>(1), "\"$user\", public");
    for column in 2..6 {
        assert_eq!(row.get::<i64>(column), 0, "column {column}");
    }
}

#[test]
fn a_session_that_was_changed_is_reset_for_the_next_without_a_trip() {
    run(async {
        let proxy = proxy();
        let client = client_through(&proxy, "connections_max=1").await;
        let session = client.session().await.unwrap();
        spoil(&session, &crate::pooled::shared().new_name()).await;
        let spoilt = pid(&session).await;
        drop(session);
        let session = client.session().await.unwrap();
        proxy.reset_stats();
        assert_clean(&session).await;
        assert_eq!(proxy.stats().trips, 1);
        assert_eq!(pid(&session).await, spoilt);
    });
}

/// P32. Everything that a session may leave behind; each of these has leaked out of some pool.
#[test]
fn nothing_that_a_session_left_reaches_its_next_user() {
    run(async {
        let client = client_with("connections_max=1").await;
        let [role, sequence, temporary] =
            [(); 3].map(|()| onetrip_lab::postgres::shared().new_name());
        let set_up = format!("create role {role}; create sequence {sequence}");
        crate::support::session().await.script(&set_up).await.unwrap();
        for sql in [
            "set application_name = 'spoilt'",
            "select set_config('search_path', 'nowhere', false)",
            "select set_config('onetrip.mine', 'leaks', false), 1 from (select 1) x -- set ",
            "set session characteristics as transaction isolation level serializable",
            "select pg_advisory_lock(79)",
            "listen something",
            "declare c cursor with hold for select 1",
            "prepare mine as select 1",
            &format!("select nextval('public.{sequence}')"),
            &format!("create temp table {temporary} (id int)"),
            &format!("set role {role}"),
            &format!("set session authorization {role}"),
        ] {
            let session = client.session().await.unwrap();
            let spoilt = pid(&session).await;
            session.execute(sql, &[]).await.unwrap();
            drop(session);
            let session = client.session().await.unwrap();
            assert_eq!(pid(&session).await, spoilt, "{sql}");
            assert_clean(&session).await;
            let state = "select session_user::text = 'postgres' and current_user = 'postgres',
                current_setting('onetrip.mine', true) is distinct from 'leaks',
                current_setting('default_transaction_isolation') = 'read committed',
                not exists (select from pg_prepared_statements where name = 'mine')";
            let row = session.query_one(state, &[]).await.unwrap();
            for column in 0..4 {
                assert!(row.get::<bool>(column), "column {column} after {sql}");
            }
            rejected(session.query("select lastval()", &[]).await, "55000");
        }
    });
}

/// P32. Statements under a user's own names go with the session, and ours are prepared again when
/// they are used next.
#[test]
fn a_name_that_a_session_prepared_is_free_for_the_next() {
    run(async {
        let client = client_with("connections_max=1&prepare_threshold=1").await;
        let text = "select 41 + $1::int";
        for round in 0..3 {
            let mut session = client.session().await.unwrap();
            let tx = session.begin().await.unwrap();
            assert_eq!(tx.query_one(text, &[&1]).await.unwrap().get::<i32>(0), 42);
            assert_eq!(tx.query_one(text, &[&2]).await.unwrap().get::<i32>(0), 43);
            tx.commit().await.unwrap();
            session.execute(&format!("prepare mine as select {round}"), &[]).await.unwrap();
            let row = session.query_one("execute mine", &[]).await.unwrap();
            assert_eq!(row.get::<i32>(0), round);
        }
    });
}

/// P19. After a reset that deallocates, every user of a connection has to prepare again.
#[test]
fn a_reset_keeps_what_was_prepared() {
    run(async {
        let client = client_with("connections_max=1&prepare_threshold=1").await;
        let mut prepared = Vec::new();
        for _ in 0..4 {
            let session = client.session().await.unwrap();
            session.query_one("select 41 + $1::int", &[&1]).await.unwrap();
            let sql = "select prepare_time::text from pg_prepared_statements
                where statement like 'select 41%'";
            let since = session.query_one(&onetrip::unprepared(sql), &[]).await.unwrap();
            prepared.push(since.get::<String>(0));
            session.execute("set work_mem = '99kB'", &[]).await.unwrap();
        }
        assert_eq!(prepared, [&*prepared[0]; 4]);
    });
}

#[test]
fn an_open_or_failed_transaction_is_undone_for_the_next() {
    run(async {
        let (client, t) = (client_with("connections_max=1").await, table("id int").await);
        for fails in [false, true] {
            let session = client.session().await.unwrap();
            let spoilt = pid(&session).await;
            session.execute("begin", &[]).await.unwrap();
            session.execute(&format!("insert into {t} values (1)"), &[]).await.unwrap();
            if fails {
                rejected(session.execute("select 1 / 0", &[]).await, "22012");
            }
            drop(session);
            let session = client.session().await.unwrap();
            assert_eq!(pid(&session).await, spoilt);
            assert_clean(&session).await;
            assert!(ids(&t).await.is_empty());
        }
    });
}

#[test]
fn a_shared_statement_comes_after_the_reset_too() {
    run(async {
        let client = client_with("connections_max=1").await;
        let session = client.session().await.unwrap();
        session.execute("set search_path = nowhere", &[]).await.unwrap();
        drop(session);
        let path = client.query_one("select current_setting('search_path')", &[]).await.unwrap();
        assert_eq!(path.get::<&str>(0), "\"$user\", public");
    });
}

/// P32.
#[test]
fn what_a_session_holds_is_let_go_though_nobody_comes() {
    run(async {
        let client = client().await;
        let session = client.session().await.unwrap();
        session.execute("select pg_advisory_lock(78)", &[]).await.unwrap();
        drop(session);
        let other = crate::support::session().await;
        until(async || {
            let sql = "select pg_try_advisory_lock(78)";
            other.query_one(sql, &[]).await.unwrap().get(0)
        })
        .await;
    });
}

/// P19.
#[test]
fn a_clean_session_is_not_reset_and_prepared_statements_stay() {
    run(async {
        let proxy = proxy();
        let client = client_through(&proxy, "connections_max=1&prepare_threshold=1").await;
        let mut bytes = Vec::new();
        for _ in 0..4 {
            let mut session = client.session().await.unwrap();
            // Once, the client also asks who the peer is.
            session.query_one("select 1", &[]).await.unwrap();
            proxy.reset_stats();
            let tx = session.begin().await.unwrap();
            tx.query_one("select 41", &[]).await.unwrap();
            tx.commit().await.unwrap();
            bytes.push(proxy.stats().bytes_up);
        }
        assert_eq!(bytes[1..], [bytes[1]; 3], "something was sent beside it, or prepared anew");
        assert!(bytes[1] < bytes[0], "it was not prepared: {bytes:?}");
    });
}

#[test]
fn a_session_that_is_dropped_while_it_is_busy_comes_back_when_it_is_done() {
    run(async {
        let (gate, client) = (Gate::closed().await, client_with("connections_max=1").await);
        let session = client.session().await.unwrap();
        drop(session.query(&gate.statement(), &[]));
        gate.waiting_pid().await;
        drop(session);
        let mut next = Box::pin(client.session());
        assert!(!poll_once(&mut next).await);
        gate.open().await;
        next.await.unwrap().query("select 1", &[]).await.unwrap();
    });
}

#[test]
fn a_broken_session_gives_its_place_back() {
    run(async {
        let client = client_with("connections_max=1").await;
        let session = client.session().await.unwrap();
        terminate(pid(&session).await).await;
        error(session.query("select 1", &[]).await);
        let next = client.session().await.unwrap();
        next.query("select 1", &[]).await.unwrap();
        drop(session);
        next.query("select 1", &[]).await.unwrap();
    });
}

/// P34. A server works on one statement of a connection at a time, so statements behind a slow one
/// wait.
#[test]
fn statements_are_spread_while_a_slow_one_runs() {
    run(async {
        let (gate, client) = (Gate::closed().await, client_with("connections_max=3").await);
        let slow = client.query(&gate.statement(), &[]);
        gate.waiting_pid().await;
        // It waits for another connection, which is opened for it.
        let behind = client.query("select 1", &[]);
        until(async || client.connections() == 2).await;
        for i in 0..50 {
            assert_eq!(client.query_one("select $1::int", &[&i]).await.unwrap().get::<i32>(0), i);
        }
        gate.open().await;
        slow.await.unwrap();
        behind.await.unwrap();
    });
}

#[test]
fn a_server_that_comes_back_is_found() {
    run(async {
        let proxy = proxy();
        let client = client_through(&proxy, "wait_timeout_ms=10000").await;
        let cut = Fault::ResetAfter { direction: Direction::Down, bytes: 0 };
        proxy.fault(cut, Scope::All);
        error(client.query("select 1", &[]).await);
        let waits = client.query_one("select 20 + $1", &[&22]);
        // From now on connections are not cut.
        let never = Fault::ResetAfter { direction: Direction::Down, bytes: u64::MAX };
        proxy.fault(never, Scope::Future);
        assert_eq!(waits.await.unwrap().get::<i32>(0), 42);
    });
}

#[test]
fn idle_connections_are_closed_and_the_least_are_kept() {
    run(async {
        let name = "idle_ones_go";
        let client =
            client_with(&format!("idle_timeout_ms=100&connections_min=1&application_name={name}"))
                .await;
        let mut sessions = Vec::new();
        for _ in 0..5 {
            sessions.push(client.session().await.unwrap());
        }
        assert_eq!(connections(name).await, 5);
        drop(sessions);
        until(async || connections(name).await == 1).await;
        assert_usable(&client).await;
    });
}

#[test]
fn a_client_that_is_dropped_closes_what_it_has() {
    run(async {
        let name = "dropped_clients_close";
        let client = client_with(&format!("application_name={name}")).await;
        let (a, b) = (client.session().await.unwrap(), client.session().await.unwrap());
        drop(a);
        let submitted = client.query_one("select 5", &[]);
        let waits = { client.clone() };
        drop((client, waits));
        assert_eq!(submitted.await.unwrap().get::<i32>(0), 5);
        b.query("select 1", &[]).await.unwrap();
        drop(b);
        until(async || connections(name).await == 0).await;
    });
}

#[test]
fn a_wrong_password_fails_at_once_and_not_after_a_wait() {
    run(async {
        let url = crate::pooled::shared().url();
        let (start, rest) = url.split_once("://").unwrap();
        let (_, host) = rest.split_once('@').unwrap();
        let url = format!("{start}://postgres:wrong@{host}");
        let ended = tokio::time::timeout(Duration::from_secs(5), Client::connect(&url)).await;
        let error = error(ended.expect("it waits for what never comes"));
        assert_eq!(error.sqlstate(), Some("28P01"));
    });
}

#[test]
fn a_client_that_is_closed_answers_what_it_has_and_has_told_the_server() {
    run(async {
        let name = shared().new_name();
        let client = client_with(&format!("connections_max=3&application_name={name}")).await;
        let clone = client.clone();
        let (one, two) = (client.session().await.unwrap(), client.session().await.unwrap());
        let running = client.query_one("select pg_sleep(0.05), 1", &[]);
        drop((one, two));
        client.close(PATIENCE).await.unwrap();
        // A pooler keeps its own connections.
        if !shared().is_pooled() {
            assert_eq!(connections(&name).await, 0);
        }
        assert_eq!(running.await.unwrap().get::<i32>(1), 1);
        failed(clone.query("select 1", &[]).await, Outcome::NotSent, "closed");
        failed(clone.session().await, Outcome::NotSent, "closed");
        // Closing again does no harm.
        clone.close(PATIENCE).await.unwrap();
    });
}

#[test]
fn a_client_that_is_closed_waits_for_sessions_no_longer_than_it_was_told() {
    run(async {
        let (observer, name) = (session().await, shared().new_name());
        let client = client_with(&format!("application_name={name}")).await;
        let held = client.session().await.unwrap();
        let running = held.query("select pg_sleep(60)", &[]);
        let closing = client.close(Duration::from_millis(50)).await;
        let error = failed(closing, Outcome::Unknown, "close_timeout");
        assert!(error.to_string().starts_with("1 connections were still in use"), "{error}");
        failed(running.await, Outcome::Unknown, "connection_lost");
        assert!(held.is_closed());
        if !shared().is_pooled() {
            let terminated = "select pg_terminate_backend(pid) from pg_stat_activity \
                              where application_name = $1";
            observer.query(terminated, &[&name]).await.unwrap();
            until(async || connections(&name).await == 0).await;
        }
        client.close(PATIENCE).await.unwrap();
    });
}

#[test]
fn a_refusal_that_time_does_not_mend_fails_at_once_whenever_it_comes() {
    run(async {
        if crate::pooled::shared().is_pooled() {
            return skipped("a pooler in between answers for the server");
        }
        let admin = session().await;
        admin.execute("create database closed_later", &[]).await.unwrap();
        let url = crate::pooled::shared().database_url("closed_later");
        let client = Client::connect(&format!("{url}?connections_max=1")).await.unwrap();
        let pid = pid_of(&client).await;
        let close = "alter database closed_later allow_connections false";
        admin.execute(close, &[]).await.unwrap();
        terminate(pid).await;
        until(async || client.connections() == 0).await;
        let waits = tokio::time::timeout(Duration::from_secs(5), client.session()).await;
        let error = error(waits.expect("it waits for what never comes"));
        assert_eq!((error.sqlstate(), error.outcome()), (Some("55000"), Outcome::NotSent));
        drop(client);
        admin.execute("drop database closed_later", &[]).await.unwrap();
    });
}
