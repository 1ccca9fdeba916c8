//! Statements are refused where they don't belong, before anything is sent; the error says what to
//! use.

use onetrip::{Kind, Outcome};

use crate::support::*;

/// A statement, the code of its refusal, and a word that the message must contain.
const ON_SHARED: [(&str, &str, &str); 24] = [
    ("begin", "transaction_control", "session"),
    ("start transaction read only", "transaction_control", "session"),
    ("/* a */ -- b\n BEGIN", "transaction_control", "session"),
    ("commit", "transaction_control", "session"),
    ("rollback", "transaction_control", "session"),
    ("savepoint a", "transaction_control", "session"),
    ("set work_mem to '1MB'", "session_state", "session"),
    ("reset all", "session_state", "session"),
    ("listen a", "session_state", "session"),
    ("declare c cursor with hold for select 1", "session_state", "session"),
    ("prepare p as select 1", "session_state", "session"),
    ("deallocate all", "session_state", "session"),
    ("discard all", "session_state", "session"),
    ("create temp table a (b int)", "session_state", "session"),
    ("create temporary table a as select 1", "session_state", "session"),
    ("select pg_advisory_lock(1)", "session_state", "session"),
    ("lock table pg_class", "session_state", "session"),
    ("set local work_mem to '1MB'", "transaction_local", "transaction"),
    ("set constraints all deferred", "transaction_local", "transaction"),
    ("copy a from stdin", "copy", "copy_in"),
    ("copy a to stdout", "copy", "copy_in"),
    ("copy (select 1) to stdout (format binary)", "copy", "copy_in"),
    ("select 1; select 2", "several", "pipeline"),
    ("select 1;;select ';'", "several", "session"),
];

#[test]
fn a_shared_connection_refuses_what_needs_a_session() {
    run(async {
        let proxy = proxy();
        let client = client_through(&proxy, "").await;
        proxy.reset_stats();
        for (sql, code, says) in ON_SHARED {
            let error = failed(client.query(sql, &[]).await, Outcome::NotSent, code);
            assert_eq!(error.kind(), Kind::Misuse);
            assert!(error.to_string().contains(says), "{sql}: {error}");
            assert!(error.is_retry_safe());
            failed(client.prepare(sql).await, Outcome::NotSent, code);
        }
        assert_eq!(proxy.stats().bytes_up, 0);
        assert_usable(&client).await;
    });
}

#[test]
fn what_only_looks_refusable_is_not() {
    run(async {
        let client = client().await;
        for sql in [
            "select 'begin; commit'",
            "select $$set x$$",
            "select 1 as begin",
            "select 1;",
            "select 1; -- the end",
            "select \"commit\" from (values (1)) v (\"commit\")",
            "with a as (select 1) select * from a",
        ] {
            client.query(sql, &[]).await.unwrap();
        }
    });
}

/// P6. P7. A statement that has to be alone must not stand among others, and neither must a COPY.
#[test]
fn a_pipeline_refuses_what_would_break_it() {
    run(async {
        let client = client().await;
        for (sql, code) in [
            ("begin", "transaction_control"),
            ("set work_mem to '1MB'", "session_state"),
            ("copy a from stdin", "copy"),
            ("select 1; select 2", "several"),
            ("vacuum pg_class", "stand_alone"),
            ("create database a", "stand_alone"),
            ("create index concurrently on a (b)", "stand_alone"),
            ("reindex index concurrently a", "stand_alone"),
            ("alter system set work_mem to '1MB'", "stand_alone"),
            ("call a()", "call"),
            ("do $$ begin end $$", "call"),
        ] {
            let mut pipeline = client.pipeline();
            let first = pipeline.query_one("select 1", &[]);
            failed(pipeline.execute(sql, &[]).await, Outcome::NotSent, code);
            let after = pipeline.query_one("select 3", &[]);
            failed(after.await, Outcome::NotSent, code);
            failed(pipeline.finish().await, Outcome::NotSent, code);
            assert_eq!(error(first.await).outcome(), Outcome::NotSent, "{sql}");
        }
        assert_usable(&client).await;
    });
}

/// P5. What the server allows in an implicit transaction depends on the position in it.
#[test]
fn set_local_is_taken_inside_of_a_pipeline() {
    run(async {
        let client = client().await;
        let mut pipeline = client.pipeline();
        drop(pipeline.query("select 1", &[]));
        let set = pipeline.execute("set local work_mem to '77kB'", &[]);
        let shown = pipeline.query_one("show work_mem", &[]);
        pipeline.finish().await.unwrap();
        set.await.unwrap();
        assert_eq!(shown.await.unwrap().get::<&str>(0), "77kB");
        assert_ne!(client.query_one("show work_mem", &[]).await.unwrap().get::<&str>(0), "77kB");
    });
}

#[test]
fn a_transaction_refuses_control_behind_its_back() {
    run(async {
        let mut session = session().await;
        let tx = session.begin().await.unwrap();
        for sql in ["begin", "commit", "rollback", "end", "abort", "prepare transaction 'a'"] {
            failed(tx.execute(sql, &[]).await, Outcome::NotSent, "transaction_open");
        }
        // These leave the transaction open.
        for sql in ["savepoint a", "rollback to a", "rollback work to savepoint a", "release a"] {
            tx.execute(sql, &[]).await.unwrap();
        }
        failed(tx.query("copy a to stdout", &[]).await, Outcome::NotSent, "copy");
        assert_eq!(tx.query_one("select 1", &[]).await.unwrap().get::<i32>(0), 1);
        failed(tx.commit().await, Outcome::Rejected, "rolled_back");
    });
}

#[test]
fn a_session_takes_everything_but_copy() {
    run(async {
        let session = session().await;
        for sql in [
            "set work_mem to '1MB'",
            "listen a",
            "create temp table a (b int)",
            "begin",
            "savepoint a",
            "rollback",
            "vacuum pg_class",
            "select pg_advisory_lock(1)",
            "discard all",
        ] {
            session.execute(sql, &[]).await.unwrap();
        }
        failed(session.execute("copy pg_class to stdout", &[]).await, Outcome::NotSent, "copy");
        failed(session.script("select 1; copy pg_class to stdout").await, Outcome::NotSent, "copy");
        assert_eq!(session.query_one("select 1", &[]).await.unwrap().get::<i32>(0), 1);
    });
}
