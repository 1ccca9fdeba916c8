//! The types, and how each is read. Add new ones at the end: the inputs of the corpus refer to a
//! type by its place in the list.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::SystemTime;

use bytes::BytesMut;
use onetrip::types::{
    AsNumeric, AsText, Format, FromSql, Interval, IsNull, Json, Money, Multirange, Numeric, PgLsn,
    Range, TimeTz, Timestamp, ToSql, Type,
};
use onetrip::{Error, RowRef};

use super::types::{Mood, Person, Words, hstore, mood, person, worded, words};
use crate::input::show_debug;

type Reader = fn(&RowRef<'_>, usize) -> Result<(), Error>;

/// A PostgreSQL type, and every way to read it that is tested.
pub(crate) struct Case {
    pub(crate) type_: fn() -> Type,
    pub(super) readers: &'static [Reader],
}

/// The ways to read a column in the text format.
pub(super) const TEXT: &[Reader] = &[round::<String>, read::<AsText<String>>, read::<Vec<u8>>];

macro_rules! cases {
    ($($type_:expr => [$($reader:expr),* $(,)?],)*) => {
        &[$(Case { type_: || $type_, readers: &[$($reader),*] }),*]
    };
}

/// All of them.
pub(crate) const TYPES: &[Case] = cases! {
    Type::BOOL => [round::<bool>, read::<Option<bool>>, read::<i32>],
    Type::CHAR => [round::<i8>],
    Type::INT2 => [round::<i16>],
    Type::INT4 => [round::<i32>, round::<Option<i32>>],
    Type::INT8 => [round::<i64>],
    Type::OID => [round::<u32>],
    Type::FLOAT4 => [round::<f32>],
    Type::FLOAT8 => [round::<f64>],
    Type::TEXT => [round::<String>, round::<Option<String>>, read::<Box<str>>, read::<smol_str::SmolStr>],
    Type::NAME => [round::<String>],
    Type::BYTEA => [round::<Vec<u8>>],
    Type::INET => [round::<IpAddr>, read::<cidr::IpInet>],
    Type::CIDR => [read::<cidr::IpCidr>],
    Type::PG_LSN => [round::<PgLsn>],
    Type::TIMESTAMP => [
        system_time,
        round::<chrono::NaiveDateTime>,
        round::<jiff::civil::DateTime>,
        round::<time::PrimitiveDateTime>,
    ],
    Type::TIMESTAMPTZ => [
        system_time,
        round::<chrono::DateTime<chrono::Utc>>,
        round::<jiff::Timestamp>,
        round::<time::OffsetDateTime>,
    ],
    Type::DATE => [round::<chrono::NaiveDate>, round::<jiff::civil::Date>, round::<time::Date>],
    Type::TIME => [round::<chrono::NaiveTime>, round::<jiff::civil::Time>, round::<time::Time>],
    Type::TIMETZ => [round::<TimeTz>],
    Type::INTERVAL => [round::<Interval>],
    Type::MONEY => [round::<Money>],
    Type::NUMERIC => [
        round::<Numeric>,
        round::<AsNumeric<i64>>,
        round::<AsNumeric<rust_decimal::Decimal>>,
        read::<AsNumeric<bigdecimal::BigDecimal>>,
    ],
    Type::NUMERIC_ARRAY => [round::<Vec<Numeric>>, round::<Vec<Option<Numeric>>>],
    Type::INT4_ARRAY => [
        round::<Vec<i32>>,
        round::<Vec<Option<i32>>>,
        read::<[i32; 3]>,
        round::<postgres_array::Array<Option<i32>>>,
    ],
    Type::TEXT_ARRAY => [round::<Vec<Option<String>>>, round::<postgres_array::Array<String>>],
    Type::INT4_RANGE => [round::<Range<i32>>],
    Type::NUM_RANGE => [round::<Range<Numeric>>],
    Type::TS_RANGE => [round::<Range<chrono::NaiveDateTime>>],
    Type::INT4_RANGE_ARRAY => [round::<Vec<Range<i32>>>],
    Type::INT4MULTI_RANGE => [round::<Multirange<i32>>],
    Type::NUMMULTI_RANGE => [round::<Multirange<Numeric>>],
    Type::JSON => [read::<serde_json::Value>, read::<Json<Vec<i32>>>, round::<AsText<String>>],
    Type::JSONB => [read::<serde_json::Value>, round::<AsText<String>>],
    Type::XML => [read::<AsText<String>>],
    Type::UUID => [round::<uuid::Uuid>],
    Type::MACADDR => [round::<eui48::MacAddress>],
    Type::VARBIT => [round::<bit_vec::BitVec>],
    Type::POINT => [round::<geo_types::Point<f64>>],
    Type::BOX => [round::<geo_types::Rect<f64>>],
    Type::PATH => [round::<geo_types::LineString<f64>>],
    Type::POLYGON => [read::<geo_types::LineString<f64>>, read::<Vec<u8>>],
    mood() => [round::<Mood>],
    words() => [round::<Words>],
    worded() => [round::<Range<Words>>],
    person() => [round::<Person>],
    hstore() => [read::<HashMap<String, Option<String>>>],
};

fn read<T: for<'a> FromSql<'a> + std::fmt::Debug>(
    row: &RowRef<'_>,
    index: usize,
) -> Result<(), Error> {
    row.try_get::<T>(index).map(show_debug)
}

/// A value that was read can be written. The bytes may differ, but they must mean the same value.
fn round<T>(row: &RowRef<'_>, index: usize) -> Result<(), Error>
where
    T: for<'a> FromSql<'a> + ToSql + std::fmt::Debug,
{
    let value = row.try_get::<T>(index)?;
    show_debug(&value);
    let column = &row.columns()[index];
    let type_ = if column.is_text() { &Type::TEXT } else { column.type_() };
    let Some(written) = write(&value, type_) else { return Ok(()) };
    let again = T::from_sql_nullable(type_, written.as_deref()).expect("it was written so");
    assert_eq!(write(&again, type_), Some(written), "{type_}: {value:?}");
    Ok(())
}

/// `postgres-types` reads `-infinity` as a time that it can't write again: negating it overflows.
fn system_time(row: &RowRef<'_>, index: usize) -> Result<(), Error> {
    read::<SystemTime>(row, index)?;
    match row.try_get::<Timestamp<SystemTime>>(index)? {
        Timestamp::Value(_) => round::<SystemTime>(row, index),
        infinite => {
            show_debug(infinite);
            Ok(())
        }
    }
}

/// Writes a value. `Some(None)` is NULL. `None` means that the value can't be written, or that it
/// is written as text and would be read as another type.
fn write<T: ToSql>(value: &T, type_: &Type) -> Option<Option<BytesMut>> {
    if matches!(value.encode_format(type_), Format::Text) {
        return None;
    }
    let mut out = BytesMut::new();
    match value.to_sql_checked(type_, &mut out) {
        Ok(IsNull::Yes) => Some(None),
        Ok(IsNull::No) => Some(Some(out)),
        Err(_) => None,
    }
}
