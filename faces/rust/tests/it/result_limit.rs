//! The byte limit of results that are kept in memory.

use onetrip::{Kind, Outcome};

use crate::support::*;

#[test]
fn a_result_beyond_the_limit_has_run_and_is_dropped() {
    run(async {
        let t = table("id int").await;
        let client = client_with("result_bytes_max=1000&connections_max=1").await;
        let sql = format!("insert into {t} select generate_series(1, 500) returning id");
        // Small neighbours in front of it and behind it are not affected.
        let before = client.query_one("select 1", &[]);
        let large = client.query(&sql, &[]);
        let behind = client.query_one("select 2", &[]);
        let error = failed(large.await, Outcome::Applied, "result_too_large");
        assert_eq!(error.kind(), Kind::Misuse);
        assert!(error.to_string().contains("query_stream"), "{error}");
        assert_eq!(before.await.unwrap().get::<i32>(0), 1);
        assert_eq!(behind.await.unwrap().get::<i32>(0), 2);
        assert_eq!(ids(&t).await.len(), 500);
        // A statement that fails is a failure, however much came before.
        let sql = "select 1 / (5000 - i) from generate_series(1, 10000) i";
        rejected(client.query(sql, &[]).await, "22012");
        assert_usable(&client).await;
    });
}

#[test]
fn a_single_row_beyond_the_limit_is_dropped_as_it_comes() {
    run(async {
        let client = client_with("result_bytes_max=5000000").await;
        for (len, fits) in [(4_000_000, true), (6_000_000, false), (4_900_000, true)] {
            let sql = format!("select repeat('x', {len})");
            let row = client.query_one(&sql, &[]).await;
            match fits {
                true => assert_eq!(row.unwrap().get::<&str>(0).len(), len),
                false => drop(failed(row, Outcome::Applied, "result_too_large")),
            }
        }
        // If its caller drops it meanwhile, nobody takes it.
        let mut reply = client.query("select repeat('x', 4000000)", &[]);
        poll_once(&mut reply).await;
        drop(reply);
        assert_usable(&client).await;
    });
}

#[test]
fn there_may_be_no_limit() {
    run(async {
        let client = client_with("result_bytes_max=0").await;
        let sql = "select repeat('x', 100) from generate_series(1, 100000)";
        assert_eq!(client.query(sql, &[]).await.unwrap().len(), 100_000);
    });
}

/// Prepared statements depend on what earlier replies describe.
#[test]
fn statements_that_are_prepared_survive_a_result_that_is_too_large() {
    run(async {
        let client =
            client_with("result_bytes_max=1000&prepare_threshold=1&connections_max=1").await;
        let sql = "select i from generate_series(1, $1::int) i";
        for _ in 0..3 {
            failed(client.query(sql, &[&10_000]).await, Outcome::Applied, "result_too_large");
            let rows = client.query(sql, &[&3]).await.unwrap();
            assert!(rows.iter().map(|row| row.get::<i32>(0)).eq(1..=3));
        }
    });
}

#[test]
fn a_pipeline_goes_on_behind_a_result_that_is_too_large() {
    run(async {
        let t = table("id int").await;
        let client = client_with("result_bytes_max=100000&in_flight_bytes_max=10000").await;
        let mut pipeline = client.pipeline();
        let series = "select i, repeat('x', 100) from generate_series(1, 50000) i";
        let large: Vec<_> = (0..3).map(|_| pipeline.query(series, &[])).collect();
        let long = pipeline.query("select repeat('x', 3000000)", &[]);
        let insert = pipeline.execute(&format!("insert into {t} values (1)"), &[]);
        pipeline.finish().await.unwrap();
        for reply in large.into_iter().chain([long]) {
            failed(reply.await, Outcome::Applied, "result_too_large");
        }
        assert_eq!(insert.await.unwrap(), 1);
        assert_eq!(ids(&t).await, [1].into());
        // If the statement is undone, the error says that.
        let mut pipeline = client.pipeline();
        let undone = pipeline.query(series, &[]);
        let failing = pipeline.query("select 1/0", &[]);
        rejected(pipeline.finish().await, "22012");
        failed(undone.await, Outcome::Rejected, "rolled_back");
        rejected(failing.await, "22012");
        assert_usable(&client).await;
    });
}

#[test]
fn a_row_of_a_stream_beyond_the_limit_is_skipped() {
    run(async {
        let client = client_with("result_bytes_max=1000000").await;
        let sql =
            "select case i when 2 then repeat('x', 2000000) end, i from generate_series(1, 3) i";
        let mut rows = client.query_stream(sql, &[]).await.unwrap();
        assert_eq!(rows.try_next().await.unwrap().unwrap().get::<i32>(1), 1);
        failed(rows.try_next().await, Outcome::Applied, "result_too_large");
        assert_eq!(rows.try_next().await.unwrap().unwrap().get::<i32>(1), 3);
        assert!(rows.try_next().await.unwrap().is_none());
    });
}

#[test]
fn a_batch_counts_its_rows_whatever_the_statement_returns() {
    run(async {
        let client = client_with("result_bytes_max=100000").await;
        let table = table("id int, filler text").await;
        let rows = || (0..300).map(|id| (id,));
        let few = format!("insert into {table} values ($1, repeat('x', 1000)) returning *");
        let affected = client.batch(&few, rows()).atomic().await.unwrap();
        assert_eq!((affected.total(), affected.len()), (300, 300));
        // Rows that come in pieces, each beyond the limit.
        let long = format!("insert into {table} values ($1, repeat('x', 300000)) returning *");
        let affected = client.batch(&long, rows().take(30)).atomic().await.unwrap();
        assert_eq!((affected.total(), affected.len()), (30, 30));
        let report = client.batch(&few, rows()).isolated().await;
        assert_eq!((report.affected().total(), report.affected().len()), (300, 300));
        let failing = "select repeat('x', 1000), 1 / ($1::int % 100)";
        let report = client.batch(failing, rows()).isolated().await;
        let failed: Vec<_> = report.errors().iter().map(|error| error.index()).collect();
        assert_eq!(failed, [Some(0), Some(100), Some(200)]);
        assert_eq!(report.affected().len(), 300);
        let error = client.batch(failing, rows().skip(1)).atomic().await.unwrap_err();
        assert_eq!(error.index(), Some(99));
        assert_usable(&client).await;
    });
}

#[test]
fn counts_beyond_the_limit_are_an_error_and_not_a_false_number() {
    run(async {
        let client = client_with("result_bytes_max=1000").await;
        let (table, rows) = (table("id int").await, || (0..300).map(|id| (id,)));
        let insert = format!("insert into {table} values ($1)");
        let error = client.batch(&insert, rows()).atomic().await.unwrap_err();
        assert_eq!(error.error().code(), "result_too_large");
        assert_eq!(error.error().outcome(), Outcome::Applied);
        assert_eq!(ids(&table).await.len(), 300);
        let report = client.batch(&insert, rows()).isolated().await;
        assert_eq!(report.affected().len(), 300);
        assert!(!report.errors().is_empty());
        assert!(report.errors().iter().all(|it| it.error().code() == "result_too_large"));
    });
}
