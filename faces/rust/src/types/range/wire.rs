//! The binary form of ranges and multiranges, as range_send and multirange_send in
//! src/backend/utils/adt/rangetypes.c and multirangetypes.c write it.

use std::ops::Bound;

use bytes::{BufMut, BytesMut};
use postgres_types::{FromSql, IsNull, Kind, ToSql, Type, WrongType, to_sql_checked};

use super::{Multirange, Range};
use crate::types::ValueError;
use crate::types::error::BoxError;
use crate::types::reader::Reader;

// RANGE_EMPTY and the like in src/include/utils/rangetypes.h.
const EMPTY: u8 = 0x01;
const LOWER_INCLUDED: u8 = 0x02;
const UPPER_INCLUDED: u8 = 0x04;
const LOWER_UNBOUNDED: u8 = 0x08;
const UPPER_UNBOUNDED: u8 = 0x10;

impl<'a, T: FromSql<'a>> FromSql<'a> for Range<T> {
    fn from_sql(type_: &Type, raw: &'a [u8]) -> Result<Range<T>, BoxError> {
        let Kind::Range(of) = type_.kind() else {
            return Err(Box::new(WrongType::new::<Range<T>>(type_.clone())));
        };
        read(of, raw)
    }

    fn accepts(type_: &Type) -> bool {
        matches!(type_.kind(), Kind::Range(of) if T::accepts(of))
    }
}

fn read<'a, T: FromSql<'a>>(of: &Type, raw: &'a [u8]) -> Result<Range<T>, BoxError> {
    let mut reader = Reader::new(raw);
    let flags = reader.u8()?;
    if flags & EMPTY != 0 {
        reader.end()?;
        return Ok(Range::Empty);
    }
    let mut bound = |unbounded: u8, included: u8| -> Result<Bound<T>, BoxError> {
        if flags & unbounded != 0 {
            return Ok(Bound::Unbounded);
        }
        let value = reader.value()?.ok_or(NULL_BOUND)?;
        let value = T::from_sql(of, value)?;
        Ok(if flags & included != 0 { Bound::Included(value) } else { Bound::Excluded(value) })
    };
    let lower = bound(LOWER_UNBOUNDED, LOWER_INCLUDED)?;
    let upper = bound(UPPER_UNBOUNDED, UPPER_INCLUDED)?;
    reader.end()?;
    Ok(Range::Bounds { lower, upper })
}

const NULL_BOUND: ValueError = ValueError::new("a bound is NULL, which no range can have");

impl<T: ToSql> ToSql for Range<T> {
    fn to_sql(&self, type_: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        let Kind::Range(of) = type_.kind() else {
            return Err(Box::new(WrongType::new::<Range<T>>(type_.clone())));
        };
        write(self, of, out)?;
        Ok(IsNull::No)
    }

    fn accepts(type_: &Type) -> bool {
        matches!(type_.kind(), Kind::Range(of) if T::accepts(of))
    }

    to_sql_checked!();
}

fn write<T: ToSql>(range: &Range<T>, of: &Type, out: &mut BytesMut) -> Result<(), BoxError> {
    let Range::Bounds { lower, upper } = range else {
        out.put_u8(EMPTY);
        return Ok(());
    };
    let flags = flag(lower, LOWER_INCLUDED, LOWER_UNBOUNDED);
    out.put_u8(flags | flag(upper, UPPER_INCLUDED, UPPER_UNBOUNDED));
    for bound in [lower, upper] {
        if let Bound::Included(value) | Bound::Excluded(value) = bound {
            behind_length(out, |out| match value.to_sql(of, out)? {
                IsNull::No => Ok(()),
                IsNull::Yes => Err(NULL_BOUND.into()),
            })?;
        }
    }
    Ok(())
}

fn flag<T>(bound: &Bound<T>, included: u8, unbounded: u8) -> u8 {
    match bound {
        Bound::Included(_) => included,
        Bound::Excluded(_) => 0,
        Bound::Unbounded => unbounded,
    }
}

/// Writes something, with its length in front.
fn behind_length(
    out: &mut BytesMut,
    write: impl FnOnce(&mut BytesMut) -> Result<(), BoxError>,
) -> Result<(), BoxError> {
    let at = out.len();
    out.put_i32(0);
    write(out)?;
    let len = i32::try_from(out.len() - at - 4).map_err(|_| TOO_LONG)?;
    out[at..at + 4].copy_from_slice(&len.to_be_bytes());
    Ok(())
}

const TOO_LONG: ValueError = ValueError::new("it is longer than a message can be");

/// The length of the shortest range: its length field and its flags.
const RANGE_LEN_MIN: usize = 5;

impl<'a, T: FromSql<'a>> FromSql<'a> for Multirange<T> {
    fn from_sql(type_: &Type, raw: &'a [u8]) -> Result<Multirange<T>, BoxError> {
        let Kind::Multirange(of) = type_.kind() else {
            return Err(Box::new(WrongType::new::<Multirange<T>>(type_.clone())));
        };
        let mut reader = Reader::new(raw);
        let count = reader.count(RANGE_LEN_MIN)?;
        let mut ranges = Vec::with_capacity(count);
        for _ in 0..count {
            ranges.push(read(of, reader.value()?.ok_or(NULL_BOUND)?)?);
        }
        reader.end()?;
        Ok(ranges.into())
    }

    fn accepts(type_: &Type) -> bool {
        matches!(type_.kind(), Kind::Multirange(of) if T::accepts(of))
    }
}

impl<T: ToSql> ToSql for Multirange<T> {
    fn to_sql(&self, type_: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        let Kind::Multirange(of) = type_.kind() else {
            return Err(Box::new(WrongType::new::<Multirange<T>>(type_.clone())));
        };
        out.put_i32(i32::try_from(self.len()).map_err(|_| TOO_LONG)?);
        for range in self {
            behind_length(out, |out| write(range, of, out))?;
        }
        Ok(IsNull::No)
    }

    fn accepts(type_: &Type) -> bool {
        matches!(type_.kind(), Kind::Multirange(of) if T::accepts(of))
    }

    to_sql_checked!();
}
