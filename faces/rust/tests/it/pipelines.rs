//! Pipelines: atomic from sync point to sync point, provisional before, bounded throughout.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::SystemTime;

use crate::pooled::shared;
use onetrip::{Client, Outcome, PipelineStatus};

use crate::parameters::Naughty;
use crate::queries::deferred_table;
use crate::support::*;

/// P4. Statements that share a sync point are a transaction, so only statements whose caller asked
/// for it may share one.
#[test]
fn all_statements_of_a_pipeline_stand_together() {
    run(async {
        let (client, t) = (client().await, table("id int").await);
        let mut pipeline = client.pipeline();
        let insert = format!("insert into {t} values ($1)");
        let replies: Vec<_> = (0..5).map(|id| pipeline.execute(&insert, &[&id])).collect();
        let sum = pipeline.query_one(&format!("select sum(id) from {t}"), &[]);
        let none = pipeline.query_opt(&format!("select 1 from {t} where false"), &[]);
        let rows = pipeline.query(&format!("select id from {t}"), &[]);
        assert_eq!(pipeline.status(), PipelineStatus::On);
        pipeline.finish().await.unwrap();
        for reply in replies {
            assert_eq!(reply.await.unwrap(), 1);
        }
        let sum = sum.await.unwrap();
        assert_eq!(sum.get::<i64>(0), 10);
        assert!(!sum.is_provisional(), "it was read after the sync point");
        assert!(none.await.unwrap().is_none());
        assert_eq!(rows.await.unwrap().len(), 5);
        assert_eq!(ids(&t).await, (0..5).collect());
    });
}

/// P3. Behind an error the server answers nothing up to the sync point, so the client has to make
/// each missing reply itself.
#[test]
fn a_failure_aborts_what_follows_and_undoes_what_came_before() {
    run(async {
        let (client, t) = (client().await, table("id int primary key").await);
        let insert = format!("insert into {t} values ($1)");
        let mut pipeline = client.pipeline();
        let first = pipeline.execute(&insert, &[&1]);
        let second = pipeline.execute(&insert, &[&1]);
        let third = pipeline.execute(&insert, &[&3]);
        let error = rejected(pipeline.finish().await, "23505");
        assert!(error.to_string().contains("statement 2"), "{error}");
        failed(first.await, Outcome::Rejected, "rolled_back");
        rejected(second.await, "23505");
        failed(third.await, Outcome::Rejected, "aborted");
        assert!(ids(&t).await.is_empty());
        assert_usable(&client).await;
    });
}

#[test]
fn sync_points_divide_a_pipeline_into_transactions() {
    run(async {
        let (client, t) = (client().await, table("id int primary key").await);
        let insert = format!("insert into {t} values ($1)");
        let mut pipeline = client.pipeline();
        let a = pipeline.execute(&insert, &[&1]);
        let first = pipeline.sync();
        let b = pipeline.execute(&insert, &[&2]);
        let c = pipeline.execute(&insert, &[&1]);
        let d = pipeline.execute(&insert, &[&3]);
        let second = pipeline.sync();
        let e = pipeline.execute(&insert, &[&4]);
        let third = pipeline.sync();
        rejected(pipeline.finish().await, "23505");
        first.await.unwrap();
        rejected(second.await, "23505");
        third.await.unwrap();
        assert_eq!(a.await.unwrap(), 1);
        failed(b.await, Outcome::Rejected, "rolled_back");
        rejected(c.await, "23505");
        failed(d.await, Outcome::Rejected, "aborted");
        assert_eq!(e.await.unwrap(), 1);
        assert_eq!(ids(&t).await, [1, 4].into());
    });
}

#[test]
fn a_sync_point_without_statements_is_refused_and_harmless() {
    run(async {
        let client = client().await;
        let mut pipeline = client.pipeline();
        failed(pipeline.sync().await, Outcome::NotSent, "empty_segment");
        let one = pipeline.query_one("select 1", &[]);
        pipeline.sync().await.unwrap();
        failed(pipeline.sync().await, Outcome::NotSent, "empty_segment");
        pipeline.finish().await.unwrap();
        assert_eq!(one.await.unwrap().get::<i32>(0), 1);
        client.pipeline().finish().await.unwrap();
        assert_usable(&client).await;
    });
}

/// P13. A statement may be complete and its commit fail, so success is known only at the sync
/// point.
#[test]
fn a_deferred_constraint_fails_at_the_sync_point_and_undoes_all() {
    run(async {
        let (client, t) = (client().await, deferred_table().await);
        let insert = format!("insert into {t} values ($1, $2)");
        let mut pipeline = client.pipeline();
        let bad = pipeline.execute(&insert, &[&1, &99]);
        let good = pipeline.execute(&insert, &[&2, &2]);
        rejected(pipeline.finish().await, "23503");
        failed(bad.await, Outcome::Rejected, "rolled_back");
        failed(good.await, Outcome::Rejected, "rolled_back");

        // A sync point that fails, and a segment behind it.
        let mut pipeline = client.pipeline();
        let bad = pipeline.execute(&insert, &[&1, &99]);
        let sync = pipeline.sync();
        let good = pipeline.execute(&insert, &[&2, &2]);
        rejected(pipeline.finish().await, "23503");
        rejected(sync.await, "23503");
        failed(bad.await, Outcome::Rejected, "rolled_back");
        assert_eq!(good.await.unwrap(), 1);
        assert_eq!(ids(&t).await, [2].into());
    });
}

#[test]
fn an_early_reply_is_provisional() {
    run(async {
        let (client, t) = (client().await, deferred_table().await);
        let mut pipeline = client.pipeline();
        let insert = format!("insert into {t} values (1, 99) returning id");
        let row = pipeline.query_one(&insert, &[]).await.unwrap();
        assert!(row.is_provisional());
        let rows = pipeline.query(&format!("select * from {t}"), &[]).await.unwrap();
        assert!(rows.is_provisional() && rows.len() == 1);
        rejected(pipeline.finish().await, "23503");
        assert!(ids(&t).await.is_empty());
    });
}

#[test]
fn flush_brings_replies_without_a_sync_point() {
    run(async {
        let client = client().await;
        let mut pipeline = client.pipeline();
        let a = pipeline.query_one("select 1", &[]);
        let b = pipeline.query_one("select 2", &[]);
        pipeline.flush();
        pipeline.flush();
        assert!(a.await.unwrap().is_provisional());
        let c = pipeline.query_one("select 3", &[]);
        assert_eq!(b.await.unwrap().get::<i32>(0), 2);
        pipeline.finish().await.unwrap();
        assert!(!c.await.unwrap().is_provisional());
    });
}

#[test]
fn the_status_tells_of_a_failure_until_the_next_sync_point() {
    run(async {
        let client = client().await;
        let mut pipeline = client.pipeline();
        rejected(pipeline.query("select 1/0", &[]).await, "22012");
        assert_eq!(pipeline.status(), PipelineStatus::Aborted);
        let skipped = pipeline.query("select 1", &[]).await;
        failed(skipped, Outcome::NotSent, "aborted");
        rejected(pipeline.sync().await, "22012");
        assert_eq!(pipeline.status(), PipelineStatus::On);
        assert_eq!(pipeline.query_one("select 2", &[]).await.unwrap().get::<i32>(0), 2);
        rejected(pipeline.finish().await, "22012");
        let pipeline = client.pipeline();
        drop(client);
        assert_eq!(pipeline.status(), PipelineStatus::On);
    });
}

#[test]
fn a_pipeline_keeps_its_connection_open() {
    run(async {
        let client = client().await;
        let mut pipeline = client.pipeline();
        let before = pipeline.query_one("select 1", &[]);
        drop(client);
        tokio::task::yield_now().await;
        let after = pipeline.query_one("select 2", &[]);
        pipeline.finish().await.unwrap();
        assert_eq!(before.await.unwrap().get::<i32>(0), 1);
        assert_eq!(after.await.unwrap().get::<i32>(0), 2);
    });
}

#[test]
fn a_dropped_pipeline_that_was_not_sent_never_is() {
    run(async {
        let (proxy, t) = (proxy(), table("id int").await);
        let client = client_through(&proxy, "").await;
        proxy.reset_stats();
        let mut pipeline = client.pipeline();
        let reply = pipeline.execute(&format!("insert into {t} values (1)"), &[]);
        let sync = pipeline.sync();
        drop(pipeline);
        failed(reply.await, Outcome::NotSent, "cancelled");
        failed(sync.await, Outcome::NotSent, "cancelled");
        assert_eq!(proxy.stats().bytes_up, 0);
        assert_usable(&client).await;
        assert!(ids(&t).await.is_empty());
    });
}

/// As every call, `finish` takes effect when it is called.
#[test]
fn a_finish_that_was_never_polled_takes_nothing_back() {
    run(async {
        let (client, t) = (client().await, table("id int").await);
        let mut pipeline = client.pipeline();
        let reply = pipeline.execute(&format!("insert into {t} values (1)"), &[]);
        drop(pipeline.finish());
        assert_eq!(reply.await.unwrap(), 1);
        assert_eq!(ids(&t).await.len(), 1);
    });
}

#[test]
fn a_finish_that_was_dropped_takes_nothing_back() {
    run(async {
        let (client, t) = (client().await, table("id int").await);
        let mut pipeline = client.pipeline();
        let reply = pipeline.execute(&format!("insert into {t} values (1)"), &[]);
        let mut finish = Box::pin(pipeline.finish());
        assert!(!poll_once(&mut finish).await);
        drop(finish);
        assert_eq!(reply.await.unwrap(), 1);
        assert_eq!(ids(&t).await, [1].into());
    });
}

#[test]
fn a_dropped_pipeline_that_was_half_sent_is_undone() {
    run(async {
        let (client, t) = (client().await, table("id int").await);
        let mut pipeline = client.pipeline();
        let insert = format!("insert into {t} values ($1)");
        assert_eq!(pipeline.execute(&insert, &[&1]).await.unwrap(), 1);
        let second = pipeline.execute(&insert, &[&2]);
        drop(pipeline);
        assert_usable(&client).await;
        assert!(ids(&t).await.is_empty());
        let outcome = error(second.await).outcome();
        assert!(matches!(outcome, Outcome::NotSent | Outcome::Rejected), "{outcome:?}");
    });
}

#[test]
fn only_the_open_segment_of_a_dropped_pipeline_is_undone() {
    run(async {
        let (client, t) = (client().await, table("id int").await);
        let mut pipeline = client.pipeline();
        let insert = format!("insert into {t} values ($1)");
        drop(pipeline.execute(&insert, &[&1]));
        pipeline.sync().await.unwrap();
        assert_eq!(pipeline.execute(&insert, &[&2]).await.unwrap(), 1);
        drop(pipeline);
        assert_usable(&client).await;
        assert_eq!(ids(&t).await, [1].into());
    });
}

/// What was in flight when the pipeline was given up is rolled back, and its reply says so.
#[test]
fn replies_taken_from_a_dropped_pipeline_do_not_report_success() {
    run(async {
        let (client, t) = (client().await, table("id int").await);
        let mut pipeline = client.pipeline();
        let reply = pipeline.execute(&format!("insert into {t} values (1)"), &[]);
        pipeline.flush();
        drop(pipeline);
        assert_usable(&client).await;
        assert!(ids(&t).await.is_empty());
        let error = error(reply.await);
        assert_eq!(error.outcome(), Outcome::Rejected, "{error}");
    });
}

/// P6. Some commands have to be alone between two sync points.
#[test]
fn vacuum_runs_between_sync_points() {
    run(async {
        let (client, t) = (client().await, table("id int").await);
        let mut pipeline = client.pipeline();
        drop(pipeline.execute(&format!("insert into {t} values (1)"), &[]));
        drop(pipeline.sync());
        let vacuum = pipeline.execute(&format!("vacuum {t}"), &[]);
        drop(pipeline.sync());
        drop(pipeline.execute(&format!("insert into {t} values (2)"), &[]));
        pipeline.finish().await.unwrap();
        vacuum.await.unwrap();
        let mut pipeline = client.pipeline();
        let vacuum = pipeline.execute("vacuum pg_class", &[]);
        pipeline.finish().await.unwrap();
        vacuum.await.unwrap();
        assert_eq!(ids(&t).await, [1, 2].into());
    });
}

/// P6. A statement that commits by itself can't be undone by a later failure, so nothing may follow
/// in its segment.
#[test]
fn nothing_joins_the_segment_of_a_statement_that_commits_by_itself() {
    run(async {
        let (client, database) = (client().await, shared().new_name());
        let mut pipeline = client.pipeline();
        let create = pipeline.execute(&format!("create database {database}"), &[]);
        let joins = pipeline.query("select 1/0", &[]);
        failed(joins.await, Outcome::NotSent, "stand_alone");
        error(pipeline.finish().await);
        let outcome = error(create.await).outcome();
        let made = format!("pg_database where datname = '{database}'");
        let made = count(&session().await, &made).await;
        assert_eq!((outcome, made), (Outcome::NotSent, 0));
    });
}

#[test]
fn a_value_that_fails_spoils_the_pipeline_and_nothing_runs() {
    run(async {
        let (client, t) = (client().await, table("id int").await);
        let insert = format!("insert into {t} values ($1)");
        let mut pipeline = client.pipeline();
        let before = pipeline.execute(&insert, &[&1]);
        let bad = pipeline.execute(&insert, &[&Naughty::Fails]);
        let after = pipeline.execute(&insert, &[&3]);
        failed(bad.await, Outcome::NotSent, "unencodable_parameter");
        failed(after.await, Outcome::NotSent, "unencodable_parameter");
        failed(pipeline.sync().await, Outcome::NotSent, "unencodable_parameter");
        failed(pipeline.finish().await, Outcome::NotSent, "unencodable_parameter");
        assert_eq!(error(before.await).outcome(), Outcome::NotSent);
        assert!(ids(&t).await.is_empty());
        assert_usable(&client).await;
    });
}

#[test]
fn a_spoilt_pipeline_that_was_half_sent_is_undone() {
    run(async {
        let (client, t) = (client().await, table("id int").await);
        let insert = format!("insert into {t} values ($1)");
        let mut pipeline = client.pipeline();
        assert_eq!(pipeline.execute(&insert, &[&1]).await.unwrap(), 1);
        let sent = pipeline.execute(&insert, &[&2]);
        pipeline.flush();
        error(pipeline.execute(&insert, &[&Naughty::Fails]).await);
        failed(pipeline.finish().await, Outcome::NotSent, "unencodable_parameter");
        assert_ne!(error(sent.await).outcome(), Outcome::Applied);
        assert_usable(&client).await;
        assert!(ids(&t).await.is_empty());
    });
}

#[test]
fn a_guess_in_a_pipeline_is_asked_about_first() {
    run(async {
        let (client, t) = (client().await, table("at timestamp, names varchar[]").await);
        let moment = std::time::UNIX_EPOCH + std::time::Duration::from_secs(9);
        let names = vec!["a"];
        let insert = format!("insert into {t} values ($1, $2)");
        let same = format!("select at from {t} where names = $1");
        for rows in 1..=2 {
            let mut pipeline = client.pipeline();
            let inserted = pipeline.execute(&insert, &[&moment, &names]);
            let found = pipeline.query(&same, &[&names]);
            let count = pipeline.query_one(&format!("select count(*) from {t}"), &[]);
            pipeline.finish().await.unwrap();
            assert_eq!(inserted.await.unwrap(), 1);
            let found = found.await.unwrap();
            let found: Vec<std::time::SystemTime> = found.iter().map(|row| row.get(0)).collect();
            assert_eq!(found, vec![moment; rows]);
            assert_eq!(
                count.await.unwrap().get::<i64>(0),
                rows as i64,
                "in the order of the calls"
            );
        }
        let mut pipeline = client.pipeline();
        let typed = onetrip::typed(onetrip::types::Type::TIMESTAMPTZ, &moment);
        let given = pipeline.query_one("select $1", &[&typed]);
        pipeline.finish().await.unwrap();
        assert_eq!(given.await.unwrap().get::<std::time::SystemTime>(0), moment);
    });
}

#[test]
fn a_dropped_reply_of_a_guess_in_a_pipeline_lets_its_statement_run() {
    run(async {
        let (client, t) = (client().await, table("at timestamp").await);
        let mut pipeline = client.pipeline();
        let insert = format!("insert into {t} values ($1)");
        drop(pipeline.execute(&insert, &[&std::time::SystemTime::now()]));
        pipeline.finish().await.unwrap();
        assert_eq!(count(&session().await, &t).await, 1);
    });
}

#[test]
fn a_hundred_thousand_statements_are_read_as_they_come() {
    run(async {
        let client = client().await;
        let mut pipeline = client.pipeline();
        let statement = client.prepare("select $1::int, $2::text").await.unwrap();
        let text = "x".repeat(200);
        let mut replies = VecDeque::new();
        for i in 0..100_000 {
            pipeline.ready().await.unwrap();
            replies.push_back((i, pipeline.query_one(&statement, &[&i, &text])));
            if replies.len() > 500 {
                let (i, reply) = replies.pop_front().unwrap();
                assert_eq!(reply.await.unwrap().get::<i32>(0), i);
            }
        }
        pipeline.finish().await.unwrap();
        for (i, reply) in replies {
            assert_eq!(reply.await.unwrap().get::<i32>(0), i);
        }
        assert_usable(&client).await;
    });
}

#[test]
fn big_replies_are_read_as_they_come() {
    run(async {
        let client = client().await;
        let mut pipeline = client.pipeline();
        let mut replies = VecDeque::new();
        for i in 0..300 {
            pipeline.ready().await.unwrap();
            replies.push_back((i, pipeline.query_one("select $1, repeat('x', 100000)", &[&i])));
            if replies.len() > 5 {
                let (i, reply) = replies.pop_front().unwrap();
                let row = reply.await.unwrap();
                assert_eq!((row.get::<i32>(0), row.get::<&str>(1).len()), (i, 100_000));
            }
        }
        pipeline.finish().await.unwrap();
        for (i, reply) in replies {
            assert_eq!(reply.await.unwrap().get::<i32>(0), i);
        }
    });
}

#[test]
fn replies_may_be_read_after_the_finish() {
    run(async {
        let client = client().await;
        for (statements, size) in [(100, 100_000), (1_000, 3_000), (3_000, 3_000)] {
            let mut pipeline = client.pipeline();
            let replies: Vec<_> = (0..statements)
                .map(|i| pipeline.query_one("select $1, repeat('x', $2)", &[&i, &size]))
                .collect();
            pipeline.finish().await.unwrap();
            for (i, reply) in (0..statements).zip(replies) {
                let row = reply.await.unwrap();
                assert_eq!(row.get::<i32>(0), i);
                assert_eq!(row.get::<&str>(1).len(), size as usize);
            }
        }
    });
}

#[test]
fn replies_may_be_read_while_another_task_finishes() {
    run(async {
        let client = client().await;
        let mut pipeline = client.pipeline();
        let replies: Vec<_> =
            (0..3_000).map(|i| pipeline.query_one("select $1, repeat('x', 3000)", &[&i])).collect();
        let read = async {
            for (i, reply) in (0..).zip(replies) {
                assert_eq!(reply.await.unwrap().get::<i32>(0), i);
            }
        };
        let (finished, ()) = tokio::join!(pipeline.finish(), read);
        finished.unwrap();
    });
}

/// Statement after statement with sync points in between, and no reader.
#[test]
fn unread_replies_are_an_error_and_not_a_wait_without_end() {
    run(async {
        let client = client().await;
        let mut pipeline = client.pipeline();
        let mut replies = Vec::new();
        let error = loop {
            match pipeline.ready().await {
                Ok(()) => replies.push(pipeline.query("select repeat('x', 10000)", &[])),
                Err(error) => break error,
            }
            assert!(replies.len() < 100_000);
        };
        assert_eq!((error.outcome(), error.code()), (Outcome::NotSent, "unread_replies"));
        // Reading them is enough to go on.
        for reply in replies {
            assert_eq!(reply.await.unwrap().len(), 1);
        }
        pipeline.ready().await.unwrap();
        pipeline.finish().await.unwrap();
        assert_usable(&client).await;
    });
}

#[test]
fn a_pipeline_longer_than_the_queue_is_refused_and_nothing_runs() {
    run(async {
        let t = table("id int").await;
        for settings in ["queue_max=10", "queue_bytes_max=1000"] {
            let client = client_with(settings).await;
            let insert = format!("insert into {t} values ($1)");
            let mut pipeline = client.pipeline();
            let replies: Vec<_> = (0..100).map(|id| pipeline.execute(&insert, &[&id])).collect();
            failed(pipeline.finish().await, Outcome::NotSent, "pipeline_too_long");
            for reply in replies {
                assert_eq!(error(reply.await).outcome(), Outcome::NotSent);
            }
            assert!(ids(&t).await.is_empty(), "{settings}");
            assert_usable(&client).await;
        }
    });
}

#[test]
fn a_pipeline_as_long_as_the_queue_is_taken() {
    run(async {
        let client = client_with("queue_max=10&in_flight_max=3").await;
        let mut pipeline = client.pipeline();
        let replies: Vec<_> = (0..10).map(|i| pipeline.query_one("select $1", &[&i])).collect();
        pipeline.finish().await.unwrap();
        for (i, reply) in (0..10).zip(replies) {
            assert_eq!(reply.await.unwrap().get::<i32>(0), i);
        }
    });
}

/// Also while it waits for a connection: a pipeline as long as the queue may still add its sync
/// points, or its end would be missing.
#[test]
fn a_pipeline_in_line_that_is_as_long_as_the_queue_is_taken_and_no_longer_one() {
    run(async {
        let (client, t) =
            (client_with("connections_max=1&queue_max=3").await, table("id int").await);
        let insert = format!("insert into {t} values ($1)");
        let session = client.session().await.unwrap();
        let mut pipeline = client.pipeline();
        let mut replies = vec![pipeline.execute(&insert, &[&1])];
        let sync = pipeline.sync();
        replies.push(pipeline.execute(&insert, &[&2]));
        let finish = pipeline.finish();
        let mut longer = client.pipeline();
        let refused: Vec<_> = (3..7).map(|id| longer.execute(&insert, &[&id])).collect();
        let longer = longer.finish();
        drop(session);
        finish.await.unwrap();
        sync.await.unwrap();
        for reply in replies {
            assert_eq!(reply.await.unwrap(), 1);
        }
        failed(longer.await, Outcome::NotSent, "pipeline_too_long");
        for reply in refused {
            assert_eq!(error(reply.await).outcome(), Outcome::NotSent);
        }
        assert_eq!(ids(&t).await, [1, 2].into());
        assert_usable(&client).await;
    });
}

/// Each guess takes the place of two requests. That shows once there is a connection, and then
/// nothing may run.
#[test]
fn a_pipeline_in_line_that_turns_out_to_be_too_long_does_not_run_in_part() {
    run(async {
        let client = client_with("connections_max=1&queue_max=4").await;
        let t = table("id int, at timestamptz").await;
        let session = client.session().await.unwrap();
        let mut pipeline = client.pipeline();
        let guess = |id: i32| format!("insert into {t} values ({id}, $1)");
        let replies: Vec<_> =
            (0..4).map(|id| pipeline.execute(&guess(id), &[&SystemTime::UNIX_EPOCH])).collect();
        let finish = pipeline.finish();
        drop(session);
        failed(finish.await, Outcome::NotSent, "pipeline_too_long");
        for reply in replies {
            assert_eq!(error(reply.await).outcome(), Outcome::NotSent);
        }
        assert!(ids(&t).await.is_empty());
        assert_usable(&client).await;
    });
}

#[test]
fn a_pipeline_passes_a_window_of_one() {
    run(async {
        let client = client_with("in_flight_max=1").await;
        let mut pipeline = client.pipeline();
        let mut replies = VecDeque::new();
        for i in 0..300 {
            pipeline.ready().await.unwrap();
            replies.push_back((i, pipeline.query_one("select $1", &[&i])));
        }
        pipeline.finish().await.unwrap();
        for (i, reply) in replies {
            assert_eq!(reply.await.unwrap().get::<i32>(0), i);
        }
    });
}

#[test]
fn others_on_the_connection_wait_for_an_open_pipeline_and_then_proceed() {
    run(async {
        let client = client().await;
        let mut pipeline = client.pipeline();
        pipeline.query_one("select 1", &[]).await.unwrap();
        let mut others: Vec<_> = (0..50).map(|i| client.query_one("select $1", &[&i])).collect();
        let mut second = client.pipeline();
        let of_second = second.query_one("select 'second'", &[]);
        let mut finish = Box::pin(second.finish());
        assert!(!poll_once(&mut finish).await);
        pipeline.query_one("select 2", &[]).await.unwrap();
        assert!(!poll_once(&mut others[0]).await, "it would be part of the pipeline");
        let last = pipeline.query_one("select txid_current()::text", &[]);
        pipeline.finish().await.unwrap();
        finish.await.unwrap();
        for (i, reply) in (0..50).zip(others) {
            assert_eq!(reply.await.unwrap().get::<i32>(0), i);
        }
        assert_eq!(of_second.await.unwrap().get::<&str>(0), "second");
        last.await.unwrap();
    });
}

#[test]
fn pipelines_of_many_tasks_stay_whole() {
    run_threads(async {
        let (client, t) = (client_with("in_flight_max=20").await, table("task int, id int").await);
        let tasks: Vec<_> = (0..12)
            .map(|task| {
                let (client, t) = (client.clone(), t.clone());
                tokio::spawn(async move {
                    let insert = format!("insert into {t} values ($1, $2)");
                    let count = format!("select count(*) from {t} where task = $1");
                    for round in 0..10 {
                        let mut pipeline = client.pipeline();
                        for id in 0..5 {
                            drop(pipeline.execute(&insert, &[&task, &id]));
                        }
                        let count = pipeline.query_one(&count, &[&task]);
                        match round % 3 {
                            0 => drop(pipeline),
                            1 => {
                                let failing = pipeline.query("select 1/0", &[]);
                                rejected(pipeline.finish().await, "22012");
                                rejected(failing.await, "22012");
                                failed(count.await, Outcome::Rejected, "rolled_back");
                            }
                            _ => {
                                pipeline.finish().await.unwrap();
                                assert_eq!(
                                    count.await.unwrap().get::<i64>(0),
                                    5 * (round as i64 / 3 + 1)
                                );
                            }
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_usable(&client).await;
    });
}

/// The requests in flight carry no sync point, so the server keeps its answers in its buffer until
/// that one comes: nothing may wait for its next reply.
#[test]
fn the_end_of_a_long_pipeline_is_never_held_back() {
    run(async {
        let client = client().await;
        for round in 0..150 {
            let mut pipeline = client.pipeline();
            for _ in 0..(700 + round * 2) {
                drop(pipeline.execute("select 1", &[]));
            }
            // The part that was long enough to leave has left, and is answered as far as possible.
            until(async || client.pending().queued == 0).await;
            until_quiet(&client).await;
            pipeline.finish().await.unwrap();
        }
    });
}

/// Yields until the number of requests in flight stays the same for a while.
async fn until_quiet(client: &Client) {
    let (mut same, mut last) = (0, usize::MAX);
    while same < 200 {
        tokio::task::yield_now().await;
        let now = client.pending().in_flight;
        same = if now == last { same + 1 } else { 0 };
        last = now;
    }
}

/// P5. A BEGIN or COMMIT among statements that share a sync point moves the borders that all of
/// them rely on.
#[test]
fn transaction_control_is_refused_in_the_pipeline_of_a_session() {
    run(async {
        let (session, t) = (session().await, table("id int").await);
        for sql in [
            "commit",
            "end",
            "/**/ commit work",
            "rollback",
            "begin",
            "savepoint a",
            "prepare transaction 'x'",
            "commit and chain",
        ] {
            let mut pipeline = session.pipeline();
            let insert = pipeline.execute(&format!("insert into {t} values (1)"), &[]);
            failed(pipeline.execute(sql, &[]).await, Outcome::NotSent, "transaction_control");
            failed(pipeline.finish().await, Outcome::NotSent, "transaction_control");
            assert_eq!(error(insert.await).outcome(), Outcome::NotSent, "{sql}");
        }
        assert!(ids(&t).await.is_empty());
    });
}

#[test]
fn ready_keeps_a_long_pipeline_within_any_queue() {
    run(async {
        for queue_max in [1, 2, 10, 300] {
            let client = client_with(&format!("queue_max={queue_max}")).await;
            let mut pipeline = client.pipeline();
            let mut replies = Vec::new();
            for i in 0..500 {
                pipeline.ready().await.unwrap();
                replies.push(pipeline.query_one("select $1::int", &[&i]));
            }
            pipeline.finish().await.unwrap();
            for (i, reply) in (0..500).zip(replies) {
                assert_eq!(reply.await.unwrap().get::<i32>(0), i);
            }
        }
    });
}

#[test]
fn a_pipeline_without_one_of_its_statements_is_not_sent_also_after_a_panic() {
    run(async {
        let (client, t) = (client().await, table("id int").await);
        let insert = format!("insert into {t} values ($1::int)");
        let mut pipeline = client.pipeline();
        let first = pipeline.execute(&insert, &[&1]);
        let panics = AssertUnwindSafe(|| drop(pipeline.execute(&insert, &[&Naughty::Panics])));
        assert!(catch_unwind(panics).is_err());
        failed(pipeline.finish().await, Outcome::NotSent, "panicked");
        error(first.await);
        assert!(ids(&t).await.is_empty());
    });
}

#[test]
fn unread_replies_are_an_error_also_while_others_wait_for_their_turn() {
    run(async {
        let client = client().await;
        let mut pipeline = client.pipeline();
        let (mut replies, mut neighbour) = (Vec::new(), None);
        let error = loop {
            match pipeline.ready().await {
                Ok(()) => replies.push(pipeline.query("select repeat('x', 10000)", &[])),
                Err(error) => break error,
            }
            if replies.len() == 20 {
                pipeline.flush();
                neighbour = Some(client.query_one("select 5", &[]));
            }
            assert!(replies.len() < 100_000);
        };
        assert_eq!(error.code(), "unread_replies");
        drop((replies, pipeline));
        assert_eq!(neighbour.unwrap().await.unwrap().get::<i32>(0), 5);
    });
}

/// Sends a pipeline whose replies nobody takes, and leaves it unanswered behind a gate.
async fn forgotten(client: &Client, statement: &str) {
    let mut pipeline = client.pipeline();
    drop(pipeline.query(statement, &[]));
    drop(pipeline.sync());
    drop(pipeline.query(statement, &[]));
    drop(pipeline.finish());
    until_quiet(client).await;
}

/// The result of an earlier pipeline that nobody waits for any more does not concern the next one:
/// an early reply stays provisional, whatever is answered in front of it.
#[test]
fn an_early_reply_is_provisional_also_behind_a_forgotten_pipeline() {
    run(async {
        let (gate, t) = (Gate::closed().await, deferred_table().await);
        let client = client_with("connections_max=1").await;
        let ahead = client.query(&gate.statement(), &[]);
        forgotten(&client, "select 1").await;
        let mut pipeline = client.pipeline();
        let mut row =
            pipeline.query_one(&format!("insert into {t} values (1, 99) returning id"), &[]);
        assert!(!poll_once(&mut row).await);
        gate.open().await;
        ahead.await.unwrap();
        assert!(row.await.unwrap().is_provisional());
        rejected(pipeline.finish().await, "23503");
        assert!(ids(&t).await.is_empty());
    });
}

#[test]
fn a_pipeline_finishes_with_its_own_end_and_not_with_that_of_a_forgotten_one() {
    run(async {
        let (first, second) = (Gate::closed().await, Gate::closed().await);
        let client = client_with("connections_max=1").await;
        let ahead = client.query(&first.statement(), &[]);
        forgotten(&client, "select 1").await;
        let mut pipeline = client.pipeline();
        drop(pipeline.query(&second.statement(), &[]));
        let sync = pipeline.sync();
        let mut finish = Box::pin(pipeline.finish());
        assert!(!poll_once(&mut finish).await);
        first.open().await;
        ahead.await.unwrap();
        let pid = second.waiting_pid().await;
        assert!(!poll_once(&mut finish).await, "its sync point is not answered");
        terminate(pid).await;
        assert_eq!(error(finish.await).outcome(), Outcome::Unknown);
        assert_eq!(error(sync.await).outcome(), Outcome::Unknown);
    });
}

#[test]
fn a_pipeline_does_not_fail_with_the_failure_of_a_forgotten_one() {
    run(async {
        let (gate, t) = (Gate::closed().await, table("id int").await);
        let client = client_with("connections_max=1").await;
        let ahead = client.query(&gate.statement(), &[]);
        forgotten(&client, "select 1/0").await;
        let mut pipeline = client.pipeline();
        let reply = pipeline.execute(&format!("insert into {t} values (1)"), &[]);
        let finish = pipeline.finish();
        gate.open().await;
        ahead.await.unwrap();
        finish.await.unwrap();
        assert_eq!(reply.await.unwrap(), 1);
        assert_eq!(ids(&t).await, [1].into());
    });
}
