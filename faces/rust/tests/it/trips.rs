//! What shares a trip, counted by the proxy. If the server might answer one call before the next is
//! made, its answers are held back until all are made.

use std::time::{Duration, SystemTime};

use onetrip::Outcome;
use onetrip_lab::proxy::{Direction, Fault, Proxy, Scope};

use crate::support::*;

const DOWN: Direction = Direction::Down;

/// The trips of `work`.
async fn trips(proxy: &Proxy, work: impl Future<Output = ()>) -> u64 {
    proxy.reset_stats();
    work.await;
    proxy.stats().trips
}

/// The trips of futures whose calls are made before the server's first answer arrives.
async fn trips_while_silent(proxy: &Proxy, work: impl Future<Output = ()>) -> u64 {
    proxy.reset_stats();
    proxy.fault(Fault::Stall { direction: DOWN }, Scope::All);
    let resume = async { proxy.fault(Fault::Resume { direction: DOWN }, Scope::All) };
    tokio::join!(biased; work, resume);
    proxy.stats().trips
}

#[test]
fn calls_made_before_the_first_is_awaited_share_a_trip() {
    run(async {
        let proxy = proxy();
        let client = client_through(&proxy, "connections_max=1").await;
        let two = trips_while_silent(&proxy, async {
            let (a, b) = (client.query_one("select 1", &[]), client.query_one("select $1", &[&2]));
            assert_eq!(a.await.unwrap().get::<i32>(0), 1);
            assert_eq!(b.await.unwrap().get::<i32>(0), 2);
        });
        assert_eq!(two.await, 1);
        let sequential = trips(&proxy, async {
            client.query_one("select 1", &[]).await.unwrap();
            client.query_one("select 1", &[]).await.unwrap();
        });
        assert_eq!(sequential.await, 2);
        let joined = trips_while_silent(&proxy, async {
            let all: Vec<_> = (0..100).map(|i| client.query_one("select $1", &[&i])).collect();
            for reply in all {
                reply.await.unwrap();
            }
        });
        assert_eq!(joined.await, 1);
    });
}

/// P23. Asking for the types of parameters first would double the trips of every first use.
#[test]
fn a_first_use_with_parameters_is_one_trip() {
    run(async {
        let (proxy, t) = (proxy(), table("a int, b text, c bytea, d bool, e float8").await);
        let client = client_through(&proxy, "").await;
        let mut session = client.session().await.unwrap();
        let insert = format!("insert into {t} values ($1, $2, $3, $4, $5)");
        let select = format!("select * from {t} where a = $1 and b = $2 and c = $3");
        let count = trips(&proxy, async {
            let bytes = vec![1_u8];
            session.execute(&insert, &[&7, &"seven", &bytes, &true, &0.5]).await.unwrap();
            let row = session.query_one(&select, &[&7, &"seven", &bytes]).await.unwrap();
            assert_eq!(row.get::<f64>("e"), 0.5);
            let tx = session.begin().await.unwrap();
            tx.query_one("select $1::int", &[&1]).await.unwrap();
            tx.commit().await.unwrap();
        });
        assert_eq!(count.await, 4);
    });
}

#[test]
fn a_pipeline_is_one_trip() {
    run(async {
        let (proxy, t) = (proxy(), table("id int").await);
        let client = client_through(&proxy, "").await;
        let count = trips(&proxy, async {
            let mut pipeline = client.pipeline();
            let insert = format!("insert into {t} values ($1)");
            let replies: Vec<_> = (0..10).map(|id| pipeline.execute(&insert, &[&id])).collect();
            pipeline.finish().await.unwrap();
            for reply in replies {
                assert_eq!(reply.await.unwrap(), 1);
            }
        });
        assert_eq!(count.await, 1);
    });
}

#[test]
fn begin_rides_along() {
    run(async {
        let (proxy, t) = (proxy(), table("id int").await);
        let client = client_through(&proxy, "").await;
        let mut session = client.session().await.unwrap();
        let update = format!("update {t} set id = id + 1");
        let count = trips(&proxy, async {
            let tx = session.begin().await.unwrap();
            tx.execute(&update, &[]).await.unwrap();
            tx.execute(&update, &[]).await.unwrap();
            tx.commit().await.unwrap();
        });
        assert_eq!(count.await, 3);
    });
}

#[test]
fn commit_leaves_with_the_statements_in_front_of_it() {
    run(async {
        let (proxy, t) = (proxy(), table("id int").await);
        let client = client_through(&proxy, "").await;
        let mut session = client.session().await.unwrap();
        let count = trips_while_silent(&proxy, async {
            let tx = session.begin().await.unwrap();
            let insert = tx.execute(&format!("insert into {t} values (1)"), &[]);
            tx.commit().await.unwrap();
            assert_eq!(insert.await.unwrap(), 1);
        });
        assert_eq!(count.await, 1);
        assert_eq!(ids(&t).await, [1].into());
    });
}

#[test]
fn begin_rides_along_with_a_pipeline() {
    run(async {
        let (proxy, t) = (proxy(), table("id int").await);
        let client = client_through(&proxy, "").await;
        let mut session = client.session().await.unwrap();
        let count = trips_while_silent(&proxy, async {
            let tx = session.begin().await.unwrap();
            let mut pipeline = tx.pipeline();
            let insert = pipeline.execute(&format!("insert into {t} values (1)"), &[]);
            pipeline.finish().await.unwrap();
            insert.await.unwrap();
            tx.commit().await.unwrap();
        });
        assert_eq!(count.await, 2);
    });
}

#[test]
fn a_transaction_without_statements_sends_nothing() {
    run(async {
        let proxy = proxy();
        let client = client_through(&proxy, "").await;
        let mut session = client.session().await.unwrap();
        proxy.reset_stats();
        session.begin().await.unwrap().commit().await.unwrap();
        session.begin().await.unwrap().rollback().await.unwrap();
        drop(session.begin().await.unwrap());
        // A statement that could not be encoded was never sent, and neither was its BEGIN.
        let tx = session.begin().await.unwrap();
        error(tx.execute("select 1\0", &[]).await);
        failed(tx.commit().await, Outcome::NotSent, "rolled_back");
        assert_eq!(proxy.stats().bytes_up, 0);
    });
}

#[test]
fn a_dropped_transaction_rolls_back_in_the_trip_of_the_next_statement() {
    run(async {
        let (proxy, t) = (proxy(), table("id int").await);
        let client = client_through(&proxy, "").await;
        let mut session = client.session().await.unwrap();
        let count = trips_while_silent(&proxy, async {
            let tx = session.begin().await.unwrap();
            drop(tx.execute(&format!("insert into {t} values (1)"), &[]));
            drop(tx);
            let rows = session.query_one(&format!("select count(*) from {t}"), &[]).await.unwrap();
            assert_eq!(rows.get::<i64>(0), 0);
        });
        assert_eq!(count.await, 1);
        assert_eq!(session.status(), onetrip::TransactionStatus::Idle);
    });
}

/// P23. The server is asked only if a wrong type would change the meaning.
#[test]
fn a_guess_is_asked_about_once_where_the_statement_does_not_tell() {
    run(async {
        let proxy = proxy();
        let client = client_through(&proxy, "").await;
        let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(86_400);
        for expected in [2, 1] {
            let count = trips(&proxy, async {
                let list = vec!["b"];
                let row = client.query_one("select $1, $2, $3, $4", &[&1, &"a", &moment, &list]);
                assert_eq!(row.await.unwrap().get::<SystemTime>(2), moment);
            });
            assert_eq!(count.await, expected);
        }
    });
}

#[test]
fn a_parameter_that_fits_several_types_is_asked_about_once() {
    run(async {
        let (proxy, t) = (proxy(), table("tags varchar[]").await);
        let client = client_through(&proxy, "").await;
        client.execute(&format!("insert into {t} values ('{{a,b}}')"), &[]).await.unwrap();
        let sql = format!("select count(*) from {t} where tags = $1");
        for expected in [2, 1, 1] {
            let count = trips(&proxy, async {
                let row = client.query_one(&sql, &[&vec!["a", "b"]]).await.unwrap();
                assert_eq!(row.get::<i64>(0), 1);
            });
            assert_eq!(count.await, expected);
        }
    });
}

#[test]
fn a_result_without_a_binary_form_is_asked_about_once() {
    run(async {
        let proxy = proxy();
        let client = client_through(&proxy, "").await;
        let sql = "select makeaclitem(10, 10, 'SELECT', $1), 7";
        for expected in [3, 1, 1] {
            let count = trips(&proxy, async {
                let row = client.query_one(sql, &[&false]).await.unwrap();
                assert!(row.columns()[0].is_text() && !row.columns()[1].is_text());
                assert_eq!(row.get::<&str>(0), "postgres=r/postgres");
                assert_eq!(row.get::<i32>(1), 7);
            });
            assert_eq!(count.await, expected);
        }
    });
}

#[test]
fn a_prepared_statement_is_one_trip_to_prepare_and_one_to_use() {
    run(async {
        let proxy = proxy();
        let client = client_through(&proxy, "").await;
        let mut prepared = None;
        let count = trips(&proxy, async {
            prepared = Some(client.prepare("select $1::int").await.unwrap());
        });
        assert_eq!(count.await, 1);
        let prepared = prepared.unwrap();
        let count = trips(&proxy, async {
            assert_eq!(client.query_one(&prepared, &[&3]).await.unwrap().get::<i32>(0), 3);
        });
        assert_eq!(count.await, 1);
    });
}

#[test]
fn a_transaction_of_one_statement_is_one_trip() {
    run(async {
        let (proxy, t) = (proxy(), table("id int").await);
        let client = client_through(&proxy, "connections_max=1").await;
        let insert = format!("insert into {t} values ($1)");
        let count = trips(&proxy, async {
            let tx = client.begin().await.unwrap();
            assert_eq!(tx.commit_with::<u64, _>(&insert, &[&1]).await.unwrap(), 1);
        });
        assert_eq!(count.await, 1);
        let count = trips(&proxy, async {
            let tx = client.begin().await.unwrap();
            tx.execute(&insert, &[&2]).await.unwrap();
            tx.execute(&insert, &[&3]).await.unwrap();
            assert_eq!(tx.commit_with::<u64, _>(&insert, &[&4]).await.unwrap(), 1);
        });
        assert_eq!(count.await, 3);
        assert_eq!(ids(&t).await, [1, 2, 3, 4].into());
    });
}

/// The bar: one trip fewer than statements + 2, with code that awaits each.
#[test]
fn a_chatty_transaction_is_a_trip_for_each_statement_and_one_for_commit() {
    run(async {
        let (proxy, t) = (proxy(), table("id int").await);
        let client = client_through(&proxy, "").await;
        let insert = format!("insert into {t} values ($1)");
        for statements in [1, 5] {
            let count = trips(&proxy, async {
                let tx = client.begin().await.unwrap();
                for id in 0..statements {
                    tx.execute(&insert, &[&id]).await.unwrap();
                }
                tx.commit().await.unwrap();
            });
            assert_eq!(count.await, statements as u64 + 2 - 1);
        }
    });
}

#[test]
fn savepoints_cost_no_trip() {
    run(async {
        let (proxy, t) = (proxy(), table("id int").await);
        let client = client_through(&proxy, "").await;
        let insert = format!("insert into {t} values ($1)");
        let count = trips(&proxy, async {
            let mut tx = client.begin().await.unwrap();
            let mut outer = tx.savepoint();
            let inner = outer.savepoint();
            inner.execute(&insert, &[&1]).await.unwrap(); // BEGIN, two SAVEPOINTs and this: one.
            drop(inner.release());
            outer.execute(&insert, &[&2]).await.unwrap(); // RELEASE and this: two.
            drop(outer.release());
            tx.execute(&insert, &[&3]).await.unwrap(); // Three.
            let unused = tx.savepoint();
            drop(unused.release());
            drop(tx.savepoint());
            tx.commit().await.unwrap(); // Four.
        });
        assert_eq!(count.await, 4);
        assert_eq!(ids(&t).await, [1, 2, 3].into());
    });
}

#[test]
fn an_awaited_release_and_an_awaited_rollback_are_a_trip_each() {
    run(async {
        let (proxy, t) = (proxy(), table("id int").await);
        let client = client_through(&proxy, "").await;
        let insert = format!("insert into {t} values ($1)");
        let count = trips(&proxy, async {
            let mut tx = client.begin().await.unwrap();
            let inner = tx.savepoint();
            inner.execute(&insert, &[&1]).await.unwrap();
            inner.release().await.unwrap();
            let inner = tx.savepoint();
            inner.execute(&insert, &[&2]).await.unwrap();
            inner.rollback().await.unwrap();
            tx.commit().await.unwrap();
        });
        assert_eq!(count.await, 5);
    });
}

#[test]
fn a_dropped_savepoint_is_undone_in_the_trip_of_what_comes_next() {
    run(async {
        let (proxy, t) = (proxy(), table("id int").await);
        let client = client_through(&proxy, "").await;
        let insert = format!("insert into {t} values ($1)");
        let count = trips_while_silent(&proxy, async {
            let mut tx = client.begin().await.unwrap();
            let inner = tx.savepoint();
            drop(inner.execute(&insert, &[&1]));
            drop(inner);
            drop(tx.execute(&insert, &[&2]));
            tx.commit().await.unwrap();
        });
        assert_eq!(count.await, 1);
        assert_eq!(ids(&t).await, [2].into());
    });
}

#[test]
fn a_run_without_conflicts_costs_what_its_transaction_costs() {
    run(async {
        let (proxy, t) = (proxy(), table("id int").await);
        let client = client_through(&proxy, "").await;
        let insert = format!("insert into {t} values ($1)");
        let count = trips(&proxy, async {
            client.run(async |tx| tx.execute(&insert, &[&1]).await).await.unwrap();
        });
        assert_eq!(count.await, 2);
        let count = trips_while_silent(&proxy, async {
            let work = async |tx: &mut onetrip::Transaction<'_>| {
                drop(tx.execute(&insert, &[&2]));
                Ok::<_, onetrip::Error>(())
            };
            client.run(work).await.unwrap();
        });
        assert_eq!(count.await, 1);
        assert_eq!(ids(&t).await, [1, 2].into());
    });
}
