//! Sessions.

use onetrip::{Outcome, TransactionStatus};

use crate::support::*;

#[test]
fn a_session_keeps_its_state() {
    run(async {
        let session = session().await;
        session.execute("set application_name to 'mine'", &[]).await.unwrap();
        assert_eq!(session.parameter("application_name").as_deref(), Some("mine"));
        session.execute("create temp table kept (id int)", &[]).await.unwrap();
        assert_eq!(session.execute("insert into kept values ($1)", &[&3]).await.unwrap(), 1);
        assert_eq!(session.query_one("select id from kept", &[]).await.unwrap().get::<i32>(0), 3);
        assert!(session.query_opt("select 1 where false", &[]).await.unwrap().is_none());
        assert_eq!(session.query("select id from kept", &[]).await.unwrap().len(), 1);
        rejected(client().await.query("select id from kept", &[]).await, "42P01");
    });
}

#[test]
fn sessions_do_not_wait_behind_one_another() {
    run(async {
        let gate = Gate::closed().await;
        let client = client().await;
        let (slow, quick) = (client.session().await.unwrap(), client.session().await.unwrap());
        let waiting = slow.query(&gate.statement(), &[]);
        gate.waiting_pid().await;
        assert_eq!(quick.query_one("select 1", &[]).await.unwrap().get::<i32>(0), 1);
        assert_usable(&client).await;
        gate.open().await;
        waiting.await.unwrap();
    });
}

#[test]
fn a_dropped_session_runs_what_was_submitted_and_closes() {
    run(async {
        let (session, t) = (session().await, table("id int").await);
        let pid = session.query_one("select pg_backend_pid()", &[]).await.unwrap().get::<i32>(0);
        let insert = format!("insert into {t} values ($1)");
        let replies: Vec<_> = (0..50).map(|id| session.execute(&insert, &[&id])).collect();
        drop(session);
        for reply in replies {
            assert_eq!(reply.await.unwrap(), 1);
        }
        assert_eq!(ids(&t).await.len(), 50);
        let other = crate::support::session().await;
        let gone = format!("pg_stat_activity where pid = {pid}");
        until(async || count(&other, &gone).await == 0).await;
    });
}

#[test]
fn the_status_is_what_the_server_told_last() {
    run(async {
        let session = session().await;
        assert_eq!(session.status(), TransactionStatus::Idle);
        session.execute("begin", &[]).await.unwrap();
        assert_eq!(session.status(), TransactionStatus::InTransaction);
        rejected(session.query("select 1/0", &[]).await, "22012");
        assert_eq!(session.status(), TransactionStatus::Failed);
        session.execute("rollback", &[]).await.unwrap();
        assert_eq!(session.status(), TransactionStatus::Idle);
    });
}

/// COMMIT answered by ROLLBACK is an error, even if COMMIT was sent as text.
#[test]
fn a_commit_as_text_that_rolls_back_is_an_error() {
    run(async {
        let session = session().await;
        session.execute("begin", &[]).await.unwrap();
        rejected(session.query("select 1/0", &[]).await, "22012");
        failed(session.execute("commit", &[]).await, Outcome::Rejected, "rolled_back");
    });
}

#[test]
fn a_pipeline_of_a_session_takes_what_a_session_takes() {
    run(async {
        let (session, t) = (session().await, table("id int").await);
        let mut pipeline = session.pipeline();
        drop(pipeline.execute("create temp table piped (id int)", &[]));
        let insert = pipeline.execute("insert into piped values (1)", &[]);
        pipeline.finish().await.unwrap();
        assert_eq!(insert.await.unwrap(), 1);
        session.execute("begin", &[]).await.unwrap();
        let mut pipeline = session.pipeline();
        drop(pipeline.execute(&format!("insert into {t} values (1)"), &[]));
        pipeline.finish().await.unwrap();
        session.execute("rollback", &[]).await.unwrap();
        assert!(ids(&t).await.is_empty());
    });
}

#[test]
fn a_session_outlives_the_client_that_opened_it() {
    run(async {
        let client = client().await;
        let session = client.session().await.unwrap();
        drop(client);
        assert_eq!(session.query_one("select 1", &[]).await.unwrap().get::<i32>(0), 1);
        assert!(!session.is_closed());
    });
}
