//! Transactions that are run again after a conflict.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use onetrip::{Client, Error, Isolation, Outcome, RunOptions, Savepoint, TransactionOptions};
use onetrip_lab::proxy::{Direction, Fault, Scope};

use crate::support::*;

fn serializable() -> RunOptions {
    let transaction = TransactionOptions::new().isolation(Isolation::Serializable);
    quick().transaction(transaction)
}

/// Pauses that don't delay a test.
fn quick() -> RunOptions {
    RunOptions::new().pauses(Duration::from_micros(1), Duration::from_millis(1))
}

/// A statement that makes the server report this error.
fn raise(sqlstate: &str) -> String {
    format!("do $$ begin raise exception 'made up' using errcode = '{sqlstate}'; end $$")
}

#[test]
fn what_the_closure_did_is_committed_and_what_it_returned_is_returned() {
    run(async {
        let (client, t) = (client().await, table("id int").await);
        let insert = format!("insert into {t} values ($1)");
        let committed = client
            .run(async |tx| {
                tx.execute(&insert, &[&1]).await?;
                drop(tx.execute(&insert, &[&2]));
                Ok::<_, Error>("done")
            })
            .await
            .unwrap();
        assert_eq!((committed.value, committed.retries), ("done", 0));
        let mut session = client.session().await.unwrap();
        session.run(async |tx| tx.execute(&insert, &[&3]).await).await.unwrap();
        assert_eq!(ids(&t).await, [1, 2, 3].into());
    });
}

/// An error of the caller's own.
#[derive(Debug, PartialEq)]
enum Mine {
    Enough(u32),
    Database(Option<String>),
}

impl From<Error> for Mine {
    fn from(error: Error) -> Mine {
        Mine::Database(error.sqlstate().map(str::to_owned))
    }
}

#[test]
fn an_error_of_the_closure_rolls_back_and_is_returned_as_it_is() {
    run(async {
        let (client, t) = (client().await, table("id int").await);
        let runs = Cell::new(0);
        let ended = client.run(async |tx| {
            runs.set(runs.get() + 1);
            tx.execute(&format!("insert into {t} values (1)"), &[]).await?;
            Err::<(), _>(Mine::Enough(7))
        });
        assert_eq!(ended.await, Err(Mine::Enough(7)));
        let ended = client.run(async |tx| {
            runs.set(runs.get() + 1);
            tx.execute("select 1/0", &[]).await?;
            Ok::<_, Mine>(())
        });
        assert_eq!(ended.await, Err(Mine::Database(Some("22012".into()))));
        assert_eq!(runs.get(), 2);
        assert!(ids(&t).await.is_empty());
        assert_usable(&client).await;
    });
}

/// Two transactions that each read what the other writes: one of them has to be run again.
#[test]
fn a_serialization_failure_is_run_again_until_it_is_committed() {
    run(async {
        let (client, t) = (client().await, table("id int, amount int").await);
        client.execute(&format!("insert into {t} values (1, 0)"), &[]).await.unwrap();
        let (attempts, meeting) = (Cell::new(0), tokio::sync::Barrier::new(4));
        let increment = async || {
            let work = async |tx: &mut onetrip::Transaction<'_>| {
                attempts.set(attempts.get() + 1);
                let first = attempts.get() <= 4;
                let row = tx.query_one(&format!("select amount from {t}"), &[]).await?;
                if first {
                    // Nobody writes before all have read.
                    meeting.wait().await;
                }
                let amount = row.get::<i32>(0) + 1;
                tx.execute(&format!("update {t} set amount = $1"), &[&amount]).await?;
                Ok::<_, Error>(amount)
            };
            client.run_with(serializable().attempts_max(100), work).await.unwrap()
        };
        let (a, b, c, d) = tokio::join!(increment(), increment(), increment(), increment());
        let retries: u32 = [a, b, c, d].iter().map(|committed| committed.retries).sum();
        assert_eq!(attempts.get(), 4 + retries);
        assert!(retries >= 3, "{retries}");
        let mut values = [a.value, b.value, c.value, d.value];
        values.sort();
        assert_eq!(values, [1, 2, 3, 4], "each took effect once");
    });
}

/// Each transaction holds what the other wants; the server ends one of them. That one waits for the
/// other before it begins again: it could take its first row back before the other has woken, and
/// both would be stuck as before.
#[test]
fn a_deadlock_is_run_again() {
    run(async {
        let (client, t) = (client().await, table("id int, amount int").await);
        client.execute(&format!("insert into {t} values (1, 0), (2, 0)"), &[]).await.unwrap();
        let (both, done) = (tokio::sync::Barrier::new(2), tokio::sync::Notify::new());
        let update = format!("update {t} set amount = amount + 1 where id = $1");
        let transfer = async |first: i32, second: i32| {
            let met = Cell::new(false);
            let work = async |tx: &mut onetrip::Transaction<'_>| {
                if met.get() {
                    done.notified().await;
                }
                tx.execute("set local deadlock_timeout = '1ms'", &[]).await?;
                tx.execute(&update, &[&first]).await?;
                if !met.replace(true) {
                    both.wait().await;
                }
                tx.execute(&update, &[&second]).await
            };
            let retries = client.run_with(quick(), work).await.unwrap().retries;
            done.notify_one();
            retries
        };
        let (a, b) = tokio::join!(transfer(1, 2), transfer(2, 1));
        assert_eq!(a + b, 1, "one of them was in the other's way");
        let sum = client.query_one(&format!("select sum(amount) from {t}"), &[]).await.unwrap();
        assert_eq!(sum.get::<i64>(0), 4);
    });
}

/// The server detects the conflict only at COMMIT. (Each reads what the other wrote, and they write
/// different rows.)
#[test]
fn a_serialization_failure_at_commit_is_run_again() {
    run(async {
        let (client, t) = (client().await, table("id int").await);
        let both = tokio::sync::Barrier::new(2);
        let write_skew = async |id: i32| {
            let met = Cell::new(false);
            let work = async |tx: &mut onetrip::Transaction<'_>| {
                let row = tx.query_one(&format!("select count(*) from {t}"), &[]).await?;
                tx.execute(&format!("insert into {t} values ($1)"), &[&id]).await?;
                if !met.replace(true) {
                    both.wait().await;
                }
                Ok::<_, Error>(row.get::<i64>(0))
            };
            client.run_with(serializable(), work).await.unwrap()
        };
        let (a, b) = tokio::join!(write_skew(1), write_skew(2));
        assert_eq!(a.retries + b.retries, 1);
        assert_eq!(a.value + b.value, 1, "one of them has seen the other");
        assert_eq!(ids(&t).await, [1, 2].into());
    });
}

#[test]
fn attempts_are_bounded_and_the_last_error_is_returned() {
    run(async {
        let client = client().await;
        for sqlstate in ["40001", "40P01"] {
            for attempts_max in [1, 3] {
                let runs = Cell::new(0);
                let failing = async |tx: &mut onetrip::Transaction<'_>| {
                    runs.set(runs.get() + 1);
                    tx.execute(&raise(sqlstate), &[]).await
                };
                let options = quick().attempts_max(attempts_max);
                let error = error(client.run_with(options, failing).await);
                assert_eq!((error.sqlstate(), runs.get()), (Some(sqlstate), attempts_max));
            }
        }
    });
}

#[test]
fn ten_attempts_are_made_by_default() {
    run(async {
        let (client, runs) = (client().await, Cell::new(0));
        let failing = async |tx: &mut onetrip::Transaction<'_>| {
            runs.set(runs.get() + 1);
            tx.execute(&raise("40001"), &[]).await
        };
        error(client.run_with(quick(), failing).await);
        assert_eq!(runs.get(), 10);
    });
}

#[test]
fn nothing_else_is_run_again() {
    run(async {
        let (mut session, runs) = (session().await, Cell::new(0));
        for sqlstate in ["40002", "55P03", "57014", "23505"] {
            let failing = async |tx: &mut onetrip::Transaction<'_>| {
                runs.set(runs.get() + 1);
                tx.execute(&raise(sqlstate), &[]).await
            };
            let error = error(session.run_with(quick(), failing).await);
            assert_eq!(error.sqlstate(), Some(sqlstate));
        }
        assert_eq!(runs.get(), 4);
    });
}

/// It does not matter what the closure does with the failure: the transaction knows of it.
#[test]
fn a_conflict_that_the_closure_hides_is_run_again() {
    run(async {
        let (client, t) = (client().await, table("id int").await);
        let runs = Cell::new(0);
        let again = || runs.replace(runs.get() + 1) % 2 == 0;
        // It returns an error of its own.
        let other = async |tx: &mut onetrip::Transaction<'_>| {
            if again() && tx.execute(&raise("40001"), &[]).await.is_err() {
                return Err(Mine::Enough(1));
            }
            Ok(())
        };
        assert_eq!(client.run_with(quick(), other).await.unwrap().retries, 1);
        // It returns no error at all: then the commit fails.
        let hidden = async |tx: &mut onetrip::Transaction<'_>| {
            tx.execute(&format!("insert into {t} values (1)"), &[]).await?;
            if again() {
                drop(tx.execute(&raise("40P01"), &[]));
            }
            Ok::<_, Error>(())
        };
        assert_eq!(client.run_with(quick(), hidden).await.unwrap().retries, 1);
        // The failure is behind a savepoint that was rolled back.
        let nested = async |tx: &mut onetrip::Transaction<'_>| {
            let inner: Savepoint<'_> = tx.savepoint();
            if again() {
                inner.execute(&raise("40001"), &[]).await?;
            }
            inner.release().await
        };
        assert_eq!(client.run_with(quick(), nested).await.unwrap().retries, 1);
        assert_eq!((ids(&t).await, runs.get()), ([1].into(), 6));
    });
}

#[test]
fn a_conflict_that_was_undone_by_a_savepoint_is_committed() {
    run(async {
        let (client, t) = (client().await, table("id int").await);
        let work = async |tx: &mut onetrip::Transaction<'_>| {
            let inner = tx.savepoint();
            rejected(inner.execute("select 1/0", &[]).await, "22012");
            drop(inner);
            let inner = tx.savepoint();
            error(inner.execute(&raise("40001"), &[]).await);
            drop(inner);
            tx.execute(&format!("insert into {t} values (1)"), &[]).await
        };
        assert_eq!(client.run_with(quick(), work).await.unwrap().retries, 0);
        assert_eq!(ids(&t).await, [1].into());
    });
}

/// P38. The line is cut behind COMMIT. It is not known whether it was committed, so it is not run
/// again.
#[test]
fn an_unknown_commit_is_never_run_again() {
    run(async {
        let (proxy, t) = (proxy(), table("id int").await);
        let client = client_through(&proxy, "").await;
        let runs = Cell::new(0);
        let ended = client.run(async |tx| {
            runs.set(runs.get() + 1);
            tx.execute(&format!("insert into {t} values (1)"), &[]).await?;
            let cut = Fault::CutAfter { direction: Direction::Down, bytes: 3 };
            proxy.fault(cut, Scope::All);
            Ok::<_, Error>(())
        });
        failed(ended.await, Outcome::Unknown, "connection_lost");
        assert_eq!(runs.get(), 1);
        assert!(ids(&t).await.len() <= 1);
    });
}

#[test]
fn a_deadline_ends_the_attempt_that_is_under_way() {
    run(async {
        let (gate, t) = (Gate::closed().await, table("id int").await);
        let (client, runs) = (client().await, Cell::new(0));
        let options = RunOptions::new().timeout(Duration::from_millis(100));
        let ended = client.run_with(options, async |tx| {
            runs.set(runs.get() + 1);
            tx.execute(&format!("insert into {t} values (1)"), &[]).await?;
            tx.query(&gate.statement(), &[]).await
        });
        failed(ended.await, Outcome::Rejected, "timeout");
        gate.open().await;
        assert_eq!(runs.get(), 1);
        until(async || {
            let open = "pg_stat_activity where state like 'idle in transaction%' and query like ";
            count(&session().await, &format!("{open} '%{t}%'")).await == 0
        })
        .await;
        assert!(ids(&t).await.is_empty());
    });
}

#[test]
fn a_deadline_that_would_pass_in_a_pause_ends_it_with_the_conflict() {
    run(async {
        let (client, runs) = (client().await, Cell::new(0));
        let minute = Duration::from_secs(60);
        let options = RunOptions::new().pauses(minute, minute).timeout(Duration::from_secs(10));
        let ended = client.run_with(options, async |tx| {
            runs.set(runs.get() + 1);
            tx.execute(&raise("40001"), &[]).await
        });
        rejected_or_unknown(ended.await.map(drop));
        assert_eq!(runs.get(), 1);
    });
}

#[track_caller]
fn rejected_or_unknown(result: Result<(), Error>) {
    assert_eq!(error(result).sqlstate(), Some("40001"));
}

/// The server has COMMIT, and its answer does not come in time.
#[test]
fn a_deadline_behind_commit_is_unknown() {
    run(async {
        let (proxy, t) = (proxy(), table("id int").await);
        let client = client_through(&proxy, "").await;
        let options = RunOptions::new().timeout(Duration::from_millis(300));
        let ended = client.run_with(options, async |tx| {
            tx.execute(&format!("insert into {t} values (1)"), &[]).await?;
            proxy.fault(Fault::Stall { direction: Direction::Down }, Scope::All);
            Ok::<_, Error>(())
        });
        failed(ended.await, Outcome::Unknown, "timeout");
        proxy.fault(Fault::Resume { direction: Direction::Down }, Scope::All);
        until(async || ids(&t).await == [1].into()).await;
    });
}

#[test]
fn a_run_that_is_dropped_rolls_back() {
    run(async {
        let (gate, t) = (Gate::closed().await, table("id int").await);
        let client = client_with("connections_max=1").await;
        let mut ended = Box::pin(client.run(async |tx| {
            tx.execute(&format!("insert into {t} values (1)"), &[]).await?;
            tx.query(&gate.statement(), &[]).await
        }));
        let pid = tokio::select! {
            pid = gate.waiting_pid() => pid,
            _ = &mut ended => unreachable!("the gate is closed"),
        };
        drop(ended);
        gate.open().await;
        assert_eq!(pid_of(&client).await, pid);
        assert!(ids(&t).await.is_empty());
    });
}

/// A transaction can be run on another thread, and many at once share the pool; each takes effect
/// once.
#[test]
fn many_runs_on_several_threads_each_take_effect_once() {
    run_threads(async {
        let client = client_with("connections_max=4").await;
        let t = table("id int, amount int").await;
        client.execute(&format!("insert into {t} values (1, 0)"), &[]).await.unwrap();
        let retries = Arc::new(AtomicU32::new(0));
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let (client, t, retries) = (client.clone(), t.clone(), retries.clone());
                tokio::spawn(async move {
                    for _ in 0..5 {
                        let committed = increment(&client, &t).await.unwrap();
                        retries.fetch_add(committed.retries, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let sum = client.query_one(&format!("select amount from {t}"), &[]).await.unwrap();
        assert_eq!(sum.get::<i32>(0), 40);
    });
}

async fn increment(client: &Client, t: &str) -> Result<onetrip::Committed<u64>, Error> {
    let options = serializable().attempts_max(1000);
    let t = t.to_owned();
    client
        .run_with(options, async move |tx| {
            let row = tx.query_one(&format!("select amount from {t}"), &[]).await?;
            let amount = row.get::<i32>(0) + 1;
            tx.execute(&format!("update {t} set amount = $1"), &[&amount]).await
        })
        .await
}

/// An error of a program's own, which holds ours.
#[derive(Debug)]
struct Holds(onetrip::Error);

impl From<onetrip::Error> for Holds {
    fn from(error: onetrip::Error) -> Holds {
        Holds(error)
    }
}

/// P62.
#[test]
fn what_leaves_run_was_rolled_back_although_its_statement_ran() {
    run(async {
        let t = table("id int").await;
        let client = client_with("result_bytes_max=1000").await;
        let two = format!("insert into {t} values (1), (2) returning id");
        let many = format!("insert into {t} select generate_series(1, 500) returning id");
        let several = client.run(async |tx| tx.query_one(&two, &[]).await.map(drop)).await;
        failed(several, Outcome::Rejected, "several_rows");
        let large = client.run(async |tx| tx.query(&many, &[]).await.map(drop)).await;
        failed(large, Outcome::Rejected, "result_too_large");
        let insert = format!("insert into {t} values ($1)");
        let batch = client
            .run(async |tx| {
                tx.batch(&insert, (0..300).map(|id| (id,))).atomic().await?;
                Ok::<_, onetrip::Error>(())
            })
            .await;
        failed(batch, Outcome::Rejected, "result_too_large");
        // An error that is kept says so as well, once that is rolled back.
        let tx = client.begin().await.unwrap();
        let kept = tx.batch(&insert, (0..300).map(|id| (id,))).atomic().await.unwrap_err();
        assert_eq!(kept.error().outcome(), Outcome::Applied);
        tx.rollback().await.unwrap();
        assert_eq!(kept.error().outcome(), Outcome::Rejected);
        let unread = client
            .run(async |tx| {
                let rows = tx.query(&two, &[]).await?;
                rows.iter().try_for_each(|row| row.try_get::<String>(0).map(drop))?;
                Ok::<_, Holds>(())
            })
            .await;
        assert_eq!(unread.unwrap_err().0.outcome(), Outcome::Rejected);
        assert!(ids(&t).await.is_empty());
    });
}

/// P62.
#[test]
fn an_error_of_reading_says_what_became_of_its_transaction_or_savepoint() {
    run(async {
        let t = table("id int").await;
        let client = client().await;
        let two = format!("insert into {t} values (1), (2) returning id");
        let mut tx = client.begin().await.unwrap();
        let stands = failed(tx.query_one(&two, &[]).await, Outcome::Applied, "several_rows");
        let savepoint = tx.savepoint();
        let undone = failed(savepoint.query_one(&two, &[]).await, Outcome::Applied, "several_rows");
        savepoint.rollback().await.unwrap();
        assert_eq!(undone.outcome(), Outcome::Rejected);
        tx.commit().await.unwrap();
        assert_eq!((stands.outcome(), undone.outcome()), (Outcome::Applied, Outcome::Rejected));
        assert_eq!(ids(&t).await, [1, 2].into());
        let tx = client.begin().await.unwrap();
        let row = tx.query_one("select 1", &[]).await.unwrap();
        let wrong = row.try_get::<String>(0).unwrap_err();
        assert_eq!(wrong.outcome(), Outcome::Applied);
        drop(tx);
        assert_eq!(wrong.outcome(), Outcome::Rejected);
    });
}

/// P62.
#[test]
fn what_was_not_sent_itself_leaves_a_transaction_as_rejected_of_which_a_part_was_sent() {
    run(async {
        let client = client().await;
        for sends in [true, false] {
            let whole = if sends { Outcome::Rejected } else { Outcome::NotSent };
            let refused = client
                .run(async |tx| {
                    if sends {
                        tx.execute("select 1", &[]).await?;
                    }
                    let error = tx.execute("commit", &[]).await.unwrap_err();
                    assert_eq!(error.outcome(), Outcome::NotSent);
                    Err::<(), _>(error)
                })
                .await;
            assert_eq!(refused.unwrap_err().outcome(), whole, "{sends}");
        }
        // Only what was behind the savepoint.
        let mut tx = client.begin().await.unwrap();
        tx.execute("select 1", &[]).await.unwrap();
        let savepoint = tx.savepoint();
        let error = savepoint.execute("commit", &[]).await.unwrap_err();
        savepoint.rollback().await.unwrap();
        assert_eq!(error.outcome(), Outcome::NotSent);
        tx.rollback().await.unwrap();
        assert_eq!(error.outcome(), Outcome::Rejected);
    });
}

/// A future that is dropped at any moment: a commit leaves out no statement that was issued.
#[test]
fn a_statement_of_a_transaction_whose_future_was_dropped_is_committed_with_it() {
    run(async {
        let t = table("id int").await;
        let client = client().await;
        let insert = format!("insert into {t} values ($1)");
        let by_text = format!("insert into {t} values (2)");
        // The type of a string is a guess, about which the server is asked first.
        let guessed = format!("insert into {t} values ($1::text::int)");
        let tx = client.begin().await.unwrap();
        drop(tx.execute(&insert, &[&1i32]));
        drop(tx.execute(&by_text, &[]));
        drop(tx.execute(&guessed, &[&"3"]));
        let committed = tx.commit().await;
        let ids = ids(&t).await;
        assert!(committed.is_ok() && ids == [1, 2, 3].into(), "{committed:?} {ids:?}");
    });
}
