//! Clients behind a PgBouncer in transaction mode that does not know prepared statements.

use std::time::Duration;

use onetrip::Client;
use onetrip_lab::postgres::pgbouncer::{Options, PrivatePgBouncer, Program, find_all};
use onetrip_lab::postgres::shared;

use crate::support::{rejected, run, run_long, skipped};

/// Every PgBouncer that is installed, configured like one before 1.21, with this many connections
/// to the server.
fn poolers(pool_size: u16) -> Vec<PrivatePgBouncer> {
    let programs = find_all().unwrap();
    if programs.is_empty() {
        skipped("there is no PgBouncer here");
    }
    let options = |program| Options {
        program: Some(program),
        pool_size,
        prepared_max: Some(0),
        ..Options::default()
    };
    programs
        .into_iter()
        .map(|it| PrivatePgBouncer::start(shared(), &options(it)).unwrap())
        .collect()
}

/// A client that prepares every statement at its first use.
async fn eager(pooler: &PrivatePgBouncer) -> Client {
    let url = format!("{}?prepare_threshold=1&connections_max=2", pooler.url());
    Client::connect(&url).await.unwrap()
}

/// P40. P47. Both clients have prepared their first statement, on the same connection to the
/// server.
#[test]
fn no_client_runs_the_statement_that_another_prepared() {
    run(async {
        for pooler in poolers(1) {
            let [one, other] = [eager(&pooler).await, eager(&pooler).await];
            for _ in 0..3 {
                let row = one.query_one("select 'one' || $1", &[&"!"]).await.unwrap();
                assert_eq!(row.get::<&str>(0), "one!");
                let row = other.query_one("select 'other' || $1", &[&"?"]).await.unwrap();
                assert_eq!(row.get::<&str>(0), "other?");
            }
        }
    });
}

/// P40. The transaction has the server connection that knows the statement.
#[test]
fn a_statement_that_is_unknown_to_the_next_connection_is_prepared_there() {
    run(async {
        for pooler in poolers(2) {
            let [client, other] = [eager(&pooler).await, eager(&pooler).await];
            let sql = "select $1 + 1";
            assert_eq!(client.query_one(sql, &[&1]).await.unwrap().get::<i32>(0), 2);
            let tx = other.begin().await.unwrap();
            tx.execute("select 1", &[]).await.unwrap();
            let replies: Vec<_> = (0..5).map(|n| client.query_one(sql, &[&n])).collect();
            for (n, reply) in replies.into_iter().enumerate() {
                assert_eq!(reply.await.unwrap().get::<i32>(0), n as i32 + 1);
            }
            // And again on the connection that knew it before.
            tx.rollback().await.unwrap();
            for n in 0..3 {
                assert_eq!(client.query_one(sql, &[&n]).await.unwrap().get::<i32>(0), n + 1);
            }
        }
    });
}

/// P40. In a transaction nothing can be sent again, so no name is used there that the server may
/// not know.
#[test]
fn a_transaction_uses_no_name_where_the_pooler_changes_servers() {
    run(async {
        for pooler in poolers(2) {
            let [client, other] = [eager(&pooler).await, eager(&pooler).await];
            let session = client.session().await.unwrap();
            let sql = "select $1 + 1";
            session.query_one(sql, &[&1]).await.unwrap();
            let blocker = other.begin().await.unwrap();
            blocker.execute("select 1", &[]).await.unwrap();
            let mut session = session;
            let tx = session.begin().await.unwrap();
            for n in 0..3 {
                assert_eq!(tx.query_one(sql, &[&n]).await.unwrap().get::<i32>(0), n + 1);
            }
            tx.commit().await.unwrap();
        }
    });
}

/// P48. PgBouncer from 1.21 on answers a Parse itself if a server connection has the text already.
/// In a failed transaction the description behind it is refused.
#[test]
fn a_statement_that_was_not_described_is_not_taken_for_prepared() {
    run(async {
        for program in find_all().unwrap().into_iter().filter(Program::knows_prepared_statements) {
            let (program, prepared_max) = (Some(program), Some(100));
            let options = Options { program, prepared_max, pool_size: 1, ..Options::default() };
            let pooler = PrivatePgBouncer::start(shared(), &options).unwrap();
            let sql = "select $1 + 1";
            eager(&pooler).await.query_one(sql, &[&1]).await.unwrap();
            let tx = eager(&pooler).await.begin().await.unwrap();
            tx.execute("savepoint a", &[]).await.unwrap();
            rejected(tx.execute("select 1 / 0", &[]).await, "22012");
            rejected(tx.query_one(sql, &[&1]).await, "25P02");
            tx.execute("rollback to a", &[]).await.unwrap();
            for n in 0..3 {
                assert_eq!(tx.query_one(sql, &[&n]).await.unwrap().get::<i32>(0), n + 1);
            }
        }
    });
}

/// P44.
#[test]
fn a_client_that_prepares_nothing_names_nothing() {
    run(async {
        for pooler in poolers(2) {
            let url = format!("{}?prepare_threshold=0", pooler.url());
            let client = Client::connect(&url).await.unwrap();
            for n in 0..20 {
                let tx = client.begin().await.unwrap();
                assert_eq!(
                    tx.query_one("select $1 + 1", &[&n]).await.unwrap().get::<i32>(0),
                    n + 1
                );
                let named = "select count(*) from pg_prepared_statements where name <> ''";
                assert_eq!(tx.query_one(named, &[]).await.unwrap().get::<i64>(0), 0);
                tx.commit().await.unwrap();
            }
        }
    });
}

/// P42. Newer versions take a few settings in `options`, but not this one.
#[test]
fn startup_options_that_a_pooler_refuses_lead_to_the_settings() {
    run(async {
        for pooler in poolers(1) {
            let url = format!("{}?options=-c%20extra_float_digits%3D2", pooler.url());
            let error = Client::connect(&url).await.unwrap_err();
            let said = error.to_string();
            assert!(said.contains("ignore_startup_parameters"), "{said}");
            assert!(error.is_retry_safe());
        }
    });
}

/// P41. PgBouncer would release the server connection between two segments of one client.
#[test]
fn a_statement_that_fails_takes_no_neighbour_along_behind_a_pooler() {
    run(async {
        for pooler in poolers(2) {
            let clients = [eager(&pooler).await, eager(&pooler).await, eager(&pooler).await];
            for round in 0..100 {
                let replies: Vec<_> = (0..9)
                    .map(|n| {
                        clients[n % 3].query_one("select 6 / $1", &[&((n as i32 + round) % 4)])
                    })
                    .collect();
                for (n, reply) in replies.into_iter().enumerate() {
                    match (n as i32 + round) % 4 {
                        0 => assert_eq!(reply.await.unwrap_err().sqlstate(), Some("22012")),
                        by => assert_eq!(reply.await.unwrap().get::<i32>(0), 6 / by),
                    }
                }
            }
        }
    });
}

/// P40. Bursts that are longer than what PgBouncer reads at once, and pipelines of several
/// segments.
#[test]
fn nothing_is_lost_where_one_segment_leaves_at_a_time() {
    // Each statement waits for the one before it, and each PgBouncer has its turn.
    run_long(Duration::from_secs(120), async {
        for pooler in poolers(2) {
            let url = format!("{}?prepare_threshold=0&one_segment=1", pooler.url());
            let client = Client::connect(&url).await.unwrap();
            let tasks: Vec<_> = (0..10)
                .map(|task: i32| tokio::spawn(in_order(client.clone(), task * 1_000)))
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        }
    });
}

/// Each statement gets its own answer.
async fn in_order(client: Client, first: i32) {
    let text = "x".repeat(3_000);
    for number in first..first + 5 {
        let alone: Vec<_> = (0..20)
            .map(|n| client.query_one("select $1::int, $2::text", &[&(number + n), &text]))
            .collect();
        let mut pipeline = client.pipeline();
        let mut replies = Vec::new();
        for n in 0..20 {
            replies.push(pipeline.query_one("select $1::int, $2::text", &[&(number + n), &text]));
            if n % 5 == 0 {
                drop(pipeline.sync());
            }
        }
        pipeline.finish().await.unwrap();
        for replies in [alone, replies] {
            for (n, reply) in replies.into_iter().enumerate() {
                assert_eq!(reply.await.unwrap().get::<i32>(0), number + n as i32);
            }
        }
    }
}
