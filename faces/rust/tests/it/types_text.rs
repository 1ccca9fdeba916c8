//! Our value types compared with the server: both write the same and read the same, for thousands
//! of values from a seed that is printed.

use std::fmt::Display;
use std::ops::Bound;
use std::time::SystemTime;

use crate::pooled::shared;
use onetrip::Session;
use onetrip::types::{Interval, Multirange, Numeric, Range, TimeTz, ToSql};

use crate::support::*;

fn random() -> Random {
    let seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
    println!("seed {seed}");
    Random(seed)
}

/// The texts that the server writes for an array of values.
async fn texts_of(session: &Session, values: &(dyn ToSql + Sync), type_: &str) -> Vec<String> {
    let sql =
        format!("select v::text from unnest($1::{type_}[]) with ordinality u (v, n) order by n");
    let rows = session.query(&sql, &[values]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// What the server reads from texts, as texts; `None` for those that it refuses.
async fn read_by_server(session: &Session, texts: &[String], type_: &str) -> Vec<Option<String>> {
    let reader = shared().new_name();
    let create = format!(
        "create function pg_temp.{reader}(text) returns text language plpgsql as
         $$ begin return $1::{type_}::text; exception when others then return null; end $$"
    );
    session.execute(&create, &[]).await.unwrap();
    let sql = format!(
        "select pg_temp.{reader}(t) from unnest($1::text[]) with ordinality u (t, n) order by n"
    );
    let rows = session.query(&sql, &[&texts]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[track_caller]
fn assert_same<T: Display>(values: &[T], texts: &[String]) {
    assert_eq!(values.len(), texts.len());
    for (value, text) in values.iter().zip(texts) {
        assert_eq!(&value.to_string(), text);
    }
}

fn digits(random: &mut Random, len: u64) -> String {
    // Runs of zeros are where groups begin, end and are left out.
    let zeros = random.below(3) == 0;
    let digit = |random: &mut Random| match zeros && random.below(4) > 0 {
        true => '0',
        false => char::from(b'0' + random.below(10) as u8),
    };
    (0..len).map(|_| digit(random)).collect()
}

fn numeric(random: &mut Random) -> Numeric {
    if random.below(100) == 0 {
        return Numeric::NAN;
    }
    let longest = [3, 10, 30, 100][random.below(4) as usize];
    let (before, behind) = (random.below(longest), random.below(longest));
    let sign = if random.below(2) == 0 { "-" } else { "" };
    let (before, behind) = (digits(random, before), digits(random, behind));
    format!("{sign}0{before}.{behind}").parse().unwrap()
}

#[test]
fn numerics_are_written_as_the_server_writes_them() {
    run(async {
        let (session, mut random) = (session().await, random());
        let mut numbers: Vec<Numeric> = (0..3_000).map(|_| numeric(&mut random)).collect();
        for text in ["1e131071", "-1e-16383", "0e-16383", "0"] {
            numbers.push(text.parse().unwrap());
        }
        numbers.push(format!("{}.{}", "9".repeat(131_072), "9".repeat(16_383)).parse().unwrap());
        assert_same(&numbers, &texts_of(&session, &numbers, "numeric").await);
        let rows = session.query("select unnest($1::numeric[])", &[&numbers]).await.unwrap();
        for (row, sent) in rows.iter().zip(&numbers) {
            let read: Numeric = row.get(0);
            assert_eq!((read.scale(), &read), (sent.scale(), sent));
        }
    });
}

#[test]
fn infinite_numerics_are_those_of_the_server() {
    run(async {
        let session = session().await;
        if is_before(14, "infinite numerics") {
            return;
        }
        let numbers = vec![Numeric::INFINITY, Numeric::NEG_INFINITY, Numeric::NAN];
        assert_same(&numbers, &texts_of(&session, &numbers, "numeric").await);
    });
}

#[test]
fn numerics_are_read_as_the_server_reads_them() {
    const WORDS: [&str; 22] = [
        "0", "00", "1", "12", "999", "1234", "10000", ".", ".", "e", "E", "-", "+", "5", "e1",
        "e-3", "e+7", "e131070", "e-16380", "NaN", "inf", "Infinity",
    ];
    run(async {
        let (session, mut random) = (session().await, random());
        let text = |_| {
            let words = 1 + random.below(5);
            (0..words).map(|_| WORDS[random.below(WORDS.len() as u64) as usize]).collect()
        };
        let texts: Vec<String> = (0..4_000).map(text).collect();
        let server = read_by_server(&session, &texts, "numeric").await;
        let has_infinity = shared().major() >= 14;
        for (text, server) in texts.iter().zip(server) {
            let number = text.parse::<Numeric>().ok();
            let number = number.filter(|number| has_infinity || !number.is_infinite());
            assert_eq!(number.map(|number| number.to_string()), server, "{text}");
        }
    });
}

#[test]
fn numerics_are_in_the_order_of_the_server() {
    run(async {
        let (session, mut random) = (session().await, random());
        let mut numbers: Vec<Numeric> = (0..1_500).map(|_| numeric(&mut random)).collect();
        // The same with other scales.
        let rescaled = |number: &Numeric| number.to_i128_with_scale(number.scale() + 2);
        let again = numbers.iter().filter_map(|number| {
            Numeric::from_i128_with_scale(rescaled(number)?, number.scale() + 2).ok()
        });
        let again: Vec<Numeric> = again.collect();
        numbers.extend(again);
        let sql = "select dense_rank() over (order by v) from unnest($1::numeric[])
                   with ordinality u (v, n) order by n";
        let rows = session.query(sql, &[&numbers]).await.unwrap();
        let mut sorted = numbers.clone();
        sorted.sort();
        sorted.dedup();
        for (row, number) in rows.iter().zip(&numbers) {
            let rank = sorted.binary_search(number).unwrap() as i64 + 1;
            assert_eq!(row.get::<i64>(0), rank, "{number}");
        }
    });
}

#[test]
fn floats_are_those_of_the_server() {
    run(async {
        let (session, mut random) = (session().await, random());
        let numbers: Vec<Numeric> = (0..1_000).map(|_| numeric(&mut random)).collect();
        let rows =
            session.query("select unnest($1::numeric[])::float8", &[&numbers]).await.unwrap();
        for (row, number) in rows.iter().zip(&numbers) {
            assert_eq!(row.get::<f64>(0).to_bits(), (number.to_f64() + 0.0).to_bits(), "{number}");
        }
    });
}

fn interval(random: &mut Random, microseconds_max: i64) -> Interval {
    let mut field = |max: i64| match random.below(8) {
        0 => max,
        1 => -max - 1,
        2 | 3 => 0,
        _ => {
            let bits = random.below(64 - max.leading_zeros() as u64) as u32;
            let size = random.below(1 << bits) as i64;
            if random.below(2) == 0 { size } else { -size }
        }
    };
    let [months, days] = [0, 1].map(|_| field(i32::MAX.into()) as i32);
    let interval = Interval::new(months, days, field(microseconds_max));
    if interval.is_infinite() { Interval::default() } else { interval }
}

#[test]
fn intervals_are_written_as_the_server_writes_them_in_both_styles() {
    run(async {
        let (session, mut random) = (session().await, random());
        // PostgreSQL 14 does not write hours beyond 32 bits.
        let max = if shared().major() < 15 { i64::MAX / 2 } else { i64::MAX };
        let intervals: Vec<Interval> = (0..3_000).map(|_| interval(&mut random, max)).collect();
        let texts = texts_of(&session, &intervals, "interval").await;
        assert_same(&intervals, &texts);
        session.execute("set intervalstyle = 'iso_8601'", &[]).await.unwrap();
        let iso = texts_of(&session, &intervals, "interval").await;
        for ((interval, text), iso) in intervals.iter().zip(&texts).zip(&iso) {
            assert_eq!(&interval.iso_8601().to_string(), iso);
            assert_eq!(text.parse(), Ok(*interval), "{text}");
            assert_eq!(iso.parse(), Ok(*interval), "{iso}");
        }
    });
}

#[test]
fn intervals_are_read_as_the_server_reads_them() {
    const UNITS: [&str; 12] = [
        "microseconds",
        "milliseconds",
        "seconds",
        "secs",
        "minutes",
        "hours",
        "days",
        "weeks",
        "mons",
        "years",
        "decades",
        "centuries",
    ];
    run(async {
        let (session, mut random) = (session().await, random());
        let mut text = || {
            let unit = UNITS[random.below(UNITS.len() as u64) as usize];
            let sign = ["", "-", "+"][random.below(3) as usize];
            let number = random.below(100_000);
            match unit {
                "seconds" | "hours" => format!("{sign}{number}.{} {unit}", random.below(10)),
                _ => format!("{sign}{number} {unit}"),
            }
        };
        let mut texts: Vec<String> = (0..1_000).map(|_| text()).collect();
        for i in 0..500 {
            texts.push(format!("{} {:02}:{:02}", text(), i % 100, i % 60));
            texts.push(format!("-{i}:00:{:02}.{i}", i % 61));
        }
        let server = read_by_server(&session, &texts, "interval").await;
        for (text, server) in texts.iter().zip(server) {
            let ours = text.parse::<Interval>().ok().map(|interval| interval.to_string());
            assert_eq!(ours, server, "{text}");
        }
    });
}

#[test]
fn infinite_intervals_are_those_of_the_server() {
    run(async {
        let session = session().await;
        if is_before(17, "infinite intervals") {
            return;
        }
        let intervals = vec![Interval::INFINITY, Interval::NEG_INFINITY];
        assert_same(&intervals, &texts_of(&session, &intervals, "interval").await);
        let row = session.query_one("select '-infinity'::interval", &[]).await.unwrap();
        assert_eq!(row.get::<Interval>(0), Interval::NEG_INFINITY);
    });
}

#[test]
fn times_with_an_offset_are_written_as_the_server_writes_them() {
    run(async {
        let (session, mut random) = (session().await, random());
        let mut time = || TimeTz {
            microseconds: random.below(86_400_000_001) as i64,
            utc_offset: random.below(2 * 16 * 3600 - 1) as i32 - 16 * 3600 + 1,
        };
        let times: Vec<TimeTz> = (0..1_000).map(|_| time()).collect();
        let texts = texts_of(&session, &times, "timetz").await;
        assert_same(&times, &texts);
        let read: Vec<TimeTz> = texts.iter().map(|text| text.parse().unwrap()).collect();
        assert_eq!(read, times);
    });
}

fn bound<T>(random: &mut Random, value: T) -> Bound<T> {
    match random.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Excluded(value),
        _ => Bound::Included(value),
    }
}

/// A range that the server does not normalize: the lower bound is below the upper one.
fn range(random: &mut Random) -> Range<Numeric> {
    let mut ends = [numeric(random), numeric(random)];
    ends.sort();
    let [low, high] = ends;
    match random.below(20) == 0 || low == high {
        true => Range::Empty,
        false => Range::new(bound(random, low), bound(random, high)),
    }
}

#[test]
fn ranges_are_written_as_the_server_writes_them() {
    run(async {
        let (session, mut random) = (session().await, random());
        let ranges: Vec<Range<Numeric>> = (0..2_000).map(|_| range(&mut random)).collect();
        let texts = texts_of(&session, &ranges, "numrange").await;
        assert_same(&ranges, &texts);
        for (range, text) in ranges.iter().zip(&texts) {
            assert_eq!(text.parse().as_ref(), Ok(range));
        }
        let rows = session.query("select unnest($1::numrange[])", &[&ranges]).await.unwrap();
        let read: Vec<Range<Numeric>> = rows.iter().map(|row| row.get(0)).collect();
        assert_eq!(read, ranges);
    });
}

#[test]
fn multiranges_are_written_as_the_server_writes_them() {
    run(async {
        let (session, mut random) = (session().await, random());
        if is_before(14, "multiranges") {
            return;
        }
        for _ in 0..50 {
            let mut ends: Vec<i64> = (0..40).map(|_| random.below(10_000) as i64).collect();
            ends.sort_unstable();
            ends.dedup();
            // Ranges that neither overlap nor touch stay as they are.
            let multirange: Multirange<i64> =
                ends.chunks_exact(2).map(|ends| Range::from(ends[0]..ends[1])).collect();
            let row = session.query_one("select $1, $1::text", &[&multirange]).await.unwrap();
            assert_eq!(row.get::<Multirange<i64>>(0), multirange);
            assert_eq!(row.get::<&str>(1), multirange.to_string());
            assert_eq!(row.get::<&str>(1).parse(), Ok(multirange));
        }
        let empty = Multirange::<i32>::default();
        let row = session.query_one("select isempty($1), $1", &[&empty]).await.unwrap();
        assert_eq!((row.get::<bool>(0), row.get::<Multirange<i32>>(1)), (true, empty));
    });
}

#[test]
fn the_server_makes_ranges_of_integers_uniform() {
    run(async {
        let session = session().await;
        let row = session.query_one("select $1", &[&Range::from(1..=5)]).await.unwrap();
        assert_eq!(row.get::<Range<i32>>(0), Range::from(1..6));
        let row = session.query_one("select $1", &[&Range::from(5..5)]).await.unwrap();
        assert_eq!(row.get::<Range<i32>>(0), Range::Empty);
        let row =
            session.query_one("select $1, 7 <@ $1", &[&Range::<i32>::from(..)]).await.unwrap();
        assert_eq!((row.get::<Range<i32>>(0), row.get(1)), (Range::from(..), true));
        let reversed = Range::new(Bound::Included(5), Bound::Excluded(1));
        rejected(session.query("select $1", &[&reversed]).await, "22000");
    });
}
