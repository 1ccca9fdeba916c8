//! Ranges: what their flags say (src/include/utils/rangetypes.h).

use super::{Malformed, Parts};

/// RANGE_EMPTY: the range has no values, and no bounds.
pub const EMPTY: u8 = 1;
const LOWER_INCLUSIVE: u8 = 2;
const UPPER_INCLUSIVE: u8 = 4;
const LOWER_INFINITE: u8 = 8;
const UPPER_INFINITE: u8 = 16;

/// A range. A bound that is `None` is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range<'a> {
    /// Whether it has no values.
    pub is_empty: bool,
    /// The binary form of the lower bound, and whether it belongs to the range.
    pub lower: (Option<&'a [u8]>, bool),
    /// The same of the upper bound.
    pub upper: (Option<&'a [u8]>, bool),
}

/// Reads the binary form.
///
/// # Errors
/// A bound is missing, or runs past the end.
pub fn read(value: &[u8]) -> Result<Range<'_>, Malformed> {
    let (flags, rest) = value.split_first().ok_or(Malformed)?;
    let mut parts = Parts(rest);
    let mut bound = |infinite: u8, inclusive: u8| {
        let is_there = flags & (infinite | EMPTY) == 0;
        let bound = if is_there { parts.part()? } else { None };
        Ok((bound, flags & inclusive != 0))
    };
    let lower = bound(LOWER_INFINITE, LOWER_INCLUSIVE)?;
    let upper = bound(UPPER_INFINITE, UPPER_INCLUSIVE)?;
    Ok(Range { is_empty: flags & EMPTY != 0, lower, upper })
}

/// The flags of a range that is not empty. Of each bound: whether it belongs to the range, or
/// `None` where it is not there. The bounds that are there follow, as [`put`](super::put) appends
/// them.
pub fn flags(lower: Option<bool>, upper: Option<bool>) -> u8 {
    let flag = |bound: Option<bool>, inclusive, infinite| match bound {
        None => infinite,
        Some(true) => inclusive,
        Some(false) => 0,
    };
    flag(lower, LOWER_INCLUSIVE, LOWER_INFINITE) | flag(upper, UPPER_INCLUSIVE, UPPER_INFINITE)
}
