//! Parameters: how their types are found, which can't be sent, and callers' code that misbehaves.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, SystemTime};

use crate::pooled::shared;
use bytes::{BufMut, BytesMut};
use onetrip::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use onetrip::{Client, Kind, Outcome, typed};

use crate::support::*;

type Encoded = Result<IsNull, Box<dyn StdError + Sync + Send>>;

async fn round_trip<T>(client: &Client, value: T, type_: Type)
where
    T: ToSql + Sync + for<'a> FromSql<'a> + PartialEq + std::fmt::Debug,
{
    let row = client.query_one(&format!("select $1 /* {type_} */"), &[&value]).await.unwrap();
    assert_eq!(*row.columns()[0].type_(), type_);
    assert_eq!(row.get::<T>(0), value);
}

#[test]
fn plain_values_name_their_types() {
    run(async {
        let client = client().await;
        round_trip(&client, 7_i8, Type::CHAR).await;
        round_trip(&client, 300_i16, Type::INT2).await;
        round_trip(&client, i32::MIN, Type::INT4).await;
        round_trip(&client, i64::MAX, Type::INT8).await;
        round_trip(&client, u32::MAX, Type::OID).await;
        round_trip(&client, true, Type::BOOL).await;
        round_trip(&client, 1.5_f32, Type::FLOAT4).await;
        round_trip(&client, -0.1_f64, Type::FLOAT8).await;
        round_trip(&client, vec![0_u8, 1, 255], Type::BYTEA).await;
        round_trip(&client, Vec::<u8>::new(), Type::BYTEA).await;
        round_trip(&client, vec![1, -2, 3], Type::INT4_ARRAY).await;
        round_trip(&client, vec![Some(1_i64), None], Type::INT8_ARRAY).await;
        round_trip(&client, Vec::<bool>::new(), Type::BOOL_ARRAY).await;
        round_trip(&client, Uuid([7; 16]), Type::UUID).await;
        round_trip(&client, Some(5), Type::INT4).await;
    });
}

#[derive(Debug, PartialEq)]
struct Uuid([u8; 16]);

impl ToSql for Uuid {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Encoded {
        out.put_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(type_: &Type) -> bool {
        *type_ == Type::UUID
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Uuid {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Uuid(raw.try_into()?))
    }

    fn accepts(type_: &Type) -> bool {
        *type_ == Type::UUID
    }
}

#[test]
fn text_is_inferred_as_a_literal_would_be() {
    run(async {
        let (client, mood) = (client().await, shared().new_name());
        let session = session().await;
        session.script(&format!("create type {mood} as enum ('sad', 'glad')")).await.unwrap();
        let types = [
            (mood.as_str(), "glad"),
            ("date", "2024-02-29"),
            ("timestamp", "2024-02-29 12:34:56"),
            ("jsonb", r#"{"a": [1, null]}"#),
            ("numeric", "12345678901234567890.123"),
            ("int", "-7"),
            ("bool", "true"),
            ("uuid", "00000000-0000-0000-0000-00000000002a"),
            ("inet", "10.0.0.0/8"),
            ("interval", "1 day 02:00:00"),
            ("int[]", "{1,2,NULL}"),
            ("text", "ä€😀"),
            ("varchar", ""),
        ];
        let columns: Vec<String> =
            types.iter().enumerate().map(|(i, (type_, _))| format!("c{i} {type_}")).collect();
        let t = table(&columns.join(", ")).await;
        let places: Vec<String> = (1..=types.len()).map(|i| format!("${i}")).collect();
        let insert = format!("insert into {t} values ({})", places.join(", "));
        let values: Vec<&(dyn ToSql + Sync)> =
            types.iter().map(|(_, value)| value as &(dyn ToSql + Sync)).collect();
        client.execute(&insert, &values).await.unwrap();
        let texts: Vec<String> = (0..types.len()).map(|i| format!("c{i}::text")).collect();
        let row = client.query_one(&format!("select {} from {t}", texts.join(", ")), &[]);
        let row = row.await.unwrap();
        for (i, (type_, value)) in types.iter().enumerate() {
            assert_eq!(row.get::<&str>(i), *value, "{type_}");
        }
        let found = client.query(
            &format!("select 1 from {t} where c0 = $1 and c1 < $2"),
            &[&"glad", &String::from("2025-01-01")],
        );
        assert_eq!(found.await.unwrap().len(), 1);
        rejected(
            client.query(&format!("select 1 from {t} where c0 = $1"), &[&"angry"]).await,
            "22P02",
        );
        let row =
            client.query_one("select $1 || 'x', $2::numeric + 1, lower($3)", &[&"a", &"0.5", &"B"]);
        let row = row.await.unwrap();
        assert_eq!((row.get::<&str>(0), row.get::<&str>(2)), ("ax", "b"));
    });
}

#[test]
fn null_needs_no_value() {
    run(async {
        let client = client().await;
        let row = client.query_one(
            "select $1, $2 is null, $3::date",
            &[&None::<i32>, &None::<bool>, &None::<&str>],
        );
        let row = row.await.unwrap();
        assert_eq!(row.get::<Option<i32>>(0), None);
        assert!(row.get::<bool>(1));
        // The same text with a value.
        let sql = "select coalesce($1, 'none')";
        for value in [Some("a"), None, Some("b")] {
            let row = client.query_one(sql, &[&value]).await.unwrap();
            assert_eq!(row.get::<&str>(0), value.unwrap_or("none"));
        }
    });
}

#[test]
fn one_text_takes_values_of_different_types() {
    run(async {
        let client = client().await;
        for _ in 0..2 {
            let sql = "select pg_typeof($1)::text";
            let values: [(&(dyn ToSql + Sync), &str); 4] = [
                (&1_i32, "integer"),
                (&1_i64, "bigint"),
                (&true, "boolean"),
                (&vec![1_u8], "bytea"),
            ];
            for (value, expected) in values {
                assert_eq!(client.query_one(sql, &[value]).await.unwrap().get::<&str>(0), expected);
            }
        }
    });
}

#[test]
fn any_takes_an_array() {
    run(async {
        let client = client().await;
        let sql = "select count(*) from generate_series(1, 10) i where i = any($1)";
        assert_eq!(client.query_one(sql, &[&vec![2, 4, 40]]).await.unwrap().get::<i64>(0), 2);
        let sql = "select count(*) from (values ('a'), ('b')) v (t) where t = any($1)";
        let row = client.query_one(sql, &[&vec!["b", "c"]]).await.unwrap();
        assert_eq!(row.get::<i64>(0), 1);
        let row = client.query_one(sql, &[&vec![String::from("a"), "b".into()]]).await.unwrap();
        assert_eq!(row.get::<i64>(0), 2);
    });
}

#[test]
fn a_typed_value_has_its_type() {
    run(async {
        let client = client().await;
        let moment = SystemTime::UNIX_EPOCH + Duration::from_millis(1_500);
        for type_ in [Type::TIMESTAMP, Type::TIMESTAMPTZ] {
            let row =
                client.query_one("select $1", &[&typed(type_.clone(), &moment)]).await.unwrap();
            assert_eq!(*row.columns()[0].type_(), type_);
            assert_eq!(row.get::<SystemTime>(0), moment);
        }
        let row = client.query_one("select $1", &[&typed(Type::TEXT, &"a")]).await.unwrap();
        assert_eq!(*row.columns()[0].type_(), Type::TEXT);
        let none = None::<&str>;
        let row = client.query_one("select $1", &[&typed(Type::DATE, &None::<SystemTime>)]).await;
        assert_eq!(error(row).outcome(), Outcome::NotSent, "a SystemTime is no date");
        let row = client.query_one("select $1", &[&typed(Type::VARCHAR, &none)]).await.unwrap();
        assert_eq!(row.get::<Option<&str>>(0), None);
        let wrong = client.query("select $1", &[&typed(Type::INT4, &"a")]).await;
        let error = failed(wrong, Outcome::NotSent, "unencodable_parameter");
        assert_eq!(error.kind(), Kind::Conversion);
        assert_usable(&client).await;
    });
}

#[test]
fn a_guess_gives_way_to_what_the_server_wants() {
    run(async {
        let client = client().await;
        let function = shared().new_name();
        let create = format!(
            "create function {function}(timestamp) returns timestamp language sql as 'select $1'"
        );
        client.execute(&create, &[]).await.unwrap();
        let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(5);
        for _ in 0..3 {
            let row =
                client.query_one(&format!("select {function}($1)"), &[&moment]).await.unwrap();
            assert_eq!(*row.columns()[0].type_(), Type::TIMESTAMP);
            assert_eq!(row.get::<SystemTime>(0), moment);
        }
        let t = table("names varchar[], at timestamp").await;
        let insert = format!("insert into {t} values ($1, $2)");
        assert_eq!(client.execute(&insert, &[&vec!["a"], &moment]).await.unwrap(), 1);
        let same = format!("select at from {t} where names = $1 and at = $2");
        let row = client.query_one(&same, &[&vec!["a"], &moment]).await.unwrap();
        assert_eq!(row.get::<SystemTime>(0), moment);
    });
}

/// A cast from timestamptz to timestamp depends on the session's time zone; a value must not depend
/// on whether its type was guessed or asked for.
#[test]
fn a_moment_is_the_same_in_and_outside_of_a_transaction_in_any_time_zone() {
    run(async {
        let client = client_with("options=-c%20TimeZone%3DAmerica/New_York").await;
        let mut session = client.session().await.unwrap();
        let t = table("id text, at timestamp").await;
        let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let insert = format!("insert into {t} values ($1, $2)");
        client.execute(&insert, &[&"shared", &moment]).await.unwrap();
        let tx = session.begin().await.unwrap();
        tx.execute(&insert, &[&"transaction", &moment]).await.unwrap();
        tx.commit().await.unwrap();
        let prepared = client.prepare(&insert).await.unwrap();
        client.execute(&prepared, &[&"prepared", &moment]).await.unwrap();
        for row in &client.query(&format!("select id, at from {t}"), &[]).await.unwrap() {
            assert_eq!(row.get::<SystemTime>(1), moment, "{}", row.get::<&str>(0));
        }
    });
}

#[test]
fn a_value_of_no_known_type_is_refused_and_says_what_to_do() {
    run(async {
        let client = client().await;
        let map: HashMap<String, Option<String>> = HashMap::new();
        let reply = client.query("select $1, $2", &[&1, &map]).await;
        let error = failed(reply, Outcome::NotSent, "unknown_parameter_type");
        assert!(
            error.to_string().contains("$2") && error.to_string().contains("typed("),
            "{error}"
        );
        assert_usable(&client).await;
    });
}

#[test]
fn a_wrong_number_of_parameters_is_refused() {
    run(async {
        let client = client().await;
        let few = error(client.query("select $1::int + $2::int", &[&1]).await);
        assert!(matches!(few.outcome(), Outcome::NotSent | Outcome::Rejected), "{few}");
        error(client.query("select $1::int", &[&1, &"2"]).await);
        let prepared = client.prepare("select $1::int").await.unwrap();
        failed(client.query(&prepared, &[]).await, Outcome::NotSent, "parameter_count");
        failed(client.query(&prepared, &[&1, &2]).await, Outcome::NotSent, "parameter_count");
        assert_usable(&client).await;
    });
}

#[test]
fn nul_is_refused_in_texts_and_rejected_in_values() {
    run(async {
        let client = client().await;
        let text = client.query("select 1 \0", &[]).await;
        assert_eq!(error(text).outcome(), Outcome::NotSent);
        error(client.prepare("select \0").await);
        rejected(client.query("select $1", &[&"a\0b"]).await, "22021");
        assert_usable(&client).await;
    });
}

#[test]
fn parameters_up_to_the_limit_of_the_protocol() {
    run(async {
        let client = client().await;
        let sql = |count: usize| {
            let places: Vec<String> = (1..=count).map(|i| format!("${i}")).collect();
            format!("select cardinality(array[{}])", places.join(","))
        };
        let values = vec![&1 as &(dyn ToSql + Sync); 65_536];
        let row = client.query_one(&sql(65_535), &values[..65_535]).await.unwrap();
        assert_eq!(row.get::<i32>(0), 65_535);
        let over = error(client.query_one(&sql(65_536), &values).await);
        assert_eq!((over.outcome(), over.kind()), (Outcome::NotSent, Kind::Misuse), "{over}");
        assert_usable(&client).await;
    });
}

/// A value whose code fails in one of these ways.
#[derive(Debug)]
pub(crate) enum Naughty {
    Fails,
    Panics,
    FailsAfterWriting,
}

impl ToSql for Naughty {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Encoded {
        match self {
            Naughty::Fails => Err("no".into()),
            Naughty::Panics => panic!("in the caller's own code"),
            Naughty::FailsAfterWriting => {
                out.put_slice(&[0; 1000]);
                Err("no".into())
            }
        }
    }

    fn accepts(type_: &Type) -> bool {
        *type_ == Type::INT4
    }

    to_sql_checked!();
}

#[test]
fn a_value_that_fails_or_panics_leaves_the_connection_usable() {
    run(async {
        let client = client().await;
        let prepared = client.prepare("select $1::int").await.unwrap();
        for _ in 0..2 {
            for value in [Naughty::Fails, Naughty::FailsAfterWriting] {
                let reply = client.query("select $1::int", &[&value]).await;
                let error = failed(reply, Outcome::NotSent, "unencodable_parameter");
                assert!(error.to_string().contains("$1"), "{error}");
                assert!(error.conversion().is_some());
                error_of_prepared(&client, &prepared, &value).await;
            }
            let value = Naughty::Panics;
            let panic = AssertUnwindSafe(|| client.query("select $1::int", &[&value]));
            assert!(catch_unwind(panic).is_err());
            let panic = AssertUnwindSafe(|| client.query(&prepared, &[&value]));
            assert!(catch_unwind(panic).is_err());
            assert_usable(&client).await;
        }
    });
}

async fn error_of_prepared(client: &Client, prepared: &onetrip::Statement, value: &Naughty) {
    let reply = client.query(prepared, &[value]).await;
    failed(reply, Outcome::NotSent, "unencodable_parameter");
}

/// A value that makes a call of its own while it is encoded.
#[derive(Debug)]
struct Calls(Client);

impl ToSql for Calls {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Encoded {
        drop(self.0.query("select $1", &[&"within"]));
        out.put_i32(9);
        Ok(IsNull::No)
    }

    fn accepts(type_: &Type) -> bool {
        *type_ == Type::INT4
    }

    to_sql_checked!();
}

#[test]
fn a_value_may_make_a_call_while_it_is_encoded() {
    run(async {
        let client = client().await;
        let value = Calls(client.clone());
        let row = client.query_one("select $1, $2", &[&value, &"b"]).await.unwrap();
        assert_eq!((row.get::<i32>(0), row.get::<&str>(1)), (9, "b"));
    });
}

/// A value that accepts any type and writes itself as text, as its format says: a common way to
/// pass a literal through.
#[derive(Debug)]
struct Literal(&'static str);

impl ToSql for Literal {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Encoded {
        out.put_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> onetrip::types::Format {
        onetrip::types::Format::Text
    }

    to_sql_checked!();
}

#[test]
fn a_value_that_accepts_every_type_is_not_mistaken_for_a_typed_one() {
    run(async {
        let client = client().await;
        let row = client.query_one("select $1::text", &[&Literal("any text")]).await.unwrap();
        assert_eq!(row.get::<&str>(0), "any text");
    });
}

#[test]
fn a_value_is_sent_in_the_format_that_it_says() {
    run(async {
        let client = client().await;
        let prepared = client.prepare("select $1::int + 1").await.unwrap();
        let row = client.query_one(&prepared, &[&Literal("41")]).await.unwrap();
        assert_eq!(row.get::<i32>(0), 42);
        let typed = typed(Type::INT4, &Literal("41"));
        let row = client.query_one("select $1 + 1", &[&typed]).await.unwrap();
        assert_eq!(row.get::<i32>(0), 42);
    });
}

#[test]
fn a_result_without_a_binary_form_comes_as_text() {
    run(async {
        let client = client().await;
        let sql = "select makeaclitem(10, 10, 'SELECT', false), 1";
        for _ in 0..2 {
            let rows = client.query(sql, &[]).await.unwrap();
            let row = rows.iter().next().unwrap();
            assert_eq!(row.get::<&str>(0), "postgres=r/postgres");
            assert_eq!(row.get::<i32>(1), 1);
        }
        let prepared = client.prepare(sql).await.unwrap();
        let row = client.query_one(&prepared, &[]).await.unwrap();
        assert_eq!(row.get::<&str>(0), "postgres=r/postgres");
        let error = row.try_get::<i32>(0).unwrap_err();
        assert_eq!(error.outcome(), Outcome::Applied);
    });
}

#[test]
fn what_holds_a_value_without_a_binary_form_comes_as_text_too() {
    run(async {
        let client = client().await;
        for _ in 0..2 {
            for table in ["pg_class", "pg_namespace", "pg_database", "pg_statistic"] {
                let sql = format!("select * from {table} limit 3");
                client.query(&sql, &[]).await.unwrap_or_else(|error| panic!("{table}: {error}"));
            }
            let acl = "select row(array[makeaclitem(10, 10, 'SELECT', false)]), 1";
            let row = client.query_one(acl, &[]).await.unwrap();
            assert_eq!(row.get::<i32>(1), 1);
        }
    });
}

/// Only a refusal shows the missing binary form, and a refusal ends a transaction: there it has to
/// be known before.
#[test]
fn a_result_without_a_binary_form_comes_as_text_in_a_transaction_once_it_is_known() {
    run(async {
        let sql = "select makeaclitem(10, 10, 'SELECT', false)";
        let mut session = session().await;
        let tx = session.begin().await.unwrap();
        let error = tx.query_one(sql, &[]).await.unwrap_err();
        assert_eq!((error.sqlstate(), error.outcome()), (Some("42883"), Outcome::Rejected));
        tx.rollback().await.unwrap();
        session.query_one(sql, &[]).await.unwrap();
        let tx = session.begin().await.unwrap();
        let row = tx.query_one(sql, &[]).await.unwrap();
        assert_eq!(row.get::<&str>(0), "postgres=r/postgres");
        tx.commit().await.unwrap();
    });
}

/// What was learned about a text may be outdated: the call that finds this out may fail, and the
/// next one learns it again.
#[test]
fn what_was_learned_about_a_text_is_learned_anew_when_its_table_changes() {
    run(async {
        let (client, t) = (client().await, table("a aclitem").await);
        let session = session().await;
        session
            .script(&format!("insert into {t} values (makeaclitem(10, 10, 'SELECT', false))"))
            .await
            .unwrap();
        let sql = format!("select * from {t}");
        assert_eq!(client.query_one(&sql, &[]).await.unwrap().columns().len(), 1);
        session.script(&format!("alter table {t} add b int default 2")).await.unwrap();
        let row = client.query_one(&sql, &[]).await.unwrap();
        assert!(row.columns()[1].is_text());
        let row = client.query_one(&sql, &[]).await.unwrap();
        assert_eq!((row.get::<&str>(0), row.get::<i32>(1)), ("postgres=r/postgres", 2));
        session.script(&format!("alter table {t} drop a")).await.unwrap();
        let error = client.query_one(&sql, &[]).await.unwrap_err();
        assert_eq!((error.sqlstate(), error.outcome()), (Some("08P01"), Outcome::Rejected));
        assert_eq!(client.query_one(&sql, &[]).await.unwrap().get::<i32>("b"), 2);
    });
}

/// P20.
#[test]
fn the_parameter_types_of_a_text_are_learned_anew_when_its_table_changes() {
    run(async {
        let (client, t) = (client().await, table("tags varchar[]").await);
        let session = session().await;
        session.script(&format!("insert into {t} values ('{{a}}')")).await.unwrap();
        let sql = format!("select count(*) from {t} where tags = $1");
        assert_eq!(client.query_one(&sql, &[&vec!["a"]]).await.unwrap().get::<i64>(0), 1);
        session.script(&format!("alter table {t} alter tags type text[]")).await.unwrap();
        let error = client.query_one(&sql, &[&vec!["a"]]).await.unwrap_err();
        assert_eq!((error.sqlstate(), error.outcome()), (Some("42883"), Outcome::Rejected));
        assert_eq!(client.query_one(&sql, &[&vec!["a"]]).await.unwrap().get::<i64>(0), 1);
    });
}

#[test]
fn a_parameter_too_many_is_refused_before_anything_is_sent() {
    run(async {
        let client = client().await;
        let too_many = |result: Result<onetrip::Row, onetrip::Error>| {
            let error = failed(result, Outcome::NotSent, "parameter_count");
            assert!(error.to_string().contains("has 1 parameters, but 2 were given"), "{error}");
        };
        let sql = "select $1::int -- not $2";
        // At first, where its types are named and where they would be guesses; and once it is
        // known.
        too_many(client.query_one(sql, &[&1, &2]).await);
        too_many(client.query_one(sql, &[&"1", &SystemTime::UNIX_EPOCH]).await);
        assert_eq!(client.query_one(sql, &[&1]).await.unwrap().get::<i32>(0), 1);
        too_many(client.query_one(sql, &[&1, &2]).await);
        let prepared = client.prepare(sql).await.unwrap();
        too_many(client.query_one(&prepared, &[&1, &2]).await);
        let mut pipeline = client.pipeline();
        let refused = pipeline.query_one(sql, &[&1, &2]);
        assert!(pipeline.finish().await.is_err());
        too_many(refused.await);
        // Nothing was sent: the server would have reported the first.
        let none =
            failed(client.query("select 1", &[&1]).await, Outcome::NotSent, "parameter_count");
        assert!(none.to_string().contains("has 0 parameters"), "{none}");
        let session = session().await;
        session.script("set standard_conforming_strings = off").await.unwrap();
        let row = session.query_one(r"select 'a\'', $1, 'b\''", &[&"x"]).await.unwrap();
        assert_eq!((row.get::<&str>(0), row.get::<&str>(1)), ("a'", "x"));
    });
}

#[test]
fn more_parameters_than_the_protocol_counts_are_refused_before_anything_is_sent() {
    run(async {
        let client = client_with("connections_max=1").await;
        let before = pid_of(&client).await;
        let list: Vec<String> = (1..=65_536).map(|number| format!("${number}::int4")).collect();
        let sql = format!("select array[{}]", list.join(", "));
        let code = "too_many_parameters";
        failed(client.prepare(&sql).await, Outcome::NotSent, code);
        failed(client.query(&sql, &[]).await, Outcome::NotSent, code);
        let values = vec![1; 65_536];
        let values = values.iter().map(|it| it as &(dyn onetrip::types::ToSql + Sync));
        let values: Vec<_> = values.collect();
        failed(client.query(&sql, &values).await, Outcome::NotSent, code);
        failed(client.query_stream(&sql, &values).await, Outcome::NotSent, code);
        let mut pipeline = client.pipeline();
        failed(pipeline.query(&sql, &[&1]).await, Outcome::NotSent, code);
        drop(pipeline);
        let only_the_last = "select $65536::int4";
        failed(client.prepare(only_the_last).await, Outcome::NotSent, code);
        let batch = client.batch(only_the_last, [(1,)]).atomic().await.unwrap_err();
        assert_eq!((batch.error().code(), batch.error().outcome()), (code, Outcome::NotSent));
        let batch = client.batch(only_the_last, [(1,)]).isolated().await;
        assert_eq!(batch.stopped().unwrap().code(), code);
        let session = client.session().await.unwrap();
        failed(session.prepare(only_the_last).await, Outcome::NotSent, code);
        drop(session);
        // One less is taken, and the connection is the same.
        let most = format!("select array_length(array[{}], 1)", list[..65_535].join(", "));
        let row = client.query_one(&most, &values[..65_535]).await.unwrap();
        assert_eq!(row.get::<i32>(0), 65_535);
        if !crate::pooled::shared().is_pooled() {
            assert_eq!(pid_of(&client).await, before);
        }
    });
}
