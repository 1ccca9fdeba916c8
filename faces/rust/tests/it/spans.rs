//! What `tracing` is told, and what not.

use crate::kept::Kept;
use crate::pooled::shared;
use crate::support::*;

#[test]
fn a_statement_is_a_span_with_the_fields_of_the_conventions() {
    run(async {
        let client = client().await;
        let (kept, _guard) = Kept::start();
        client.query("select 1", &[]).await.unwrap();
        rejected(client.execute("insert into missing values ($1)", &[&7]).await, "42P01");
        let mut pipeline = client.pipeline();
        let one = pipeline.query_one("values (1)", &[]);
        pipeline.finish().await.unwrap();
        one.await.unwrap();
        let spans = kept.spans();
        let of = |number: usize, field: &str| spans[number].get(field).map(String::as_str);
        for (number, operation) in [(0, "SELECT"), (1, "INSERT"), (2, "VALUES")] {
            assert_eq!(of(number, "db.system.name"), Some("postgresql"));
            assert_eq!(of(number, "otel.kind"), Some("client"));
            assert_eq!(of(number, "db.operation.name"), Some(operation));
            assert_eq!(of(number, "server.address"), Some("127.0.0.1"));
            assert_eq!(of(number, "server.port"), Some(&*shared().port().to_string()));
            assert!(of(number, "db.namespace").is_some());
            assert_eq!(of(number, "db.query.text"), None);
        }
        assert_eq!(of(1, "db.response.status_code"), Some("42P01"));
        assert_eq!(of(1, "error.type"), Some("42P01"));
        assert_eq!((of(0, "error.type"), of(0, "db.response.status_code")), (None, None));
        assert_eq!(spans.len(), 3);
    });
}

#[test]
fn no_text_and_no_value_is_told_unless_asked_for() {
    run(async {
        let (kept, _guard) = Kept::start();
        let t = table("id int primary key, note text").await;
        let client = client().await;
        let insert = format!("insert into {t} /* hidden_1 */ values ($1, $2)");
        client.execute(&insert, &[&4711, &"hidden_2"]).await.unwrap();
        let error = rejected(client.execute(&insert, &[&4711, &"hidden_2"]).await, "23505");
        assert!(error.detail().unwrap().contains("4711"));
        let raise = "do $$ begin raise warning 'hidden_3'; end $$";
        client.execute(raise, &[]).await.unwrap();
        let told = kept.everything();
        assert!(!told.contains("hidden") && !told.contains("4711"), "{told}");
        let notice = &kept.events("notice")[0];
        assert_eq!((&*notice["severity"], &*notice["code"]), ("WARNING", "01000"));
    });
}

#[test]
fn texts_are_told_where_they_are_asked_for_and_values_are_not() {
    run(async {
        let client = client_with("log_statements=text").await;
        let (kept, _guard) = Kept::start();
        client.query("select $1::text", &[&"hidden"]).await.unwrap();
        let prepared = client.prepare("select 2").await.unwrap();
        client.query(&prepared, &[]).await.unwrap();
        client.execute("do $$ begin raise notice 'shown'; end $$", &[]).await.unwrap();
        let texts: Vec<String> =
            kept.spans().iter().map(|span| span["db.query.text"].clone()).collect();
        assert_eq!(texts[..2], ["select $1::text", "select 2"]);
        assert_eq!(kept.events("notice")[0]["text"], "shown");
        assert!(!kept.everything().contains("hidden"));
    });
}

#[test]
fn what_happens_to_connections_is_told() {
    run(async {
        let (kept, _guard) = Kept::start();
        let client = client_with("connections_max=1").await;
        assert_eq!(kept.events("connected")[0]["server.address"], "127.0.0.1");
        let held = client.session().await.unwrap();
        held.execute("set work_mem = '1MB'", &[]).await.unwrap();
        let mut waits = Box::pin(client.session());
        assert!(!poll_once(&mut waits).await);
        assert_eq!(kept.events("a caller waits for a connection").len(), 1);
        drop(held);
        drop(waits.await.unwrap());
        assert_eq!(kept.events("a caller has waited for a connection").len(), 1);
        assert_eq!(kept.events("a connection came back changed, and is reset").len(), 1);
        terminate(pid_of(&client).await).await;
        until(async || client.is_closed()).await;
        let lost = &kept.events("connection lost")[0];
        assert_eq!(lost["error.type"], "connection_lost");
        assert!(lost["error"].contains("57P01"), "{lost:?}");
    });
}

#[test]
fn a_reply_that_is_dropped_ends_its_span() {
    run(async {
        let client = client().await;
        let (kept, _guard) = Kept::start();
        drop(client.query("select 1", &[]));
        assert_eq!(kept.spans().len(), 1);
    });
}
