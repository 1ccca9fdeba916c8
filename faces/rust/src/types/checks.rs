//! Checks, before a value is decoded, of the counts in it, and of times that not every Rust type
//! has.
//!
//! Many decoders reserve memory for as many elements as a value claims. So 20 bytes from a hostile
//! server could request gigabytes, and end the process. A value that claims more elements than its
//! bytes have room for is refused here.

use postgres_types::{Kind, Type};

use super::ValueError;
use super::reader::Reader;
use super::times::{check_read, has_times};

/// Whether values of a type are checked before they are decoded.
pub(crate) fn is_checked(type_: &Type) -> bool {
    has_counts(type_) || has_times(type_)
}

/// Whether values of a type contain a number of parts, or contain values that do.
fn has_counts(type_: &Type) -> bool {
    match type_.kind() {
        Kind::Array(_) | Kind::Multirange(_) | Kind::Composite(_) => true,
        Kind::Domain(of) | Kind::Range(of) => has_counts(of),
        _ => matches!(*type_, Type::PATH | Type::POLYGON) || type_.name() == "hstore",
    }
}

/// Refuses a value whose counts can't be true, or a time that the Rust type would misread.
pub(crate) fn check(type_: &Type, raw: &[u8], rust_type: &str) -> Result<(), ValueError> {
    let reader = Reader::new(raw);
    match type_.kind() {
        Kind::Array(of) => check_array(of, reader, rust_type),
        Kind::Composite(fields) => {
            check_composite(fields.iter().map(|field| field.type_()), reader, rust_type)
        }
        Kind::Domain(of) => check(of, raw, rust_type),
        Kind::Range(of) if is_checked(of) => check_range(of, reader, rust_type),
        Kind::Multirange(of) => check_multirange(of, reader, rust_type),
        _ if *type_ == Type::PATH => check_points(reader, 1),
        _ if *type_ == Type::POLYGON => check_points(reader, 0),
        _ if type_.name() == "hstore" => check_pairs(reader),
        _ => check_read(type_, raw, rust_type),
    }
}

/// The lengths of an array's dimensions. Each is followed by a lower bound.
pub(super) fn dimensions(reader: &mut Reader<'_>) -> Result<Vec<i32>, ValueError> {
    /// MAXDIM in src/include/utils/array.h.
    const DIMENSIONS_MAX: usize = 6;
    let count = reader.count(8)?;
    let (_has_null, _element) = (reader.i32()?, reader.i32()?);
    if count > DIMENSIONS_MAX {
        return Err(ValueError::new("it has more than six dimensions"));
    }
    let dimension = |_| Ok((reader.i32()?, reader.i32()?).0);
    (0..count).map(dimension).collect()
}

fn check_array(of: &Type, mut reader: Reader<'_>, rust_type: &str) -> Result<(), ValueError> {
    let dimensions = dimensions(&mut reader)?;
    let mut count = i64::from(!dimensions.is_empty());
    for len in dimensions {
        // Each length was checked against the bytes left, so the product can't overflow.
        count = reader.room_for(count * i64::from(len), 4)? as i64;
    }
    let nested = if is_checked(of) { count } else { 0 };
    (0..nested).try_for_each(|_| check_part(of, &mut reader, rust_type))
}

fn check_part(of: &Type, reader: &mut Reader<'_>, rust_type: &str) -> Result<(), ValueError> {
    reader.value()?.map_or(Ok(()), |value| check(of, value, rust_type))
}

fn check_composite<'a>(
    fields: impl Iterator<Item = &'a Type>,
    mut reader: Reader<'_>,
    rust_type: &str,
) -> Result<(), ValueError> {
    reader.count(8)?;
    for type_ in fields {
        let _oid = reader.i32()?;
        check_part(type_, &mut reader, rust_type)?;
    }
    Ok(())
}

fn check_range(of: &Type, mut reader: Reader<'_>, rust_type: &str) -> Result<(), ValueError> {
    let _flags = reader.u8()?;
    while !reader.rest().is_empty() {
        check_part(of, &mut reader, rust_type)?;
    }
    Ok(())
}

fn check_multirange(of: &Type, mut reader: Reader<'_>, rust_type: &str) -> Result<(), ValueError> {
    let count = reader.count(5)?;
    let nested = if is_checked(of) { count } else { 0 };
    (0..nested).try_for_each(|_| {
        reader.value()?.map_or(Ok(()), |range| check_range(of, Reader::new(range), rust_type))
    })
}

/// Points, behind some bytes; each is two numbers.
fn check_points(mut reader: Reader<'_>, bytes_before: usize) -> Result<(), ValueError> {
    for _ in 0..bytes_before {
        reader.u8()?;
    }
    reader.count(16).map(drop)
}

/// Keys and values, each with its length in front.
fn check_pairs(mut reader: Reader<'_>) -> Result<(), ValueError> {
    reader.count(8).map(drop)
}
