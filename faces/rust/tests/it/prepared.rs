//! Prepared statements: their life on the server, and how they are prepared again.

use onetrip::types::Type;
use onetrip::{Outcome, Session};

use crate::support::*;

#[test]
fn a_prepared_statement_knows_its_types() {
    run(async {
        let client = client().await;
        let statement =
            client.prepare("select $1::int as a, $2::text as b where $3").await.unwrap();
        assert_eq!(statement.params(), [Type::INT4, Type::TEXT, Type::BOOL]);
        let columns = statement.columns();
        let columns: Vec<_> = columns.iter().map(|c| (c.name(), c.type_())).collect();
        assert_eq!(columns, [("a", &Type::INT4), ("b", &Type::TEXT)]);
        let row = client.query_one(&statement, &[&5, &"x", &true]).await.unwrap();
        assert_eq!((row.get::<i32>("a"), row.get::<&str>("b")), (5, "x"));
        let typed = client.prepare_typed("select $1 + $2", &[Type::INT8]).await.unwrap();
        assert_eq!(typed.params(), [Type::INT8, Type::INT8]);
        let nothing = client.prepare("").await.unwrap();
        assert_eq!(client.execute(&nothing, &[]).await.unwrap(), 0);
        rejected(client.prepare("select nothing").await, "42703");
        assert_usable(&client).await;
    });
}

#[test]
fn a_value_is_encoded_as_the_server_wants_it() {
    run(async {
        let client = client().await;
        let statement = client.prepare("select $1::varchar[], $2::bigint").await.unwrap();
        let row = client.query_one(&statement, &[&vec!["a"], &2_i64]).await.unwrap();
        assert_eq!(row.get::<Vec<&str>>(0), ["a"]);
        let wrong = client.query(&statement, &[&vec!["a"], &2_i32]).await;
        failed(wrong, Outcome::NotSent, "unencodable_parameter");
        rejected(client.query("select 1/0", &[]).await, "22012");
        let failing = client.prepare("select 1 / $1::int").await.unwrap();
        rejected(client.query(&failing, &[&0]).await, "22012");
        assert_eq!(client.query_one(&failing, &[&1]).await.unwrap().get::<i32>(0), 1);
    });
}

#[test]
fn a_dropped_statement_is_closed_on_the_server() {
    run(async {
        let session = session().await;
        let statement = session.prepare("select 1").await.unwrap();
        let clone = statement.clone();
        drop(statement);
        assert_eq!(session.query_one(&clone, &[]).await.unwrap().get::<i32>(0), 1);
        assert_eq!(count(&session, "pg_prepared_statements").await, 1);
        let reply = session.query_one(&clone, &[]);
        drop(clone);
        assert_eq!(reply.await.unwrap().get::<i32>(0), 1);
        assert_eq!(count(&session, "pg_prepared_statements").await, 0);
    });
}

#[test]
fn a_statement_of_another_connection_is_refused() {
    run(async {
        let (client, other) = (client().await, session().await);
        let statement = client.prepare("select 1").await.unwrap();
        failed(other.query(&statement, &[]).await, Outcome::NotSent, "foreign_statement");
        let mut pipeline = other.pipeline();
        failed(pipeline.query(&statement, &[]).await, Outcome::NotSent, "foreign_statement");
        assert_eq!(client.query_one(&statement, &[]).await.unwrap().get::<i32>(0), 1);
    });
}

#[test]
fn a_statement_outlives_its_connection_harmlessly() {
    run(async {
        let session = session().await;
        let statement = session.prepare("select 1").await.unwrap();
        drop(session);
        drop(statement);
    });
}

/// P18. A session may lose all its statements by one command.
#[test]
fn a_statement_heals_after_the_server_lost_it() {
    run(async {
        let session = session().await;
        let statement = session.prepare("select $1::int * 2, 'text'").await.unwrap();
        for lose in ["deallocate all", "discard all"] {
            session.execute(lose, &[]).await.unwrap();
            let replies: Vec<_> = (0..5).map(|i| session.query_one(&statement, &[&i])).collect();
            for (i, reply) in (0..5).zip(replies) {
                let row = reply.await.unwrap();
                assert_eq!((row.get::<i32>(0), row.get::<&str>(1)), (i * 2, "text"), "{lose}");
            }
            assert_eq!(session.query_one(&statement, &[&7]).await.unwrap().get::<i32>(0), 14);
            assert_eq!(count(&session, "pg_prepared_statements").await, 1);
        }
    });
}

/// P18. Only a command that succeeded loses them: DISCARD ALL fails inside a transaction.
#[test]
fn a_discard_that_fails_loses_nothing() {
    run(async {
        let client = client().await;
        let session = client.session().await.unwrap();
        let statement = session.prepare("select $1::int * 2").await.unwrap();
        session.query_one(&statement, &[&0]).await.unwrap();
        session.execute("begin", &[]).await.unwrap();
        let refused = session.execute("discard all", &[]).await;
        assert_eq!(error(refused).sqlstate(), Some("25001"));
        session.execute("rollback", &[]).await.unwrap();
        let before = client.metrics().counts;
        for i in 0..3 {
            assert_eq!(session.query_one(&statement, &[&i]).await.unwrap().get::<i32>(0), i * 2);
        }
        let after = client.metrics().counts;
        assert_eq!((after.healed, after.prepared_misses), (before.healed, before.prepared_misses));
        assert_eq!(count(&session, "pg_prepared_statements").await, 1);
    });
}

#[test]
fn a_statement_heals_when_its_table_has_changed() {
    run(async {
        let (client, t) = (client().await, table("a int").await);
        let session = session().await;
        session.script(&format!("insert into {t} values (1)")).await.unwrap();
        let statement = client.prepare(&format!("select * from {t}")).await.unwrap();
        assert_eq!(client.query_one(&statement, &[]).await.unwrap().columns().len(), 1);
        session.script(&format!("alter table {t} add b text default 'b'")).await.unwrap();
        let (first, second) =
            (client.query_one(&statement, &[]), client.query_one(&statement, &[]));
        for reply in [first, second, client.query_one(&statement, &[])] {
            let row = reply.await.unwrap();
            assert_eq!(row.columns().len(), 2);
            assert_eq!((row.get::<i32>("a"), row.get::<&str>("b")), (1, "b"));
        }
    });
}

#[test]
fn a_statement_whose_column_changed_its_type_is_read_as_the_new_type() {
    run(async {
        let (client, t) = (client().await, table("a int").await);
        let session = session().await;
        session.script(&format!("insert into {t} values (1)")).await.unwrap();
        let statement = client.prepare(&format!("select a from {t}")).await.unwrap();
        session.script(&format!("alter table {t} alter a type bigint")).await.unwrap();
        for _ in 0..2 {
            let row = client.query_one(&statement, &[]).await.unwrap();
            assert_eq!(row.get::<i64>(0), 1);
        }
    });
}

#[test]
fn a_statement_that_can_never_be_prepared_again_fails_once() {
    run(async {
        let (client, t) = (client().await, table("a int").await);
        let statement = client.prepare(&format!("select a from {t}")).await.unwrap();
        session().await.script(&format!("drop table {t}")).await.unwrap();
        rejected(client.query(&statement, &[]).await, "42P01");
        rejected(client.query(&statement, &[]).await, "42P01");
        assert_usable(&client).await;
    });
}

#[test]
fn a_dropped_statement_still_heals_for_a_reply_on_its_way() {
    run(async {
        let session = session().await;
        let statement = session.prepare("select 'x'").await.unwrap();
        session.execute("deallocate all", &[]).await.unwrap();
        let reply = session.query_one(&statement, &[]);
        drop(statement);
        assert_eq!(reply.await.unwrap().get::<&str>(0), "x");
    });
}

/// An INSERT that loses all statements of its session: neither its text nor its tag shows that.
pub(crate) async fn losing_unseen() -> String {
    let t = table("a int").await;
    let trigger = format!(
        "create function {t}_lose() returns trigger language plpgsql as
             $$ begin execute 'deallocate all'; return new; end $$;
         create trigger lose before insert on {t} execute function {t}_lose()"
    );
    session().await.script(&trigger).await.unwrap();
    format!("insert into {t} values (1)")
}

#[test]
fn a_loss_that_was_seen_is_made_good_inside_of_a_transaction_too() {
    run(async {
        let mut session = session().await;
        let statement = session.prepare("select 'x'").await.unwrap();
        session.execute("deallocate all", &[]).await.unwrap();
        let tx = session.begin().await.unwrap();
        assert_eq!(tx.query_one(&statement, &[]).await.unwrap().get::<&str>(0), "x");
        let mut pipeline = tx.pipeline();
        let reply = pipeline.query_one(&statement, &[]);
        pipeline.finish().await.unwrap();
        assert_eq!(reply.await.unwrap().get::<&str>(0), "x");
        tx.commit().await.unwrap();
        assert_eq!(count(&session, "pg_prepared_statements").await, 1);
    });
}

#[test]
fn a_statement_does_not_heal_inside_of_a_transaction() {
    run(async {
        let mut session = session().await;
        let statement = session.prepare("select 'x'").await.unwrap();
        session.query(&statement, &[]).await.unwrap();
        session.execute(&losing_unseen().await, &[]).await.unwrap();
        let tx = session.begin().await.unwrap();
        assert_eq!(tx.query_one("select 1", &[]).await.unwrap().get::<i32>(0), 1);
        rejected(tx.query(&statement, &[]).await, "26000");
        rejected(tx.query("select 1", &[]).await, "25P02");
        failed(tx.commit().await, Outcome::Rejected, "rolled_back");
        assert_works(&session, &statement).await;
    });
}

#[test]
fn a_statement_does_not_heal_as_the_first_of_a_transaction() {
    run(async {
        let mut session = session().await;
        let statement = session.prepare("select 'x'").await.unwrap();
        session.query(&statement, &[]).await.unwrap();
        session.execute(&losing_unseen().await, &[]).await.unwrap();
        let tx = session.begin().await.unwrap();
        rejected(tx.query(&statement, &[]).await, "26000");
        tx.rollback().await.unwrap();
        assert_works(&session, &statement).await;
    });
}

#[test]
fn a_statement_does_not_heal_inside_of_a_pipeline() {
    run(async {
        let session = session().await;
        let statement = session.prepare("select 'x'").await.unwrap();
        session.query(&statement, &[]).await.unwrap();
        session.execute(&losing_unseen().await, &[]).await.unwrap();
        let mut pipeline = session.pipeline();
        let before = pipeline.query_one("select 1", &[]);
        let lost = pipeline.query_one(&statement, &[]);
        let after = pipeline.query_one("select 2", &[]);
        rejected(pipeline.finish().await, "26000");
        failed(before.await, Outcome::Rejected, "rolled_back");
        rejected(lost.await, "26000");
        failed(after.await, Outcome::Rejected, "aborted");
        assert_works(&session, &statement).await;
    });
}

async fn assert_works(session: &Session, statement: &onetrip::Statement) {
    assert_eq!(session.query_one(statement, &[]).await.unwrap().get::<&str>(0), "x");
}

#[test]
fn a_statement_may_be_dropped_while_a_pipeline_keeps_its_use() {
    run(async {
        let client = client().await;
        let statement = client.prepare("select 'x'").await.unwrap();
        let mut pipeline = client.pipeline();
        let reply = pipeline.query_one(&statement, &[]);
        drop(statement);
        pipeline.finish().await.unwrap();
        assert_eq!(reply.await.unwrap().get::<&str>(0), "x");
    });
}

#[test]
fn many_statements_are_prepared_and_closed() {
    run(async {
        let session = session().await;
        for i in 0..300 {
            let statement = session.prepare(&format!("select {i}")).await.unwrap();
            assert_eq!(session.query_one(&statement, &[]).await.unwrap().get::<i32>(0), i);
        }
        assert_eq!(count(&session, "pg_prepared_statements").await, 0);
    });
}

/// Closes of many statements leave with the next one, and none of them waits for a reply when none
/// is due.
#[test]
fn many_statements_that_are_dropped_at_once_hold_nobody_up() {
    run(async {
        let session = session().await;
        for round in 0..20 {
            let mut statements = Vec::new();
            for i in 0..40 {
                let sql = format!("select {round} * 100 + {i}");
                let statement = session.prepare(&sql).await.unwrap();
                session.query(&statement, &[]).await.unwrap();
                statements.push(statement);
            }
            drop(statements);
            session.query("select 1", &[]).await.unwrap();
        }
        until(async || count(&session, "pg_prepared_statements").await <= 1).await;
    });
}

#[test]
fn statements_that_are_dropped_while_the_queue_is_full_are_closed_later() {
    run(async {
        let gate = Gate::closed().await;
        let client =
            client_with("connections_max=1&in_flight_max=1&queue_max=2&prepare_threshold=0").await;
        let session = client.session().await.unwrap();
        let mut statements = Vec::new();
        for i in 0..10 {
            let statement = session.prepare(&format!("select {i}")).await.unwrap();
            session.query(&statement, &[]).await.unwrap();
            statements.push(statement);
        }
        let waits = session.query(&gate.statement(), &[]);
        let queued: Vec<_> = (0..5).map(|_| session.query("select 1", &[])).collect();
        drop(statements);
        drop(session.query("select 1", &[]));
        gate.open().await;
        waits.await.unwrap();
        for reply in queued {
            reply.await.unwrap();
        }
        until(async || count(&session, "pg_prepared_statements").await == 0).await;
    });
}
