//! How transactions begin and end: options, a BEGIN that is refused, COMMIT with the last
//! statement.

use std::time::SystemTime;

use onetrip::{Client, Isolation, Outcome, Row, Rows, TransactionOptions, TransactionStatus};
use onetrip_lab::postgres::{Options, PrivatePostgres};
use onetrip_lab::proxy::{Direction, Fault, Scope};

use crate::queries::deferred_table;
use crate::support::*;

async fn shown(tx: &onetrip::Transaction<'_>) -> [String; 3] {
    let sql = "select current_setting('transaction_isolation'), \
               current_setting('transaction_read_only'), \
               current_setting('transaction_deferrable')";
    let row = tx.query_one(sql, &[]).await.unwrap();
    [0, 1, 2].map(|index| row.get(index))
}

#[test]
fn a_transaction_begins_as_its_options_say() {
    run(async {
        let new = TransactionOptions::new;
        let all = new().isolation(Isolation::Serializable).read_only(true).deferrable(true);
        let client = client().await;
        let mut session = client.session().await.unwrap();
        for (options, expected) in [
            (new(), ["read committed", "off", "off"]),
            (TransactionOptions::default(), ["read committed", "off", "off"]),
            (new().isolation(Isolation::ReadUncommitted), ["read uncommitted", "off", "off"]),
            (new().isolation(Isolation::RepeatableRead), ["repeatable read", "off", "off"]),
            (new().read_only(true), ["read committed", "on", "off"]),
            (all, ["serializable", "on", "on"]),
            (all.read_only(false).deferrable(false), ["serializable", "off", "off"]),
        ] {
            let tx = session.begin_with(options).await.unwrap();
            assert_eq!(shown(&tx).await, expected);
            tx.commit().await.unwrap();
            let tx = client.begin_with(options).await.unwrap();
            assert_eq!(shown(&tx).await, expected);
            tx.rollback().await.unwrap();
        }
    });
}

#[test]
fn what_is_not_said_is_left_to_the_defaults_of_the_server() {
    run(async {
        let client = client_with("options=-c%20default_transaction_isolation%3Dserializable").await;
        let tx = client.begin().await.unwrap();
        assert_eq!(shown(&tx).await, ["serializable", "off", "off"]);
    });
}

#[test]
fn a_read_only_transaction_refuses_to_write() {
    run(async {
        let t = table("id int").await;
        let read_only = TransactionOptions::new().read_only(true);
        let tx = client().await.begin_with(read_only).await.unwrap();
        rejected(tx.execute(&format!("insert into {t} values (1)"), &[]).await, "25006");
    });
}

#[test]
fn a_transaction_of_a_client_gives_its_connection_back_clean() {
    run(async {
        let (client, t) = (client_with("connections_max=1").await, table("id int").await);
        let insert = format!("insert into {t} values ($1)");
        for id in 0..3 {
            let tx = client.begin().await.unwrap();
            tx.execute(&insert, &[&id]).await.unwrap();
            match id {
                0 => tx.commit().await.unwrap(),
                1 => tx.rollback().await.unwrap(),
                _ => drop(tx),
            }
            assert_usable(&client).await;
        }
        assert_eq!((ids(&t).await, client.connections()), ([0].into(), 1));
    });
}

/// A server that takes no writes, and therefore refuses to begin a serializable transaction.
fn standby() -> PrivatePostgres {
    PrivatePostgres::start(Options::default().file("standby.signal", "")).unwrap()
}

fn serializable() -> TransactionOptions {
    TransactionOptions::new().isolation(Isolation::Serializable)
}

/// P33. Statements behind a BEGIN that is refused must not be committed by themselves.
#[test]
fn nothing_runs_behind_a_begin_that_was_refused() {
    let standby = standby();
    run(async {
        let client = Client::connect(&standby.url()).await.unwrap();
        let mut session = client.session().await.unwrap();
        let tx = session.begin_with(serializable()).await.unwrap();
        let statements: Vec<_> = (0..5).map(|_| tx.query("select 1", &[])).collect();
        let moments = vec![SystemTime::now()];
        let guess = tx.query("select $1::timestamptz[]", &[&moments]);
        let mut pipeline = tx.pipeline();
        let piped = pipeline.query("select 2", &[]);
        drop(pipeline.sync());
        let second = pipeline.query("select 3", &[]);
        let finish = pipeline.finish();
        for statement in statements {
            let error = rejected(statement.await, "0A000");
            assert!(error.to_string().starts_with("BEGIN: "), "{error}");
        }
        for result in [guess.await, piped.await, second.await] {
            assert_eq!(error(result).outcome(), Outcome::Rejected);
        }
        assert!(rejected(finish.await, "0A000").to_string().starts_with("BEGIN: "));
        // Now that the refusal is known, nothing is sent at all.
        let later = error(tx.query("select 4", &[]).await);
        assert_eq!((later.outcome(), later.sqlstate()), (Outcome::NotSent, Some("0A000")));
        assert!(later.to_string().starts_with("BEGIN: "), "{later}");
        assert_eq!(error(tx.commit().await).outcome(), Outcome::Rejected);
        assert_eq!(session.status(), TransactionStatus::Idle);
        assert_eq!(session.query_one("select 5", &[]).await.unwrap().get::<i32>(0), 5);
    });
}

#[test]
fn a_commit_behind_a_begin_that_was_refused_is_refused_too() {
    let standby = standby();
    run(async {
        let client = Client::connect(&standby.url()).await.unwrap();
        let tx = client.begin_with(serializable()).await.unwrap();
        drop(tx.query("select 1", &[]));
        assert!(rejected(tx.commit().await, "0A000").to_string().starts_with("BEGIN: "));
        let tx = client.begin_with(serializable()).await.unwrap();
        let one = tx.commit_with::<Rows, _>("select 1", &[]).await;
        assert!(rejected(one, "0A000").to_string().starts_with("BEGIN: "));
        let tx = client.begin_with(serializable()).await.unwrap();
        drop(tx.query("select 1", &[]));
        tx.rollback().await.unwrap();
        let mut tx = client.begin_with(serializable()).await.unwrap();
        let inner = tx.savepoint();
        let skipped = inner.query("select 1", &[]);
        let skipped_too = inner.query("select 1", &[]);
        drop(inner);
        for skipped in [skipped, skipped_too] {
            assert!(rejected(skipped.await, "0A000").to_string().starts_with("BEGIN: "));
        }
        drop(tx);
        assert_usable(&client).await;
    });
}

/// The options come too late in a transaction that was begun as text.
#[test]
fn a_begin_that_is_refused_in_an_open_transaction_fails_that_one() {
    run(async {
        let (mut session, t) = (session().await, table("id int").await);
        session.execute("begin", &[]).await.unwrap();
        session.execute(&format!("insert into {t} values (1)"), &[]).await.unwrap();
        let tx = session.begin_with(serializable()).await.unwrap();
        let first = tx.execute(&format!("insert into {t} values (2)"), &[]);
        let second = tx.execute(&format!("insert into {t} values (3)"), &[]);
        assert!(rejected(first.await, "25001").to_string().starts_with("BEGIN: "));
        error(second.await);
        drop(tx);
        session.execute("rollback", &[]).await.unwrap();
        assert!(ids(&t).await.is_empty());
    });
}

/// The pipeline's connection goes on, but its transaction doesn't: what the pipeline adds must not
/// be committed by itself.
#[test]
fn a_pipeline_that_outlives_its_transaction_runs_nothing() {
    run(async {
        let (mut session, t) = (session().await, table("id int").await);
        let insert = format!("insert into {t} values ($1)");
        let tx = session.begin().await.unwrap();
        tx.execute(&insert, &[&1]).await.unwrap();
        let mut pipeline = tx.pipeline();
        let late = pipeline.execute(&insert, &[&2]);
        tx.commit().await.unwrap();
        let next = session.begin().await.unwrap();
        next.execute(&insert, &[&3]).await.unwrap();
        next.rollback().await.unwrap();
        let refused = rejected(pipeline.finish().await, "34000");
        assert!(refused.to_string().contains("not open any more"), "{refused}");
        error(late.await);
        assert_eq!(ids(&t).await, [1].into());
    });
}

#[test]
fn a_commit_says_what_made_the_transaction_fail() {
    run(async {
        let (mut session, t) = (session().await, table("id int primary key").await);
        let insert = format!("insert into {t} values ($1)");
        let tx = session.begin().await.unwrap();
        tx.execute(&insert, &[&1]).await.unwrap();
        drop(tx.execute(&insert, &[&1]));
        drop(tx.execute("select 1/0", &[]));
        let failure = failed(tx.commit().await, Outcome::Rejected, "rolled_back");
        assert_eq!(failure.sqlstate(), Some("23505"), "{failure}");
        // A failure that ROLLBACK TO, sent as text, has undone is not the reason.
        let tx = session.begin().await.unwrap();
        tx.execute("savepoint mine", &[]).await.unwrap();
        rejected(tx.execute("select 1/0", &[]).await, "22012");
        tx.execute("rollback to mine", &[]).await.unwrap();
        let mut pipeline = tx.pipeline();
        drop(pipeline.execute(&insert, &[&1]));
        drop(pipeline.execute(&insert, &[&1]));
        rejected(pipeline.finish().await, "23505");
        let failure = failed(tx.commit().await, Outcome::Rejected, "rolled_back");
        assert_eq!(failure.sqlstate(), Some("23505"), "{failure}");
    });
}

#[test]
fn the_last_statement_is_committed_with_what_it_returns() {
    run(async {
        let (client, t) = (client().await, table("id int").await);
        let insert = format!("insert into {t} values ($1) returning id");
        let tx = client.begin().await.unwrap();
        tx.execute(&insert, &[&1]).await.unwrap();
        let row: Row = tx.commit_with(&insert, &[&2]).await.unwrap();
        assert_eq!(row.get::<i32>(0), 2);
        let count: u64 = client.begin().await.unwrap().commit_with(&insert, &[&3]).await.unwrap();
        let none = format!("select 1 from {t} where false");
        let none: Option<Row> =
            client.begin().await.unwrap().commit_with(&none, &[]).await.unwrap();
        assert!(count == 1 && none.is_none());
        assert_eq!(ids(&t).await, [1, 2, 3].into());
    });
}

#[test]
fn a_last_statement_that_fails_rolls_back_and_leaves_the_connection_usable() {
    run(async {
        let (mut session, t) = (session().await, table("id int primary key").await);
        let insert = format!("insert into {t} values ($1)");
        for first in [false, true] {
            let tx = session.begin().await.unwrap();
            if first {
                tx.execute(&insert, &[&1]).await.unwrap();
            }
            rejected(tx.commit_with::<u64, _>("select 1/0", &[]).await, "22012");
            assert_eq!(session.status(), TransactionStatus::Idle);
        }
        // A part of a CALL may stand, but not if its transaction was rolled back.
        let tx = session.begin().await.unwrap();
        drop(tx.execute(&insert, &[&1]));
        let call = "do $$ begin raise exception 'no'; end $$";
        rejected(tx.commit_with::<u64, _>(call, &[]).await, "P0001");
        assert!(ids(&t).await.is_empty());
    });
}

#[test]
fn a_last_statement_whose_commit_fails_is_rejected() {
    run(async {
        let (client, t) = (client().await, deferred_table().await);
        let insert = format!("insert into {t} values (1, 99)");
        let tx = client.begin().await.unwrap();
        rejected(tx.commit_with::<u64, _>(&insert, &[]).await, "23503");
        assert!(ids(&t).await.is_empty());
    });
}

#[test]
fn a_last_statement_that_is_read_wrongly_was_committed() {
    run(async {
        let (client, t) = (client().await, table("id int").await);
        let insert = format!("insert into {t} values (1), (2) returning id");
        let tx = client.begin().await.unwrap();
        failed(tx.commit_with::<Row, _>(&insert, &[]).await, Outcome::Applied, "several_rows");
        assert_eq!(ids(&t).await, [1, 2].into());
    });
}

#[test]
fn a_last_statement_that_is_refused_rolls_back() {
    run(async {
        let (client, t) = (client().await, table("id int").await);
        let tx = client.begin().await.unwrap();
        tx.execute(&format!("insert into {t} values (1)"), &[]).await.unwrap();
        // What it says is said of the whole, of which the INSERT was sent.
        let refused = tx.commit_with::<u64, _>("commit", &[]).await;
        failed(refused, Outcome::Rejected, "transaction_open");
        let tx = client.begin().await.unwrap();
        failed(tx.commit_with::<u64, _>("commit", &[]).await, Outcome::NotSent, "transaction_open");
        let wrong = client.begin().await.unwrap().commit_with::<u64, _>("select $1", &[]).await;
        error(wrong);
        assert_usable(&client).await;
        assert!(ids(&t).await.is_empty());
    });
}

#[test]
fn a_guess_is_committed_behind_its_answer() {
    run(async {
        let (client, t) = (client().await, table("id int, at timestamp").await);
        let insert = format!("insert into {t} values (1, $1)");
        let tx = client.begin().await.unwrap();
        let count: u64 = tx.commit_with(&insert, &[&SystemTime::UNIX_EPOCH]).await.unwrap();
        assert_eq!((count, ids(&t).await), (1, [1].into()));
    });
}

#[test]
fn a_last_statement_that_was_sent_is_committed_though_nobody_waits() {
    run(async {
        let (mut session, t) = (session().await, table("id int").await);
        let insert = format!("insert into {t} values ($1)");
        drop(session.begin().await.unwrap().commit_with::<u64, _>(&insert, &[&1]));
        let tx = session.begin().await.unwrap();
        let mut second = Box::pin(tx.commit_with::<u64, _>(&insert, &[&2]));
        assert!(!poll_once(&mut second).await);
        drop(second);
        assert_eq!(count(&session, &t).await, 2);
    });
}

/// P38. The line is cut behind COMMIT, and its answer never comes.
#[test]
fn a_last_statement_whose_answer_is_lost_is_unknown() {
    run(async {
        let (proxy, t) = (proxy(), table("id int").await);
        let client = client_through(&proxy, "").await;
        let tx = client.begin().await.unwrap();
        tx.execute(&format!("insert into {t} values (1)"), &[]).await.unwrap();
        let cut = Fault::CutAfter { direction: Direction::Down, bytes: 20 };
        proxy.fault(cut, Scope::All);
        let last = tx.commit_with::<u64, _>(&format!("insert into {t} values (2)"), &[]).await;
        failed(last, Outcome::Unknown, "connection_lost");
        let stands = ids(&t).await;
        assert!(stands.is_empty() || stands == [1, 2].into(), "{stands:?}");
    });
}

/// P63.
#[test]
fn a_commit_that_nobody_answered_did_not_commit_what_had_failed() {
    run(async {
        let (proxy, t) = (proxy(), table("id int").await);
        let client = client_through(&proxy, "").await;
        for in_savepoint in [false, true] {
            let mut tx = client.begin().await.unwrap();
            let insert = format!("insert into {t} values (1)");
            tx.execute(&insert, &[]).await.unwrap();
            if in_savepoint {
                let savepoint = tx.savepoint();
                rejected(savepoint.query("select 1 / 0", &[]).await, "22012");
                savepoint.rollback().await.unwrap();
            } else {
                rejected(tx.query("select 1 / 0", &[]).await, "22012");
            }
            let cut = Fault::CutAfter { direction: Direction::Down, bytes: 0 };
            proxy.fault(cut, Scope::Present);
            let known = if in_savepoint { Outcome::Unknown } else { Outcome::Rejected };
            failed(tx.commit().await, known, "connection_lost");
        }
        let stands = ids(&t).await;
        assert!(stands.is_empty() || stands == [1].into(), "{stands:?}");
    });
}

/// P26. Anybody may cancel a statement at any moment; the statements behind it stay inside the
/// transaction.
#[test]
fn a_transaction_stays_whole_when_a_statement_of_it_is_cancelled() {
    run(async {
        let (gate, t) = (Gate::closed().await, table("id int").await);
        let client = client().await;
        let tx = client.begin().await.unwrap();
        let waits = tx.query(&gate.statement(), &[]);
        let behind = tx.execute(&format!("insert into {t} values (1)"), &[]);
        let pid = gate.waiting_pid().await;
        session().await.query("select pg_cancel_backend($1)", &[&pid]).await.unwrap();
        rejected(waits.await, "57014");
        rejected(behind.await, "25P02");
        let failure = failed(tx.commit().await, Outcome::Rejected, "rolled_back");
        assert_eq!(failure.sqlstate(), Some("57014"));
        assert!(ids(&t).await.is_empty());
    });
}
