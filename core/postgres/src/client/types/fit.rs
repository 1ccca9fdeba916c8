//! Whether a reply is what its client has remembered. A table, a function or a composite may have
//! been changed by anybody since: what came says which types it has, and what was learned before
//! does not count against that.

use super::kinds::{Kind, Type, Types};
use crate::binary::{Malformed, Parts, array, range};
use crate::message::Format;

/// Whether the columns of a reply can be read as they were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fit {
    /// They can.
    Fits,
    /// The server is to be asked first what these types are.
    Unknown(Vec<u32>),
    /// The column at this place came in a form in which its type is not read, so its text must not
    /// be taken for a value, nor its bytes for a text.
    Misfit(usize),
}

/// Looks at the columns of a reply: the types that the server says of them, the forms in which they
/// were asked for (none: all are binary), and the form that this side reads of a type.
///
/// A type that the server was asked about and does not know stays unknown: `is_told` says that it
/// was asked, and then it is one without a form but its text.
pub fn fit(
    types: &Types,
    (columns, asked): (&[u32], &[Format]),
    is_told: bool,
    reads: impl Fn(&Type) -> Format,
) -> Fit {
    let missing = if is_told { Vec::new() } else { types.missing(columns) };
    if !missing.is_empty() {
        return Fit::Unknown(missing);
    }
    let fits = |(place, oid): (usize, &u32)| {
        let asked = asked.get(place).copied().unwrap_or(Format::Binary);
        let type_ = types.get(*oid);
        reads(&type_) == asked || type_.has_one_form()
    };
    match columns.iter().enumerate().position(|column| !fits(column)) {
        Some(place) => Fit::Misfit(place),
        None => Fit::Fits,
    }
}

/// Whether a value may hold composites, which say on the wire what they consist of.
pub fn may_be_outdated(type_: &Type) -> bool {
    match &type_.kind {
        Kind::Composite(_) => true,
        Kind::Domain(of) | Kind::Array(of) | Kind::Range(of) | Kind::Multirange(of) => {
            may_be_outdated(of)
        }
        Kind::Own(codec) => may_be_outdated(&codec.base),
        _ => false,
    }
}

/// The composite in a value in its binary form that has other attributes than were learned; none if
/// all are as learned. A value that is malformed is said to be so by its reader.
pub fn outdated(type_: &Type, value: &[u8]) -> Option<u32> {
    find(type_, value).unwrap_or(None)
}

fn find(type_: &Type, value: &[u8]) -> Result<Option<u32>, Malformed> {
    match &type_.kind {
        _ if !may_be_outdated(type_) => Ok(None),
        Kind::Own(codec) => find(&codec.base, value),
        Kind::Domain(of) => find(of, value),
        Kind::Array(of) => {
            let (_, _, mut elements) = array::read(value)?;
            while !elements.0.is_empty() {
                if let Some(oid) = part(of, elements.part()?)? {
                    return Ok(Some(oid));
                }
            }
            Ok(None)
        }
        Kind::Range(of) => bounds(of, value),
        Kind::Multirange(of) => {
            let mut ranges = Parts(value);
            for _ in 0..ranges.count(4)? {
                if let Some(oid) = bounds(of, ranges.some()?)? {
                    return Ok(Some(oid));
                }
            }
            Ok(None)
        }
        Kind::Composite(fields) => {
            let mut parts = Parts(value);
            if parts.count(8)? != fields.len() {
                return Ok(Some(type_.oid));
            }
            for (_, of) in fields {
                if parts.i32()?.cast_unsigned() != of.oid {
                    return Ok(Some(type_.oid));
                }
                if let Some(oid) = part(of, parts.part()?)? {
                    return Ok(Some(oid));
                }
            }
            Ok(None)
        }
        _ => Ok(None),
    }
}

fn part(of: &Type, value: Option<&[u8]>) -> Result<Option<u32>, Malformed> {
    value.map_or(Ok(None), |value| find(of, value))
}

fn bounds(of: &Type, value: &[u8]) -> Result<Option<u32>, Malformed> {
    let range = range::read(value)?;
    Ok(part(of, range.lower.0)?.or(part(of, range.upper.0)?))
}

#[cfg(test)]
mod tests;
