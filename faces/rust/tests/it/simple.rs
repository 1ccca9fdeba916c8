//! Batches by the simple protocol.

use onetrip::{Outcome, TransactionStatus};

use crate::queries::deferred_table;
use crate::support::*;

/// P9. The simple protocol answers one text with any number of results and one end.
#[test]
fn a_batch_returns_each_result() {
    run(async {
        let session = session().await;
        let results = session
            .script(
                "create temp table b (id int, t text); insert into b values (1, 'ä'), (2, null);
                 select id, t from b order by id; select 1 where false; update b set id = 3; ;",
            )
            .await
            .unwrap();
        let tags: Vec<&str> = results.iter().map(|result| result.tag.as_str()).collect();
        assert_eq!(tags, ["CREATE TABLE", "INSERT 0 2", "SELECT 2", "SELECT 0", "UPDATE 2"]);
        assert_eq!(results[2].columns, ["id", "t"]);
        let (one, two) = (Some("1".to_owned()), Some("2".to_owned()));
        assert_eq!(results[2].rows, [vec![one, Some("ä".into())], vec![two, None]]);
        assert!(results[0].columns.is_empty() && results[3].rows.is_empty());
        assert_eq!(results[3].columns.len(), 1);
    });
}

/// P8. A text by the simple protocol brings a sync point and several results of its own, and drops
/// the unnamed statement: none of that may affect statements around it.
#[test]
fn a_script_between_other_statements_takes_nothing_of_theirs() {
    run(async {
        let session = client_with("prepare_threshold=2").await.session().await.unwrap();
        let echo = "select $1::int";
        let statement = session.prepare("select $1::int + 1").await.unwrap();
        for round in 0..5 {
            let before = session.query_one(echo, &[&round]);
            let named = session.query_one(&statement, &[&round]);
            let script = session.script("select 1; ; select 2 where false; select 3, 4");
            let behind = session.query_one(echo, &[&-round]);
            let failing = session.script("select 5; select 1 / 0; select 6");
            let last = session.query_one(&statement, &[&-round]);
            assert_eq!(before.await.unwrap().get::<i32>(0), round);
            assert_eq!(named.await.unwrap().get::<i32>(0), round + 1);
            let rows: Vec<usize> = script.await.unwrap().iter().map(|it| it.rows.len()).collect();
            assert_eq!(rows, [1, 0, 1]);
            assert_eq!(behind.await.unwrap().get::<i32>(0), -round);
            assert_eq!(error(failing.await).sqlstate(), Some("22012"));
            assert_eq!(last.await.unwrap().get::<i32>(0), 1 - round);
        }
    });
}

#[test]
fn an_empty_batch_has_one_empty_result() {
    run(async {
        let session = session().await;
        for nothing in ["", ";;", "-- nothing"] {
            let results = session.script(nothing).await.unwrap();
            assert_eq!(results.len(), 1);
            assert_eq!(results[0], onetrip::SimpleResult::default());
        }
    });
}

#[test]
fn an_error_in_the_middle_undoes_the_batch_and_its_effect_is_unknown() {
    run(async {
        let (session, t) = (session().await, table("id int").await);
        let text = format!("insert into {t} values (1); select 1/0; insert into {t} values (2)");
        let error = error(session.script(&text).await);
        assert_eq!((error.outcome(), error.sqlstate()), (Outcome::Unknown, Some("22012")));
        assert!(ids(&t).await.is_empty());
        let text = format!("begin; insert into {t} values (3); commit; select 1/0");
        assert_eq!(self::error(session.script(&text).await).outcome(), Outcome::Unknown);
        assert_eq!(ids(&t).await, [3].into());
        assert_eq!(session.query_one("select 1", &[]).await.unwrap().get::<i32>(0), 1);
    });
}

#[test]
fn a_batch_of_one_statement_that_fails_is_rejected() {
    run(async {
        let session = session().await;
        rejected(session.script("select 1/0").await, "22012");
        rejected(session.script("selec").await, "42601");
        assert_eq!(error(session.script("select 1 \0").await).outcome(), Outcome::NotSent);
        assert_eq!(session.script("select 1").await.unwrap().len(), 1);
    });
}

#[test]
fn a_deferred_constraint_fails_the_batch() {
    run(async {
        let (session, t) = (session().await, deferred_table().await);
        rejected(session.script(&format!("insert into {t} values (1, 99)")).await, "23503");
        assert!(ids(&t).await.is_empty());
    });
}

#[test]
fn a_batch_that_is_dropped_leaves_its_neighbours_alone() {
    run(async {
        let session = session().await;
        let mut batch = Box::pin(session.script("select 1; select 2"));
        assert!(!poll_once(&mut batch).await);
        drop(batch);
        drop(session.script("select never"));
        assert_eq!(session.query_one("select 3", &[]).await.unwrap().get::<i32>(0), 3);
    });
}

#[test]
fn a_batch_may_leave_a_transaction_open() {
    run(async {
        let session = session().await;
        session.script("begin; select 1").await.unwrap();
        assert_eq!(session.status(), TransactionStatus::InTransaction);
        error(session.script("select 1/0").await);
        assert_eq!(session.status(), TransactionStatus::Failed);
        session.script("rollback").await.unwrap();
        assert_eq!(session.status(), TransactionStatus::Idle);
    });
}

#[test]
fn many_large_batches_share_the_way() {
    run(async {
        let session = session().await;
        let text = "select repeat('x', 1000) from generate_series(1, 1000); select 2".to_owned();
        let batches: Vec<_> = (0..5).map(|_| session.script(&text)).collect();
        for batch in batches {
            let results = batch.await.unwrap();
            assert_eq!((results[0].rows.len(), results[1].rows.len()), (1000, 1));
        }
    });
}
