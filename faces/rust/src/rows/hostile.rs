//! Values that no honest server sends. Reading them must neither panic nor take more memory than a
//! small multiple of their length.

use std::collections::HashMap;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::SystemTime;

use allocation_counter::measure;
use bytes::BytesMut;
use postgres_types::{Field, Kind, ToSql};

use super::*;
use crate::types::{
    AsNumeric, AsText, Interval, Json, Money, Multirange, Numeric, PgLsn, Range, TimeTz,
};

/// How much memory an error and its text take.
const CONSTANT: u64 = 4 << 10;

/// One way to read one type.
struct Case {
    type_: Type,
    sample: Vec<u8>,
    read: fn(&Column, &[u8]) -> Option<Error>,
    /// How many bytes of memory a byte of the value may take.
    factor: u64,
}

/// A valid value, to be mutated and read.
fn case<T: ToSql + for<'a> FromSql<'a>>(type_: &Type, value: T) -> Case {
    let mut sample = BytesMut::new();
    value.to_sql_checked(type_, &mut sample).expect("the sample can be written");
    read_case::<T>(type_, &sample)
}

fn read_case<T: for<'a> FromSql<'a>>(type_: &Type, sample: &[u8]) -> Case {
    assert!(T::accepts(type_), "{type_}");
    // A NULL takes four bytes in an array, and a whole value here.
    let factor = 2 * (size_of::<T>() as u64).max(32);
    Case { type_: type_.clone(), sample: sample.to_vec(), read: read::<T>, factor }
}

fn read<T: for<'a> FromSql<'a>>(column: &Column, value: &[u8]) -> Option<Error> {
    let mut body = vec![0, 1];
    body.extend_from_slice(&(value.len() as i32).to_be_bytes());
    body.extend_from_slice(value);
    RowRef::new(std::slice::from_ref(column), &body, None).try_get::<T>(0).err()
}

fn column(type_: &Type) -> Column {
    let is_checked = is_checked(type_);
    Column {
        name: "secret".into(),
        type_: type_.clone(),
        format: Format::Binary,
        is_checked,
        known: Known::BuiltIn,
    }
}

#[test]
fn a_count_that_cannot_be_true_takes_no_memory() {
    let claim =
        |parts: &[i32]| parts.iter().flat_map(|part| part.to_be_bytes()).collect::<Vec<_>>();
    let millions = i32::MAX;
    let array = claim(&[1, 0, 25, millions, 1]);
    let flat = claim(&[2, 0, 25, 1 << 15, 1, 1 << 15, 1]);
    let path = [&[0][..], &claim(&[millions])].concat();
    let nested = claim(&[1, 70_001, 20, 1, 0, 25, millions, 1]);
    let field = Field::new("words".into(), Type::TEXT_ARRAY);
    let composite = Type::new("words".into(), 70_000, Kind::Composite(vec![field]), "a".into());
    let hstore = Type::new("hstore".into(), 70_002, Kind::Simple, "public".into());
    let cases = [
        read_case::<Vec<Option<String>>>(&Type::TEXT_ARRAY, &array),
        read_case::<postgres_array::Array<Option<String>>>(&Type::TEXT_ARRAY, &flat),
        read_case::<Vec<Numeric>>(&Type::NUMERIC_ARRAY, &array),
        read_case::<geo_types::LineString<f64>>(&Type::PATH, &path),
        read_case::<Words>(&composite, &nested),
        read_case::<HashMap<String, Option<String>>>(&hstore, &claim(&[millions])),
        read_case::<Multirange<i32>>(&Type::INT4MULTI_RANGE, &claim(&[millions])),
    ];
    for case in &cases {
        let column = column(&case.type_);
        let info = measure(|| {
            let error = (case.read)(&column, &case.sample).expect("it is refused");
            assert!(error.to_string().ends_with("it ends too early"), "{error}");
        });
        assert!(info.bytes_max < CONSTANT, "{} bytes for {}", info.bytes_max, case.type_);
    }
}

#[test]
fn mutated_values_neither_panic_nor_take_memory() {
    let seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let mut random = Random(seed.as_nanos() as u64);
    println!("seed {}", random.0);
    for case in cases() {
        let column = column(&case.type_);
        for _ in 0..1_500 {
            let value = random.mutate(&case.sample);
            let mut panicked = false;
            let info = measure(|| {
                let read = || drop((case.read)(&column, &value));
                panicked = catch_unwind(AssertUnwindSafe(read)).is_err();
            });
            assert!(!panicked, "{} panics for {value:?}", case.type_);
            let bytes_max = CONSTANT + case.factor * value.len() as u64;
            let taken = info.bytes_max;
            assert!(taken <= bytes_max, "{} takes {taken} bytes for {value:?}", case.type_);
        }
    }
}

#[derive(Debug, postgres_types::ToSql, postgres_types::FromSql)]
#[postgres(name = "words")]
struct Words {
    words: Vec<String>,
}

#[derive(Debug, postgres_types::ToSql, postgres_types::FromSql)]
#[postgres(name = "mood")]
enum Mood {
    Glad,
}

#[derive(Debug, postgres_types::ToSql, postgres_types::FromSql)]
#[postgres(name = "person")]
struct Person {
    name: String,
    moods: Vec<Option<Mood>>,
    fee: Option<Fee>,
    at: Range<Interval>,
}

#[derive(Debug, postgres_types::ToSql, postgres_types::FromSql)]
#[postgres(name = "fee")]
struct Fee(Numeric);

fn cases() -> Vec<Case> {
    [plain_cases(), our_cases(), learned_cases(), crate_cases()].into_iter().flatten().collect()
}

fn plain_cases() -> Vec<Case> {
    vec![
        case(&Type::INT4, 7),
        case(&Type::BOOL, true),
        case(&Type::TEXT, "grüße".to_owned()),
        case(&Type::BYTEA, vec![1_u8, 2, 3]),
        case(&Type::INET, IpAddr::from([10, 0, 0, 1])),
        case(&Type::PG_LSN, PgLsn::from(7)),
        case(&Type::TIMESTAMPTZ, SystemTime::UNIX_EPOCH),
        case(&Type::INT4_ARRAY, vec![Some(1), None, Some(3)]),
        case(&Type::TEXT_ARRAY, vec!["a".to_owned(), "bcd".to_owned()]),
        case(&Type::INT4_ARRAY, [1, 2, 3]),
    ]
}

fn our_cases() -> Vec<Case> {
    let numeric = |text: &str| text.parse::<Numeric>().expect("a number");
    let ranges = || vec![Range::from(1..5), Range::Empty, Range::from(..)];
    vec![
        case(&Type::NUMERIC, numeric("-12345678901234567890.00012300")),
        case(&Type::NUMERIC, numeric(&"1234567890".repeat(20))),
        case(&Type::NUMERIC, Numeric::NAN),
        case(&Type::NUMERIC_ARRAY, vec![numeric("1.5"), numeric("0.00")]),
        case(&Type::INTERVAL, Interval::new(1, 2, 3)),
        case(&Type::TIMETZ, TimeTz { microseconds: 1, utc_offset: 3600 }),
        case(&Type::MONEY, Money(5)),
        case(&Type::INT4_RANGE, Range::from(1..5)),
        case(&Type::NUM_RANGE, Range::from(numeric("1.5")..)),
        case(&Type::INT4_RANGE_ARRAY, ranges()),
        case(&Type::INT4MULTI_RANGE, Multirange::from(ranges())),
        read_case::<AsText<String>>(&Type::JSONB, b"\x01{\"a\": 1}"),
        read_case::<AsText<String>>(&Type::XML, b"<a/>"),
    ]
}

fn learned_cases() -> Vec<Case> {
    let new = |name: &str, oid, kind| Type::new(name.to_owned(), oid, kind, "public".to_owned());
    let mood = new("mood", 70_000, Kind::Enum(vec!["Glad".into()]));
    let moods = new("_mood", 70_001, Kind::Array(mood.clone()));
    let fee = new("fee", 70_002, Kind::Domain(Type::NUMERIC));
    let times = new("times", 70_003, Kind::Range(Type::INTERVAL));
    let fields = [("name", Type::TEXT), ("moods", moods), ("fee", fee), ("at", times)];
    let fields = fields.map(|(name, type_)| Field::new(name.to_owned(), type_)).to_vec();
    let person = new("person", 70_004, Kind::Composite(fields));
    let words = Field::new("words".to_owned(), Type::TEXT_ARRAY);
    let words = new("words", 70_005, Kind::Composite(vec![words]));
    let worded = new("worded", 70_006, Kind::Range(words.clone()));
    let value = Person {
        name: "Ada".to_owned(),
        moods: vec![Some(Mood::Glad), None],
        fee: Some(Fee(Numeric::from(7))),
        at: Range::from(Interval::default()..Interval::new(1, 0, 0)),
    };
    let said = |word: &str| Words { words: vec![word.to_owned()] };
    vec![
        case(&mood, Mood::Glad),
        case(&person, value),
        case(&worded, Range::from(said("a")..said("b"))),
    ]
}

fn crate_cases() -> Vec<Case> {
    let hstore = Type::new("hstore".into(), 70_007, Kind::Simple, "public".into());
    let pairs = HashMap::from([("a".to_owned(), Some("b".to_owned())), ("c".to_owned(), None)]);
    let json = serde_json::json!({"a": [1, "b", null]});
    let line: geo_types::LineString<f64> = vec![(1.0, 2.0), (3.0, 4.0)].into();
    let point = geo_types::Point::new(1.0, 2.0);
    let timestamp = [0_u8; 8];
    // We can't bound the memory that these take.
    let unbounded = |case: Case| Case { factor: 1 << 20, ..case };
    vec![
        case(&hstore, pairs),
        case(&Type::PATH, line),
        case(&Type::POINT, point),
        case(&Type::BOX, geo_types::Rect::new((1.0, 2.0), (3.0, 4.0))),
        case(&Type::INT4_ARRAY, postgres_array::Array::from_vec(vec![Some(1), None], 1)),
        case(&Type::VARBIT, bit_vec::BitVec::from_bytes(&[5, 6])),
        case(&Type::UUID, uuid::Uuid::from_bytes([7; 16])),
        case(&Type::MACADDR, eui48::MacAddress::new([7; 6])),
        read_case::<cidr::IpCidr>(&Type::CIDR, &[2, 24, 1, 4, 10, 0, 0, 0]),
        read_case::<cidr::IpInet>(&Type::INET, &[2, 24, 0, 4, 10, 0, 0, 1]),
        case(&Type::NUMERIC, AsNumeric(rust_decimal::Decimal::new(-12_345, 2))),
        unbounded(case(&Type::JSONB, json.clone())),
        unbounded(case(&Type::JSON, Json(json))),
        read_case::<chrono::NaiveDateTime>(&Type::TIMESTAMP, &timestamp),
        read_case::<chrono::DateTime<chrono::Utc>>(&Type::TIMESTAMPTZ, &timestamp),
        read_case::<chrono::NaiveDate>(&Type::DATE, &timestamp[..4]),
        read_case::<chrono::NaiveTime>(&Type::TIME, &timestamp),
        read_case::<jiff::Timestamp>(&Type::TIMESTAMPTZ, &timestamp),
        read_case::<jiff::civil::DateTime>(&Type::TIMESTAMP, &timestamp),
        read_case::<jiff::civil::Date>(&Type::DATE, &timestamp[..4]),
        read_case::<jiff::civil::Time>(&Type::TIME, &timestamp),
        read_case::<time::OffsetDateTime>(&Type::TIMESTAMPTZ, &timestamp),
        read_case::<time::PrimitiveDateTime>(&Type::TIMESTAMP, &timestamp),
        read_case::<time::Date>(&Type::DATE, &timestamp[..4]),
        read_case::<time::Time>(&Type::TIME, &timestamp),
    ]
}

/// Numbers from a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    /// The value with a few random changes.
    fn mutate(&mut self, value: &[u8]) -> Vec<u8> {
        let mut value = value.to_vec();
        for _ in 0..=self.below(3) {
            self.change(&mut value);
        }
        value
    }

    fn change(&mut self, value: &mut Vec<u8>) {
        const NUMBERS: [i32; 8] = [0, 1, -1, 7, 1 << 16, 1 << 28, i32::MAX, i32::MIN];
        let at = self.below(value.len() + 1);
        match self.below(5) {
            0 => value.truncate(at),
            1 => value.insert(at, self.below(256) as u8),
            2 if at < value.len() => drop(value.remove(at)),
            3 if at < value.len() => value[at] = self.below(256) as u8,
            _ => {
                let number = NUMBERS[self.below(NUMBERS.len())].to_be_bytes();
                let end = value.len().min(at + number.len());
                value.splice(at..end, number);
            }
        }
    }
}
