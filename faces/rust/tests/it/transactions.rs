//! Transactions on a session.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use onetrip::{Outcome, TransactionStatus};

use crate::prepared::losing_unseen;
use crate::queries::deferred_table;
use crate::support::*;

#[test]
fn a_commit_makes_all_of_it_stand() {
    run(async {
        let (mut session, t) = (session().await, table("id int").await);
        let insert = format!("insert into {t} values ($1)");
        let tx = session.begin().await.unwrap();
        assert_eq!(tx.execute(&insert, &[&1]).await.unwrap(), 1);
        assert_eq!(tx.execute(&insert, &[&2]).await.unwrap(), 1);
        assert!(ids(&t).await.is_empty());
        let sum = tx.query_one(&format!("select sum(id) from {t}"), &[]).await.unwrap();
        assert_eq!(sum.get::<i64>(0), 3);
        assert!(
            tx.query_opt(&format!("select 1 from {t} where false"), &[]).await.unwrap().is_none()
        );
        assert_eq!(tx.query(&format!("select 1 from {t}"), &[]).await.unwrap().len(), 2);
        tx.commit().await.unwrap();
        assert_eq!(ids(&t).await, [1, 2].into());
        assert_eq!(session.status(), TransactionStatus::Idle);
    });
}

#[test]
fn a_rollback_undoes_all_of_it() {
    run(async {
        let (mut session, t) = (session().await, table("id int").await);
        let insert = format!("insert into {t} values ($1)");
        let tx = session.begin().await.unwrap();
        tx.execute(&insert, &[&1]).await.unwrap();
        tx.rollback().await.unwrap();
        let tx = session.begin().await.unwrap();
        tx.execute(&insert, &[&2]).await.unwrap();
        drop(tx);
        assert_eq!(count(&session, &t).await, 0);
        assert_eq!(session.status(), TransactionStatus::Idle);
    });
}

#[test]
fn a_commit_answered_by_rollback_is_an_error() {
    run(async {
        let (mut session, t) = (session().await, table("id int").await);
        let tx = session.begin().await.unwrap();
        tx.execute(&format!("insert into {t} values (1)"), &[]).await.unwrap();
        rejected(tx.query("select 1/0", &[]).await, "22012");
        rejected(tx.query("select 1", &[]).await, "25P02");
        failed(tx.commit().await, Outcome::Rejected, "rolled_back");
        assert!(ids(&t).await.is_empty());
        assert_eq!(session.query_one("select 1", &[]).await.unwrap().get::<i32>(0), 1);
    });
}

#[test]
fn a_failing_first_statement_fails_the_transaction() {
    run(async {
        let mut session = session().await;
        let tx = session.begin().await.unwrap();
        rejected(tx.query("select 1/0", &[]).await, "22012");
        rejected(tx.query("select 1", &[]).await, "25P02");
        failed(tx.commit().await, Outcome::Rejected, "rolled_back");
        let tx = session.begin().await.unwrap();
        rejected(tx.query("selec", &[]).await, "42601");
        tx.rollback().await.unwrap();
        assert_eq!(session.status(), TransactionStatus::Idle);
    });
}

#[test]
fn a_deferred_constraint_fails_the_commit() {
    run(async {
        let (mut session, t) = (session().await, deferred_table().await);
        let tx = session.begin().await.unwrap();
        let insert = format!("insert into {t} values (1, 99)");
        assert_eq!(tx.execute(&insert, &[]).await.unwrap(), 1);
        rejected(tx.commit().await, "23503");
        assert!(ids(&t).await.is_empty());
        assert_eq!(session.status(), TransactionStatus::Idle);
    });
}

#[test]
fn statements_of_a_transaction_need_not_be_awaited() {
    run(async {
        let (mut session, t) = (session().await, table("id int").await);
        let insert = format!("insert into {t} values ($1)");
        let tx = session.begin().await.unwrap();
        for id in 0..20 {
            drop(tx.execute(&insert, &[&id]));
        }
        tx.commit().await.unwrap();
        assert_eq!(ids(&t).await, (0..20).collect());
    });
}

#[test]
fn a_dropped_first_reply_leaves_the_transaction_whole() {
    run(async {
        let (mut session, t) = (session().await, table("id int").await);
        let insert = format!("insert into {t} values ($1)");
        let tx = session.begin().await.unwrap();
        drop(tx.execute(&insert, &[&1]));
        let mut polled = tx.execute(&insert, &[&2]);
        poll_once(&mut polled).await;
        drop(polled);
        tx.rollback().await.unwrap();
        assert!(ids(&t).await.is_empty());
    });
}

#[test]
fn a_commit_dropped_before_it_was_polled_takes_nothing_back() {
    run(async {
        let (mut session, t) = (session().await, table("id int").await);
        let tx = session.begin().await.unwrap();
        tx.execute(&format!("insert into {t} values (1)"), &[]).await.unwrap();
        drop(tx.commit());
        assert_eq!(count(&session, &t).await, 1);
    });
}

#[test]
fn a_commit_dropped_after_it_was_sent_commits() {
    run(async {
        let (mut session, t) = (session().await, table("id int").await);
        let tx = session.begin().await.unwrap();
        tx.execute(&format!("insert into {t} values (1)"), &[]).await.unwrap();
        let mut commit = Box::pin(tx.commit());
        assert!(!poll_once(&mut commit).await);
        drop(commit);
        assert_eq!(session.status(), TransactionStatus::InTransaction);
        assert_eq!(count(&session, &t).await, 1);
        assert_eq!(ids(&t).await, [1].into());
        assert_eq!(session.status(), TransactionStatus::Idle);
    });
}

#[test]
fn a_guess_inside_of_a_transaction_is_asked_about_first() {
    run(async {
        let (mut session, t) = (session().await, table("at timestamp, names varchar[]").await);
        let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(77);
        let names = vec!["a", "b"];
        let tx = session.begin().await.unwrap();
        tx.execute(&format!("insert into {t} values ($1, $2)"), &[&moment, &names]).await.unwrap();
        let same = format!("select at from {t} where names = $1");
        let row = tx.query_one(&same, &[&names]).await.unwrap();
        assert_eq!(row.get::<SystemTime>(0), moment);
        tx.commit().await.unwrap();
        assert_eq!(count(&session, &t).await, 1);
    });
}

/// If the server is asked about a statement first, the statement still goes in front of later ones.
#[test]
fn a_guess_does_not_change_the_order_of_a_transaction() {
    run(async {
        let (mut session, t) = (session().await, table("at timestamptz").await);
        let tx = session.begin().await.unwrap();
        let insert = tx.execute(&format!("insert into {t} values ($1)"), &[&SystemTime::now()]);
        let count = tx.query_one(&format!("select count(*) from {t}"), &[]);
        let (insert, count) = tokio::join!(insert, count);
        assert_eq!((insert.unwrap(), count.unwrap().get::<i64>(0)), (1, 1));
        tx.commit().await.unwrap();
    });
}

/// The same with a commit behind it: the statement must not run outside of its transaction.
#[test]
fn a_guess_does_not_escape_its_transaction() {
    run(async {
        let (mut session, t) = (session().await, table("at timestamptz").await);
        let tx = session.begin().await.unwrap();
        let insert = tx.execute(&format!("insert into {t} values ($1)"), &[&SystemTime::now()]);
        tx.rollback().await.unwrap();
        let result = insert.await;
        assert_eq!(count(&session, &t).await, 0, "{result:?}");
    });
}

/// Like any statement that was sent, it runs even if nobody wants its reply.
#[test]
fn a_guess_whose_reply_is_dropped_runs_as_any_other_statement() {
    run(async {
        let (mut session, t) = (session().await, table("at timestamptz").await);
        let tx = session.begin().await.unwrap();
        drop(tx.execute(&format!("insert into {t} values ($1)"), &[&SystemTime::now()]));
        tx.commit().await.unwrap();
        assert_eq!(count(&session, &t).await, 1);
    });
}

#[test]
fn a_statement_may_be_prepared_inside_of_a_transaction() {
    run(async {
        let mut session = session().await;
        let tx = session.begin().await.unwrap();
        let statement = tx.prepare("select $1::int").await.unwrap();
        assert_eq!(tx.query_one(&statement, &[&4]).await.unwrap().get::<i32>(0), 4);
        tx.commit().await.unwrap();
        assert_eq!(session.query_one(&statement, &[&5]).await.unwrap().get::<i32>(0), 5);
        let tx = session.begin().await.unwrap();
        rejected(tx.prepare("select nothing").await, "42703");
        failed(tx.commit().await, Outcome::Rejected, "rolled_back");
    });
}

#[test]
fn a_pipeline_in_a_transaction_is_part_of_it() {
    run(async {
        let (mut session, t) = (session().await, table("id int").await);
        let insert = format!("insert into {t} values ($1)");
        for stands in [true, false] {
            let tx = session.begin().await.unwrap();
            let mut pipeline = tx.pipeline();
            let first = pipeline.execute(&insert, &[&i32::from(stands)]);
            drop(pipeline.sync());
            let second = pipeline.execute(&insert, &[&(10 + i32::from(stands))]);
            pipeline.finish().await.unwrap();
            assert_eq!((first.await.unwrap(), second.await.unwrap()), (1, 1));
            match stands {
                true => tx.commit().await.unwrap(),
                false => tx.rollback().await.unwrap(),
            }
        }
        assert_eq!(ids(&t).await, [1, 11].into());
    });
}

#[test]
fn a_pipeline_that_fails_in_a_transaction_fails_it() {
    run(async {
        let (mut session, t) = (session().await, table("id int").await);
        let tx = session.begin().await.unwrap();
        tx.execute(&format!("insert into {t} values (1)"), &[]).await.unwrap();
        let mut pipeline = tx.pipeline();
        let before = pipeline.execute(&format!("insert into {t} values (2)"), &[]);
        drop(pipeline.query("select 1/0", &[]));
        rejected(pipeline.finish().await, "22012");
        failed(before.await, Outcome::Rejected, "rolled_back");
        failed(tx.commit().await, Outcome::Rejected, "rolled_back");
        assert!(ids(&t).await.is_empty());
    });
}

/// The sent part of a pipeline that is given up must not be committed by its transaction.
#[test]
fn a_half_sent_pipeline_dropped_in_a_transaction_is_not_committed() {
    run(async {
        let (mut session, t) = (session().await, table("id int").await);
        let tx = session.begin().await.unwrap();
        let mut pipeline = tx.pipeline();
        pipeline.execute(&format!("insert into {t} values (1)"), &[]).await.unwrap();
        drop(pipeline);
        let commit = tx.commit().await;
        assert!(ids(&t).await.is_empty(), "{commit:?}");
    });
}

#[test]
fn a_transaction_whose_connection_is_lost_does_not_stand() {
    run(async {
        let (mut session, t) = (session().await, table("id int").await);
        let tx = session.begin().await.unwrap();
        tx.execute(&format!("insert into {t} values (1)"), &[]).await.unwrap();
        terminate(tx.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0)).await;
        let error = error(tx.commit().await);
        assert!(error.is_connection_lost(), "{error}");
        assert!(ids(&t).await.is_empty());
        assert!(session.is_closed());
    });
}

/// BEGIN waits for room, and the transaction is given up meanwhile.
#[test]
fn a_transaction_dropped_while_its_begin_waits_leaves_no_transaction_open() {
    run(async {
        let (gate, t) = (Gate::closed().await, table("id int").await);
        let client = client_with("in_flight_max=1&queue_max=1").await;
        let mut session = client.session().await.unwrap();
        let ahead = [session.query(&gate.statement(), &[]), session.query("select 1", &[])];
        let tx = session.begin().await.unwrap();
        let insert = tx.execute(&format!("insert into {t} values (1)"), &[]);
        drop(tx);
        gate.open().await;
        for reply in ahead {
            reply.await.unwrap();
        }
        let insert = insert.await;
        assert_eq!(session.query_one("select 1", &[]).await.unwrap().get::<i32>(0), 1);
        assert_eq!(session.status(), TransactionStatus::Idle, "{insert:?}");
        assert!(ids(&t).await.is_empty());
    });
}

/// Waits for all, some of which found the queue full.
async fn answered(replies: Vec<onetrip::Reply<u64>>) {
    let mut refused = 0;
    for reply in replies {
        refused += usize::from(reply.await.is_err_and(|it| it.code() == "queue_full"));
    }
    assert!(refused > 0);
}

/// Their callers may hear of that only behind the commit.
#[test]
fn a_transaction_is_not_committed_without_statements_that_found_no_room() {
    run(async {
        let t = table("id int, note text").await;
        let client = client_with("in_flight_max=1&queue_max=1&waiting_bytes_max=10000").await;
        let insert = format!("insert into {t} values ($1, $2)");
        let note = "x".repeat(1000);
        let tx = client.begin().await.unwrap();
        let replies: Vec<_> = (0..50).map(|id| tx.execute(&insert, &[&id, &note])).collect();
        failed(tx.commit().await, Outcome::Rejected, "rolled_back");
        answered(replies).await;

        let mut tx = client.begin().await.unwrap();
        tx.execute(&insert, &[&100, &note]).await.unwrap();
        let savepoint = tx.savepoint();
        let many = |id| savepoint.execute(&insert, &[&id, &note]);
        // Then there is room for what undoes them.
        answered((0..50).map(many).collect()).await;
        failed(savepoint.release().await, Outcome::Rejected, "rolled_back");
        tx.commit().await.unwrap();

        // Who does not wait for the release hears it of the commit.
        let mut tx = client.begin().await.unwrap();
        tx.execute(&insert, &[&101, &note]).await.unwrap();
        let savepoint = tx.savepoint();
        let many = |id| savepoint.execute(&insert, &[&id, &note]);
        // Then there is room for what undoes them.
        answered((0..50).map(many).collect()).await;
        drop(savepoint.release());
        failed(tx.commit().await, Outcome::Rejected, "rolled_back");
        assert_eq!(ids(&t).await, [100].into());
    });
}

#[test]
fn a_transaction_behind_a_full_queue_commits() {
    run(async {
        let (gate, t) = (Gate::closed().await, table("id int").await);
        let client = client_with("in_flight_max=1&queue_max=1").await;
        let mut session = client.session().await.unwrap();
        let ahead = [session.query(&gate.statement(), &[]), session.query("select 1", &[])];
        let tx = session.begin().await.unwrap();
        let insert = tx.execute(&format!("insert into {t} values (1)"), &[]);
        let mut commit = Box::pin(tx.commit());
        assert!(!poll_once(&mut commit).await);
        gate.open().await;
        commit.await.unwrap();
        assert_eq!(insert.await.unwrap(), 1);
        for reply in ahead {
            reply.await.unwrap();
        }
        assert_eq!(ids(&t).await, [1].into());
    });
}

/// BEGIN waits for room, and the connection is lost.
#[test]
fn a_first_statement_that_waits_is_not_sent_when_the_connection_is_lost() {
    run(async {
        let gate = Gate::closed().await;
        let client = client_with("in_flight_max=1&queue_max=1").await;
        let mut session = client.session().await.unwrap();
        let ahead = [session.query(&gate.statement(), &[]), session.query("select 1", &[])];
        let tx = session.begin().await.unwrap();
        let first = tx.query("select 1", &[]);
        terminate(gate.waiting_pid().await).await;
        assert_eq!(error(first.await).outcome(), Outcome::NotSent);
        drop(tx);
        for (reply, outcome) in ahead.into_iter().zip([Outcome::Unknown, Outcome::NotSent]) {
            assert_eq!(error(reply.await).outcome(), outcome);
        }
    });
}

#[test]
fn a_full_queue_that_refuses_leaves_the_transaction_unbegun_and_it_is_not_committed() {
    run(async {
        let gate = Gate::closed().await;
        let client = client_with("in_flight_max=1&queue_max=1&when_full=refuse").await;
        let mut session = client.session().await.unwrap();
        let ahead = [session.query(&gate.statement(), &[]), session.query("select 1", &[])];
        let tx = session.begin().await.unwrap();
        failed(tx.query("select 1", &[]).await, Outcome::NotSent, "queue_full");
        gate.open().await;
        for reply in ahead {
            reply.await.unwrap();
        }
        assert_eq!(tx.query_one("select 2", &[]).await.unwrap().get::<i32>(0), 2);
        failed(tx.commit().await, Outcome::Rejected, "rolled_back");
        session.query("select 3", &[]).await.unwrap();
        assert_eq!(session.status(), TransactionStatus::Idle);
    });
}

/// The first statement's deadline passes before the server has answered BEGIN.
#[test]
fn a_first_statement_that_times_out_is_unknown_and_the_transaction_rolls_back() {
    run(async {
        let (gate, t) = (Gate::closed().await, table("id int").await);
        let client = client_with("cancel_on_timeout=0&request_timeout_ms=200").await;
        let mut session = client.session().await.unwrap();
        let tx = session.begin().await.unwrap();
        let insert = format!("insert into {t} select count(*) from {}", gate.table);
        failed(tx.execute(&insert, &[]).await, Outcome::Unknown, "timeout");
        drop(tx);
        gate.open().await;
        until(async || session.query("select 1", &[]).await.is_ok()).await;
        assert_eq!(session.status(), TransactionStatus::Idle);
        assert!(ids(&t).await.is_empty());
    });
}

/// A statement that its caller no longer waits for still belongs to the transaction; otherwise the
/// window would decide what is committed.
#[test]
fn a_statement_whose_reply_is_dropped_is_part_of_its_transaction() {
    run(async {
        let t = table("id int").await;
        let client = client_with("in_flight_max=1&queue_max=20").await;
        let mut session = client.session().await.unwrap();
        let insert = format!("insert into {t} values ($1)");
        let tx = session.begin().await.unwrap();
        (0..50).for_each(|id| drop(tx.execute(&insert, &[&id])));
        tx.commit().await.unwrap();
        assert_eq!(ids(&t).await, (0..50).collect());
    });
}

#[test]
fn a_statement_behind_a_guess_is_part_of_its_transaction_though_its_reply_is_dropped() {
    run(async {
        let t = table("id int, at timestamptz").await;
        let mut session = session().await;
        let tx = session.begin().await.unwrap();
        let guess = format!("insert into {t} values (1, $1)");
        drop(tx.execute(&guess, &[&SystemTime::UNIX_EPOCH]));
        drop(tx.execute(&format!("insert into {t} values (2, null)"), &[]));
        tx.commit().await.unwrap();
        assert_eq!(ids(&t).await, [1, 2].into());
    });
}

#[test]
fn a_statement_whose_deadline_passes_in_the_queue_is_part_of_its_transaction() {
    run(async {
        let (gate, t) = (Gate::closed().await, table("id int").await);
        let client =
            client_with("in_flight_max=1&cancel_on_timeout=0&request_timeout_ms=150").await;
        let mut session = client.session().await.unwrap();
        let tx = session.begin().await.unwrap();
        let waits = tx.query(&gate.statement(), &[]);
        let late = tx.execute(&format!("insert into {t} values (1)"), &[]);
        failed(waits.await, Outcome::Unknown, "timeout");
        failed(late.await, Outcome::Unknown, "timeout");
        commits_all(tx, gate, &t, [1].into()).await;
    });
}

/// Commits behind the gate. COMMIT has a deadline too, so the table is checked, not its reply.
async fn commits_all(tx: onetrip::Transaction<'_>, gate: Gate, t: &str, all: BTreeSet<i32>) {
    drop(tx.commit());
    gate.open().await;
    until(async || !ids(t).await.is_empty()).await;
    assert_eq!(ids(t).await, all);
}

/// The same for a statement that waits for room in the queue.
#[test]
fn a_statement_whose_deadline_passes_in_line_is_part_of_its_transaction() {
    run(async {
        let (gate, t) = (Gate::closed().await, table("id int").await);
        let client =
            client_with("in_flight_max=1&queue_max=1&cancel_on_timeout=0&request_timeout_ms=150")
                .await;
        let mut session = client.session().await.unwrap();
        let insert = format!("insert into {t} values ($1)");
        let tx = session.begin().await.unwrap();
        let mut late = vec![tx.execute(&gate.statement(), &[])];
        late.extend((0..4).map(|id| tx.execute(&insert, &[&id])));
        // Nobody waits for this statement.
        drop(tx.execute(&insert, &[&4]));
        for late in late {
            failed(late.await, Outcome::Unknown, "timeout");
        }
        commits_all(tx, gate, &t, (0..5).collect()).await;
        until(async || client.pending().waiting == 0).await;
    });
}

/// BEGIN waits in line with the first statement, whose deadline passes.
#[test]
fn a_transaction_whose_first_deadline_passes_in_line_is_whole() {
    run(async {
        let (gate, t) = (Gate::closed().await, table("id int").await);
        let (mut session, before) =
            full_session(&gate, "cancel_on_timeout=0&request_timeout_ms=150").await;
        let insert = format!("insert into {t} values ($1)");
        let tx = session.begin().await.unwrap();
        failed(tx.execute(&insert, &[&1]).await, Outcome::Unknown, "timeout");
        for reply in before {
            error(reply.await);
        }
        drop(tx.execute(&insert, &[&2]));
        commits_all(tx, gate, &t, [1, 2].into()).await;
    });
}

#[test]
fn a_statement_in_line_is_not_sent_when_the_connection_is_lost() {
    run(async {
        let gate = Gate::closed().await;
        let client = client_with("in_flight_max=1&queue_max=1").await;
        let mut session = client.session().await.unwrap();
        let tx = session.begin().await.unwrap();
        let first = tx.query(&gate.statement(), &[]);
        let rest: Vec<_> = (0..4).map(|_| tx.query("select 1", &[])).collect();
        terminate(gate.waiting_pid().await).await;
        assert_eq!(error(first.await).outcome(), Outcome::Unknown);
        for reply in rest {
            failed(reply.await, Outcome::NotSent, "connection_lost");
        }
    });
}

#[test]
fn a_guess_whose_deadline_passes_fails_its_transaction() {
    run(async {
        let (gate, t) = (Gate::closed().await, table("at timestamptz").await);
        let client =
            client_with("in_flight_max=1&cancel_on_timeout=0&request_timeout_ms=150").await;
        let mut session = client.session().await.unwrap();
        let tx = session.begin().await.unwrap();
        let waits = tx.query(&gate.statement(), &[]);
        let guess = format!("insert into {t} values ($1)");
        let late = tx.execute(&guess, &[&SystemTime::UNIX_EPOCH]);
        failed(waits.await, Outcome::Unknown, "timeout");
        failed(late.await, Outcome::NotSent, "timeout");
        let commit = tx.commit();
        gate.open().await;
        failed(commit.await, Outcome::Rejected, "rolled_back");
    });
}

/// A session whose window and queue are full behind a gate: further statements wait in line.
async fn full_session(gate: &Gate, settings: &str) -> (onetrip::Session, Vec<onetrip::Reply<u64>>) {
    let client = client_with(&format!("in_flight_max=1&queue_max=1&{settings}")).await;
    let session = client.session().await.unwrap();
    let replies = vec![session.execute(&gate.statement(), &[]), session.execute("select 1", &[])];
    (session, replies)
}

#[test]
fn a_pipeline_of_a_transaction_never_overtakes_its_begin() {
    run(async {
        let (gate, t) = (Gate::closed().await, table("id int").await);
        let (mut session, _before) = full_session(&gate, "").await;
        let tx = session.begin().await.unwrap();
        let first = tx.execute(&format!("insert into {t} values (1)"), &[]);
        let mut pipeline = tx.pipeline();
        let second = pipeline.execute(&format!("insert into {t} values (2)"), &[]);
        let finish = pipeline.finish();
        gate.open().await;
        finish.await.unwrap();
        assert_eq!((first.await.unwrap(), second.await.unwrap()), (1, 1));
        tx.rollback().await.unwrap();
        assert!(ids(&t).await.is_empty());
    });
}

#[test]
fn a_guess_never_overtakes_the_begin_of_its_transaction() {
    run(async {
        let (gate, t) = (Gate::closed().await, table("id int, at timestamptz").await);
        let (mut session, _before) = full_session(&gate, "").await;
        let tx = session.begin().await.unwrap();
        let sql = format!("insert into {t} values (1, $1)");
        let guess = tx.execute(&sql, &[&SystemTime::UNIX_EPOCH]);
        gate.open().await;
        assert_eq!(guess.await.unwrap(), 1);
        tx.rollback().await.unwrap();
        assert!(ids(&t).await.is_empty());
    });
}

#[test]
fn a_begin_that_found_no_room_goes_in_front_of_the_next_statement() {
    run(async {
        let (gate, t) = (Gate::closed().await, table("id int, at timestamptz").await);
        let (mut session, mut before) = full_session(&gate, "waiting_bytes_max=1").await;
        before.push(session.execute("select 2", &[]));
        let tx = session.begin().await.unwrap();
        let sql = format!("insert into {t} values (1, $1)");
        let refused = tx.execute(&sql, &[&SystemTime::UNIX_EPOCH]);
        failed(refused.await, Outcome::NotSent, "queue_full");
        gate.open().await;
        for reply in before {
            reply.await.unwrap();
        }
        tx.execute(&format!("insert into {t} values (2, null)"), &[]).await.unwrap();
        tx.rollback().await.unwrap();
        assert!(ids(&t).await.is_empty());
    });
}

#[test]
fn a_rollback_that_finds_no_room_ends_the_connection_and_the_transaction_with_it() {
    run(async {
        let (gate, t) = (Gate::closed().await, table("id int").await);
        let client = client_with("in_flight_max=1&queue_max=1&waiting_bytes_max=1").await;
        let mut session = client.session().await.unwrap();
        let tx = session.begin().await.unwrap();
        tx.execute(&format!("insert into {t} values (1)"), &[]).await.unwrap();
        drop(tx.query(&gate.statement(), &[]));
        drop(tx.execute("select 1", &[]));
        drop(tx.execute("select 2", &[]));
        drop(tx);
        error(session.execute(&format!("insert into {t} values (2)"), &[]).await);
        gate.open().await;
        assert!(ids(&t).await.is_empty());
    });
}

#[test]
fn a_statement_never_heals_into_a_transaction_that_was_begun_behind_it() {
    run(async {
        let (mut session, t) = (session().await, table("id int").await);
        let sql = format!("insert into {t} values (1)");
        let statement = session.prepare(&sql).await.unwrap();
        session.execute(&statement, &[]).await.unwrap();
        session.script(&format!("truncate {t}")).await.unwrap();
        session.execute(&losing_unseen().await, &[]).await.unwrap();
        let before = session.execute(&statement, &[]);
        let tx = session.begin().await.unwrap();
        let inside = tx.execute(&format!("insert into {t} values (2)"), &[]);
        rejected(before.await, "26000");
        assert_eq!(inside.await.unwrap(), 1);
        tx.rollback().await.unwrap();
        assert!(ids(&t).await.is_empty());
        // Alone it is prepared again.
        assert_eq!(session.execute(&statement, &[]).await.unwrap(), 1);
    });
}

/// Its statements were refused, and a caller that looks only at the commit must learn of it.
#[test]
fn a_transaction_that_lost_its_connection_before_it_sent_anything_is_not_committed() {
    run(async {
        let (client, t) = (client().await, table("id int").await);
        let insert = format!("insert into {t} values (1)");
        let session = client.session().await.unwrap();
        let pid: i32 = session.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
        drop(session);
        let tx = client.begin().await.unwrap();
        terminate(pid).await;
        until(async || client.is_closed()).await;
        failed(tx.execute(&insert, &[]).await, Outcome::NotSent, "connection_lost");
        failed(tx.commit().await, Outcome::NotSent, "connection_lost");
        assert!(ids(&t).await.is_empty());
    });
}

/// P76. Its process is stopped, so that the kernel goes on to take bytes for it.
#[test]
fn a_commit_that_is_given_up_at_a_frozen_server_frees_its_place() {
    run(async {
        let client = client_with("connections_max=1&cancel_timeout_ms=50").await;
        for commits in [true, false] {
            let tx = client.begin().await.unwrap();
            let pid: i32 = tx.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
            let signal = |name: &str| {
                let args = [name, &pid.to_string()];
                assert!(std::process::Command::new("kill").args(args).status().unwrap().success());
            };
            signal("-STOP");
            match commits {
                true => assert!(!poll_once(&mut Box::pin(tx.commit())).await),
                false => drop(tx),
            }
            let served = client.query_one("select 1", &[]).await;
            signal("-CONT");
            assert_eq!(served.unwrap().get::<i32>(0), 1);
        }
    });
}
