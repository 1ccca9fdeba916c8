//! Savepoints of a transaction.

use std::time::SystemTime;

use onetrip::{Error, Isolation, Outcome, Savepoint, TransactionOptions, TransactionStatus};

use crate::support::*;

#[test]
fn a_released_savepoint_stands_with_its_transaction() {
    run(async {
        let (mut session, t) = (session().await, table("id int").await);
        let insert = format!("insert into {t} values ($1)");
        for (id, awaited, commits) in
            [(10, true, true), (20, false, true), (30, true, false), (40, false, false)]
        {
            let mut tx = session.begin().await.unwrap();
            tx.execute(&insert, &[&id]).await.unwrap();
            let inner = tx.savepoint();
            inner.execute(&insert, &[&(id + 1)]).await.unwrap();
            match awaited {
                true => inner.release().await.unwrap(),
                false => drop(inner.release()),
            }
            tx.execute(&insert, &[&(id + 2)]).await.unwrap();
            match commits {
                true => tx.commit().await.unwrap(),
                false => tx.rollback().await.unwrap(),
            }
        }
        assert_eq!(ids(&t).await, [10, 11, 12, 20, 21, 22].into());
    });
}

#[test]
fn what_was_done_behind_a_savepoint_is_undone_alone() {
    run(async {
        let (mut session, t) = (session().await, table("id int").await);
        let insert = format!("insert into {t} values ($1)");
        for (id, awaited) in [(10, true), (20, false)] {
            let mut tx = session.begin().await.unwrap();
            tx.execute(&insert, &[&id]).await.unwrap();
            let inner = tx.savepoint();
            inner.execute(&insert, &[&(id + 1)]).await.unwrap();
            match awaited {
                true => inner.rollback().await.unwrap(),
                false => drop(inner),
            }
            tx.execute(&insert, &[&(id + 2)]).await.unwrap();
            tx.commit().await.unwrap();
        }
        assert_eq!(ids(&t).await, [10, 12, 20, 22].into());
    });
}

#[test]
fn a_statement_that_fails_behind_a_savepoint_leaves_the_transaction_usable() {
    run(async {
        let (mut session, t) = (session().await, table("id int primary key").await);
        let insert = format!("insert into {t} values ($1)");
        let mut tx = session.begin().await.unwrap();
        for (id, awaited) in [(1, true), (2, false)] {
            tx.execute(&insert, &[&id]).await.unwrap();
            let inner = tx.savepoint();
            rejected(inner.execute(&insert, &[&id]).await, "23505");
            rejected(inner.execute(&insert, &[&9]).await, "25P02");
            match awaited {
                true => inner.rollback().await.unwrap(),
                false => drop(inner),
            }
        }
        tx.execute(&insert, &[&3]).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(ids(&t).await, [1, 2, 3].into());
    });
}

#[test]
fn a_savepoint_that_failed_can_not_be_released_and_the_transaction_goes_on() {
    run(async {
        let (mut session, t) = (session().await, table("id int primary key").await);
        let insert = format!("insert into {t} values ($1)");
        let mut tx = session.begin().await.unwrap();
        tx.execute(&insert, &[&1]).await.unwrap();
        let inner = tx.savepoint();
        drop(inner.execute(&insert, &[&2]));
        drop(inner.execute(&insert, &[&1]));
        let error = failed(inner.release().await, Outcome::Rejected, "rolled_back");
        assert_eq!(error.sqlstate(), Some("23505"), "{error}");
        tx.execute(&insert, &[&3]).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(ids(&t).await, [1, 3].into());
    });
}

/// If nobody waits for RELEASE, the next statement and the commit report the failure.
#[test]
fn a_failed_savepoint_that_is_released_without_waiting_fails_the_transaction() {
    run(async {
        let (mut session, t) = (session().await, table("id int primary key").await);
        let insert = format!("insert into {t} values ($1)");
        for awaited in [true, false] {
            let mut tx = session.begin().await.unwrap();
            tx.execute(&insert, &[&1]).await.unwrap();
            let inner = tx.savepoint();
            let failing = inner.execute(&insert, &[&1]);
            if awaited {
                rejected(failing.await, "23505");
            }
            drop(inner.release());
            rejected(tx.execute(&insert, &[&3]).await, "25P02");
            let error = failed(tx.commit().await, Outcome::Rejected, "rolled_back");
            assert_eq!(error.sqlstate(), Some("23505"), "{error}");
        }
        assert!(ids(&t).await.is_empty());
    });
}

#[test]
fn savepoints_nest_to_any_depth() {
    run(async {
        let (mut session, t) = (session().await, table("id int").await);
        let insert = format!("insert into {t} values ($1)");
        let mut tx = session.begin().await.unwrap();
        let mut one = tx.savepoint();
        let mut two = one.savepoint();
        let mut three = two.savepoint();
        {
            let four = three.savepoint();
            // The first statement of all: BEGIN and four SAVEPOINTs travel with it.
            four.execute(&insert, &[&4]).await.unwrap();
        }
        three.execute(&insert, &[&3]).await.unwrap();
        drop(three.release());
        two.execute(&insert, &[&2]).await.unwrap();
        two.rollback().await.unwrap();
        one.execute(&insert, &[&1]).await.unwrap();
        one.release().await.unwrap();
        tx.execute(&insert, &[&0]).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(ids(&t).await, [0, 1].into());
    });
}

/// The result of random steps equals that of a stack of sets.
#[test]
fn random_savepoints_leave_what_a_stack_says() {
    run(async {
        let seed = std::env::var("ONETRIP_SEED").map_or(7, |seed| seed.parse().unwrap());
        println!("seed {seed}");
        let mut random = Random(seed);
        let (mut session, t) = (session().await, table("id int").await);
        let insert = format!("insert into {t} values ($1)");
        let (mut next, mut all) = (0, Vec::new());
        for _ in 0..30 {
            let mut tx = session.begin().await.unwrap();
            let mut kept = Vec::new();
            for _ in 0..random.below(4) {
                let level = tx.savepoint();
                kept.extend(nested(level, &insert, &mut next, &mut random, 3).await);
                if random.below(2) == 0 {
                    tx.execute(&insert, &[&next]).await.unwrap();
                    kept.push(next);
                    next += 1;
                }
            }
            tx.commit().await.unwrap();
            all.extend(kept);
        }
        assert_eq!(ids(&t).await, all.into_iter().collect(), "seed {seed}");
    });
}

/// Runs random steps behind a savepoint. Returns what stands of them.
async fn nested(
    mut level: onetrip::Savepoint<'_>,
    insert: &str,
    next: &mut i32,
    random: &mut Random,
    depth: u64,
) -> Vec<i32> {
    let mut kept = Vec::new();
    for _ in 0..random.below(3) {
        match random.below(4) {
            0 if depth > 0 => {
                let inner = level.savepoint();
                kept.extend(Box::pin(nested(inner, insert, next, random, depth - 1)).await);
            }
            awaited => {
                let reply = level.execute(insert, &[next]);
                if awaited == 1 {
                    reply.await.unwrap();
                }
                kept.push(*next);
                *next += 1;
            }
        }
    }
    match random.below(5) {
        0 => level.release().await.unwrap(),
        1 => drop(level.release()),
        2 => {
            level.rollback().await.unwrap();
            kept.clear();
        }
        3 => {
            drop(level.execute("select 1/0", &[]));
            drop(level);
            kept.clear();
        }
        _ => {
            drop(level);
            kept.clear();
        }
    }
    kept
}

#[test]
fn a_savepoint_takes_pipelines_guesses_and_prepared_statements() {
    run(async {
        let (mut session, t) = (session().await, table("id int, at timestamptz").await);
        let mut tx = session.begin().await.unwrap();
        let insert = tx.prepare(&format!("insert into {t} (id) values ($1)")).await.unwrap();
        for undone in [false, true] {
            let base = if undone { 10 } else { 0 };
            let piped = tx.savepoint();
            let mut pipeline = piped.pipeline();
            drop(pipeline.execute(&insert, &[&base]));
            drop(pipeline.execute(&insert, &[&(base + 1)]));
            pipeline.finish().await.unwrap();
            let guess = format!("insert into {t} values ({}, $1)", base + 2);
            piped.execute(&guess, &[&SystemTime::UNIX_EPOCH]).await.unwrap();
            match undone {
                true => drop(piped),
                false => drop(piped.release()),
            }
        }
        tx.commit().await.unwrap();
        assert_eq!(ids(&t).await, [0, 1, 2].into());
    });
}

#[test]
fn a_savepoint_that_is_first_used_by_a_pipeline_is_set_in_front_of_it() {
    run(async {
        let (mut session, t) = (session().await, table("id int").await);
        let mut tx = session.begin().await.unwrap();
        let inner = tx.savepoint();
        let mut pipeline = inner.pipeline();
        drop(pipeline.execute(&format!("insert into {t} values (1)"), &[]));
        pipeline.finish().await.unwrap();
        drop(inner);
        tx.commit().await.unwrap();
        assert!(ids(&t).await.is_empty());
    });
}

/// Dropped at each stage: never used, with its first statement in flight, in a transaction that
/// ends with it.
#[test]
fn a_savepoint_is_undone_at_whatever_stage_it_is_dropped() {
    run(async {
        let (mut session, t) = (session().await, table("id int").await);
        let insert = format!("insert into {t} values ($1)");
        let mut tx = session.begin().await.unwrap();
        drop(tx.savepoint());
        tx.savepoint().rollback().await.unwrap();
        tx.savepoint().release().await.unwrap();
        drop(tx.execute(&insert, &[&1]));
        let inner = tx.savepoint();
        drop(inner.execute(&insert, &[&2]));
        drop(inner);
        let inner = tx.savepoint();
        let mut polled = inner.execute(&insert, &[&3]);
        assert!(!poll_once(&mut polled).await);
        drop((polled, inner));
        let inner = tx.savepoint();
        drop(inner.execute(&insert, &[&4]));
        let mut rollback = Box::pin(inner.rollback());
        assert!(!poll_once(&mut rollback).await);
        drop(rollback);
        let inner = tx.savepoint();
        drop(inner.execute(&insert, &[&5]));
        let mut release = inner.release();
        assert!(!poll_once(&mut release).await);
        drop(release);
        tx.commit().await.unwrap();
        assert_eq!(ids(&t).await, [1, 5].into());
        let mut tx = session.begin().await.unwrap();
        drop(tx.execute(&insert, &[&6]));
        let inner = tx.savepoint();
        drop(inner.execute(&insert, &[&7]));
        drop(inner);
        drop(tx);
        assert_eq!(count(&session, &t).await, 2);
        assert_eq!(session.status(), TransactionStatus::Idle);
    });
}

#[test]
fn a_failed_savepoint_in_a_failed_transaction_undoes_nothing_else() {
    run(async {
        let (mut session, t) = (session().await, table("id int").await);
        let insert = format!("insert into {t} values ($1)");
        let mut tx = session.begin().await.unwrap();
        let mut outer = tx.savepoint();
        outer.execute(&insert, &[&1]).await.unwrap();
        rejected(outer.execute("select 1/0", &[]).await, "22012");
        let inner = outer.savepoint();
        let refused = rejected(inner.execute(&insert, &[&2]).await, "25P02");
        assert!(refused.to_string().starts_with("SAVEPOINT: "), "{refused}");
        let error = rejected(inner.rollback().await, "22012");
        assert_eq!(error.outcome(), Outcome::Rejected);
        drop(outer);
        tx.execute(&insert, &[&3]).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(ids(&t).await, [3].into());
    });
}

#[test]
fn a_savepoint_whose_connection_is_lost_says_so() {
    run(async {
        let mut session = session().await;
        let mut tx = session.begin().await.unwrap();
        let inner = tx.savepoint();
        terminate(inner.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0)).await;
        assert!(error(inner.release().await).is_connection_lost());
        let inner = tx.savepoint();
        assert_eq!(error(inner.execute("select 1", &[]).await).outcome(), Outcome::NotSent);
        drop(inner);
        drop(tx);
        assert!(session.is_closed());
    });
}

/// Nothing of it was sent, so there is nothing to release; but its statement did not run.
/// The transaction has seen the connection end before the savepoint is used.
#[test]
fn a_savepoint_whose_first_statement_found_no_connection_is_not_released_nor_rolled_back() {
    run(async {
        for (nested, releases) in [(false, true), (true, true), (false, false), (true, false)] {
            let mut session = session().await;
            let mut tx = session.begin().await.unwrap();
            let pid: i32 = tx.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
            terminate(pid).await;
            assert!(error(tx.execute("select 1", &[]).await).is_connection_lost());
            let mut outer = tx.savepoint();
            failed(outer.execute("select 1", &[]).await, Outcome::NotSent, "connection_lost");
            let inner = if nested { outer.savepoint() } else { outer };
            let refused = inner.execute("select 1", &[]).await;
            failed(refused, Outcome::NotSent, "connection_lost");
            failed(end(inner, releases).await, Outcome::NotSent, "connection_lost");
        }
    });
}

/// A release speaks of all that is behind the savepoint: something of it was sent, and is undone
/// with its transaction. A rollback speaks of itself. Of a savepoint inside of it nothing was sent.
#[test]
fn a_savepoint_whose_connection_is_lost_amid_a_statement_says_that_it_is_undone() {
    run(async {
        for (nested, releases) in [(false, true), (true, true), (false, false), (true, false)] {
            let gate = Gate::closed().await;
            let mut session = session().await;
            let mut tx = session.begin().await.unwrap();
            let mut outer = tx.savepoint();
            let waits = outer.execute(&gate.statement(), &[]);
            terminate(gate.waiting_pid().await).await;
            assert!(error(waits.await).is_connection_lost());
            let inner = if nested { outer.savepoint() } else { outer };
            let refused = inner.execute("select 1", &[]).await;
            failed(refused, Outcome::NotSent, "connection_lost");
            let expected = match releases && !nested {
                true => Outcome::Rejected,
                false => Outcome::NotSent,
            };
            failed(end(inner, releases).await, expected, "connection_lost");
        }
    });
}

async fn end(savepoint: Savepoint<'_>, releases: bool) -> Result<(), Error> {
    match releases {
        true => savepoint.release().await,
        false => savepoint.rollback().await,
    }
}

/// The options come too late in a transaction that was begun as text, so BEGIN is refused.
#[test]
fn a_savepoint_of_a_transaction_that_was_refused_is_not_released() {
    run(async {
        let mut session = session().await;
        session.script("begin; select 1").await.unwrap();
        let options = TransactionOptions::new().isolation(Isolation::Serializable);
        let mut tx = session.begin_with(options).await.unwrap();
        rejected(tx.query("select 1", &[]).await, "25001");
        let inner = tx.savepoint();
        assert_eq!(error(inner.query("select 1", &[]).await).outcome(), Outcome::NotSent);
        let refused = error(inner.release().await);
        assert_eq!((refused.outcome(), refused.sqlstate()), (Outcome::NotSent, Some("25001")));
        tx.savepoint().rollback().await.unwrap();
    });
}

#[test]
fn savepoints_behind_a_full_queue_keep_their_order() {
    run(async {
        let (gate, t) = (Gate::closed().await, table("id int").await);
        let client = client_with("in_flight_max=1&queue_max=1").await;
        let mut session = client.session().await.unwrap();
        let ahead = [session.query(&gate.statement(), &[]), session.query("select 1", &[])];
        let insert = format!("insert into {t} values ($1)");
        let mut tx = session.begin().await.unwrap();
        drop(tx.execute(&insert, &[&1]));
        let undone = tx.savepoint();
        drop(undone.execute(&insert, &[&2]));
        drop(undone);
        let kept = tx.savepoint();
        drop(kept.execute(&insert, &[&3]));
        drop(kept.release());
        drop(tx.execute(&insert, &[&4]));
        let commit = tx.commit();
        gate.open().await;
        commit.await.unwrap();
        for reply in ahead {
            reply.await.unwrap();
        }
        assert_eq!(ids(&t).await, [1, 3, 4].into());
    });
}
