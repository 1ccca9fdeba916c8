//! Statements that are prepared by counting their uses.

use std::time::Duration;

use onetrip::{Client, Kind, Session, unprepared};

use crate::support::*;

/// How many statements the server keeps for a session. This query must not be prepared itself.
async fn prepared(session: &Session) -> i64 {
    let sql = "select count(*) from pg_prepared_statements";
    session.query_one(&unprepared(sql), &[]).await.unwrap().get(0)
}

/// Uses a text this many times.
async fn use_often(session: &Session, sql: &str, times: i32) {
    for i in 0..times {
        assert_eq!(session.query_one(sql, &[&i]).await.unwrap().get::<i32>(0), i);
    }
}

const ECHO: &str = "select $1::int";

async fn session_with(settings: &str) -> Session {
    client_with(settings).await.session().await.unwrap()
}

#[test]
fn a_text_is_prepared_at_its_fifth_use() {
    run(async {
        let session = session().await;
        use_often(&session, ECHO, 4).await;
        assert_eq!(prepared(&session).await, 0);
        use_often(&session, ECHO, 20).await;
        assert_eq!(prepared(&session).await, 1);
        use_often(&session, "select $1::int + 0", 5).await;
        assert_eq!(prepared(&session).await, 2);
    });
}

#[test]
fn the_threshold_is_a_setting() {
    run(async {
        let never = session_with("prepare_threshold=0").await;
        use_often(&never, ECHO, 20).await;
        assert_eq!(prepared(&never).await, 0);
        let at_once = session_with("prepare_threshold=1").await;
        use_often(&at_once, ECHO, 1).await;
        assert_eq!(prepared(&at_once).await, 1);
        use_often(&at_once, ECHO, 3).await;
        assert_eq!(prepared(&at_once).await, 1);
    });
}

/// P21. A plan that fits all parameters may be worse than one for these, so a caller must be able
/// to do without.
#[test]
fn a_statement_can_be_left_out() {
    run(async {
        let session = session_with("prepare_threshold=1").await;
        for i in 0..3 {
            let row = session.query_one(&unprepared(ECHO), &[&i]).await.unwrap();
            assert_eq!(row.get::<i32>(0), i);
        }
        assert_eq!(prepared(&session).await, 0);
    });
}

#[test]
fn uses_are_counted_over_all_connections() {
    run(async {
        let client = client().await;
        let (a, b) = (client.session().await.unwrap(), client.session().await.unwrap());
        use_often(&a, ECHO, 3).await;
        use_often(&b, ECHO, 1).await;
        assert_eq!((prepared(&a).await, prepared(&b).await), (0, 0));
        use_often(&b, ECHO, 1).await;
        assert_eq!((prepared(&a).await, prepared(&b).await), (0, 1));
        use_often(&a, ECHO, 1).await;
        assert_eq!(prepared(&a).await, 1);
    });
}

/// P22. Prepared statements take memory of the server on each connection, so their number has a
/// limit; counted at the server.
#[test]
fn the_least_recently_used_statement_is_closed() {
    run(async {
        let session = session_with("prepare_threshold=1&prepared_max=3").await;
        let text = |i: i32| format!("select $1::int -- {i}");
        for i in 0..10 {
            use_often(&session, &text(i), 1).await;
            use_often(&session, &text(0), 1).await;
        }
        // The Close leaves with the next request.
        assert_eq!(prepared(&session).await, 3);
        let kept = unprepared("select statement like '%-- 0' from pg_prepared_statements");
        let rows = session.query(&kept, &[]).await.unwrap();
        assert!(rows.iter().any(|row| row.get(0)), "the one that was used all the time is gone");
    });
}

#[test]
fn everyone_behind_the_first_may_use_it_before_the_server_has_answered() {
    run(async {
        let proxy = proxy();
        let client = client_through(&proxy, "prepare_threshold=2&connections_max=1").await;
        client.query_one(ECHO, &[&0]).await.unwrap();
        proxy.reset_stats();
        let replies: Vec<_> = (0..100).map(|i| client.query_one(ECHO, &[&i])).collect();
        for (i, reply) in (0..100).zip(replies) {
            assert_eq!(reply.await.unwrap().get::<i32>(0), i);
        }
        assert!(proxy.stats().trips <= 2, "{}", proxy.stats().trips);
        let names = "select count(*)::int from pg_prepared_statements where statement = $1";
        let one = client.query_one(&unprepared(names), &[&ECHO]).await.unwrap();
        assert_eq!(one.get::<i32>(0), 1);
    });
}

#[test]
fn nobody_is_failed_by_anothers_parse() {
    run(async {
        let (client, t) = (client_with("prepare_threshold=2").await, table("id int").await);
        let sql = format!("select count(*)::int from {t}");
        let count = async |client: &Client| client.query_one(&sql, &[]).await;
        count(&client).await.unwrap();
        session().await.script(&format!("drop table {t}")).await.unwrap();
        let replies: Vec<_> = (0..10).map(|_| client.query_one(&sql, &[])).collect();
        for reply in replies {
            rejected(reply.await, "42P01");
        }
        session().await.script(&format!("create table {t} (id int)")).await.unwrap();
        for _ in 0..3 {
            assert_eq!(count(&client).await.unwrap().get::<i32>(0), 0);
        }
    });
}

#[test]
fn nobody_is_failed_by_a_parse_that_was_taken_back() {
    run(async {
        let gate = Gate::closed().await;
        let client = client_with("prepare_threshold=2&in_flight_max=1").await;
        client.query_one(ECHO, &[&0]).await.unwrap();
        let waits = client.query(&gate.statement(), &[]);
        let parses = client.query_one(ECHO, &[&1]);
        let behind = client.query_one(ECHO, &[&2]);
        drop(parses);
        gate.open().await;
        waits.await.unwrap();
        assert_eq!(behind.await.unwrap().get::<i32>(0), 2);
        assert_eq!(client.query_one(ECHO, &[&3]).await.unwrap().get::<i32>(0), 3);
    });
}

#[test]
fn a_dropped_reply_that_prepared_leaves_the_columns_known() {
    run(async {
        let client = client_with("prepare_threshold=2").await;
        let sql = "select $1::int as number, 'x' as letter";
        client.query_one(sql, &[&0]).await.unwrap();
        drop(client.query_one(sql, &[&1]));
        for reply in [client.query_one(sql, &[&2]), client.query_one(sql, &[&2])] {
            let row = reply.await.unwrap();
            assert_eq!((row.get::<i32>("number"), row.get::<&str>("letter")), (2, "x"));
        }
    });
}

/// The caller that waits for the preparing statement gives up: nobody takes the description of the
/// columns.
#[test]
fn a_late_statement_that_prepares_leaves_the_columns_known_to_those_behind_it() {
    run(async {
        let gate = Gate::closed().await;
        let client = client_with("prepare_threshold=2&connections_max=1&cancel_on_timeout=0").await;
        let sql = "select $1::int as number, 'x' as letter";
        client.query_one(sql, &[&0]).await.unwrap();
        let waits = client.query(&gate.statement(), &[]);
        let hasty = client.timeout(Duration::from_millis(100));
        let parses = hasty.query_one(sql, &[&1]);
        let behind = [client.query_one(sql, &[&2]), client.query_one(sql, &[&2])];
        assert_eq!(error(parses.await).kind(), Kind::Timeout);
        gate.open().await;
        waits.await.unwrap();
        for reply in behind {
            let row = reply.await.unwrap();
            assert_eq!((row.get::<i32>("number"), row.get::<&str>("letter")), (2, "x"));
        }
    });
}

/// P16. A statement that fails while it runs is prepared nevertheless: preparing it again would
/// fail.
#[test]
fn a_statement_that_was_parsed_and_failed_is_prepared() {
    run(async {
        let session = session_with("prepare_threshold=2").await;
        let sql = "select 1 / $1::int";
        session.query_one(sql, &[&1]).await.unwrap();
        rejected(session.query_one(sql, &[&0]).await, "22012");
        assert_eq!(prepared(&session).await, 1);
        session.query_one(sql, &[&1]).await.unwrap();
        assert_eq!(prepared(&session).await, 1);
    });
}

/// P20. The meaning of a text may change after it was prepared.
#[test]
fn a_table_that_changes_is_seen() {
    run(async {
        let (client, t) = (client_with("prepare_threshold=1").await, table("a int").await);
        let owner = session().await;
        owner.script(&format!("insert into {t} values (1)")).await.unwrap();
        let sql = format!("select * from {t}");
        client.query_one(&sql, &[]).await.unwrap();
        client.query_one(&sql, &[]).await.unwrap();
        owner.script(&format!("alter table {t} add b text default 'b'")).await.unwrap();
        let replies: Vec<_> = (0..5).map(|_| client.query_one(&sql, &[])).collect();
        for reply in replies {
            assert_eq!(reply.await.unwrap().get::<&str>("b"), "b");
        }
        owner.script(&format!("alter table {t} alter a type text")).await.unwrap();
        for _ in 0..3 {
            assert_eq!(client.query_one(&sql, &[]).await.unwrap().get::<&str>("a"), "1");
        }
    });
}

/// P20. One text may be used with other types than the last time.
#[test]
fn a_parameter_that_changes_its_type_is_looked_at_anew() {
    run(async {
        let session = session_with("prepare_threshold=2").await;
        let sql = "select pg_typeof($1)::text";
        for _ in 0..3 {
            let (int, bigint) =
                (session.query_one(sql, &[&1_i32]), session.query_one(sql, &[&1_i64]));
            assert_eq!(int.await.unwrap().get::<&str>(0), "integer");
            assert_eq!(bigint.await.unwrap().get::<&str>(0), "bigint");
        }
    });
}

/// P20. The names in a prepared text are looked up again when the path or the role has changed.
#[test]
fn a_path_and_a_role_that_change_are_seen() {
    run(async {
        let session = session_with("prepare_threshold=1").await;
        let [a, b, role] = [(); 3].map(|()| onetrip_lab::postgres::shared().new_name());
        for sql in [
            format!("create schema {a}; create table {a}.t (id int); insert into {a}.t values (1)"),
            format!(
                "create schema {b}; create table {b}.t (id text); insert into {b}.t values ('b')"
            ),
            format!("create role {role}; grant usage on schema {a}, {b} to {role}"),
        ] {
            session.script(&sql).await.unwrap();
        }
        for _ in 0..3 {
            session.execute(&format!("set search_path to {a}"), &[]).await.unwrap();
            let row = session.query_one("select id from t", &[]).await.unwrap();
            assert_eq!(row.get::<i32>(0), 1);
            session.execute(&format!("set search_path to {b}"), &[]).await.unwrap();
            let row = session.query_one("select id from t", &[]).await.unwrap();
            assert_eq!(row.get::<&str>(0), "b");
            session.execute(&format!("set role {role}"), &[]).await.unwrap();
            rejected(session.query_one("select id from t", &[]).await, "42501");
            session.execute("reset role", &[]).await.unwrap();
        }
    });
}

/// P16. A Parse that the server skipped has prepared nothing.
#[test]
fn a_segment_that_is_skipped_takes_its_parse_along_and_nobody_else() {
    run(async {
        let session = session_with("prepare_threshold=2").await;
        session.query_one(ECHO, &[&0]).await.unwrap();
        let mut pipeline = session.pipeline();
        let failing = pipeline.query("select 1 / 0", &[]);
        let skipped = pipeline.query_one(ECHO, &[&1]);
        let sync = pipeline.sync();
        let next = pipeline.query_one(ECHO, &[&2]);
        let same = pipeline.query_one(ECHO, &[&3]);
        error(pipeline.finish().await);
        rejected(failing.await, "22012");
        error(skipped.await);
        error(sync.await);
        assert_eq!(next.await.unwrap().get::<i32>(0), 2);
        assert_eq!(same.await.unwrap().get::<i32>(0), 3);
        use_often(&session, ECHO, 2).await;
        assert_eq!(prepared(&session).await, 1);
    });
}

#[test]
fn a_long_pipeline_prepares_its_statement_once() {
    run(async {
        let session = session_with("prepare_threshold=2").await;
        session.query_one(ECHO, &[&0]).await.unwrap();
        let mut pipeline = session.pipeline();
        let replies: Vec<_> = (0..500).map(|i| pipeline.query_one(ECHO, &[&i])).collect();
        pipeline.finish().await.unwrap();
        for (i, reply) in (0..500).zip(replies) {
            assert_eq!(reply.await.unwrap().get::<i32>(0), i);
        }
        assert_eq!(prepared(&session).await, 1);
    });
}

/// P16. Preparing is not undone by a rollback.
#[test]
fn a_rolled_back_savepoint_takes_no_statement_along() {
    run(async {
        let mut session = session_with("prepare_threshold=2").await;
        session.query_one(ECHO, &[&0]).await.unwrap();
        let tx = session.begin().await.unwrap();
        let before = tx.execute("savepoint a", &[]);
        let failing = tx.query("select 1 / 0", &[]);
        let refused = tx.query_one(ECHO, &[&1]);
        let back = tx.execute("rollback to a", &[]);
        let after = tx.query_one(ECHO, &[&2]);
        before.await.unwrap();
        rejected(failing.await, "22012");
        rejected(refused.await, "25P02");
        back.await.unwrap();
        assert_eq!(after.await.unwrap().get::<i32>(0), 2);
        assert_eq!(tx.query_one(ECHO, &[&3]).await.unwrap().get::<i32>(0), 3);
        tx.commit().await.unwrap();
        assert_eq!(prepared(&session).await, 1);
    });
}

#[test]
fn preparing_costs_no_trip() {
    run(async {
        let proxy = proxy();
        let client = client_through(&proxy, "prepare_threshold=2").await;
        let session = client.session().await.unwrap();
        for i in 0..4 {
            proxy.reset_stats();
            use_often(&session, ECHO, 1).await;
            assert_eq!(proxy.stats().trips, 1, "use {i}");
        }
    });
}

#[test]
fn a_connection_that_is_lost_leaves_no_statement_behind_for_others() {
    run(async {
        let client = client_with("prepare_threshold=1").await;
        let (lost, kept) = (client.session().await.unwrap(), client.session().await.unwrap());
        use_often(&kept, ECHO, 1).await;
        use_often(&lost, ECHO, 1).await;
        let statement = lost.prepare("select 'x'").await.unwrap();
        terminate(pid(&lost).await).await;
        error(lost.query_one(&statement, &[]).await);
        use_often(&kept, ECHO, 1).await;
        assert_eq!(kept.query_one(&statement, &[]).await.unwrap().get::<&str>(0), "x");
    });
}

async fn pid(session: &Session) -> i32 {
    session.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0)
}

#[test]
fn what_an_unsent_pipeline_will_prepare_is_not_named_by_others() {
    run(async {
        let client = client_with("prepare_threshold=2").await;
        client.query_one(ECHO, &[&0]).await.unwrap();
        let mut pipeline = client.pipeline();
        let piped = pipeline.query_one(ECHO, &[&1]);
        assert_eq!(client.query_one(ECHO, &[&2]).await.unwrap().get::<i32>(0), 2);
        pipeline.finish().await.unwrap();
        assert_eq!(piped.await.unwrap().get::<i32>(0), 1);
        assert_eq!(client.query_one(ECHO, &[&3]).await.unwrap().get::<i32>(0), 3);
    });
}

#[test]
fn a_first_use_that_is_refused_has_prepared_nothing() {
    run(async {
        let session = session_with("prepare_threshold=2&queue_max=1").await;
        session.query_one(ECHO, &[&0]).await.unwrap();
        let mut pipeline = session.pipeline();
        drop(pipeline.execute("select 1", &[]));
        error(pipeline.query_one(ECHO, &[&1]).await);
        drop(pipeline);
        let mut pipeline = session.pipeline();
        let reply = pipeline.query_one(ECHO, &[&2]);
        pipeline.finish().await.unwrap();
        assert_eq!(reply.await.unwrap().get::<i32>(0), 2);
        assert_eq!(prepared(&session).await, 1);
    });
}

#[test]
fn a_statement_that_could_not_be_prepared_anew_is_prepared_by_its_next_use() {
    run(async {
        let (client, t) = (client_with("prepare_threshold=2").await, table("id int").await);
        let mut session = client.session().await.unwrap();
        let sql = format!("select count(*)::int from {t}");
        for _ in 0..3 {
            session.query_one(&sql, &[]).await.unwrap();
        }
        let owner = crate::support::session().await;
        owner.script(&format!("drop table {t}")).await.unwrap();
        for _ in 0..2 {
            rejected(session.query_one(&sql, &[]).await, "42P01");
        }
        owner.script(&format!("create table {t} (id int)")).await.unwrap();
        let tx = session.begin().await.unwrap();
        assert_eq!(tx.query_one(&sql, &[]).await.unwrap().get::<i32>(0), 0);
        tx.commit().await.unwrap();
    });
}
