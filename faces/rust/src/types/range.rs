//! Ranges and multiranges of any type.

mod multirange;
mod text;
mod wire;

use std::ops::{self, Bound};

pub use multirange::Multirange;

/// A range of PostgreSQL: all values between two bounds, each of which is included, excluded or
/// absent; or empty.
///
/// It converts to and from the range type over any type that `T` converts to and from: the built-in
/// range types, and those made by `create type … as range`.
///
/// ```
/// use std::ops::Bound;
/// use onetrip::types::Range;
///
/// let ids = Range::from(1..10);
/// assert_eq!(ids.to_string(), "[1,10)");
/// assert_eq!(ids, "[1,10)".parse()?);
/// assert!(ids.contains(&9) && !ids.contains(&10));
/// assert_eq!(Range::new(Bound::Excluded(5), Bound::Unbounded).to_string(), "(5,)");
/// # Ok::<_, onetrip::types::ValueError>(())
/// ```
///
/// Two ranges are equal if their bounds are. The server normalizes ranges of integers and dates
/// (`[1,5]` becomes `[1,6)`), and refuses a range whose lower bound is above the upper one. This
/// type does neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Range<T> {
    /// The range contains nothing.
    Empty,
    /// All values between these bounds.
    Bounds {
        /// The lower bound.
        lower: Bound<T>,
        /// The upper bound.
        upper: Bound<T>,
    },
}

impl<T> Range<T> {
    /// A range with these bounds.
    pub const fn new(lower: Bound<T>, upper: Bound<T>) -> Range<T> {
        Range::Bounds { lower, upper }
    }

    /// Whether it is [`Empty`](Range::Empty). A range whose bounds exclude every value is not
    /// recognized as empty here; the server would turn it into the empty range.
    pub fn is_empty(&self) -> bool {
        matches!(self, Range::Empty)
    }

    /// The lower bound; `None` for an empty range.
    pub fn lower(&self) -> Option<&Bound<T>> {
        match self {
            Range::Empty => None,
            Range::Bounds { lower, .. } => Some(lower),
        }
    }

    /// The upper bound; `None` for an empty range.
    pub fn upper(&self) -> Option<&Bound<T>> {
        match self {
            Range::Empty => None,
            Range::Bounds { upper, .. } => Some(upper),
        }
    }

    /// Whether it contains a value.
    pub fn contains(&self, value: &T) -> bool
    where
        T: PartialOrd,
    {
        match self {
            Range::Empty => false,
            Range::Bounds { lower, upper } => {
                ops::RangeBounds::contains(&(lower.as_ref(), upper.as_ref()), value)
            }
        }
    }

    /// Converts the bounds by a function.
    pub fn map<U>(self, mut f: impl FnMut(T) -> U) -> Range<U> {
        match self {
            Range::Empty => Range::Empty,
            Range::Bounds { lower, upper } => Range::new(lower.map(&mut f), upper.map(&mut f)),
        }
    }
}

impl<T> From<ops::Range<T>> for Range<T> {
    fn from(range: ops::Range<T>) -> Range<T> {
        Range::new(Bound::Included(range.start), Bound::Excluded(range.end))
    }
}

impl<T> From<ops::RangeInclusive<T>> for Range<T> {
    fn from(range: ops::RangeInclusive<T>) -> Range<T> {
        let (start, end) = range.into_inner();
        Range::new(Bound::Included(start), Bound::Included(end))
    }
}

impl<T> From<ops::RangeFrom<T>> for Range<T> {
    fn from(range: ops::RangeFrom<T>) -> Range<T> {
        Range::new(Bound::Included(range.start), Bound::Unbounded)
    }
}

impl<T> From<ops::RangeTo<T>> for Range<T> {
    fn from(range: ops::RangeTo<T>) -> Range<T> {
        Range::new(Bound::Unbounded, Bound::Excluded(range.end))
    }
}

impl<T> From<ops::RangeToInclusive<T>> for Range<T> {
    fn from(range: ops::RangeToInclusive<T>) -> Range<T> {
        Range::new(Bound::Unbounded, Bound::Included(range.end))
    }
}

impl<T> From<ops::RangeFull> for Range<T> {
    fn from(_: ops::RangeFull) -> Range<T> {
        Range::new(Bound::Unbounded, Bound::Unbounded)
    }
}

impl<T> From<(Bound<T>, Bound<T>)> for Range<T> {
    fn from((lower, upper): (Bound<T>, Bound<T>)) -> Range<T> {
        Range::new(lower, upper)
    }
}

#[cfg(test)]
mod tests;
