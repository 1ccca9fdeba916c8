//! Errors of conversions name the place, the types and the kind of value; never the value.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::time::{Duration, SystemTime};

use bytes::BytesMut;
use onetrip::types::{
    AsNumeric, FromSql, Interval, IsNull, Json, Numeric, Range, TimeTz, Timestamp, ToSql, Type,
    to_sql_checked,
};
use onetrip::{Error, Kind, Outcome, Row, typed};

use crate::support::*;

const SECRET: &str = "hunter2";

/// Every text of an error that could reach a log.
fn chain(error: &Error) -> String {
    let mut text = format!("{error} {error:?} {error:#?}");
    let mut source = StdError::source(error);
    while let Some(error) = source {
        text.push_str(&format!(" {error} {error:?}"));
        source = error.source();
    }
    text
}

/// Checks that a conversion failed, and that its error has these words and not the secret.
#[track_caller]
fn assert_says<T>(result: Result<T, Error>, words: &[&str]) -> Error {
    let error = result.map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), Kind::Conversion, "{error}");
    let text = chain(&error);
    assert!(!text.contains(SECRET), "{text}");
    for word in words {
        assert!(error.to_string().contains(word), "{error}, without {word}");
    }
    error
}

async fn row(value: &str) -> Row {
    client().await.query_one(&format!("select 1 as id, {value} as word"), &[]).await.unwrap()
}

#[test]
fn a_column_of_another_type_is_named_with_both_types() {
    run(async {
        let row = row("'hunter2'::text").await;
        assert_says(row.try_get::<i32>("word"), &["column 1 (word)", "text", "i32"]);
        assert_says(row.try_get::<Option<Vec<u8>>>(1), &["column 1 (word)", "text", "Vec<u8>"]);
        assert_says(row.try_get::<String>(0), &["column 0 (id)", "int4", "String"]);
    });
}

#[test]
fn a_null_is_named_with_the_type_that_cannot_hold_it() {
    run(async {
        let row = row("null::numeric").await;
        let words = ["column 1 (word)", "numeric", "NULL", "Numeric"];
        assert_says(row.try_get::<Numeric>(1), &words);
        assert_eq!(row.get::<Option<Numeric>>(1), None);
        let row = self::row("array['hunter2', null]").await;
        let words = ["column 1 (word)", "_text", "an array of one dimension", "Vec<", "NULL"];
        assert_says(row.try_get::<Vec<String>>(1), &words);
    });
}

#[test]
fn the_sort_of_a_value_is_said() {
    run(async {
        let square = row("array[['hunter2'], ['b']]").await;
        assert_says(square.try_get::<Vec<String>>(1), &["_text", "an array of two dimensions"]);
        let nan = row("'NaN'::numeric").await;
        let words = ["column 1 (word)", "numeric", "NaN", "AsNumeric<i64>"];
        assert_says(nan.try_get::<AsNumeric<i64>>(1), &words);
        let large = row("4711::numeric").await;
        let words = ["numeric", "AsNumeric<i8>", "out of the range"];
        let error = assert_says(large.try_get::<AsNumeric<i8>>(1), &words);
        assert!(!error.to_string().contains("4711"), "{error}");
        let never = row("'-infinity'::date").await;
        assert_says(never.try_get::<jiff::civil::Date>(1), &["date", "-infinity", "Date"]);
        let odd = row("'hunter2'::bytea").await;
        assert_says(odd.try_get::<Latin>(1), &["bytea", "a value of 7 bytes", "Latin"]);
        let acl = row("makeaclitem(10, 10, 'SELECT', false)").await;
        assert_says(acl.try_get::<i32>(1), &["aclitem"]);
    });
}

/// For some types `infinity` and 24:00 would silently be other times.
#[test]
fn a_time_that_a_type_does_not_have_is_an_error_that_says_what_holds_it() {
    run(async {
        for type_ in ["timestamp", "timestamptz"] {
            for never in ["infinity", "-infinity"] {
                let row = self::row(&format!("'{never}'::{type_}")).await;
                let words = ["column 1 (word)", type_, never, "SystemTime", "types::Timestamp<"];
                assert_says(row.try_get::<SystemTime>(1), &words);
                assert_says(row.try_get::<Option<SystemTime>>(1), &words);
                let holds = row.get::<Timestamp<SystemTime>>(1);
                assert_ne!(holds, Timestamp::Value(SystemTime::UNIX_EPOCH));
                assert!(!matches!(holds, Timestamp::Value(_)));
            }
        }
        let never = row("'infinity'::timestamptz").await;
        let words = ["infinity", "types::Timestamp<"];
        assert_says(never.try_get::<chrono::DateTime<chrono::Utc>>(1), &words);
        let never = row("'infinity'::date").await;
        assert_says(never.try_get::<jiff::civil::Date>(1), &["infinity", "types::Date<"]);
        let list = row("array[now(), 'infinity']").await;
        let words = ["_timestamptz", "an array of one dimension", "types::Timestamp<"];
        assert_says(list.try_get::<Vec<SystemTime>>(1), &words);
        assert_eq!(list.get::<Vec<Timestamp<SystemTime>>>(1)[1], Timestamp::PosInfinity);
        let range = row("tsrange('-infinity', now()::timestamp)").await;
        assert_says(range.try_get::<Range<SystemTime>>(1), &["tsrange", "types::Timestamp<"]);
        let end = row("'24:00'::time").await;
        let words = ["column 1 (word)", "type time", "24:00", "cast it to interval"];
        assert_says(end.try_get::<chrono::NaiveTime>(1), &words);
        assert_says(end.try_get::<time::Time>(1), &words);
        assert_says(end.try_get::<jiff::civil::Time>(1), &words);
        let interval = row("'24:00'::time::interval").await;
        assert_eq!(interval.get::<Interval>(1).to_string(), "24:00:00");
        assert!(row("'23:59:59.999999'::time").await.try_get::<chrono::NaiveTime>(1).is_ok());
    });
}

#[test]
fn a_system_time_beyond_those_of_the_server_is_refused_before_it_is_sent() {
    run(async {
        let client = client().await;
        let after = |seconds: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let last = after(9_224_318_015_999);
        let first = SystemTime::UNIX_EPOCH - Duration::from_secs(210_866_803_200);
        for moment in [first, last] {
            let row = client.query_one("select $1::timestamptz", &[&moment]).await.unwrap();
            assert_eq!(row.get::<SystemTime>(0), moment);
        }
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1 << 60);
        for moment in [after(9_224_318_016_000), after(1 << 60), before] {
            let words = ["parameter $1", "SystemTime", "timestamptz", "out of the range"];
            let new = "select $1::timestamptz, 1";
            let error = assert_says(client.query(new, &[&moment]).await, &words[2..]);
            assert_eq!(error.outcome(), Outcome::NotSent);
            let sql = "select $1::timestamptz";
            assert_says(client.query(sql, &[&moment]).await, &words);
            let statement = client.prepare(sql).await.unwrap();
            assert_says(client.query(&statement, &[&moment]).await, &words);
            assert_says(client.query(&statement, &[&Timestamp::Value(moment)]).await, &words[3..]);
            let typed = typed(Type::TIMESTAMPTZ, &moment);
            assert_says(client.query("select $1", &[&typed]).await, &words[3..]);
            let sql = "select $1::timestamptz[]";
            assert_says(client.query(sql, &[&vec![last, moment]]).await, &words[3..]);
        }
    });
}

/// Rows, replies that are still awaited, and parameters in flight.
#[test]
fn what_is_printed_for_debugging_shows_no_values() {
    run(async {
        let (client, gate) = (client().await, Gate::closed().await);
        let sql = "select reverse('2retnuh') as word, $1::text as other";
        let mut shown = Vec::new();
        let waiting = client.query(&gate.statement(), &[]);
        let mut session = client.session().await.unwrap();
        let mut pipeline = session.pipeline();
        drop(pipeline.query(sql, &[&SECRET]));
        let sent = session.query(sql, &[&SECRET]);
        let guessed = session.query("select $1", &[&vec![SystemTime::UNIX_EPOCH]]);
        shown.extend([format!("{sent:#?} {guessed:?} {pipeline:#?} {session:#?} {waiting:?}")]);
        drop((sent, guessed, pipeline));
        gate.open().await;
        let rows = client.query(sql, &[&SECRET]).await.unwrap();
        shown.push(format!("{rows:#?} {:?} {:?}", rows.iter(), rows.iter().next()));
        let row = client.query_one(sql, &[&SECRET]).await.unwrap();
        assert!(format!("{row:?}").contains(r#""word": "text""#), "{row:?}");
        shown.push(format!("{row:#?} {:?}", row.as_ref()));
        let mut stream = session.query_stream(sql, &[&SECRET]).await.unwrap();
        shown.push(format!("{stream:?}"));
        let mut pieces = stream.next_in_pieces().await.unwrap().unwrap();
        shown.push(format!("{pieces:?}"));
        shown.push(format!("{:?}", pieces.pieces().await.unwrap()));
        drop(stream);
        for text in shown {
            let bytes: Vec<String> = SECRET.bytes().map(|byte| byte.to_string()).collect();
            assert!(!text.contains(SECRET) && !text.contains(&bytes.join(", ")), "{text}");
        }
    });
}

/// Foreign code quotes the value; the error keeps that text apart, for those who ask for it.
#[test]
fn what_the_conversion_itself_says_is_kept_apart() {
    run(async {
        let row = row("'{\"password\": \"hunter2\"}'::jsonb").await;
        let words = ["column 1 (word)", "jsonb", "HashMap"];
        let error = assert_says(row.try_get::<Json<HashMap<String, i32>>>(1), &words);
        assert!(error.conversion().unwrap().to_string().contains(SECRET));
        let row = self::row("'hunter2'::bytea").await;
        let error = assert_says(row.try_get::<Latin>(1), &[]);
        assert!(error.conversion().unwrap().to_string().contains(SECRET));
    });
}

/// A type of a caller whose errors quote the value.
#[derive(Debug)]
struct Latin(&'static str);

impl<'a> FromSql<'a> for Latin {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Latin, Box<dyn StdError + Sync + Send>> {
        Err(format!("{} is not Latin", String::from_utf8_lossy(raw)).into())
    }

    fn accepts(type_: &Type) -> bool {
        *type_ == Type::BYTEA
    }
}

impl ToSql for Latin {
    fn to_sql(
        &self,
        _: &Type,
        _: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        Err(format!("{} is not Latin", self.0).into())
    }

    fn accepts(type_: &Type) -> bool {
        *type_ == Type::BYTEA
    }

    to_sql_checked!();
}

#[test]
fn a_parameter_is_named_with_both_types_and_without_its_value() {
    run(async {
        let client = client().await;
        let prepared = client.prepare("select $1::bytea, $2::int").await.unwrap();
        for _ in 0..2 {
            let reply = client.query(&prepared, &[&Latin(SECRET), &1]).await;
            let error = assert_says(reply, &["$1", "bytea", "Latin"]);
            assert!(error.conversion().unwrap().to_string().contains(SECRET));
            assert_eq!(error.outcome(), Outcome::NotSent);
            let reply = client.query(&prepared, &[&vec![1_u8], &SECRET]).await;
            assert_says(reply, &["$2", "int4", "&str"]);
            let reply = client.query("select $1", &[&Some(Latin(SECRET))]).await;
            assert_says(reply, &["$1", "bytea", "Option<", "Latin"]);
        }
        let reply = client.query("select $1", &[&typed(Type::INT4, &SECRET)]).await;
        assert_says(reply, &["$1", "int4", "&str"]);
        let time = TimeTz { microseconds: -1, utc_offset: 0 };
        let reply = client.query("select $1", &[&time]).await;
        assert_says(reply, &["$1", "timetz", "TimeTz", "out of the range"]);
        assert_usable(&client).await;
    });
}

#[test]
fn a_parameter_without_a_type_is_named_with_its_rust_type() {
    run(async {
        let client = client().await;
        let map = HashMap::from([(SECRET.to_owned(), None::<String>)]);
        let reply = client.query("select $1, $2", &[&1, &map]).await;
        let error = failed(reply, Outcome::NotSent, "unknown_parameter_type");
        assert!(
            error.to_string().contains("$2 (") && error.to_string().contains("HashMap"),
            "{error}"
        );
        assert!(!chain(&error).contains(SECRET));
    });
}

/// Text that looks like the marker of a [`typed`] parameter is still text.
#[test]
fn no_text_is_taken_for_a_type() {
    run(async {
        let client = client().await;
        let text = "onetrip: my type is number \0\0\0\u{17}";
        let text = onetrip::types::AsText(text.trim_end_matches('\u{17}').replace('\0', "a"));
        let row = client.query_one("select $1::text", &[&text]).await.unwrap();
        assert_eq!(row.get::<String>(0), text.0);
        let moment = typed(Type::TIMESTAMP, &SystemTime::UNIX_EPOCH);
        let row = client.query_one("select $1", &[&Some(moment)]).await.unwrap();
        assert_eq!(*row.columns()[0].type_(), Type::TIMESTAMP);
    });
}
