//! Parameters whose type is a guess, where a wrong guess is not free.

#![allow(clippy::unwrap_used, missing_docs)]

use std::time::{Duration, SystemTime};

use onetrip::Client;
use onetrip_lab::postgres::shared;

// The server reads a time of day without a zone as one on 2000-01-01, so that a zone would show.
const MOMENT: Duration = Duration::from_secs(946_684_800);
const WITHOUT_ZONE: &str = "select $1 = localtimestamp, pg_typeof($1)::text";

#[tokio::test]
async fn a_guess_in_a_pipeline_is_asked_about_first_and_its_neighbours_stand() {
    let client = Client::connect(&shared().url()).await.unwrap();
    let moment = SystemTime::UNIX_EPOCH + MOMENT;
    for _ in 0..2 {
        let mut pipeline = client.pipeline();
        let before = pipeline.query_one("select 1", &[]);
        let guess = pipeline.query_one("select $1 = localtimestamp, $1::text", &[&moment]);
        let after = pipeline.query_one("select 2", &[]);
        pipeline.finish().await.unwrap();
        assert_eq!(before.await.unwrap().get::<i32>(0), 1);
        assert_eq!(guess.await.unwrap().get::<&str>(1), "2000-01-01 00:00:00");
        assert_eq!(after.await.unwrap().get::<i32>(0), 2);
    }
}

#[tokio::test]
async fn a_question_that_the_server_refuses_fails_the_pipeline_and_nothing_of_it_stands() {
    let client = Client::connect(&shared().url()).await.unwrap();
    let table = shared().new_name();
    client.execute(&format!("create table {table} (id int)"), &[]).await.unwrap();
    let insert = format!("insert into {table} values (1)");
    let mut pipeline = client.pipeline();
    let before = pipeline.execute(&insert, &[]);
    let guess = pipeline.execute("select no_such_function($1)", &[&SystemTime::now()]);
    let after = pipeline.execute(&insert, &[]);
    let error = pipeline.finish().await.unwrap_err();
    assert_eq!(error.sqlstate(), Some("42883"), "{error}");
    assert_eq!(before.await.unwrap_err().code(), "rolled_back");
    assert_eq!(guess.await.unwrap_err().sqlstate(), Some("42883"));
    assert_eq!(after.await.unwrap_err().code(), "aborted");
    let count = client.query_one(&format!("select count(*) from {table}"), &[]).await.unwrap();
    assert_eq!(count.get::<i64>(0), 0);
}

#[tokio::test]
async fn an_answer_that_the_value_does_not_convert_to_fails_the_pipeline_and_nothing_stands() {
    let client = Client::connect(&shared().url()).await.unwrap();
    let table = shared().new_name();
    client.execute(&format!("create table {table} (id int, at date)"), &[]).await.unwrap();
    let insert = format!("insert into {table} values (1, null)");
    let mut pipeline = client.pipeline();
    let before = pipeline.execute(&insert, &[]);
    let moment = SystemTime::now();
    let guess = pipeline.execute(&format!("insert into {table} values (2, $1)"), &[&moment]);
    let after = pipeline.execute(&insert, &[]);
    let error = pipeline.finish().await.unwrap_err();
    assert_eq!(error.code(), "unencodable_parameter", "{error}");
    assert!(before.await.is_err() && guess.await.is_err() && after.await.is_err());
    let count = client.query_one(&format!("select count(*) from {table}"), &[]).await.unwrap();
    assert_eq!(count.get::<i64>(0), 0);
}

#[tokio::test]
async fn a_guess_in_a_transaction_is_asked_about_first() {
    let client = Client::connect(&shared().url()).await.unwrap();
    let mut session = client.session().await.unwrap();
    let tx = session.begin().await.unwrap();
    let moment = SystemTime::UNIX_EPOCH + MOMENT;
    let row = tx.query_one("select $1 = localtimestamp, $1::text", &[&moment]).await.unwrap();
    assert_eq!(row.get::<&str>(1), "2000-01-01 00:00:00");
    let mut pipeline = tx.pipeline();
    let guess = pipeline.query_one(WITHOUT_ZONE, &[&moment]);
    pipeline.finish().await.unwrap();
    assert_eq!(guess.await.unwrap().get::<&str>(1), "timestamp without time zone");
    tx.commit().await.unwrap();
}
