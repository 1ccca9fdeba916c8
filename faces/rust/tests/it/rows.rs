//! Reading rows.

use std::error::Error as StdError;

use crate::pooled::shared;
use onetrip::types::{FromSql, Type};
use onetrip::{Kind, Outcome};

use crate::support::*;

#[test]
fn text_and_bytes_may_be_borrowed() {
    run(async {
        let rows = client().await.query(
            "select 'row ' || i, decode(repeat('ff', i), 'hex') from generate_series(0, 2) i",
            &[],
        );
        let rows = rows.await.unwrap();
        let texts: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
        let bytes: Vec<&[u8]> = rows.iter().map(|row| row.get(1)).collect();
        assert_eq!(texts, ["row 0", "row 1", "row 2"]);
        assert_eq!(bytes, [&[][..], &[255], &[255, 255]]);
    });
}

#[test]
fn columns_are_found_by_number_and_by_name_in_any_order() {
    run(async {
        let sql = "select 1 as a, null::text as b, 3::bigint as \"C c\", 4 as a, '' as e";
        let row = client().await.query_one(sql, &[]).await.unwrap();
        assert_eq!(row.get::<&str>("e"), "");
        assert_eq!(row.get::<i64>("C c"), 3);
        assert_eq!(row.get::<Option<&str>>("b"), None);
        assert_eq!(row.get::<i32>("a"), 1, "the first of that name");
        assert_eq!(row.get::<i32>(3), 4);
        assert_eq!(row.get::<i32>(0), 1);
        let names: Vec<&str> = row.columns().iter().map(|column| column.name()).collect();
        assert_eq!(names, ["a", "b", "C c", "a", "e"]);
        assert_eq!(*row.columns()[2].type_(), Type::INT8);
        assert_eq!(row.as_ref().get::<i64>(2), 3);
    });
}

#[test]
fn what_cannot_be_read_is_applied_all_the_same() {
    run(async {
        let row = client().await.query_one("select 1 as a, null::int as b", &[]).await.unwrap();
        for (result, says) in [
            (row.try_get::<i64>("a").map(drop), "int4"),
            (row.try_get::<i32>("b").map(drop), "NULL"),
            (row.try_get::<i32>(2).map(drop), "no column 2"),
            (row.try_get::<i32>("c").map(drop), "no column c"),
        ] {
            let error = failed(result, Outcome::Applied, "unreadable_reply");
            assert_eq!(error.kind(), Kind::Conversion);
            assert!(error.to_string().contains(says), "{error}");
        }
    });
}

#[test]
fn an_empty_result_has_its_columns() {
    run(async {
        let rows = client().await.query("select 1 as a, 2 as b where false", &[]).await.unwrap();
        assert!(rows.is_empty() && rows.iter().next().is_none());
        assert_eq!(rows.columns().len(), 2);
        let none = client().await.query("select", &[]).await.unwrap();
        assert_eq!((none.len(), none.columns().len()), (1, 0));
    });
}

#[test]
fn one_row_asked_for_and_none_or_two_given_is_applied() {
    run(async {
        let (client, t) = (client().await, table("id int").await);
        let insert = format!("insert into {t} select generate_series(1, $1) returning id");
        let none = client.query_one(&insert, &[&0]).await;
        failed(none, Outcome::Applied, "no_row");
        failed(client.query_one(&insert, &[&2]).await, Outcome::Applied, "several_rows");
        failed(
            client.query_opt(&format!("select id from {t}"), &[]).await,
            Outcome::Applied,
            "several_rows",
        );
        assert_eq!(ids(&t).await, [1, 2].into());
        failed(
            client.query_one(&format!("delete from {t}"), &[]).await,
            Outcome::Applied,
            "no_row",
        );
        assert!(ids(&t).await.is_empty());
    });
}

#[test]
fn a_row_outlives_its_client() {
    run(async {
        let row = client().await.query_one("select repeat('x', 100000)", &[]).await.unwrap();
        assert_eq!(row.get::<&str>(0).len(), 100_000);
        assert!(!row.is_provisional());
    });
}

/// A value of an enum, as a derived `FromSql` reads it: by the name of its type.
#[derive(Debug, PartialEq)]
struct Mood(String);

impl<'a> FromSql<'a> for Mood {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Mood(std::str::from_utf8(raw)?.into()))
    }

    fn accepts(type_: &Type) -> bool {
        type_.name().starts_with("test_")
    }
}

/// Types that are not built in are looked up.
#[test]
fn a_column_of_a_type_made_by_the_user_goes_by_its_name() {
    run(async {
        let (client, mood) = (client().await, shared().new_name());
        client.execute(&format!("create type {mood} as enum ('glad')"), &[]).await.unwrap();
        let row = client.query_one(&format!("select 'glad'::{mood}"), &[]).await.unwrap();
        assert_eq!(row.get::<Mood>(0), Mood("glad".into()));
        let error = row.try_get::<i32>(0).unwrap_err();
        assert_eq!((error.code(), error.outcome()), ("unreadable_reply", Outcome::Applied));
        assert!(error.to_string().contains(&mood), "{error}");
    });
}
