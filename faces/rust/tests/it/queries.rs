//! Statements on a shared connection.

use crate::pooled::shared;
use onetrip::{Client, Kind, Outcome};

use crate::support::*;

#[test]
fn each_kind_of_call_gives_its_kind_of_reply() {
    run(async {
        let (client, t) = (client().await, table("id int").await);
        let insert = format!("insert into {t} select generate_series(1, 3)");
        assert_eq!(client.execute(&insert, &[]).await.unwrap(), 3);
        let rows = client.query(&format!("select id from {t} order by id"), &[]).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<i32>>(), [1, 2, 3]);
        let one = client.query_one(&format!("select id from {t} where id = $1"), &[&2]).await;
        assert_eq!(one.unwrap().get::<i32>("id"), 2);
        let by_id = format!("select id from {t} where id = $1");
        assert_eq!(client.query_opt(&by_id, &[&3]).await.unwrap().unwrap().get::<i32>(0), 3);
        assert!(client.query_opt(&by_id, &[&4]).await.unwrap().is_none());
        assert_eq!(client.execute(&format!("update {t} set id = id + 1"), &[]).await.unwrap(), 3);
        assert_eq!(client.execute(&format!("select * from {t}"), &[]).await.unwrap(), 3);
        assert_eq!(client.execute(&format!("delete from {t} where id = 2"), &[]).await.unwrap(), 1);
        assert_eq!(client.execute(&format!("drop table {t}"), &[]).await.unwrap(), 0);
    });
}

#[test]
fn an_empty_statement_has_no_rows() {
    run(async {
        let client = client().await;
        for nothing in ["", "  ", ";", "-- nothing"] {
            assert_eq!(client.execute(nothing, &[]).await.unwrap(), 0);
            assert!(client.query(nothing, &[]).await.unwrap().is_empty());
        }
        assert_usable(&client).await;
    });
}

/// P9. Replies end in different ways: with rows or without, with columns or without, without any
/// command. None may end early, or include the next one.
#[test]
fn replies_of_every_form_end_where_they_end() {
    run(async {
        let (client, t) = (client_with("connections_max=1").await, table("id int").await);
        let texts = [
            ("", 0),
            ("select 1 where false", 0),
            ("select from generate_series(1, 3)", 3),
            (&format!("insert into {t} values (1)"), 0),
            (&format!("insert into {t} values (2) returning id"), 1),
            (&format!("create index on {t} (id)"), 0),
            ("-- nothing", 0),
            ("values (1), (2)", 2),
        ];
        for _ in 0..3 {
            let isolated: Vec<_> = texts.iter().map(|(sql, _)| client.query(*sql, &[])).collect();
            let mut pipeline = client.pipeline();
            let piped: Vec<_> = texts.iter().map(|(sql, _)| pipeline.query(*sql, &[])).collect();
            pipeline.finish().await.unwrap();
            for (reply, (sql, rows)) in isolated.into_iter().chain(piped).zip(texts.iter().cycle())
            {
                assert_eq!(reply.await.unwrap().len(), *rows, "{sql:?}");
            }
            for (sql, rows) in texts {
                let statement = client.prepare(sql).await.unwrap();
                assert_eq!(client.query(&statement, &[]).await.unwrap().len(), rows, "{sql:?}");
            }
        }
    });
}

#[test]
fn a_server_error_is_rejected_and_leaves_its_neighbours_alone() {
    run(async {
        let client = client().await;
        let before = client.query_one("select 1", &[]);
        let failing = client.query("select 1/0", &[]);
        let syntax = client.query("selec 1", &[]);
        let after = client.query_one("select 3", &[]);
        assert_eq!(before.await.unwrap().get::<i32>(0), 1);
        let error = rejected(failing.await, "22012");
        assert_eq!((error.kind(), error.code()), (Kind::Server, "server_error"));
        assert!(error.to_string().contains("division by zero"), "{error}");
        assert!(error.to_string().contains("22012"), "{error}");
        assert_eq!(error.server().unwrap().code, "22012");
        assert!(!error.is_retry_safe() && !error.is_connection_lost());
        rejected(syntax.await, "42601");
        assert_eq!(after.await.unwrap().get::<i32>(0), 3);
    });
}

#[test]
fn an_error_in_the_middle_of_the_rows_is_an_error() {
    run(async {
        let client = client().await;
        let sql = "select 1 / (5000 - i), repeat('x', 100) from generate_series(1, 6000) i";
        rejected(client.query(sql, &[]).await, "22012");
        rejected(client.execute(sql, &[]).await, "22012");
        assert_usable(&client).await;
    });
}

/// P13. The same if each statement has a sync point of its own. The commit fails behind
/// CommandComplete, so success must not be reported before ReadyForQuery.
#[test]
fn a_deferred_constraint_fails_the_statement_that_broke_it() {
    run(async {
        let (client, t) = (client().await, deferred_table().await);
        let insert = format!("insert into {t} (id, parent) values ($1, $2)");
        let bad = client.execute(&insert, &[&1, &99]);
        let good = client.execute(&insert, &[&2, &2]);
        rejected(bad.await, "23503");
        assert_eq!(good.await.unwrap(), 1);
        let returning = format!("insert into {t} (id, parent) values (3, 99) returning id");
        rejected(client.query_one(&returning, &[]).await, "23503");
        assert_eq!(ids(&t).await, [2].into());
    });
}

pub(crate) async fn deferred_table() -> String {
    let name = shared().new_name();
    let columns =
        format!("id int primary key, parent int references {name} deferrable initially deferred");
    session().await.script(&format!("create table {name} ({columns})")).await.unwrap();
    name
}

#[test]
fn a_call_submits_when_made_not_when_polled() {
    run(async {
        let (client, t) = (client().await, table("id int").await);
        let replies: Vec<_> = (0..3)
            .map(|id| client.execute(&format!("insert into {t} values ($1)"), &[&id]))
            .collect();
        // Nothing is polled, and yet the rows appear.
        let other = session().await;
        until(async || count(&other, &t).await == 3).await;
        for reply in replies {
            assert_eq!(reply.await.unwrap(), 1);
        }
    });
}

#[test]
fn a_reply_dropped_before_it_was_polled_lets_its_statement_run() {
    run(async {
        let (client, t) = (client().await, table("id int").await);
        drop(client.execute(&format!("insert into {t} values (7)"), &[]));
        drop(client.query("select 1/0", &[]));
        assert_usable(&client).await;
        assert_eq!(ids(&t).await, [7].into());
    });
}

#[test]
fn statements_on_one_connection_run_in_the_order_of_the_calls() {
    run(async {
        let client = client_with("in_flight_max=7&connections_max=1").await;
        let t = table("place serial, id int").await;
        let insert = format!("insert into {t} (id) values ($1)");
        let replies: Vec<_> = (0..500).map(|id| client.execute(&insert, &[&id])).collect();
        for reply in replies {
            assert_eq!(reply.await.unwrap(), 1);
        }
        let rows = client.query(&format!("select id from {t} order by place"), &[]).await.unwrap();
        assert!(rows.iter().map(|row| row.get::<i32>(0)).eq(0..500));
    });
}

#[test]
fn replies_may_be_awaited_in_any_order() {
    run(async {
        let client = client().await;
        let replies: Vec<_> = (0..2000).map(|i| client.query_one("select $1", &[&i])).collect();
        for (i, reply) in (0..2000).zip(replies).rev() {
            assert_eq!(reply.await.unwrap().get::<i32>(0), i);
        }
    });
}

#[test]
fn many_tasks_on_many_threads_each_get_their_own_replies() {
    run_threads(async {
        let client = client_with("in_flight_max=64").await;
        let tasks: Vec<_> = (0..32).map(|task| tokio::spawn(talk(client.clone(), task))).collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_usable(&client).await;
        // Requests whose replies were dropped may still be in flight, on other connections of the
        // pool.
        until(async || client.pending().in_flight + client.pending().queued == 0).await;
    });
}

async fn talk(client: Client, task: i32) {
    let mut random = Random(task as u64);
    for round in 0..100 {
        let own = task * 1000 + round;
        match random.below(5) {
            0 => drop(client.query_one("select $1", &[&own])),
            1 => {
                rejected(client.query_one("select $1 / 0", &[&own]).await, "22012");
            }
            2 => {
                let mut pipeline = client.pipeline();
                let a = pipeline.query_one("select $1", &[&own]);
                let b = pipeline.query_one("select $1 + 1", &[&own]);
                pipeline.finish().await.unwrap();
                assert_eq!(a.await.unwrap().get::<i32>(0), own);
                assert_eq!(b.await.unwrap().get::<i32>(0), own + 1);
            }
            _ => {
                let (a, b) = (
                    client.query_one("select $1, 'a'", &[&own]),
                    client.query_one("select $1 + 7", &[&own]),
                );
                let (a, b) = tokio::join!(a, b);
                assert_eq!(a.unwrap().get::<i32>(0), own);
                assert_eq!(b.unwrap().get::<i32>(0), own + 7);
            }
        }
    }
}

#[test]
fn the_last_clone_takes_the_connection_with_it_when_all_is_answered() {
    run(async {
        let client = client().await;
        let pid = pid_of(&client).await;
        let clone = client.clone();
        drop(client);
        assert_usable(&clone).await;
        let reply = clone.query_one("select 5", &[]);
        drop(clone);
        assert_eq!(reply.await.unwrap().get::<i32>(0), 5);
        let other = session().await;
        let gone = format!("pg_stat_activity where pid = {pid}");
        until(async || count(&other, &gone).await == 0).await;
    });
}

#[test]
fn large_statements_and_large_rows_pass() {
    run(async {
        let client = client().await;
        let text = "ä€😀".repeat(500_000); // 4.5 MB: more than the window, which then holds it alone.
        let replies: Vec<_> =
            (0..3).map(|i| client.query_one("select $1::text, $2", &[&text, &i])).collect();
        for (i, reply) in (0..3).zip(replies) {
            let row = reply.await.unwrap();
            assert!(row.get::<&str>(0) == text);
            assert_eq!(row.get::<i32>(1), i);
        }
        let rows =
            client.query("select i, repeat('y', 1000) from generate_series(1, 20000) i", &[]);
        let (rows, small) = tokio::join!(rows, client.query_one("select 1", &[]));
        assert!(rows.unwrap().iter().zip(1..=20_000).all(|(row, i)| row.get::<i32>(0) == i));
        assert_eq!(small.unwrap().get::<i32>(0), 1);
    });
}

#[test]
fn settings_that_the_server_reports_are_known() {
    run(async {
        let client = client_with("application_name=it").await;
        assert!(client.parameter("server_version").unwrap().starts_with(shared().version()));
        assert_eq!(client.parameter("application_name").as_deref(), Some("it"));
        assert_eq!(client.parameter("no such thing"), None);
        assert!(!client.is_closed());
    });
}

#[test]
fn call_and_do_that_fail_say_that_their_effect_is_unknown() {
    run(async {
        if is_before(11, "CALL") {
            return;
        }
        let (client, t, procedure) = (client().await, table("id int").await, shared().new_name());
        let body = format!("begin insert into {t} values (1); commit; perform 1/0; end");
        let create = format!("create procedure {procedure}() language plpgsql as $$ {body} $$");
        client.execute(&create, &[]).await.unwrap();
        let error = error(client.execute(&format!("call {procedure}()"), &[]).await);
        assert_eq!((error.outcome(), error.sqlstate()), (Outcome::Unknown, Some("22012")));
        assert_eq!(ids(&t).await, [1].into());
    });
}
