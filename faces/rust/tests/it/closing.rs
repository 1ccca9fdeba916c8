//! The end of a client: what waits in line for a connection is served, and what comes later is not.

use std::time::Duration;

use onetrip::{Client, Outcome};

use crate::support::*;

#[test]
fn what_waits_in_line_when_its_client_is_closed_is_served() {
    run(async {
        let client = client_with("connections_max=2").await;
        let sleeps = onetrip::alone("select pg_sleep(0.01), $1::int");
        let statements: Vec<_> = (0..10).map(|n| client.query_one(&sleeps, &[&n])).collect();
        let session = tokio::spawn({
            let client = client.clone();
            async move {
                let session = client.session().await?;
                Ok::<i32, onetrip::Error>(session.query_one("select 10", &[]).await?.get(0))
            }
        });
        let transaction = tokio::spawn({
            let client = client.clone();
            async move {
                let transaction = client.begin().await?;
                let row = transaction.query_one("select 11", &[]).await?;
                transaction.commit().await?;
                Ok::<i32, onetrip::Error>(row.get(0))
            }
        });
        until(async || client.pending().waiting >= 10).await;
        let closing = client.close(PATIENCE);
        let late = async {
            // It runs after the beginning of `close`.
            failed(client.query("select 1", &[]).await, Outcome::NotSent, "closed");
            failed(client.session().await, Outcome::NotSent, "closed");
        };
        let (closed, ()) = tokio::join!(closing, late);
        closed.unwrap();
        for (n, statement) in statements.into_iter().enumerate() {
            assert_eq!(statement.await.unwrap().get::<i32>(1), n as i32);
        }
        assert_eq!(session.await.unwrap().unwrap(), 10);
        assert_eq!(transaction.await.unwrap().unwrap(), 11);
        let late = failed(client.session().await, Outcome::NotSent, "closed");
        assert!(late.to_string().contains("closed by this program"), "{late}");
    });
}

#[test]
fn a_client_that_is_dropped_serves_what_waits_in_line() {
    run(async {
        let client = client_with("connections_max=2").await;
        let sleeps = onetrip::alone("select pg_sleep(0.01), $1::int");
        let statements: Vec<_> = (0..6).map(|n| client.query_one(&sleeps, &[&n])).collect();
        drop(client);
        for (n, statement) in statements.into_iter().enumerate() {
            assert_eq!(statement.await.unwrap().get::<i32>(1), n as i32);
        }
    });
}

#[test]
fn what_still_waits_when_the_time_to_close_is_over_was_not_sent() {
    run(async {
        let client = client_with("connections_max=1").await;
        let held = client.session().await.unwrap();
        let waiting = client.query("select 1", &[]);
        let closing = client.close(Duration::from_millis(50)).await;
        let error = failed(closing, Outcome::Unknown, "close_timeout");
        assert!(error.to_string().contains("1 callers in line"), "{error}");
        failed(waiting.await, Outcome::NotSent, "closed");
        assert!(held.is_closed());
        client.close(PATIENCE).await.unwrap();
    });
}

#[test]
fn what_waits_in_line_of_a_client_that_closes_hears_why_no_connection_can_be_opened() {
    run(async {
        if crate::pooled::shared().is_pooled() {
            return skipped("a pooler in between answers for the server");
        }
        let admin = session().await;
        admin.execute("create database closed_while_closing", &[]).await.unwrap();
        let url = crate::pooled::shared().database_url("closed_while_closing");
        let client = Client::connect(&format!("{url}?connections_max=1")).await.unwrap();
        let held = client.session().await.unwrap();
        let row = held.query_one("select pg_backend_pid()", &[]).await.unwrap();
        let close = "alter database closed_while_closing allow_connections false";
        admin.execute(close, &[]).await.unwrap();
        let waiting = client.query("select 1", &[]);
        let ended = async {
            terminate(row.get(0)).await;
            let error = error(waiting.await);
            assert_eq!((error.sqlstate(), error.outcome()), (Some("55000"), Outcome::NotSent));
        };
        let (closed, ()) = tokio::join!(client.close(PATIENCE), ended);
        closed.unwrap();
        admin.execute("drop database closed_while_closing", &[]).await.unwrap();
    });
}
