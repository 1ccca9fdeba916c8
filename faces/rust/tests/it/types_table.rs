//! Which Rust type reads and writes which type of PostgreSQL: the table of docs/reference/types.md,
//! row by row.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use bigdecimal::BigDecimal;
use bit_vec::BitVec;
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use cidr::{IpCidr, IpInet};
use eui48::MacAddress;
use geo_types::{LineString, Point, Rect};
use onetrip::types::{
    AsNumeric, AsText, Date, FromSql, Interval, Json, Money, Multirange, Numeric, PgLsn, Range,
    TimeTz, Timestamp, ToSql,
};
use onetrip::{Client, Row};
use postgres_array::{Array, Dimension};
use rust_decimal::Decimal;
use serde_json::{Value, json};
use smol_str::SmolStr;
use uuid::Uuid;

use crate::support::*;

/// Pairs of a Rust type and a type of PostgreSQL that were tried, named as in the table.
struct Tried {
    client: Client,
    pairs: BTreeSet<(String, String)>,
}

impl Tried {
    /// Counts types as tried that this server does not have.
    fn skip(&mut self, is_skipped: impl Fn(&str) -> bool) {
        self.pairs.extend(documented().into_iter().filter(|(_, type_)| is_skipped(type_)));
    }

    /// Reads a literal of the type, and sends the value back: by the text of a statement, and by a
    /// prepared one.
    async fn pair<T>(&mut self, rust: &str, type_: &str, literal: &str, value: T)
    where
        T: ToSql + Sync + for<'a> FromSql<'a> + PartialEq,
    {
        let row = self.read(type_, literal).await;
        assert!(row.get::<T>(0) == value, "{rust} from {type_}: {value:?}");
        self.write(rust, type_, literal, &value).await;
    }

    async fn read(&self, type_: &str, literal: &str) -> Row {
        self.client.query_one(&format!("select '{literal}'::{type_}"), &[]).await.unwrap()
    }

    async fn write(&mut self, rust: &str, type_: &str, literal: &str, value: &(dyn ToSql + Sync)) {
        let sql = format!("select $1::{type_}::text, '{literal}'::{type_}::text");
        let prepared = self.client.prepare(&sql).await.unwrap();
        for row in [
            self.client.query_one(&sql, &[value]).await.unwrap(),
            self.client.query_one(&prepared, &[value]).await.unwrap(),
        ] {
            assert_eq!(row.get::<&str>(0), row.get::<&str>(1), "{rust} to {type_}");
        }
        self.pairs.insert((rust.to_owned(), type_.to_owned()));
    }
}

#[test]
fn every_pair_of_the_table_reads_and_writes() {
    run(async {
        let mut tried = Tried { client: client().await, pairs: BTreeSet::new() };
        plain(&mut tried).await;
        borrowed(&mut tried).await;
        numbers(&mut tried).await;
        ranges(&mut tried).await;
        arrays(&mut tried).await;
        times(&mut tried).await;
        of_crates(&mut tried).await;
        texts(&mut tried).await;
        let table = documented();
        let untried: Vec<_> = table.difference(&tried.pairs).collect();
        assert!(untried.is_empty(), "in the table and not tried: {untried:?}");
        let undocumented: Vec<_> = tried.pairs.difference(&table).collect();
        assert!(undocumented.is_empty(), "tried and not in the table: {undocumented:?}");
    });
}

/// The pairs of the table: each Rust type of a row with each type of PostgreSQL in it.
fn documented() -> BTreeSet<(String, String)> {
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/types.md");
    let page = std::fs::read_to_string(PAGE).unwrap();
    let mut rows = page.lines().skip_while(|line| !line.starts_with("| Rust |"));
    let mut pairs = BTreeSet::new();
    for row in rows.by_ref().skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').collect();
        let names = |cell: &str| -> Vec<String> {
            cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
        };
        for rust in names(cells[1]) {
            pairs.extend(names(cells[2]).into_iter().map(|type_| (rust.clone(), type_)));
        }
    }
    pairs
}

/// The crate's documentation names all of Cargo's features, and no others.
#[test]
fn every_feature_is_documented() {
    let manifest = include_str!("../../Cargo.toml");
    let features = manifest.split("[features]\n").nth(1).unwrap().split("\n[").next().unwrap();
    let names = features.lines().filter_map(|line| line.split(" = ").next());
    // One feature is not for users, and its comment says so.
    let others = |name: &str| name.is_empty() || name.starts_with('#') || name == "fuzzing";
    let names: BTreeSet<&str> = names.filter(|name| !others(name) && *name != "default").collect();
    let table = [include_str!("../../src/types.rs"), include_str!("../../src/lib.rs")];
    let table = table.into_iter().flat_map(str::lines);
    let cells = table.filter_map(|line| line.strip_prefix("//! | `")?.split(" | ").next());
    let documented: BTreeSet<&str> =
        cells.flat_map(|cell| cell.split('`').step_by(2)).filter(|name| !name.is_empty()).collect();
    assert_eq!(names, documented);
}

async fn plain(tried: &mut Tried) {
    tried.pair("bool", "bool", "t", true).await;
    tried.pair("i8", "\"char\"", "a", 97_i8).await;
    tried.pair("i16", "int2", "-7", -7_i16).await;
    tried.pair("i32", "int4", "-7", -7_i32).await;
    tried.pair("i64", "int8", "-7", -7_i64).await;
    tried.pair("u32", "oid", "4000000000", 4_000_000_000_u32).await;
    tried.pair("f32", "float4", "1.5", 1.5_f32).await;
    tried.pair("f64", "float8", "1e300", 1e300_f64).await;
    for type_ in ["text", "varchar", "bpchar", "name"] {
        tried.pair("String", type_, "grüße", "grüße".to_owned()).await;
        tried.pair("SmolStr", type_, "grüße", SmolStr::from("grüße")).await;
    }
    tried.pair("Vec<u8>", "bytea", "\\x00ff", vec![0_u8, 255]).await;
    tried.pair("IpAddr", "inet", "10.0.0.1", IpAddr::from([10, 0, 0, 1])).await;
    tried.pair("PgLsn", "pg_lsn", "16/B374D848", "16/B374D848".parse::<PgLsn>().unwrap()).await;
    tried.pair("Money", "money", "12.34", Money(1_234)).await;
}

async fn borrowed(tried: &mut Tried) {
    for type_ in ["text", "varchar", "bpchar", "name"] {
        assert_eq!(tried.read(type_, "grüße").await.get::<&str>(0), "grüße");
        tried.write("&str", type_, "grüße", &"grüße").await;
    }
    assert_eq!(tried.read("bytea", "\\x00ff").await.get::<&[u8]>(0), [0, 255]);
    tried.write("&[u8]", "bytea", "\\x00ff", &&[0_u8, 255][..]).await;
}

async fn numbers(tried: &mut Tried) {
    let numeric = |text: &str| text.parse::<Numeric>().unwrap();
    tried.pair("Numeric", "numeric", "-19.90", numeric("-19.90")).await;
    tried.pair("AsNumeric<i64>", "numeric", "42", AsNumeric(42_i64)).await;
    let decimal = Decimal::new(-1_990, 2);
    tried.pair("AsNumeric<Decimal>", "numeric", "-19.90", AsNumeric(decimal)).await;
    let decimal: BigDecimal = "-19.90".parse().unwrap();
    tried.pair("AsNumeric<BigDecimal>", "numeric", "-19.90", AsNumeric(decimal)).await;
}

async fn ranges(tried: &mut Tried) {
    let day = |day| NaiveDate::from_ymd_opt(2024, 2, day).unwrap();
    let at = |hour| day(1).and_hms_opt(hour, 0, 0).unwrap();
    let numeric = |text: &str| text.parse::<Numeric>().unwrap();
    tried.pair("Range<i32>", "int4range", "[1,5)", Range::from(1..5)).await;
    tried.pair("Range<i64>", "int8range", "empty", Range::<i64>::Empty).await;
    tried.pair("Range<Numeric>", "numrange", "[1.5,)", Range::from(numeric("1.5")..)).await;
    let range = Range::from(day(1)..day(3));
    tried.pair("Range<NaiveDate>", "daterange", "[2024-02-01,2024-02-03)", range).await;
    let text = "[\"2024-02-01 01:00:00\",\"2024-02-01 02:00:00\"]";
    tried.pair("Range<NaiveDateTime>", "tsrange", text, Range::from(at(1)..=at(2))).await;
    let text = "[\"2024-02-01 01:00:00+00\",\"2024-02-01 02:00:00+00\"]";
    let range = Range::from(at(1).and_utc()..=at(2).and_utc());
    tried.pair("Range<DateTime<Utc>>", "tstzrange", text, range).await;
    if is_before(14, "multiranges") {
        return tried.skip(|type_| type_.ends_with("multirange"));
    }
    let two = Multirange::from(vec![Range::from(1..3), Range::from(7..9)]);
    tried.pair("Multirange<i32>", "int4multirange", "{[1,3),[7,9)}", two).await;
    let one = Multirange::from(vec![Range::from(1_i64..3)]);
    tried.pair("Multirange<i64>", "int8multirange", "{[1,3)}", one).await;
    let one = Multirange::from(vec![Range::from(..numeric("0.5"))]);
    tried.pair("Multirange<Numeric>", "nummultirange", "{(,0.5)}", one).await;
    let one = Multirange::from(vec![Range::from(day(1)..day(3))]);
    tried.pair("Multirange<NaiveDate>", "datemultirange", "{[2024-02-01,2024-02-03)}", one).await;
    let none = Multirange::default();
    tried
        .pair::<Multirange<NaiveDateTime>>("Multirange<NaiveDateTime>", "tsmultirange", "{}", none)
        .await;
    let none = Multirange::default();
    tried
        .pair::<Multirange<DateTime<Utc>>>(
            "Multirange<DateTime<Utc>>",
            "tstzmultirange",
            "{}",
            none,
        )
        .await;
}

async fn arrays(tried: &mut Tried) {
    tried.pair("Vec<i32>", "int4[]", "{1,2,3}", vec![1, 2, 3]).await;
    tried
        .pair(
            "Vec<Option<String>>",
            "text[]",
            "{a,NULL,\"b,c\"}",
            vec![Some("a".to_owned()), None, Some("b,c".to_owned())],
        )
        .await;
    tried
        .pair("Vec<Numeric>", "numeric[]", "{1.50}", vec!["1.50".parse::<Numeric>().unwrap()])
        .await;
    tried.pair("Vec<Range<i32>>", "int4range[]", "{\"[1,3)\"}", vec![Range::from(1..3)]).await;
    tried.pair("Box<[i32]>", "int4[]", "{1,2}", Box::<[i32]>::from([1, 2])).await;
    tried.pair("[i32; 2]", "int4[]", "{1,2}", [1, 2]).await;
    let dimension = |len| Dimension { len, lower_bound: 1 };
    let square = Array::from_parts(vec![1, 2, 3, 4], vec![dimension(2), dimension(2)]);
    tried.pair("Array<i32>", "int4[]", "{{1,2},{3,4}}", square).await;
    let names = vec![Some("a".to_owned()), None];
    let names = Array::from_parts(names, vec![dimension(1), dimension(2)]);
    tried.pair("Array<Option<String>>", "text[]", "{{a,NULL}}", names).await;
}

async fn times(tried: &mut Tried) {
    let moment = SystemTime::UNIX_EPOCH + Duration::from_millis(1_500);
    tried.pair("SystemTime", "timestamp", "1970-01-01 00:00:01.5", moment).await;
    tried.pair("SystemTime", "timestamptz", "1970-01-01 00:00:01.5+00", moment).await;
    tried.pair("Interval", "interval", "1 mon -2 days", Interval::new(1, -2, 0)).await;
    let time = TimeTz { microseconds: 3_600_000_000, utc_offset: 7_200 };
    tried.pair("TimeTz", "timetz", "01:00:00+02", time).await;

    let day = NaiveDate::from_ymd_opt(2024, 2, 29).unwrap();
    let time = NaiveTime::from_hms_micro_opt(12, 34, 56, 7).unwrap();
    let at: NaiveDateTime = day.and_time(time);
    tried.pair("NaiveDate", "date", "2024-02-29", day).await;
    tried.pair("NaiveTime", "time", "12:34:56.000007", time).await;
    tried.pair("NaiveDateTime", "timestamp", "2024-02-29 12:34:56.000007", at).await;
    let zoned = "2024-02-29 12:34:56.000007+00";
    tried.pair("DateTime<Utc>", "timestamptz", zoned, at.and_utc()).await;
    tried.pair("Date<NaiveDate>", "date", "infinity", Date::<NaiveDate>::PosInfinity).await;
    let never = Timestamp::<DateTime<Utc>>::NegInfinity;
    tried.pair("Timestamp<DateTime<Utc>>", "timestamptz", "-infinity", never).await;

    let at = jiff::civil::datetime(2024, 2, 29, 12, 34, 56, 7_000);
    tried.pair("jiff::civil::Date", "date", "2024-02-29", at.date()).await;
    tried.pair("jiff::civil::Time", "time", "12:34:56.000007", at.time()).await;
    tried.pair("jiff::civil::DateTime", "timestamp", "2024-02-29 12:34:56.000007", at).await;
    let at = jiff::tz::Offset::UTC.to_timestamp(at).unwrap();
    tried.pair("jiff::Timestamp", "timestamptz", zoned, at).await;

    let at = time::macros::datetime!(2024-02-29 12:34:56.000_007);
    tried.pair("time::Date", "date", "2024-02-29", at.date()).await;
    tried.pair("time::Time", "time", "12:34:56.000007", at.time()).await;
    tried.pair("time::PrimitiveDateTime", "timestamp", "2024-02-29 12:34:56.000007", at).await;
    tried.pair("time::OffsetDateTime", "timestamptz", zoned, at.assume_utc()).await;
}

async fn of_crates(tried: &mut Tried) {
    let id = "00000000-0000-0000-0000-00000000002a";
    tried.pair("Uuid", "uuid", id, id.parse::<Uuid>().unwrap()).await;
    let bits: BitVec = [true, false, true].into_iter().collect();
    tried.pair("BitVec", "varbit", "101", bits.clone()).await;
    tried.pair("BitVec", "bit", "1", bits.iter().take(1).collect::<BitVec>()).await;
    let net: IpCidr = "10.0.0.0/8".parse().unwrap();
    tried.pair("IpCidr", "cidr", "10.0.0.0/8", net).await;
    let host: IpInet = "10.0.0.1/8".parse().unwrap();
    tried.pair("IpInet", "inet", "10.0.0.1/8", host).await;
    tried
        .pair("MacAddress", "macaddr", "08:00:2b:01:02:03", MacAddress::new([8, 0, 0x2b, 1, 2, 3]))
        .await;
    tried.pair("Point<f64>", "point", "(1.5,2)", Point::new(1.5, 2.0)).await;
    tried.pair("Rect<f64>", "box", "(3,4),(1,2)", Rect::new((1.0, 2.0), (3.0, 4.0))).await;
    let line: LineString<f64> = vec![(1.0, 2.0), (3.0, 4.0)].into();
    tried.pair("LineString<f64>", "path", "[(1,2),(3,4)]", line).await;
    for type_ in ["json", "jsonb"] {
        let text = "{\"a\":1}";
        tried.pair("Value", type_, text, json!({"a": 1})).await;
        tried.pair("Json<T>", type_, text, Json(HashMap::from([("a".to_owned(), 1)]))).await;
    }
    let _: Value = tried.read("json", "null").await.get(0);
}

async fn texts(tried: &mut Tried) {
    let has_xml = tried.client.query_one("select '<a/>'::xml::text", &[]).await.is_ok();
    for (type_, literal) in [
        ("text", "a"),
        ("varchar", "a"),
        ("bpchar", "a"),
        ("name", "a"),
        ("json", "{\"a\":  1}"),
        ("jsonb", "{\"a\": 1}"),
        ("jsonpath", "$.\"a\""),
        ("refcursor", "c"),
        ("xml", "<a>ü</a>"),
    ] {
        if type_ == "xml" && !has_xml {
            skipped("this server was built without XML");
            tried.skip(|type_| type_ == "xml");
            continue;
        }
        if type_ == "jsonpath" && is_before(12, type_) {
            tried.skip(|type_| type_ == "jsonpath");
            continue;
        }
        let row = tried.read(type_, literal).await;
        assert_eq!(row.get::<AsText<&str>>(0), AsText(literal), "{type_}");
        tried.pair("AsText<String>", type_, literal, AsText(literal.to_owned())).await;
        tried.write("AsText<&str>", type_, literal, &AsText(literal)).await;
    }
}

/// A type without a Rust counterpart is written as text, and read by a cast.
#[test]
fn any_type_is_written_as_text_and_read_by_a_cast() {
    run(async {
        let client = client().await;
        for (type_, text) in [
            ("numeric", "1.50"),
            ("int4", "7"),
            ("tsvector", "'a':1A 'b'"),
            ("tsquery", "'a' & 'b'"),
            ("macaddr8", "08:00:2b:01:02:03:04:05"),
            ("circle", "<(1,2),3>"),
            ("lseg", "[(1,2),(3,4)]"),
            ("polygon", "((1,2),(3,4))"),
            ("line", "{1,2,3}"),
            ("regclass", "pg_class"),
            ("pg_lsn", "0/7"),
            ("int4range", "[1,5)"),
            ("timestamp", "2024-02-29 12:00:00"),
        ] {
            let sql = format!("select $1::{type_}::text");
            let prepared = client.prepare(&sql).await.unwrap();
            for row in [
                client.query_one(&sql, &[&text]).await.unwrap(),
                client.query_one(&sql, &[&AsText(text)]).await.unwrap(),
                client.query_one(&prepared, &[&AsText(text)]).await.unwrap(),
            ] {
                assert_eq!(row.get::<&str>(0), text, "{type_}");
            }
        }
    });
}

#[test]
fn numerics_that_another_number_cannot_hold_are_refused_and_not_rounded() {
    run(async {
        let client = client().await;
        for (text, fits_i64, fits_decimal) in [
            ("1", true, true),
            ("1.00", true, true),
            ("1.5", false, true),
            ("1e32", false, false),
            ("0.33333333333333333333333333333333", false, false),
            ("NaN", false, false),
            ("9223372036854775808", false, true),
            ("1.00000000000000000000000000000000", true, true),
        ] {
            let row = client.query_one("select $1::text::numeric", &[&text]).await.unwrap();
            assert_eq!(row.try_get::<AsNumeric<i64>>(0).is_ok(), fits_i64, "{text}");
            let decimal = row.try_get::<AsNumeric<Decimal>>(0);
            assert_eq!(decimal.is_ok(), fits_decimal, "{text}");
            if let Ok(AsNumeric(decimal)) = decimal {
                assert_eq!(Numeric::from(decimal), text.parse().unwrap());
            }
            if let Ok(AsNumeric(decimal)) = row.try_get::<AsNumeric<BigDecimal>>(0) {
                assert_eq!(
                    Numeric::try_from(decimal).unwrap().to_string(),
                    row.get::<Numeric>(0).to_string()
                );
            }
        }
        let huge: BigDecimal = "1e200000".parse().unwrap();
        let error = client.query("select $1", &[&AsNumeric(huge)]).await.unwrap_err();
        assert_eq!(error.code(), "unencodable_parameter", "{error}");
    });
}
